"""``skyband init --from``: whatever the file, the spec is good, and its rows are what the spec says."""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import json
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.orc
import pyarrow.parquet as pq
import pytest
import yaml
from deltalake import DeltaTable, write_deltalake
from hypothesis import given
from hypothesis import strategies as st

from skyband.framework.base.errors import SkybandError
from skyband.framework.guess.csv_forms import plain_number
from skyband.framework.guess.draft import draft
from skyband.framework.preview.judged import judged
from skyband.framework.sources.looks import fits_text
from skyband.framework.sources.options import CSV
from skyband.framework.spec.load import validate_file
from skyband.jobs.cli import main
from skyband.jobs.spec import load_plan
from tests.spark.jobs import run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

T0 = datetime(2024, 3, 1, tzinfo=UTC)


def made(path: Path, spec: Path | None = None) -> tuple[dict[str, Any], str, list[str]]:
    """The spec that is written for the file, which must be good, as YAML reads it and as text; what is said of it."""
    spec = spec or path.parent / "job.yaml"
    text, unsure = draft(path, spec)
    spec.write_text(text, encoding="utf-8")
    job, errors = validate_file(str(spec), {})
    assert job is not None and not errors, [e.render() for e in errors]
    found: dict[str, Any] = yaml.safe_load(text)
    return found, text, unsure


def rows_of(n: int, when: str) -> list[list[str]]:
    return [[f"s{i % 7}", (T0 + timedelta(minutes=i)).strftime(when), f"{20 + i % 9}.5", str(i % 3)] for i in range(n)]


def write_csv(path: Path, header: list[str] | None, rows: list[list[str]], sep: str = ",") -> Path:
    out = io.StringIO()
    csv.writer(out, delimiter=sep).writerows([*([header] if header else []), *rows])
    data = out.getvalue().encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else bz2.compress(data) if path.suffix == ".bz2" else data)
    return path


NAMES = ["sensor", "ts", "temp", "level"]


@pytest.mark.parametrize("name", ["a.csv", "a.CSV", "a.csv.gz", "a.csv.bz2", "a.txt", "a.tsv"])
@pytest.mark.parametrize("sep", [",", ";", "\t", "|"])
def test_separators_packing_and_header(tmp_path: Path, name: str, sep: str) -> None:
    path = write_csv(tmp_path / name, NAMES, rows_of(500, "%Y-%m-%d %H:%M:%S"), sep)
    job, text, _ = made(path)
    assert job["source"]["schema"] == {"sensor": "string", "ts": "timestamp", "temp": "double", "level": "bigint"}
    assert job["source"].get("options", {}) == ({} if sep == "," else {"sep": sep})
    assert job["source"]["path"] == f"./{name}" and job["source"]["event_time"] == {"column": "ts"}
    assert (job["source"]["id"], job["scoring"]["highest"]["expression"]) == (["ts"], "temp")
    assert job["window"] == {"time": "1 day"} and "# partition_by: [sensor]" in text
    path = write_csv(tmp_path / name, None, rows_of(500, "%Y-%m-%d %H:%M:%S"), sep)
    job, _, _ = made(path, tmp_path / "other.yaml")
    assert list(job["source"]["schema"].values()) == ["string", "timestamp", "double", "bigint"]
    assert job["source"]["options"]["header"] is False


@pytest.mark.parametrize(
    "when, derived",
    [
        ("%d/%m/%Y %H:%M:%S", "try_to_timestamp(ts, 'dd/MM/yyyy HH:mm:ss')"),
        ("%m/%d/%Y %H:%M", "try_to_timestamp(ts, 'MM/dd/yyyy HH:mm')"),
        ("%d.%m.%y %H:%M", "try_to_timestamp(ts, 'dd.MM.yy HH:mm')"),
        ("%Y/%m/%d %H:%M:%S", "try_to_timestamp(ts, 'yyyy/MM/dd HH:mm:ss')"),
    ],
)
def test_dates_in_other_spellings(tmp_path: Path, when: str, derived: str) -> None:
    rows = [[r[0], (T0 + timedelta(hours=7 * i)).strftime(when), *r[2:]] for i, r in enumerate(rows_of(200, when))]
    job, _, unsure = made(write_csv(tmp_path / "a.csv", NAMES, rows))
    assert job["transform"] == [{"derive": {"ts_time": derived}}] and job["source"]["event_time"] == {"column": "ts_time"}
    assert job["source"]["schema"]["ts"] == "string" and any(u.startswith("ts: read as ") for u in unsure)


@pytest.mark.parametrize("bad", [0, 3])
@pytest.mark.parametrize(
    "form, derived",
    [("{0.day}/{0.month}/{0.year}", "d/M/yyyy"), ("{0.month}/{0.day}/{0.year} {0.hour}:{0.minute:02}", "M/d/yyyy H:mm"),
     ("{0.year}/{0.month}/{0.day}", "yyyy/M/d"), ("{0.day:02}.{0.month:02}.{0.year} {0.hour}:{0.minute:02}", "dd.MM.yyyy H:mm")],
)  # fmt: skip
def test_one_digit_of_a_day_a_month_and_an_hour_is_read(tmp_path: Path, form: str, derived: str, bad: int) -> None:
    rows = [[str(i), "kaputt" if i < bad else form.format(T0 + timedelta(hours=7 * i)), "1.5"] for i in range(600)]
    job, _, unsure = made(write_csv(tmp_path / "a.csv", ["no", "ts", "x"], rows))
    assert job["transform"] == [{"derive": {"ts_time": f"try_to_timestamp(ts, '{derived}')"}}]
    assert f"ts: read as {derived}" in unsure or any(u.startswith(f"ts: read as {derived}") and bad for u in unsure)
    found = judged(load_plan(str(tmp_path / "job.yaml")), results=False)
    assert (dict(found.rejected), found.first.doubtful) == ({"null_time": 3} if bad else {}, 0)


