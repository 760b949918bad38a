"""Final results of windows, and items, in forms that two runs of the contract's streams can be compared by."""

from __future__ import annotations

from typing import Any

from skyband.operators.base import I64, Finals


def items_as(values: I64 | None, items: I64) -> I64:
    """Return items with what the numbers of objects stand for, ``values``; None: items are rows."""
    return items if values is None or not len(items) else values[items]


def final_rows(finals: Finals | None, values: I64 | None) -> list[tuple[Any, ...]]:
    """Return final results as rows: query, key, start, end, rank, item, bytes of the values."""
    if finals is None:
        return []
    bits = [[x.tobytes() for x in finals.values[name]] for name in sorted(finals.values)]
    columns = (finals.query, finals.key, finals.start, finals.end, finals.rank)
    return list(zip(*(c.tolist() for c in columns), map(tuple, items_as(values, finals.items).tolist()), *bits, strict=True))
