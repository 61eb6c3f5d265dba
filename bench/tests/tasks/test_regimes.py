import pytest
import torch

from ma_sbi_bench.tasks.regimes import random_directions
from tests.seeds import shifted_seeds


@pytest.mark.fixed_seeds
def test_the_directions_of_a_task_do_not_follow_the_offset_of_a_test_run():
    plain = random_directions(4, 3)
    with shifted_seeds(1):
        torch.testing.assert_close(random_directions(4, 3), plain, rtol=0, atol=0)