def test_dates_that_either_order_reads_have_the_day_first_and_the_draft_says_so(tmp_path: Path) -> None:
    rows = [[f"0{i % 9 + 1}/0{i % 7 + 1}/2024", str(i)] for i in range(90)]
    _, _, unsure = made(write_csv(tmp_path / "a.csv", ["day", "x"], rows))
    assert "day: read as dd/MM/yyyy, or MM/dd/yyyy" in unsure


@pytest.mark.parametrize(
    ("when", "derived"), [("%Y-%m-%d %H:%M:%S", "cast(ts as timestamp)"), ("%d.%m.%Y", "try_to_timestamp(ts, 'dd.MM.yyyy')")]
)
def test_texts_of_a_typed_file_are_instants_where_they_look_like_them(tmp_path: Path, when: str, derived: str) -> None:
    days = [(T0 + timedelta(hours=13 * i)).strftime(when) for i in range(100)]
    pq.write_table(pa.table({"no": list(range(100)), "ts": days, "x": [1.5] * 100}), tmp_path / "a.parquet")
    job, _, _ = made(tmp_path / "a.parquet")
    assert job["transform"] == [{"derive": {"ts_time": derived}}] and job["source"]["event_time"]["column"] == "ts_time"
    assert judged(load_plan(str(tmp_path / "job.yaml")), results=False).rejected == {}


def test_dates_of_another_format_beside_the_event_time_are_derived_too(tmp_path: Path) -> None:
    rows = [[f"{i}.5", (T0 + timedelta(days=i)).strftime("%d.%m.%Y"), (T0 + timedelta(minutes=i)).isoformat()] for i in range(90)]
    job, _, _ = made(write_csv(tmp_path / "a.csv", ["x", "due", "seen"], rows))
    assert job["transform"] == [{"derive": {"due_time": "try_to_timestamp(due, 'dd.MM.yyyy')"}}]


def test_days_that_no_order_of_day_and_month_fits_are_texts(tmp_path: Path) -> None:
    rows = [[str(i), d, (T0 + timedelta(minutes=i)).isoformat()] for i, d in enumerate(["13/02/2024", "02/14/2024"] * 20)]
    job, _, _ = made(write_csv(tmp_path / "a.csv", ["id", "day", "seen"], rows))
    assert job["source"]["schema"] == {"id": "bigint", "day": "string", "seen": "timestamp"}


@pytest.mark.parametrize(
    ("when", "derived"),
    [("%Y-%m-%d", None), ("%d.%m.%Y", "dd.MM.yyyy"), ("%m/%d/%Y", "MM/dd/yyyy"), ("%Y%m%d", "yyyyMMdd"), ("%Y-%m-%d %H:%M:%S", None)],
)
@pytest.mark.parametrize("others", [False, True])
def test_three_bad_values_of_a_thousand_leave_a_column_of_dates(tmp_path: Path, when: str, derived: str | None, others: bool) -> None:
    bad = {17: "2024-02-30", 400: "kaputt", 900: "31.02."}
    rows = [[str(i), bad.get(i, (T0 + timedelta(days=i % 300)).strftime(when))] for i in range(1000)]
    header = ["order", "day"]
    if others:
        header, rows = [*header, "seen"], [[*r, (T0 + timedelta(minutes=i)).isoformat()] for i, r in enumerate(rows)]
    job, text, unsure = made(write_csv(tmp_path / "a.csv", header, rows))
    kind = "string" if derived else "timestamp" if "H" in when else "date" if others else "timestamp"
    assert job["source"]["schema"]["day"] == kind
    day = "day" if derived is None else "day_time"
    assert job["source"]["event_time"]["column"] == ("seen" if others else day)
    assert others or derived is None or job["transform"][0]["derive"]["day_time"] == f"try_to_timestamp(day, '{derived}')"
    assert any(u.startswith("day: ") and "3 of 1,000 values" in u and all(v in u for v in bad.values()) for u in unsure)
    assert "3 of 1,000 values" in text and main(["validate", "--data", str(tmp_path / "job.yaml")]) == 0


@pytest.mark.parametrize("odd", [11, 500])
def test_a_column_with_more_bad_values_is_text(tmp_path: Path, odd: int) -> None:
    days = [f"x{i % 3}" if i < odd else (T0 + timedelta(days=i % 300)).date().isoformat() for i in range(1000)]
    rows = [[d, (T0 + timedelta(minutes=i)).isoformat()] for i, d in enumerate(days)]
    assert made(write_csv(tmp_path / "a.csv", ["day", "seen"], rows))[0]["source"]["schema"]["day"] == "string"


def test_the_order_of_day_and_month_is_not_guessed_against_the_values(tmp_path: Path) -> None:
    days = [f"0{i % 9 + 1}/0{i % 7 + 1}/2024" for i in range(998)]
    for more, form in ((["01/13/2024", "01/14/2024"], "MM/dd/yyyy"), (["13/01/2024", "01/14/2024"], None)):
        rows = [[d, (T0 + timedelta(minutes=i)).isoformat()] for i, d in enumerate([*days, *more])]
        _, text, _ = made(write_csv(tmp_path / "a.csv", ["day", "seen"], rows))
        assert (f"read as {form}" in text) if form else "read as" not in text


