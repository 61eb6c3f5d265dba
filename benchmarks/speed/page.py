"""The tables and the figures of docs/how_to/speed.md, from the rows."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks.speed.timing import Row, read_rows

ROOT = Path(__file__).parents[2]
CSV = ROOT / "benchmarks" / "results" / "speed.csv"
CUDA_CSV = CSV.with_name("speed-cuda.csv")
PAGE = ROOT / "docs" / "how_to" / "speed.md"
FIGURES = PAGE.parent / "figures"
# C2ST values that differ by less count as equal: five tests of 500 draws, two seeds.
SAME_C2ST = 0.01
FITS = ("fit, rows", "fit, contexts", "fit, columns")


def spread(row: Row, digits: int = 2) -> str:
    """Write a ratio with its quartiles, if it was timed more than once."""
    ratio, low, high = (f"{one:.{digits}f}" for one in (row.ratio, row.low, row.high))
    return f"{ratio} ({low} to {high})" if row.turns > 1 else ratio


def brief(seconds: float) -> str:
    """Write seconds with two digits."""
    return f"{seconds:.2g}" if seconds < 10 else f"{seconds:.0f}"


def markdown(head: Sequence[str], lines: Sequence[Sequence[object]]) -> str:
    """Write a table; the first column is words, the others are numbers."""
    rule = "|---" + "|---:" * (len(head) - 1) + "|"
    rows = ["| " + " | ".join(map(str, line)) + " |" for line in (head, *lines)]
    return "\n".join([rows[0], rule, *rows[1:]]) + "\n"


def sampling(rows: list[Row]) -> str:
    """Corrected over plain: a line for each correction, a column for each posterior."""
    found = {tuple(row.what.split(": ")): row for row in rows}
    posteriors = dict.fromkeys(one for one, _ in found)
    corrections = dict.fromkeys(one for _, one in found)
    lines = [
        [
            correction,
            *(
                spread(found[one, correction]) if (one, correction) in found else ""
                for one in posteriors
            ),
        ]
        for correction in corrections
    ]
    return markdown(["correction", *posteriors], lines)


def growth(of: str) -> Callable[[list[Row]], str]:
    """Seconds at growing sizes, and how many times those of the size before."""

    def write(rows: list[Row]) -> str:
        names = dict.fromkeys(row.what for row in rows)
        found = {(row.what, row.size): row for row in rows}
        head = [of]
        for name in names:
            head += [f"{name}, seconds", "times the line above"]
        lines = []
        for size in sorted({row.size for row in rows}):
            line = [f"{size:,}"]
            for name in names:
                row = found.get((name, size))
                line += ["", ""] if row is None else [brief(row.seconds), ""]
                if row is not None and row.against:
                    line[-1] = spread(row, 1)
            lines.append(line)
        return markdown(head, lines)

    return write


def flow(rows: list[Row]) -> str:
    """Seconds per epoch and the loss on new rows."""
    head = ["fit_flow", "seconds per epoch", "times the other", "loss", "loss of the other"]
    lines = [
        [
            f"{row.what}, against {row.against}",
            f"{row.seconds:.3f}",
            spread(row),
            f"{row.reached:.2f}",
            f"{row.against_reached:.2f}",
        ]
        for row in rows
    ]
    return markdown(head, lines)


def diffusion(rows: list[Row]) -> str:
    """Seconds of training and of drawing, and the C2ST, by epochs."""
    training, drawing = _steps(rows)
    head = ["task: model", "epochs", "training, seconds", "drawing, seconds", "C2ST"]
    lines = [
        [
            *name,
            brief(training[name].seconds),
            brief(drawing[name].seconds),
            f"{training[name].reached:.3f}",
        ]
        for name in sorted(training, key=lambda name: list(names(rows)).index(name[0]))
    ]
    return markdown(head, lines)


def _steps(rows: list[Row]) -> list[dict[tuple[str, int], Row]]:
    """Find the rows of training and of drawing, by name and epochs."""
    return [
        {(row.what, row.size): row for row in rows if row.part == f"diffusion, {step}"}
        for step in ("training", "drawing")
    ]


def names(rows: list[Row]) -> dict[str, None]:
    """Give what was timed, once each, in order."""
    return dict.fromkeys(row.what for row in rows)


def at_equal_c2st(rows: list[Row]) -> str:
    """Compare the fewest epochs with which fit_ddpm and another are equally good."""
    training, drawing = _steps(rows)
    lines = []
    for what in names(rows):
        ours = what.split(": ")[0] + ": fit_ddpm"
        if what == ours:
            continue
        best = [
            min(row.reached for row in training.values() if row.what == name)
            for name in (what, ours)
        ]
        # What the less good of the two reaches.
        most = max(best) + SAME_C2ST
        pair = [
            min(key for key, row in training.items() if key[0] == n and row.reached <= most)
            for n in (what, ours)
        ]
        values = [f"{training[name].reached:.3f}" for name in pair]
        cells = []
        for step in (training, drawing):
            theirs, own = (step[name].seconds for name in pair)
            cells += [brief(theirs), brief(own), f"{theirs / own:.1f}"]
        lines.append([what, *values, *cells])
    of = "of fit_ddpm"
    head = ["task: model", "C2ST", of, "training, seconds", of, "times", "drawing, seconds"]
    return markdown([*head, of, "times"], lines)


def c2st(rows: list[Row]) -> str:
    """Seconds of the recipe in torch, over those of sbi's function."""
    head = ["tests", "seconds", "times sbi's c2st, mlp", "C2ST", "sbi's"]
    lines = [
        [
            row.what,
            brief(row.seconds),
            spread(row),
            f"{row.reached:.3f}",
            f"{row.against_reached:.3f}",
        ]
        for row in rows
    ]
    return markdown(head, lines)


