r"""A denoising diffusion model of theta given x (DDPM, Ho et al. 2020).

.. math:: \mathcal L = E_{t, \theta_0, \varepsilon}
    \|\varepsilon - \varepsilon_\phi(\theta_t, t, x)\|^2, \qquad
    \theta_t = \sqrt{\bar\alpha_t}\,\theta_0 + \sqrt{1 - \bar\alpha_t}\,\varepsilon
"""

from __future__ import annotations

import copy
import logging
import math
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal, get_args

import torch
from torch import Tensor, nn
from torch.distributions import Distribution, Transform

from ma_sbi.display.progress import parts, steps
from ma_sbi.networks import Standardise, perceptron
from ma_sbi.posteriors.amortized import Amortized
from ma_sbi.posteriors.cuda_graphs import adam, replayed, set_learning_rate
from ma_sbi.posteriors.priors import pack_prior, stored_prior
from ma_sbi.posteriors.training import DIVERGED, check_training
from ma_sbi.posteriors.training_range import TrainingRange
from ma_sbi.posteriors.unconstrained import (
    check_simulations,
    default_device,
    density_at,
    on_real_line,
)
from ma_sbi.protocols import ArrayLike
from ma_sbi.randomness import generator, seeded
from ma_sbi.saved import Saved
from ma_sbi.saving import Packed, read
from ma_sbi.validation import as_count

__all__ = [
    "DiffusionPosterior",
    "fit_ddpm",
    "load_ddpm",
    "noise_schedule",
    "unpack_ddpm",
]

log = logging.getLogger(__name__)

KIND = "ddpm"
Schedule = Literal["paper", "rescaled"]
Decay = Literal["none", "cosine"]
Sampler = Literal["ancestral", "deterministic"]
# With so few steps a sampler is quick.
FEW_STEPS = 50
# A network that predicts no noise at all has a loss of one.
LARGEST_LOSS = 10.0


def noise_schedule(schedule: Schedule = "paper", num_steps: int = 200) -> Tensor:
    r"""Return the share of signal left after each step, :math:`\bar\alpha_t`.

    The betas grow linearly from 1e-4 to 0.02, which is meant for 1000 steps: after the
    paper's 200 a share of 0.13 of the signal's variance is left, although sampling starts
    from pure noise. ``"rescaled"`` multiplies them by ``1000 / num_steps``, so that the
    last step is noise.

    Returns:
        Shape ``(num_steps,)``, float64.

    Example:
        >>> round(noise_schedule("paper")[-1].item(), 3)
        0.132
        >>> round(noise_schedule("rescaled")[-1].item(), 5)
        3e-05
    """
    scales = {"paper": 1.0, "rescaled": 1000 / num_steps}
    if schedule not in scales:
        raise ValueError(f"schedule must be one of {sorted(scales)}, got {schedule!r}")
    betas = scales[schedule] * torch.linspace(1e-4, 0.02, num_steps, dtype=torch.float64)
    return torch.cumprod(1 - betas.clamp(max=0.999), dim=0)