@pytest.mark.parametrize("unit, function", [(1, "timestamp_seconds"), (1000, "timestamp_millis"), (10**6, "timestamp_micros")])
@pytest.mark.parametrize("form", ["csv", "json", "parquet"])
def test_instants_since_1970(tmp_path: Path, unit: int, function: str, form: str) -> None:
    ts = [int((T0 + timedelta(minutes=i)).timestamp()) * unit for i in range(300)]
    path = tmp_path / f"a.{form}"
    if form == "csv":
        write_csv(path, ["no", "ts"], [[str(i), str(t)] for i, t in enumerate(ts)])
    elif form == "json":
        path.write_text("".join(json.dumps({"no": i, "ts": t}) + "\n" for i, t in enumerate(ts)))
    else:
        pq.write_table(pa.table({"no": list(range(300)), "ts": ts}), path)
    job, _, _ = made(path)
    assert job["source"]["schema"] == {"no": "bigint", "ts": "bigint"}
    assert job["transform"][0]["derive"]["ts_time"] == f"{function}(ts)" and job["source"]["id"] == ["no"]


def test_instants_in_parts(tmp_path: Path) -> None:
    hours = [T0 + timedelta(hours=i) for i in range(100)]
    rows = [[str(t.year), str(t.month), str(t.day), str(t.hour), "1.5"] for t in hours]
    job, _, _ = made(write_csv(tmp_path / "a.csv", ["Year", "month", "day", "hour", "rain"], rows))
    assert job["transform"] == [{"derive": {"event_time": "make_timestamp(Year, month, day, hour, 0, 0)"}}]
    assert job["source"]["id"] == ["event_time"] and job["scoring"]["highest"]["expression"] == "rain"


def test_disorder_gives_the_watermark(tmp_path: Path) -> None:
    rows = rows_of(300, "%Y-%m-%dT%H:%M:%S")
    rows[100], rows[104] = rows[104], rows[100]
    job, _, _ = made(write_csv(tmp_path / "a.csv", NAMES, rows))
    assert job["source"]["event_time"] == {"column": "ts", "watermark": "10 minutes"}


@pytest.mark.parametrize(("future", "meant"), [(0, False), (5, False), (6, True)])
def test_many_times_ahead_of_the_clock_are_meant_and_a_few_are_not(tmp_path: Path, future: int, meant: bool) -> None:
    rows = [["s", f"{2990 if i >= 500 - future else 2020}-01-01 00:{i // 60:02}:{i % 60:02}", "1.5", "1"] for i in range(500)]
    found, _, _ = made(write_csv(tmp_path / "a.csv", NAMES, rows))
    assert found["source"]["event_time"].get("max_ahead") == ("none" if meant else None)


def test_what_stands_for_nothing(tmp_path: Path) -> None:
    rows = [[*r[:2], "NA" if i % 10 == 3 else r[2], r[3]] for i, r in enumerate(rows_of(300, "%Y-%m-%d %H:%M:%S"))]
    job, _, unsure = made(write_csv(tmp_path / "a.csv", NAMES, rows))
    assert job["source"]["options"] == {"nullValue": "NA"} and job["source"]["schema"]["temp"] == "double"
    assert "temp: 'NA' is taken for null, in all columns" in unsure


@pytest.mark.parametrize("odd", ["NA", "-", "kaputt", ""])
@pytest.mark.parametrize("group", ["", "."])
def test_a_decimal_comma_is_an_option_whatever_else_the_column_holds(tmp_path: Path, odd: str, group: str) -> None:
    amounts = [f"{i % 90 + 1}{group}{i % 1000:03},{i % 100:02}" for i in range(1000)]
    rows = [[str(i), (T0 + timedelta(minutes=i)).isoformat(), odd if i in (5, 900) else amounts[i], str(i % 7)] for i in range(1000)]
    job, _, unsure = made(write_csv(tmp_path / "a.csv", ["id", "Zeitpunkt", "Betrag", "Menge"], rows, ";"))
    thousands = {"thousands": group} if group else {}
    null = {"nullValue": odd} if odd in ("NA", "-") else {}
    assert job["source"]["options"] == {"sep": ";", "decimal": ",", **thousands, **null}
    assert job["source"]["schema"]["Betrag"] == "decimal(18,2)" and job["scoring"]["highest"]["expression"] == "Betrag"
    assert any("2 of 1,000 values are not read as a number" in u and "kaputt" in u for u in unsure) is (odd == "kaputt")
    assert main(["validate", "--data", str(tmp_path / "job.yaml")]) == 0


@pytest.mark.parametrize(
    ("form", "expression"),
    [("${:.2f}", "cast(replace(x, '$', '') as decimal(18,2))"), ("{:.2f} EUR", "cast(replace(x, ' EUR', '') as decimal(18,2))"),
     ("-${:,.2f}", "cast(replace(replace(x, '$', ''), ',', '') as decimal(18,2))"), ("{:.3f}", None),
     ("\u20ac {:.2f}", "cast(replace(replace(x, '\u20ac ', ''), ',', '.') as decimal(18,2))"), ("{:.0f} km", None), ("v{:.2f}", None)],
)  # fmt: skip
@pytest.mark.parametrize("kind", ["csv", "json"])
def test_amounts_with_a_currency_are_derived(tmp_path: Path, form: str, expression: str | None, kind: str) -> None:
    texts = [form.format(1000 + i * 7.25) for i in range(120)]
    texts = [t.replace(".", ",") if "\u20ac" in t else t for t in texts]
    when = [(T0 + timedelta(minutes=i)).isoformat() for i in range(120)]
    if kind == "csv":
        write_csv(tmp_path / "a.csv", ["x", "seen"], [list(r) for r in zip(texts, when, strict=True)])
    else:
        (tmp_path / "a.json").write_text("".join(json.dumps({"x": x, "seen": t}) + "\n" for x, t in zip(texts, when, strict=True)))
    job, _, _ = made(tmp_path / f"a.{kind}")
    if form == "{:.3f}":
        assert job["source"]["schema"]["x"] == ("double" if kind == "csv" else "string")
        return
    assert job["source"]["schema"]["x"] == "string"
    assert job["transform"][0]["derive"] == ({"x_number": expression} if expression else {"score_of_row": "length(x)"})
    assert expression is None or job["scoring"]["highest"]["expression"] == "x_number"
    rows = judged(load_plan(str(tmp_path / "job.yaml")), results=False).rows
    expected = [(1000 + i * Decimal("7.25")) * (-1 if form[0] == "-" else 1) for i in range(120)]
    assert expression is None or rows["x_number"].to_pylist() == expected


