"""Files that a check may be given and was not made for, with what it must make of each.

``CASES`` is a registry: each case writes its file into a folder, and says either what the
refusal must contain or what the context must be. A refusal is one short sentence without
control characters.
"""

import io
import os
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

NUM_ROWS = 24
ESCAPE = "\x1b[31m\x1b]0;owned\x07"


@dataclass(frozen=True)
class Case:
    """A hostile file.

    Attributes:
        write: Writes it into a folder and returns its path.
        refused: What the refusal says; empty if the file must be read.
        context: The different entries that must be read, in order of appearance; None if
            they are of no concern.
        options: Options of ``read_observations``.
    """

    write: Callable[[Path], Path]
    refused: str = ""
    context: Sequence[Any] | None = None
    options: dict[str, Any] = field(default_factory=dict)


def csv_of(
    cells: Sequence[str], *, x: Sequence[str] = (), name: str = "context"
) -> Callable:
    """Return what writes a csv whose context repeats cells, and whose x_obs other ones."""

    def write(folder: Path) -> Path:
        numbers = [x[i % len(x)] if x else f"{0.5 * i}" for i in range(NUM_ROWS)]
        lines = [f"{one},{cells[i % len(cells)]}" for i, one in enumerate(numbers)]
        return _text(folder, "\n".join([f"x_obs,{name}", *lines, ""]))

    return write


