"""A cell: everything that decides the numbers of one fit, and its key."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

__all__ = ["Backbone", "Cell", "Measurement", "fingerprint"]


def fingerprint(definition: Mapping[str, Any]) -> str:
    """Hash a definition; the order of its entries does not matter."""
    text = json.dumps(definition, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()[:20]


@dataclass(frozen=True)
class Cell:
    """Everything that decides the numbers of one fit.

    Test observations are sampled together, so a cell gives one number for each of them,
    unless it names one.

    Attributes:
        experiment: Name of the experiment.
        version: Its version: raised when the meaning of its cells changes.
        method: What is tried.
        task: The world it is tried in.
        backbone: The kind of posterior it starts from.
        seed: Seed of everything random.
        num_calibration: Number of calibration rows.
        observation: Index of the only test observation; all of them if None.
        regime: Index of the only regime; all of them if None.
        settings: Everything else, such as sample counts and options; JSON can hold it.
    """

    experiment: str
    version: int
    method: str
    task: str = ""
    backbone: str = ""
    seed: int = 0
    num_calibration: int | None = None
    observation: int | None = None
    regime: int | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)

    @property
    def key(self) -> str:
        """Name of the file that holds its numbers."""
        return fingerprint(asdict(self))

    def __str__(self) -> str:
        parts = (self.task, self.backbone, self.method, f"seed {self.seed}")
        return f"{self.experiment}: " + ", ".join(part for part in parts if part)


@dataclass(frozen=True)
class Measurement:
    """One metric of a cell, with a value for each test case.

    Attributes:
        metric: Its name, for example ``"c2st"``.
        values: One value per case: observations first, the regimes of each after another.
        recipe: How it was computed, where there are several ways.
        num_draws: Posterior draws behind each value.
    """

    metric: str
    values: tuple[float, ...]
    recipe: str = ""
    num_draws: int | None = None


@dataclass(frozen=True)
class Backbone:
    """A posterior that is trained once and shared by all cells that need it.

    Attributes:
        world: A task, or a simulator of the studies.
        kind: ``"ddpm"``, ``"maf"``, ``"embedded"`` or ``"nnpe"``; or ``"density"``, that
            of the simulations.
        seed: Seed of its simulations and its training.
        num_simulations: How many simulations it is trained on.
        world_options: Options of the world.
        options: Options of the training.
    """

    world: str
    kind: str
    seed: int
    num_simulations: int
    world_options: Mapping[str, Any] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def key(self) -> str:
        """Name of the file that holds it."""
        return fingerprint(asdict(self))

    def __str__(self) -> str:
        return (
            f"training: {self.world}, {self.kind}, seed {self.seed}, "
            f"{self.num_simulations:,} simulations"
        )
