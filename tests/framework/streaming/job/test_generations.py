"""A swap of generations leaves the old one whole or the new one, wherever it is interrupted."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from skyband.framework.base.errors import SkybandError
from skyband.framework.storage.sinks import SWAP_JOURNAL
from skyband.framework.streaming.job import generations
from skyband.framework.streaming.job.generations import (
    OLD,
    clear,
    drop,
    generation_of,
    gone_files,
    settle,
    swap,
    tables_in,
    undo,
)
from skyband.framework.streaming.job.layout import Layout
from skyband.framework.streaming.job.locks import one_run
from skyband.framework.tables.delta.ownership import Owner
from tests.framework.streaming import checkpoints

SHARED = ("runs", "heads", "rejected", "checks", "published")
OLD_TABLES = {*SHARED, "both", "both_now", "gone", "gone_changes"}
STEPS = 28
"""Fail points of a swap."""
NEW_TABLES = {*SHARED, "both", "both_now", "added", "added_changes"}


OTHERS = ("job_runs/_delta_log/0.json", "theirs/_delta_log/0.json", "_skyband/replayed/x.json", "_skyband/logs/engine.log", "note.txt")
"""Files that are of no generation."""


class Killed(BaseException):
    """As a signal would."""


@pytest.fixture(autouse=True)
def own_tables() -> Iterator[None]:
    """The tables here are no real ones: whose a directory is, is tested in tests/framework/tables/delta/test_ownership.py."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Owner, "stranger", lambda *_: None)
        yield


def sink(root: Path, generation: str, tables: set[str]) -> None:
    """A sink as far as a swap looks at it: every file says which generation it is of."""
    for name in tables:
        checkpoints.write(root / name / "_delta_log" / "0.json", generation)
        checkpoints.write(root / name / "part.parquet", generation)
    home = root / "_skyband"
    queries = {t: {} for t in sorted(tables - set(SHARED)) if not t.endswith(("_now", "_changes"))}
    checkpoints.write(home / "job.json", json.dumps({"job": "j", "generation": generation, "fingerprint": {"queries": queries}}))
    checkpoints.write(home / "checkpoint" / "metadata", generation)
    control = (home / "control" / "finish-1.json").as_uri().replace("file:///", "file:///x%20y/")
    checkpoints.write(home / "checkpoint" / "sources" / "1" / "0", f'v1\n{{"path":"{control}"}}')
    checkpoints.write(home / "checkpoint" / "sources" / "1" / ".0.crc", "sum")
    checkpoints.write(
        home / "checkpoint" / "state" / "0" / "_metadata" / "v2" / "0", f'v2\n{{"paths":["file:{home}/checkpoint/state/0/x"]}}'
    )
    if generation == "new":
        checkpoints.write(home / "drop.json", generation)
    else:
        checkpoints.write(home / "taken.json", generation)


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    """An old generation, a new one that is complete, and what belongs to none."""
    made = Layout(str(tmp_path / "out"))
    sink(made.root, "old", OLD_TABLES)
    sink(made.next, "new", NEW_TABLES)
    for path in (
        "job_runs/_delta_log/0.json",
        "theirs/_delta_log/0.json",
        "_skyband/replayed/x.json",
        "_skyband/logs/engine.log",
        "note.txt",
    ):
        checkpoints.write(made.root / path, "the job's")
    (made.next / "_skyband" / "lock").touch()
    return made


def held(root: Path) -> tuple[str | None, set[str], set[str]]:
    """(generation by the job file, tables by it, what the files of tables and checkpoint say)."""
    found = set(tables_in(root))
    files = [*(f for n in found for f in (root / n).rglob("*") if f.is_file()), root / "_skyband" / "checkpoint" / "metadata"]
    return generation_of(root / "_skyband"), found, {f.read_text() for f in files}


def assert_swapped(layout: Layout) -> None:
    assert held(layout.root) == ("new", NEW_TABLES, {"new"})
    assert held(layout.home / OLD) == ("old", OLD_TABLES, {"old"})
    assert not (layout.root / "gone").exists() and not layout.next.exists() and not (layout.home / SWAP_JOURNAL).exists()
    assert (layout.home / "drop.json").exists() and not (layout.home / "taken.json").exists()
    for path in (
        "job_runs/_delta_log/0.json",
        "theirs/_delta_log/0.json",
        "_skyband/replayed/x.json",
        "_skyband/logs/engine.log",
        "note.txt",
    ):
        assert (layout.root / path).read_text() == "the job's"
    for path in ("sources/1/0", "state/0/_metadata/v2/0"):
        said = (layout.checkpoint / path).read_text()
        assert "/_skyband/next" not in said and f"{layout.root}/_skyband/c" in said
    assert "file:///x%20y/" in (layout.checkpoint / "sources/1/0").read_text()
    assert not (layout.checkpoint / "sources/1/.0.crc").exists()


def killing(monkeypatch: pytest.MonkeyPatch, at: int) -> Iterator[None]:
    hits = 0

    def failpoint(name: str) -> None:
        nonlocal hits
        hits += 1
        if hits == at:
            raise Killed

    monkeypatch.setattr(generations, "failpoint", failpoint)
    yield
    monkeypatch.undo()


