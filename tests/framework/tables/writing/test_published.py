"""A published version stays readable until the next one is published, whatever upkeep does; one that is lost is told by name."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from skyband.framework.storage import delta_read
from skyband.framework.tables.results.derive import derive
from skyband.framework.tables.schemas import result_tables
from skyband.framework.tables.writing import published, table_properties, upkeep
from skyband.framework.tables.writing.driver_writer import DriverWriter
from skyband.framework.tables.writing.published import broken_versions, publish, readable_versions
from skyband.framework.tables.writing.sink import Sink
from tests.framework.tables.plans import make_plan, random_changes
from tests.framework.tables.writing.test_sink import commit

Changes = list[dict[str, list[dict[str, Any]]]]


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is replaced goes at once, and versions that are no longer published have no grace."""
    monkeypatch.setattr(upkeep, "SPARE", 0)
    monkeypatch.setattr(upkeep, "MERGE_AT", 4)
    monkeypatch.setattr(upkeep, "CHECKPOINT_INTERVAL", 5)
    monkeypatch.setattr(table_properties, "CHECKPOINT_INTERVAL", 5)
    monkeypatch.setattr(upkeep, "MINUTES", dict.fromkeys(upkeep.MINUTES, 0))
    monkeypatch.setattr(table_properties, "MINUTES", upkeep.MINUTES)
    monkeypatch.setattr(published, "GRACE", timedelta(0))


def job(directory: Path, batches: int) -> tuple[Sink, Changes]:
    sink = Sink(make_plan(str(directory), ("grp",)), DriverWriter(directory), "g")
    sink.ensure_all()
    return sink, random_changes(sink.plan, seed=5, batches=batches, steps=12)


def run(sink: Sink, changes: Changes, batch: int) -> None:
    commit(sink, changes, batch)
    derive(sink, batch)


def passed(sink: Sink, batch: int) -> bool:
    return publish(sink.plan, sink.writer, sink.app_id("published"), batch)


def names(sink: Sink) -> dict[str, int]:
    rows = sink.writer.read("published").to_pylist()
    return {r["table_name"]: r["version"] for r in rows}


def content(root: Path, table: str, version: int | None = None) -> list[str]:
    return sorted(map(str, delta_read.read(DeltaTable(str(root / table), version=version)).to_pylist()))


def files(root: Path, table: str) -> int:
    return sum(1 for p in (root / table).rglob("*") if p.is_file())


def test_the_versions_of_all_tables_of_results_are_published(tmp_path: Path) -> None:
    sink, changes = job(tmp_path, 3)
    run(sink, changes, 0)
    assert names(sink) == {}
    assert passed(sink, 0)
    first = names(sink)
    assert list(first) == result_tables(sink.plan) == [f"{q}{s}" for q in ("near", "near3") for s in ("_changes", "", "_now")]
    assert first == {t: DeltaTable(str(tmp_path / t)).version() for t in first}
    run(sink, changes, 1)
    assert names(sink) == first
    assert passed(sink, 1) and not passed(sink, 1)
    assert all(v > first[t] for t, v in names(sink).items() if changes[1][t.split("_")[0]])


@pytest.mark.usefixtures("at_once")
def test_a_published_version_outlives_many_runs_that_do_not_pass(tmp_path: Path) -> None:
    sink, changes = job(tmp_path, 60)
    for batch in range(10):
        run(sink, changes, batch)
    assert passed(sink, 9)
    then = {t: (v, content(tmp_path, t)) for t, v in names(sink).items()}
    sizes = []
    for batch in range(10, 60):
        run(sink, changes, batch)
        sizes.append(files(tmp_path, "near"))
    for table, (version, rows) in then.items():
        assert DeltaTable(str(tmp_path / table)).version() > version
        assert content(tmp_path, table, version) == rows, table
    assert then["near"][1] != content(tmp_path, "near") and len(then["near"][1]) > 10
    # Another version takes its place: what was kept for it goes.
    assert passed(sink, 59)
    DriverWriter(tmp_path).maintain(sink.specs["near"])
    version, rows = then["near"]
    with pytest.raises(Exception, match=r"(?i)not found|no such file|invalid|log"):
        content(tmp_path, "near", version)
    assert files(tmp_path, "near") < 30 < max(sizes)
    assert content(tmp_path, "near", names(sink)["near"]) == content(tmp_path, "near")


