"""Blocks of rows that tasks leave in files for each other: read back as they were, and gone when their batch is."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from skyband.framework.base.messages import COUNTS, FOUND, ROWS
from skyband.framework.streaming.rows import shuffle_files
from skyband.framework.streaming.rows.blocks import bytes_table
from skyband.framework.streaming.rows.outbox import LEAST, as_block
from skyband.framework.streaming.rows.shuffle_files import ShuffleFiles, opened
from tests.framework.streaming.run.test_delivery import Task

ROWS_OF = pa.table({"id": pa.array(range(1000)), "name": pa.array([None, "é"] * 500)})


class Context:
    def __init__(self, master: str) -> None:
        self.master = master


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ShuffleFiles:
    monkeypatch.setattr(shuffle_files, "TaskContext", Task)
    monkeypatch.setattr(shuffle_files, "scratch_directory", lambda: tmp_path)
    monkeypatch.setenv(LEAST, "4000")
    return of_job("local[2]", tmp_path / "job")


def of_job(master: str, home: Path) -> ShuffleFiles:
    return shuffle_files.shuffle_files_of(Context(master), home)  # type: ignore[arg-type]


def files(directory: Path) -> list[Path]:
    return sorted(p for p in directory.rglob("*") if p.is_file())


def test_large_blocks_lie_in_files_and_small_ones_do_not(made: ShuffleFiles, tmp_path: Path) -> None:
    small = made(ROWS_OF.slice(0, 10))
    assert small == as_block(ROWS_OF.slice(0, 10)) and not files(tmp_path)
    sent = [made(ROWS_OF), made(ROWS_OF.slice(300))]
    assert len(files(tmp_path)) == 2 and all(kind == f"file:{ROWS}" and len(data) < 300 for kind, data in sent)
    assert [bytes_table(opened(*m)) for m in (small, *sent)] == [ROWS_OF.slice(0, 10), ROWS_OF, ROWS_OF.slice(300)]
    # A task that is tried again reads the same.
    assert bytes_table(opened(*sent[1])) == ROWS_OF.slice(300)


def test_files_are_a_batchs(made: ShuffleFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in (3, 4):
        monkeypatch.setattr(Task, "number", number)
        _, data = made(ROWS_OF)
        kept = opened(f"file:{ROWS}", data)
    made.done(3)
    assert [p.parent.name for p in files(tmp_path)] == ["4"]
    made.done(4)
    # What has been read stays.
    assert not files(tmp_path) and bytes_table(kept) == ROWS_OF
    made.done(5)
    made(ROWS_OF)
    made.begin()
    assert not files(tmp_path)


def test_tasks_of_several_machines_find_them_beside_the_states_of_the_job(made: ShuffleFiles, tmp_path: Path) -> None:
    """Also those that shards send, which are no tables."""
    shared = of_job("spark://somewhere:7077", tmp_path / "job")
    sent = [shared(ROWS_OF), shared.message(FOUND, b"x" * 5000)]
    assert [p.relative_to(tmp_path / "job").parts[:2] for p in files(tmp_path)] == 2 * [("shuffle", str(Task.number))]
    assert [kind for kind, _ in sent] == [f"file:{ROWS}", f"file:{FOUND}"]
    assert bytes_table(opened(*sent[0])) == ROWS_OF and bytes(opened(*sent[1])) == b"x" * 5000
    assert shared.message(FOUND, b"x" * 10) == (FOUND, b"x" * 10)
    assert shared.message(COUNTS, b"x" * 5000) == (COUNTS, b"x" * 5000)
    shared.done(Task.number)
    assert files(tmp_path) == []


@pytest.mark.parametrize("master", ["local[2]", "spark://somewhere:7077"])
def test_jobs_that_run_at_once_keep_out_of_each_others_way(made: ShuffleFiles, tmp_path: Path, master: str) -> None:
    one, other = (of_job(master, tmp_path / name) for name in ("one", "other"))
    one(ROWS_OF)
    _, data = other(ROWS_OF)
    one.done(Task.number)
    one.begin()
    assert bytes_table(opened(f"file:{ROWS}", data)) == ROWS_OF and len(files(tmp_path)) == 1
