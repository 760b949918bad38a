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

from skyband.framework.streaming.bucket.objects import ObjectNumbers
from skyband.framework.streaming.rows.words import names
from skyband.operators.base import Ragged
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


def test_objects_come_with_their_names() -> None:
    schema = pa.schema([("site", pa.string()), ("unit", pa.int64())])
    made = ObjectNumbers(("site", "unit"), schema)
    made.number(np.zeros(4, np.int64), pa.table({"site": ["b", None, "a", "b"], "unit": [7, 7, 7, 8]}, schema=schema))
    got = made.named(np.array([2, 0]))
    assert got.number.tolist() == [2, 0]
    assert told(got.words) == told(names(pa.table({"site": ["b", "b"], "unit": [8, 7]}, schema=schema)))
    assert told(made.named(np.empty(0, np.int64)).words) == []
    made.keep([np.array([1])])
    with pytest.raises(KeyError):
        made.named(np.array([0]))
