"""The bench's rooms import one way."""

from pathlib import Path

import ma_sbi_bench
from tests.imports import rooms_of, wrong_imports

PACKAGE = Path(ma_sbi_bench.__file__).parent
# A room may import the rooms before it, so that there is no cycle.
ORDER = (
    "tasks",
    "theory",
    "methods",
    "engine",
    "paper",
    "plots",
    "real",
    "trials",
    "tables",
    "report",
    "cli",
)


def test_every_room_has_its_place_in_the_order():
    assert rooms_of(PACKAGE) == set(ORDER)


def test_rooms_import_one_way():
    assert wrong_imports(PACKAGE, ORDER) == []
