"""Tests for ma_sbi.writing: files whole or not at all, and never over what is read."""

import os
import stat
from pathlib import Path

import pytest
from safetensors.torch import save_file
from torch import ones

from ma_sbi.writing import check_output, write_text, written_whole


def mode(file):
    return stat.S_IMODE(file.stat().st_mode)


@pytest.fixture
def open_umask():
    before = os.umask(0o027)
    yield
    os.umask(before)


def test_two_writers_of_one_file_do_not_meet(tmp_path):
    file = tmp_path / "file"
    with written_whole(file) as one, written_whole(file) as other:
        one.write_text("one")
        other.write_text("other")
    assert file.read_text() == "one"
    assert list(tmp_path.iterdir()) == [file]


def _be_interrupted(file):
    with written_whole(file) as unfinished:
        unfinished.write_text("ne")
        raise KeyboardInterrupt


def test_an_older_file_survives_a_failure(tmp_path):
    file = tmp_path / "file"
    file.write_text("old")
    with pytest.raises(KeyboardInterrupt):
        _be_interrupted(file)
    assert file.read_text() == "old"
    assert list(tmp_path.iterdir()) == [file]


def test_a_new_file_has_the_permissions_that_the_umask_leaves(tmp_path, open_umask):
    with written_whole(tmp_path / "tensors") as unfinished:
        # It makes files that only their owner can read.
        save_file({"a": ones(2)}, unfinished)
    assert mode(tmp_path / "tensors") == 0o640


def test_an_older_file_keeps_its_permissions(tmp_path):
    file = tmp_path / "file"
    file.write_text("private")
    file.chmod(0o600)
    write_text(file, "still private")
    assert mode(file) == 0o600


def test_a_link_stays_a_link(tmp_path):
    (tmp_path / "there").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "there" / "file")
    write_text(tmp_path / "link", "text")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "there" / "file").read_text() == "text"


def test_the_longest_name_can_be_written(tmp_path):
    file = tmp_path / ("n" * 255)
    write_text(file, "text")
    assert file.read_text() == "text"


def test_a_folder_and_a_pipe_are_not_replaced(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="pipe is not a plain file"):
        write_text(tmp_path / "pipe", "text")
    with pytest.raises(IsADirectoryError, match="is a folder, expected a file"):
        write_text(tmp_path, "text")
    with pytest.raises(ValueError, match="the page cannot be written: .*not a plain file"):
        check_output(tmp_path / "pipe", [], "page")


SAME = {
    "path": lambda file: file,
    "another spelling": lambda file: (
        file.parent / "." / ".." / file.parent.name / file.name
    ),
    "link": lambda file: _linked(file, os.symlink),
    "hard link": lambda file: _linked(file, os.link),
}


def _linked(file, link):
    link(file, file.with_name("other"))
    return file.with_name("other")


@pytest.mark.parametrize("name", SAME)
def test_what_is_read_is_never_the_output(name, tmp_path):
    file = tmp_path / "rows.csv"
    file.write_text("data")
    (tmp_path / "more.csv").write_text("data")
    with pytest.raises(ValueError, match=r"the page would replace .*rows.csv, which is"):
        check_output(SAME[name](file), [tmp_path / "more.csv", file], "page")


def test_another_file_may_be_replaced(tmp_path):
    (tmp_path / "page").write_text("older")
    (tmp_path / "rows").write_text("data")
    check_output(tmp_path / "page", [tmp_path / "rows", tmp_path / "none"], "page")
    with pytest.raises(ValueError, match="there is no folder .*none for the page"):
        check_output(tmp_path / "none" / "page", [], "page")


def test_a_folder_that_cannot_be_written_is_refused_before_any_work(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    with pytest.raises(ValueError, match="the page cannot be written into the folder"):
        check_output(tmp_path / "page", [], "page")


def test_an_error_names_the_file_and_not_its_temporary_name(tmp_path, monkeypatch):
    def refuse(file, **_):
        raise PermissionError(13, "Permission denied", str(file))

    monkeypatch.setattr(Path, "touch", refuse)
    with pytest.raises(PermissionError) as caught:
        write_text(tmp_path / "page", "text")
    assert caught.value.filename == str((tmp_path / "page").resolve())
