"""Shifts are as long as the page says, which says where each length is from."""

import re
from pathlib import Path

import pytest

from ma_sbi_bench.tasks import get_task

PAGE = Path(__file__).parents[3] / "docs" / "bench" / "tasks.md"
LENGTHS = re.findall(
    r"^\| `(\w+)` \| [^|]+ \| [^|]+ \| ([0-9.]+) \|",
    PAGE.read_text(encoding="utf-8"),
    re.MULTILINE,
)


def test_the_page_has_the_three_tasks_of_sbibm():
    assert [name for name, _ in LENGTHS] == ["gaussian_linear", "slcp", "two_moons"]


@pytest.mark.parametrize(("name", "length"), LENGTHS)
def test_every_regime_shifts_by_the_length_of_the_page(name, length):
    shifts = [regime.shift.norm().item() for regime in get_task(name).regimes]
    assert shifts == pytest.approx([float(length)] * 4, rel=1e-5)
