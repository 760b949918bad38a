"""Checkpoints of tables' logs: commits do not become slower as a log grows, and readers need nothing before the newest checkpoint."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from deltalake import DeltaTable

from skyband.framework.storage import delta_read
from skyband.framework.tables.writing.driver_writer import DriverWriter
from skyband.framework.tables.writing.sink import Sink
from skyband.framework.tables.writing.upkeep import CHECKPOINT_INTERVAL
from tests.framework.tables.writing.test_upkeep import START, commit, sink_at

COMMITS = 3 * CHECKPOINT_INTERVAL + 5


def newest(table: Path) -> int:
    """Return the version of the newest checkpoint; 0 if there is none."""
    file = table / "_delta_log" / "_last_checkpoint"
    return int(json.loads(file.read_text())["version"]) if file.exists() else 0


def test_a_log_never_becomes_long_and_readers_have_all_of_it(tmp_path: Path) -> None:
    sink = sink_at(tmp_path)
    longest = 0
    for n in range(COMMITS):
        # Another process goes on half-way.
        sink = Sink(sink.plan, DriverWriter(tmp_path), "g") if n == CHECKPOINT_INTERVAL + CHECKPOINT_INTERVAL // 2 else sink
        commit(sink, n, START)
        longest = max(longest, DeltaTable(str(tmp_path / "runs")).version() - newest(tmp_path / "runs"))
    assert longest == CHECKPOINT_INTERVAL - 1
    assert sorted(sink.writer.read("runs")["batch_id"].to_pylist()) == list(range(COMMITS))
    assert sink.writer.version("runs", sink.app_id("runs")) == COMMITS - 1
    # As anyone opens it, from the checkpoint alone: the log before is not needed.
    at = newest(tmp_path / "runs")
    for file in (tmp_path / "runs" / "_delta_log").glob("*.json"):
        if int(file.stem) <= at:
            file.unlink()
    assert DeltaTable(str(tmp_path / "runs")).to_pyarrow_table().num_rows == COMMITS


def test_a_table_is_opened_again_after_each_checkpoint_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sink, opened = sink_at(tmp_path), []
    original = delta_read.open_table
    monkeypatch.setattr(delta_read, "open_table", lambda root, name: opened.append(name) or original(root, name))
    for n in range(COMMITS):
        commit(sink, n, START)
    versions = DeltaTable(str(tmp_path / "runs")).version()
    assert opened.count("runs") == versions // CHECKPOINT_INTERVAL


def test_a_checkpoint_that_cannot_be_written_loses_and_doubles_nothing(tmp_path: Path) -> None:
    sink = sink_at(tmp_path)
    # In the place of the checkpoint's file there is a directory that is not empty.
    number = f"{CHECKPOINT_INTERVAL:020}"
    (tmp_path / "runs" / "_delta_log" / f"{number}.checkpoint.parquet" / "x").mkdir(parents=True)
    failed = []
    for n in range(CHECKPOINT_INTERVAL + 2):
        try:
            commit(sink, n, START)
        except Exception as e:
            failed.append(getattr(e, "code", None))
            break
    again = Sink(sink.plan, DriverWriter(tmp_path), "g")
    again.ensure_all()
    row = again.last_run()
    assert row is not None and failed in ([], ["SKY-E306"], ["SKY-E401"])
    for n in range(int(row["batch_id"]), CHECKPOINT_INTERVAL + 2):
        commit(again, n, START)
    assert sorted(again.writer.read("runs")["batch_id"].to_pylist()) == list(range(CHECKPOINT_INTERVAL + 2))
