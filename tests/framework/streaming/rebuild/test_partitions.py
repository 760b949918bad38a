"""Move a state to another number of tasks, without Spark's own part: a killed run is continued by the next."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from skyband.framework.base.errors import SkybandError
from skyband.framework.plan.fingerprint import concealed, fingerprint
from skyband.framework.settings.spark import requested_tasks
from skyband.framework.sources.logs import partitions_of
from skyband.framework.streaming.job.consistency import check
from skyband.framework.streaming.job.layout import JobFile, Layout, reshaped
from skyband.framework.streaming.rebuild.partitions import move_state
from skyband.framework.tables.writing.factory import writer_for
from skyband.framework.tables.writing.sink import Sink
from skyband.jobs.spec import load_plan
from tests.framework.streaming import checkpoints
from tests.framework.verify import small
from tests.spark.kinds import KINDS

LAST = small.BATCHES


class Job:
    """A job that has run in 2 tasks, and a JVM that moves its state, or is killed or fails meanwhile."""

    def __init__(self, ran: Path, directory: Path) -> None:
        shutil.copytree(ran, directory, dirs_exist_ok=True)
        spec = directory / "job" / "spec.yaml"
        spec.write_text(spec.read_text().replace(str(ran), str(directory)))
        self.plan = load_plan(str(spec))
        self.layout = Layout(self.plan.sink)
        job = JobFile(self.plan.job, "g", concealed(fingerprint(self.plan), self.plan, "s"), 2, None, salt="s")
        self.layout.save(job)
        checkpoints.make(self.layout.home, batches=LAST + 1)
        self.asked: list[int] = []
        self.dies = self.fails = False
        self.said: list[str] = []

    def repartition(self, checkpoint: str, tasks: int) -> None:
        self.asked.append(tasks)
        if self.fails:
            raise RuntimeError("[STATE_REPARTITION] it cannot be done\nJVM stacktrace")
        conf = {"batchWatermarkMs": 0, "conf": {"spark.sql.shuffle.partitions": str(tasks)}}
        checkpoints.write(Path(checkpoint) / "offsets" / str(LAST + 1), f'v1\n{json.dumps(conf)}\n{{"logOffset":{LAST}}}\n-')
        if self.dies:
            raise KeyboardInterrupt
        checkpoints.write(Path(checkpoint) / "commits" / str(LAST + 1), 'v1\n{"nextBatchWatermarkMs":0}')

    def move(self) -> JobFile:
        engine = cast(Any, SimpleNamespace(_streamingCheckpointManager=self, streams=None))
        sink = Sink(self.plan, writer_for(self.plan.sink), "g")
        sink.ensure_all()
        return move_state(engine, self.layout, self.layout.known(), sink, self.said.append, lambda _: None)

    def ended(self, tasks: int) -> None:
        """It has been moved, once; ``runs`` has a row of it without rows, and nothing is missed."""
        job = self.layout.known()
        assert (job.partitions, job.moving) == (tasks, None) and partitions_of(self.layout.checkpoint, LAST + 1) == tasks
        before, row = Sink(self.plan, writer_for(self.plan.sink), "g").last_runs(2)
        assert [before["batch_id"], row["batch_id"]] == [LAST, LAST + 1]
        assert not any(row[c] for c in ("rows_in", "accepted", "rejected", "changes", "pending_change"))
        assert all(row[c] == before[c] for c in ("pending", "frontier", "newest", "committed"))
        assert check(self.plan, self.layout, job).losses == []


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory, of = Path(tmp_path_factory.mktemp("ran")), KINDS["pairs"]
    small.make(of.write(directory / "job", 1), of.rows(4, 60))
    return directory


def test_a_state_is_moved_once(ran: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job = Job(ran, tmp_path)
    for same in ("", "2"):
        monkeypatch.setenv("SKYBAND_SHUFFLE_PARTITIONS", same)
        assert job.move().partitions == 2 and job.asked == [] and reshaped(job.plan, job.layout.known(), job.layout) == []
    monkeypatch.setenv("SKYBAND_SHUFFLE_PARTITIONS", "7")
    job.fails = True
    with pytest.raises(SkybandError, match=r"cannot be moved to 7 tasks: \[STATE_REPARTITION\] it cannot be done\n") as found:
        job.move()
    assert found.value.code == "SKY-E651" and job.layout.known().moving is None
    job.fails, job.dies = False, True
    with pytest.raises(KeyboardInterrupt):
        job.move()
    monkeypatch.setenv("SKYBAND_SHUFFLE_PARTITIONS", "9")
    assert reshaped(job.plan, job.layout.known(), job.layout) == ["the state is moved from 2 tasks to 7 first"]
    assert check(job.plan, job.layout, job.layout.known()).losses == [], "it has no row of runs yet"
    job.dies = False
    job.move()
    job.ended(7)
    assert job.asked == [7, 7, 7], "what has begun is gone on with"


@pytest.mark.parametrize("at", ["partitions.moved", "sink.after"])
def test_killed_after_the_engine_has_moved_it(ran: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: str) -> None:
    def killed(name: str) -> None:
        if name == at:
            raise KeyboardInterrupt

    job = Job(ran, tmp_path)
    monkeypatch.setenv("SKYBAND_SHUFFLE_PARTITIONS", "3")
    with monkeypatch.context() as m:
        m.setattr("skyband.framework.streaming.rebuild.partitions.failpoint", killed)
        m.setattr("skyband.framework.tables.writing.sink.failpoint", killed)
        with pytest.raises(KeyboardInterrupt):
            job.move()
    monkeypatch.delenv("SKYBAND_SHUFFLE_PARTITIONS")
    assert check(job.plan, job.layout, job.layout.known()).losses == []
    job.move()
    job.ended(3)
    assert job.asked == [3]


def test_not_while_a_batch_is_unfinished(ran: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job = Job(ran, tmp_path)
    checkpoints.plan(job.layout.home, LAST + 1)
    monkeypatch.setenv("SKYBAND_SHUFFLE_PARTITIONS", "3")
    assert job.move().partitions == 2 and job.asked == []
    assert job.said == [f"batch {LAST + 1} is unfinished: this run has 2 tasks for the state, the next one 3"]


@pytest.mark.parametrize("said", ["0", "-1", "2.0", "many", "\u0663", "1000000", "4 "])
def test_what_is_no_number_of_tasks_is_told(said: str) -> None:
    with pytest.raises(SkybandError, match="SKYBAND_SHUFFLE_PARTITIONS is not a number of tasks") as found:
        requested_tasks({"SKYBAND_SHUFFLE_PARTITIONS": said})
    assert found.value.code == "SKY-E201"
    assert requested_tasks({}) is None and requested_tasks({"SKYBAND_SHUFFLE_PARTITIONS": "12"}) == 12
