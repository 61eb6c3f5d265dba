"""How a description becomes cells."""

import pytest

from ma_sbi_bench.engine.budget import Budget
from ma_sbi_bench.trials.table import Block, Point, TrialTable, View

BLOCK = Block(
    [
        Point(("npe", "exact", "npe_rs")),
        Point(("ma_sbi",), {"num_calibration": 100}, quick=False),
    ],
    tasks=["gaussian_linear", "ddm"],
    backbones=["maf", "ddpm"],
    seeds=2,
    once=("exact",),
    not_quick={"ddpm": ("npe",)},
)


def listed(budget):
    return [
        (cell.seed, cell.task, cell.backbone, cell.method) for cell in BLOCK.cells(budget)
    ]


def test_a_full_run_has_every_point_on_every_task_with_every_backbone():
    # NPE-RS has a flow of its own, DDM no exact answer; that is there once.
    first = [
        ("gaussian_linear", "maf", "npe"),
        ("gaussian_linear", "maf", "exact"),
        ("gaussian_linear", "maf", "npe_rs"),
        ("gaussian_linear", "maf", "ma_sbi"),
        ("gaussian_linear", "ddpm", "npe"),
        ("gaussian_linear", "ddpm", "exact"),
        ("gaussian_linear", "ddpm", "ma_sbi"),
        ("ddm", "maf", "npe"),
        ("ddm", "maf", "npe_rs"),
        ("ddm", "maf", "ma_sbi"),
        ("ddm", "ddpm", "npe"),
        ("ddm", "ddpm", "ma_sbi"),
    ]
    second = [one for one in first if one[2] != "exact"]
    assert listed(Budget()) == [(0, *one) for one in first] + [(1, *one) for one in second]


def test_a_quick_run_has_one_seed_and_fewer_points():
    assert listed(Budget(quick=True)) == [
        (0, "gaussian_linear", "maf", "npe"),
        (0, "gaussian_linear", "maf", "exact"),
        (0, "gaussian_linear", "maf", "npe_rs"),
        (0, "gaussian_linear", "ddpm", "exact"),
        (0, "ddm", "maf", "npe"),
        (0, "ddm", "maf", "npe_rs"),
    ]


def test_settings_of_a_point_are_those_of_its_cells():
    sizes = {cell.method: cell.num_calibration for cell in BLOCK.cells(Budget())}
    assert sizes == {"npe": 500, "exact": 500, "npe_rs": 500, "ma_sbi": 100}


def test_a_description_cannot_be_changed():
    table = TrialTable(
        name="t", title="", place="", note="", grid=[BLOCK], views=[View("t")]
    )
    with pytest.raises(AttributeError, match="cannot assign"):
        table.name = "u"
    assert [cell.key for cell in table.cells(Budget())] == [
        cell.key for cell in BLOCK.cells(Budget())
    ]
