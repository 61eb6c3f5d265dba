"""Two flows carry a trained posterior to the real data: FMCPE (Ruhlmann et al. 2025)."""

from __future__ import annotations

import warnings
from typing import Literal

import torch
from torch import Tensor, nn
from torch.distributions import Transform
from tqdm.auto import tqdm

from ma_sbi.context import Entries
from ma_sbi.networks import Standardise
from ma_sbi.posteriors.training_range import OutsideTrainingRange
from ma_sbi.posteriors.unconstrained import check_theta, off_the_edge, on_real_line
from ma_sbi.protocols import MAX_ROWS, AmortizedPosterior
from ma_sbi.randomness import derive, seeded
from ma_sbi.validation import as_count, check_positive
from ma_sbi_bench.methods.flow_matching import FlowMatching, Whiten
from ma_sbi_bench.methods.materials import Materials, Need
from ma_sbi_bench.methods.method import Method
from ma_sbi_bench.methods.training import BestSoFar

__all__ = ["FMCPE"]

FARTHEST = 10.0  # standard deviations of the prior, on the real line
NUM_PRIOR_DRAWS = 1000  # for the units of theta and x
NUM_VALIDATION_ROWS = 256
CLIP = 5.0  # largest norm of a gradient
RESCALE = {"z_score": Standardise, "whiten": Whiten}


