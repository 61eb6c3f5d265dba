"""Posteriors that sbi trained, as files that cannot run code.

sbi's own advice is to pickle them. Here the network's numbers are stored, with the words
that build it again: the name and the options of ``sbi.neural_nets.posterior_nn``.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import torch
from sbi.inference.posteriors.direct_posterior import DirectPosterior
from sbi.neural_nets import posterior_nn
from torch.distributions import Distribution

from ma_sbi.display.text import shorten
from ma_sbi.posteriors.priors import pack_prior, stored_prior
from ma_sbi.posteriors.sbi import SBIAdapter, from_sbi
from ma_sbi.posteriors.training_range import TrainingRange
from ma_sbi.randomness import seeded
from ma_sbi.saved import Saved, num_weights
from ma_sbi.saving import Packed, read

__all__ = ["KIND", "load_sbi", "pack_sbi", "unpack_sbi"]

KIND = "sbi posterior"
# Options that repeat a part of the network.
REPEATED = ("num_transforms", "num_blocks")
MOST_LEAKAGE = 1_000_000
# Of posterior_nn, if the option is not given.
HIDDEN_FEATURES = 50


def pack_sbi(posterior: SBIAdapter, network: str, **options: Any) -> Packed:
    """Return what an adapted sbi posterior is made of, for a file.

    Args:
        posterior: What :func:`~ma_sbi.from_sbi` returned, of NPE.
        network: The name of the network that it was trained with.
        options: The options of ``posterior_nn`` that it was trained with.

    Raises:
        ValueError: If these words do not build the network again.
    """
    if not isinstance(posterior.posterior, DirectPosterior):
        raise ValueError(
            f"a {type(posterior.posterior).__name__} of sbi cannot be saved without "
            "pickle; only posteriors of NPE can"
        )
    for name, value in options.items():
        if not _is_plain(value):
            raise ValueError(
                f"the option {name} is a {type(value).__name__}, which is code and cannot "
                "be saved: only words, numbers and lists of them can"
            )
    estimator = posterior.posterior.posterior_estimator
    settings = {
        "network": network,
        "options": options,
        "shape_theta": list(estimator.input_shape),
        "shape_x": list(estimator.condition_shape),
        "leakage_samples": getattr(posterior, "leakage_samples", 0),
    }
    state = estimator.state_dict()
    rebuilt = _build(settings)
    try:
        rebuilt.load_state_dict(state)
    except RuntimeError as error:
        raise ValueError(_other_network(settings)) from error
    _check_same(estimator, rebuilt, settings)
    family, numbers = pack_prior(posterior.prior)
    known = posterior.training_range
    groups = {"training_range": vars(known)} if type(known) is TrainingRange else {}
    settings["prior"] = family
    return Packed(KIND, settings, {"prior": numbers, "estimator": state, **groups})


def _is_plain(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return all(map(_is_plain, value))
    return value is None or isinstance(value, (bool, int, float, str))


def load_sbi(
    path: str | Path,
    prior: Distribution | None = None,
    *,
    device: torch.device | str | None = None,
) -> SBIAdapter:
    """Load a posterior that ``from_sbi(posterior).save`` wrote.

    Args:
        path: The file.
        prior: The prior it was trained with; that in the file if None.
        device: Where to sample; torch's default device if None.
    """
    return unpack_sbi(read(path, KIND), prior, device=device)


def unpack_sbi(
    saved: Saved,
    prior: Distribution | None = None,
    *,
    device: torch.device | str | None = None,
) -> SBIAdapter:
    """Make a posterior of what :func:`pack_sbi` gave; arguments as of ``load_sbi``."""
    settings = _checked_settings(saved)
    dim_theta, dim_x = (math.prod(settings[name]) for name in ("shape_theta", "shape_x"))
    prior = stored_prior(saved, prior, dim_theta)
    device = torch.get_default_device() if device is None else torch.device(device)
    try:
        estimator = _build(settings)
    except ValueError as error:
        saved.refuse(f"does not fit its header: {error}")
    estimator = saved.fill(estimator, "estimator").to(device)
    # sbi draws from the prior to learn its shape.
    with seeded(0):
        posterior = DirectPosterior(estimator, prior, device=str(device))
    adapted = from_sbi(posterior, leakage_samples=settings["leakage_samples"])
    if "training_range" in saved.groups:
        adapted.training_range = TrainingRange.stored(saved, dim_x)
    return adapted


def _checked_settings(saved: Saved) -> dict[str, Any]:
    """Check what the header says, and that its network is no larger than its tensors."""
    options = saved.setting("options")
    if not isinstance(options, dict):
        saved.refuse("has options in its header that are no options of posterior_nn")
    settings = {
        "network": saved.setting("network"),
        "options": options,
        "shape_theta": saved.counts("shape_theta"),
        "shape_x": saved.counts("shape_x"),
        "leakage_samples": saved.count("leakage_samples", least=0, most=MOST_LEAKAGE),
    }
    sizes = Saved(saved.name, options, saved.groups)
    widths = [HIDDEN_FEATURES]
    if "hidden_features" in options:
        several = isinstance(options["hidden_features"], list)
        widths = sizes.counts("hidden_features") if several else []
        widths = widths or [sizes.count("hidden_features")]
    dim = math.prod(settings["shape_theta"]) + math.prod(settings["shape_x"])
    num = math.prod(sizes.count(one) for one in REPEATED if one in options)
    # zuko's networks may have one hidden layer; those of others have more.
    deep = not str(settings["network"]).startswith("zuko") and len(widths) == 1
    inner = widths[0] ** 2 if deep else num_weights(widths)
    saved.require_weights(["estimator"], layers=num, weights=num * inner + dim * widths[0])
    for name, value in options.items():
        if type(value) is int and name not in ("hidden_features", *REPEATED):
            each = widths[-1] ** (2 if "layers" in name else 1)
            saved.require_weights(["estimator"], layers=1, weights=abs(value) * each)
    return settings


def _build(settings: dict[str, Any]) -> Any:
    options = {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in settings["options"].items()
    }
    shapes = settings["shape_theta"], settings["shape_x"]
    try:
        # Shapes are taken from a batch, and weights are drawn and then overwritten.
        with seeded(0):
            builder = posterior_nn(settings["network"], **options)
            estimator = builder(*(torch.randn(10, *shape) for shape in shapes))
    except Exception as error:  # sbi's builders refuse in many ways
        raise ValueError(_other_network(settings)) from error
    return estimator.eval().requires_grad_(requires_grad=False)


def _check_same(estimator: Any, rebuilt: Any, settings: dict[str, Any]) -> None:
    """Check that two networks give the same densities."""
    with seeded(0), torch.no_grad():
        device = next(estimator.parameters()).device
        theta = torch.randn(1, 5, *settings["shape_theta"], device=device)
        x = torch.randn(5, *settings["shape_x"], device=device)
        was_training = estimator.training
        expected = estimator.eval().log_prob(theta, condition=x)
        estimator.train(was_training)
        found = rebuilt.to(device).log_prob(theta, condition=x)
    if not torch.allclose(found, expected, rtol=1e-4, atol=1e-4):
        raise ValueError(_other_network(settings))


def _other_network(settings: dict[str, Any]) -> str:
    words = [repr(settings["network"])]
    words += [f"{name}={value!r}" for name, value in settings["options"].items()]
    return (
        f"posterior_nn({shorten(', '.join(words))}) does not build the network of this "
        "posterior: pass the name and the options that it was trained with to save, such "
        "as save(path, 'nsf', hidden_features=64). A network with an embedding net, or of "
        "your own, is code and cannot be saved so"
    )
