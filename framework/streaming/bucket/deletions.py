"""Deletion rows (``deletes:`` of a spec): find them, and track the objects that they remove from the window early.

A deletion takes no number and moves no other expiry. At equal time it comes where ``tie_break`` puts it, and without one after the
insertions of its id (docs/semantics 10).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from skyband.framework.streaming.bucket.store import address, split_address
from skyband.framework.streaming.rows import blocks
from skyband.framework.streaming.rows.columns import TextCodes, operator_column
from skyband.operators.base import Window
from skyband.operators.expressions import compile_row, read_columns
from skyband.operators.expressions.ast import Node

I64 = npt.NDArray[np.int64]
Bool = npt.NDArray[np.bool_]

DELETES = "__deletes"
"""Column of rows that says whether a row is a deletion."""


class Deletions:
    """One bucket's deletions. Without ``deletes:`` in the spec every method is a no-op."""

    def __init__(self, node: Node | None, texts: tuple[str, ...], window: Window) -> None:
        self.window = window
        self.columns = () if node is None else read_columns(node)
        self.predicate = None if node is None else compile_row(None, node, False, {t: i for i, t in enumerate(texts)})
        self.at: I64 = np.empty(0, np.int64)
        self.time: I64 = np.empty(0, np.int64)

    def marked(self, rows: pa.Table, codes: TextCodes) -> pa.Table:
        """``rows`` with the column ``DELETES``. O(rows), one kernel."""
        if self.predicate is None:
            return rows
        columns = {c.name: operator_column(rows, c, codes) for c in self.columns}
        return rows.append_column(DELETES, pa.array(self.predicate.passes(columns, rows.num_rows)))

    def of(self, rows: pa.Table) -> Bool | None:
        """Return which of the marked rows are deletions."""
        return None if self.predicate is None else rows[DELETES].to_numpy().astype(np.bool_)

    def add(self, key: I64, time: I64, target: I64) -> None:
        """Note accepted deletions: rows with a target >= 0."""
        if self.predicate is not None:
            gone = target >= 0
            self.at = np.append(self.at, address(key[gone], target[gone]))
            self.time = np.append(self.time, time[gone])

    def arrays(self, next_seq: I64, until: int) -> dict[str, I64]:
        """Addresses and instants of the deletions whose objects would still be in the window; the others are forgotten."""
        keep = np.ones(len(self.at), bool)
        if self.window.micros:
            keep &= self.time >= until - self.window.micros  # an object is no newer than its deletion
        if self.window.count:
            key, seq = split_address(self.at)
            keep &= seq >= next_seq[key] - self.window.count
        self.at, self.time = self.at[keep], self.time[keep]
        return {"at": self.at, "time": self.time}

    def restore(self, value: bytes | None, held: I64) -> Bool:
        """Takes back what ``arrays`` gave; which of the addresses ``held`` (sorted) have not been deleted."""
        if self.predicate is not None and value:
            arrays = blocks.bytes_arrays(value)
            self.at, self.time = arrays["at"].copy(), arrays["time"].copy()
        return ~np.isin(held, self.at)
