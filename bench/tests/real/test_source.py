"""Tests for ma_sbi_bench.real.source, against a server on this machine."""

import functools
import hashlib
import http.server
import logging
import threading
import zipfile
from pathlib import Path

import pooch
import pytest

from ma_sbi_bench.real import source
from ma_sbi_bench.real.source import REMOTES, Remote, fetch, tidy_file, tidy_folder

CONTENT = b"day,count\n1,2\n"
SHA256 = hashlib.sha256(CONTENT).hexdigest()
# What `git hash-object` says of this content.
GIT_BLOB = hashlib.sha1(b"blob 14\0" + CONTENT).hexdigest()


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *args):
        pass


@pytest.fixture
def server(tmp_path):
    served = tmp_path / "served"
    served.mkdir()
    (served / "table.csv").write_bytes(CONTENT)
    with zipfile.ZipFile(served / "data.zip", "w") as archive:
        archive.writestr("inside/table.csv", CONTENT)
    handler = functools.partial(Quiet, directory=served)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as running:
        threading.Thread(target=running.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{running.server_address[1]}"
        running.shutdown()


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    monkeypatch.setattr(pooch, "os_cache", lambda name: tmp_path / "cache" / name)
    pooch.get_logger().setLevel(logging.WARNING)
    monkeypatch.setattr(source, "SECONDS_BETWEEN_ATTEMPTS", 0.0)


def offer(monkeypatch, url, **options):
    options = options or {"columns": ("day", "count")}
    monkeypatch.setitem(source.REMOTES, "table", Remote(url, "kept.csv", **options))


@pytest.mark.parametrize("known", [{}, {"sha256": SHA256}, {"git_blob": GIT_BLOB}])
def test_a_file_is_downloaded_once(server, monkeypatch, known, tmp_path):
    offer(monkeypatch, f"{server}/table.csv", **known)
    path = fetch("table")
    assert path.read_bytes() == CONTENT
    (tmp_path / "served" / "table.csv").unlink()
    assert fetch("table") == path


@pytest.mark.parametrize(
    "known",
    [
        {"sha256": "0" * 64},
        {"git_blob": "0" * 40},
        {"columns": ("day", "deaths")},
        {"archive": True},
    ],
)
def test_other_content_is_refused_and_not_kept(server, monkeypatch, known, tmp_path):
    offer(monkeypatch, f"{server}/table.csv", **known)
    with pytest.raises(ValueError, match="is not the file expected there"):
        fetch("table")
    assert not list((tmp_path / "cache").rglob("kept.csv"))


PORTAL = b"<!doctype html>\n<html><title>Log in to the network</title></html>\n"


@pytest.mark.parametrize("content", [PORTAL, b"", CONTENT[:-3]], ids=["page", "", "cut"])
@pytest.mark.parametrize("known", [{"columns": ("day", "count")}, {"archive": True}])
def test_what_is_not_the_file_never_enters_the_cache(
    server, monkeypatch, tmp_path, content, known
):
    (tmp_path / "served" / "table.csv").write_bytes(content)
    offer(monkeypatch, f"{server}/table.csv", **known)
    cache = tmp_path / "cache" / "ma-sbi"
    with pytest.raises(ValueError, match="is not the file expected there") as raised:
        fetch("table")
    assert f"Nothing was kept in {cache}" in str(raised.value)
    assert list(cache.iterdir()) == []


def test_once_the_portal_is_gone_the_file_is_downloaded(server, monkeypatch, tmp_path):
    served = tmp_path / "served" / "table.csv"
    served.write_bytes(PORTAL)
    offer(monkeypatch, f"{server}/table.csv")
    with pytest.raises(ValueError, match="not the file expected"):
        fetch("table")
    served.write_bytes(CONTENT)
    assert fetch("table").read_bytes() == CONTENT


def test_a_page_that_is_in_the_cache_already_is_replaced(server, monkeypatch, tmp_path):
    kept = tmp_path / "cache" / "ma-sbi" / "kept.csv"
    kept.parent.mkdir(parents=True)
    kept.write_bytes(PORTAL)
    offer(monkeypatch, f"{server}/table.csv")
    assert fetch("table").read_bytes() == CONTENT


@pytest.mark.parametrize("failure", [OSError("reset"), PORTAL], ids=["reset", "portal"])
def test_a_failure_that_passes_is_tried_again(server, monkeypatch, tmp_path, failure):
    download, calls = pooch.HTTPDownloader.__call__, []

    def fails_first(self, url, output_file, *others):
        calls.append(url)
        if len(calls) == source.ATTEMPTS:
            download(self, url, output_file, *others)
        elif isinstance(failure, OSError):
            raise failure
        else:
            Path(output_file).write_bytes(failure)

    monkeypatch.setattr(pooch.HTTPDownloader, "__call__", fails_first)
    offer(monkeypatch, f"{server}/table.csv")
    assert fetch("table").read_bytes() == CONTENT
    assert len(calls) == source.ATTEMPTS


def test_a_file_that_nothing_tells_from_a_page_is_refused():
    with pytest.raises(ValueError, match="must have a hash, columns or be an archive"):
        Remote("https://example.org/file", "file")


def test_an_archive_that_was_half_unpacked_is_unpacked_again(server, monkeypatch):
    offer(monkeypatch, f"{server}/data.zip", archive=True)
    file = fetch("table") / "inside" / "table.csv"
    file.write_bytes(CONTENT[:5])
    assert fetch("table") == file.parent.parent
    assert file.read_bytes() == CONTENT


def test_an_archive_is_unpacked(server, monkeypatch):
    offer(monkeypatch, f"{server}/data.zip", archive=True)
    folder = fetch("table")
    assert (folder / "inside" / "table.csv").read_bytes() == CONTENT
    assert fetch("table") == folder


@pytest.mark.parametrize("address", ["http://127.0.0.1:9/table.csv", "{server}/none.csv"])
def test_without_a_connection_the_error_says_what_to_set(
    server, monkeypatch, address, tmp_path
):
    url = address.format(server=server)
    offer(monkeypatch, url)
    with pytest.raises(OSError, match=f"kept.csv could not be .* {url} .*MA_SBI_DATA") as e:
        fetch("table")
    assert str(tmp_path / "cache" / "ma-sbi") in str(e.value)


def test_an_unknown_file_is_refused():
    with pytest.raises(ValueError, match="file must be one of jhu_cases.*got 'weather'"):
        fetch("weather")


def test_official_addresses_are_of_the_official_sources():
    homes = (
        "https://raw.githubusercontent.com/CSSEGISandData/COVID-19/",
        "https://raw.githubusercontent.com/OxCGRT/covid-policy-dataset/",
        "https://files.osf.io/v1/resources/2vnam/",
    )
    assert all(remote.url.startswith(homes) for remote in REMOTES.values())


def test_the_tidy_folder_is_the_one_named(tmp_path, monkeypatch):
    monkeypatch.setenv("MA_SBI_DATA", str(tmp_path))
    (tmp_path / "covid").mkdir()
    (tmp_path / "covid" / "daily.csv.gz").touch()
    assert tidy_folder() == tmp_path
    assert tidy_file("covid/daily.csv.gz").is_file()
    with pytest.raises(FileNotFoundError, match="rt/rt_trials.csv.gz is not in"):
        tidy_file("rt/rt_trials.csv.gz")


@pytest.mark.parametrize("value", [None, ""])
def test_without_the_variable_there_is_no_tidy_folder(value, monkeypatch):
    monkeypatch.delenv("MA_SBI_DATA", raising=False)
    if value is not None:
        monkeypatch.setenv("MA_SBI_DATA", value)
    assert tidy_folder() is None
    with pytest.raises(FileNotFoundError, match="set MA_SBI_DATA to the folder"):
        tidy_file("rt/rt_trials.csv.gz")


def test_a_variable_that_names_no_folder_is_an_error(tmp_path, monkeypatch):
    monkeypatch.setenv("MA_SBI_DATA", str(tmp_path / "nowhere"))
    with pytest.raises(FileNotFoundError, match="MA_SBI_DATA must name a folder, got"):
        tidy_folder()