def test_a_decimal_comma_beside_a_decimal_point_is_derived(tmp_path: Path) -> None:
    rows = [["NA" if i == 5 else f"{i},{i % 10}5", f"{i}.25", (T0 + timedelta(minutes=i)).isoformat()] for i in range(120)]
    job, _, _ = made(write_csv(tmp_path / "a.csv", ["w", "v", "seen"], rows, ";"))
    assert job["source"]["options"] == {"sep": ";", "nullValue": "NA"}
    assert job["transform"] == [{"derive": {"w_number": "cast(replace(w, ',', '.') as double)"}}]
    rows_ = judged(load_plan(str(tmp_path / "job.yaml")), results=False).rows
    assert rows_["w_number"].to_pylist() == [None if i == 5 else float(f"{i}.{i % 10}5") for i in range(120)]


@pytest.mark.parametrize("name", ["price", "created_at", "x"])
def test_json_strings_that_are_numbers_to_spark(tmp_path: Path, name: str) -> None:
    rows = [{name: "NaN" if i == 3 else i + 0.5, "seen": (T0 + timedelta(minutes=i)).isoformat()} for i in range(9)]
    (tmp_path / "a.json").write_text("".join(json.dumps(r) + "\n" for r in rows))
    assert made(tmp_path / "a.json")[0]["source"]["schema"][name] == "double"


def test_infinite_numbers_are_numbers(tmp_path: Path) -> None:
    rows = [["Inf" if i == 7 else f"{i}.5", (T0 + timedelta(minutes=i)).isoformat()] for i in range(50)]
    assert made(write_csv(tmp_path / "a.csv", ["x", "seen"], rows))[0]["source"]["schema"]["x"] == "double"


@pytest.mark.parametrize(("name", "values", "type_"), [
    ("total", ["12.50", "3.00"], "decimal(18,2)"), ("total", ["12.5", "3.00"], "double"), ("temp", ["12.50", "3.00"], "double"),
    ("fares", ["12.5", "3"], "decimal(18,2)"), ("coffee", ["12.50", "3.00"], "double"), ("parent", ["1.25", "1.50"], "double"),
    ("discount", ["0.05", "0.125"], "double"), ("net_total_change", ["1.25", "1.50"], "double"),
])  # fmt: skip
def test_words_for_money(tmp_path: Path, name: str, values: list[str], type_: str) -> None:
    rows = [[values[i % 2], (T0 + timedelta(minutes=i)).isoformat()] for i in range(50)]
    assert made(write_csv(tmp_path / "a.csv", [name, "seen"], rows))[0]["source"]["schema"][name] == type_


def test_leading_zeros_stay_and_numbers_with_commas_are_told(tmp_path: Path) -> None:
    rows = [[f"{i:05}", (T0 + timedelta(minutes=i)).isoformat(), f"{1000 + i:,}"] for i in range(100)]
    job, _, unsure = made(write_csv(tmp_path / "a.csv", ["zip", "at", "amount"], rows))
    read = "thousands" in CSV
    assert job["source"]["schema"] == {"zip": "string", "at": "timestamp", "amount": "bigint" if read else "string"}
    assert job["source"].get("options", {}).get("thousands") == ("," if read else None)
    assert read or any("commas between thousands" in u and "replace(amount" in u for u in unsure)


def test_the_path_is_that_of_the_file_or_directory(tmp_path: Path) -> None:
    path = write_csv(tmp_path / "trips 2024.csv", NAMES, rows_of(50, "%Y-%m-%d %H:%M:%S"))
    write_csv(tmp_path / "other.csv", ["a", "b"], [["1", "2"]])
    assert made(path)[0]["source"]["path"] == "./trips 2024.csv"
    (tmp_path / "specs").mkdir()
    assert made(path, tmp_path / "specs" / "job.yaml")[0]["source"]["path"] == "../trips 2024.csv"
    (tmp_path / "in").mkdir()
    write_csv(tmp_path / "in" / "x.csv", NAMES, rows_of(50, "%Y-%m-%d %H:%M:%S"))
    assert made(tmp_path / "in")[0]["source"]["path"] == "./in/"


