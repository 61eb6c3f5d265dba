"""What every task offers: a world whose right answer is known."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, Literal, NamedTuple, get_args

import torch
from sbi.utils import BoxUniform
from torch import Tensor
from torch.distributions import Distribution

from ma_sbi.randomness import derive, generator
from ma_sbi.simulation import sample_prior
from ma_sbi.validation import as_count, as_matrix
from ma_sbi_bench.tasks.regimes import UNINFORMATIVE_TEXTS, Regime, ShiftRegime

__all__ = ["Draws", "Regime", "Setting", "ShiftRegime", "ShiftTask", "Task", "per_row"]

Setting = Literal["informative", "uninformative", "well_specified"]
"""Whether the context tells the regime, is filler, or there is no departure at all."""

# Beyond it, differences between log densities are lost in float64.
FARTHEST = 1e9


class Draws(NamedTuple):
    """Joint draws of a task, row by row.

    Attributes:
        theta: Parameters, shape ``(n, dim_theta)``.
        x_sim: What the simulator gives for them, shape ``(n, dim_x)``.
        x_obs: What reality gives for them, shape ``(n, dim_x)``.
        regime: The active regime, shape ``(n,)``: an index (int64), or an intensity
            (float32) where the task's context is continuous.
        context: What the log says, one text per row.
    """

    theta: Tensor
    x_sim: Tensor
    x_obs: Tensor
    regime: Tensor
    context: list[str]


class Task(ABC):
    """A prior, a simulator, the ways reality departs from it, and the exact posterior.

    A departure may be any map of x (:meth:`_depart`), or act before the data are
    summarised (:meth:`_observe`); :class:`ShiftTask` is for the plainest. A task
    without ``_reference`` has no exact posterior, one without ``_log_evidence`` no
    density of it.

    Results are float32 on the CPU. The same seed may be passed to every method: each
    step has a random stream of its own, so ``draw(n, seed=s)`` and
    ``simulate(draws.theta, seed=s)`` share their noise, and theta is independent of it.

    Attributes:
        name: Name in the registry.
        prior: Distribution of theta, with event shape ``(dim_theta,)``.
        dim_x: Number of data dimensions.
        regimes: The departures; empty where the context is continuous.
        uninformative_texts: The filler texts.
        setting: What the context tells.
    """

    name: ClassVar[str]
    uninformative_texts: tuple[str, ...] = UNINFORMATIVE_TEXTS
    # Rows of x whose reference is computed together: bounds the memory.
    _rows_at_once: ClassVar[int] = 1024

    def __init__(
        self,
        prior: Distribution,
        dim_x: int,
        regimes: Sequence[Regime],
        setting: Setting,
    ) -> None:
        if setting not in get_args(Setting):
            raise ValueError(
                f"setting must be one of {', '.join(get_args(Setting))}, got {setting!r}"
            )
        self.prior = prior
        self.dim_x = dim_x
        self.regimes = tuple(regimes)
        self.setting = setting

    @property
    def dim_theta(self) -> int:
        """Number of parameters."""
        return self.prior.event_shape[0]

    @property
    def has_reference(self) -> bool:
        """Whether the exact posterior is known."""
        return type(self)._reference is not Task._reference

    @property
    def has_evidence(self) -> bool:
        """Whether the density of the exact posterior is known, and that of x."""
        return type(self)._log_evidence is not Task._log_evidence

    def simulate(self, theta: Any, *, seed: int | None = None) -> Tensor:
        """Run the simulator once for each row.

        Args:
            theta: Parameters, shape ``(n, dim_theta)``.
            seed: Seed of the simulator's noise.

        Returns:
            Data of shape ``(n, dim_x)``.
        """
        return self._simulate(self._as_theta(theta), _stream(seed, "simulate")).float()

    def depart(self, x: Any, regime: Any) -> Tensor:
        """Turn the simulator's data into reality's.

        Args:
            x: Data of the simulator, shape ``(n, dim_x)``.
            regime: Regime of each row, shape ``(n,)``, or one for all.

        Returns:
            Data of shape ``(n, dim_x)``; x itself in the well-specified setting.
        """
        x = as_matrix(x, "x", dim=self.dim_x, device="cpu")
        regime = self._as_regime(regime, len(x))
        if self.setting == "well_specified":
            return x
        return self._depart(x, regime)

    def observe(
        self, theta: Any, regime: Any, *, seed: int | None = None
    ) -> tuple[Tensor, Tensor]:
        """Produce what the simulator and what reality give for the same theta.

        Args:
            theta: Parameters, shape ``(n, dim_theta)``.
            regime: Regime of each row, shape ``(n,)``, or one for all.
            seed: Seed of the noise, which both share.

        Returns:
            ``x_sim`` and ``x_obs``, each of shape ``(n, dim_x)``.
        """
        theta = self._as_theta(theta)
        regime = self._as_regime(regime, len(theta))
        if self.setting == "well_specified":
            x_sim = self.simulate(theta, seed=seed)
            return x_sim, x_sim
        x_sim, x_obs = self._observe(theta, regime, _stream(seed, "simulate"))
        return x_sim.float(), x_obs.float()

    def contexts(self, regime: Any, *, seed: int | None = None) -> list[str]:
        """Write the log entry of each row.

        Args:
            regime: Regime of each row, shape ``(n,)``.
            seed: Seed of the choice among filler texts, which ignores the regime.

        Returns:
            One text per row: filler in the uninformative setting, else the regime's.
        """
        regime = self._as_regime(regime)
        if self.setting != "uninformative":
            return [self._text(value) for value in regime.tolist()]
        choice = torch.randint(
            len(self.uninformative_texts),
            regime.shape,
            generator=_stream(seed, "contexts"),
        )
        return [self.uninformative_texts[index] for index in choice.tolist()]

    def draw(self, n: int, *, seed: int | None = None) -> Draws:
        """Draw parameters, both kinds of data, regimes and contexts.

        Regimes are stratified: their counts differ by one at most, their order is
        random. Intensities of a continuous context are uniform.

        Args:
            n: Number of rows.
            seed: Seed of everything.

        Returns:
            The draws, one row each.
        """
        n = as_count(n, "n")
        theta = sample_prior(self.prior, n, seed=derive(seed, "prior"))
        regime = self._draw_regimes(n, _stream(seed, "regimes"))
        x_sim, x_obs = self.observe(theta, regime, seed=seed)
        return Draws(theta, x_sim, x_obs, regime, self.contexts(regime, seed=seed))

    def reference(
        self, x: Any, num_samples: int, *, regime: Any = None, seed: int | None = None
    ) -> Tensor:
        """Draw from the exact posterior, for any x.

        Args:
            x: Data, shape ``(B, dim_x)``.
            num_samples: Number of draws for each row.
            regime: Regime in which x was observed, one per row or one for all: the best
                possible posterior. If None, x is read as the simulator's own: pass
                ``x_sim``, or ``x_obs`` to see the effect of ignoring the departure.
            seed: Seed of the draws.

        Returns:
            Draws inside the prior's support, shape ``(num_samples, B, dim_theta)``.

        Raises:
            ValueError: If x is not a finite matrix of that width, or the task cannot
                produce it, or has no exact posterior.
        """
        if not self.has_reference:
            raise ValueError(f"no exact posterior is known for {self.name}")
        num_samples = as_count(num_samples, "num_samples")
        x, regimes = self._as_observed(x, regime)
        self._check_possible(x, regimes)
        source = _stream(seed, "reference")
        chunks = []
        for rows in torch.arange(len(x)).split(self._rows_at_once):
            if regimes is None:
                chunk = self._reference(x[rows], num_samples, source)
            else:
                chunk = self._reference_in(x[rows], regimes[rows], num_samples, source)
            chunks.append(chunk.float())
        return _inside(self.prior, torch.cat(chunks, dim=1))

    def reference_log_prob(self, theta: Any, x: Any, *, regime: Any = None) -> Tensor:
        r"""Evaluate the density of the exact posterior.

        .. math:: \log p(\theta \mid x) = \log p(\theta) + \log p(x \mid \theta) - \log p(x)

        Args:
            theta: Parameters, shape ``(batch, dim_theta)``.
            x: Data, one row for each row of theta or one for all.
            regime: Regime in which x was observed, as in :meth:`reference`.

        Returns:
            Log densities of shape ``(batch,)``, minus infinity outside the prior's
            support.

        Raises:
            ValueError: As :meth:`reference`, or if theta does not fit, or the task has
                no density of the exact posterior.
        """
        if not self.has_evidence:
            raise ValueError(f"no density of an exact posterior is known for {self.name}")
        theta = self._as_theta(theta)
        x, regimes = self._as_observed(x, regime)
        self._check_possible(x, regimes)
        if len(x) not in (1, len(theta)):
            raise ValueError(
                "x must have one row, or one for each row of theta, got "
                f"{len(x)} for {len(theta)} rows of theta"
            )
        log_evidence = self._log_evidence_by_chunks(x, regimes)
        x = x.expand(len(theta), -1)
        inside = self.prior.support.check(theta)  # type: ignore[union-attr]
        # Any point of the support keeps the rows outside it computable.
        theta = torch.where(inside[:, None], theta, self.prior.mean.to(theta))
        if regimes is None:
            log_joint = self._log_joint(theta, x)
        else:
            log_joint = self._log_joint_in(theta, x, regimes.expand(len(theta)))
        log_prob = log_joint - log_evidence
        return log_prob.masked_fill(~inside, -torch.inf).float()

    def log_evidence(self, x: Any, *, regime: Any = None) -> Tensor:
        r"""Evaluate the density of x, with theta integrated out under the prior.

        .. math:: \log p(x) = \log \int p(\theta)\, p(x \mid \theta)\, d\theta

        It weighs regimes: :math:`p(k \mid x) \propto p(k)\, p(x \mid k)`. Where x are
        counts it is their probability, on whichever scale x is given.

        Args:
            x: Data, shape ``(batch, dim_x)``.
            regime: Regime in which x was observed, as in :meth:`reference`.

        Returns:
            Log densities of shape ``(batch,)``, minus infinity where the task, or the
            regime, cannot produce x.

        Raises:
            ValueError: If x is not a finite matrix of that width, or the task has no
                tractable evidence.
        """
        if not self.has_evidence:
            raise ValueError(f"the evidence of {self.name} is not tractable")
        x, regimes = self._as_observed(x, regime)
        possible = self._possible(x, regimes)
        result = torch.full((len(x),), -torch.inf)
        if possible.any():
            own = None if regimes is None else regimes[possible]
            result[possible] = self._log_evidence_by_chunks(x[possible], own).float()
        return result

    def _log_evidence_by_chunks(self, x: Tensor, regimes: Tensor | None) -> Tensor:
        chunks = []
        for rows in torch.arange(len(x)).split(self._rows_at_once):
            if regimes is None:
                chunks.append(self._log_evidence(x[rows]))
            else:
                chunks.append(self._log_evidence_in(x[rows], regimes[rows]))
        return torch.cat(chunks)

    @abstractmethod
    def _simulate(self, theta: Tensor, source: torch.Generator | None) -> Tensor:
        """Map float64 theta ``(n, dim_theta)`` to ``(n, dim_x)``."""

    @abstractmethod
    def _depart(self, x: Tensor, regime: Tensor) -> Tensor:
        """Map x ``(n, dim_x)`` of the simulator to reality's."""

    def _observe(
        self, theta: Tensor, regime: Tensor, source: torch.Generator | None
    ) -> tuple[Tensor, Tensor]:
        """Map float64 theta ``(n, dim_theta)`` to ``x_sim`` and ``x_obs``.

        Override this where reality departs before the data are summarised.
        """
        x_sim = self._simulate(theta, source).float()
        return x_sim, self._depart(x_sim, regime)

    def _possible(self, x: Tensor, regime: Tensor | None) -> Tensor:
        """Tell which rows of float64 x the task can produce, shape ``(B,)``."""
        return torch.ones(len(x), dtype=torch.bool)

    def _check_possible(self, x: Tensor, regime: Tensor | None) -> None:
        impossible = (~self._possible(x, regime)).nonzero().flatten().tolist()
        if impossible:
            raise ValueError(
                f"x must be data that {self.name} can produce, got others in rows "
                f"{impossible}"
            )

    def _reference(
        self, x: Tensor, num_samples: int, source: torch.Generator | None
    ) -> Tensor:
        """Map float64 x ``(B, dim_x)`` to ``(num_samples, B, dim_theta)``."""
        raise NotImplementedError

    def _reference_in(
        self, x: Tensor, regime: Tensor, num_samples: int, source: torch.Generator | None
    ) -> Tensor:
        """Do the same for x observed in a known regime."""
        raise NotImplementedError

    def _log_joint(self, theta: Tensor, x: Tensor) -> Tensor:
        """Evaluate p(theta) p(x | theta) for float64 rows inside the prior's support."""
        raise NotImplementedError

    def _log_joint_in(self, theta: Tensor, x: Tensor, regime: Tensor) -> Tensor:
        """Do the same for x observed in a known regime."""
        raise NotImplementedError

    def _log_evidence(self, x: Tensor) -> Tensor:
        """Integrate the joint density over theta, for float64 rows of x."""
        raise NotImplementedError

    def _log_evidence_in(self, x: Tensor, regime: Tensor) -> Tensor:
        """Do the same for x observed in a known regime."""
        raise NotImplementedError

    def _draw_regimes(self, n: int, source: torch.Generator | None) -> Tensor:
        # A random order of the regimes too: which are one short must not be fixed.
        order = torch.randperm(len(self.regimes), generator=source)
        shuffled = torch.randperm(n, generator=source)
        return order[shuffled % len(self.regimes)]

    def _text(self, regime: Any) -> str:
        """Say what the log says in a regime."""
        return self.regimes[regime].text

    def _as_theta(self, theta: Any) -> Tensor:
        return as_matrix(
            theta, "theta", dim=self.dim_theta, dtype=torch.float64, device="cpu"
        )

    def _as_observed(self, x: Any, regime: Any) -> tuple[Tensor, Tensor | None]:
        """Check data and their regimes, which are None where nothing departs."""
        x = as_matrix(x, "x", dim=self.dim_x, dtype=torch.float64, device="cpu")
        beyond = (x.abs() > FARTHEST).any(dim=1).nonzero().flatten().tolist()
        if beyond:
            raise ValueError(
                f"x must lie within {FARTHEST:g} of zero to have a computable "
                f"posterior, got larger values in rows {beyond}"
            )
        departed = regime is not None and self.setting != "well_specified"
        return x, self._as_regime(regime, len(x)) if departed else None

    def _as_regime(self, regime: Any, rows: int | None = None) -> Tensor:
        """Check regime indices; a single one holds for every row."""
        index = torch.as_tensor(regime, device="cpu")
        if index.is_floating_point() or index.dtype == torch.bool or index.ndim > 1:
            raise ValueError(
                "regime must be one whole number per row, got "
                f"{index.dtype} of shape {tuple(index.shape)}"
            )
        if not ((index >= 0) & (index < len(self.regimes))).all():
            raise ValueError(
                f"regime must lie between 0 and {len(self.regimes) - 1}, "
                f"got values from {index.min()} to {index.max()}"
            )
        return per_row(index.long(), rows)


