"""Where data come from: a local folder in the tidy layout, or the official addresses.

``MA_SBI_DATA`` names a folder with ``covid/``, ``rt/`` and ``sbibm/`` in it. Where it is
not set, official files are downloaded once into the cache folder of the operating system.
"""

from __future__ import annotations

import hashlib
import os
import time
import zipfile
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from ma_sbi_bench.real.text_files import read_table

__all__ = [
    "DATA_VARIABLE",
    "REMOTES",
    "Remote",
    "fetch",
    "missing_file",
    "tidy_file",
    "tidy_folder",
]

DATA_VARIABLE = "MA_SBI_DATA"
CACHE_NAME = "ma-sbi"
ATTEMPTS = 3
SECONDS_BETWEEN_ATTEMPTS = 1.0

_GITHUB = "https://raw.githubusercontent.com"
_JHU = f"{_GITHUB}/CSSEGISandData/COVID-19/master/csse_covid_19_data"
_JHU_COUNTS = ("Province/State", "Country/Region", "Lat", "Long", "1/22/20")
# The final release; a commit never changes.
_OXCGRT = f"{_GITHUB}/OxCGRT/covid-policy-dataset/e7f66ee39654293b5c068efd2f195bd591dc27f6"


@dataclass(frozen=True)
class Remote:
    """An official file and how to tell that it arrived whole.

    Attributes:
        url: Its official address.
        filename: Its name in the cache.
        sha256: Hash of the file; None where it is not known.
        git_blob: Name of the file's content in its git repository, which is a hash as
            well; None where it is not known.
        columns: Columns that its table must have, where no hash is known.
        archive: Whether it is a zip archive to unpack.
    """

    url: str
    filename: str
    sha256: str | None = None
    git_blob: str | None = None
    columns: tuple[str, ...] = ()
    archive: bool = False

    def __post_init__(self) -> None:
        if not (self.sha256 or self.git_blob or self.columns or self.archive):
            raise ValueError(
                f"{self.filename} must have a hash, columns or be an archive: else any "
                "page would be taken for it"
            )


REMOTES = {
    # The repository is archived since March 2023. The hashes of its last files are not
    # known to us.
    "jhu_cases": Remote(
        f"{_JHU}/csse_covid_19_time_series/time_series_covid19_confirmed_global.csv",
        "jhu_confirmed_global.csv",
        columns=_JHU_COUNTS,
    ),
    "jhu_deaths": Remote(
        f"{_JHU}/csse_covid_19_time_series/time_series_covid19_deaths_global.csv",
        "jhu_deaths_global.csv",
        columns=_JHU_COUNTS,
    ),
    "jhu_population": Remote(
        f"{_JHU}/UID_ISO_FIPS_LookUp_Table.csv",
        "jhu_lookup_table.csv",
        columns=("iso3", "Province_State", "Population"),
    ),
    "oxcgrt": Remote(
        f"{_OXCGRT}/data/OxCGRT_compact_national_v1.csv",
        "oxcgrt_compact_national_v1.csv",
        git_blob="9dacbe049b034904ab7a2656a983d7fd367766fd",
    ),
    "oxcgrt_codebook": Remote(
        f"{_OXCGRT}/documentation_and_codebook.md",
        "oxcgrt_documentation_and_codebook.md",
        sha256="18f0f36b687d5aa8c25a6fce3a064118f5d07b45ecc24bea72cc451fca6fa555",
    ),
    "oxcgrt_notes_2020": Remote(
        f"{_OXCGRT}/data/OxCGRT_fullwithnotes_national_2020_v1.csv",
        "oxcgrt_fullwithnotes_national_2020_v1.csv",
        git_blob="a50ce25545e3acc166810758bfad652bbdad5138",
    ),
    "oxcgrt_notes_2021": Remote(
        f"{_OXCGRT}/data/OxCGRT_fullwithnotes_national_2021_v1.csv",
        "oxcgrt_fullwithnotes_national_2021_v1.csv",
        git_blob="6c52d61c6049378dae306a75dff67181b8b0661a",
    ),
    "oxcgrt_notes_2022": Remote(
        f"{_OXCGRT}/data/OxCGRT_fullwithnotes_national_2022_v1.csv",
        "oxcgrt_fullwithnotes_national_2022_v1.csv",
        git_blob="ce6a1202a40d03bd26a2a00b2ee0bd302ccc01ef",
    ),
    # OSF packs the archive again for each request, so its hash changes.
    "evans_hawkins": Remote(
        "https://files.osf.io/v1/resources/2vnam/providers/osfstorage/?zip=",
        "evans_hawkins_2vnam.zip",
        archive=True,
    ),
}


