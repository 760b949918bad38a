"""Names of objects as words: they compare like the names, whatever the columns, and different names have different words."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skyband.framework.streaming.objects import ObjectNumbers
from skyband.framework.streaming.words import names
from skyband.operators.base import NULL, Ragged
from tests.seeds import cases

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
COLUMNS = {
    "text": (pa.string(), st.text("ab\0Äz𐍈\uffff", max_size=20)),
    "whole": (pa.int32(), st.integers(-(2**31), 2**31 - 1)),
    "truth": (pa.bool_(), st.booleans()),
    "day": (pa.date32(), st.dates(date(1900, 1, 1), date(2100, 1, 1))),
    "instant": (pa.timestamp("us", "UTC"), st.integers(-(10**15), 10**15).map(lambda n: EPOCH + timedelta(microseconds=n))),
    "decimal": (pa.decimal128(38, 2), st.integers(-(10**36), 10**36).map(lambda n: Decimal(n).scaleb(-2))),
    "float": (pa.float64(), st.floats(allow_nan=False).map(lambda x: x + 0.0)),
}
PARTS = ("text", "whole", "truth")
pairs = st.tuples(*(COLUMNS[c][1] for c in PARTS))


def told(words: Ragged) -> list[tuple[int, ...]]:
    return [tuple(words.values[a:b].tolist()) for a, b in zip(words.start[:-1], words.start[1:], strict=True)]


def in_order(value: Any) -> Any:
    return value.encode() if isinstance(value, str) else value


@pytest.mark.parametrize("kind", COLUMNS)
@settings(max_examples=cases(60))
@given(data=st.data())
def test_words_compare_like_values(kind: str, data: st.DataObject) -> None:
    type_, of = COLUMNS[kind]
    values = data.draw(st.lists(of, max_size=12))
    cut = data.draw(st.integers(0, len(values)))
    column = pa.chunked_array([pa.array([*values[:cut], *values[:cut]], type_).slice(cut), pa.array(values[cut:], type_)])
    words = told(names(pa.table({"c": column})))
    for a, x in zip(values, words, strict=True):
        for b, y in zip(values, words, strict=True):
            assert (in_order(a) < in_order(b), a == b) == (x < y, x == y)


@settings(max_examples=cases(100))
@given(rows=st.lists(pairs, max_size=12))
def test_words_of_several_columns_compare_like_tuples(rows: list[tuple[Any, ...]]) -> None:
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(PARTS)
    words = told(names(pa.table({c: pa.array(v, COLUMNS[c][0]) for c, v in zip(PARTS, columns, strict=True)})))
    by_words = sorted(range(len(rows)), key=lambda i: (words[i], i))
    assert by_words == sorted(range(len(rows)), key=lambda i: (tuple(map(in_order, rows[i])), i))


def test_a_list_names_nothing() -> None:
    with pytest.raises(ValueError, match="does not name objects"):
        names(pa.table({"c": pa.array([["a"]])}))


def test_new_objects_come_with_their_names_once() -> None:
    schema = pa.schema([("site", pa.string()), ("unit", pa.int64())])
    made = ObjectNumbers(("site", "unit"), schema)

    def met(sites: list[str | None]) -> tuple[list[int], list[int], list[tuple[int, ...]]]:
        first = made.next
        numbers = made.number(np.zeros(len(sites), np.int64), pa.table({"site": sites, "unit": [7] * len(sites)}, schema=schema))
        new = made.named(first)
        return numbers.tolist(), new.number.tolist(), told(new.words)

    name = {s: told(names(pa.table({"site": [s], "unit": [7]}, schema=schema)))[0] for s in "abc"}
    assert met(["b", None, "a", "b"]) == ([0, NULL, 1, 0], [0, 1], [name["b"], name["a"]])
    assert met(["a", "c"]) == ([1, 2], [2], [name["c"]])
    made.keep([np.array([2])])
    assert met([]) == ([], [], [])
    assert met(["c", "a"]) == ([2, 3], [3], [name["a"]])
