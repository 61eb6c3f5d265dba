"""What the report says of each experiment, in ``words.ini``."""

from __future__ import annotations

from configparser import ConfigParser
from functools import cache
from importlib.resources import files
from typing import Any

__all__ = ["captions", "named", "reasons"]

CAPTION = "caption."
WHY = "why."


def named(name: str) -> dict[str, Any]:
    """Give the name, title, place and note of an experiment, as its attributes."""
    words = _words()[name]
    return {"name": name} | {key: words.get(key, "") for key in ("title", "place", "note")}


def captions(name: str) -> dict[str, str]:
    """Give the caption of each figure of an experiment."""
    return _under(CAPTION, name)


def reasons(name: str) -> dict[str, str]:
    """Give what explains results of an experiment, by where they were found."""
    return _under(WHY, name)


def _under(prefix: str, name: str) -> dict[str, str]:
    words = _words()[name]
    return {key.removeprefix(prefix): words[key] for key in words if key.startswith(prefix)}


@cache
def _words() -> dict[str, dict[str, str]]:
    parser = ConfigParser(delimiters=("=",), interpolation=None)
    file = files("ma_sbi_bench.paper").joinpath("words.ini")
    parser.read_string(file.read_text(encoding="utf-8"))
    return {
        name: {key: " ".join(value.split()) for key, value in parser[name].items()}
        for name in parser.sections()
    }
