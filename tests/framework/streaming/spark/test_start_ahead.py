"""A JVM that is started before it is asked for: only where the last run says that there will be something to do, and kept only if it is
the one that is asked for then."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from skyband.framework.streaming.spark import launch, process, start_ahead
from skyband.framework.streaming.spark.jvm import SPARK_JVM
from skyband.framework.streaming.spark.process import Start
from skyband.framework.streaming.spark.scratch import scratch_directory
from skyband.framework.streaming.spark.start_ahead import JvmRequest, expected, note
from skyband.jobs.spec import load_plan
from tests.spark.jobs import write_spec

ASKED = JvmRequest("small", ("delta:1",))


@pytest.fixture
def spec(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(launch, "cache_directory", lambda: tmp_path / "cache")
    (tmp_path / "cache").mkdir(mode=0o700)
    made = write_spec(tmp_path)
    (tmp_path / "in").mkdir(exist_ok=True)
    return made


def noted(spec: Path) -> Path:
    note(str(spec), load_plan(str(spec)).source, ASKED)
    (file,) = (spec.parent / "cache" / "engine").glob("ahead-*.json")
    return file


def test_one_is_expected_once_the_sources_directory_has_changed(spec: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert expected(str(spec)) is None
    noted(spec)
    assert expected(str(spec)) is None
    (spec.parent / "in" / "new.csv").write_text("id\n")
    assert expected(str(spec)) == ASKED
    # A spec is known by its place, whatever it is called by.
    monkeypatch.chdir(spec.parent)
    assert expected(spec.name) == ASKED
    assert expected(str(spec.parent / "another.yaml")) is None
    noted(spec)
    assert expected(str(spec)) is None


@pytest.mark.parametrize("damage", ["gone", "cut", "other", "folder"])
def test_a_note_that_says_nothing_is_none(spec: Path, damage: str) -> None:
    file = noted(spec)
    (spec.parent / "in" / "new.csv").write_text("id\n")
    if damage == "gone":
        file.unlink()
    elif damage == "cut":
        file.write_text(file.read_text()[:-5])
    elif damage == "other":
        file.write_text(json.dumps({**json.loads(file.read_text()), "packages": 3}))
    else:
        (spec.parent / "in").rename(spec.parent / "moved")
    assert expected(str(spec)) is None


def test_no_note_is_left_of_what_is_no_directory_or_no_file(spec: Path) -> None:
    source = load_plan(str(spec)).source
    note(str(spec), replace(source, format="kafka", path=None), ASKED)
    note("-", source, ASKED)
    assert not (spec.parent / "cache" / "engine").exists()


def test_the_oldest_notes_go(spec: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(start_ahead, "KEPT", 3)
    source = load_plan(str(spec)).source
    specs = [spec.with_name(f"{n}.yaml") for n in range(5)]
    for n, each in enumerate(specs):
        each.write_text(spec.read_text())
        note(str(each), source, ASKED)
        os.utime(start_ahead._file(str(each)), (n, n))
    (spec.parent / "in" / "new.csv").write_text("id\n")
    assert [expected(str(each)) is not None for each in specs] == [False, False, True, True, True]


@pytest.fixture
def no_spark(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Processes that wait for their end take the place of engines; the test process's own, if it has one, is nobody's meanwhile."""
    monkeypatch.setattr(SPARK_JVM, "process", None)
    monkeypatch.setattr(SPARK_JVM, "scratch", scratch_directory())
    monkeypatch.setattr(process, "_ahead", None)
    monkeypatch.setattr(process, "has_gateway", lambda: False)
    monkeypatch.setattr(process, "scratch_directory", scratch_directory)
    monkeypatch.setattr(launch, "command", lambda *_: ["sleep", "600"])
    yield
    SPARK_JVM.end()


def start(**settings: str) -> Start:
    known = launch.Known([], [])
    return Start({"spark.app.name": "a", **settings}, Path("/java"), Path("/spark"), known, None, [], {}, None, lambda: None)


def pid() -> int:
    (found,) = SPARK_JVM.pids()
    return found


@pytest.fixture
def own_scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Ending a JVM removes its directory: not that of the session that other tests have."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return scratch_directory()


def test_the_requested_jvm_is_kept(own_scratch: Path, no_spark: None) -> None:
    start().ahead()
    before = pid()
    asked = start()
    asked.begin()
    assert pid() == before and asked._early is not None and asked._early.parent == own_scratch
    # It is there now as any other is.
    again = start()
    again.begin()
    assert pid() == before and again._early is None


def test_another_one_takes_its_place(own_scratch: Path, no_spark: None) -> None:
    start().ahead()
    before = pid()
    asked = start(**{"spark.driver.memory": "3g"})
    asked.begin()
    assert pid() != before and not alive(before)
    assert asked._early is not None and asked._early.is_dir() and list(own_scratch.iterdir()) == [asked._early]


def test_one_that_has_ended_meanwhile_is_started_again(own_scratch: Path, no_spark: None) -> None:
    start().ahead()
    process: Any = SPARK_JVM.process
    process.kill()
    process.wait()
    asked = start()
    asked.begin()
    assert pid() != process.pid and asked._early is not None


def test_an_unused_jvm_ends_with_the_command(own_scratch: Path, no_spark: None) -> None:
    start().ahead()
    before = pid()
    SPARK_JVM.end()
    assert not alive(before) and not own_scratch.exists()


def test_nothing_is_started_ahead_where_it_is_not_known_how(own_scratch: Path, no_spark: None) -> None:
    replace(start(), known=None).ahead()
    assert SPARK_JVM.process is None


def alive(process: int) -> bool:
    until = time.monotonic() + 5
    while time.monotonic() < until:
        try:
            os.kill(process, 0)
        except ProcessLookupError:
            return False
        time.sleep(0.01)
    return True
