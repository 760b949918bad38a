"""Names of taken files: dropped when the files are long gone, and never when they may come back or are still to be read."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest

from skyband.framework.base.errors import SkybandError
from skyband.framework.sources.files import log_pruning
from skyband.framework.sources.files.format import files_taken
from skyband.framework.sources.files.log_pruning import prune, pruned
from skyband.framework.sources.registry import source_format
from tests.framework.tables.plans import make_plan

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NOW = datetime(2026, 1, 1, tzinfo=UTC)
DAY = timedelta(days=1)


class Job:
    """A directory of files, each taken by a batch of its own (file n by number n), and Spark's logs of that."""

    def __init__(self, root: Path, files: int, compact: int, ended: int | None = None) -> None:
        self.source, self.checkpoint, self.marks = root / "in", root / "checkpoint", root / "taken.json"
        self.log = self.checkpoint / "sources" / "0"
        for directory in (self.source, self.log, self.checkpoint / "commits", self.checkpoint / "offsets"):
            directory.mkdir(parents=True)
        for n in range(files):
            self.file(n).write_text("x")
            if n > compact:
                self._list(str(n), [n])
        self._list(f"{compact}.compact", range(compact + 1))
        done = files - 1 if ended is None else ended
        (self.checkpoint / "commits" / str(done)).write_text("v1\n{}")
        (self.checkpoint / "offsets" / str(done)).write_text(f'v1\n{{}}\n{{"logOffset":{done}}}\n-')

    def file(self, n: int) -> Path:
        return self.source / f"a file {n}.csv"

    def _list(self, name: str, numbers: Iterable[int]) -> None:
        lines = [json.dumps({"path": self.url(n), "timestamp": 1_600_000_000_000, "batchId": n}, separators=(",", ":")) for n in numbers]
        (self.log / name).write_text("\n".join(["v1", *lines]))
        (self.log / f".{name}.crc").write_bytes(b"crc\0")

    def url(self, n: int) -> str:
        return self.file(n).as_uri()

    def remove(self, numbers: Iterable[int]) -> None:
        for n in numbers:
            self.file(n).unlink()

    def prune(self, at: datetime) -> int:
        return prune(self.checkpoint, str(self.source), self.marks, 30 * DAY, at)

    def taken(self) -> list[str]:
        return files_taken(self.checkpoint)


def test_names_of_files_long_gone_are_dropped_and_counted(tmp_path: Path) -> None:
    job = Job(tmp_path, files=8, compact=5)
    before = (job.log / "5.compact").read_text().splitlines()
    job.remove(range(4))
    assert job.prune(NOW) == 0  # nothing says yet when they were taken
    assert job.prune(NOW + 29 * DAY) == 0
    assert job.prune(NOW + 31 * DAY) == 4
    assert job.taken() == [job.url(n) for n in range(4, 8)]
    assert pruned(job.checkpoint) == 4
    # What stays keeps its bytes, and Spark has no sum of the old list to hold against the new one.
    after = (job.log / "5.compact").read_text().splitlines()
    assert [after[0], *after[2:]] == [before[0], *before[5:]]
    assert not (job.log / ".5.compact.crc").exists() and (job.log / ".6.crc").exists()
    job.remove([4])
    assert job.prune(NOW + 32 * DAY) == 1
    assert pruned(job.checkpoint) == 5


def test_files_taken_lately_are_kept_however_old_they_are(tmp_path: Path) -> None:
    job = Job(tmp_path, files=4, compact=3)
    assert job.prune(NOW) == 0
    job._list("9.compact", range(10))
    (job.checkpoint / "commits" / "9").write_text("v1\n{}")
    (job.checkpoint / "offsets" / "9").write_text('v1\n{}\n{"logOffset":9}\n-')
    job.remove([0, 1])
    assert job.prune(NOW + 31 * DAY) == 2  # of the files up to 9, which were never there, nobody knows since when
    assert job.taken() == [job.url(n) for n in range(2, 10)]
    assert sorted(p.name for p in job.log.glob("[0-9]*")) == ["9.compact"]


def test_files_of_an_unfinished_batch_are_kept(tmp_path: Path) -> None:
    job = Job(tmp_path, files=6, compact=5, ended=3)
    job.prune(NOW)
    job.remove([2, 3, 4, 5])
    assert job.prune(NOW + 40 * DAY) == 2
    assert job.taken() == [job.url(n) for n in (0, 1, 4, 5)]


