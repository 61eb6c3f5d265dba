"""Tables of `docs/bench/verdicts.md`, from what the benchmarks of the check wrote.

python bench/benchmarks/check_tables.py
"""

from pathlib import Path

import pandas as pd

RESULTS = Path(__file__).parent / "results"
TASKS = (
    "gaussian_linear",
    "slcp",
    "slcp_continuous",
    "two_moons",
    "sir_delay",
    "ddm",
    "ddm_trials",
)
LEAKING = ("gaussian_linear", "slcp", "two_moons", "sir_delay", "ddm")
SHORT = {
    "use": "use",
    "use the marginal part only": "marginal",
    "use with care": "care",
    "do not use": "no",
}
CONTEXTS = {
    "informative": "names the regime",
    "right half of the time": "right half of the time",
    "uninformative": "independent of the regime",
    "well_specified": "no departure",
    "leak: ": "depends on theta (four kinds), x_sim alone",
    "leak, theta: ": "the same, theta given",
}
REAL = {
    "covid": "Covid-19 and policies",
    "forstmann2008": "speed and accuracy (Forstmann 2008)",
    "cavanagh2011_dbs": "Cavanagh 2011",
}
NOT_RUN = "not run"
X_SIM = {"predicted": "predicted by the posterior", "no x_sim": "none"}


def table(head, rows):
    """Write rows as a table of Markdown."""
    rows = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(map(str, row))} |" for row in rows)


def verdicts(found):
    """Write verdicts of tasks; those that differ from what was expected have a mark."""

    def cell(task, context):
        some = found[(found["data"] == task) & found["context"].str.startswith(context)]
        if context.startswith("leak") and task not in LEAKING:
            return ""
        if len(some) < 2:
            return ", ".join(_marked(some)) or NOT_RUN
        return ", ".join(
            f"{num} {each}" for each, num in _marked(some).value_counts().items()
        )

    rows = [
        [words, *(cell(task, context) for task in TASKS)]
        for context, words in CONTEXTS.items()
    ]
    return table(["context", *(f"`{task}`" for task in TASKS)], rows)


def _marked(found):
    mark = found["as expected"].map({True: "", False: " (!)"})
    return found["verdict"].map(SHORT) + mark


def real_verdicts(found):
    """Write verdicts of real data."""
    rows = []
    for data, words in REAL.items():
        for context, x_sim in X_SIM.items():
            some = found[(found["data"] == data) & (found["context"] == context)]
            rows.append([words, x_sim, ", ".join(_marked(some)) or NOT_RUN])
    return table(["data", "x_sim", "verdict"], rows)


def shares(found):
    """Write per cent found without groups / with groups, a column for each n.

    Cases with nothing to find are joined: the largest share of them.
    """
    sizes = sorted(found["n"].unique())
    rows = []
    for test, some in found.groupby("test", sort=False):
        none = some[~some["to be found"]]
        num = none["case"].nunique()
        if num:
            worst = none.groupby(["n", "groups"])["share"].max()
            name = none["case"].iloc[0] if num == 1 else f"{num} cases, the worst"
            rows.append([test, f"*{name}*", *(_pair(worst[n]) for n in sizes)])
        for case, each in some[some["to be found"]].groupby("case", sort=False):
            share = each.set_index(["n", "groups"])["share"]
            rows.append([test, case, *(_pair(share[n]) for n in sizes)])
    return table(["it says", "case", *sizes], rows)


def _pair(share):
    return f"{100 * share['none']:.0f} / {100 * share['of 5']:.0f}"


def times(found):
    """Write seconds of one core, wall time in brackets."""
    sizes = sorted(found["rows"].unique())
    rows = []
    for (context, posterior), some in found.groupby(["context", "posterior"], sort=False):
        cells = {
            row["rows"]: f"{row['cpu seconds']:.0f} ({row['seconds']:.0f})"
            for _, row in some.iterrows()
        }
        rows.append([context, posterior, *(cells.get(n, NOT_RUN) for n in sizes)])
    return table(["context", "posterior", *(f"{n:,} rows" for n in sizes)], rows)


TABLES = {
    "check.csv": (verdicts, real_verdicts),
    "check_power.csv": (shares,),
    "check_time.csv": (times,),
}
"""For each file of results, its tables."""


def tables():
    """Yield every table of the page."""
    for name, makers in TABLES.items():
        found = pd.read_csv(RESULTS / name, keep_default_na=False)
        for make in makers:
            yield make(found)


if __name__ == "__main__":
    print(*tables(), sep="\n\n")
