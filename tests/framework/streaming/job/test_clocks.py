"""The clocks of rows that were too far ahead: what a rebuild takes over, and what ``verify`` compares with them."""

from __future__ import annotations

import json
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from pyarrow import feather

from skyband.framework.base.errors import SkybandError
from skyband.framework.streaming.job import clocks
from skyband.framework.streaming.job.layout import Layout
from skyband.framework.verify.brute_force.accepted import without_late
from skyband.framework.verify.stored import Stored
from skyband.framework.verify.verification import compare_clocks
from tests.framework.verify import small
from tests.spark.kinds import KINDS

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
HOUR = 3_600_000_000
Row = tuple[int, str, int]
"""Batch, origin and event time (in hours) of a row that was too far ahead."""


def layout_of(directory: Path, rows: list[Row], counters: dict[int, str]) -> Layout:
    """A generation with these rows in ``rejected``, one that was late, and the batches in ``runs``."""
    root = directory / "out"
    (root / "_skyband").mkdir(parents=True)
    rejected = [(b, "too_far_ahead", o, EPOCH + timedelta(hours=t)) for b, o, t in rows] + [(0, "late", "f", EPOCH)]
    schema = pa.schema(
        [("batch_id", pa.int64()), ("reason", pa.string()), ("origin", pa.string()), ("event_time", pa.timestamp("us", "UTC"))]
    )
    write_deltalake(str(root / "rejected"), pa.table(list(zip(*rejected, strict=True)), schema=schema))
    runs = pa.table({"batch_id": pa.array(list(counters), pa.int64()), "counters": pa.array(list(counters.values()), pa.string())})
    write_deltalake(str(root / "runs"), runs)
    return Layout(str(root))


