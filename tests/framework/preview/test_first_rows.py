"""The first rows of a source, read without Spark: as Spark reads them, or left out and counted."""

from __future__ import annotations

import json
import os
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from skyband.framework.base.errors import SkybandError
from skyband.framework.base.reasons import REASON
from skyband.framework.plan.model import Plan
from skyband.framework.preview.judged import judged, results_of
from skyband.framework.sources.preview import first_rows, texts_of
from skyband.jobs.cli import main
from tests.specs import plan_of_text

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SPEC = """\
job: small
source:
  format: FORMAT
  path: DIRECTORY/in
  OPTIONS
  schema: {id: int, ts: timestamp, s: string, big: bigint, x: double, f: float, b: boolean, day: date, dec: "decimal(6,2)"}
  id: [id]
  event_time: {column: ts}
transform:
  - derive: {twice: x * 2}
  - where: "s is null or s <> 'dropped'"
quality:
  rows: [{name: small_x, expect: "x < 100"}]
window: {count: 10}
scoring: {x: {expression: x, direction: max}}
queries:
  best: {type: topk, scoring: x, k: 2}
sink: {path: DIRECTORY/out}
"""
NAMES = ["id", "ts", "s", "big", "x", "f", "b", "day", "dec"]
GOOD = ["1", "2020-01-01 00:00:00", "a", "5", "1.5", "0.1", "true", "2020-01-01", "1.25"]
OTHERS: dict[str, list[str]] = {
    "id": ["", "x", "1.0", "99999999999", "-7", "+8", " 9"],
    "ts": ["", "2020-01-01", "2020-01-01T10:00:00Z", "2020-01-01 10:00:00.123456", "2020-01-01 10:00+02:00", "2020-13-01", "1577836800",
           "01/02/2020", "2020-1-1", "2020-01-01 10:00:00 Europe/Berlin", "2020-01-01 10:00:00 XYZ",
           "2020-01-01 24:00:00", "1960-01-01 00:00", "2020-01-01T10:00:00+00:00", "2020-01-01 01:00:00.5-17:59",
           "2020-01-01 10:00:00+18:00", "2020-01-01 10:00:00+05:60"],
    "s": ["", " blank ", "ä€😀", "dropped", "'quoted'"],
    "big": ["", "9223372036854775807", "-9223372036854775808", "9223372036854775808", "1e3"],
    "x": ["", "1e3", "-.5", "NaN", "Infinity", "-Inf", "-INF", "1,5", "1.5d", " 2", "0x10", "nan", "200"],
    "f": ["", "0.30000001", "1e40", "abc"],
    "b": ["", "TRUE", "False", "1", "yes"],
    "day": ["", "2020-02-30", "0001-01-01", "2020-01-01 10:00", "20200101", "2020-01-01 23:00:00-01:00"],
    "dec": ["", "1.2", "-3", "1.255", "123456.78", "1e2", "abc"],
}  # fmt: skip


def plan_of(directory: Path, form: str, options: str = "") -> Plan:
    text = SPEC.replace("DIRECTORY", str(directory)).replace("FORMAT", form).replace("OPTIONS", f"options: {options}" if options else "")
    return plan_of_text(text)


def variants() -> list[list[str]]:
    """Rows that are good but for one cell."""
    rows = [GOOD]
    for n, name in enumerate(NAMES):
        rows += [[*GOOD[:n], value, *GOOD[n + 1 :]] for value in OTHERS[name]]
    return rows


def write(directory: Path, name: str, text: str, at: int = 1_600_000_000) -> None:
    (directory / "in").mkdir(exist_ok=True)
    (directory / "in" / name).write_text(text, encoding="utf-8")
    os.utime(directory / "in" / name, (at, at))


def csv_of(rows: list[list[str]], header: bool = True) -> str:
    lines = [",".join(f'"{c}"' if "," in c else c for c in r) for r in [*([NAMES] if header else []), *rows]]
    return "\n".join([*lines, ""])


