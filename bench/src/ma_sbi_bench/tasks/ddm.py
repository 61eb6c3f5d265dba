"""Drift diffusion: choices and response times under an instruction."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import torch
from sbi.utils import BoxUniform
from torch import Tensor

from ma_sbi.validation import as_count
from ma_sbi_bench.tasks.base import Regime, Setting, ShiftRegime, ShiftTask, Task
from ma_sbi_bench.tasks.first_passage import first_passage_log_density, sample_exit_time

__all__ = [
    "DDM",
    "INSTRUCTIONS",
    "DDMTrials",
    "Instruction",
    "Trials",
    "ddm_log_density",
    "density_summary",
    "simulate_trials",
]

# Drift, distance of the boundaries, and seconds that are not spent deciding.
LOWEST, HIGHEST = (0.0, 0.5, 0.1), (3.0, 2.0, 0.5)
# No response is faster, under any instruction.
EARLIEST = 0.1
# The middles of 20 cells between -3 s and 3 s; half a cell as bandwidth, so that no
# response falls between two kernels.
CELL = 0.3
GRID = tuple(CELL * (cell - 9.5) for cell in range(20))
BANDWIDTH = CELL / 2
# Trials simulated together: bounds the memory and keeps them in the cache. It is part of
# what a seed means; another number gives other draws.
TRIALS_AT_ONCE = 2**16


@dataclass(frozen=True, eq=False)
class Instruction(Regime):
    """An instruction to participants, and its effect on their responses.

    Attributes:
        response_shift: Seconds added to every response time.
        error_odds: Factor on the odds of an error.
    """

    response_shift: float
    error_odds: float


# The texts are the paper's; it prints no magnitudes. In Forstmann et al. (2008; 19 people)
# speed against neutral instructions shorten the median response by 0.08 s and multiply the
# odds of an error by 2.3: "quick". In Ratcliff & Rouder (1998; 3 people) accuracy and speed
# instructions are 0.25 s and three points of accuracy apart: "accurate" takes half of that
# time, and three points at Forstmann's accuracy of 0.86. "hurried" doubles the time of
# "quick" and adds a third to its odds; no data stand behind that.
INSTRUCTIONS = (
    Instruction(
        "balanced",
        "Balance speed and accuracy in your responses",
        response_shift=0.0,
        error_odds=1.0,
    ),
    Instruction(
        "quick",
        "Respond as quickly as possible, even if you make mistakes",
        response_shift=-0.08,
        error_odds=2.3,
    ),
    Instruction(
        "accurate",
        "Be as accurate as possible, take your time",
        response_shift=0.12,
        error_odds=0.75,
    ),
    Instruction(
        "hurried",
        "Respond as fast as you can, no time to think carefully",
        response_shift=-0.16,
        error_odds=3.0,
    ),
)
"""The four instruction texts of the paper's appendix."""


class Trials(NamedTuple):
    """Simulated trials, one row per parameter set.

    Attributes:
        response_time: Seconds until the response, shape ``(n, num_trials)``.
        log_odds: Log odds of a correct response, shape ``(n, 1)``.
        chance: Uniform numbers that decide which responses are correct, shape
            ``(n, num_trials)``: kept, so that a departure can share the noise.
    """

    response_time: Tensor
    log_odds: Tensor
    chance: Tensor

    def signed_times(
        self, response_shift: Tensor | float = 0.0, error_odds: Tensor | float = 1.0
    ) -> Tensor:
        """Return response times, negative for errors, shape ``(n, num_trials)``.

        Args:
            response_shift: Seconds added to every response time, though none is brought
                forward beyond 0.1 s; a number, or one per row, shape ``(n, 1)``.
            error_odds: Factor on the odds of an error, likewise.
        """
        earliest = self.response_time.clamp(max=EARLIEST)
        time = torch.maximum(self.response_time + response_shift, earliest)
        log_odds = self.log_odds - torch.as_tensor(error_odds, dtype=torch.float64).log()
        return torch.where(self.chance < torch.sigmoid(log_odds), time, -time)