def tidy_folder() -> Path | None:
    """Find the local folder that ``MA_SBI_DATA`` names.

    Returns:
        The folder, or None where the variable is not set.

    Raises:
        FileNotFoundError: If it names something that is not a folder.
    """
    value = os.environ.get(DATA_VARIABLE, "")
    if not value:
        return None
    folder = Path(value).expanduser()
    if not folder.is_dir():
        raise FileNotFoundError(f"{DATA_VARIABLE} must name a folder, got {value!r}")
    return folder


def tidy_file(name: str) -> Path:
    """Find one file of the tidy layout, such as ``"rt/rt_trials.csv.gz"``.

    Raises:
        FileNotFoundError: If ``MA_SBI_DATA`` is not set or the folder lacks the file.
    """
    folder = tidy_folder()
    if folder is None:
        raise FileNotFoundError(
            f"{name} is read from a local folder: set {DATA_VARIABLE} to the folder that "
            "holds it"
        )
    path = folder / name
    if not path.exists():
        raise FileNotFoundError(
            f"{name} is not in {str(folder)!r}, the folder that {DATA_VARIABLE} names"
        )
    return path


def missing_file(name: str) -> str:
    """Say why a file of the tidy layout cannot be read; empty if it is there."""
    try:
        tidy_file(name)
    except FileNotFoundError as error:
        return str(error)
    return ""


def fetch(name: str) -> Path:
    """Download an official file once; only what is the expected file enters the cache.

    A cached file that is another one, such as the page of a captive portal that an earlier
    version kept, is downloaded again.

    Args:
        name: One of the keys of ``REMOTES``.

    Returns:
        The file in the cache, or the folder of an unpacked archive.

    Raises:
        OSError: If it cannot be downloaded.
        ValueError: If there is no such file, or what comes is not the expected one.
    """
    import pooch

    if name not in REMOTES:
        raise ValueError(f"file must be one of {', '.join(REMOTES)}, got {name!r}")
    remote = REMOTES[name]
    folder = Path(pooch.os_cache(CACHE_NAME))
    path = folder / remote.filename
    if path.is_file() and _is_another(path, remote):
        path.unlink()
    if not path.is_file():
        _download(remote, path)
    return _unpack(path) if remote.archive else path


def _download(remote: Remote, path: Path) -> None:
    """Download a file, in several attempts, and check it before it has its name."""
    import pooch

    path.parent.mkdir(parents=True, exist_ok=True)
    wrong = ""
    for attempt in range(1, ATTEMPTS + 1):
        with TemporaryDirectory(dir=path.parent) as place:
            arrived = Path(place) / remote.filename
            try:
                pooch.HTTPDownloader()(remote.url, str(arrived), None)
                wrong = _is_another(arrived, remote)
                if not wrong:
                    arrived.replace(path)
                    return
            except OSError as error:
                if attempt == ATTEMPTS:
                    raise OSError(
                        f"{remote.filename} could not be downloaded from {remote.url} into "
                        f"{path.parent} ({type(error).__name__}, {ATTEMPTS} attempts); "
                        f"set {DATA_VARIABLE} to a folder that holds the data in the tidy "
                        "layout, or try again with a connection"
                    ) from error
        time.sleep(SECONDS_BETWEEN_ATTEMPTS * (attempt < ATTEMPTS))
    raise ValueError(
        f"what came from {remote.url} is not the file expected there: {wrong}. Nothing was "
        f"kept in {path.parent}; does this network ask you to log in first?"
    )


def _is_another(path: Path, remote: Remote) -> str:
    """Say why a file is not the expected one; empty if it is."""
    content = path.read_bytes()
    # Git names a file by the SHA-1 of its length and its bytes.
    blob = b"blob %d\0" % len(content) + content
    for known, found in (
        (remote.sha256, hashlib.sha256(content).hexdigest()),
        (remote.git_blob, hashlib.sha1(blob).hexdigest()),
    ):
        if known is not None and known != found:
            return f"its hash is {found}, not {known}"
    try:
        if remote.columns:
            read_table(path, remote.columns)
        if remote.archive:
            with zipfile.ZipFile(path) as archive:
                broken = archive.testzip()
                if broken is not None:
                    return f"{broken!r} in it is damaged"
    except (ValueError, zipfile.BadZipFile) as error:
        return str(error)
    return ""


def _unpack(path: Path) -> Path:
    """Unpack an archive into a folder beside it, which is there whole or not at all."""
    unpacked = path.with_name(f"{path.name}.unpacked")
    with zipfile.ZipFile(path) as archive, TemporaryDirectory(dir=path.parent) as place:
        if not all(_has(unpacked, one) for one in archive.infolist()):
            archive.extractall(Path(place) / "new")
            if unpacked.exists():  # of an older archive, or half full
                unpacked.replace(Path(place) / "old")
            (Path(place) / "new").replace(unpacked)
    return unpacked


def _has(folder: Path, member: zipfile.ZipInfo) -> bool:
    file = folder / member.filename
    return file.is_dir() or (file.is_file() and file.stat().st_size == member.file_size)
