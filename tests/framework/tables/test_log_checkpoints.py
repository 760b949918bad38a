"""Checkpoints of tables' logs: commits do not become slower as a log grows, and none is lost or doubled for one that cannot be written."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path

import pytest
from deltalake import DeltaTable

from skyband.framework.base.errors import SkybandError
from skyband.framework.tables.writing.driver_writer import DriverWriter
from skyband.framework.tables.writing.log_checkpoints import LEAST, Checkpoint, due, last
from skyband.framework.tables.writing.sink import Sink
from skyband.framework.tables.writing.upkeep import CHECKPOINT_INTERVAL
from tests.framework.tables.test_upkeep import START, commit, sink_at


@pytest.mark.parametrize(
    ("actions", "commits"),
    [(0, LEAST), (LEAST**2, LEAST), (2500, 50), (CHECKPOINT_INTERVAL**2, CHECKPOINT_INTERVAL), (1 << 40, CHECKPOINT_INTERVAL)],
)
def test_the_more_a_checkpoint_names_the_fewer_there_are(actions: int, commits: int) -> None:
    before = Checkpoint(7, actions)
    assert [due(7 + n, before) for n in (commits - 1, commits, commits + 1)] == [False, True, True]


@pytest.mark.parametrize("said", [None, "", "{", "[]", '{"version": 3}', '{"version": "x", "size": 1}'])
def test_a_log_that_does_not_say_has_none(tmp_path: Path, said: str | None) -> None:
    (tmp_path / "_delta_log").mkdir()
    if said is not None:
        (tmp_path / "_delta_log" / "_last_checkpoint").write_text(said)
    assert last(tmp_path) == Checkpoint(0, 0)


def test_a_log_never_becomes_long_and_readers_have_all_of_it(tmp_path: Path) -> None:
    sink = sink_at(tmp_path)
    longest = 0
    for n in range(3 * LEAST + 5):
        # Another process goes on half-way.
        sink = Sink(sink.plan, DriverWriter(tmp_path), "g") if n == LEAST + LEAST // 2 else sink
        commit(sink, n, START)
        table = DeltaTable(str(tmp_path / "runs"))
        longest = max(longest, table.version() - last(tmp_path / "runs").version)
    assert longest == LEAST - 1
    assert last(tmp_path / "runs").actions >= 3 * LEAST
    assert sorted(sink.writer.read("runs")["batch_id"].to_pylist()) == list(range(3 * LEAST + 5))
    assert sink.writer.version("runs", sink.app_id("runs")) == 3 * LEAST + 4
    # As anyone opens it, from the checkpoint alone: the log before is not needed.
    at = last(tmp_path / "runs").version
    for file in (tmp_path / "runs" / "_delta_log").glob("*.json"):
        if int(file.stem) <= at:
            file.unlink()
    assert DeltaTable(str(tmp_path / "runs")).to_pyarrow_table().num_rows == 3 * LEAST + 5
    assert json.loads((tmp_path / "runs" / "_delta_log" / "_last_checkpoint").read_text())["version"] == at


def test_a_checkpoint_that_cannot_be_written_loses_and_doubles_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sink = sink_at(tmp_path)

    def full(_: DeltaTable) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as broken:
        broken.setattr(DeltaTable, "create_checkpoint", full)
        with pytest.raises(SkybandError) as e:
            for n in range(LEAST + 1):
                commit(sink, n, START)
        assert e.value.code == "SKY-E306"
    again = Sink(sink.plan, DriverWriter(tmp_path), "g")
    again.ensure_all()
    row = again.last_run()
    assert row is not None
    for n in range(int(row["batch_id"]), LEAST + 2):
        commit(again, n, START)
    assert sorted(again.writer.read("runs")["batch_id"].to_pylist()) == list(range(LEAST + 2))
    assert last(tmp_path / "runs").version >= LEAST - 1
