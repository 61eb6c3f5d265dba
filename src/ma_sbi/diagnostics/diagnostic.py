"""What a diagnostic is: a question, how it is run, how it answers, how it is drawn.

Each diagnostic has a file of its own in this folder that ends in a ``DIAGNOSTIC``, and a
line in ``registry.py``. That is all it takes to appear in the result of ``ma_sbi.check``,
in the terminal, on the page and in the JSON.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from ma_sbi.diagnostics.subject import Subject

__all__ = ["CannotRun", "Diagnostic", "Findings", "Picture", "Rows", "Skipped", "sentence"]

NEEDS = {
    "x_sim": "It needs x_sim: simulations at the inputs of each observation.",
    "theta": "It needs theta, the true parameters of the observations.",
    "posterior": "It needs a posterior.",
    "simulator": "It needs a simulator, which only Python can pass.",
}
"""Why a diagnostic is skipped, by what is missing."""


class CannotRun(Exception):  # noqa: N818 (no error: the data do not allow it)
    """Why a diagnostic cannot be run, in a sentence."""


@dataclass(frozen=True)
class Skipped:
    """Stands for the result of a diagnostic that was not run.

    Attributes:
        reason: Why not, in a sentence.
        failed: Whether it was started and raised an error.
    """

    reason: str
    failed: bool = False

    def __str__(self) -> str:
        return self.reason


@dataclass(frozen=True)
class Rows:
    """The rows behind the pictures.

    Attributes:
        context: One entry per row, shape ``(n,)``; the columns of a table as one text.
        is_number: Whether the entries are numbers on a scale.
        x_obs: Observations, shape ``(n, dim_x)``.
        x_sim: Simulations at the same inputs, or None.
        corrected: Observations corrected by a fit to other rows, or None.
        corrected_rows: Positions of the rows of ``corrected``, or None.
    """

    context: np.ndarray
    is_number: bool
    x_obs: np.ndarray
    x_sim: np.ndarray | None = None
    corrected: np.ndarray | None = None
    corrected_rows: np.ndarray | None = None


class Findings(Protocol):
    """What a picture may show: the rows, and every result."""

    @property
    def rows(self) -> Rows:
        """The rows of the check."""
        ...

    def found(self, name: str) -> Any:
        """Return the result of a diagnostic; None if it was not run."""
        ...


class Picture(NamedTuple):
    """A figure with its words.

    Attributes:
        title: What it shows.
        caption: How to read it.
        figure: The figure, made within :func:`ma_sbi.display.drawing.page_style`.
    """

    title: str
    caption: str
    figure: Figure


def sentence(result: Any) -> str:
    """Print a result, beginning with a capital."""
    text = str(result)
    return text[:1].upper() + text[1:]


@dataclass(frozen=True)
class Diagnostic:
    """One question that a check asks.

    Attributes:
        name: Its key among the results.
        question: What it answers, as a question.
        run: Answers it for the subject of a check; raises :class:`CannotRun` with a reason
            where that is not possible.
        needs: Attributes of the subject that must be there, keys of ``NEEDS``.
        answer: Words a result in a line or two.
        draw: Makes a picture of it; None where there is nothing to see. Imports matplotlib
            itself, so that nothing else loads it.
    """

    name: str
    question: str
    run: Callable[[Subject], Any]
    needs: tuple[str, ...] = ()
    answer: Callable[[Any], str] = sentence
    draw: Callable[[Findings], Picture | None] | None = None

    def __call__(self, subject: Subject) -> Any:
        """Run it, once everything it needs is there."""
        for need in self.needs:
            if getattr(subject, need) is None:
                raise CannotRun(NEEDS[need])
        return self.run(subject)
