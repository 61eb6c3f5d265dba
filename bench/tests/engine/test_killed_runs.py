"""A run that is killed at any time is gone on with, to the same numbers."""

import pytest

from bench.tests.engine.killed_runs import kill_and_resume


@pytest.mark.slow
@pytest.mark.fixed_seeds
def test_a_run_that_was_killed_thrice_has_the_same_numbers(tmp_path):
    assert len(kill_and_resume(tmp_path, 3, seed=0)) == 3
