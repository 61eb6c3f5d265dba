"""Methods: MA-SBI and its rivals under one interface.

Every method is fitted to the same :class:`Materials` and sampled the same way, so that
one can be exchanged for another::

    materials = Materials(prior=prior, posterior=posterior, calibration=calibration)
    draws = get_method("rope").fit(materials, seed=0).sample(1000, x_obs, context)

``METHODS`` names them all with the settings of the paper or of their authors.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from difflib import get_close_matches
from functools import partial
from typing import Any

from ma_sbi.correctors import Affine, ComposedCorrector, Point, Ridge, ShiftCorrector
from ma_sbi.encoders import HashEncoder
from ma_sbi_bench.methods.classifier_free import ClassifierFree
from ma_sbi_bench.methods.concat import ConcatNPE
from ma_sbi_bench.methods.fmcpe import FMCPE
from ma_sbi_bench.methods.frisbi import FRISBI
from ma_sbi_bench.methods.ma_sbi import MASBI, DefaultMASBI
from ma_sbi_bench.methods.materials import NEEDS, Calibration, Materials, Need, Simulations
from ma_sbi_bench.methods.method import CorrectingMethod, Method, RetrainedMethod
from ma_sbi_bench.methods.nnpe import NNPE, IsotropicNNPE
from ma_sbi_bench.methods.npe import NPE, Oracle, Prior
from ma_sbi_bench.methods.npe_rs import NPERS
from ma_sbi_bench.methods.prior_guide import PriorGuide
from ma_sbi_bench.methods.pull_back import PairedDepartures, RoPEEMD, RoPESinkhorn
from ma_sbi_bench.methods.regression import ContextToTheta, ContextToX
from ma_sbi_bench.methods.rnpe import RNPE
from ma_sbi_bench.methods.rope import RoPE

__all__ = [
    "FMCPE",
    "FRISBI",
    "MASBI",
    "METHODS",
    "NEEDS",
    "NNPE",
    "NPE",
    "NPERS",
    "RNPE",
    "Calibration",
    "ClassifierFree",
    "ConcatNPE",
    "ContextToTheta",
    "ContextToX",
    "CorrectingMethod",
    "DefaultMASBI",
    "IsotropicNNPE",
    "Materials",
    "Method",
    "Need",
    "Oracle",
    "PairedDepartures",
    "Prior",
    "PriorGuide",
    "RetrainedMethod",
    "RoPE",
    "RoPEEMD",
    "RoPESinkhorn",
    "Simulations",
    "available_methods",
    "describe_methods",
    "get_method",
]

METHODS: dict[str, Callable[..., Method]] = {
    "prior": Prior,
    "npe": NPE,
    "classifier_free": ClassifierFree,
    "classifier_free_guided": partial(ClassifierFree, strength=1.0),
    "concat": ConcatNPE,
    "concat_simulations": partial(ConcatNPE, with_simulations=True),
    "context_to_theta": ContextToTheta,
    "context_to_x": ContextToX,
    "fmcpe": FMCPE,
    "frisbi": FRISBI,
    "ma_sbi": MASBI,
    "ma_sbi_affine": partial(
        MASBI, corrector=ComposedCorrector(HashEncoder(), Affine(), Ridge(), Point())
    ),
    "ma_sbi_default": DefaultMASBI,
    "ma_sbi_paper": partial(
        MASBI, corrector=ShiftCorrector(HashEncoder(unit_length=False), "paper")
    ),
    "nnpe": NNPE,
    "nnpe_isotropic": IsotropicNNPE,
    "nnpe_matched": partial(IsotropicNNPE, scale="matched"),
    "npe_rs": NPERS,
    "prior_guide": PriorGuide,
    "prior_guide_jacobian": partial(PriorGuide, spread="jacobian"),
    "rnpe": RNPE,
    # The authors transport 2000 observations to 2000 simulations.
    "rope": partial(RoPE, rows="unlabelled", num_simulations=2_000),
    "rope_star": partial(RoPE, rows="unlabelled", num_simulations=2_000, tau=0.9),
    "rope_ot_only": partial(
        RoPE, rows="unlabelled", num_simulations=2_000, fine_tune=False
    ),
    "rope_calibration": partial(RoPE, rows="calibration", num_simulations=2_000),
    "rope_paper": partial(RoPE, tau=0.9, num_simulations=2_000),
    "rope_paper_ot_only": partial(RoPE, tau=0.9, num_simulations=2_000, fine_tune=False),
    "rope_emd": RoPEEMD,
    "rope_emd_aligned": partial(RoPEEMD, matched="aligned"),
    "rope_sinkhorn": RoPESinkhorn,
    "rope_sinkhorn_aligned": partial(RoPESinkhorn, matched="aligned"),
    "paired_departures": PairedDepartures,
    "oracle": Oracle,
}
"""Every method by name; a form of a method is the method with other options."""


def get_method(name: str, **options: Any) -> Method:
    """Make a method by its name.

    Args:
        name: One of the keys of ``METHODS``.
        **options: Passed on, for example ``tau=0.9`` for ``"rope"``.

    Returns:
        The method, not fitted yet.

    Raises:
        ValueError: If there is no method of that name, or it has no such option.

    Example:
        >>> sorted(get_method("ma_sbi").needs)
        ['context', 'pairs', 'posterior']
    """
    if name not in METHODS:
        near = get_close_matches(name.lower().replace("-", "_"), METHODS, n=1)
        hint = f" (did you mean {near[0]!r}?)" if near else ""
        known = ", ".join(METHODS)
        raise ValueError(f"there is no method {name!r}{hint}; known are {known}")
    known_options = METHODS[name]().get_params(deep=False)
    for option in options:
        if option not in known_options:
            offered = ", ".join(known_options) or "none"
            raise ValueError(f"{name} has no option {option!r}; its options are {offered}")
    return METHODS[name](**options)


def available_methods(materials: Materials) -> list[str]:
    """Name the methods that need no more than there is.

    Example:
        >>> from ma_sbi_bench.tasks import get_task
        >>> available_methods(Materials(prior=get_task("slcp").prior))
        ['prior']
    """
    return [name for name, make in METHODS.items() if make().needs <= materials.has]


def describe_methods() -> list[dict[str, Any]]:
    """Describe every method: what it is, what it needs, which laws it keeps.

    Returns:
        One row per method with its ``name``, ``description``, ``options`` (as text),
        ``needs`` (kinds of material), ``amortised``, ``rows_independent``, ``reads`` and
        ``reference``.
    """
    rows = []
    for name, make in METHODS.items():
        method = make()
        options = method.get_params(deep=False)
        rows.append(
            {
                "name": name,
                "description": inspect.getdoc(type(method)),
                "options": {key: repr(value) for key, value in options.items()},
                "needs": [kind for kind in NEEDS if kind in method.needs],
                "amortised": method.amortised,
                "rows_independent": method.rows_independent,
                "reads": method.reads,
                "reference": method.reference,
            }
        )
    return rows
