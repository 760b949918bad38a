"""Join rows with look-up tables in memory, row by row, with the result of ``streaming.rows.lookups``."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from typing import Any, Final

import pyarrow as pa

from skyband.framework.base.reasons import NO_MATCH
from skyband.framework.lookups.table import END, START, on_names
from skyband.framework.plan.nodes import LookupNode

Tables = Mapping[str, pa.Table]
"""Checked tables (``lookups.table``) by look-up."""

_FIRST: Final = -(2**63)
"""An instant before all others."""


class Join:
    """Joins rows with the ``tables`` of ``nodes``. Values are those of ``rehearsal.rows``: instants in microseconds, dates in days.

    ``event_time``: the column of the instant at which a row of the table has to be valid.
    """

    def __init__(self, nodes: Sequence[LookupNode], tables: Tables, event_time: str) -> None:
        self.event_time = event_time
        self.found = [(node, _Found(node, tables[node.name])) for node in nodes]

    def add(self, row: dict[str, Any]) -> str | None:
        """Add what ``row`` takes of every table, and return the reason for which it is rejected, if it is. O(log n) per look-up."""
        reason = None
        for node, found in self.found:
            taken = found.get(tuple(row[own] for own, _ in node.on), _FIRST if node.valid is None else row[self.event_time])
            row.update(zip(node.taken, taken or [None] * len(node.take), strict=True))
            if taken is None and node.missing == "reject" and reason is None:
                reason = NO_MATCH + node.name
        return reason


class _Found:
    """The rows of one table by key, those of a key in the order of their intervals."""

    def __init__(self, node: LookupNode, table: pa.Table) -> None:
        keys = zip(*(_plain(table[name]) for name in on_names(node)), strict=True)
        taken = list(zip(*(_plain(table[name]) for name in node.taken), strict=True))
        timed, n = node.valid is not None, table.num_rows
        starts = [_FIRST if at is None else at for at in _plain(table[START])] if timed else [_FIRST] * n
        ends = _plain(table[END]) if timed else [None] * n
        self.rows: dict[tuple[Any, ...], tuple[list[int], list[tuple[int | None, tuple[Any, ...]]]]] = {}
        for key, start, end, row in zip(keys, starts, ends, taken, strict=True):
            of_key = self.rows.setdefault(key, ([], []))
            of_key[0].append(start)
            of_key[1].append((end, row))

    def get(self, key: tuple[Any, ...], at: int | None) -> tuple[Any, ...] | None:
        """Return what the row with ``key`` that is valid ``at`` gives; None if there is none. Nulls match nothing."""
        of_key = self.rows.get(key)
        if of_key is None or at is None:
            return None
        starts, rows = of_key
        i = bisect_right(starts, at) - 1
        if i < 0:
            return None
        end, row = rows[i]
        return row if end is None or at < end else None


def _plain(column: pa.ChunkedArray) -> list[Any]:
    """Return values as rows of a rehearsal have them."""
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.int64())
    elif pa.types.is_date(column.type):
        column = column.cast(pa.int32())
    return list(column.to_pylist())