def npz_of(**arrays: Any) -> Callable:
    """Return what writes an npz of arrays, beside x_obs and context."""

    def write(folder: Path) -> Path:
        path = folder / "rows.npz"
        held = {"x_obs": np.arange(2.0 * NUM_ROWS).reshape(-1, 2)}
        held["context"] = np.array(["calm", "storm"] * (NUM_ROWS // 2))
        np.savez(path, **held | arrays)
        return path

    return write


def member(name: str, content: bytes) -> Callable:
    """Return what writes an npz in which one member is replaced by these bytes."""

    def write(folder: Path) -> Path:
        path = npz_of()(folder)
        with zipfile.ZipFile(path) as archive:
            members = {one: archive.read(one) for one in archive.namelist()}
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            for one, held in (members | {name: content}).items():
                archive.writestr(one, held)
        return path

    return write


def _text(folder: Path, text: str | bytes, name: str = "rows.csv") -> Path:
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def _npy(header: str, content: bytes = b"") -> bytes:
    padded = header.encode() + b" " * (-(len(header) + 11) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(padded).to_bytes(2, "little") + padded + content


def _bomb(folder: Path) -> Path:
    """Write some megabytes that declare to be three gigabytes."""
    path = npz_of()(folder)
    zeros = bytes(2**20)
    with (
        zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED) as archive,
        archive.open("x_sim.npy", "w", force_zip64=True) as file,
    ):
        count = 3 * 2**30 // 8
        header = {"descr": "<f8", "fortran_order": False, "shape": (count,)}
        file.write(_npy(repr(header)))
        file.write(zeros)
    # Only the directory has to lie about the size: nothing may be read to find out.
    content = bytearray(path.read_bytes())
    place = content.rindex(b"x_sim.npy") - 46
    content[place + 24 : place + 28] = (3 * 2**30).to_bytes(4, "little")
    path.write_bytes(content)
    return path


def _nested() -> bytes:
    buffer = io.BytesIO()
    np.savez(buffer, x_obs=np.ones(3))
    return buffer.getvalue()


def _pipe(folder: Path) -> Path:
    os.mkfifo(folder / "rows.csv")
    return folder / "rows.csv"


def _link(folder: Path) -> Path:
    (folder / "rows.csv").symlink_to(folder / "nothing.csv")
    return folder / "rows.csv"


def _folder(folder: Path) -> Path:
    (folder / "rows.csv").mkdir()
    return folder / "rows.csv"


def _parquet(**columns: Any) -> Callable:
    def write(folder: Path) -> Path:
        import pandas as pd

        path = folder / "rows.parquet"
        held = {
            "x_obs": np.arange(float(NUM_ROWS)),
            "context": ["a", "b"] * (NUM_ROWS // 2),
        }
        pd.DataFrame(held | columns).to_parquet(path)
        return path

    return write


CONTEXTS = {
    "padded codes": Case(csv_of(["007", "7", "70"]), context=["007", "7", "70"]),
    "padded codes alone": Case(csv_of(["007", "070"]), context=["007", "070"]),
    "versions": Case(csv_of(["1.10", "1.1", "1.9"]), context=["1.10", "1.1", "1.9"]),
    "ids of 19 digits": Case(
        csv_of(["1234567890123456788", "1234567890123456789"]),
        context=["1234567890123456788", "1234567890123456789"],
    ),
    "1 and 1.0": Case(csv_of(["1", "1.0", "2"]), context=["1", "1.0", "2"]),
    "0 and -0": Case(csv_of(["0", "-0", "1"]), context=["0", "-0", "1"]),
    "exponents": Case(csv_of(["1e3", "1000"]), context=["1e3", "1000"]),
    "a blank before": Case(csv_of([" 7", "7"]), context=[7.0]),
    "blanks around words": Case(csv_of(["calm ", "calm", " calm"]), context=["calm"]),
    "a plus": Case(csv_of(["+7", "7"]), context=["+7", "7"]),
    "NA among numbers": Case(csv_of(["1", "NA", "2"]), context=["1", "NA", "2"]),
    "nan among numbers": Case(csv_of(["1", "nan", "2"]), context=["1", "nan", "2"]),
    "inf among numbers": Case(csv_of(["1", "inf", "1e999"]), context=["1", "inf", "1e999"]),
    "truth values": Case(csv_of(["True", "1"]), context=["True", "1"]),
    "hexadecimal": Case(csv_of(["0x10", "16"]), context=["0x10", "16"]),
    "thousands": Case(
        csv_of(['"1,000"', "1_000", "1000"]), context=["1,000", "1_000", "1000"]
    ),
    "decimal commas": Case(csv_of(['"1,5"', '"2,5"']), context=["1,5", "2,5"]),
    "other digits": Case(csv_of(["\uff17", "7"]), context=["\uff17", "7"]),
    "integers": Case(csv_of(["1", "", "20"]), context=[1.0, None, 20.0]),
    "shortest decimals": Case(csv_of(["1", "2.5", "1e-05"]), context=[1.0, 2.5, 1e-5]),
    "floats of Python": Case(csv_of(["1.0", "2.5", "-3.0"]), context=[1.0, 2.5, -3.0]),
    "two decimals": Case(csv_of(["1.10", "2.50", "-0.25"]), context=[1.1, 2.5, -0.25]),
    "floats of savetxt": Case(csv_of([f"{0.1:.18e}", f"{-20:.18e}"]), context=[0.1, -20.0]),
    "numbers of C": Case(csv_of(["0.5", "250000", "1e+06"]), context=[0.5, 2.5e5, 1e6]),
    "numbers of R": Case(
        csv_of(["50000", "1e+05", "-1.5e-10", "0.001", "123456"]),
        context=[5e4, 1e5, -1.5e-10, 1e-3, 123456.0],
    ),
    "zeros of both signs": Case(csv_of(["-0.0", "0.0"]), context=["-0.0", "0.0"]),
    "numbers of a hundred thousand digits": Case(
        csv_of(["1" * 10**5 + ".", "1" * 10**5 + "x"]),
        context=["1" * 10**5 + ".", "1" * 10**5 + "x"],
    ),
    "codes that the user calls numbers": Case(
        csv_of(["007", "7", "+7.50"]), context=[7.0, 7.5], options={"number": ["context"]}
    ),
    "numbers that the user calls labels": Case(
        csv_of(["1", "2"]), context=["1", "2"], options={"label": ["context"]}
    ),
    "no number though the user says so": Case(
        csv_of(["1", "NA"]),
        "'NA' in row 1 is no finite number",
        options={"number": ["context"]},
    ),
    "number of another column": Case(
        csv_of(["1", "2"]), "no column of the context", options={"number": ["x_obs"]}
    ),
    "texts of codes in an npz": Case(
        npz_of(context=np.array(["007", "7"] * 12)), context=["007", "7"]
    ),
    "integers of 19 digits in an npz": Case(
        npz_of(context=np.array([2**60, 2**60 + 1] * 12)), context=[2**60, 2**60 + 1]
    ),
    "integers that the user calls labels": Case(
        npz_of(context=np.array([1, 2] * 12)),
        context=["1", "2"],
        options={"label": ["context"]},
    ),
}

NUMBERS = {
    "x in any spelling": Case(csv_of("ab", x=["1e3", " +7 ", "-0", "007", ".5"])),
    "x of texts": Case(csv_of("ab", x=["1", "high"]), "got 'high' in row 1"),
    "x of truth values": Case(csv_of("ab", x=["True", "1"]), "got 'True' in row 0"),
    "x hexadecimal": Case(csv_of("ab", x=["0x10", "1"]), "got '0x10' in row 0"),
    "x of thousands": Case(csv_of("ab", x=['"1,000"', "1"]), "got '1,000' in row 0"),
    "x of dates": Case(csv_of("ab", x=["2020-01-01", "1"]), "got '2020-01-01' in row 0"),
    "x of nothing": Case(csv_of("ab", x=["1", ""]), "an empty cell in row 1"),
    "x not a number": Case(csv_of("ab", x=["1", "nan"]), "got 'nan' in row 1"),
    "x infinite": Case(csv_of("ab", x=["1", "1e999"]), "got '1e999' in row 1"),
    "x beyond double precision": Case(
        csv_of("ab", x=["100000000000000000000", "100000000000000000001"]),
        "cannot tell apart",
    ),
    "dates in an npz": Case(
        npz_of(x_obs=np.arange(24).astype("M8[D]")), "x_obs must hold numbers: got dates"
    ),
    "NaT in an npz": Case(npz_of(x_obs=np.full(24, "NaT", "M8[s]")), "got dates"),
    "spans of time in an npz": Case(
        npz_of(x_obs=np.arange(24).astype("m8[s]")), "spans of time"
    ),
    "complex in an npz": Case(npz_of(x_obs=np.arange(24) * 1j), "complex numbers"),
    "complex contexts": Case(npz_of(context=np.arange(24) * 1j), "complex numbers"),
    "truth values in an npz": Case(npz_of(x_obs=np.arange(24) % 2 == 0)),
    "huge integers in an npz": Case(
        npz_of(x_obs=2**60 + np.arange(24)), "cannot tell apart"
    ),
}

ARRAYS = {
    "objects": Case(
        npz_of(context=np.array([{}] * 24, dtype=object)), "pickle can run code"
    ),
    "a nested npz": Case(member("x_obs.npy", _nested()), "no array of numpy"),
    "a pickle": Case(member("x_obs.npy", b"\x80\x04K\x01."), "no array of numpy"),
    "no dimension": Case(npz_of(context=np.array("calm")), "got shape ()"),
    "x without dimension": Case(npz_of(x_obs=np.array(1.0)), "got shape ()"),
    "three dimensions": Case(npz_of(x_obs=np.ones((24, 2, 2))), "got shape (24, 2, 2)"),
    "other lengths": Case(
        npz_of(context=np.array(["a"] * 23)), "expected 24, got shape (23,)"
    ),
    "records": Case(npz_of(x_obs=np.zeros(24, dtype=[("a", float)])), "got records"),
    "names with slashes": Case(npz_of(**{"../x_sim": np.ones(2), "/etc/x": np.ones(1)})),
    "objects that are not used": Case(npz_of(more=np.array([{}], dtype=object))),
    "bytes that are no text": Case(
        npz_of(context=np.array([b"\xff"] * 24)), "cannot be read"
    ),
    "a header of another size": Case(
        member(
            "x_obs.npy", _npy("{'descr': '<f8', 'fortran_order': False, 'shape': (9,)}")
        ),
        "declares 72 bytes and holds 0",
    ),
    "a header that is code": Case(
        member("x_obs.npy", _npy("__import__('os').abort()")), "x_obs cannot be read"
    ),
    "a header of a negative shape": Case(
        member(
            "x_obs.npy", _npy("{'descr': '<f8', 'fortran_order': False, 'shape': (-1,)}")
        ),
        "x_obs cannot be read",
    ),
    "a bomb": Case(_bomb, "x_sim holds 3.0 GiB, more than a check can use"),
}

FILES = {
    "a folder": Case(_folder, "is a folder, expected a file"),
    "a pipe": Case(_pipe, "is a pipe or a device"),
    "a link to nothing": Case(_link, "is a link to nothing"),
    "no file": Case(lambda folder: folder / "rows.csv", "there is no file"),
    "nothing": Case(lambda folder: _text(folder, ""), "is empty"),
    "blank lines": Case(lambda folder: _text(folder, "\n \n"), "holds no columns"),
    "a row that was cut": Case(
        lambda folder: _text(folder, "x_obs,context\n1,a\n2"),
        "row 1 has 1 cells, the header 2",
    ),
    "a quote that does not end": Case(
        csv_of(["b", '"a']), "begins in line 3 has a quote that does not end"
    ),
    "a quote that ends too early": Case(
        csv_of(['"a" b', "c"]), "begins in line 2 has a quote"
    ),
    "quotes within a cell": Case(csv_of(['a "b"', "c"]), context=['a "b"', "c"]),
    "UTF-16": Case(
        lambda folder: _text(folder, "x_obs,context\n1,a\n".encode("utf-16")), "not UTF-8"
    ),
    "a picture": Case(lambda folder: _text(folder, b"\x89PNG\r\n\x1a\n" * 99), "not UTF-8"),
    "escape sequences in a name": Case(
        csv_of("ab", name=ESCAPE), "must hold finite numbers", options={"x_obs": [ESCAPE]}
    ),
    "escape sequences in x": Case(csv_of("ab", x=["1", ESCAPE]), "in row 1"),
    "a cell of a megabyte in x": Case(csv_of("ab", x=["1", "9" * 10**5 + "x"]), "in row 1"),
    "a name of a hundred kilobytes": Case(
        csv_of("ab", name="n" * 10**5), "context is missing"
    ),
    "a cell of a megabyte": Case(
        csv_of(["a" * 10**6, "b"]), "line 2 has a quote that does not end its cell"
    ),
    "x that escapes in a table that is read": Case(
        csv_of([ESCAPE, "b"]), context=[ESCAPE, "b"]
    ),
}

PARQUETS = {
    "texts of codes in a parquet": Case(
        _parquet(context=["007", "7"] * 12), context=["007", "7"]
    ),
    "lists in a parquet": Case(_parquet(context=[[1], [2]] * 12), "got a ndarray in row 0"),
    "dates as x in a parquet": Case(
        _parquet(x_obs=np.arange(24).astype("M8[s]")), "x_obs must hold numbers: got dates"
    ),
}

CASES = CONTEXTS | NUMBERS | ARRAYS | FILES | PARQUETS