class FMCPE(Method):
    r"""The trained posterior at simulated look-alikes of x, carried on to the true theta.

    .. math:: \tilde x \sim T_x(\cdot \mid x), \quad
        \theta_0 \sim \hat q(\cdot \mid \tilde x), \quad
        \theta = T_\theta(\theta_0 \mid x)

    Two maps by flow matching, trained together on calibration pairs (theta*, x_obs).
    ``T_x`` carries a draw around x to simulations at theta*, new in every epoch;
    ``T_theta`` carries draws of the trained posterior at what ``T_x`` gives at that time
    to theta*. Both read x as it was observed, so that a few pairs are memorised: the maps
    of the best epoch on held-out pairs are kept.

    Args:
        sigma: Spread of ``T_x``'s source around x, in standard deviations of the
            simulations; None for a source that does not depend on x, N(0, I). The authors
            take 0.05, 0.5, and None where x_obs looks nothing like a simulation.
        rescale: What the maps see of x and x_obs: ``"z_score"``, the authors' choice, or
            ``"whiten"``, which learns faster where columns are strongly correlated.
        num_steps: Euler steps of each map at sampling.
        num_steps_training: Euler steps of ``T_x`` in training.
        epochs: Passes through the calibration pairs.
        batch_size: Pairs per step.
        learning_rate: Of Adam; falls to zero along a cosine.
        hidden: Width of the residual network of each map.
        num_blocks: Residual blocks of each.
        time_rate: Training times follow Beta(time_rate, 1); the authors take 1, and 2 for
            their Gaussian task.
        validation_fraction: Share of pairs held out.
        show_progress: Whether to show a progress bar.
    """

    reference = "Ruhlmann et al. 2025, arXiv:2509.23385"
    needs: frozenset[Need] = frozenset({"posterior", "simulator", "theta*"})
    posterior_: AmortizedPosterior

    def __init__(
        self,
        sigma: float | None = 0.5,
        *,
        rescale: Literal["z_score", "whiten"] = "z_score",
        num_steps: int = 20,
        num_steps_training: int = 50,
        epochs: int = 200,
        batch_size: int = 256,
        learning_rate: float = 1e-3,
        hidden: int = 64,
        num_blocks: int = 5,
        time_rate: float = 1.0,
        validation_fraction: float = 0.2,
        show_progress: bool = False,
    ) -> None:
        self.sigma = sigma
        self.rescale = rescale
        self.num_steps = num_steps
        self.num_steps_training = num_steps_training
        self.epochs = epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.hidden = hidden
        self.num_blocks = num_blocks
        self.time_rate = time_rate
        self.validation_fraction = validation_fraction
        self.show_progress = show_progress

    def _fit(self, materials: Materials, seed: int | None) -> None:
        self._check_options()
        posterior = materials.take("posterior")
        device = getattr(posterior, "device", None) or materials.take("x_obs").device
        prior, to_real = on_real_line(materials.prior, device)
        theta, x_obs = (materials.take(kind).to(device) for kind in ("theta*", "x_obs"))
        if len(theta) < 5:
            raise ValueError(f"FMCPE needs at least 5 calibration pairs, got {len(theta)}")
        check_theta(prior, theta, "calibration.theta")
        draws = materials.draw_prior(NUM_PRIOR_DRAWS, seed=derive(seed, "units"))
        with seeded(derive(seed, "training"), device):
            units = RESCALE[self.rescale]
            theta_units = Standardise.of(off_the_edge(to_real(draws.theta.to(device))))
            x_units = units.of(draws.x.to(device))
            maps = _Maps(self, to_real, theta_units, x_units, units.of(x_obs))
            self._train(maps.to(device), posterior, materials, theta, x_obs, seed)
        self.posterior_ = posterior
        self.maps_ = maps.eval().requires_grad_(requires_grad=False)

    def _train(
        self,
        maps: _Maps,
        posterior: AmortizedPosterior,
        materials: Materials,
        theta: Tensor,
        x_obs: Tensor,
        seed: int | None,
    ) -> None:
        """Train both maps together, and leave them as they were in the best epoch."""

        def simulate(rows: Tensor, purpose: str) -> Tensor:
            seed_here = derive(seed, f"simulator, {purpose}")
            return materials.simulate(theta[rows].cpu(), seed=seed_here).to(x_obs)

        def with_sources(rows: Tensor, x: Tensor, purpose: str) -> list[Tensor]:
            """Draw from the posterior at what T_x gives now."""
            with warnings.catch_warnings():
                # The first look-alikes are far off; this is intended.
                warnings.simplefilter("ignore", OutsideTrainingRange)
                source = maps.draw_posterior(
                    posterior,
                    x_obs[rows],
                    self.num_steps_training,
                    seed=derive(seed, f"posterior, {purpose}"),
                )
            return [x_obs[rows], x, source, maps.standard_theta(theta[rows])]

        training, held_out = _split(len(theta), self.validation_fraction, x_obs.device)
        x_held_out = simulate(held_out, "validation")
        optimiser = torch.optim.Adam(maps.parameters(), lr=self.learning_rate)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, self.epochs)
        best = BestSoFar(maps)
        for epoch in tqdm(range(self.epochs), "Training", disable=not self.show_progress):
            x = simulate(training, f"epoch {epoch}")
            rows = with_sources(training, x, f"epoch {epoch}")
            for batch in torch.randperm(len(training)).split(self.batch_size):
                loss = maps.loss(*(values[batch.to(x_obs.device)] for values in rows))
                optimiser.zero_grad()
                loss.backward()
                for flow in (maps.flow_x, maps.flow_theta):
                    nn.utils.clip_grad_norm_(flow.parameters(), CLIP)
                optimiser.step()
            schedule.step()
            # The same noise in every epoch, so that epochs differ by their maps only.
            with torch.no_grad(), seeded(derive(seed, "validation"), x_obs.device):
                rows = with_sources(held_out, x_held_out, "validation")
                validation = maps.loss(*rows).item()
            best.update(validation)
        best.restore()

    def _sample(
        self, num_samples: int, x: Tensor, context: Entries | None, seed: int | None
    ) -> Tensor:
        rows = x.repeat(num_samples, 1)
        draws = []
        with seeded(derive(seed, "look-alikes"), x.device):
            for number, part in enumerate(rows.split(MAX_ROWS)):
                source = self.maps_.draw_posterior(
                    self.posterior_,
                    part,
                    self.num_steps,
                    seed=derive(seed, f"posterior {number}"),
                )
                draws.append(self.maps_.carry_theta(source, part, self.num_steps))
        return torch.cat(draws).unflatten(0, (num_samples, len(x)))

    def _check_options(self) -> None:
        for name in ("num_steps", "num_steps_training", "epochs", "batch_size", "hidden"):
            as_count(getattr(self, name), name)
        for name in ("learning_rate", "time_rate"):
            check_positive(getattr(self, name), name)
        if self.sigma is not None and not self.sigma > 0:
            raise ValueError(f"sigma must be positive, or None, got {self.sigma!r}")
        if self.rescale not in RESCALE:
            raise ValueError(
                f"rescale must be one of {', '.join(RESCALE)}, got {self.rescale!r}"
            )
        if not 0 < self.validation_fraction < 1:
            raise ValueError(
                "validation_fraction must lie between 0 and 1, got "
                f"{self.validation_fraction!r}"
            )