@pytest.mark.parametrize("how", ["missing", "empty", "unreadable offsets", "no offsets", "of another machine"])
def test_nothing_is_dropped_when_it_is_not_certain(tmp_path: Path, how: str) -> None:
    job = Job(tmp_path, files=6, compact=5)
    job.prune(NOW)
    if how == "missing":
        shutil.rmtree(job.source)
    elif how == "empty":
        job.remove(range(6))
    else:
        job.remove(range(4))
    if how == "unreadable offsets":
        (job.checkpoint / "offsets" / "5").write_text("v1\n{}\n-")
    elif how == "no offsets":
        (job.checkpoint / "offsets" / "5").unlink()
    elif how == "of another machine":
        assert prune(job.checkpoint, "s3://bucket/in", job.marks, 30 * DAY, NOW + 40 * DAY) == 0
    if how != "of another machine":
        assert job.prune(NOW + 40 * DAY) == 0
    assert job.taken() == [job.url(n) for n in range(6)] and pruned(job.checkpoint) == 0


def test_an_empty_directory_below_the_source_may_be_a_mount_that_failed(tmp_path: Path) -> None:
    job = Job(tmp_path, files=3, compact=2)
    lines = [
        {"path": (job.source / day / "1.csv").as_uri(), "timestamp": 0, "batchId": n} for n, day in enumerate(("gone", "emptied", "used"))
    ]
    (job.log / "2.compact").write_text("\n".join(["v1", *map(json.dumps, lines)]))
    (job.source / "emptied").mkdir()
    (job.source / "used").mkdir()
    (job.source / "used" / "2.csv").write_text("x")
    job.prune(NOW)
    assert job.prune(NOW + 40 * DAY) == 2
    assert job.taken() == [(job.source / "emptied" / "1.csv").as_uri()]


@pytest.mark.parametrize("step", ["unlink", "replace"])
def test_killed_on_the_way_the_list_is_the_old_or_the_new_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    job = Job(tmp_path, files=8, compact=3)
    job._list("7.compact", range(8))
    job.prune(NOW)
    job.remove(range(4))

    def killed(*args: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as m, pytest.raises(KeyboardInterrupt):
        if step == "unlink":
            real = Path.unlink
            # The old lists are removed last: the new one is there by then.
            m.setattr(Path, "unlink", lambda p, missing_ok=False: killed() if p.name == "3.compact" else real(p, missing_ok))
        else:
            real_replace = os.replace
            m.setattr(os, "replace", lambda a, b: killed() if str(b).endswith(".compact") else real_replace(a, b))
        job.prune(NOW + 40 * DAY)
    assert (job.log / "7.compact").read_text().count("batchId") == (8 if step == "replace" else 5)
    job.prune(NOW + 41 * DAY)
    (job.log / "3.compact").unlink(missing_ok=True)  # as Spark does with the next batch
    assert sorted(job.taken()) == [job.url(n) for n in range(4, 8)]
    assert pruned(job.checkpoint) == 4


def test_notes_of_how_far_the_list_went_are_few(tmp_path: Path) -> None:
    job = Job(tmp_path, files=3, compact=2)
    for hour in range(24 * 100):
        job.prune(NOW + timedelta(hours=hour))
    noted = json.loads(job.marks.read_text())
    assert 50 < len(noted) <= log_pruning._MARKS + 2
    # A clock that was ahead leaves nothing behind that would be believed later.
    job.prune(NOW + 1000 * DAY)
    job.prune(NOW + 101 * DAY)
    assert all(datetime.fromisoformat(at) <= NOW + 101 * DAY for at, _ in json.loads(job.marks.read_text()))


def test_verify_says_how_many_names_are_no_longer_known(tmp_path: Path) -> None:
    job = Job(tmp_path, files=8, compact=5)
    job.remove(range(4))
    source = replace(make_plan("out").source, path=str(job.source))
    for at, told in (
        (NOW, f"4 of the 8 source files are gone (first: {job.url(0)})"),
        (NOW + 31 * DAY, "4 of the 8 source files are gone (of 4 the names are no longer kept either: run.keep)"),
    ):
        job.prune(at)
        with pytest.raises(SkybandError) as e:
            source_format("csv").again(cast("SparkSession", None), source, None, job.checkpoint)
        assert (e.value.code, e.value.message) == ("SKY-E301", told)