def json_of(rows: list[list[str]]) -> str:
    """Each cell as JSON has it where it can be a number or truth value, else as text."""
    made = []
    for row in rows:
        values: dict[str, Any] = {}
        for name, cell in zip(NAMES, row, strict=True):
            try:
                values[name] = json.loads(cell) if cell and name not in ("s", "ts", "day") else cell or None
            except ValueError:
                values[name] = cell
        made.append(json.dumps(values))
    return "\n".join([*made, '{"id": 2', "[1]", "7", '{"id": "8"}', '{"s": 5}', '{"s": {"a": 1}}', '{"ts": 5}', ""])


def shown(table: pa.Table) -> list[dict[str, Any]]:
    """Rows with instants as microseconds: Spark reads some that no calendar of Python has."""
    for i, f in enumerate(table.schema):
        if pa.types.is_timestamp(f.type):
            table = table.set_column(i, f.name, table[i].cast(pa.timestamp("us", "UTC")).cast(pa.int64()))
        if pa.types.is_date(f.type):
            table = table.set_column(i, f.name, table[i].cast(pa.int32()))
    return table.to_pylist()


@pytest.mark.spark
@pytest.mark.parametrize("form", ["csv", "json"])
def test_rows_are_read_as_the_engine_reads_them(spark: SparkSession, tmp_path: Path, form: str) -> None:
    from skyband.framework.preview.spark_rows import rows_by_spark

    text = csv_of([*variants(), GOOD[:-1], [*GOOD, "more"]]) if form == "csv" else json_of(variants())
    write(tmp_path, f"a.{form}", text)
    plan = plan_of(tmp_path, form)
    found = judged(plan, results=False)
    theirs = rows_by_spark(plan, 1_000, spark)[1]
    columns = [f.name for f in plan.intake.fields]
    ours, engine = ([str(r) for r in shown(t.select([REASON, *columns]))] for t in (found.rows, theirs))
    # What did not parse has no columns here; of the rest every value is Spark's, and no row is made up.
    ours = [r if "'parse'" not in r else "parse" for r in ours]
    engine = ["parse" if "'parse'" in r else r for r in engine]
    left = list(engine)
    for row in ours:
        assert row in left, (row, [r for r in left if r not in ours])
        left.remove(row)
    assert len(left) == found.first.doubtful and found.first.doubtful < 12, left


@pytest.mark.spark
def test_the_engine_shows_what_only_it_reads(spark: SparkSession, tmp_path: Path) -> None:
    from skyband.framework.preview.spark_rows import rows_by_spark

    read = lambda plan, most: rows_by_spark(plan, most, spark)  # noqa: E731
    plan = plan_of(tmp_path, "csv", '{header: true, escape: "|"}')
    (tmp_path / "in").mkdir()
    with pytest.raises(SkybandError, match=r"lacks|no rows|no header|no files"):
        judged(plan, read=read)
    told = csv_of([[str(i), *GOOD[1:4], str(i), *GOOD[5:]] for i in range(5)])
    write(tmp_path, "a.csv", told + '9,2020-01-01 00:00,"say |"hi|"",5,50,1,true,,\n8,yesterday,a,5,60,1,true,,\n')
    write(tmp_path, "b.csv", csv_of([["7", *GOOD[1:]]] * 20), 1_600_000_001)
    found = judged(plan, 10, read=read)
    assert found.rows.num_rows == 10 and found.rejected == {"parse": 1, "duplicate_id": 2}
    assert 'say "hi"' in found.rows["s"].to_pylist() and found.first.files == ["a.csv", "b.csv"]
    assert [r["id"] for r in results_of(plan, found)[0][1].to_pylist()] == [9, 4]
    assert next(iter(texts_of(found.first))).startswith("1 x column 'ts' (timestamp) holds 'yesterday'")


def test_files_are_taken_by_age_until_there_are_enough_rows(tmp_path: Path) -> None:
    for name, at, ids in (("b.csv", 1, "12"), ("a.csv", 2, "34"), ("c.csv", 0, "56"), ("_hidden.csv", 0, "7")):
        write(tmp_path, name, csv_of([[i, *GOOD[1:]] for i in ids]), 1_600_000_000 + at)
    found = first_rows(plan_of(tmp_path, "csv").source, 3)
    assert [r["id"] for r in found.rows] == [5, 6, 1]
    assert [Path(f).name for f in found.files] == ["c.csv", "b.csv"] and found.many == 3


