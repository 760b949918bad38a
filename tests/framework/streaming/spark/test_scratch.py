"""Directories of Spark: those of killed processes go, nothing else does."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from skyband.framework.streaming.spark import session
from skyband.framework.streaming.spark.scratch import remove_leftovers, scratch_directory


@pytest.fixture
def temp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


@pytest.fixture
def ended() -> int:
    """The id of a process that has ended."""
    done = subprocess.Popen([sys.executable, "-c", ""])
    done.wait()
    return done.pid


def hours_ago(directory: Path, hours: float) -> None:
    past = time.time() - 3600 * hours
    os.utime(directory, (past, past))


def test_directories_of_processes_that_are_gone_are_removed(temp: Path, ended: int) -> None:
    mine, theirs = scratch_directory(), scratch_directory(ended)
    assert (mine.stat().st_mode & 0o777, scratch_directory()) == (0o700, mine)
    for directory in (mine, theirs):
        (directory / "blockmgr-1").mkdir()
        hours_ago(directory, 0.5)
    assert remove_leftovers() == []
    for directory in (mine, theirs):
        hours_ago(directory, 2)
    assert remove_leftovers() == [theirs]
    assert mine.exists() and not theirs.exists()


@pytest.mark.parametrize("process", ["\u00b2", "9" * 15, "9" * 40, "1x", "-1"])
def test_a_name_without_a_process_is_no_directory_of_this_user(temp: Path, process: str) -> None:
    named = scratch_directory()
    odd = named.parent / named.name.replace(str(os.getpid()), process)
    odd.mkdir()
    (odd / "x").write_text("")
    assert remove_leftovers() == [] and odd.is_dir()


def test_an_empty_one_goes_at_once(temp: Path, ended: int) -> None:
    theirs = scratch_directory(ended)
    assert remove_leftovers() == [theirs]


def test_what_only_looks_like_one_stays(temp: Path, ended: int) -> None:
    name = scratch_directory(ended).name
    (temp / name).rmdir()
    target = temp / "elsewhere"
    target.mkdir()
    (target / "precious").write_text("x")
    (temp / name).symlink_to(target)
    other = temp / f"skyband-engine-{os.getuid()}-notes"
    other.mkdir()
    hours_ago(other, 5)
    assert remove_leftovers() == []
    assert (target / "precious").exists() and other.exists()
    # A link in the place of the directory is not followed either.
    assert scratch_directory(ended).resolve() != target.resolve()


def test_nothing_at_a_name_that_can_be_guessed_is_in_the_way(temp: Path) -> None:
    """A file, a link to a directory of somebody's, a directory: the name of user and process alone was taken once."""
    (temp / "theirs").mkdir()
    for pid, plant in ((4_000_001, Path.touch), (4_000_002, lambda p: p.symlink_to(temp / "theirs")), (4_000_003, Path.mkdir)):
        plant(temp / f"skyband-engine-{os.getuid()}-{pid}")
        made = scratch_directory(pid)
        assert made.is_dir() and not made.is_symlink() and made.stat().st_mode & 0o777 == 0o700
        assert made.name.startswith(f"skyband-engine-{os.getuid()}-{pid}-") and scratch_directory(pid) == made
    assert not any((temp / "theirs").iterdir())


def test_one_that_has_gone_is_made_again_unless_somebody_else_made_it(temp: Path) -> None:
    made = scratch_directory(4_000_004)
    made.rmdir()
    assert scratch_directory(4_000_004) == made and made.is_dir()
    made.rmdir()
    (temp / "theirs").mkdir()
    made.symlink_to(temp / "theirs")
    other = scratch_directory(4_000_004)
    assert other != made and other.is_dir() and not any((temp / "theirs").iterdir())


def test_the_warehouse_is_in_it(temp: Path) -> None:
    wanted = session._request("t", None, "local[1]", (), None, True, None, True, lambda: None)
    assert Path(wanted.start.settings["spark.sql.warehouse.dir"]).parent == wanted.scratch == scratch_directory()
