"""Rejected rows as JSON: any JSON reader gets the values back."""

from __future__ import annotations

import datetime as dt
import json

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from skyband.framework.streaming.rows.rejects import json_rows

rows = st.lists(
    st.tuples(
        st.one_of(st.none(), st.text(st.characters(exclude_categories=["Cs"]), max_size=8)),
        st.one_of(st.none(), st.integers(-(2**63), 2**63 - 1)),
        st.one_of(st.none(), st.floats(allow_nan=False, allow_infinity=False)),
        st.one_of(st.none(), st.booleans()),
        st.one_of(st.none(), st.datetimes(dt.datetime(1900, 1, 1), dt.datetime(2100, 1, 1))),
    ),
    min_size=1,
    max_size=5,
)


@given(rows)
def test_json_reads_back_the_same(values):
    columns = list(zip(*values, strict=True))
    table = pa.table(
        {
            'te"xt': pa.array(columns[0], pa.string()),
            "n": pa.array(columns[1], pa.int64()),
            "x": pa.array(columns[2], pa.float64()),
            "b": pa.array(columns[3], pa.bool_()),
            "t": pa.array(columns[4], pa.timestamp("us", "UTC")),
        }
    )
    for text, (s, n, x, b, t) in zip(json_rows(table).to_pylist(), values, strict=True):
        got = json.loads(text)
        assert (got['te"xt'], got["n"], got["x"], got["b"]) == (s, n, x, b)
        if t is None:
            assert got["t"] is None
        else:
            assert dt.datetime.fromisoformat(got["t"]) == t.replace(tzinfo=dt.UTC)


def test_infinities_are_text():
    table = pa.table({"x": pa.array([float("inf"), float("nan")])})
    assert [json.loads(t)["x"] for t in json_rows(table).to_pylist()] == ["inf", "nan"]
