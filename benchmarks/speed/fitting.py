"""How the time of a fit grows with rows, with contexts, and with columns of x."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from benchmarks.speed.timing import Effort, Row
from benchmarks.speed.worlds import triples

TABLES = ("fit, rows", "fit, contexts", "fit, columns")
NUM_ROWS = [10**power for power in range(2, 7)]
NUM_CONTEXTS = [4, 10, 100, 1_000, 10_000, 100_000]
DIM_X = [2, 20, 200, 2_000]
# Rows where contexts grow, as the fit allows, and where columns do.
MANY_ROWS = {"ShiftCorrector": 100_000, "fit_corrector": 10_000}
FEW_ROWS = 1_000


def shift(num: int, num_contexts: int = 4, dim: int = 2) -> Callable[[], object]:
    """Prepare the fit of one shift per context."""
    from ma_sbi import HashEncoder, ShiftCorrector

    data = triples(num, num_contexts, dim)
    return lambda: ShiftCorrector(HashEncoder()).fit(*data, seed=0)


def chosen(num: int, num_contexts: int = 4, dim: int = 2) -> Callable[[], object]:
    """Prepare the fit that chooses by held-out rows."""
    from ma_sbi import fit_corrector

    data = triples(num, num_contexts, dim)
    return lambda: fit_corrector(*data, seed=0)


FITS = {"ShiftCorrector": shift, "fit_corrector": chosen}


def rows(effort: Effort) -> Iterator[Row]:
    """Time both fits."""
    last = -2 if effort.quick else None
    for name, fit in FITS.items():
        yield from effort.growth("fit, rows", name, NUM_ROWS[:last], fit)
        yield from effort.growth(
            "fit, contexts",
            name,
            [one for one in NUM_CONTEXTS[:last] if one <= MANY_ROWS[name]],
            lambda size, fit=fit, num=MANY_ROWS[name]: fit(num, size),
        )
        yield from effort.growth(
            "fit, columns",
            name,
            DIM_X[:last],
            lambda size, fit=fit: fit(FEW_ROWS, dim=size),
        )
