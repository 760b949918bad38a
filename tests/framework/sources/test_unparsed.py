"""What is said of rows that do not parse: the column, the value, what it looks like, what to do."""

from __future__ import annotations

import json

import pytest

from skyband.framework.plan.model import Field, SourceNode
from skyband.framework.sources.looks import fits_json, fits_text
from skyband.framework.sources.registry import source_format
from skyband.framework.spec.models.source import kind_of


def source(format_: str = "csv", options: tuple[tuple[str, str], ...] = (), **types: str) -> SourceNode:
    types = types or {"id": "int", "ts": "timestamp", "x": "double"}
    return SourceNode(format_, "/in", options, tuple(Field(n, t, kind_of(t), n) for n, t in types.items()))


def said(text: str, format_: str = "csv", options: tuple[tuple[str, str], ...] = (), **types: str) -> str:
    found = source_format(format_).unparsed(source(format_, options, **types), None, text)
    return "" if found is None else f"{found.said}; {found.hint}"


@pytest.mark.parametrize(
    ("type_", "value", "like", "do"),
    [
        ("timestamp", "1357034400", "epoch seconds", "timestamp_seconds(c)"),
        ("timestamp", "1357034400.25", "epoch seconds", "declare it double under another name"),
        ("timestamp", "1357034400123", "epoch milliseconds", "timestamp_millis(c)"),
        ("timestamp", "1357034400123456", "epoch microseconds", "timestamp_micros(c)"),
        ("timestamp", "1357034400123456789", "epoch nanoseconds", "timestamp_micros(c div 1000)"),
        ("timestamp", "31/01/2013 10:30", "a date with the day first", 'options: {timestampFormat: "dd/MM/yyyy HH:mm"}'),
        ("timestamp", "01/31/2013", "a date with the month first", 'options: {timestampFormat: "MM/dd/yyyy"}'),
        ("timestamp", "2013/01/31 10:30:00", "a date with other marks than '-'", '"yyyy/MM/dd HH:mm:ss"'),
        ("timestamp", "1/31/2013 9:30", "a date with the month first", 'options: {timestampFormat: "M/d/yyyy H:mm"}'),
        ("date", "2.1.2013", "a date with the day first (or the month: then M stands before d)", 'options: {dateFormat: "d.M.yyyy"}'),
        ("date", "2013/1/31", "a date with other marks than '-'", 'options: {dateFormat: "yyyy/M/d"}'),
        ("timestamp", "2020-13-01", "a date that does not exist", "fix it"),
        ("date", "20130131", "a date without dashes", 'options: {dateFormat: "yyyyMMdd"}'),
        ("timestamp", "NA", "a mark for 'nothing'", 'options: {nullValue: "NA"}'),
        ("int", "3000000000", "a number too large for int", "declare bigint"),
        ("bigint", "9" * 25, "a number too large for bigint", "declare decimal(38,0)"),
        ("int", "1.5", "a number with a fraction", "declare double"),
        ("int", " 1", "a number with blanks around it", "ignoreLeadingWhiteSpace"),
        ("double", "1,5", "a number with a decimal comma", "replace(c, ',', '.')"),
        ("double", "1,234,567.5", "a number with commas between thousands", "replace(c, ',', '')"),
        ("double", "12 km", "a number with something around it", "regexp_extract"),
        ("boolean", "yes", "a truth value spelled another way", "c = 'yes'"),
        ("int", "forty-two", "text", "declare string"),
    ],
)
def test_a_cell_is_told_by_what_it_looks_like(type_: str, value: str, like: str, do: str) -> None:
    separated = (("sep", ";"),)
    told = said(f"a;{value}", options=separated, id="string", c=type_)
    assert told.startswith(f"column 'c' ({type_}) holds {value!r}, which looks like {like}") and do in told
    if type_ != "date" and "boolean" not in type_ and value != " 1":
        assert not fits_text(type_, value)


@pytest.mark.parametrize(
    ("type_", "value"),
    [
        *(("timestamp", t) for t in ("2013-01-01T10:30:00.123456Z", "2013-01-01 10:30:00+01:00", "2013")),
        ("date", "2013-1-1"),
        *(("double", t) for t in ("-1.5e-7", "NaN")),
        ("int", "-2147483648"),
        ("bigint", "9223372036854775807"),
        ("boolean", "TRUE"),
        ("string", ""),
    ],
)
def test_what_the_engine_reads_is_no_misfit(type_: str, value: str) -> None:
    assert fits_text(type_, value)


def test_other_rows_of_csv() -> None:
    assert "has 2 cells, not 3" in said("1,2013-01-01")
    assert "must be quoted" in said("1,2013-01-01,4,5")
    assert "separated by ';'" in said("1;2013-01-01;4")
    assert "the header stands there again" in said("id,ts,x")
    assert said("1,2013-01-01,4") == ""
    assert "source.options.timestampFormat says dd.MM.yyyy" in said("1,2013-01-01,4", options=(("timestampFormat", "dd.MM.yyyy"),))
    found = source_format("csv").unparsed(source(), ["x", "id", "ts", "more"], "5,1,soon,2")
    assert found is not None and found.said.startswith("column 'ts' (timestamp) holds 'soon'")
    assert source_format("parquet").unparsed(source("parquet"), None, "{}") is None


def test_rows_of_json() -> None:
    assert "is no JSON object" in said("{", "json") and "is no JSON object" in said("[1]", "json")
    assert "a number or truth value in quotes" in said(json.dumps({"id": "5"}), "json")
    assert "a number with a fraction" in said(json.dumps({"id": 1.5}), "json")
    assert "epoch seconds" in said(json.dumps({"ts": "1357034400"}), "json")
    assert said(json.dumps({"id": 1, "ts": 1357034400, "x": None}), "json") == ""
    assert fits_json("array<int>", [1, None]) and not fits_json("array<int>", ["a"]) and not fits_json("double", [])


def test_half_a_character_and_what_is_nested_deeply_do_not_parse() -> None:
    assert "half a character" in said('{"id": 1, "s": "\\ud800"}', "json") and "half a character" in said(
        "{'id': 1, 's': '\\udc00x'}", "json"
    )
    assert said('{"id": 1, "s": "\\ud83d\\ude00", "t": "\\\\ud800"}', "json") == ""
    assert "is no JSON object" in said('{"id":' * 100_000, "json")


def test_decimals_in_quotes_and_numbers_beyond_their_digits() -> None:
    assert fits_json("decimal(4,2)", "1.25") and fits_json("decimal(4,2)", "99.994") and fits_json("decimal(4,2)", 99)
    for value in ("99.995", "1,5", "x", 100, "1e999999999", ""):
        assert not fits_json("decimal(4,2)", value), value
    assert fits_json("decimal(4,2)", "1e-999999999")
    assert not fits_json("date", 2024) and not fits_json("bigint", "5")


def test_a_long_value_is_cut() -> None:
    assert len(said("1," + "z" * 500 + ",1")) < 250
