"""What ``fit_corrector`` would do with these rows."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ma_sbi.choosing import Why, fit_corrector
from ma_sbi.diagnostics.diagnostic import Diagnostic

if TYPE_CHECKING:
    from ma_sbi.diagnostics.subject import Subject

__all__ = ["DIAGNOSTIC", "weights_in_words"]


def weights_in_words(why: Why) -> str:
    """Name the proposals that have a weight, the largest first.

    Example:
        >>> from ma_sbi.choosing.why import Tried
        >>> shift = Tried("shift", "a shift", 0.9, 0.1, 0.25, 0.0)
        >>> nothing = Tried("nothing departs", "nothing", 0.0, 0.0, 0.75, 1.0)
        >>> weights_in_words(Why((shift, nothing), "mixture", "x_sim", 9, "None", ()))
        '75% nothing departs, 25% shift; under a new context 100% nothing departs'
    """
    seen = _largest_first({one.name: one.weight for one in why.tried})
    unseen = _largest_first({one.name: one.weight_unseen for one in why.tried})
    return seen if unseen == seen else f"{seen}; under a new context {unseen}"


def _largest_first(weights: dict[str, float]) -> str:
    ordered = sorted(weights, key=lambda name: -weights[name])
    return ", ".join(
        f"{weights[name]:.0%} {name}" for name in ordered if weights[name] >= 0.005
    )


def _run(subject: Subject) -> Why:
    rows = subject.affine_subject
    why = fit_corrector(
        rows.entries,
        rows.x_obs,
        rows.x_sim,
        posterior=rows.posterior,
        encoder=rows.encoder,
        groups=rows.groups,
        seed=rows.seed,
    ).why
    # An encoder that was chosen here holds every text: print what makes it instead.
    code = subject.encoder_code
    return why if code in ("", "encoder") else replace(why, encoder=code)


DIAGNOSTIC = Diagnostic(
    "fit_corrector",
    "What would fit_corrector do?",
    _run,
    needs=("x_sim",),
    answer=weights_in_words,
)
