"""The canonical order of objects within a key (docs/semantics 1): time, tie_break, id, then all other columns."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from skyband.framework.streaming.rows.rejects import comparable
from skyband.framework.tables.key_numbers import order_by

I64 = npt.NDArray[np.int64]


def canonical_order(key: I64, time: I64, table: pa.Table, tie_columns: list[str]) -> I64:
    """Return row numbers in (key, time, ``tie_columns``...) order. Nulls first, text by its UTF-8 bytes, numbers by value,
    lists by their JSON text.

    ``key`` and ``time`` have shape (n,), ``table`` n rows. Only rows that tie on (key, time) are compared further, so a stream without ties
    costs one sort of integers: O(n log n).
    """
    order = order_by(key, time)
    k, t = key[order], time[order]
    tie = (k[1:] == k[:-1]) & (t[1:] == t[:-1])
    if not tie.any() or not tie_columns:
        return order.astype(np.int64)
    tied = np.zeros(len(order), bool)
    tied[1:] |= tie
    tied[:-1] |= tie
    group = np.zeros(len(order), np.int64)
    group[1:] = np.cumsum(~tie)
    where = np.nonzero(tied)[0]
    names = [f"c{i}" for i in range(len(tie_columns))]
    rows = comparable(table.select(tie_columns).take(pa.array(order[where]))).rename_columns(names)
    rows = rows.append_column("g", pa.array(group[where]))
    keys = [(n, "ascending", "at_start") for n in ("g", *names)]
    inner = pc.sort_indices(rows, sort_keys=keys).to_numpy()
    order[where] = order[where][inner]
    return order.astype(np.int64)
