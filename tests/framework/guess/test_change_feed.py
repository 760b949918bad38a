"""``skyband init --from`` over a change feed as Debezium writes it: the draft gives the table's rows as they are at the end."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterable, Mapping
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from skyband.framework.guess.change_feed import _bytes_to_number
from skyband.framework.preview.judged import judged
from skyband.jobs.cli import main
from skyband.jobs.spec import load_plan
from tests.framework.guess.test_init_from import made

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

T0 = 1_704_067_200_000
Row = Mapping[str, Any]


def orders(number: int = 20) -> list[tuple[str, Row | None, Row | None]]:
    """(operation, before, after) of a table: a snapshot, insertions, updates, a deletion, a truncation of another table."""
    rows = [{"id": i, "amount": f"{i}0.50", "due": 19_700 + i, "created": (T0 + i) * 1000, "note": None} for i in range(1, number + 1)]
    changed = [{**rows[i], "amount": f"{(i + 1) * 100}.25"} for i in (2, 6, 10)]
    return [
        *(("r" if i < 4 else "c", None, row) for i, row in enumerate(rows)),
        *(("u", rows[i], row) for i, row in zip((2, 6, 10), changed, strict=True)),
        ("d", rows[-1], None),
        ("t", None, None),
    ]


def messages(changes: Iterable[tuple[str, Row | None, Row | None]], source: Any = None) -> list[dict[str, Any]]:
    """The envelopes of changes, two in a millisecond. ``source``: makes the position of the n-th change."""
    source = source or (lambda n: {"db": "shop", "lsn": 1000 + n})
    return [
        {"before": before, "after": after, "source": source(n), "op": op, "ts_ms": T0 + n // 2 * 1000}
        for n, (op, before, after) in enumerate(changes)
    ]


def fields(**logical: Any) -> dict[str, Any]:
    """The schema of an envelope whose columns have these logical types."""
    columns = [{"field": n, "type": "int32", **(t if isinstance(t, dict) else {"name": t})} for n, t in logical.items()]
    return {"type": "struct", "fields": [{"field": "before", "fields": columns}, {"field": "after", "fields": columns}, {"field": "op"}]}


def write(path: Path, rows: Iterable[Any]) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(json.dumps(r) + "\n" for r in rows), encoding="utf-8")
    return path


def objects(changes: Iterable[tuple[str, Row | None, Row | None]], key: str = "id") -> dict[Any, Row]:
    """The table's rows after all changes."""
    there: dict[Any, Row] = {}
    for op, before, after in changes:
        if op == "d" and before is not None:
            there.pop(before[key], None)
        elif after is not None:
            there[after[key]] = after
    return there


@pytest.mark.parametrize("wrapped", [False, True])
@pytest.mark.parametrize("tombstone", [False, True])
def test_the_first_query_has_the_objects_as_they_are_at_the_end(tmp_path: Path, wrapped: bool, tombstone: bool) -> None:
    rows: list[Any] = messages(orders())
    schema = fields(id="", due="io.debezium.time.Date", created="io.debezium.time.MicroTimestamp")
    rows = [{"schema": schema, "payload": r} for r in rows] if wrapped else rows
    rows = [*rows[:-1], None, rows[-1]] if tombstone else rows
    job, _, unsure = made(write(tmp_path / "in" / "a.json", rows))
    at = "payload." if wrapped else ""
    source = job["source"]
    assert source["op"] == {"column": "op", "insert": ["c", "r"], "update": ["u"], "delete": ["d"], "ignore": ["m", "t"]}
    assert source["id"] == ["id"] and source["on_duplicate"] == "replace"
    assert source["event_time"] == {"column": "at", "watermark": "1 minute", "tie_break": ["lsn"]}
    assert source["schema"]["amount"] == {"type": "decimal(18,2)", "from": f"{at}after.amount"}
    assert source["schema"]["id_before"] == {"type": "bigint", "from": f"{at}before.id"}
    assert job["transform"] == [{"derive": {
        "id": {"sql": "coalesce(id_after, id_before)", "type": "bigint"}, "due_date": {"sql": "date_from_unix_date(due)", "type": "date"},
        "created_time": {"sql": "timestamp_micros(created)", "type": "timestamp"}, "at": "timestamp_millis(ts_ms)",
    }}]  # fmt: skip
    assert ("quality" in job) is tombstone and any("1 tombstone (null) is rejected as parse" in u for u in unsure) is tombstone
    assert main(["validate", "--data", str(tmp_path / "in" / "job.yaml")]) == 0
    found = judged(load_plan(str(tmp_path / "in" / "job.yaml")))
    assert dict(found.rejected) == ({"parse": 1} if tombstone else {}) and (found.filtered, found.first.doubtful) == (1, 0)
    best = sorted(((Decimal(r["amount"]), i) for i, r in objects(orders()).items()), reverse=True)[:10]
    assert [(Decimal(str(r["score"])), r["id"]) for r in found.tables["top_now"].to_pylist()] == best


