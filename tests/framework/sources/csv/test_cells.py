"""Cells of text as values, against what Python's own parsers say of the spellings that are read; all other spellings are refused."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta, timezone
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skyband.framework.base.types import arrow_type
from skyband.framework.sources.csv import cells
from skyband.framework.sources.csv.cells import LEAST, READABLE, read

INSTANT = re.compile(r"(?P<time>(19|[2-9]\d)\d\d-\d\d-\d\d[ T]\d\d:\d\d:\d\d(\.\d{1,6})?)(Z|(?P<sign>[+-])(?P<h>\d\d):(?P<m>\d\d))?")
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
FRACTION = re.compile(r"-?(\d+\.?\d*|\.\d+)([eE]-?\d{1,2})?")


def expected(type_: str, text: str) -> Any:
    """The value of a cell, None if it is not to be read."""
    if type_ == "string":
        return text
    if type_ == "boolean":
        return {"true": True, "false": False}.get(text)
    if type_ in ("int", "bigint"):
        digits, bits = (10, 31) if type_ == "int" else (19, 63)
        number = int(text) if re.fullmatch(rf"-?[0-9]{{1,{digits}}}", text) else None
        return number if number is not None and -(2**bits) <= number < 2**bits else None
    if type_ in ("double", "float"):
        made = np.float32 if type_ == "float" else np.float64
        return float(made(text)) if FRACTION.fullmatch(text) and text.isascii() else None
    try:
        if type_ == "date":
            return date.fromisoformat(text) if re.fullmatch(r"(19|[2-9]\d)\d\d-\d\d-\d\d", text) and text.isascii() else None
        found = INSTANT.fullmatch(text) if text.isascii() else None
        if found is None:
            return None
        micros = (datetime.fromisoformat(found["time"]).replace(tzinfo=UTC) - EPOCH) // timedelta(microseconds=1)
        hours, minutes = int(found["h"] or 0), int(found["m"] or 0)
        if minutes > 59 or 60 * hours + minutes > 18 * 60:
            return None
        return micros - (60 * hours + minutes) * 60_000_000 * (-1 if found["sign"] == "-" else 1)
    except ValueError:
        return None


def check(type_: str, text: str) -> None:
    column = pa.array([None, text, None])
    value = expected(type_, text)
    # By Arrow, and compiled.
    for least in (LEAST, 0):
        made = read(column, type_, least)
        assert (made is None) == (value is None), (type_, text, least)
        if made is not None:
            # As microseconds: an offset may lead beyond the year 9999.
            assert (made.cast(pa.int64()) if type_ == "timestamp" else made).to_pylist() == [None, value, None]


CELLS = [
    "0", "-0", "007", "-", "+1", " 1", "1 ", "1_0", "0x1f", "1.", ".5", "-.5", ".", "1.2.3", "1e5", "1E-5", "1e+5", "1e400", "1e",
    "e5", "1d", "1f", "NaN", "Infinity", "-Infinity", "inf", "nan", "true", "TRUE", "True", "false", "t", "1,5", "999999999",
    "1000000000", "-999999999", "999999999999999999", "1000000000000000000", "9223372036854775807", "0.1", "-0.0",
    "123456789.123456789", "4.9e-32", "\u0661\u0662", "1899-12-31", "1900-01-01", "1900-02-29", "2000-02-29", "2023-02-29",
    "2024-02-29", "2024-02-30", "2024-13-01", "2024-00-10", "2024-1-1", "2024-04-31", "9999-12-31", "10000-01-01",
    "2024-02-29 23:59:59", "2024-02-29T23:59:59", "2024-02-29T23:59:59Z", "2024-02-29 24:00:00", "2024-02-29 23:60:00",
    "2024-02-29 23:59:60", "2024-02-29 23:59:59.", "2024-02-29 23:59:59.1", "2024-02-29 23:59:59.123456Z",
    "2024-02-29 23:59:59.1234567", "2024-02-29 23:59:59+01:00", "2024-02-29 23:59:59 UTC", "2024-02-29 23:59", "2024/02/29",
    "20240229", "2024-02-29t23:59:59", "2024-02-29 23:59:59.Z", "now", "epoch", "2024-02-29 ", "1969-12-31 23:59:59.999999",
    "2024-02-29 23:59:59z", "2147483647", "2147483648", "-2147483648", "-2147483649", "9223372036854775808", "-9223372036854775808",
    "-9223372036854775809", "9999999999999999999", "0000000000000000001", "00000000000000000001", "1234567890123456789",
    "2020-01-01T00:00:00+00:00", "2020-01-01T00:00:00-00:00", "2024-02-29 23:59:59.5+05:30", "2024-02-29 23:59:59.123456-17:59",
    "2024-02-29 23:59:59+18:00", "2024-02-29 23:59:59-18:00", "2024-02-29 23:59:59+18:01", "2024-02-29 23:59:59+19:00",
    "2024-02-29 23:59:59+01:60", "2024-02-29 23:59:59+0100", "2024-02-29 23:59:59+01", "2024-02-29 23:59:59+1:00",
    "2024-02-29 23:59:59+01:00:00", "2024-02-29 23:59:59+01:00Z", "2024-02-29 23:59:59Z+01:00", "2024-02-29 23:59:59 +01:00",
    "1900-01-01 00:00:00+18:00", "9999-12-31 23:59:59-18:00", "2024-02-29 23:59:59.+01:00", "2024-02-29 23:59+01:00",
]  # fmt: skip


@pytest.mark.parametrize("type_", READABLE)
def test_every_spelling(type_: str) -> None:
    for text in CELLS:
        check(type_, text)


@given(st.sampled_from(sorted(READABLE)), st.text("0123456789-+:.TZe ", min_size=1, max_size=28))
def test_any_text(type_: str, text: str) -> None:
    check(type_, text)


@given(
    st.datetimes(datetime(1900, 1, 1), datetime(9999, 12, 31)),
    st.floats(width=64, allow_nan=False, allow_infinity=False),
    st.integers(-1080, 1080),
    st.integers(-(2**63), 2**63 - 1),
)
def test_values_come_back(instant: datetime, number: float, offset: int, whole: int) -> None:
    check("bigint", str(whole))
    check("int", str(whole >> 32))
    check("timestamp", instant.isoformat(sep=" "))
    check("timestamp", instant.replace(tzinfo=timezone(timedelta(minutes=offset))).isoformat())
    check("date", str(instant.date()))
    check("double", str(number))


@pytest.mark.parametrize("type_", READABLE)
@pytest.mark.parametrize("least", [0, LEAST])
def test_nulls_alone_and_nothing_at_all(type_: str, least: int) -> None:
    for column in (pa.nulls(3, pa.string()), pa.array([], pa.string()), pa.array([None, "x"]).slice(0, 1)):
        made = read(pa.concat_arrays([column]), type_, least)
        assert made is not None and made.type == arrow_type(type_) and made.to_pylist() == [None] * len(column)


@given(st.text('"a,;\n', max_size=12), st.sampled_from(",;"), st.booleans())
def test_quotes_around_whole_cells_whoever_looks(text: str, separator: str, doubled: bool) -> None:
    from skyband.framework.sources.csv import arrow_reader, quote_kernel

    reader = arrow_reader.CsvArrowReader("", False, (), (), separator, doubled)
    compiled = quote_kernel.plain_quotes(np.frombuffer(text.encode() + b"\n", np.uint8), ord(separator), doubled)
    assert reader._plain(text.encode() + b"\n") == compiled


def test_many_short_columns_are_worth_compiled_code(monkeypatch: pytest.MonkeyPatch) -> None:
    column = pa.array(["1", None, "23"])
    asked = []

    def compiled(column: pa.Array, type_: pa.DataType) -> pa.Array:
        asked.append(len(column))
        return column.cast(type_)

    monkeypatch.setattr(cells, "READABLE", {"int": (READABLE["int"][0], compiled)})
    monkeypatch.setattr(cells, "ENOUGH", 7)
    monkeypatch.setattr(cells._Spent, "by_arrow", 0)
    for _ in range(5):
        assert read(column, "int").to_pylist() == [1, None, 23]
    assert asked == ([3, 3] if cells.HAVE_NUMBA else [])