def test_a_new_generation_takes_the_place_of_the_old_one(layout: Layout) -> None:
    swap(layout)
    assert_swapped(layout)
    assert not settle(layout)
    assert_swapped(layout)


@pytest.mark.parametrize("at", range(1, STEPS + 2))
def test_a_swap_that_is_killed_is_completed_by_whoever_comes_next(layout: Layout, monkeypatch: pytest.MonkeyPatch, at: int) -> None:
    """Killed at every step in turn, and once more while it is completed."""
    ended = True
    for step, kill in ((swap, at), (settle, 3)):
        for _ in killing(monkeypatch, kill):
            try:
                step(layout)
            except Killed:
                ended = False
    assert ended == (at > STEPS), "all steps are tried, and no more"
    told: list[str] = []
    with one_run(layout, "j", told.append):
        assert_swapped(layout)
    assert told or ended or not (layout.home / SWAP_JOURNAL).exists()


def test_before_the_journal_the_old_one_is_whole(layout: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    def killed(*_: object) -> None:
        raise Killed

    monkeypatch.setattr(generations.durable, "replace", killed)
    with pytest.raises(Killed):
        swap(layout)
    monkeypatch.undo()
    assert not settle(layout)
    assert held(layout.root) == ("old", OLD_TABLES, {"old"}) and held(layout.next) == ("new", NEW_TABLES, {"new"})


@pytest.mark.parametrize("at", range(0, STEPS + 1, 3))
def test_undone_and_done_again(layout: Layout, monkeypatch: pytest.MonkeyPatch, at: int) -> None:
    swap(layout)
    for _ in killing(monkeypatch, at):
        try:
            undo(layout)
        except Killed:
            settle(layout)
    settle(layout)
    assert held(layout.root) == ("old", OLD_TABLES, {"old"})
    assert held(layout.home / OLD) == ("new", NEW_TABLES, {"new"})
    undo(layout)
    assert_swapped(layout)
    assert drop(layout, OLD) > 0 and drop(layout, OLD) == 0
    with pytest.raises(SkybandError, match="SKY-E402"):
        undo(layout)
    assert held(layout.root) == ("new", NEW_TABLES, {"new"})


def test_killed_before_the_way_back_has_begun_nothing_has_changed(layout: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    swap(layout)

    def killed(*_: object) -> None:
        raise Killed

    monkeypatch.setattr(generations, "swap", killed)
    with pytest.raises(Killed):
        undo(layout)
    monkeypatch.undo()
    settle(layout)
    assert_swapped(layout)


def test_the_next_rebuild_replaces_the_old_one(layout: Layout) -> None:
    swap(layout)
    sink(layout.next, "third", NEW_TABLES)
    swap(layout)
    assert held(layout.root) == ("third", NEW_TABLES, {"third"}) and held(layout.home / OLD) == ("new", NEW_TABLES, {"new"})


def test_the_first_generation_of_a_job_has_no_old_one(tmp_path: Path) -> None:
    layout = Layout(str(tmp_path / "out"))
    sink(layout.next, "new", NEW_TABLES)
    swap(layout)
    assert held(layout.root) == ("new", NEW_TABLES, {"new"})
    assert [p.name for p in (layout.home / OLD).rglob("*")] == ["_skyband"]
    with pytest.raises(SkybandError, match="SKY-E402"):
        undo(layout)


def test_what_is_no_table_is_not_moved_out_of_the_way(layout: Layout) -> None:
    checkpoints.write(layout.root / "added" / "mine.txt", "mine")
    with pytest.raises(SkybandError, match="SKY-E202") as e:
        swap(layout)
    assert str(layout.root / "added") in e.value.message
    assert held(layout.root) == ("old", OLD_TABLES, {"old"}) and held(layout.next) == ("new", NEW_TABLES, {"new"})


def test_a_lost_job_file_hides_no_table_of_a_name_that_is_needed(layout: Layout) -> None:
    layout.file.unlink()
    swap(layout)
    assert held(layout.root) == ("new", NEW_TABLES, {"new"}) and (layout.root / "gone").exists()


def test_reset_leaves_what_is_not_the_jobs(layout: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    (layout.home / "lock").touch()
    for _ in killing(monkeypatch, 3):
        with pytest.raises(Killed):
            clear(layout, tables_in(layout.root))
    assert layout.file.exists(), "until all else is gone it is a job's sink"
    clear(layout, tables_in(layout.root))
    left = sorted(str(p.relative_to(layout.root)) for p in layout.root.rglob("*") if p.is_file())
    assert left == ["_skyband/lock", "note.txt", "theirs/_delta_log/0.json"]


def test_files_that_are_gone_are_counted(tmp_path: Path) -> None:
    layout = Layout(str(tmp_path / "out"))
    for n in range(3):
        checkpoints.write(tmp_path / "in" / f"{n}.csv", "x")
    checkpoints.make(layout.home, batches=3)
    assert gone_files(layout) == (0, 3)
    (tmp_path / "in" / "1.csv").unlink()
    assert gone_files(layout) == (1, 3)
    (layout.checkpoint / "sources" / "0" / "2").write_text("v1\n{nonsense")
    assert gone_files(layout) == (0, 0)
