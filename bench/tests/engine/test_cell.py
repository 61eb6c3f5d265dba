"""Tests for ma_sbi_bench.engine.cell."""

import json
from dataclasses import asdict, fields, replace

import pytest

from ma_sbi_bench.engine.cell import Backbone, Cell

CELL = Cell(
    "main_results",
    2,
    "ma_sbi",
    task="slcp",
    backbone="ddpm",
    seed=3,
    num_calibration=500,
    observation=1,
    regime=0,
    settings={"draws": 500, "options": {"tau": 0.5, "rows": [1, 2]}, "form": None},
)
BACKBONE = Backbone("slcp", "maf", 1, 100_000, {"setting": "informative"}, {"epochs": 5})
OTHER = {
    "experiment": "compute",
    "version": 3,
    "method": "npe",
    "task": "ddm",
    "backbone": "maf",
    "seed": 4,
    "num_calibration": None,
    "observation": None,
    "regime": None,
    "settings": {"draws": 501},
    "world": "ddm",
    "kind": "ddpm",
    "num_simulations": 10_000,
    "world_options": {},
    "options": {"epochs": 6},
}


@pytest.mark.parametrize(
    ("thing", "key"),
    [(CELL, "e60ed2aca81e71b43e51"), (BACKBONE, "70d90497f0a6c89b278a")],
    ids=["cell", "posterior"],
)
def test_the_key_is_the_same_on_every_machine(thing, key):
    assert thing.key == key


@pytest.mark.parametrize("thing", [CELL, BACKBONE], ids=["cell", "posterior"])
def test_every_field_decides_the_key(thing):
    names = [one.name for one in fields(thing)]
    keys = {replace(thing, **{name: OTHER[name]}).key for name in names}
    assert len(keys | {thing.key}) == len(names) + 1


def test_the_order_of_settings_does_not_matter():
    options = {"rows": [1, 2], "tau": 0.5}
    settings = {"form": None, "options": options, "draws": 500}
    assert list(settings) != list(CELL.settings)
    assert replace(CELL, settings=settings).key == CELL.key


def test_the_key_survives_the_journey_through_json():
    with_tuple = replace(CELL, settings={"rows": (1, 2), "share": 0.1})
    again = Cell(**json.loads(json.dumps(asdict(with_tuple))))
    assert again.key == with_tuple.key


@pytest.mark.parametrize(
    "bad", [object(), {1, 2}, float("nan")], ids=["object", "set", "nan"]
)
def test_settings_that_json_cannot_say_are_refused(bad):
    with pytest.raises((TypeError, ValueError), match="JSON"):
        replace(CELL, settings={"bad": bad}).key  # noqa: B018 (reading it is the test)