def test_options_of_cells_count(tmp_path: Path) -> None:
    write(tmp_path, "a.csv", csv_of([[*GOOD[:2], "NULL", "NULL", *GOOD[4:]]], header=False).replace(",", "|"))
    found = first_rows(plan_of(tmp_path, "csv", '{header: false, sep: "|", nullValue: "NULL"}').source, 10)
    assert [(r["s"], r["big"], r["x"]) for r in found.rows] == [(None, None, 1.5)] and found.reasons == [None]


def test_cells_without_a_number_are_null_beside_numbers_with_marks(tmp_path: Path) -> None:
    cells = ["1.234,50", "", "NA", "99,95", "1.5"]
    text = "".join(f"{i};2020-01-01 00:00:00;a;5;{x};1;true;2020-01-01;{x}\n" for i, x in enumerate(cells))
    write(tmp_path, "a.csv", ";".join(NAMES) + "\n" + text)
    options = '{header: true, sep: ";", decimal: ",", thousands: ".", nullValue: NA}'
    found = first_rows(plan_of(tmp_path, "csv", options).source, 10)
    assert [row.get("x") for row in found.rows] == [1234.5, None, None, 99.95, None]
    assert [row.get("dec") for row in found.rows] == [Decimal("1234.50"), None, None, Decimal("99.95"), None]
    assert found.reasons == [None, None, None, None, "parse"]


def test_rows_with_quotes_in_quotes_are_left_out_and_counted(tmp_path: Path) -> None:
    write(tmp_path, "a.csv", csv_of([GOOD]) + GOOD[0] + ',2020-01-01 00:00,"say ""hi""",5,1,1,true,,\n')
    found = first_rows(plan_of(tmp_path, "csv").source, 10)
    assert (len(found.rows), found.doubtful) == (1, 1)


def test_what_is_wrong_is_told_once_a_kind(tmp_path: Path) -> None:
    rows = [[*GOOD[:3], *cells, *GOOD[5:]] for cells in (["x", "1"], ["y", "1"], ["5", "1,5"])]
    write(tmp_path, "a.csv", csv_of(rows))
    told = list(texts_of(first_rows(plan_of(tmp_path, "csv").source, 10)))
    assert told[0].startswith("2 x column 'big' (bigint) holds 'x', which looks like text")
    assert told[1].startswith("1 x column 'x' (double) holds '1,5', which looks like a number with")


def test_parquet_is_read_with_the_types_it_says(tmp_path: Path) -> None:
    types = [
        pa.int32(),
        pa.timestamp("us", "UTC"),
        pa.string(),
        pa.int64(),
        pa.float64(),
        pa.float32(),
        pa.bool_(),
        pa.date32(),
        pa.decimal128(6, 2),
    ]
    values: list[Any] = [1, 60_000_000, "a", 5, 1.5, 0.5, True, 18_262, "1.25"]
    columns = {
        n: (pa.array([v], pa.int32()) if n == "day" else pa.array([v])).cast(t) for n, v, t in zip(NAMES, values, types, strict=True)
    }
    (tmp_path / "in").mkdir()
    pq.write_table(pa.table(columns), tmp_path / "in" / "a.parquet")
    found = judged(plan_of(tmp_path, "parquet"))
    row = found.rows.to_pylist()[0]
    assert [str(row[n]) for n in NAMES] == ["1", "1970-01-01 00:01:00+00:00", "a", "5", "1.5", "0.5", "True", "2020-01-01", "1.25"]
    assert row["twice"] == 3.0 and row[REASON] is None
    pq.write_table(pa.table({**columns, "id": pa.array([1], pa.int64())}), tmp_path / "in" / "a.parquet")
    with pytest.raises(SkybandError, match=r"column 'id' of .* is int64, which cannot be read as int") as e:
        judged(plan_of(tmp_path, "parquet"))
    assert e.value.code == "SKY-E206"


