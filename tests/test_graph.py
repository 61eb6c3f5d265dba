"""The library's rooms import one way, and never the bench."""

from pathlib import Path

import ma_sbi
from tests.imports import imports_of, rooms_of, wrong_imports

PACKAGE = Path(ma_sbi.__file__).parent
# A room may import the rooms before it, so that there is no cycle.
ORDER = (
    "one_at_a_time",
    "schedulers",
    "threads",
    "writing",
    "display",
    "doubles",
    "telling",
    "labels",
    "validation",
    "randomness",
    "scaling",
    "nan",
    "protocols",
    "draws",
    "simulation",
    "networks",
    "saved",
    "saving",
    "storing",
    "context",
    "transforming",
    "minilm",
    "encoders",
    "reading",
    "correctors",
    "mixture",
    "posteriors",
    "choosing",
    "exceptions",
    "loading",
    "posterior",
    "metrics",
    "theory",
    "conformal_regions",
    "predictive",
    "diagnostics",
    "checking",
    "applying",
    "plots",
    "demo",
    "commands",
    "cli",
)


def test_every_room_has_its_place_in_the_order():
    assert rooms_of(PACKAGE) == set(ORDER)


def test_rooms_import_one_way():
    assert wrong_imports(PACKAGE, ORDER) == []


def test_the_library_never_imports_the_bench():
    assert [edge for edge in imports_of(PACKAGE) if "ma_sbi_bench" in edge.target] == []


def test_an_import_against_the_order_is_found(tmp_path):
    package = tmp_path / "house"
    (package / "roof").mkdir(parents=True)
    (package / "__init__.pyi").write_text("from .roof.tiles import Tile\n")
    (package / "roof" / "tiles.py").write_text("import os\nfrom ..walls import Wall\n")
    (package / "walls.py").write_text("def build():\n    from house import Tile\n")
    assert rooms_of(package) == {"roof", "walls"}
    found = wrong_imports(package, ("walls", "roof"))
    assert found == ["house.walls imports house.roof.tiles"]
