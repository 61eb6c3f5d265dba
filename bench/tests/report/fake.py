"""An experiment that takes no time, with texts that try to be more than texts."""

import math

from matplotlib.figure import Figure

from ma_sbi_bench.engine.budget import Budget
from ma_sbi_bench.engine.cell import Measurement
from ma_sbi_bench.engine.experiment import Experiment
from ma_sbi_bench.engine.running import cells_in
from ma_sbi_bench.engine.store import Store
from ma_sbi_bench.paper.comparing import Compared, Line, estimate
from ma_sbi_bench.report.contents import gather
from ma_sbi_bench.tables.presentation import Presentation

EVIL = "<script>alert(1)</script> | [a](b) `x` $y$ *z* \x1b[31m"
VALUES = {
    "npe": 0.9,
    "ours": 0.72,
    "far": 0.851,
    "tenth": 10.5,
    EVIL: 0.5,
    "rival": 0.8,
    "oracle": 0.7,
}
CAPTION = "How far they are: <i>so</i>."
PAPER = {"npe": 0.9, "ours": 0.75, "far": 0.7, "rival": 0.802}


class Fake(Experiment):
    name = "fake"
    title = "Fake & sound"
    place = "Table 9"
    note = "What `ours` is <here>."
    methods = tuple(VALUES)

    def cells(self, budget):
        draws = 10 if budget.quick else 1000
        return [
            self.cell(method, seed=seed, num_calibration=5, settings={"draws": draws})
            for method in self.methods
            for seed in range(budget.seeds or (2 if budget.quick else 3))
        ]

    def run(self, cell, models):
        if cell.method == "breaks":
            raise RuntimeError("the <method> broke")
        value = VALUES[cell.method] + 0.002 * cell.seed
        return [Measurement("c2st", (value, value), "fast", cell.settings["draws"])]

    def lines(self, rows):
        return [
            Line(
                "How far",
                {"method": method, "n": 100 * len(method)},
                raw=estimate(
                    part["value"].to_numpy(), paper=PAPER.get(method), better="lower"
                ),
                closed=Compared(math.nan, reason="gap 0.1 within noise"),
                metric="C2ST",
            )
            for method, part in rows.groupby("method", sort=False)
        ]

    def figures(self, rows):
        figure = Figure(figsize=(4, 2))
        figure.subplots().set_title(f"{len(rows)} rows & <b>")
        return {"how_far": figure}


class Second(Fake):
    """Shares its cells with the other one."""

    name = "second"
    title = "Second"

    def cell(self, method, **known):
        return Fake().cell(method, **known)

    def figures(self, rows):
        return {}


class Breaking(Fake):
    """Has a cell that fails, and tables and figures that do."""

    name = "breaking"
    title = "Breaking"
    methods = ("npe", "breaks")

    def lines(self, rows):
        raise KeyError("no such line")

    def figures(self, rows):
        raise ValueError("no such figure")


class Lacking(Fake):
    """Cannot be run here."""

    name = "lacking"
    title = "Lacking"

    def missing(self, cell):
        return "Its data are not here."


PRESENTATIONS = {
    one.name: Presentation(one().lines, one().figures, {"how_far": CAPTION})
    for one in (Fake, Second, Breaking, Lacking)
}


def gathered(experiments, budget, store):
    """Collect what is finished of these experiments."""
    return gather(experiments, budget, store, PRESENTATIONS)


def finished(out, experiment=None, budget=None):
    """Run every cell of an experiment; return the store."""
    experiment = experiment or Fake()
    store = Store(cells_in(out))
    for cell in experiment.cells(budget or Budget()):
        store.write(cell, experiment.run(cell, None), seconds=2.0)
    return store
