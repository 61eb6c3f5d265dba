"""Options that several commands take."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

if TYPE_CHECKING:
    from ma_sbi.protocols import AmortizedPosterior

__all__ = [
    "AllowPickle",
    "ContextColumns",
    "GroupsColumn",
    "LabelColumns",
    "NumberColumns",
    "PosteriorFile",
    "PosteriorPath",
    "Quiet",
    "Seed",
    "TableFile",
    "ThetaColumns",
    "XObsColumns",
    "XSimColumns",
    "named_columns",
    "refusals",
    "require_file",
    "warnings_told",
]

# A longer sentence is not read.
LONGEST = 2000

TableFile = Annotated[
    Path,
    typer.Argument(
        help="npz, csv, tsv or parquet with x_obs and context, and, where there are, "
        "x_sim, theta and groups.",
    ),
]
PosteriorPath = Annotated[
    Path | None,
    typer.Option(
        "--posterior",
        help="A posterior that save wrote: of fit_flow, fit_ddpm, or of sbi by "
        "from_sbi(posterior).save(file), with the name of its network if that is not maf.",
    ),
]
AllowPickle = Annotated[
    bool,
    typer.Option(
        "--allow-pickle",
        help="Let the posterior be a pickle of an sbi posterior. Reading a pickle can "
        "run any code: only for files that you wrote yourself.",
    ),
]
ContextColumns = Annotated[
    list[str] | None,
    typer.Option(
        "--context",
        help="Columns that hold the context: names between commas, or a pattern such "
        "as 'note*'; may be given several times.",
    ),
]
XObsColumns = Annotated[
    list[str] | None,
    typer.Option(
        "--x-obs", help="Columns of observations, likewise, e.g. 'temp_meas,flow_meas'."
    ),
]
XSimColumns = Annotated[
    list[str] | None,
    typer.Option("--x-sim", help="Columns of simulations, in the same order."),
]
ThetaColumns = Annotated[
    list[str] | None, typer.Option("--theta", help="Columns of true parameters.")
]
GroupsColumn = Annotated[
    str | None,
    typer.Option("--groups", help="Column of groups whose rows are not independent."),
]
NumberColumns = Annotated[
    list[str] | None,
    typer.Option(
        "--number",
        help="Columns of the context that are numbers, however they are written: 007 "
        "is 7, 1.10 is 1.1.",
    ),
]
LabelColumns = Annotated[
    list[str] | None,
    typer.Option("--label", help="Columns of the context that are labels, though numbers."),
]
Quiet = Annotated[bool, typer.Option("--quiet", help="Show no progress.")]
Seed = Annotated[int, typer.Option("--seed", min=0, help="Seed of everything.")]


def named_columns(
    context: list[str] | None,
    x_obs: list[str] | None,
    x_sim: list[str] | None,
    theta: list[str] | None,
    groups: str | None,
    number: list[str] | None,
    label: list[str] | None,
) -> dict[str, Any]:
    """Return the user's names of columns as arguments of ``read_observations``."""
    return {
        "context": context or [],
        "x_obs": x_obs or [],
        "x_sim": x_sim or [],
        "theta": theta or [],
        "groups": groups,
        "number": number or [],
        "label": label or [],
    }


class PosteriorFile(NamedTuple):
    """The file of a posterior, and whether it may be a pickle."""

    path: Path
    allow_pickle: bool

    def load(self, command: str) -> AmortizedPosterior:
        """Load it, and print what it warns of."""
        from ma_sbi import load_posterior

        with warnings_told(command):
            return load_posterior(self.path, allow_pickle=self.allow_pickle)


@contextmanager
def warnings_told(command: str) -> Iterator[None]:
    """Print what is warned of, in sentences."""
    from ma_sbi.display.text import shorten

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    for one in caught:
        said = shorten(one.message, LONGEST)
        typer.echo(f"ma-sbi {command}: warning: {said}", err=True)


def require_file(path: Path) -> None:
    """Check that there is a file of a model.

    Raises:
        ValueError: If there is none, or a folder.
    """
    if path.is_dir():
        raise ValueError(
            f"{path} is a folder, and a file is needed: name the file that save, or "
            "ma-sbi fit, wrote"
        )
    if not path.is_file():
        raise ValueError(f"there is no model in {path}")


@contextmanager
def refusals(command: str) -> Iterator[None]:
    """Print what is wrong in a sentence, and exit with 2."""
    from ma_sbi.display.text import shorten

    try:
        yield
    except (ValueError, OSError, ImportError) as error:
        typer.echo(f"ma-sbi {command}: {shorten(error, LONGEST)}", err=True)
        raise typer.Exit(2) from None