def counted(hours: int) -> str:
    return json.dumps({"clock_ms": hours * HOUR // 1000, "max_ahead_us": HOUR, "behind": 1})


def recorded(layout: Layout) -> set[tuple[str, int, int]]:
    return {(r["origin"], r["event_time"] // HOUR, r["clock"] // HOUR) for r in clocks.recorded_rows(layout.home).to_pylist()}


def test_rows_are_recorded_with_the_clocks_of_their_batches_and_keep_them_from_rebuild_to_rebuild(tmp_path: Path) -> None:
    first = layout_of(tmp_path / "1", [(1, "f", 50), (1, "g", 51), (2, "f", 60), (3, "f", 70)], {1: counted(9), 2: counted(12)})
    second = layout_of(tmp_path / "2", [(0, "f", 50), (0, "f", 60), (4, "h", 80)], {0: counted(30), 4: counted(40)})
    clocks.record(first, second)
    # Of batch 3 no clock is known any more: whatever it was, the row was too far ahead.
    assert recorded(second) == {("f", 50, 9), ("g", 51, 9), ("f", 60, 12), ("f", 70, 0)}
    third = layout_of(tmp_path / "3", [], {})
    clocks.record(second, third)
    assert recorded(third) == {("f", 50, 9), ("g", 51, 9), ("f", 60, 12), ("f", 70, 0), ("h", 80, 40)}


def test_nothing_is_recorded_without_such_rows_nor_of_tables_that_are_gone(tmp_path: Path) -> None:
    none, built = layout_of(tmp_path / "1", [], {0: counted(1)}), Layout(str(tmp_path / "built"))
    built.home.mkdir(parents=True)
    clocks.record(none, built)
    damaged = layout_of(tmp_path / "2", [(0, "f", 50)], {0: counted(1)})
    shutil.rmtree(damaged.root / "rejected")
    clocks.record(damaged, built)
    assert not (built.home / clocks.FILE).exists() and recorded(built) == set()


def test_only_the_generation_that_is_built_judges_by_recorded_clocks(tmp_path: Path) -> None:
    present = layout_of(tmp_path, [(0, "f", 50)], {0: counted(1)})
    built = Layout(str(present.next))
    built.home.mkdir(parents=True)
    for layout in (built, present):
        clocks.record(present, layout)
    assert clocks.recorded(built) == str(built.home / clocks.FILE)
    assert clocks.recorded(present) is None


@pytest.mark.parametrize("content", [b"", b"ARROW1", b"nothing"])
def test_a_file_that_is_damaged_is_named(tmp_path: Path, content: bytes) -> None:
    layout = layout_of(tmp_path, [], {})
    (layout.home / clocks.FILE).write_bytes(content)
    with pytest.raises(SkybandError, match=r"clocks\.arrow cannot be read") as e:
        clocks.record(layout, Layout(str(tmp_path / "built")))
    assert e.value.code == "SKY-E303"


def test_a_file_with_other_columns_is_damaged(tmp_path: Path) -> None:
    feather.write_feather(pa.table({"origin": ["f"]}), str(tmp_path / clocks.FILE))
    with pytest.raises(SkybandError, match="it has other columns"):
        clocks.recorded_rows(tmp_path)


@pytest.mark.parametrize("text", [None, "", "[]", "{", '{"clock_ms": 1}', '{"clock_ms": "1", "max_ahead_us": 1}'])
def test_batches_that_have_recorded_no_clock_are_left_out(text: str | None) -> None:
    runs = pa.table({"batch_id": [0, 1], "counters": pa.array([text, counted(2)], pa.string())})
    assert clocks.batch_clocks(runs) == {1: clocks.BatchClock(2 * HOUR, HOUR)}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return small.make(KINDS["keyed"].write(tmp_path_factory.mktemp("clocks") / "job", 10), KINDS["keyed"].rows(3, 60))


def differences(plan: Any, clock_hours: dict[int, int], far: list[Row], directory: Path) -> list[str]:
    """What ``verify`` finds in the tables of ``plan`` with these clocks, in hours after the newest row, and rows too far ahead."""
    root = directory / "out"
    shutil.copytree(plan.sink, root)
    runs = DeltaTable(str(root / "runs")).to_pyarrow_table()
    newest = max(t for t in runs["newest"].cast(pa.int64()).to_pylist() if t is not None)
    rows = runs.to_pylist()
    for row in rows:
        if row["batch_id"] in clock_hours:
            clock = newest + clock_hours[row["batch_id"]] * HOUR
            row["counters"] = json.dumps({"clock_ms": -(-clock // 1000), "max_ahead_us": HOUR})
    write_deltalake(str(root / "runs"), pa.Table.from_pylist(rows, runs.schema), mode="overwrite")
    table = DeltaTable(str(root / "rejected")).to_pyarrow_table()
    more = [
        {
            "reason": "too_far_ahead",
            "text": "{}",
            "origin": o,
            "batch_id": b,
            "event_time": EPOCH + timedelta(microseconds=newest + t * HOUR),
        }
        for b, o, t in far
    ]
    write_deltalake(str(root / "rejected"), pa.Table.from_pylist(more, table.schema), mode="append")
    return [d.text() for d in compare_clocks(Stored(small.replace(plan, sink=str(root))))]


def test_verify_finds_rows_that_were_not_too_far_ahead_and_batches_that_took_some_that_were(made: Any, tmp_path: Path) -> None:
    assert differences(made, {}, [(0, "f", 99)], tmp_path / "none") == []
    assert differences(made, {0: 5, 4: 5}, [(0, "f", 7), (4, "f", 99)], tmp_path / "good") == []
    (found,) = differences(made, {0: 5}, [(0, "f", 6), (0, "f", 5), (0, "f", 7)], tmp_path / "near")
    assert "2 rows of batch 0 are not too far ahead" in found
    (found,) = differences(made, {4: -2}, [], tmp_path / "taken")
    assert "batch 4" in found and "newest" in found


def test_rows_that_were_too_far_ahead_are_left_out_as_often_as_they_were_rejected() -> None:
    rows = pa.table({"id": pa.array([1, 1, 2], pa.int64())})
    reasons = ["too_far_ahead", "duplicate_id"]
    rejected = pa.table({"reason": reasons, "text": ['{"id":1}', '{"id":2}']})
    assert without_late(rows, rejected)["id"].to_pylist() == [1, 2]
