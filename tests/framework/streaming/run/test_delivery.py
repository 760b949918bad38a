"""Rows that tasks write to files themselves: the same tables as by way of the driver, once, with statistics that hold."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from deltalake import DeltaTable, write_deltalake

from skyband.framework.base.errors import SkybandError
from skyband.framework.base.messages import COUNTS, REJECTED, Changes, Skyband, Tally
from skyband.framework.base.types import STAMP
from skyband.framework.streaming.rows import blocks, rejects
from skyband.framework.streaming.rows.outbox import LEAST, Block
from skyband.framework.streaming.run import delivery
from skyband.framework.streaming.run.commit import Received
from skyband.framework.streaming.run.delivery import Delivery
from skyband.framework.tables.delta import data_files
from skyband.framework.tables.schemas import TableSpec
from skyband.framework.tables.writing.driver_writer import DriverWriter
from skyband.framework.tables.writing.sink import Sink
from skyband.framework.tables.writing.table_properties import properties
from tests.framework.tables.plans import batch_blocks, make_plan, random_changes

ATTEMPT = 41


class Task:
    """What a task knows of itself, of the batch ``number``."""

    number = 0

    @classmethod
    def get(cls) -> type[Task]:
        return cls

    @classmethod
    def getLocalProperty(cls, name: str) -> str:
        return str(cls.number)

    @classmethod
    def taskAttemptId(cls) -> int:
        return ATTEMPT


@pytest.fixture
def task(monkeypatch: pytest.MonkeyPatch) -> Iterator[type[Task]]:
    monkeypatch.setattr(delivery, "TaskContext", Task)
    yield Task
    Task.number = 0


def sink_of(root: Path) -> Sink:
    made = Sink(make_plan(str(root), ("grp",)), DriverWriter(root), "g1")
    made.ensure_all()
    return made


def bad_rows(count: int) -> pa.Table:
    at = pa.array([datetime(2020, 1, 1, tzinfo=UTC)] * count, STAMP)
    return pa.table([["late", "parse"] * (count // 2), [f"é{n}" for n in range(count)], ["f.csv"] * count, at], schema=rejects.SCHEMA)


def messages(sink: Sink, changes: list[dict[str, list[dict[str, Any]]]], number: int) -> list[Block]:
    """Those of a batch: every table of changes in two blocks, rejected rows, two states of a bucket of which the last counts."""
    made: list[Block] = []
    for kind, rows in batch_blocks(sink.plan, changes[number], number).items():
        half = rows.num_rows // 2
        if kind.startswith("skyband:"):
            made.append((kind, blocks.table_bytes(rows.slice(0, half))))
            half = 0
        made += [(kind, blocks.table_bytes(part)) for part in (rows.slice(0, half), rows.slice(half)) if part.num_rows or half == 0]
    made += [(REJECTED, blocks.table_bytes(bad_rows(4))), (COUNTS, Tally(late=2, parse=2).message())]
    return made


def commit(sink: Sink, number: int, received: Received) -> None:
    sink.commit(number, received.tables(), received.files)


@pytest.mark.parametrize("least", [0, 600])
def test_tables_are_those_that_the_driver_writes(tmp_path: Path, task: type[Task], monkeypatch: pytest.MonkeyPatch, least: int) -> None:
    monkeypatch.setenv(LEAST, str(least))
    by_driver, by_tasks = sink_of(tmp_path / "driver"), sink_of(tmp_path / "tasks")
    deliver = Delivery.of(by_tasks)
    assert deliver is not None and deliver.least == least
    changes = random_changes(by_driver.plan, seed=5, batches=4, steps=60)
    in_files = 0
    for number in range(4):
        task.number = number
        sent = messages(by_driver, changes, number)
        # Of every task's own.
        deliver = Delivery.of(by_tasks)
        assert deliver is not None
        delivered = [deliver(*m) for m in sent]
        in_files += sum(kind.startswith("file:") for kind, _ in delivered)
        plain, received = Received.of(sent), Received.of(delivered)
        assert received.reasons() == plain.reasons() == {"late": 2 + number % 2, "parse": 2}
        assert received.changes() == plain.changes() and received.counts == plain.counts
        commit(by_driver, number, plain)
        commit(by_tasks, number, received)
        # Another attempt's files are not those that count, and a batch that comes again is not told again.
        commit(by_tasks, number, Received.of([deliver(*m) for m in sent]))
    assert in_files > 4
    for name, spec in by_driver.specs.items():
        theirs, mine = by_driver.writer.read(name), by_tasks.writer.read(name)
        if spec.partition_by:
            assert sorted(mine.to_pylist(), key=repr) == sorted(theirs.to_pylist(), key=repr), name
        elif "batch_id" in theirs.column_names:
            for number in range(4):
                where = pc.field("batch_id") == number
                theirs, mine = by_driver.writer.read(name, where=where), by_tasks.writer.read(name, where=where)
                assert sorted(mine.to_pylist(), key=repr) == sorted(theirs.to_pylist(), key=repr), name
                assert mine.num_rows or name not in ("near_changes", "rejected")


def heads_block(sink: Sink, bucket: int, keys: str, seq: int) -> Block:
    n = len(keys)
    columns = [list(keys), [bucket] * n, [seq] * n, [datetime(2020, 1, 1, tzinfo=UTC)] * n, [datetime(2020, 1, 1, tzinfo=UTC)] * n]
    return "heads", blocks.table_bytes(pa.table(columns, schema=sink.specs["heads"].schema))


def test_heads_in_files_are_whole_buckets_however_often_a_task_sends_them(
    tmp_path: Path, task: type[Task], monkeypatch: pytest.MonkeyPatch
) -> None:
    sink, expected = sink_of(tmp_path), {}
    for number, least in enumerate((0, 1 << 20, 60, 60, 0)):
        task.number = number
        monkeypatch.setenv(LEAST, str(least))
        deliver = Delivery.of(sink)
        assert deliver is not None
        # Bucket 1 comes twice: the second time some keys again, some others.
        sent = [(1, "ab", 10 * number), (2, "xyz"[: number + 1], 10 * number), (1, "bcdefgh"[: 2 * number + 1], 10 * number + 1)]
        expected |= {(bucket, key): seq for bucket, keys, seq in sent for key in keys}
        commit(sink, number, Received.of([deliver(*heads_block(sink, *of)) for of in sent]))
        found = sink.writer.read("heads").to_pylist()
        assert {(r["bucket"], r["grp"]): r["last_seq"] for r in found} == expected and len(found) == len(expected)


def test_files_are_named_by_batch_and_attempt(tmp_path: Path, task: type[Task], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(LEAST, "0")
    sink = sink_of(tmp_path)
    deliver = Delivery.of(sink)
    assert deliver is not None
    task.number = 7
    kind, message = deliver(REJECTED, blocks.table_bytes(bad_rows(2)))
    file = json.loads(message)
    assert (
        kind == "file:rejected"
        and file["path"].startswith(f"part-00000007-{ATTEMPT}-")
        and (tmp_path / "rejected" / file["path"]).is_file()
    )
    assert deliver(COUNTS, b"{}") == (COUNTS, b"{}")
    empty = Skyband("near", 3).kind, blocks.table_bytes(sink.specs["near_skyband"].schema.empty_table())
    assert deliver(*empty) == empty


def test_a_file_that_is_not_there_is_an_error_and_nothing_is_committed(
    tmp_path: Path, task: type[Task], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(LEAST, "0")
    sink = sink_of(tmp_path)
    deliver = Delivery.of(sink)
    assert deliver is not None
    received = Received.of([deliver(REJECTED, blocks.table_bytes(bad_rows(2)))])
    (file,) = received.files[REJECTED]
    (tmp_path / "rejected" / file.path).unlink()
    with pytest.raises(SkybandError, match="a task has written") as e:
        commit(sink, 0, received)
    assert e.value.code == "SKY-E620"
    assert sink_of(tmp_path).writer.read("rejected").num_rows == 0
    # A task on a machine that has another directory of that name, or none, fails.
    elsewhere = Delivery(str(tmp_path / "none"), deliver.specs, deliver.keys, 0, "")
    with pytest.raises(OSError, match="none"):
        elsewhere(REJECTED, blocks.table_bytes(bad_rows(2)))


def test_a_writer_without_a_directory_gets_rows() -> None:
    from skyband.framework.rehearsal.memory import MemoryWriter

    sink = Sink(make_plan("anywhere"), MemoryWriter(), "g1")
    assert Delivery.of(sink) is None


ALL = pa.schema(
    [
        ("k", pa.int64()), ("s", pa.string()), ("ts", STAMP), ("d", pa.date32()), ("f", pa.float64()), ("b", pa.bool_()),
        ("raw", pa.binary()), ("i", pa.int32()), ("dec", pa.decimal128(20, 4)), ("l", pa.list_(pa.string())), ("n", pa.string()),
        ("batch_id", pa.int64()),
    ]
)  # fmt: skip
ROWS = pa.table(
    {
        "k": [1, 2, None], "s": ["a" * 100, "é" * 90, None],
        "ts": [datetime(2020, 1, 1, 0, 0, 0, 123456, UTC), datetime(1960, 1, 1, 0, 0, 0, 1, UTC), None],
        "d": [date(2020, 1, 1), None, date(1900, 1, 1)], "f": [1.0, float("inf"), None], "b": [True, None, False],
        "raw": [b"x", None, b"y"], "i": [1, 2, 3], "dec": [Decimal("1234567890123456.7891"), Decimal("-123456789.1234"), None],
        "l": [["x"], None, []], "n": [None, None, None], "batch_id": [7, 7, 7],
    },
    schema=ALL,
)  # fmt: skip


def test_statistics_are_about_what_delta_rs_tells_of_and_hold(tmp_path: Path) -> None:
    spec = TableSpec("t", ALL, "any")
    table = DeltaTable.create(str(tmp_path / "t"), ALL, configuration=properties(spec, "x"), raise_if_key_not_exists=False)
    write_deltalake(table, ROWS, mode="append")
    log = (tmp_path / "t" / "_delta_log" / "00000000000000000001.json").read_text().splitlines()
    (theirs,) = (json.loads(json.loads(line)["add"]["stats"]) for line in log if '"add"' in line)
    mine = json.loads(data_files.write(tmp_path, "t", ROWS).stats)
    assert mine["numRecords"] == theirs["numRecords"] and mine["nullCount"] == theirs["nullCount"]
    for what in ("minValues", "maxValues"):
        assert set(mine[what]) == set(theirs[what])
        assert {c: mine[what][c] for c in ("k", "d", "i", "batch_id")} == {c: theirs[what][c] for c in ("k", "d", "i", "batch_id")}
    texts = [s for s in ROWS["s"].to_pylist() if s is not None]
    assert all(mine["minValues"]["s"] <= s <= mine["maxValues"]["s"] for s in texts)
    assert max(len(mine[w]["s"]) for w in ("minValues", "maxValues")) < 40
    times = [t for t in ROWS["ts"].to_pylist() if t is not None]
    least, greatest = (datetime.fromisoformat(mine[w]["ts"]) for w in ("minValues", "maxValues"))
    assert least <= min(times) and max(times) <= greatest
    assert max(min(times) - least, greatest - max(times)) < timedelta(milliseconds=1)
    decimals = [d for d in ROWS["dec"].to_pylist() if d is not None]
    assert Decimal(mine["minValues"]["dec"]) <= min(decimals) and max(decimals) <= Decimal(mine["maxValues"]["dec"])


def test_changes_are_counted_wherever_they_lie() -> None:
    rows = pa.table({"x": [1, 2]})
    received = Received.of([(Changes("q").kind, blocks.table_bytes(rows)), (f"file:{Changes('q').kind}", FILE)])
    assert received.changes() == {"q": 42}


FILE = json.dumps({"path": "p", "size": 1, "rows": 40, "stats": "{}", "partition": {}, "reasons": {}}).encode()
