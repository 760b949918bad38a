"""Which arrivals have a value in a column."""

from __future__ import annotations

import numpy as np

from skyband.operators.base import NULL, AnyArray, Arrivals, Column, Ragged


def missing(arrivals: Arrivals, column: Column) -> AnyArray:
    """Return a mask (n,) of the arrivals with a null in a column: a set is null if it is empty."""
    if column.kind in ("tokens", "characters"):
        return ~present(arrivals.ragged[column.name], column.kind == "tokens")
    values = arrivals.columns[column.name]
    if column.kind == "vector":
        values = values[:, 0]
    found: AnyArray = values == NULL if values.dtype == np.int64 else np.isnan(values)
    return found


def present(rows: Ragged, sets: bool) -> AnyArray:
    """Return a mask (n,) of the rows with a value: a set that is not empty, or a text."""
    length = np.diff(rows.start)
    found: AnyArray = length > 0 if sets else np.ones(len(length), bool)
    if not sets:
        one = np.flatnonzero(length == 1)
        found[one] = rows.values[rows.start[one]] != NULL
    return found
