"""Classifier two-sample test: how well a classifier tells draws from reference draws.

Recipes are not interchangeable: on the same draws they differ by as much as the methods
that are compared. Store the recipe's name and settings with every value.
"""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
import torch
from joblib import Parallel, delayed
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]  # no stubs
from torch import Tensor

from ma_sbi.metrics.classifiers import cross_validated_accuracy
from ma_sbi.metrics.draws import as_draws
from ma_sbi.protocols import ArrayLike
from ma_sbi.validation import as_count, as_matrix

__all__ = ["RECIPES", "c2st", "c2st_batch"]

Array = NDArray[np.float32]
Recipe = dict[str, Any]

_MLP: Recipe = {
    "engine": "sklearn",
    "classifier": "mlp",
    "activation": "relu",
    "solver": "adam",
    "hidden_units_per_dim": [10, 10],
    "max_iter": 1000,
    "early_stopping": True,
    "n_iter_no_change": 50,
}

RECIPES: dict[str, Recipe] = {
    "mlp": _MLP,
    "fast": _MLP | {"engine": "torch"},
    "sbibm": {
        "engine": "sklearn",
        "classifier": "mlp",
        "activation": "relu",
        "solver": "adam",
        "hidden_units_per_dim": [10, 10],
        "max_iter": 10_000,
    },
    "rf": {"engine": "sklearn", "classifier": "rf", "n_estimators": 100},
}
"""Every recipe with all its settings.

All average the accuracy over five folds, on draws standardised by the reference.

- ``mlp``: sbi's network with early stopping.
- ``fast``: the same in torch, for many tests at once; equal up to rounding.
- ``sbibm``: the network of the sbibm benchmark, trained until its loss stalls.
- ``rf``: sbi's random forest.
"""

NUM_FOLDS, MIN_DRAWS, ENOUGH_DRAWS = 5, 10, 200


def c2st(
    samples: ArrayLike, reference: ArrayLike, *, recipe: str = "mlp", seed: int = 1
) -> float:
    """Measure how well a classifier separates draws from reference draws.

    About 0.5 for draws from one distribution, 1 for draws that never overlap. At 500
    draws one value has a standard deviation near 0.02: compare averages over cases.
    Below 200 draws a recipe with early stopping may stop before it has learned
    anything and return 0.5 for draws that are far apart; it gives a warning.

    Args:
        samples: Draws to compare, shape ``(num_samples, dim)``.
        reference: Draws from the truth, as many, shape ``(num_samples, dim)``. They
            set the scale on which both are standardised.
        recipe: A key of :data:`RECIPES`.
        seed: Seed of folds and classifiers; same seed, same value.

    Returns:
        Accuracy on rows left out of training, averaged over five folds.

    Raises:
        ValueError: If the recipe is unknown, the draws are not finite matrices of one
            shape, or there are too few of them.

    Example:
        >>> draws = torch.linspace(0, 1, 50)[:, None]
        >>> c2st(draws, draws + 2, recipe="rf")
        1.0
    """
    samples, reference = (
        as_matrix(samples, "samples"),
        as_matrix(reference, "reference"),
    )
    return c2st_batch(samples[:, None], reference[:, None], recipe=recipe, seed=seed).item()