def encoding(rows: list[Row]) -> str:
    """Contexts per second."""
    found = {(row.what, row.size): row for row in rows}
    lines = []
    for size in sorted({row.size for row in rows}):
        cells = [found.get((name, size)) for name in names(rows)]
        rates = [f"{row.size / row.seconds:,.0f}" if row else "" for row in cells]
        lines.append([f"{size:,}", *rates])
    return markdown(["contexts", *names(rows)], lines)


def streaming(rows: list[Row]) -> str:
    """Rows per second of the command."""
    head = ["rows", "seconds", "rows per second", "times a copy by pandas"]
    lines = [
        [
            f"{row.size:,}",
            brief(row.seconds),
            f"{row.size / row.seconds:,.0f}",
            spread(row, 1),
        ]
        for row in rows
    ]
    return markdown(head, lines)


def many_epochs(rows: list[Row]) -> str:
    """Seconds of all epochs, and the loss on new rows."""
    lines = [[row.what, brief(row.seconds), f"{row.reached:.2f}"] for row in rows]
    return markdown(["fit_flow", "seconds of 60 epochs", "loss"], lines)


def recorded(rows: list[Row]) -> str:
    """Seconds of recorded steps, over those of single ones."""
    names = {"ddpm": "", "density": "fit_density, "}
    lines = [
        [f"{names[row.part]}{row.what}", f"{row.size:,}", brief(row.seconds), spread(row)]
        for row in rows
    ]
    head = ["trained", "simulations", "seconds", "times kernels one by one"]
    return markdown(head, lines)


def drawing(rows: list[Row]) -> str:
    """Seconds of draws: a line for each number of them."""
    found = {(row.what, row.size): row for row in rows}
    lines = []
    for size in sorted({row.size for row in rows}):
        cells = [found.get((name, size)) for name in names(rows)]
        lines.append([f"{size:,}", *(f"{row.seconds:.3f}" if row else "" for row in cells)])
    return markdown(["draws", *names(rows)], lines)


Tables = dict[str, tuple[tuple[str, ...], Callable[[list[Row]], str]]]
TABLES: Tables = {
    "sampling": (("sampling",), sampling),
    "fit-rows": (FITS[:1], growth("rows")),
    "fit-contexts": (FITS[1:2], growth("contexts")),
    "fit-columns": (FITS[2:], growth("columns of x")),
    "flow": (("flow",), flow),
    "diffusion": (("diffusion, training", "diffusion, drawing"), diffusion),
    "equal-c2st": (("diffusion, training", "diffusion, drawing"), at_equal_c2st),
    "c2st": (("c2st",), c2st),
    "encoding": (("encoding",), encoding),
    "streaming": (("streaming",), streaming),
}


ON_GPU: Tables = {
    "gpu-epochs": (("flow, 60 epochs",), many_epochs),
    "gpu-flow": (("flow by epoch",), flow),
    "gpu-recorded": (("ddpm", "density"), recorded),
    "gpu-drawing": (("drawing",), drawing),
}


def tables(rows: list[Row], known: Tables = TABLES) -> dict[str, str]:
    """Write every table that there are rows for, in Markdown."""
    written = {}
    for name, (parts, write) in known.items():
        some = [row for row in rows if row.part in parts]
        if some:
            written[name] = write(some)
    return written


def write_page() -> None:
    """Put the tables between their marks, and draw the figures."""
    from benchmarks.speed.figures import draw

    rows = read_rows(CSV)
    text = PAGE.read_text(encoding="utf-8")
    on_gpu = tables(read_rows(CUDA_CSV), ON_GPU)
    for name, table in (tables(rows) | on_gpu).items():
        marks = rf"(<!-- table {name} -->\n).*?(<!-- end -->)"
        text = re.sub(marks, lambda m, t=table: f"{m[1]}\n{t}\n{m[2]}", text, flags=re.S)
    PAGE.write_text(text, encoding="utf-8")
    draw(rows, FIGURES)
