"""Worlds with a known answer, to test corrections in."""

from __future__ import annotations

from typing import Any

from ma_sbi_bench.tasks.base import Draws, Regime, Setting, ShiftRegime, ShiftTask, Task
from ma_sbi_bench.tasks.continuous_slcp import ContinuousSLCP
from ma_sbi_bench.tasks.ddm import DDM, DDMTrials, ddm_log_density
from ma_sbi_bench.tasks.gaussian_linear import GaussianLinear
from ma_sbi_bench.tasks.sir_delay import SIRDelay
from ma_sbi_bench.tasks.slcp import SLCP
from ma_sbi_bench.tasks.two_moons import TwoMoons

__all__ = [
    "DDM",
    "SLCP",
    "TASKS",
    "ContinuousSLCP",
    "DDMTrials",
    "Draws",
    "GaussianLinear",
    "Regime",
    "Setting",
    "SIRDelay",
    "ShiftRegime",
    "ShiftTask",
    "Task",
    "TwoMoons",
    "ddm_log_density",
    "get_task",
]

TASKS: dict[str, type[Task]] = {
    task.name: task
    for task in (GaussianLinear, SLCP, ContinuousSLCP, TwoMoons, DDM, DDMTrials, SIRDelay)
}


def get_task(name: str, **options: Any) -> Task:
    """Make a task by its name.

    Args:
        name: One of the keys of ``TASKS``.
        **options: Passed on, for example ``setting`` or ``shift_length``.

    Returns:
        The task.

    Raises:
        ValueError: If there is no task of that name.

    Example:
        >>> task = get_task("two_moons", setting="uninformative")
        >>> task.draw(8, seed=0).x_obs.shape
        torch.Size([8, 2])
    """
    if name not in TASKS:
        raise ValueError(f"task must be one of {', '.join(TASKS)}, got {name!r}")
    return TASKS[name](**options)