def c2st_batch(
    samples: ArrayLike,
    reference: ArrayLike,
    *,
    recipe: str = "mlp",
    seed: int = 1,
    num_workers: int = 1,
    device: torch.device | str = "cpu",
) -> Tensor:
    """Run :func:`c2st` for every observation of a batch.

    Each test runs on one thread; values do not depend on the number of workers.

    Args:
        samples: Draws to compare, shape ``(num_samples, batch, dim)``.
        reference: Draws from the truth, same shape.
        recipe: A key of :data:`RECIPES`.
        seed: Seed of folds and classifiers, the same for every test.
        num_workers: Number of processes.
        device: Where the networks of the recipe ``fast`` are trained.

    Returns:
        One value per observation, shape ``(batch,)``, on the processor.

    Raises:
        ValueError: As for :func:`c2st`, or if another recipe is to run on a device.
    """
    if recipe not in RECIPES:
        raise ValueError(f"recipe must be one of {sorted(RECIPES)}, got {recipe!r}")
    num_workers = as_count(num_workers, "num_workers")
    draws, truth = as_draws(samples, "samples"), as_draws(reference, "reference")
    if draws.shape != truth.shape:
        raise ValueError(
            "samples and reference must have the same shape (as many draws, "
            f"observations and dimensions), got {tuple(draws.shape)} and "
            f"{tuple(truth.shape)}: subsample the larger one"
        )
    if len(draws) < MIN_DRAWS:
        raise ValueError(f"at least {MIN_DRAWS} draws are needed, got {len(draws)}")
    settings, device = RECIPES[recipe], torch.device(device)
    if device.type != "cpu" and settings["engine"] != "torch":
        raise ValueError(f"recipe {recipe!r} runs on the processor alone, got {device}")
    if settings.get("early_stopping") and len(draws) < ENOUGH_DRAWS:
        warnings.warn(
            f"recipe {recipe!r} stops too early below {ENOUGH_DRAWS} draws and finds "
            f"values that are too low, got {len(draws)} draws",
            stacklevel=2,
        )

    # Arrays, not tensors: a view of a tensor would be sent whole to every worker.
    arrays = [part.transpose(0, 1).cpu().numpy() for part in (draws, truth)]
    num_cases = draws.shape[1]
    share = math.ceil(num_cases / num_workers) if settings["engine"] == "torch" else 1
    shares = [slice(start, start + share) for start in range(0, num_cases, share)]
    values = Parallel(n_jobs=min(num_workers, len(shares)))(
        delayed(_accuracies)(*[array[cases] for array in arrays], settings, seed, device)
        for cases in shares
    )
    return torch.cat(values)


def _accuracies(
    samples: Array,
    reference: Array,
    settings: Recipe,
    seed: int,
    device: torch.device,
) -> Tensor:
    """Run the tests of one worker on draws of shape ``(batch, num_samples, dim)``."""
    run = _in_torch if settings["engine"] == "torch" else _in_sbi
    draws, truth = (torch.tensor(one, device=device) for one in (samples, reference))
    with threadpool_limits(1):
        return run(draws, truth, settings, seed).cpu()


def _in_sbi(samples: Tensor, reference: Tensor, settings: Recipe, seed: int) -> Tensor:
    """Run the tests one after the other through sbi."""
    from sbi.utils import metrics as sbi_metrics  # late: sbi takes seconds

    options = {
        key: value
        for key, value in settings.items()
        if key not in ("engine", "classifier", "hidden_units_per_dim")
    }
    if settings["classifier"] == "mlp":
        options["hidden_layer_sizes"] = _hidden(settings, samples.shape[2])
    values = [
        sbi_metrics.c2st(
            truth,
            draws,
            seed=seed,
            n_folds=NUM_FOLDS,
            classifier=settings["classifier"],
            classifier_kwargs=options,
        )
        for draws, truth in zip(samples, reference, strict=True)
    ]
    return torch.stack(values).float()


def _in_torch(samples: Tensor, reference: Tensor, settings: Recipe, seed: int) -> Tensor:
    """Run all tests at once."""
    data = torch.stack(
        [_standardise(*pair) for pair in zip(samples, reference, strict=True)]
    )
    labels = torch.tensor([0.0, 1.0]).to(data).repeat_interleave(samples.shape[1])
    return cross_validated_accuracy(
        data,
        labels,
        hidden=_hidden(settings, samples.shape[2]),
        max_epochs=settings["max_iter"],
        patience=settings["n_iter_no_change"],
        num_folds=NUM_FOLDS,
        seed=seed,
    )


def _standardise(samples: Tensor, reference: Tensor) -> Tensor:
    """Put the reference and the draws on the reference's scale, as sbi does."""
    mean, std = reference.mean(dim=0), reference.std(dim=0)
    std[std < 1e-14] = 1
    return torch.cat([(reference - mean) / std, (samples - mean) / std])


def _hidden(settings: Recipe, dim: int) -> tuple[int, ...]:
    return tuple(units * dim for units in settings["hidden_units_per_dim"])