@pytest.mark.parametrize(
    "text, like",
    [
        ("03/02/2024 10:01", "a date with the day first (or the month: then MM stands before dd)"),
        ("Feb 3 2024 10:04AM", "a date with the name of a month"),
        ("2024-02-30 10:06:00", "a date that does not exist"),
        ("24:00", "a time of day without a date"),
        ("2024-02-03 24:00:00", "the hour 24, which ends a day"),
        ("2016-12-31 23:59:60", "a leap second, which Spark does not have"),
        ("1706954400", "epoch seconds"),
        ("0000-00-00 00:00:00", "a date of zeros, which stands for none"),
        ("2024-02-03 10:05:00 XYZ", "an instant in an unknown zone"),
        ("2024-02-03 10:61:00", "a time that does not exist"),
    ],
)
def test_a_date_that_does_not_parse_is_reported_with_its_reason(tmp_path: Path, text: str, like: str) -> None:
    write(tmp_path, "a.csv", csv_of([[GOOD[0], text, *GOOD[2:]]]))
    (said,) = texts_of(first_rows(plan_of(tmp_path, "csv").source, 10))
    assert f"column 'ts' (timestamp) holds {text!r}, which looks like {like}; " in said


@pytest.mark.parametrize(
    "text",
    ["2024-02-03T10:02:00+0100", "2024-02-03T10:03:00.1234567Z", "2024-02-03 10:05:00 EST", "2024-2-3 9:05:00", "2024-02-03 10:14 +01:00"],
)
def test_instants_that_the_engine_alone_reads_are_left_out(tmp_path: Path, text: str) -> None:
    write(tmp_path, "a.csv", csv_of([[GOOD[0], text, *GOOD[2:]]]))
    found = first_rows(plan_of(tmp_path, "csv").source, 10)
    assert (found.doubtful, found.rows) == (1, [])


@pytest.mark.parametrize(
    "form, options, said",
    [("csv", "{timestampFormat: yyyy}", "source.options.timestampFormat"), ("json", "{allowComments: true}", "allowComments"),
     ("csv", '{sep: "||"}', "cells separated so")],
)  # fmt: skip
def test_what_only_the_engine_reads_is_said(tmp_path: Path, form: str, options: str, said: str) -> None:
    write(tmp_path, f"a.{form}", csv_of([GOOD]) if form == "csv" else json_of([GOOD]))
    with pytest.raises(SkybandError, match=said) as e:
        first_rows(plan_of(tmp_path, form, options).source, 10)
    assert e.value.code == "SKY-E531"


def test_results_and_reasons_of_the_first_rows(tmp_path: Path) -> None:
    rows = [["1", *GOOD[1:]], ["2", *GOOD[1:4], "7", *GOOD[5:]], ["3", *GOOD[1:4], "200", *GOOD[5:]], ["2", *GOOD[1:]], ["x", *GOOD[1:]],
            ["5", GOOD[1], "dropped", *GOOD[3:]], ["6", "", *GOOD[2:]], ["7", *GOOD[1:4], "3", *GOOD[5:]],
            ["8", "9998-01-01 00:00:00", *GOOD[2:4], "9", *GOOD[5:]]]  # fmt: skip
    write(tmp_path, "a.csv", csv_of(rows))
    plan = plan_of(tmp_path, "csv")
    found = judged(plan)
    one_each = ("rule:small_x", "duplicate_id", "parse", "null_time", "too_far_ahead")
    assert found.rejected == dict.fromkeys(one_each, 1) and found.rows[REASON].to_pylist()[-1] == "too_far_ahead" and found.filtered == 1
    ((query, now),) = results_of(plan, found)
    assert query == "best" and now["id"].to_pylist() == [7, 2]


def command(tmp_path: Path, *argv: str, limit: str = "1%") -> int:
    path = tmp_path / "job.yaml"
    text = SPEC.replace("DIRECTORY", str(tmp_path)).replace("FORMAT", "csv").replace("  OPTIONS\n", "")
    path.write_text(text.replace("quality:\n", f"quality:\n  max_rejected: {limit}\n"))
    return main([*argv, str(path)])


def test_the_command_shows_rows_reasons_and_results_and_writes_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path, "a.csv", csv_of([GOOD, ["2", "", *GOOD[2:]], ["3", *GOOD[1:4], "1,5", *GOOD[5:]]]))
    assert command(tmp_path, "preview", "-n", "2", "--sample", "5000") == 0
    told = capsys.readouterr().out
    assert "the first 3 rows" in told and "of 3 rows 1 would be accepted, 0 filtered, 2 rejected (66.7 %)" in told
    assert "parse: 1 x column 'x' (double) holds '1,5'" in told and "best: 1 row, if these were all the rows there are" in told
    assert sorted(p.name for p in tmp_path.iterdir()) == ["in", "job.yaml"]


