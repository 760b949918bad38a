"""A change data feed gives for every version exactly the rows that it removed and added, by both writers."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from skyband.framework.storage import delta_read
from skyband.framework.tables.results.derive import derive
from skyband.framework.tables.writing import table_properties, upkeep
from skyband.framework.tables.writing.driver_writer import DriverWriter
from skyband.framework.tables.writing.sink import Sink
from skyband.framework.tables.writing.table_properties import FEED
from skyband.framework.tables.writing.upkeep import Upkeep
from skyband.framework.tables.writing.writer import Writer
from tests.framework.tables.plans import make_plan, random_changes
from tests.framework.tables.writing import test_sink
from tests.framework.tables.writing.test_sink import commit

writer = test_sink.writer
OWN = ("_change_type", "_commit_version", "_commit_timestamp")
SIGNS = {"insert": 1, "update_postimage": 1, "delete": -1, "update_preimage": -1}
NEAR = ("near_changes", "near", "near_now")


def sink_of(writer: Writer, feeds: tuple[str, ...] = ("near",)) -> Sink:
    sink = Sink(replace(make_plan(str(writer.root), ("grp",)), feeds=feeds), writer, "g")  # type: ignore[attr-defined]
    sink.ensure_all()
    return sink


def counted(rows: list[dict[str, Any]]) -> Counter[str]:
    return Counter(repr(sorted((n, v) for n, v in r.items() if n not in OWN)) for r in rows)


def feed(root: Path, table: str, first: int = 0) -> list[dict[str, Any]]:
    """The changes as delta-rs reads them."""
    found = pa.table(delta_read.open_table(root, table).load_cdf(starting_version=first)).to_pylist()
    return sorted(found, key=lambda r: int(r["_commit_version"]))


def differences(root: Path, table: str, first: int) -> dict[int, tuple[Counter[str], Counter[str]]]:
    """For every version after ``first``, the rows that it lacks and has, compared with the version before; none if they are the same."""
    found = {}
    before = counted(version_rows(root, table, first))
    for version in range(first + 1, delta_read.open_table(root, table).version() + 1):
        now = counted(version_rows(root, table, version))
        if now != before:
            found[version] = before - now, now - before
        before = now
    return found


def version_rows(root: Path, table: str, version: int) -> list[dict[str, Any]]:
    found = delta_read.open_table(root, table)
    found.load_as_version(version)
    return delta_read.read(found).to_pylist()


def check(root: Path, table: str, changes: list[dict[str, Any]], first: int = 0) -> int:
    """The changes of every version are its difference (rows that it both removes and adds cancel out); return their number."""
    by_version: dict[int, tuple[Counter[str], Counter[str]]] = {}
    for row in changes:
        gone, come = by_version.setdefault(int(row["_commit_version"]), (Counter(), Counter()))
        (come if SIGNS[row["_change_type"]] > 0 else gone).update(counted([row]))
    netted = {v: (gone - come, come - gone) for v, (gone, come) in by_version.items()}
    assert {v: d for v, d in netted.items() if d != (Counter(), Counter())} == differences(root, table, first)
    held = counted(version_rows(root, table, first))
    for version in sorted(by_version):
        gone, come = by_version[version]
        assert not gone - held, version
        held = held - gone + come
    assert held == counted(delta_read.read(delta_read.open_table(root, table)).to_pylist())
    return len(changes)


def test_changes_are_the_differences_of_versions(writer: Writer, request: pytest.FixtureRequest) -> None:
    root = Path(writer.root)  # type: ignore[attr-defined]
    sink = sink_of(writer)
    changes = random_changes(sink.plan, seed=5, batches=5, steps=12)
    for batch in range(5):
        commit(sink, changes, batch)
        derive(sink, batch)
    for table in NEAR:
        assert check(root, table, feed(root, table)) > 0
        assert any(r["_change_type"] == "delete" for r in feed(root, table)) == (table != "near_changes")
    if not isinstance(writer, DriverWriter):
        spark = request.getfixturevalue("spark")
        for table in NEAR:
            frame = spark.read.format("delta").option("readChangeFeed", "true").option("startingVersion", 0).load(str(root / table))
            assert check(root, table, [r.asDict() for r in _utc(frame)]) > 0
    configured = {n: delta_read.open_table(root, n).metadata().configuration.get(FEED) for n in sink.specs}
    assert {n for n, v in configured.items() if v == "true"} == set(NEAR) and set(configured.values()) == {None, "true"}


def _utc(frame: Any) -> list[Any]:
    """The rows of a frame, with instants as delta-rs reads them."""
    table = frame.toArrow().cast(pa.schema([(f.name, f.type) for f in frame.toArrow().schema]))
    return [_Row(r) for r in table.to_pylist()]


class _Row(dict[str, Any]):
    def asDict(self) -> dict[str, Any]:
        return dict(self)


def test_turned_on_off_and_on_again(tmp_path: Path) -> None:
    changes = random_changes(make_plan("x", ("grp",)), seed=5, batches=8, steps=12)
    first: dict[str, int] = {}
    for batch, feeds in enumerate([(), (), ("near",), ("near",), (), ("near", "near3"), ("near", "near3"), ("near",)]):
        sink = sink_of(DriverWriter(tmp_path), feeds)
        for table in sink.specs:
            on = delta_read.open_table(tmp_path, table).metadata().configuration.get(FEED) == "true"
            assert on == any(table in (q, f"{q}_changes", f"{q}_now") for q in feeds), (batch, table)
            if on:
                first.setdefault(f"{batch}{table}", delta_read.open_table(tmp_path, table).version())
        commit(sink, changes, batch)
        derive(sink, batch)
    # Since it was turned on for the last time.
    for table in NEAR:
        assert check(tmp_path, table, feed(tmp_path, table, first[f"5{table}"]), first[f"5{table}"]) > 0
    for table in sink.specs:
        protocol = delta_read.open_table(tmp_path, table).protocol()
        assert protocol.min_reader_version == 1
        assert delta_read.read(delta_read.open_table(tmp_path, table)).num_rows == sum(
            b.num_rows for b in delta_read.dataset(DeltaTable(str(tmp_path / table))).to_batches()
        )


def test_without_it_tables_have_no_such_property(tmp_path: Path) -> None:
    sink = sink_of(DriverWriter(tmp_path), ())
    assert all(FEED not in DeltaTable(str(tmp_path / n)).metadata().configuration for n in sink.specs)
    assert {DeltaTable(str(tmp_path / n)).protocol().min_writer_version for n in sink.specs} == {2}


def test_upkeep_keeps_what_retention_needs_and_no_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upkeep, "SPARE", 0)
    monkeypatch.setattr(upkeep, "MERGE_AT", 3)
    sink = sink_of(DriverWriter(tmp_path))
    changes = random_changes(sink.plan, seed=5, batches=8, steps=12)
    for batch in range(8):
        commit(sink, changes, batch)
        derive(sink, batch)
        Upkeep().maintain(sink.writer.opened("near"), sink.specs["near"], tmp_path / "near", owner=sink.writer.owner.id)  # type: ignore[attr-defined]
        Upkeep().maintain(sink.writer.opened("near_changes"), sink.specs["near_changes"], tmp_path / "near_changes")
    # Within the retention every change can be read, although files were merged.
    for table in NEAR:
        assert check(tmp_path, table, feed(tmp_path, table)) > 0
    # A file of changes, as other engines write them for deletions and updates.
    made = tmp_path / "near" / "_change_data" / "cdc-1.parquet"
    made.parent.mkdir()
    made.write_bytes(b"x")
    log = tmp_path / "near" / "_delta_log"
    last = max(log.glob("*.json"))
    cdc = '{"cdc":{"path":"_change_data/cdc-1.parquet","partitionValues":{"is_current":"true"},"size":1,"dataChange":false}}'
    last.write_text(last.read_text().rstrip("\n") + "\n" + cdc + "\n")
    Upkeep().maintain(sink.writer.opened("near"), sink.specs["near"], tmp_path / "near", owner=sink.writer.owner.id)  # type: ignore[attr-defined]
    assert made.exists()
    replaced = len(list((tmp_path / "near").rglob("*.parquet")))
    monkeypatch.setattr(upkeep, "MINUTES", dict.fromkeys(upkeep.MINUTES, -2))
    monkeypatch.setattr(table_properties, "MINUTES", dict.fromkeys(upkeep.MINUTES, 0))
    table_now = DriverWriter(tmp_path)
    table_now.ensure(sink.specs["near"])
    table_now.maintain(sink.specs["near"])
    assert not made.exists()
    assert len([p for p in (tmp_path / "near").rglob("*.parquet") if "_delta_log" not in p.parts]) < replaced
    assert delta_read.read(delta_read.open_table(tmp_path, "near")).num_rows > 0