def fit_ddpm(
    prior: Distribution,
    theta: ArrayLike,
    x: ArrayLike,
    *,
    schedule: Schedule = "paper",
    num_steps: int = 200,
    layers: int = 4,
    hidden: int = 256,
    learning_rate: float = 1e-3,
    decay: Decay = "none",
    batch_size: int = 256,
    epochs: int = 30,
    seed: int | None = None,
    device: torch.device | str | None = None,
    show_progress: bool | None = None,
) -> DiffusionPosterior:
    """Train a diffusion model on simulations; the defaults are the paper's.

    Args:
        prior: Prior over theta; draws respect its bounds.
        theta: Parameters, shape ``(n, dim_theta)``.
        x: Simulations at theta, shape ``(n, dim_x)``.
        schedule: ``"paper"`` or ``"rescaled"``; see :func:`noise_schedule`.
        num_steps: Number of diffusion steps.
        layers: Linear layers of the network.
        hidden: Width between them.
        learning_rate: Step size of Adam.
        decay: ``"cosine"`` lets the learning rate fall to zero along half a cosine: fine
            structure, such as a thin crescent, is blurred half as much.
        batch_size: Simulations per step.
        epochs: Passes through the simulations.
        seed: Makes training repeatable.
        device: Where to train and sample; torch's default device if None.
        show_progress: Whether to show progress, on standard error; if None, to a person:
            on a terminal or in a notebook.

    Returns:
        A posterior with ``sample`` and ``log_prob``.

    Raises:
        ValueError: If the simulations do not match, or training diverges.
    """
    for name, count in {
        "epochs": epochs,
        "num_steps": num_steps,
        "layers": layers,
        "hidden": hidden,
    }.items():
        as_count(count, name)
    check_training(learning_rate, batch_size)
    if decay not in get_args(Decay):
        raise ValueError(f"decay must be one of {get_args(Decay)}, got {decay!r}")
    simulations = check_simulations(prior, theta, x, device)
    device = simulations.x.device
    signal = noise_schedule(schedule, num_steps).to(device, torch.float32)
    with torch.enable_grad(), seeded(seed, device):
        network = _Denoiser(
            Standardise.of(simulations.real_theta),
            Standardise.of(simulations.x),
            layers=layers,
            hidden=hidden,
        ).to(device)
        clean = network.theta_scale(simulations.real_theta)
        condition = network.x_scale(simulations.x)
        optimiser = adam(network.parameters(), learning_rate, device, fused=True)

        def train(rows: Tensor) -> Tensor:
            noise = torch.randn_like(clean[rows])
            step = torch.randint(num_steps, (len(rows),), device=device)
            left = signal[step, None]
            noisy = left.sqrt() * clean[rows] + (1 - left).sqrt() * noise
            loss = (noise - network(noisy, step, condition[rows])).square().mean()
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            return loss.detach()

        train_on = replayed(train, device)
        for epoch in steps(range(epochs), "Training", show_progress=show_progress):
            if decay == "cosine":
                share = (1 + math.cos(math.pi * epoch / epochs)) / 2
                set_learning_rate(optimiser, learning_rate * share)
            batches = torch.randperm(len(clean), device=device).split(batch_size)
            losses = [train_on(rows) for rows in batches]
        optimiser.zero_grad()
    loss = torch.stack(losses).mean()
    log.info("diffusion model trained for %d epochs, loss %.4g", epochs, loss.item())
    if not loss < LARGEST_LOSS:  # of the last epoch; NaN is no loss
        raise ValueError(DIVERGED.format(learning_rate))
    return DiffusionPosterior(
        network.eval().requires_grad_(requires_grad=False),
        signal,
        prior=simulations.prior,
        to_real=simulations.to_real,
        training_range=simulations.training_range,
    )


def load_ddpm(
    path: str | Path,
    prior: Distribution | None = None,
    *,
    device: torch.device | str | None = None,
) -> DiffusionPosterior:
    """Load a model that ``DiffusionPosterior.save`` wrote.

    Args:
        path: The file.
        prior: The prior it was trained with; that in the file if None, which holds it if
            it is uniform, normal or lognormal.
        device: Where to sample; torch's default device if None.

    Raises:
        ValueError: If the file holds something else, or does not fit its header.
        OSError: If there is no such file.
    """
    return unpack_ddpm(read(path, KIND), prior, device=device)


def unpack_ddpm(
    saved: Saved,
    prior: Distribution | None = None,
    *,
    device: torch.device | str | None = None,
) -> DiffusionPosterior:
    """Make a model of what ``DiffusionPosterior.packed`` gave; as ``load_ddpm``."""
    layers, hidden = saved.count("layers"), saved.count("hidden")
    scales = []
    for name in ("theta_scale", "x_scale"):
        mean = saved.tensor("network", f"{name}.mean", (None,))
        scale = saved.tensor("network", f"{name}.scale", mean.shape, positive=True)
        scales.append(Standardise(mean, scale))
    dim_theta, dim_x = (len(scale.mean) for scale in scales)
    training_range = TrainingRange.stored(saved, dim_x)
    signal = saved.tensor("schedule", "signal", (None,), positive=True)
    if not (signal < 1).all() or not (signal.diff() <= 0).all():
        saved.refuse("holds a schedule that does not fall from below 1")
    sampler, steps = _stored_sampler(saved, len(signal))
    dim_in = dim_theta + _Denoiser.dim_time + dim_x
    weights = hidden * (dim_in + dim_theta) + (layers - 2) * hidden**2
    if layers == 1:
        weights = dim_in * dim_theta
    saved.require_weights(["network"], layers=layers, weights=weights)
    prior, to_real = on_real_line(stored_prior(saved, prior, dim_theta), device)
    with seeded(0):  # draws weights, which are overwritten
        network = _Denoiser(*scales, layers=layers, hidden=hidden)
    saved.fill(network, "network")
    model = DiffusionPosterior(
        network.to(default_device(device)).eval().requires_grad_(requires_grad=False),
        signal.to(default_device(device)),
        prior=prior,
        to_real=to_real,
        training_range=training_range,
    )
    model.sampler, model.steps = sampler, steps
    return model


