"""Batches in the tables exactly once, results replayed from changes, by both writers."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from skyband.framework.base.errors import SkybandError
from skyband.framework.plan.model import Plan
from skyband.framework.tables.results.derive import derive
from skyband.framework.tables.schemas import TableSpec
from skyband.framework.tables.writing.driver_writer import DriverWriter
from skyband.framework.tables.writing.factory import writer_for
from skyband.framework.tables.writing.sink import Sink
from skyband.framework.tables.writing.writer import Writer
from tests.framework.tables.plans import DAY, batch_blocks, make_plan, random_changes, roles_of

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def instant(micros: int) -> datetime:
    return EPOCH + timedelta(microseconds=micros)


@pytest.fixture(params=["driver", pytest.param("spark", marks=[pytest.mark.spark, pytest.mark.slow])])
def writer(request: pytest.FixtureRequest, tmp_path: Path) -> Writer:
    root = tmp_path / "a sink"
    if request.param == "driver":
        return DriverWriter(root)
    from skyband.framework.tables.writing.spark_writer import SparkWriter

    return SparkWriter(str(root), request.getfixturevalue("spark"))


def commit(sink: Sink, changes: list[dict[str, list[dict[str, Any]]]], number: int) -> None:
    blocks = batch_blocks(sink.plan, changes[number], number)
    row = {
        "batch_id": number,
        "batch_time": EPOCH,
        "rows_in": 10,
        "frontier": instant(DAY + number),
        "newest": instant(DAY),
        "counters": "{}",
    }
    blocks["runs"] = sink.runs_row(row)
    sink.commit(number, blocks)


def replay(plan: Plan, changes: list[dict[str, list[dict[str, Any]]]], query: str) -> list[dict[str, Any]]:
    """Intervals by the definition: walk the changes in order."""
    by_key = defaultdict(list)
    for batch in changes:
        for row in batch[query]:
            by_key[tuple(row[k] for k in plan.intake.partition_by)].append(row)
    roles = next(roles_of(q) for q in plan.queries if q.name == query)
    seqs = [f"{r}_seq" for r in roles]
    made = []
    for rows in by_key.values():
        held: dict[tuple[int, ...], dict[str, Any]] = {}
        for row in sorted(rows, key=lambda r: (r["step"], r["pos"])):
            item = tuple(row[s] for s in seqs)
            if row["change"] == "+":
                entered = {"valid_from": row["changed_at"], "from_step": row["step"]}
                held[item] = row | entered | {"valid_to": None, "to_step": None, "is_current": True}
                made.append(held[item])
            else:
                held.pop(item).update(valid_to=row["changed_at"], to_step=row["step"], is_current=False)
    return made


def flat(rows: list[dict[str, Any]], names: list[str]) -> list[str]:
    return sorted(repr([_plain(r[n]) for n in names]) for r in rows)


def _plain(value: Any) -> Any:
    return (value - EPOCH) // timedelta(microseconds=1) if isinstance(value, datetime) else value


NAMES = ["older_id", "older_seq", "older_time", "newer_seq", "score", "valid_from", "valid_to", "from_step", "to_step", "is_current"]


@pytest.mark.parametrize("keys", [(), ("grp",)])
def test_results_are_the_replayed_changes_however_batches_repeat(writer: Writer, tmp_path: Path, keys: tuple[str, ...]) -> None:
    plan = make_plan(str(tmp_path / "a sink"), keys)
    changes = random_changes(plan, seed=3, batches=7, steps=25)
    sink = Sink(plan, writer, "g1")
    sink.ensure_all()
    sink.ensure_all()
    for n in range(7):
        commit(sink, changes, n)
        if n % 3 == 2:
            commit(sink, changes, n)
            derive(sink, n)
            derive(sink, n)
    sink = Sink(plan, writer, "g1")
    derive(sink, 6)
    for q in plan.queries:
        rows = writer.read(q.name).to_pylist()
        assert flat(rows, [*keys, *NAMES]) == flat(replay(plan, changes, q.name), [*keys, *NAMES])
        assert writer.read(f"{q.name}_changes").num_rows == sum(len(b[q.name]) for b in changes)
    assert sorted(writer.read("runs")["batch_id"].to_pylist()) == list(range(7))
    assert sorted(writer.read("rejected")["batch_id"].to_pylist()) == [1, 3, 5]
    last = sink.last_run()
    assert last is not None and last["batch_id"] == 6
    assert [r["batch_id"] for r in sink.last_runs(2)] == [5, 6]


def test_heads_hold_every_key_once_and_skybands_the_last_content_of_each_bucket(writer: Writer, tmp_path: Path) -> None:
    plan = make_plan(str(tmp_path / "a sink"), ("grp",))
    changes = random_changes(plan, seed=4, batches=6, steps=0)
    sink = Sink(plan, writer, "g1")
    sink.ensure_all()
    for n in range(6):
        commit(sink, changes, n)
        commit(sink, changes, n)
    heads = {r["grp"]: (r["bucket"], r["last_seq"]) for r in writer.read("heads").to_pylist()}
    assert writer.read("heads").num_rows == 4
    assert heads == {"a": (0, 4), "b": (1, 5), "c": (2, 5), "d": (3, 3)}
    rows = writer.read("near_skyband").to_pylist()
    # Batch 5 wrote two rows to buckets 1 and 2, batch 4 one row to bucket 0; batch 3 emptied bucket 3.
    assert sorted(r["bucket"] for r in rows) == [0, 1, 1, 2, 2]


def test_now_is_ranked_and_says_as_of_when(writer: Writer, tmp_path: Path) -> None:
    plan = make_plan(str(tmp_path / "a sink"), ("grp",), direction="max")
    changes = random_changes(plan, seed=9, batches=3, steps=60)
    sink = Sink(plan, writer, "g1")
    sink.ensure_all()
    for n in range(3):
        commit(sink, changes, n)
    derive(sink, 2)
    expected = [r for r in replay(plan, changes, "near") if r["is_current"]]
    expected.sort(key=lambda r: (r["grp"], -r["score"], -r["older_seq"], -r["newer_seq"]))
    rows = sorted(writer.read("near_now").to_pylist(), key=lambda r: (r["grp"], r["rank"]))
    assert len(rows) > 5
    assert [(r["grp"], r["older_seq"], r["newer_seq"]) for r in rows] == [(r["grp"], r["older_seq"], r["newer_seq"]) for r in expected]
    # Key a was last touched by batch 0, b by 1, c by 2; the frontier of the last batch is one microsecond further.
    assert {r["grp"]: _plain(r["as_of"]) - DAY for r in rows} == {"a": 1, "b": 1, "c": 2}


def test_another_generation_of_the_checkpoint_is_another_writer(writer: Writer, tmp_path: Path) -> None:
    plan = make_plan(str(tmp_path / "a sink"))
    sink = Sink(plan, writer, "g1")
    sink.ensure_all()
    changes = random_changes(plan, seed=5, batches=1, steps=3)
    commit(sink, changes, 0)
    assert writer.version("runs", "tests/g1/runs") == 0
    assert writer.version("runs", "tests/g2/runs") is None
    assert Sink(plan, writer, "g2").last_run() is None


def test_writer_for_chooses_by_path(tmp_path: Path) -> None:
    assert isinstance(writer_for(str(tmp_path)), DriverWriter)
    assert isinstance(writer_for(f"file://{tmp_path}"), DriverWriter)


def test_tables_are_written_several_at_a_time_and_an_error_waits_for_the_others(tmp_path: Path) -> None:
    writer, both, done = DriverWriter(tmp_path), threading.Barrier(2, timeout=30), []

    def meet(table: str) -> None:
        both.wait()
        done.append(table)

    def fail(table: str) -> None:
        both.wait()
        raise SkybandError("SKY-E401", "it cannot be written")

    def late(table: str) -> None:
        both.wait()
        time.sleep(0.1)
        done.append(table)

    assert list(writer.each([("a", meet), ("b", meet)])) == ["a", "b"] == sorted(done)
    with pytest.raises(SkybandError, match="it cannot be written"):
        list(writer.each([("c", fail), ("d", late)]))
    assert done[2:] == ["d"]


def test_a_table_keeps_the_comments_of_the_version_that_made_it(writer: Writer, tmp_path: Path) -> None:
    """A version may say something else of a column: rows go on to be written."""

    def spec(comment: str) -> TableSpec:
        return TableSpec("rejected", pa.schema([pa.field("reason", pa.string(), True, {"comment": comment})]), comment)

    writer.ensure(spec("why"))
    later = spec("why a row is not in the results")
    writer.ensure(later)
    assert writer.append("rejected", pa.table({"reason": ["late"]}, later.schema), "job", 0)
    assert writer.read("rejected").column("reason").to_pylist() == ["late"]
