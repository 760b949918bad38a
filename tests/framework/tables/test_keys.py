"""Orders by several columns, against NumPy's."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from skyband.framework.tables.render import order_by

ENDS = st.sampled_from([-(2**63), 2**63 - 1, -1, 0, 1, 2**62, -(2**62), 2**31, 2**32])
NUMBERS = st.one_of(st.integers(0, 2), st.integers(-(2**63), 2**63 - 1), ENDS)


@given(st.integers(1, 4).flatmap(lambda width: st.lists(st.lists(NUMBERS, min_size=width, max_size=width), min_size=1, max_size=30)))
def test_order_is_numpys(rows: list[list[int]]) -> None:
    columns = list(np.array(rows, np.int64).T)
    assert order_by(*columns).tolist() == np.lexsort(columns[::-1]).tolist()


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(5, 9), st.integers(-2, 2), st.integers(0, 1)), max_size=60))
def test_small_numbers_share_a_word_and_equal_rows_stay_in_order(rows: list[tuple[int, ...]]) -> None:
    columns = list(np.array(rows, np.int64).reshape(-1, 4).T)
    assert order_by(*columns).tolist() == sorted(range(len(rows)), key=lambda i: rows[i])