def simulate_trials(
    theta: Tensor, num_trials: int, *, source: torch.Generator | None = None
) -> Trials:
    """Simulate independent trials for each parameter set, exactly.

    Args:
        theta: Parameters ``(v, a, tau)``, shape ``(n, 3)``.
        num_trials: Trials for each row.
        source: Generator of the noise; torch's global one if None.
    """
    v, a, tau = theta.double().split(1, dim=1)
    decision_time = sample_exit_time(v.expand(-1, num_trials), a, source=source)
    chance = torch.rand(decision_time.shape, dtype=torch.float64, generator=source)
    # The start is unbiased: whether a response is correct tells nothing about its time.
    return Trials(tau + decision_time, v * a, chance)


def density_summary(signed_times: Tensor) -> Tensor:
    """Estimate the density of signed times with Gaussian kernels at 20 fixed points.

    The points are the middles of cells of 0.3 s between -3 s and 3 s; the bandwidth is
    0.15 s. Responses far outside only lower the total mass.

    Args:
        signed_times: Response times, negative for errors, shape ``(n, num_trials)``.

    Returns:
        Densities per second, shape ``(n, 20)``.
    """
    # Point by point: all at once would need twenty times the memory, and be slower.
    kernels = [
        (((signed_times - point) / BANDWIDTH).square() / -2).exp_().mean(dim=1)
        for point in GRID
    ]
    return torch.stack(kernels, dim=1) / (BANDWIDTH * math.sqrt(2 * math.pi))


def ddm_log_density(rt: Any, correct: Any, theta: Any) -> Tensor:
    """Evaluate the density of single responses, exactly.

    Args:
        rt: Response times in seconds.
        correct: Whether each response was correct; broadcasts with rt.
        theta: Parameters ``(v, a, tau)``, shape ``(..., 3)``, where ``...`` broadcasts
            with rt: ``theta[:, None]`` scores every parameter set on every trial.

    Returns:
        Log densities in float64; ``-inf`` where rt is not above tau.

    Example:
        >>> theta = torch.tensor([[1.0, 1.0, 0.3], [1.0, 1.0, 0.5]])
        >>> ddm_log_density([0.4, 1.3], [True, False], theta[:, None])
        tensor([[ 1.0417, -4.7901],
                [   -inf, -3.7031]], dtype=torch.float64)
    """
    v, a, tau = torch.as_tensor(theta, dtype=torch.float64).unbind(dim=-1)
    decision_time = torch.as_tensor(rt, dtype=torch.float64) - tau
    return first_passage_log_density(decision_time, correct, v, a)


class _DriftDiffusion(Task):
    """The prior and the simulator, for any departure."""

    def __init__(
        self, regimes: Sequence[Regime], num_trials: int, setting: Setting
    ) -> None:
        self.num_trials = as_count(num_trials, "num_trials")
        prior = BoxUniform(torch.tensor(LOWEST), torch.tensor(HIGHEST))
        super().__init__(prior, len(GRID), regimes, setting)

    def _simulate(self, theta: Tensor, source: torch.Generator | None) -> Tensor:
        blocks = _blocks_of_trials(theta, self.num_trials, source)
        return torch.cat([density_summary(trials.signed_times()) for trials in blocks])


