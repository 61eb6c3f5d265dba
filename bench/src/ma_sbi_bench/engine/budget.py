"""How much is spent on an experiment: as much as in the paper, or far less."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

__all__ = ["NUM_OBSERVATIONS", "Budget"]

# As many simulations as the tasks' own figures use (docs/tasks.md).
NUM_SIMULATIONS = {
    "slcp": 100_000,
    "sir_delay": 50_000,
    "sir_delay_million": 50_000,
    "ddm": 50_000,
    "ddm_small_shifts": 50_000,
}
# C2ST on SLCP varies between observations by far more than the gap of the diffusion model:
# twelve, as elsewhere, do not show it.
NUM_OBSERVATIONS = {"slcp": 48}
# Steps of the ancestral sampler. The model is trained with 200, as in the paper; in 50 it
# draws as well (bench/benchmarks/diffusion_steps.py).
SAMPLING_STEPS = {"ddpm": 50}


@dataclass(frozen=True)
class Budget:
    """What an experiment may spend.

    Attributes:
        quick: Whether to take far fewer simulations, observations and draws, which shows
            that everything runs and little more.
        seeds: Number of seeds of every experiment; what the paper has if None.
    """

    quick: bool = False
    seeds: int | None = None

    def seeds_of(self, usual: int = 1, *, at_least: int = 1) -> range:
        """Return the seeds of an experiment that the paper ran ``usual`` times.

        Args:
            usual: Number of seeds in the paper.
            at_least: Number of seeds of a quick run.
        """
        return range(self.seeds or (at_least if self.quick else usual))

    def simulations(self, task: str) -> int:
        """Return how many simulations a posterior is trained on."""
        return 2_000 if self.quick else NUM_SIMULATIONS.get(task, 10_000)

    def sizes(self, task: str) -> dict[str, int]:
        """Return sample counts of a trial, as its cell's settings hold them."""
        if self.quick:
            return {"observations": 4, "rows": 20, "draws": 200}
        return {"observations": NUM_OBSERVATIONS.get(task, 12), "rows": 120, "draws": 500}

    @property
    def sampling_steps(self) -> dict[str, int]:
        """Return in how many steps a posterior is drawn from, by kind; else in all."""
        return {} if self.quick else SAMPLING_STEPS

    @property
    def training(self) -> dict[str, Any]:
        """Return options of the training of a posterior, by kind."""
        if not self.quick:
            return {}
        flow = {"max_epochs": 30}
        return {"maf": flow, "embedded": flow, "ddpm": {"num_steps": 40}}