@pytest.mark.usefixtures("at_once")
def test_a_reader_of_what_was_published_has_time_to_read_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(published, "GRACE", timedelta(hours=1))
    monkeypatch.setitem(upkeep.MINUTES, "result", 60)
    sink, changes = job(tmp_path, 20)
    run(sink, changes, 0)
    passed(sink, 0)
    version = names(sink)["near"]
    rows = content(tmp_path, "near")
    # Long ago, so that it is what was published an hour ago; then another one is published, and upkeep runs.
    _earlier(tmp_path / "published", hours=5)
    for batch in range(1, 20):
        run(sink, changes, batch)
    monkeypatch.setitem(upkeep.MINUTES, "result", 0)
    passed(sink, 19)
    assert readable_versions(tmp_path, "near") == [version, names(sink)["near"]]
    again = Sink(sink.plan, DriverWriter(tmp_path), "g")
    again.ensure_all()
    again.writer.maintain(again.specs["near"])
    assert content(tmp_path, "near", version) == rows
    monkeypatch.setattr(published, "GRACE", timedelta(0))
    assert readable_versions(tmp_path, "near") == [names(sink)["near"]]


def _earlier(table: Path, hours: float) -> None:
    """The table's commits so far are made older."""
    import json
    import os

    for path in (table / "_delta_log").glob("*.json"):
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        for line in lines:
            if "commitInfo" in line:
                line["commitInfo"]["timestamp"] -= int(hours * 3_600_000)
        path.write_text("\n".join(map(json.dumps, lines)))
        stamp = path.stat().st_mtime - 3600 * hours
        os.utime(path, (stamp, stamp))


def test_a_published_version_that_is_lost_is_told(tmp_path: Path) -> None:
    sink, changes = job(tmp_path, 2)
    run(sink, changes, 0)
    passed(sink, 0)
    assert list(broken_versions(tmp_path)) == []
    for damage, said in (
        (lambda: next((tmp_path / "near_changes").glob("*.parquet")).unlink(), "'near_changes', which has lost 1 of its 1 data file"),
        (lambda: max((tmp_path / "near_now" / "_delta_log").glob("*.json")).unlink(), "'near_now', which cannot be opened"),
    ):
        _do(damage)
        assert any(said in what for what in broken_versions(tmp_path)), list(broken_versions(tmp_path))
    # Upkeep goes on with what is there.
    assert readable_versions(tmp_path, "near_now") == readable_versions(tmp_path, "near_changes") == []
    assert readable_versions(tmp_path, "near") == [names(sink)["near"]]


def _do(damage: Callable[[], Any]) -> None:
    damage()


def test_the_log_that_nobody_needs_goes(tmp_path: Path) -> None:
    log = tmp_path / "t" / "_delta_log"
    conf = {"delta.checkpointInterval": "10", "delta.enableExpiredLogCleanup": "false"}
    DeltaTable.create(str(tmp_path / "t"), pa.schema([("a", pa.int64())]), configuration=conf)
    writer = DriverWriter(tmp_path)
    for n in range(45):
        writer.append("t", pa.table({"a": [n]}), "x", n)
    upkeep._clean_log(log, time.time() - 3600, [])
    assert len(list(log.glob("*.json"))) == 46
    upkeep._clean_log(log, time.time() + 1, [27])
    left = sorted(int(p.name[:20]) for p in log.glob("*.json"))
    assert left[0] <= 27 and len(left) < 30
    assert DeltaTable(str(tmp_path / "t"), version=27).to_pyarrow_table().num_rows == 27
    upkeep._clean_log(log, time.time() + 1, [])
    assert len(list(log.glob("*.json"))) <= 10 and DeltaTable(str(tmp_path / "t")).to_pyarrow_table().num_rows == 45
