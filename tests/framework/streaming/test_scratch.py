"""Folders of the engine: those of killed processes go, nothing else does."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from skyband.framework.streaming.scratch import remove_leftovers, scratch_folder


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


def hours_ago(folder: Path, hours: float) -> None:
    past = time.time() - 3600 * hours
    os.utime(folder, (past, past))


def test_folders_of_processes_that_are_gone_are_removed(temp: Path, ended: int) -> None:
    mine, theirs = scratch_folder(), scratch_folder(ended)
    assert (mine.stat().st_mode & 0o777, scratch_folder()) == (0o700, mine)
    for folder in (mine, theirs):
        (folder / "blockmgr-1").mkdir()
        hours_ago(folder, 0.5)
    assert remove_leftovers() == []
    for folder in (mine, theirs):
        hours_ago(folder, 2)
    assert remove_leftovers() == [theirs]
    assert mine.exists() and not theirs.exists()


def test_an_empty_one_goes_at_once(temp: Path, ended: int) -> None:
    theirs = scratch_folder(ended)
    assert remove_leftovers() == [theirs]


def test_what_only_looks_like_one_stays(temp: Path, ended: int) -> None:
    name = scratch_folder(ended).name
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
    # A link in the place of the folder is not followed either.
    assert scratch_folder(ended).resolve() != target.resolve()
