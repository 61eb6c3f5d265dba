"""What the modules of a package import, read from their source.

Imports inside functions and under ``TYPE_CHECKING`` count like all others. A stub
``__init__.pyi`` counts as its package: names are loaded from it when first used.
"""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple


class Import(NamedTuple):
    """Module ``source`` imports module ``target``."""

    source: str
    target: str


def imports_of(package: Path) -> set[Import]:
    """Find all imports in a package; names of the package are traced to their module."""
    return {
        Import(_module(package, path), target)
        for path in _files(package)
        for target in _targets(package, path)
    }


def rooms_of(package: Path) -> set[str]:
    """Name the modules and folders directly below a package."""
    return {_room(package, _module(package, path)) for path in _files(package)} - {""}


def wrong_imports(package: Path, order: tuple[str, ...]) -> list[str]:
    """List the imports from a room to one that comes after it in the order."""
    place = {room: position for position, room in enumerate(order)}
    return [
        f"{source} imports {target}"
        for source, target in sorted(imports_of(package))
        if (here := _room(package, source)) and (there := _room(package, target))
        if place[here] < place[there]
    ]


def third_party(package: Path) -> set[str]:
    """Name the top-level modules of other packages that a package imports."""
    names = {target.split(".")[0] for _, target in imports_of(package)}
    return names - set(sys.stdlib_module_names) - {package.name}


def _files(package: Path) -> Iterator[Path]:
    yield from package.rglob("*.py")
    yield from package.rglob("*.pyi")


def _module(package: Path, path: Path) -> str:
    parts = path.relative_to(package.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _room(package: Path, module: str) -> str:
    """Name the room of a module; empty for the package itself and for others."""
    parts = module.split(".")
    return parts[1] if parts[0] == package.name and len(parts) > 1 else ""


def _targets(package: Path, path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = _absolute(
                node, _module(package, path), is_package=path.stem == "__init__"
            )
            yield from (_defining(package, module, alias.name) for alias in node.names)


def _absolute(node: ast.ImportFrom, source: str, *, is_package: bool) -> str:
    if node.level == 0:
        return node.module or ""
    up = node.level - 1 if is_package else node.level
    base = source.split(".")[: len(source.split(".")) - up]
    return ".".join([*base, *filter(None, [node.module])])


def _defining(package: Path, module: str, name: str) -> str:
    """Find the module that ``from module import name`` reads."""
    folder = package.parent.joinpath(*module.split("."))
    if (folder / name).is_dir() or (folder / f"{name}.py").exists():
        return f"{module}.{name}"
    stub = folder / "__init__.pyi"
    if stub.exists():
        for node in ast.parse(stub.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ImportFrom) and name in {a.name for a in node.names}:
                return _absolute(node, module, is_package=True)
    return module
