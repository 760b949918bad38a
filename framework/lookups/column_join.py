"""Join columns of rows with look-up tables in memory, with the result that ``join.Join`` has for each row."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skyband.framework.base.reasons import NO_MATCH
from skyband.framework.lookups.join import Tables
from skyband.framework.lookups.table import END, START, on_names
from skyband.framework.plan.nodes import LookupNode

if TYPE_CHECKING:
    import numpy.typing as npt

    Numbers = npt.NDArray[np.int64]

_FIRST: Final = np.iinfo(np.int64).min
_LAST: Final = np.iinfo(np.int64).max


class ColumnJoin:
    """Joins rows with the ``tables`` of ``nodes``. Threads may share it.

    ``event_time``: the column of the instant at which a row of the table has to be valid.
    """

    def __init__(self, nodes: Sequence[LookupNode], tables: Tables, event_time: str) -> None:
        self.event_time = event_time
        self.found = [(node, _Found(node, tables[node.name])) for node in nodes]

    def add(self, columns: dict[str, pa.Array]) -> pa.Array | None:
        """Add to ``columns`` what rows take of every table.

        Return the reasons of rows that are rejected, null for the others; None if no row is. O(n log m) for each look-up.
        """
        reasons = []
        for node, found in self.found:
            rows = found.rows([columns[own] for own, _ in node.on], columns[self.event_time] if node.valid is not None else None)
            columns |= {name: found.table[name].take(rows).combine_chunks() for name in node.taken}
            if node.missing == "reject" and rows.null_count:
                reasons.append(pc.if_else(rows.is_null(), pa.scalar(NO_MATCH + node.name), pa.scalar(None, pa.string())))
        return reduce(pc.coalesce, reasons) if reasons else None


class _Found:
    """The rows of one table: those of a key are next to each other, in the order of their intervals."""

    def __init__(self, node: LookupNode, table: pa.Table) -> None:
        self.values: list[pa.Array] = []
        self.distinct: list[Numbers] = []
        """Of each column of the key its values, and the codes of this column and those before it together."""
        group = np.zeros(table.num_rows, np.int64)
        for name in on_names(node):
            column = table[name].combine_chunks()
            self.values.append(column.unique())
            codes = pc.index_in(column, value_set=self.values[-1]).to_numpy(zero_copy_only=False)
            distinct, group = np.unique(group * len(self.values[-1]) + codes, return_inverse=True)
            self.distinct.append(distinct)
        self.starts = np.full(table.num_rows, _FIRST)
        self.ends = np.full(table.num_rows, _LAST)
        self.endless = np.ones(table.num_rows, bool)
        if node.valid is not None:
            self.starts = _numbers(table[START], _FIRST)
            order = np.lexsort((self.starts, group))
            table, group, self.starts = table.take(pa.array(order)), group[order], self.starts[order]
            self.ends, self.endless = _numbers(table[END], _LAST), table[END].is_null().to_numpy()
        else:
            order = np.argsort(group, kind="stable")
            table, group = table.take(pa.array(order)), group[order]
        self.table = table
        keys = len(self.distinct[-1])
        self.bounds = np.searchsorted(group, np.arange(keys + 1))
        """The place of the first row of each key."""

    def rows(self, keys: Sequence[pa.Array], at: pa.Array | None) -> pa.Array:
        """Return the place of the row for each key, valid ``at`` its instant; null if there is none. Nulls match nothing."""
        group = np.zeros(len(keys[0]), np.int64)
        known = np.full(len(group), bool(self.table.num_rows))
        if not self.table.num_rows:
            return pa.array(group, mask=~known)
        for key, values, distinct in zip(keys, self.values, self.distinct, strict=True):
            found = pc.index_in(key, value_set=values)
            codes = group * len(values) + pc.fill_null(found, 0).to_numpy(zero_copy_only=False)
            group = np.minimum(np.searchsorted(distinct, codes), len(distinct) - 1)
            known &= found.is_valid().to_numpy(zero_copy_only=False) & (distinct[group] == codes)
        if at is None:
            return pa.array(self.bounds[group], mask=~known)
        known &= at.is_valid().to_numpy(zero_copy_only=False)
        instants = _numbers(at, _FIRST)
        low, high = self.bounds[group], self.bounds[group + 1]
        first = low
        while (low < high).any():
            middle = np.minimum((low + high) // 2, len(self.starts) - 1)
            # Once a search has ended, its bounds stay.
            later = (low < high) & (self.starts[middle] <= instants)
            low, high = np.where(later, middle + 1, low), np.where((low < high) & ~later, middle, high)
        row = np.maximum(low - 1, 0)
        known &= (low > first) & (self.endless[row] | (instants < self.ends[row]))
        return pa.array(row, mask=~known)


def _numbers(column: pa.Array | pa.ChunkedArray, null: int) -> Numbers:
    """Return instants in microseconds."""
    numbers: Numbers = pc.fill_null(column.cast(pa.int64()), null).to_numpy()
    return numbers
