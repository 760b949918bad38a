"""Open state is closed with its query: short runs keep the checkpoint small, and nothing of a job comes into the one after it."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from skyband.framework.base.errors import SkybandError
from skyband.framework.spark_adapter import jvm
from skyband.framework.streaming.run import stream
from skyband.framework.streaming.spark import state_stores
from skyband.framework.tables.writing.sink import Sink
from tests.spark.jobs import run, stamp, write_file, write_spec

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("spark")]


def a_file(directory: Path, number: int) -> None:
    rows = [[100 * number + i, stamp(100 * number + i), "p", i % 7, 1, "ab"[i % 2]] for i in range(20)]
    write_file(directory, f"{number:02}.csv", rows, at=number)


def refused(*_: Any) -> None:
    raise SkybandError("SKY-E306", "no space left on device")


@pytest.mark.long
def test_short_runs_write_snapshots_and_drop_what_is_before_them(spark: SparkSession, tmp_path: Path) -> None:
    spec = write_spec(tmp_path)
    for number in range(12):
        a_file(tmp_path, number)
        run(spark, spec, finish=False, partitions=1)
    state = tmp_path / "out" / "_skyband" / "checkpoint" / "state" / "0" / "0"
    changes = sorted(int(p.stem) for p in state.glob("[0-9]*.changelog"))
    snapshots = sorted(int(p.stem) for p in state.glob("[0-9]*.zip"))
    assert changes[-1] >= 24 and changes[-1] - snapshots[-1] <= 10
    assert snapshots[0] > 1 and changes[0] == snapshots[0]


@pytest.mark.long
def test_of_a_batch_that_is_not_done_no_snapshot_stays(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(12):
        a_file(tmp_path, number)
    spec = write_spec(tmp_path, max_files=1)
    commit = Sink.commit

    def full(sink: Sink, batch_id: int, *blocks: Any) -> None:
        if batch_id == 10:
            raise SkybandError("SKY-E306", "no space left on device")
        commit(sink, batch_id, *blocks)

    with monkeypatch.context() as patch, pytest.raises(SkybandError, match="SKY-E306"):
        patch.setattr(Sink, "commit", full)
        run(spark, spec, finish=False, partitions=1)
    state = tmp_path / "out" / "_skyband" / "checkpoint" / "state" / "0" / "0"
    # It would be that of batch 10: Spark makes one every ten.
    assert (state / "11.changelog").is_file() and [p.name for p in state.glob("*.zip")] == ["1.zip"]
    run(spark, spec, finish=False, partitions=1)
    assert (state / "11.zip").is_file()


def test_no_state_is_open_after_a_run(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    queries: list[Any] = []

    def closed_after(session: SparkSession, query: Any, checkpoint: Path, tasks: int, steps: int) -> AbstractContextManager[None]:
        queries.append(query)
        return state_stores.closed_after(session, query, checkpoint, tasks, steps)

    monkeypatch.setattr(stream, "closed_after", closed_after)
    a_file(tmp_path, 0)
    run(spark, write_spec(tmp_path))
    with pytest.raises(SkybandError, match="SKY-E306"), monkeypatch.context() as patch:
        patch.setattr(Sink, "commit", refused)
        a_file(tmp_path, 1)
        run(spark, tmp_path / "spec.yaml")
    assert len(queries) == 3
    stores = jvm.state_stores(spark)
    for query in queries:
        # The one it had, by that name: of a job with one bucket, whose state is one task's.
        state = jvm.state_provider(spark, query, 0)
        assert Path(state.storeId().storeCheckpointLocation().toUri().getPath()).is_dir()
        assert str(state.queryRunId()) == str(query.runId) and not stores.isLoaded(state)