def test_validate_says_how_many_of_the_first_rows_would_be_rejected(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path, "a.csv", csv_of([GOOD, ["2", "", *GOOD[2:]], ["3", *GOOD[1:4], "1,5", *GOOD[5:]]]))
    assert command(tmp_path, "validate", "--data", limit="70%") == 0
    assert "good (1 query); of the first 3 rows 2 would be rejected (66.7 %: 1 null_time, 1 parse)" in capsys.readouterr().out
    assert command(tmp_path, "validate", "--data") == 2
    told = capsys.readouterr().err
    assert "SKY-E532 of the first 3 rows 2 would be rejected" in told and "allows 1 %" in told and "holds '1,5'" in told


def test_rows_that_spark_alone_reads_count_in_the_total(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    doubtful, wrong = "2024-02-03T10:02:00+0100", ["2", "", *GOOD[2:]]
    write(tmp_path, "a.csv", csv_of([*([str(i), doubtful, *GOOD[2:]] for i in range(198)), GOOD, wrong]))
    assert command(tmp_path, "validate", "--data") == 0
    told = capsys.readouterr().out
    assert "good (1 query); of the first 200 rows 1 would be rejected (0.5 %: 1 null_time); " in told
    assert "198 rows were not judged: Spark may read them differently" in told
    assert command(tmp_path, "validate", "--data", limit="0.4%") == 2
    told = capsys.readouterr().err
    assert "1 would be rejected (0.5 %: 1 null_time); 198 rows were not judged: Spark may read them differently; quality.max_rej" in told
    assert command(tmp_path, "preview") == 0
    told = capsys.readouterr().out
    assert "the first 200 rows" in told and "of 200 rows 1 would be accepted, 0 filtered, 1 rejected (0.5 %)" in told
    assert "198 rows left out" in told
    write(tmp_path, "a.csv", csv_of([["1", doubtful, *GOOD[2:]]]))
    assert command(tmp_path, "validate", "--data") == 0
    told = capsys.readouterr().out
    assert "of the first 1 row 0 would be rejected; 1 row was not judged: Spark may read it differently" in told


def test_validate_does_not_approve_of_a_source_without_rows(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path, "a.csv", csv_of([]))
    assert command(tmp_path, "validate", "--data") == 0
    told = capsys.readouterr().out
    assert "good (1 query); its source has no rows yet, so none was judged" in told and "of the first" not in told


def test_validate_says_when_it_could_not_look(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "in").mkdir()
    assert command(tmp_path, "validate", "--data") == 0
    assert "good (1 query); its rows were not looked at: there are no files in" in capsys.readouterr().out


def test_results_of_results_are_shown(tmp_path: Path) -> None:
    more = "  over: {type: topk, from: best, scoring: again, k: 1}\n"
    more += "  steady: {type: topk_loyalty, of: best, object: id, k: 2, window: {time: 1 day}}\n"
    text = SPEC.replace("FORMAT", "csv").replace("DIRECTORY", str(tmp_path)).replace("OPTIONS", "options: {header: true}")
    text = text.replace("x, direction: max}}", "x, direction: max}, again: {expression: best_score}}").replace("sink:", f"{more}sink:")
    (tmp_path / "in").mkdir()
    rows = [GOOD, ["2", "2020-01-01 00:10:00", *GOOD[2:4], "9", *GOOD[5:]], ["3", "2020-01-01 00:20:00", *GOOD[2:4], "3", *GOOD[5:]]]
    (tmp_path / "in" / "a.csv").write_text("\n".join(",".join(row) for row in [NAMES, *rows]) + "\n")
    plan = plan_of_text(text)
    found = {name: table.to_pylist() for name, table in results_of(plan, judged(plan))}
    assert [r["id"] for r in found["best"]] == [2, 3]
    assert [(r["id"], r["score"]) for r in found["over"]] == [(3, 3.0)]
    assert [(r["id"], r["loyalty_seconds"]) for r in found["steady"]] == [(1, 1200.0), (2, 600.0)]
