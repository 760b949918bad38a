"""Which rows have vectors that can be used, and how the others are counted and explained."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pytest

from skyband.framework.base.reasons import REASON, count_name
from skyband.framework.plan.model import VectorNode
from skyband.framework.streaming.rows.columns import vectors
from skyband.framework.streaming.rows.vectors import judged, reasons

LISTS = [[1.0, 2.0], None, [], [1.0], [1.0, 2.0, 3.0], [1.0, None], [math.nan, 1.0], [1.0, -math.inf], [-0.0, 3.0]]
GOOD = [0, 1, 8]


@pytest.mark.parametrize("type_", [pa.float32(), pa.float64()])
@pytest.mark.parametrize("first", [0, 1, 4, 9])
def test_other_lists_are_rejected(type_: pa.DataType, first: int) -> None:
    whole = pa.array(LISTS, pa.list_(type_))
    column = pa.chunked_array([whole.slice(first, 2), whole.slice(first + 2)], pa.list_(type_))
    found = reasons(VectorNode("e", 2), column).to_pylist()
    assert found == [None if i in GOOD else "bad_vector:e" for i in range(first, len(LISTS))]


def test_the_first_reason_stays() -> None:
    rows = pa.table({"e": pa.array(LISTS[:4], pa.list_(pa.float64())), REASON: pa.array(["parse", None, "parse", None])})
    assert judged(rows, [VectorNode("e", 2)])[REASON].to_pylist() == ["parse", None, "parse", "bad_vector:e"]
    assert count_name("bad_vector:e") == "bad_vector"


@pytest.mark.parametrize("type_", [pa.float32(), pa.float64()])
def test_columns_for_operators(type_: pa.DataType) -> None:
    good = pa.array([LISTS[i] for i in GOOD], pa.list_(type_))
    column = pa.chunked_array([good.slice(1), good.slice(0, 0), good])
    want = [[math.nan] * 2, [-0.0, 3.0], [1.0, 2.0], [math.nan] * 2, [-0.0, 3.0]]
    assert vectors(column, 2).tobytes() == np.array(want).tobytes()
    assert vectors(column.slice(0, 0), 2).shape == (0, 2)
