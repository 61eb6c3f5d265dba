"""Runs the quick cells of an experiment."""

from ma_sbi_bench.engine.budget import Budget
from ma_sbi_bench.engine.running import cells_in, plan, run
from ma_sbi_bench.engine.store import Store


def finish(experiment, out, cells=None):
    """Return the rows of an experiment's quick cells, all of which must succeed."""
    cells = experiment.cells(Budget(quick=True)) if cells is None else cells
    store = Store(cells_in(out))
    assert run(plan(experiment, cells, store, out)) == []
    return store.rows(cells)
