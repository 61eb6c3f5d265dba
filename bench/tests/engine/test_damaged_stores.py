"""Whatever happens to the file of a cell, or to committed rows, costs itself alone."""

import pytest

from bench.tests.engine.damaged_stores import CASES, try_case


@pytest.mark.fixed_seeds
@pytest.mark.timeout(600)  # a pipe that is opened waits for ever
@pytest.mark.parametrize("name", CASES)
def test_damage_costs_itself_and_is_said(name, tmp_path):
    outcome, said = try_case(name, tmp_path)
    assert outcome == CASES[name].expected
    assert CASES[name].said in said