class ShiftTask(Task):
    """A task whose regimes each add a constant to x."""

    regimes: tuple[ShiftRegime, ...]

    def shift(self, regime: Any) -> Tensor:
        """Return what reality adds to x in each regime, shape ``(n, dim_x)``.

        Args:
            regime: Regime of each row, shape ``(n,)``.
        """
        return self._shift(self._as_regime(regime))

    def _shift(self, regime: Tensor) -> Tensor:
        return torch.stack([known.shift for known in self.regimes])[regime]

    def _depart(self, x: Tensor, regime: Tensor) -> Tensor:
        return x + self._shift(regime).to(x)

    def _reference_in(
        self, x: Tensor, regime: Tensor, num_samples: int, source: torch.Generator | None
    ) -> Tensor:
        return self._reference(x - self._shift(regime).to(x), num_samples, source)

    def _log_joint_in(self, theta: Tensor, x: Tensor, regime: Tensor) -> Tensor:
        return self._log_joint(theta, x - self._shift(regime).to(x))

    def _log_evidence_in(self, x: Tensor, regime: Tensor) -> Tensor:
        return self._log_evidence(x - self._shift(regime).to(x))


def per_row(regime: Tensor, rows: int | None) -> Tensor:
    """Repeat a single regime for every row; refuse any other mismatch."""
    if regime.ndim == 0:
        return regime.expand(1 if rows is None else rows)
    if rows is not None and len(regime) != rows:
        raise ValueError(
            f"regime must have one entry per row, got {len(regime)} for {rows} rows"
        )
    return regime


def _inside(prior: Distribution, theta: Tensor) -> Tensor:
    """Undo rounding to float32 out of a box, whose upper edge has density zero."""
    if not isinstance(prior, BoxUniform):
        return theta
    return theta.clamp(prior.low, torch.nextafter(prior.high, prior.low))


def _stream(seed: int | None, step: str) -> torch.Generator | None:
    return generator(derive(seed, step))