class DDM(_DriftDiffusion, ShiftTask):
    r"""Infer drift, boundary and non-decision time; instructions shift the summary.

    A path of unit diffusion starts halfway between two boundaries at a distance
    :math:`a` and drifts with velocity :math:`v` towards the correct one; the response
    comes :math:`\tau` seconds after it arrives. x is :func:`density_summary` of
    ``num_trials`` responses. The prior is uniform: v in [0, 3], a in [0.5, 2], tau in
    [0.1, 0.5].

    Each regime adds a constant to x: what its instruction does to the responses in
    :class:`DDMTrials`, averaged over the prior. The first adds nothing. A shifted summary
    need not be a density.

    Args:
        num_trials: Responses behind each x.
        shift_scale: Factor on what the regimes add.
        setting: What the context tells.
    """

    name = "ddm"

    def __init__(
        self,
        num_trials: int = 200,
        *,
        shift_scale: float = 1.0,
        setting: Setting = "informative",
    ) -> None:
        if not (math.isfinite(shift_scale) and shift_scale > 0):
            raise ValueError(f"shift_scale must be a positive number, got {shift_scale!r}")
        named = zip(INSTRUCTIONS, shift_scale * _mean_departures(), strict=True)
        regimes = [ShiftRegime(known.name, known.text, shift) for known, shift in named]
        super().__init__(regimes, num_trials, setting)


class DDMTrials(_DriftDiffusion):
    """Infer the parameters of :class:`DDM`; instructions act on the responses themselves.

    Each regime adds its seconds to every response time and multiplies the odds of an error
    (``INSTRUCTIONS``), before the summary. What that does to x depends on theta. ``x_sim``
    and ``x_obs`` are the same trials, without and with it; an x alone cannot be turned
    from one into the other, so there is ``observe`` but no ``depart``.

    Args:
        num_trials: Responses behind each x.
        setting: What the context tells.
    """

    name = "ddm_trials"
    regimes: tuple[Instruction, ...]

    def __init__(self, num_trials: int = 200, *, setting: Setting = "informative") -> None:
        super().__init__(INSTRUCTIONS, num_trials, setting)

    def _observe(
        self, theta: Tensor, regime: Tensor, source: torch.Generator | None
    ) -> tuple[Tensor, Tensor]:
        x_sim, x_obs = [], []
        shift, odds = _effects(self.regimes)[regime].split(1, dim=1)
        rows = 0
        for trials in _blocks_of_trials(theta, self.num_trials, source):
            block = slice(rows, rows := rows + len(trials.log_odds))
            x_sim.append(density_summary(trials.signed_times()))
            x_obs.append(density_summary(trials.signed_times(shift[block], odds[block])))
        return torch.cat(x_sim), torch.cat(x_obs)

    def _depart(self, x: Tensor, regime: Tensor) -> Tensor:
        raise ValueError(
            "ddm_trials departs before the summary, which depart cannot undo; "
            "use observe(theta, regime)"
        )


def _blocks_of_trials(
    theta: Tensor, num_trials: int, source: torch.Generator | None
) -> Iterator[Trials]:
    for rows in theta.split(max(1, TRIALS_AT_ONCE // num_trials)):
        yield simulate_trials(rows, num_trials, source=source)


def _effects(instructions: Sequence[Instruction]) -> Tensor:
    """Return seconds and odds of each instruction, shape ``(num_instructions, 2)``."""
    effects = [(known.response_shift, known.error_odds) for known in instructions]
    return torch.tensor(effects, dtype=torch.float64)


@cache
def _mean_departures() -> Tensor:
    """Average over the prior what each instruction does to the summary.

    A mean over trials does not depend on their number; many parameters with few trials
    each are the better use of a simulation.
    """
    source = torch.Generator().manual_seed(0)
    low, high = torch.tensor([LOWEST, HIGHEST], dtype=torch.float64)
    theta = low + (high - low) * torch.rand(10_000, 3, dtype=low.dtype, generator=source)
    total = torch.zeros(len(INSTRUCTIONS), len(GRID), dtype=torch.float64)
    for trials in _blocks_of_trials(theta, 20, source):
        x_sim = density_summary(trials.signed_times())
        for row, effect in zip(total, _effects(INSTRUCTIONS), strict=True):
            row += (density_summary(trials.signed_times(*effect)) - x_sim).sum(dim=0)
    return (total / len(theta)).float()
