"""Load, store and copy what the tables of skylines with and without deletions have in common: keys, windows and shown lists."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from skyband.operators.base import AnyArray
from skyband.operators.jit import inner, jit
from skyband.operators.skyline.kernels.state import COUNT, HEAD, SEQ

if TYPE_CHECKING:
    from skyband.operators.skyline.kernels.state import Block, Shown, Table
    from skyband.operators.skyline.kernels.window_state import WindowBlock, WindowShown, WindowTable

    AnyBlock: TypeAlias = Block | WindowBlock
    AnyTable: TypeAlias = Table | WindowTable
    AnyShown: TypeAlias = Shown | WindowShown


@inner
def upper_bounds(table: AnyTable, block: AnyBlock, active: AnyArray) -> tuple[int, int, int]:
    """Return bounds after the arrivals: objects of an active key (keys,), rows of all keys, length of a shown list. O(keys Q)."""
    queries, boundaries = table.queries.shape[1], table.shown_start.shape[0] > 1
    objects, rows, shown = 1, table.start[len(active)], 0
    for key in range(len(active)):
        if active[key]:
            arrivals = block.end[key] - block.first[key]
            size = table.start[key + 1] - table.start[key] + arrivals
            objects = max(objects, size)
            rows += arrivals
            if boundaries:
                for index in range(key * queries, key * queries + queries):
                    shown = max(shown, size + table.shown_start[index + 1] - table.shown_start[index])
    return objects, rows, shown


@inner
def find(rows: AnyArray, first: int, end: int, seq: int) -> int:
    """Return the row of ``seq`` among the object rows [first, end), or -1. O(log rows)."""
    low, high = first, end
    while low < high:
        middle = (low + high) >> 1
        if rows[middle, SEQ] < seq:
            low = middle + 1
        else:
            high = middle
    return low if low < end and rows[low, SEQ] == seq else -1


@jit(inline="always")
def load_shown(key: int, table: AnyTable, shown: AnyShown) -> None:
    """Unpack a key's shown lists."""
    if table.shown_start.shape[0] > 1:
        for query in range(table.queries.shape[1]):
            start = table.shown_start[key * table.queries.shape[1] + query]
            shown.length[query] = table.shown_start[key * table.queries.shape[1] + query + 1] - start
            for i in range(shown.length[query]):
                for j in range(table.shown.shape[1]):
                    shown.lists[query, i, j] = table.shown[start + i, j]


@jit(inline="always")
def store_queries(key: int, last: int, shown: AnyShown, new: AnyTable) -> None:
    """Move a key's heads to their places after its ``last`` seq; pack its shown lists behind those of the keys before it."""
    queries = new.queries
    for query in range(queries.shape[1]):
        queries[key, query, HEAD] = max(queries[key, query, HEAD], last - queries[key, query, COUNT] + 1)
    if new.shown_start.shape[0] > 1:
        for query in range(queries.shape[1]):
            start = new.shown_start[key * queries.shape[1] + query]
            for i in range(shown.length[query]):
                for j in range(new.shown.shape[1]):
                    new.shown[start + i, j] = shown.lists[query, i, j]
            new.shown_start[key * queries.shape[1] + query + 1] = start + shown.length[query]


@jit(inline="always")
def carry_over_starts(key: int, active: AnyArray, table: AnyTable, new: AnyTable) -> int:
    """Copy starts and shown lists of the inactive keys (keys,) from ``key`` to the next active one; return that one. O(their lists)."""
    end = key
    moved = new.start[key] - table.start[key]
    while end < len(active) and not active[end]:
        new.start[end + 1] = table.start[end + 1] + moved
        end += 1
    if table.shown_start.shape[0] > 1:
        queries = table.queries.shape[1]
        moved = new.shown_start[key * queries] - table.shown_start[key * queries]
        for index in range(key * queries, end * queries):
            new.shown_start[index + 1] = table.shown_start[index + 1] + moved
        for i in range(table.shown_start[key * queries], table.shown_start[end * queries]):
            for j in range(table.shown.shape[1]):
                new.shown[i + moved, j] = table.shown[i, j]
    return end
