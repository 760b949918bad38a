"""Numbers are printed exactly: every float reads back, with separators of thousands, and decimals have their scale."""

from __future__ import annotations

import math
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skyband.framework.base.counts import number_text
from skyband.framework.report.page import Figure, cells
from skyband.framework.tables.render import csv_text, text_table


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1606064.0, "1,606,064"), (0.1, "0.1"), (-1234.5, "-1,234.5"), (123456789.123, "123,456,789.123"),
        (1e16, "1e+16"), (1e-07, "1e-07"),
        (839.0, "839"), (-0.0, "-0"), (0.30000000000000004, "0.30000000000000004"), (math.inf, "inf"),
        (-math.inf, "-inf"), (math.nan, "nan"),
        (Decimal("1000000000000000.01"), "1,000,000,000,000,000.01"), (Decimal("0.00"), "0.00"), (Decimal("-0.50"), "-0.50"),
        (Decimal("1E+3"), "1,000"), (Decimal("-1234567"), "-1,234,567"), (20260101, "20260101"),
    ],
)  # fmt: skip
def test_a_number_is_printed_exactly(value: float | Decimal, text: str) -> None:
    assert number_text(value) == text


@given(st.floats(allow_nan=False))
def test_a_float_reads_back_and_is_as_short_as_it_can_be(value: float) -> None:
    text = number_text(value).replace(",", "")
    assert float(text).hex() == value.hex() and len(text) <= len(repr(value))


@given(st.decimals(allow_nan=False, allow_infinity=False, places=3, min_value=-(10**15), max_value=10**15))
def test_a_decimal_has_all_digits_of_its_scale(value: Decimal) -> None:
    text = number_text(value)
    assert Decimal(text.replace(",", "")) == value and len(text.partition(".")[2]) == 3


ROWS = pa.table(
    {
        "who": ["a", None], "bytes": [1606064.0, 0.5], "price": pa.array([Decimal("1234.50"), Decimal("0.05")], pa.decimal128(10, 2)),
        "half": pa.array([0.1, None], pa.float32()), "id": [2026, 1],
    }
)  # fmt: skip


def test_columns_of_numbers_are_aligned_to_the_right() -> None:
    assert text_table(ROWS).splitlines() == [
        "who      bytes     price  half    id",
        "---  ---------  --------  ----  ----",
        "a    1,606,064  1,234.50   0.1  2026",
        "           0.5      0.05           1",
    ]
    figure = Figure("title", "said", tuple(ROWS.column_names), cells(ROWS))
    assert figure.rows == (("a", "1,606,064", "1,234.50", "0.1", "2026"), ("", "0.5", "0.05", "", "1"))
    assert figure.numeric == (False, True, True, True, True)


def test_programs_get_numbers_without_separators() -> None:
    assert csv_text(ROWS.drop_columns("half")).splitlines()[1:] == ["a,1606064.0,1234.50,2026", ",0.5,0.05,1"]
    assert np.float32(csv_text(ROWS.select(["half"])).splitlines()[1]) == np.float32(0.1)