def _stored_sampler(saved: Saved, num_steps: int) -> tuple[Sampler, list[int]]:
    """Read how a model draws; as it was trained, if the file is older than the choice."""
    if "sampler" not in saved.settings:
        return "ancestral", list(range(num_steps - 1, -1, -1))
    sampler: Any = saved.choice("sampler", get_args(Sampler))
    steps = saved.tensor("schedule", "steps", (None,), dtype=torch.int64)
    if not (steps.diff() < 0).all() or steps[0] >= num_steps or steps[-1] < 0:
        saved.refuse("holds steps that do not fall, or are none of its schedule")
    return sampler, steps.tolist()


class DiffusionPosterior(Amortized):
    """A trained diffusion model; made by :func:`fit_ddpm`.

    A guided model is a subclass that overrides ``_clean``, which every step of either
    sampler uses, or ``_adjust``; its ``has_density`` says whether its draws follow a
    density.
    """

    expensive_density = True  # an integral for each theta
    max_density_rows = 20_000
    """Most theta evaluated in one pass: derivatives need the memory of every layer."""

    def __init__(
        self,
        network: _Denoiser,
        signal: Tensor,
        *,
        prior: Distribution,
        to_real: Transform,
        training_range: TrainingRange,
    ) -> None:
        super().__init__(
            prior=prior,
            dim_x=len(network.x_scale.mean),
            training_range=training_range,
            device=signal.device,
        )
        self.network = network
        self.signal = signal
        self.to_real = to_real
        self.sampler: Sampler = "ancestral"
        self.steps = list(range(len(signal) - 1, -1, -1))

    @property
    def has_density(self) -> bool:
        """Whether ``log_prob`` can be evaluated; not if the draws are guided."""
        return True

    def save(self, path: str | Path) -> None:
        """Write the trained model to a file; :func:`load_ddpm` reads it back."""
        self.packed().write(path)

    def packed(self) -> Packed:
        """Return what it is made of, for a file."""
        linear = [m for m in self.network.layers if isinstance(m, nn.Linear)]
        family, numbers = pack_prior(self.prior)
        shape = {"layers": len(linear), "hidden": linear[0].out_features}
        groups = {
            "prior": numbers,
            "network": self.network.state_dict(),
            "schedule": {"signal": self.signal, "steps": torch.tensor(self.steps)},
            "training_range": vars(self.training_range),
        }
        return Packed(KIND, shape | {"prior": family, "sampler": self.sampler}, groups)

    def deterministic(self, num_steps: int = 20) -> DiffusionPosterior:
        """Return the same model with a deterministic sampler of few steps.

        Solves the probability-flow equation with a second-order multistep method
        (DPM-Solver++, Lu et al. 2022) on steps equally spaced in log signal-to-noise
        ratio. Twenty steps cost a tenth of the ancestral sampler's two hundred.

        Args:
            num_steps: Most steps; those that fall on the same step of the schedule are
                taken once.
        """
        return self._with_sampler("deterministic", num_steps)

    def quick(self) -> DiffusionPosterior:
        """Return the model with few deterministic steps; itself if it takes few."""
        return self.deterministic() if len(self.steps) > FEW_STEPS else self

    def ancestral(self, num_steps: int) -> DiffusionPosterior:
        """Return the same model with the ancestral sampler on fewer steps.

        Args:
            num_steps: Most steps, equally spaced in log signal-to-noise ratio.
        """
        return self._with_sampler("ancestral", num_steps)

    def _with_sampler(self, sampler: Sampler, num_steps: int) -> DiffusionPosterior:
        if not 2 <= num_steps <= len(self.signal):
            raise ValueError(
                f"num_steps must be between 2 and {len(self.signal)}, got {num_steps}"
            )
        log_ratio = torch.logit(self.signal.double()) / 2
        even = torch.linspace(0, 1, num_steps).to(log_ratio)
        target = torch.lerp(log_ratio[-1], log_ratio[0], even)
        nearest = (log_ratio - target[:, None]).abs().argmin(dim=1)
        other = copy.copy(self)
        other.sampler = sampler
        other.steps = nearest.unique().flip(0).tolist()
        return other

    def _draw_passes(self, counts: list[int], x: Tensor, seed: int | None) -> list[Tensor]:
        """Draw from a generator of its own: threads need not wait for each other."""
        rng = generator(seed, x.device)
        return [self._draw(count, x, rng) for count in parts(counts, "part")]

    def _draw(
        self, num_samples: int, x: Tensor, rng: torch.Generator | None = None
    ) -> Tensor:
        """Run the reverse process for all draws of all observations at once."""
        condition = self.network.x_scale(x).repeat(num_samples, 1)
        dim_theta = len(self.network.theta_scale.mean)
        noise = torch.randn(len(condition), dim_theta, device=x.device, generator=rng)
        if self.sampler == "ancestral":
            theta = self._ancestral(noise, condition, rng)
        else:
            theta = self._multistep(noise, condition)
        real_theta = self.network.theta_scale.invert(theta)
        return self.to_real.inv(real_theta).unflatten(0, (num_samples, len(x)))

    def _clean(self, theta: Tensor, step: int, condition: Tensor) -> Tensor:
        """Predict theta without noise."""
        now = torch.full((1,), step, device=theta.device)
        noise = self.network(theta, now, condition)
        left = self.signal[step]
        return (theta - (1 - left).sqrt() * noise) / left.sqrt()

    def _adjust(
        self,
        theta: Tensor,
        step: int,
        following: int,
        condition: Tensor,
        rng: torch.Generator | None,
    ) -> Tensor:
        """Change theta after a step, for guided samplers; nothing to do here."""
        return theta

    def _ancestral(
        self, theta: Tensor, condition: Tensor, rng: torch.Generator | None
    ) -> Tensor:
        """Sample step by step from the reverse transitions (Ho et al., Eq. 6 and 7)."""
        for step, following in pairwise(self.steps):
            left, left_next = self.signal[step], self.signal[following]
            kept = left / left_next
            clean = self._clean(theta, step, condition)
            mean = (
                left_next.sqrt() * (1 - kept) * clean
                + kept.sqrt() * (1 - left_next) * theta
            ) / (1 - left)
            variance = (1 - left_next) / (1 - left) * (1 - kept)
            theta = mean + variance.sqrt() * standard_normal(theta, rng)
            theta = self._adjust(theta, step, following, condition, rng)
        return self._clean(theta, 0, condition)

    def _multistep(self, theta: Tensor, condition: Tensor) -> Tensor:
        """Solve the probability-flow equation in log signal-to-noise ratio."""
        scale, noise = self.signal.sqrt(), (1 - self.signal).sqrt()
        log_ratio = (scale / noise).log()
        before = None
        for step, following in pairwise(self.steps):
            clean = self._clean(theta, step, condition)
            length = log_ratio[following] - log_ratio[step]
            slope = clean
            if before is not None:
                clean_before, length_before = before
                slope = clean + length / (2 * length_before) * (clean - clean_before)
            theta = noise[following] / noise[step] * theta
            theta = theta - scale[following] * torch.expm1(-length) * slope
            before = (clean, length)
        return self._clean(theta, 0, condition)

    def log_prob(self, theta: ArrayLike, x: ArrayLike) -> Tensor:
        r"""Evaluate theta ``(num_samples, batch, dim_theta)`` at x ``(batch, dim_x)``.

        The density of the probability-flow equation (Song et al. 2021, Section 4.3), from
        theta to the noise that the sampler starts from:

        .. math:: \log q(\theta_0) = \log N(\theta_T; 0, I) + \int_0^{\phi_T}
            \nabla \cdot v\, d\phi, \qquad \frac{d \theta}{d \phi} = v(\theta, \phi),
            \quad \cos^2 \phi_t = \bar\alpha_t

        solved by Heun's method on the sampler's steps, with the exact divergence. It takes
        ``2 (1 + dim_theta)`` times as long as a draw in as many steps;
        ``deterministic(50).log_prob`` is quicker, and nearly as exact unless the posterior
        is ten times as narrow as the prior. Draws follow it up to the discretisation of
        their sampler. Where the posterior is narrower than the noise of the first step,
        it is too wide.

        Differentiable in theta; minus infinity outside the prior's support.

        Raises:
            ValueError: If the model is guided, so that its draws follow no density.
        """
        if not self.has_density:
            raise ValueError(f"{type(self).__name__} can be sampled but has no density")
        theta, x = self._check_density_input(theta, x)
        assert self.prior is not None  # noqa: S101 (every diffusion model knows it)
        condition = self.network.x_scale(x)

        def real_log_prob(real_theta: Tensor) -> Tensor:
            rows = self.network.theta_scale(real_theta).flatten(0, 1)
            number = torch.arange(len(rows), device=rows.device)
            each = [
                self._log_density(rows[some], condition[some % len(x)])
                for some in parts(number.split(self.max_density_rows), "part")
            ]
            log_density = torch.cat(each) - self.network.theta_scale.scale.log().sum()
            return log_density.unflatten(0, real_theta.shape[:2])

        return self._told(density_at(self.prior, self.to_real, theta, real_log_prob))

    def _log_density(self, theta: Tensor, condition: Tensor) -> Tensor:
        """Evaluate rows of standardised theta ``(n, dim_theta)``."""
        angle = torch.atan2((1 - self.signal).sqrt(), self.signal.sqrt()).tolist()
        steps = self.steps[::-1]
        # Without noise nothing moves, and up to the first step the velocity grows in
        # proportion to the angle: half of it is its average.
        velocity, divergence = self._velocity(theta, steps[0], condition)
        theta = theta + angle[steps[0]] / 2 * velocity
        log_stretch = angle[steps[0]] / 2 * divergence
        for step, following in pairwise(steps):
            length = angle[following] - angle[step]
            here = self._velocity(theta, step, condition)
            there = self._velocity(theta + length * here[0], following, condition)
            theta = theta + length / 2 * (here[0] + there[0])
            log_stretch = log_stretch + length / 2 * (here[1] + there[1])
        constant = theta.shape[1] / 2 * math.log(2 * math.pi)
        return log_stretch - theta.square().sum(dim=1) / 2 - constant

    def _velocity(
        self, theta: Tensor, step: int, condition: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Differentiate theta by the angle; return that and its divergence, ``(n,)``."""
        left = self.signal[step]
        wanted = torch.is_grad_enabled() and theta.requires_grad
        with torch.enable_grad():
            noisy = theta if wanted else theta.detach().requires_grad_()
            clean = self._clean(noisy, step, condition)
            velocity = (left.sqrt() * noisy - clean) / (1 - left).sqrt()
            divergence = torch.zeros_like(theta[:, 0])
            for column in range(theta.shape[1]):
                (slope,) = torch.autograd.grad(
                    velocity[:, column].sum(), noisy, retain_graph=True, create_graph=wanted
                )
                divergence = divergence + slope[:, column]
        return (velocity, divergence) if wanted else (velocity.detach(), divergence)

    def __repr__(self) -> str:
        return f"DiffusionPosterior({self.sampler}, {len(self.steps)} steps)"


def standard_normal(like: Tensor, rng: torch.Generator | None) -> Tensor:
    """Draw what ``torch.randn_like`` draws, which takes no generator."""
    return torch.empty_like(like).normal_(generator=rng)


class _Denoiser(nn.Module):
    """Predicts the noise in theta from theta, a sinusoidal code of the step, and x."""

    dim_time = 64
    frequency: Tensor

    def __init__(
        self,
        theta_scale: Standardise,
        x_scale: Standardise,
        *,
        layers: int,
        hidden: int,
    ) -> None:
        super().__init__()
        self.theta_scale = theta_scale
        self.x_scale = x_scale
        dim_theta, dim_x = len(theta_scale.mean), len(x_scale.mean)
        dim_in = dim_theta + self.dim_time + dim_x
        self.layers = perceptron(dim_in, dim_theta, layers=layers, hidden=hidden)
        half = self.dim_time // 2
        frequency = torch.exp(-math.log(10_000) * torch.arange(half) / half)
        self.register_buffer("frequency", frequency)

    def forward(self, theta: Tensor, step: Tensor, x: Tensor) -> Tensor:
        # One step for all rows, where draws are made, is encoded once.
        angle = step[:, None] * self.frequency
        code = torch.cat([angle.sin(), angle.cos()], dim=1).expand(len(theta), -1)
        return self.layers(torch.cat([theta, code, x], dim=1))
