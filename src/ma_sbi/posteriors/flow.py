"""A normalising flow: sbi's neural posterior estimation on a zuko network."""

from __future__ import annotations

import copy
import logging
import math
import warnings
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal

import torch
from sbi.neural_nets import posterior_nn
from sbi.utils import warn_if_invalid_for_zscoring
from torch import Tensor, nn
from torch.distributions import Distribution, Transform

from ma_sbi.display.progress import showing
from ma_sbi.posteriors.amortized import Amortized
from ma_sbi.posteriors.flow_training import FlowTraining
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
from ma_sbi.randomness import seeded
from ma_sbi.saved import Saved, num_weights
from ma_sbi.saving import Packed, read
from ma_sbi.scaling import column_scale
from ma_sbi.validation import as_count, as_counts

__all__ = ["FlowPosterior", "fit_flow", "load_flow", "unpack_flow"]

log = logging.getLogger(__name__)

KIND = "flow"
NUM_TRANSFORMS = {"nsf": 5, "maf": 8}
# Nats per parameter by which a flow may be worse than normals that ignore x.
MOST_LOST = 10.0
EMBEDDED = (
    "; if it was trained with an embedding net, pass the same net to load_flow as "
    "embedding_net="
)


def fit_flow(
    prior: Distribution,
    theta: ArrayLike,
    x: ArrayLike,
    *,
    flow: Literal["nsf", "maf"] = "nsf",
    num_transforms: int | None = None,
    hidden: Sequence[int] = (64, 64),
    embedding_net: nn.Module | None = None,
    learning_rate: float = 5e-4,
    batch_size: int = 256,
    patience: int = 20,
    max_epochs: int = 500,
    validation_fraction: float = 0.1,
    seed: int | None = None,
    device: torch.device | str | None = None,
    show_progress: bool | None = None,
) -> FlowPosterior:
    """Train a flow on simulations: sbi's NPE, in less time.

    Args:
        prior: Prior over theta; draws respect its bounds.
        theta: Parameters, shape ``(n, dim_theta)``.
        x: Simulations at theta, shape ``(n, dim_x)``.
        flow: ``"nsf"``, a neural spline flow, or ``"maf"``, the paper's masked
            autoregressive flow.
        num_transforms: Number of transforms; 5 for nsf, 8 for maf (the paper's) if None.
        hidden: Widths of the hidden layers of each transform.
        embedding_net: Network that x passes before the flow. Corrections act on the raw
            x, before it.
        learning_rate: Step size of Adam.
        batch_size: Simulations per step.
        patience: Epochs without improvement on held-out simulations before it stops.
        max_epochs: Most epochs.
        validation_fraction: Share of simulations held out.
        seed: Makes training repeatable.
        device: Where to train and sample; torch's default device if None.
        show_progress: Whether to show progress, on standard error; if None, to a person:
            on a terminal or in a notebook.

    Returns:
        A posterior with ``sample`` and ``log_prob``.

    Raises:
        ValueError: If the simulations do not match, or training diverges.
    """
    if flow not in NUM_TRANSFORMS:
        raise ValueError(f"flow must be one of {sorted(NUM_TRANSFORMS)}, got {flow!r}")
    as_count(max_epochs, "max_epochs")
    simulations = check_simulations(prior, theta, x, device)
    settings = {
        "flow": flow,
        "num_transforms": as_count(
            NUM_TRANSFORMS[flow] if num_transforms is None else num_transforms,
            "num_transforms",
        ),
        "hidden": as_counts(hidden, "hidden"),
    }
    check_training(learning_rate, batch_size, validation_fraction)
    as_count(patience, "patience")
    training = FlowTraining(
        learning_rate=learning_rate,
        batch_size=min(batch_size, len(simulations.x) // 2),
        patience=patience,
        max_epochs=max_epochs,
        validation_fraction=validation_fraction,
        steps_alike=embedding_net is None,
    )
    warn_if_invalid_for_zscoring(simulations.x)
    with (
        torch.enable_grad(),
        seeded(seed, simulations.x.device),
        showing("Training", show_progress=show_progress),
    ):
        estimator, loss, epochs = training.run(
            _builder(settings, embedding_net), simulations.real_theta, simulations.x
        )
    log.info("flow trained for %d epochs, held-out loss %.4g", epochs, loss)
    if not loss < _worst(simulations.real_theta):
        raise ValueError(DIVERGED.format(learning_rate))
    if epochs >= max_epochs:
        warnings.warn(
            f"training stopped at max_epochs={max_epochs}, before the held-out loss had "
            f"gone {patience} epochs without improving; it may not have converged",
            stacklevel=2,
        )
    return FlowPosterior(
        estimator.eval().requires_grad_(requires_grad=False),
        prior=simulations.prior,
        to_real=simulations.to_real,
        training_range=simulations.training_range,
        settings=settings,
    )


def load_flow(
    path: str | Path,
    prior: Distribution | None = None,
    *,
    embedding_net: nn.Module | None = None,
    device: torch.device | str | None = None,
) -> FlowPosterior:
    """Load a flow that ``FlowPosterior.save`` wrote.

    Args:
        path: The file.
        prior: The prior it was trained with; that in the file if None, which holds it if
            it is uniform, normal or lognormal.
        embedding_net: A network of the same shape, if it was trained with one.
        device: Where to sample; torch's default device if None.

    Raises:
        ValueError: If the file holds something else, or does not fit its header.
        OSError: If there is no such file.
    """
    return unpack_flow(read(path, KIND), prior, embedding_net=embedding_net, device=device)


def unpack_flow(
    saved: Saved,
    prior: Distribution | None = None,
    *,
    embedding_net: nn.Module | None = None,
    device: torch.device | str | None = None,
) -> FlowPosterior:
    """Make a flow of what ``FlowPosterior.packed`` gave; arguments as of ``load_flow``."""
    settings: dict[str, Any] = {
        "flow": saved.choice("flow", NUM_TRANSFORMS),
        "num_transforms": saved.count("num_transforms"),
        "hidden": saved.counts("hidden"),
    }
    dim_theta, dim_x = saved.count("dim_theta"), saved.count("dim_x")
    training_range = TrainingRange.stored(saved, dim_x)
    # An embedding net of the user's own decides how wide its output is.
    shown = dim_x if embedding_net is None else 0
    widths = [dim_theta + shown, *settings["hidden"], dim_theta]
    num = settings["num_transforms"]
    saved.require_weights(
        ["estimator"],
        layers=num * (len(widths) - 1),
        weights=num * num_weights(widths),
        hint=EMBEDDED,
    )
    prior, to_real = on_real_line(stored_prior(saved, prior, dim_theta), device)
    builder = _builder(settings, embedding_net)
    # The builder takes shapes from a batch and draws weights, which are overwritten.
    with seeded(0):
        estimator = builder(torch.randn(2, dim_theta), torch.randn(2, dim_x))
    saved.fill(estimator, "estimator", EMBEDDED)
    return FlowPosterior(
        estimator.to(default_device(device)).eval().requires_grad_(requires_grad=False),
        prior=prior,
        to_real=to_real,
        training_range=training_range,
        settings=settings,
    )


def _worst(theta: Tensor) -> float:
    """Give a loss far above that of a normal density per column of theta ``(n, dim)``."""
    entropy = column_scale(theta).log() + math.log(2 * math.pi * math.e) / 2
    return (entropy + MOST_LOST).sum().item()


def _builder(settings: dict[str, Any], embedding_net: nn.Module | None) -> Any:
    return posterior_nn(
        f"zuko_{settings['flow']}",
        num_transforms=settings["num_transforms"],
        # A tuple: sbi makes an int h into [h] * num_transforms hidden layers.
        hidden_features=tuple(settings["hidden"]),
        # A copy: the user's own network is neither trained nor frozen.
        embedding_net=copy.deepcopy(embedding_net or nn.Identity()),
    )


class FlowPosterior(Amortized):
    """A trained flow; made by :func:`fit_flow`."""

    def __init__(
        self,
        estimator: Any,
        *,
        prior: Distribution,
        to_real: Transform,
        training_range: TrainingRange,
        settings: dict[str, Any],
    ) -> None:
        super().__init__(
            prior=prior,
            dim_x=estimator.condition_shape[0],
            training_range=training_range,
            device=next(estimator.parameters()).device,
        )
        self.estimator = estimator
        self.to_real = to_real
        self.settings = settings

    def save(self, path: str | Path) -> None:
        """Write the trained flow to a file; :func:`load_flow` reads it back."""
        self.packed().write(path)

    def packed(self) -> Packed:
        """Return what it is made of, for a file."""
        dims = {"dim_theta": self.estimator.input_shape[0], "dim_x": self.dim_x}
        family, numbers = pack_prior(self.prior)
        groups = {
            "prior": numbers,
            "estimator": self.estimator.state_dict(),
            "training_range": vars(self.training_range),
        }
        return Packed(KIND, self.settings | dims | {"prior": family}, groups)

    def _draw(self, num_samples: int, x: Tensor) -> Tensor:
        return self.to_real.inv(self.estimator.sample((num_samples,), condition=x))

    def log_prob(self, theta: ArrayLike, x: ArrayLike) -> Tensor:
        """Evaluate theta ``(num_samples, batch, dim_theta)`` at x ``(batch, dim_x)``.

        Differentiable in theta; minus infinity outside the prior's support.
        """
        theta, x = self._check_density_input(theta, x)
        assert self.prior is not None  # noqa: S101 (every flow knows it)
        real_log_prob = partial(self.estimator.log_prob, condition=x)
        return self._told(density_at(self.prior, self.to_real, theta, real_log_prob))

    def __repr__(self) -> str:
        return f"FlowPosterior({type(self.estimator.net).__name__}, dim_x={self.dim_x})"
