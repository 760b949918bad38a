"""The canonical order does not depend on how rows come."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from skyband.framework.streaming.bucket.sequencer import canonical_order

row = st.tuples(st.integers(0, 2), st.integers(0, 3), st.sampled_from([None, "a", "b", "é", "Z"]), st.sampled_from([None, -1.5, 0.0, 2.0]))


def key_of(value):
    if value is None:
        return (0, b"")
    return (1, value.encode()) if isinstance(value, str) else (1, value)


@given(st.lists(row, max_size=40), st.randoms())
def test_order_is_by_key_time_then_columns_whatever_the_input_order(rows, random):
    random.shuffle(rows)
    key = np.array([r[0] for r in rows], np.int64)
    time = np.array([r[1] for r in rows], np.int64)
    table = pa.table({"s": pa.array([r[2] for r in rows], pa.string()), "x": pa.array([r[3] for r in rows], pa.float64())})
    order = canonical_order(key, time, table, ["s", "x"])
    assert [rows[i] for i in order] == sorted(rows, key=lambda r: (r[0], r[1], key_of(r[2]), key_of(r[3])))