def test_all_files_of_a_directory_are_looked_at_and_counted(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for day in range(365):
        rows = [[str(day * 2 + i), (T0 + timedelta(days=day, hours=i)).isoformat(), f"{i}.5"] for i in range(2)]
        write_csv(tmp_path / "in" / f"{day:03}.csv", ["no", "at", "x"], rows)
    _, text, _ = made(tmp_path / "in")
    assert "# Made by skyband init from in, by all 730 rows of its 365 files." in text
    (tmp_path / "in" / "000.csv").write_text("")
    write_csv(tmp_path / "in" / "001.csv", ["no", "at", "x"], [])
    assert "by the first 726 rows of 363 of its 364 files" in made(tmp_path / "in")[1]


def test_a_directory_of_directories(tmp_path: Path) -> None:
    for below, options, column in (("2024/01", {"recursiveFileLookup": True}, None), ("year=2024", None, "bigint")):
        root = tmp_path / below[:4]
        (root / below).mkdir(parents=True)
        write_csv(root / below / "a.csv", NAMES, rows_of(50, "%Y-%m-%d %H:%M:%S"))
        job, _, _ = made(root)
        assert job["source"].get("options") == options and job["source"]["schema"].get("year") == column


def test_a_parquet_directory_whose_first_file_has_no_rows(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    pq.write_table(typed().slice(0, 0), tmp_path / "in" / "a.parquet")
    pq.write_table(typed(), tmp_path / "in" / "b.parquet")
    assert made(tmp_path / "in")[0]["source"]["schema"]["id"] == "int"


def test_the_finest_instants_win_and_names_of_ids_are_no_scores(tmp_path: Path) -> None:
    rows = [[(T0 + timedelta(days=i % 3)).date().isoformat(), f"{70_000 + i % 50}", str(i % 4), (T0 + timedelta(minutes=i)).isoformat()]
            for i in range(90)]  # fmt: skip
    job, _, _ = made(write_csv(tmp_path / "a.csv", ["date", "CustomerID", "items", "seen"], rows))
    assert job["source"]["event_time"]["column"] == "seen" and job["scoring"]["highest"]["expression"] == "items"


@pytest.mark.parametrize(
    ("name", "type_"),
    [("price", "decimal(18,2)"), ("Unit Price", "decimal(18,2)"), ("totalAmount", "decimal(18,2)"), ("fare_usd", "decimal(18,2)"),
     ("Einzelpreis", "decimal(18,2)"), ("price_index", "double"), ("tax_rate", "double"), ("temp", "double"), ("tipping", "double")],
)  # fmt: skip
@pytest.mark.parametrize("form", ["csv", "json", "quoted"])
def test_money_is_decimal(tmp_path: Path, name: str, type_: str, form: str) -> None:
    rows = [(f"{i % 70}.{i * 7 % 100:02}", (T0 + timedelta(minutes=i)).isoformat()) for i in range(200)]
    path = tmp_path / ("a.csv" if form == "csv" else "a.json")
    if form == "csv":
        write_csv(path, [name, "n", "seen"], [[v, "1", t] for v, t in rows])
    else:
        path.write_text(
            "".join(json.dumps({name: float(v) if form == "json" else v, "n": 1, "seen": t}) + "\n" for v, t in rows), encoding="utf-8"
        )
    job, text, _ = made(path)
    column = next(iter(job["source"]["schema"].values()))
    found = column["type"] if isinstance(column, dict) else column
    assert found == ("string" if form == "quoted" and type_ == "double" else type_)
    if found != "string":
        assert job["scoring"]["highest"]["expression"] == next(iter(job["source"]["schema"]))
    assert ("money, exact to 2 digits" in text) is (found != "string" and type_ != "double")
    assert main(["validate", "--data", str(tmp_path / "job.yaml")]) == 0


@pytest.mark.parametrize(
    ("values", "type_"),
    [(["1.5", "2.125"], "decimal(18,3)"), (["1", "2"], "bigint"), (["1.5", "2.12345"], "double"), (["1.5", "1e3"], "double"),
     (["1.5", "NaN"], "decimal(18,2)"), (["1.5", ""], "decimal(18,2)")],
)  # fmt: skip
def test_money_by_its_values(tmp_path: Path, values: list[str], type_: str) -> None:
    rows = [[values[i % 2], (T0 + timedelta(minutes=i)).isoformat()] for i in range(50)]
    assert made(write_csv(tmp_path / "a.csv", ["price", "seen"], rows))[0]["source"]["schema"]["price"] == type_


def test_the_decimals_of_a_typed_file_are_scores(tmp_path: Path) -> None:
    table = pa.table({
        "seen": [T0 + timedelta(minutes=i) for i in range(50)],
        "n": [i % 3 for i in range(50)],
        "x": [Decimal(i % 40).scaleb(-2) for i in range(50)],
    })  # fmt: skip
    pq.write_table(table.set_column(2, "x", table["x"].cast(pa.decimal128(10, 2))), tmp_path / "a.parquet")
    job, _, _ = made(tmp_path / "a.parquet")
    assert job["source"]["schema"]["x"] == "decimal(10,2)" and job["scoring"]["highest"]["expression"] == "x"


@pytest.mark.parametrize(
    "name",
    ["Customer ID", "customer id", "CustomerNumber", "customer-no", "customer.id", "CUSTID", "custno", "Kundennummer", "customer", "user",
     "zip code", "id customer", "invoice num", "Order Nr."],
)  # fmt: skip
@pytest.mark.parametrize("fraction", ["", ".0"])
def test_the_number_of_a_customer_is_no_score(tmp_path: Path, name: str, fraction: str) -> None:
    rows = [
        ["" if i % 9 == 8 else f"{12_346 + i * 7 % 50}{fraction}", str(i % 4), (T0 + timedelta(minutes=i)).isoformat()] for i in range(90)
    ]
    path = write_csv(tmp_path / "a.csv", [name, "items", "seen"], rows)
    assert made(path)[0]["scoring"]["highest"]["expression"] == "items"
    job, text, _ = made(write_csv(path, [name, "seen"], [[r[0], r[2]] for r in rows]))
    assert job["scoring"]["highest"]["expression"] == "score_of_row" and "no column has numbers but such as name something" in text


def test_numbers_that_look_like_those_of_things_are_the_last_choice(tmp_path: Path) -> None:
    rows = [[f"{12_346 + i * 7 % 50}.0", str(i % 4), (T0 + timedelta(minutes=i)).isoformat()] for i in range(90)]
    path = write_csv(tmp_path / "a.csv", ["debitor", "items", "seen"], rows)
    assert made(path)[0]["scoring"]["highest"]["expression"] == "items"
    job, text, _ = made(write_csv(path, ["debitor", "seen"], [[r[0], r[2]] for r in rows]))
    assert job["scoring"]["highest"]["expression"] == "debitor" and "may be numbers of things" in text


@pytest.mark.parametrize("name", ["paid", "bid", "humid", "grid", "number_of_items", "user_score", "cost_per_order", "children_num"])
def test_names_that_only_end_like_ids_are_scores(tmp_path: Path, name: str) -> None:
    rows = [[str(i % 40), str(i % 4), (T0 + timedelta(minutes=i)).isoformat()] for i in range(90)]
    assert made(write_csv(tmp_path / "a.csv", [name, "n", "seen"], rows))[0]["scoring"]["highest"]["expression"] == name


@pytest.mark.parametrize("form", ["csv", "json"])
def test_numbers_of_20_digits_are_texts(tmp_path: Path, form: str) -> None:
    ids = [3 * 10**19 + i for i in range(50)]
    when = [(T0 + timedelta(minutes=i)).isoformat() for i in range(50)]
    path = tmp_path / f"a.{form}"
    if form == "csv":
        write_csv(path, ["konto", "ts", "x"], [[str(k), t, "1"] for k, t in zip(ids, when, strict=True)])
    else:
        path.write_text("".join(json.dumps({"konto": k, "ts": t, "x": 1}) + "\n" for k, t in zip(ids, when, strict=True)))
    job, _, unsure = made(path)
    assert job["source"]["schema"]["konto"] == "string" and job["source"]["id"] == ["konto"]
    assert any("more than 18 digits" in u for u in unsure)


def test_nothing_that_identifies_a_row_is_said(tmp_path: Path) -> None:
    rows = [["a", T0.isoformat(), "1.5"]] * 20
    job, text, unsure = made(write_csv(tmp_path / "a.csv", ["s", "ts", "x"], rows))
    assert any(u.startswith("id: nothing identifies a row") for u in unsure) and "unsure: nothing identifies a row" in text
    assert job["source"]["id"] == "position" and job["scoring"]["highest"]["expression"] == "x"
    # Where rows have no position, or columns of its names, all columns stand in for an id.
    job, text, _ = made(write_csv(tmp_path / "b.csv", ["file", "ts", "x"], rows))
    assert job["source"]["id"] == ["file", "ts"] and "unsure: nothing identifies a row" in text
    write_deltalake(tmp_path / "t", pa.table({"s": ["a"] * 20, "ts": pa.array([T0] * 20, pa.timestamp("us", "UTC")), "x": [1.5] * 20}))
    assert made(tmp_path / "t")[0]["source"]["id"] == ["s", "ts"]


def test_nanoseconds_and_numbers_without_a_sign(tmp_path: Path) -> None:
    n = 20
    ts = pa.array([(1_704_067_200 + i) * 10**9 for i in range(n)], pa.timestamp("ns"))
    rows = pa.table({"id": pa.array([2**63 + i for i in range(n)], pa.uint64()), "ts": ts, "x": [float(i) for i in range(n)]})
    pq.write_table(rows, tmp_path / "a.parquet")
    job, _, _ = made(tmp_path / "a.parquet")
    assert job["source"]["schema"] == {"id": "decimal(20,0)", "ts": "bigint", "x": "double"}
    assert job["transform"] == [{"derive": {"ts_time": "timestamp_micros(ts div 1000)"}}]
    pq.write_table(rows, tmp_path / "b.parquet", use_deprecated_int96_timestamps=True)
    assert made(tmp_path / "b.parquet")[0]["source"]["schema"]["ts"] == "timestamp"


def test_two_columns_of_one_name_are_refused(tmp_path: Path) -> None:
    path = write_csv(tmp_path / "a.csv", ["id", "ts", "x", "X"], [["1", T0.isoformat(), "1", "2"]])
    with pytest.raises(SkybandError, match="two columns of one name"):
        draft(path, tmp_path / "job.yaml")


def typed() -> pa.Table:
    n = 120
    return pa.table(
        {
            "id": pa.array(range(n), pa.int32()),
            "When": pa.array([T0 + timedelta(minutes=i) for i in range(n)], pa.timestamp("us", "UTC")),
            "day": pa.array([date(2024, 1, 1)] * n), "x": pa.array([i / 7 for i in range(n)], pa.float32()),
            "paid": pa.array([Decimal("1.25")] * n, pa.decimal128(9, 2)), "tags": pa.array([["a", "b"]] * n), "ok": pa.array([True] * n),
            "kind": pa.array(["u", "v"] * (n // 2)).dictionary_encode(), "where": pa.array([{"lat": 1.0}] * n), "no": ["x"] * n,
        }
    )  # fmt: skip


@pytest.mark.parametrize("form", ["parquet", "orc", "delta"])
def test_typed_files(tmp_path: Path, form: str) -> None:
    path, rows = tmp_path / f"a.{form}", typed()
    if form == "parquet":
        pq.write_table(rows, path)
    elif form == "orc":
        rows = rows.drop_columns(["kind"])
        pyarrow.orc.write_table(rows, path)
    else:
        write_deltalake(str(path), rows.drop_columns(["kind"]))
    job, text, unsure = made(path)
    schema = job["source"]["schema"]
    assert (job["source"]["format"], schema["id"], schema["When"], schema["paid"]) == (form, "int", "timestamp", "decimal(9,2)")
    assert (schema["tags"], schema["day"], schema["x"], schema["no"]) == ("array<string>", "date", "float", "string")
    assert schema["where_lat"] == {"type": "double", "from": "where.lat"} and unsure and '"no": string' in text
    assert job["source"]["event_time"]["column"] == "When" and job["source"]["id"] == ["id"]


TAGS: list[tuple[str, list[Any], dict[str, Any] | None]] = [
    ("lists", [["a", "b"], ["b", "c"], ["c"]], {"column": "v"}),
    ("numbers", [[1, 2], [2, 3], [3]], {"column": "v"}),
    ("fractions", [[1.5, 2], [2, 3.5], [3]], None),
    ("one list", [["a"], ["a"], ["a"]], None),
    ("sentences", ["the quick brown fox", "jumps over a dog", "and runs far away"], {"column": "v"}),
    ("parts", ["Sci Fi|Drama|Noir", "Drama|War|Sci Fi", "War|Noir|Old, lost"], {"column": "v", "separator": "|"}),
    ("commas", ["a,b,c", "b,c,d d", "d d,e,f"], {"column": "v", "separator": ","}),
    ("two words", ["big house", "small house", "red car"], None),
    ("codes", ["8a6e-4a1b-11ee-be56", "8a6e-4a1b-11ee-be57", "8a6e-4a1b-11ee-be58"], None),
]


@pytest.mark.parametrize(  # a CSV file has no lists
    ("form", "values", "tokens"),
    [pytest.param(f, *c[1:], id=f"{f}-{c[0]}") for f in ("json", "parquet", "csv") for c in TAGS if f != "csv" or isinstance(c[1][0], str)],
)
def test_similar_sets_are_proposed_for_lists_and_texts(tmp_path: Path, form: str, values: list[Any], tokens: dict[str, Any] | None) -> None:
    rows = [{"no": i, "seen": (T0 + timedelta(minutes=i)).isoformat(), "x": i / 4, "v": values[i % 3]} for i in range(12)]
    if form == "json":
        (tmp_path / "a.json").write_text("".join(json.dumps(r) + "\n" for r in rows))
    elif form == "parquet":
        pq.write_table(pa.Table.from_pylist([{**r, "seen": T0 + timedelta(minutes=i)} for i, r in enumerate(rows)]), tmp_path / "a.parquet")
    else:
        write_csv(tmp_path / "a.csv", list(rows[0]), [[str(v) for v in r.values()] for r in rows])
    job, _, _ = made(tmp_path / f"a.{form}")
    assert job.get("tokens") == (tokens and {"v": tokens})
    assert job["queries"].get("similar") == (tokens and {"type": "topk_similar_sets", "tokens": "v", "k": 10})
    found = judged(load_plan(str(tmp_path / "job.yaml")))
    assert found.rejected == {} and (tokens is None or found.tables["similar_now"].num_rows == 10)


def test_labels_are_not_compared_by_their_words(tmp_path: Path) -> None:
    rows = [["United States of America" if i % 2 else "Republic of South Korea", str(i), (T0 + timedelta(minutes=i)).isoformat()]
            for i in range(90)]  # fmt: skip
    assert "tokens" not in made(write_csv(tmp_path / "a.csv", ["country", "x", "seen"], rows))[0]


@pytest.mark.parametrize("name", ["x", "Unit Price", "batch_id", "a,b", "no", "{x}"])
@pytest.mark.parametrize(
    ("kind", "value", "type_"),
    [(pa.decimal128(9, 2), Decimal("1.25"), "decimal(9,2)"), (pa.uint64(), 2**63, "decimal(20,0)"), (pa.float32(), 1.5, "float"),
     (pa.bool_(), True, "boolean"), (pa.date32(), date(2024, 1, 1), "date"), (pa.list_(pa.string()), ["a"], "array<string>"),
     (pa.list_(pa.float64()), [0.5], "array<double>"), (pa.list_(pa.float32()), [0.5], "array<float>")],
    ids=str,
)  # fmt: skip
def test_a_column_of_every_type_under_every_name_makes_a_good_spec(
    tmp_path: Path, name: str, kind: pa.DataType, value: Any, type_: str
) -> None:
    seen = pa.array([T0 + timedelta(minutes=i) for i in range(3)], pa.timestamp("us", "UTC"))
    pq.write_table(pa.table({name: pa.array([value] * 3, kind), "seen": seen}), tmp_path / "a.parquet")
    column = next(iter(made(tmp_path / "a.parquet")[0]["source"]["schema"].values()))
    assert column == (type_ if name in ("x", "no") else {"type": type_, "from": name})


def test_nested_and_mixed_json(tmp_path: Path) -> None:
    rows = [
        {
            "id": f"e{i}",
            "time": (T0 + timedelta(seconds=i)).isoformat(),
            "v": i if i % 2 else i / 2,
            "w": {"a": 1},
            "m": i if i % 3 else "x",
            "tags": ["p", "q"],
        }
        for i in range(90)
    ]
    path = tmp_path / "a.json"
    for text in ("".join(json.dumps(r) + "\n" for r in rows), json.dumps(rows, indent=1)):
        path.write_text(text)
        job, _, unsure = made(path)
        assert job["source"]["schema"] == {
            "id": "string", "time_": {"type": "timestamp", "from": "time"}, "v": "double", "m": "string", "tags": "array<string>",
            "w_a": {"type": "bigint", "from": "w.a"},
        }  # fmt: skip
        assert "m: values of several kinds" in unsure
        assert job["source"].get("options") == ({"multiLine": True} if text[0] == "[" else None)


@pytest.mark.parametrize(
    "name, data, said",
    [
        ("none.csv", None, "there is no file"),
        ("a.csv", b"", "it is empty"),
        ("a.csv", b"a,b\n", "no rows below its header"),
        ("a.xlsx", b"PK", "none of the files"),
        ("a.csv", b"a,b\n1,2\n3,4\n", "no column of .* tells when a row happened: a .bigint., b"),
        ("a.json", b"{", "cannot be read"),
        ("a.json", b"[1, 2]", "no rows that are JSON objects"),
        ("a.parquet", b"PAR1", "cannot be read"),
        ("a.csv.gz", b"no gzip", "cannot be read"),
        ("a.csv", b"x" * (17 << 20), "longer than 16 MB"),
        ("a.json", b"\xff\xfe\n", "cannot be read"),
    ],
)
def test_files_nothing_can_be_made_of(tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, data: bytes | None, said: str) -> None:
    path = tmp_path / name
    if data is not None:
        path.write_bytes(data)
    with pytest.raises(SkybandError, match=said) as e:
        draft(path, tmp_path / "job.yaml")
    assert e.value.code == "SKY-E201" and e.value.hint
    assert main(["init", str(tmp_path / "job.yaml"), "--from", str(path)]) == 2
    shown = capsys.readouterr()
    assert shown.err.startswith("SKY-E201 ") and not (tmp_path / "job.yaml").exists()


_CELLS = st.sampled_from(
    [
        "",
        "1",
        "-5",
        "007",
        "2.5",
        "1e3",
        "NaN",
        "true",
        "no",
        "NA",
        "2024-03-01",
        "2024-03-01 10:00",
        "01/02/2024",
        "13/02/2024",
        "1709251200",
        "x",
        "a,b",
        'q"',
        "ü\u202e",
        "\x1b[1m",
        "{a}",
        "${HOME}",
        "1,000",
        " 3 ",
        "99999999999999999999",
    ]
)
_HEADS = st.sampled_from(
    [
        "id",
        "ts",
        "time",
        "score",
        "at",
        "no",
        "null",
        "a b",
        "ä",
        "1st",
        "x.y",
        "batch_id",
        "Year",
        "month",
        "day",
        "rank",
        "on",
        "${X}",
        "query",
        "key: 1",
        "#c",
        "'",
        '"',
        "\x1b[0m",
        "select",
        "id_",
        "ID",
    ]
)


def test_of_two_texts_for_null_the_second_columns_stay_texts(tmp_path: Path) -> None:
    path = write_csv(tmp_path / "a.csv", ["at", "x", "y"], [["2024-03-01", "1", "NA"], ["2024-03-02", "NaN", "2"]])
    job, _, _ = made(path)
    assert job["source"]["options"]["nullValue"] == "NaN"
    assert job["source"]["schema"]["x"] == "bigint" and job["source"]["schema"]["y"] == "string"


@given(heads=st.lists(_HEADS, min_size=1, max_size=5, unique=True), data=st.data(), n=st.integers(1, 8))
def test_whatever_stands_in_a_file(tmp_path_factory: pytest.TempPathFactory, heads: list[str], data: st.DataObject, n: int) -> None:
    """The spec is good, or it is said why there is none; and every cell has the type that is declared."""
    directory = tmp_path_factory.mktemp("any")
    rows = [[data.draw(_CELLS) for _ in heads] for _ in range(n)]
    if data.draw(st.booleans()):
        heads, rows = [*heads, "seen"], [[*r, (T0 + timedelta(hours=i)).isoformat()] for i, r in enumerate(rows)]
    path = write_csv(directory / "a.csv", heads, rows)
    try:
        job, _, _ = made(path)
    except SkybandError as e:
        assert e.code == "SKY-E201" and e.hint
        return
    options = job["source"].get("options", {})
    names = [c.get("from", n) if isinstance(c, dict) else n for n, c in job["source"]["schema"].items()]
    types = [c["type"] if isinstance(c, dict) else c for c in job["source"]["schema"].values()]
    text = "".join(path.read_bytes().decode().splitlines(keepends=True)[options.get("skip_lines", 0) :])
    cells = list(csv.reader(io.StringIO(text, newline=""), delimiter=options.get("sep", ",")))
    marks = {name: options[name] for name in ("decimal", "thousands") if name in options}
    body = cells if options.get("header") is False else cells[1:]
    assert options.get("header") is False or [n.replace("$${", "${") for n in names] == cells[0]
    for row in body:
        for type_, cell in zip(types, row, strict=False):
            read = plain_number(cell, marks) if type_ != "string" else cell
            assert cell in ("", options.get("nullValue")) or len(row) != len(types) or fits_text(type_, read)


@pytest.mark.real
@pytest.mark.parametrize(
    "name",
    ["prsa.csv", "conn.csv", "sp500_5yr.csv", "departures_stream.csv", "commits_anon.tsv", "rain_updates_1970_2021.tsv", "baskets.tsv"],
)
def test_real_files(tmp_path: Path, shared_data: Callable[[str], Path], name: str, capsys: pytest.CaptureFixture[str]) -> None:
    spec = tmp_path / "job.yaml"
    assert main(["init", str(spec), "--from", str(shared_data(f"data/{name}.gz"))]) == 0
    assert main(["validate", "--data", str(spec)]) == 0
    # Files with words or tokens get a query for similar sets, too.
    many = "2 queries" if name in ("commits_anon.tsv", "baskets.tsv") else "1 query"
    assert f"good ({many})" in capsys.readouterr().out


@pytest.mark.spark
def test_it_runs(spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """No row of a file that a spec was made from is rejected, with the spec in the directory of its data."""
    write_csv(tmp_path / "a.csv", ["on", "ts", "temp", "rank"], rows_of(400, "%d/%m/%Y %H:%M"), ";")
    monkeypatch.chdir(tmp_path)
    assert main(["init", "--from", "a.csv"]) == 0
    run(spark, Path("job.yaml"))
    runs = DeltaTable("tables/a/runs").to_pyarrow_table()
    assert [pc.sum(runs[n]).as_py() for n in ("rows_in", "accepted", "rejected")] == [400, 400, 0]
    capsys.readouterr()
    assert main(["query", "job.yaml", "top"]) == 0
    out = capsys.readouterr().out
    assert "top: 10 rows" in out and out.count("28.5") == 10


def test_bytes_of_a_typed_file_are_texts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    instants = pa.array([0, 1, 2, 3], pa.timestamp("us", "UTC"))
    table = pa.table({"name": [b"a\xff", b"2020-01-01", None, b"soon"], "x": [1.5, 2.5, 3.5, 4.5], "ts": instants})
    pq.write_table(table, tmp_path / "rows.parquet")
    assert main(["init", str(tmp_path / "job.yaml"), "--from", str(tmp_path / "rows.parquet")]) == 0, capsys.readouterr().err
    text = (tmp_path / "job.yaml").read_text()
    assert "    name: string" in text, text
    assert main(["validate", str(tmp_path / "job.yaml")]) == 0
