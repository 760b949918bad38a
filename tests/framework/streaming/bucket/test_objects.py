"""Numbers of the objects that rows report on: equal for equal names of a key, kept as long as they are needed, the same after a restore."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from skyband.framework.streaming.bucket.objects import ObjectNumbers
from skyband.operators.base import NULL

SCHEMA = pa.schema([("site", pa.string()), ("unit", pa.int64()), ("x", pa.float64())])


def rows(*names: tuple[str | None, int | None]) -> pa.Table:
    return pa.table({"site": [n[0] for n in names], "unit": [n[1] for n in names], "x": [0.0] * len(names)}, schema=SCHEMA)


def test_equal_names_of_a_key_have_one_number_in_order_of_first_sight() -> None:
    made = ObjectNumbers(("site", "unit"), SCHEMA)
    got = made.number(np.array([0, 0, 1, 0, 0, 0]), rows(("b", 1), ("a", 1), ("b", 1), ("b", 1), (None, 1), ("a", 2)))
    assert got.tolist() == [0, 1, 2, 0, NULL, 3]
    assert made.number(np.array([1, 0]), rows(("b", 1), ("c", 9))).tolist() == [2, 4]
    assert made.rows(np.array([4, 0, 0])).to_pylist() == [{"site": "c", "unit": 9}, {"site": "b", "unit": 1}, {"site": "b", "unit": 1}]
    assert made.number(np.empty(0, np.int64), rows()).tolist() == []


def test_what_is_not_needed_is_forgotten_and_gets_a_new_number_when_it_comes_back() -> None:
    made = ObjectNumbers(("site",), SCHEMA)
    made.number(np.zeros(3, np.int64), rows(("a", 0), ("b", 0), ("c", 0)))
    made.keep([np.array([2]), np.array([0])])
    assert made.known.num_rows == 2 and made.rows(np.array([2])).to_pylist() == [{"site": "c"}]
    with pytest.raises(KeyError):
        made.rows(np.array([1]))
    again = ObjectNumbers(("site",), SCHEMA)
    again.restore(made.saved())
    for numbers in (made, again):
        assert numbers.number(np.zeros(3, np.int64), rows(("c", 0), ("b", 0), ("a", 0))).tolist() == [2, 3, 0]
    with pytest.raises(KeyError):
        made.rows(np.array([7]))