class _Maps(nn.Module):
    """The two maps, with the units in which they work."""

    def __init__(
        self,
        options: FMCPE,
        to_real: Transform,
        theta_units: Standardise,
        x_units: Standardise,
        x_obs_units: Standardise,
    ) -> None:
        super().__init__()
        self.sigma = options.sigma
        self.to_real = to_real
        self.theta_units = theta_units
        self.x_units = x_units
        self.x_obs_units = x_obs_units
        dim_theta, dim_x = len(theta_units.mean), len(x_units.mean)
        sizes = {
            "hidden": options.hidden,
            "num_blocks": options.num_blocks,
            "time_rate": options.time_rate,
        }
        self.flow_x = FlowMatching(dim_x, dim_x, **sizes)  # type: ignore[arg-type]
        self.flow_theta = FlowMatching(dim_theta, dim_x, **sizes)  # type: ignore[arg-type]

    def standard_theta(self, theta: Tensor) -> Tensor:
        """Take theta to the real line, in standard deviations of the prior."""
        # In float32 a draw may lie exactly on a bound, whose image is infinite.
        real_theta = self.theta_units(self.to_real(theta)).nan_to_num()
        return real_theta.clamp(-FARTHEST, FARTHEST)

    def source_x(self, x_obs: Tensor) -> Tensor:
        """Draw where T_x starts, in standard deviations of the simulations."""
        noise = torch.randn_like(x_obs)
        return noise if self.sigma is None else self.x_units(x_obs) + self.sigma * noise

    def loss(self, x_obs: Tensor, x: Tensor, theta_0: Tensor, theta_1: Tensor) -> Tensor:
        """Give half the loss of each map for simulations x at theta_1, row by row."""
        condition = self.x_obs_units(x_obs)
        loss_x = self.flow_x.loss(self.source_x(x_obs), self.x_units(x), condition)
        return (loss_x + self.flow_theta.loss(theta_0, theta_1, condition)) / 2

    @torch.no_grad()
    def draw_posterior(
        self, posterior: AmortizedPosterior, x_obs: Tensor, num_steps: int, seed: int | None
    ) -> Tensor:
        """Draw one standard theta per row from the posterior at a look-alike of x_obs."""
        condition = self.x_obs_units(x_obs)
        x = self.flow_x.transport(self.source_x(x_obs), condition, num_steps)
        return self.standard_theta(
            posterior.sample(1, self.x_units.invert(x), seed=seed)[0]
        )

    def carry_theta(self, source: Tensor, x_obs: Tensor, num_steps: int) -> Tensor:
        """Apply T_theta to standard theta, and give theta in its own units."""
        condition = self.x_obs_units(x_obs)
        standard = self.flow_theta.transport(source, condition, num_steps)
        return self.to_real.inv(self.theta_units.invert(standard))


def _split(num_rows: int, fraction: float, device: torch.device) -> tuple[Tensor, Tensor]:
    """Part rows for training from those held out, which are repeated to steady the loss."""
    order = torch.randperm(num_rows).to(device)
    num_held_out = min(max(1, round(fraction * num_rows)), num_rows - 1)
    times = -(-NUM_VALIDATION_ROWS // num_held_out)
    return order[num_held_out:], order[:num_held_out].repeat(times)