@pytest.mark.parametrize(
    ("source", "tie_break"),
    [(lambda n: {"file": "binlog.000003", "pos": 100 + n, "row": 0}, ["file", "pos_", "row"]),
     (lambda n: {"change_lsn": f"00000027:{n:08x}:0002", "event_serial_no": 1}, ["change_lsn", "event_serial_no"]),
     (lambda n: {"scn": str(n), "ts_us": T0 * 1000 + n}, ["ts_us"]), (lambda n: {"db": "shop"}, None)],
)  # fmt: skip
def test_what_orders_the_changes_of_a_millisecond(tmp_path: Path, source: Any, tie_break: list[str] | None) -> None:
    job, _, unsure = made(write(tmp_path / "a.json", messages(orders(), source)))
    assert job["source"]["event_time"].get("tie_break") == tie_break
    assert any("no column orders the changes of one millisecond" in u for u in unsure) is (tie_break is None)


def test_deletions_with_nothing_but_the_key_tell_the_key(tmp_path: Path) -> None:
    """As PostgreSQL writes them by default: updates have no row before, deletions only the key."""
    rows = [{"title": f"t{i}", "order_no": i // 3, "line": i % 3, "price": i / 4} for i in range(12)]
    bare = {"title": None, "price": None, "order_no": 2, "line": 1}
    changes: list[tuple[str, Row | None, Row | None]] = [("c", None, r) for r in rows]
    changes += [("u", None, {**rows[5], "price": 99.25}), ("d", bare, None)]
    job, _, _ = made(write(tmp_path / "a.json", messages(changes)))
    assert job["source"]["id"] == ["order_no", "line"]
    found = judged(load_plan(str(tmp_path / "job.yaml")))
    assert found.rejected == {} and [(r["order_no"], r["line"]) for r in found.tables["top_now"].to_pylist()][:2] == [(1, 2), (3, 2)]
    assert (2, 1) not in [(r["order_no"], r["line"]) for r in found.tables["top_now"].to_pylist()]


def test_a_feed_without_rows_before_a_change_is_said_to_have_no_id_for_deletions(tmp_path: Path) -> None:
    job, _, unsure = made(write(tmp_path / "a.json", messages([("c", None, {"id": i, "x": i / 2}) for i in range(9)])))
    assert job["source"]["id"] == ["id"] and "id_before" not in job["source"]["schema"]
    assert any("a deletion would have no id" in u for u in unsure)
    assert main(["validate", "--data", str(tmp_path / "job.yaml")]) == 0


def test_files_of_a_feed_have_different_columns(tmp_path: Path) -> None:
    rows = messages(orders())
    write(tmp_path / "in" / "a.json", rows[:10])
    write(tmp_path / "in" / "b.json", rows[10:])
    job, text, _ = made(tmp_path / "in")
    assert "by all 25 rows of its 2 files" in text and "id_before" in job["source"]["schema"]


def test_rows_that_only_look_like_an_envelope_are_rows(tmp_path: Path) -> None:
    for op in ("x", ["c"], 1):
        rows = [{**r, "op": op} for r in messages(orders())]
        assert "op" not in made(write(tmp_path / "a.json", rows))[0]["source"]
    rows = [{"op": "c", "ts_ms": T0 + i, "x": i / 2} for i in range(9)]
    assert "op" not in made(write(tmp_path / "a.json", rows))[0]["source"]


@pytest.mark.parametrize(
    "values", [[None, None], [[1], [2]], [{"k": 1}, [[1]]], [True, "x"], ["NaN", 1.5], [2**70, "\u202e"], [19_701, "AfQ="]], ids=str
)
@pytest.mark.parametrize(
    "logical", ["io.debezium.time.Date", "org.apache.kafka.connect.data.Decimal", "io.debezium.time.MicroTimestamp", 3]
)
def test_whatever_the_columns_hold_the_draft_is_good(tmp_path: Path, values: list[Any], logical: Any) -> None:
    rows = messages([("c", None, {"at": values[0], "op": 1}), ("d", {"at": values[1]}, None), ("u", None, {"at": values[1]})])
    schema = fields(at={"name": logical, "parameters": {"scale": "99"} if logical == 3 else None}, op=None)
    for message in (rows, [{"schema": schema, "payload": r} for r in rows]):
        assert made(write(tmp_path / "a.json", message))[0]["source"]["op"]["column"] == "op"


NUMBERS = (0, 1, -1, 127, 128, -128, -129, 1050, -1050, 10**17, -(10**17), 2**63 - 1, -(2**63))


def base64(number: int) -> str:
    return b64encode(number.to_bytes((number + (number < 0)).bit_length() // 8 + 1, "big", signed=True)).decode()


def test_decimals_in_base64_are_derived_and_it_is_said_that_spark_alone_reads_them(tmp_path: Path) -> None:
    schema = fields(id="", amount={"name": "org.apache.kafka.connect.data.Decimal", "parameters": {"scale": "2"}})
    rows = messages([("c", None, {"id": i, "amount": base64(i * 105)}) for i in range(9)])
    job, text, _ = made(write(tmp_path / "a.json", [{"schema": schema, "payload": r} for r in rows]))
    derived = job["transform"][0]["derive"]["amount_number"]
    assert derived == {"sql": _bytes_to_number("amount", 2), "type": "decimal(18,2)"}
    assert job["scoring"]["highest"]["expression"] == "amount_number" and job["source"]["schema"]["amount"]["type"] == "string"
    assert "only Spark reads them (preview --engine): decimal.handling.mode: string in the connector avoids that" in text
    assert main(["validate", "--data", str(tmp_path / "job.yaml")]) == 0


def test_decimals_in_base64_of_unknown_scale_stay_texts_and_it_is_said(tmp_path: Path) -> None:
    rows = messages([("c", None, {"id": i, "amount": base64(i * 105)}) for i in range(1, 9)])
    job, text, _ = made(write(tmp_path / "a.json", rows))
    assert job["source"]["schema"]["amount"]["type"] == "string" and "may be decimals as bytes in base64" in text
    assert main(["validate", "--data", str(tmp_path / "job.yaml")]) == 0


@pytest.mark.spark
@pytest.mark.parametrize("places", [0, 2])
def test_spark_reads_the_decimals(spark: SparkSession, places: int) -> None:
    fit = [n for n in NUMBERS if abs(n) < 10**18]
    rows = spark.createDataFrame([(base64(n),) for n in (*fit, 2**64, -(2**65))], "x string")
    found = [r[0] for r in rows.selectExpr(_bytes_to_number("x", places)).collect()]
    assert found == [*(Decimal(n).scaleb(-places) for n in fit), None, None]
