"""What is told of rejected rows, and the files that hold them as they came."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from skyband.framework.base.errors import SkybandError
from skyband.framework.plan.model import Field, Plan
from skyband.framework.quality.rejected_rows import EXAMPLES, LONGEST, export, groups, lines_of
from skyband.framework.tables.writing.driver_writer import DriverWriter
from skyband.framework.tables.writing.sink import Sink
from tests.framework.tables.plans import make_plan

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
HEADER = ["id", "ts", "grp", "unused", "cost", "ok"]


def plan_of(directory: Path, format_: str = "csv", *options: tuple[str, str]) -> Plan:
    plan = make_plan(str(directory))
    fields = (
        Field("id", "bigint", "int", "id"), Field("ts", "timestamp", "time", "ts"), Field("grp", "string", "text", "grp"),
        Field("price", "decimal(38,10)", "float", "cost"), Field("ok", "boolean", "bool", "ok"), Field("twice", "double", "float"),
    )  # fmt: skip
    source = replace(plan.source, format=format_, options=options, fields=tuple(f for f in fields if f.source_name))
    queries = tuple(replace(q, carry=()) for q in plan.queries)
    return replace(plan, source=source, intake=replace(plan.intake, fields=fields), queries=queries)


def sink_of(plan: Plan, *batches: list[tuple[str, str]]) -> DriverWriter:
    writer = DriverWriter(Path(plan.sink))
    sink = Sink(plan, writer, "g")
    sink.ensure_all()
    schema = sink.specs["rejected"].schema
    for n, rows in enumerate(batches):
        given: list[dict[str, Any]] = [{"reason": r, "text": t, "batch_id": n} for r, t in rows]
        writer.append("rejected", pa.Table.from_pylist(given, schema), "a", n)
        if n:
            sink.commit(n, {"runs": sink.runs_row({"batch_id": n, "batch_time": NOW, "counters": "{}"})})
    return writer


def test_reasons_are_counted_over_all_batches_with_examples_of_the_last(tmp_path: Path) -> None:
    long, steering = "x" * (LONGEST + 50), "\x1b[31mred\nline"
    writer = sink_of(
        plan_of(tmp_path), [("late", "{}")] * 4 + [("parse", "first")], [("parse", f"second {i}") for i in range(5)] + [("late", "{}")],
        [("rule:a,b", long), ("rule:a", steering)],
    )  # fmt: skip
    found = groups(writer)
    assert [(g.reason, g.rows, g.first_batch, g.last_batch, g.first_time, g.last_time) for g in found] == [
        ("parse", 6, 0, 1, None, NOW), ("late", 5, 0, 1, None, NOW), ("rule:a", 1, 2, 2, NOW, NOW), ("rule:a,b", 1, 2, 2, NOW, NOW),
    ]  # fmt: skip
    assert found[0].examples == tuple(f"second {i}" for i in range(EXAMPLES))
    assert found[3].examples == ("x" * LONGEST + "...",)
    lines = list(lines_of(found, lambda g: f"why {g.reason}"))
    assert lines[0] == "parse: 6 rows, batches 0 to 1 (2026-01-02 03:04:05): why parse"
    assert "rule:a: 1 row, batch 2 (2026-01-02 03:04:05): why rule:a" in lines
    assert all("\n" not in line and "\x1b" not in line for line in lines)
    assert groups(sink_of(plan_of(tmp_path / "none"))) == []


ROW = (
    '{"id":9007199254740993,"ts":"2020-01-01T00:00:00.000001Z","grp":"a \\"b\\", c","price":12345678901234567890.1234567891,"ok":true,'
    '"twice":1.5}'
)
NULLS = '{"id":2,"ts":null,"grp":null,"price":null,"ok":null,"twice":null}'


@pytest.mark.parametrize("options, nothing", [((), ""), ((("nullValue", "NA"), ("sep", ";")), "NA"), ((("escape", '"'),), "")])
def test_rows_go_out_with_the_columns_of_the_source(tmp_path: Path, options: tuple[tuple[str, str], ...], nothing: str) -> None:
    plan = plan_of(tmp_path / "out", "csv", *options)
    writer = sink_of(plan, [("rule:a", ROW), ("late", "{}")], [("rule:b,c", NULLS)])
    assert export(plan, HEADER, writer, "rule", tmp_path / "rows.csv") == 2
    given = dict(options)
    how: dict[str, Any] = {"doublequote": True} if "escape" in given else {"doublequote": False, "escapechar": "\\"}
    with (tmp_path / "rows.csv").open(newline="") as f:
        rows = list(csv.reader(f, delimiter=given.get("sep", ","), **how))
    assert rows[0] == HEADER
    whole = ["9007199254740993", "2020-01-01T00:00:00.000001Z", 'a "b", c', nothing, "12345678901234567890.1234567891", "true"]
    assert sorted(rows[1:]) == sorted([whole, ["2", nothing, nothing, nothing, nothing, nothing]])
    assert export(plan, HEADER, writer, "rule:b,c", tmp_path / "one.csv") == 1


def test_rows_go_out_as_json_with_numbers_as_they_are(tmp_path: Path) -> None:
    plan = plan_of(tmp_path / "out", "json")
    writer = sink_of(plan, [("rule:a", ROW), ("parse", '{"id": oops}')])
    assert export(plan, None, writer, "rule:a", tmp_path / "rows.jsonl") == 1
    (line,) = (tmp_path / "rows.jsonl").read_text().splitlines()
    assert '"cost":12345678901234567890.1234567891' in line and '"id":9007199254740993' in line
    assert list(json.loads(line)) == ["id", "ts", "grp", "cost", "ok"]
    assert export(plan, None, writer, "parse", tmp_path / "parse.jsonl") == 1
    assert (tmp_path / "parse.jsonl").read_text() == '{"id": oops}\n'


def test_texts_that_did_not_parse_go_out_as_they_came(tmp_path: Path) -> None:
    plan = plan_of(tmp_path / "out")
    writer = sink_of(plan, [("parse", '1,"x""y",many'), ("parse", "2;3")])
    assert export(plan, ["id", "ts"], writer, "parse", tmp_path / "parse.csv") == 2
    assert (tmp_path / "parse.csv").read_text() == 'id,ts\n1,"x""y",many\n2;3\n'
    assert export(plan, None, writer, "parse", tmp_path / "bare.csv") == 2
    assert (tmp_path / "bare.csv").read_text() == '1,"x""y",many\n2;3\n'


@pytest.mark.parametrize(
    "reason, name, said",
    [("parse", "x.jsonl", "texts of csv files"), ("late", "x.txt", "has no known extension"), ("bad_file", "x.csv", "whole files")],
)
def test_what_no_file_can_hold_is_refused(tmp_path: Path, reason: str, name: str, said: str) -> None:
    plan = plan_of(tmp_path / "out")
    writer = sink_of(plan, [(reason, "x")])
    with pytest.raises(SkybandError, match=said):
        export(plan, HEADER, writer, reason, tmp_path / name)
    assert not (tmp_path / name).exists()


@pytest.mark.parametrize("text", ["", "{", "[1]", "7", "[" * 100_000])
def test_a_text_that_skyband_has_not_written_is_named(tmp_path: Path, text: str) -> None:
    plan = plan_of(tmp_path)
    with pytest.raises(SkybandError, match="no row of the job") as raised:
        export(plan, HEADER, sink_of(plan, [("rule:a", text)]), "rule:a", tmp_path / "rows.csv")
    assert raised.value.code == "SKY-E402" and not (tmp_path / "rows.csv").exists()
