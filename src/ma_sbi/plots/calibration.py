"""Whether regions of a posterior contain the truth as often as they should."""

from __future__ import annotations

from typing import Any

from matplotlib.axes import Axes

from ma_sbi.diagnostics.coverage import LEVELS, Coverage, coverage
from ma_sbi.display.coverage import draw_coverage
from ma_sbi.display.progress import say, showing
from ma_sbi.labels import in_columns, match_table
from ma_sbi.plots.panels import one_axes
from ma_sbi.posterior import CorrectedPosterior
from ma_sbi.protocols import ArrayLike, Context
from ma_sbi.randomness import derive

__all__ = ["plot_coverage"]


def plot_coverage(
    corrected: CorrectedPosterior,
    theta: ArrayLike,
    x_obs: ArrayLike,
    context: Context,
    *,
    x_sim: ArrayLike | None = None,
    num_samples: int = 300,
    with_density: bool = True,
    ax: Axes | None = None,
    seed: int = 0,
    show_progress: bool | None = None,
) -> Axes:
    """Plot how often regions contain the true parameters, before and after a correction.

    Below the diagonal a posterior is too sure, or biased. Bands are 95 % intervals. The
    rows must not have been used to fit the corrector, as for
    :func:`~ma_sbi.diagnostics.coverage`, which has the figures behind the plot.

    Args:
        corrected: The corrected posterior.
        theta: True parameters of the rows, shape ``(n, dim_theta)``.
        x_obs: Observations, shape ``(n, dim_x)``.
        context: One entry per observation.
        x_sim: Simulations at the same inputs, shape ``(n, dim_x)``: a third curve shows the
            posterior's own coverage.
        num_samples: Draws per row.
        with_density: Whether regions are those of highest density, where the posterior has
            one; else central intervals, averaged over parameters, which take less time.
        ax: Where to draw; new axes if None.
        seed: Of the draws.
        show_progress: Whether to show progress, on standard error; if None, to a person:
            on a terminal or in a notebook.

    Raises:
        ValueError: If rows do not pair up, or are fewer than 20.
    """
    if not isinstance(corrected, CorrectedPosterior):
        raise ValueError(
            f"corrected must be a CorrectedPosterior, got a {type(corrected).__name__}"
        )
    x_obs = in_columns(corrected.columns_, x_obs, 1)
    x_sim = match_table(x_obs, x_sim)
    ax = one_axes(ax, (6.2, 3.9))

    def at(posterior: Any, x: ArrayLike, given: Context | None = None) -> Coverage:
        return coverage(
            posterior,
            theta,
            x,
            given,
            num_samples=num_samples,
            levels=LEVELS,
            with_density=with_density,
            seed=derive(seed, "coverage"),
        )

    asked: dict[str, tuple[Any, ...]] = {
        "at x_sim": (corrected.posterior, x_sim),
        "before correction": (corrected.posterior, x_obs),
        "after correction": (corrected, x_obs, context),
    }
    found: dict[str, Coverage] = {}
    with showing("Measuring coverage", show_progress=show_progress):
        for name, (posterior, x, *given) in asked.items():
            if x is not None:
                say(f"Measuring coverage {name}: draws and densities of each row")
                found[name] = at(posterior, x, *given)
    draw_coverage(ax, {name: one.expected for name, one in found.items()})
    return ax
