"""Last stage: the changes and points of all queries as columns, in the order of the contract."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from skyband.operators.base import I64, AnyArray, Calendar, Changes, Finals, Traces
from skyband.operators.calendar import window_starts
from skyband.operators.groups.carry import Carry
from skyband.operators.groups.kernels.rank import Output

VALUE = "score"
"""The time-varying value of ``Traces``, and the value of ``Finals``."""


def changes_of(outputs: Sequence[Output], number: I64, name: I64, sign: float, carry: Carry, calendar: Calendar | None) -> Changes:
    """Return changes by (query, key, step, pos) and points by (query, key, at, name); ``sign`` is -1 for direction min.

    ``calendar``: of tumbling windows, whose final results are added.
    """
    changes, points = [_changes(q, out, number, name, sign) for q, out in enumerate(outputs)], []
    for q, out in enumerate(outputs):
        n = out.counts[1]
        row, value = out.points[:n], out.point_value[:n]
        if not ascending(row[:, 0], row[:, 1]):
            order = np.lexsort((name[row[:, 2]], row[:, 1], row[:, 0]))
            row, value = row[order], value[order]
        points.append((np.full(n, q, np.int16), row[:, 0], row[:, 1], number[row[:, 2]], sign * value + 0.0))
    if not changes:
        return replace(Changes.empty(1), values=carry.columns(np.empty((len(carry.names), 0), np.int64)))
    query, key, at, items, value = (np.concatenate(parts) for parts in zip(*points, strict=True))
    traces = Traces(query, key, at, items.reshape(-1, 1), {VALUE: value})
    one = [np.concatenate(parts, axis=-1) for parts in zip(*changes, strict=True)]
    carried = np.ascontiguousarray(one.pop())
    return Changes(
        query=one[0], key=one[1], at=one[2], step=one[3], pos=one[4], sign=one[5], cause=one[6], score=one[7],
        items=one[8].reshape(-1, 1), traces=traces, values=carry.columns(carried),
        finals=None if calendar is None else finals_of(outputs, number, name, sign, carry, calendar),
    )  # fmt: skip


def finals_of(outputs: Sequence[Output], number: I64, name: I64, sign: float, carry: Carry, calendar: Calendar) -> Finals:
    """Return the final results of the windows whose rows expired where ``calendar`` ends them."""
    parts, carried = [], []
    for q, out in enumerate(outputs):
        row, value, cells = out.finals[: out.counts[5]], out.final_value[: out.counts[5]], out.final_carried[:, : out.counts[5]]
        closed = window_starts(calendar, row[:, 1]) == row[:, 1]
        row, value, cells = row[closed], value[closed], cells[:, closed]
        order = np.lexsort((name[row[:, 2]], -value, row[:, 1], row[:, 0]))
        row, value = row[order], value[order]
        carried.append(cells[:, order])
        key, end = row[:, 0], row[:, 1]
        first = np.ones(len(row), bool)
        first[1:] = (key[1:] != key[:-1]) | (end[1:] != end[:-1])
        rank = np.arange(1, len(row) + 1) - np.maximum.accumulate(np.where(first, np.arange(len(row)), 0))
        parts.append(
            (np.full(len(row), q, np.int16), key, window_starts(calendar, end - 1), end, rank, number[row[:, 2]], sign * value + 0.0)
        )
    query, key, start, end, rank, items, value = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    return Finals(query, key, start, end, rank, items.reshape(-1, 1), {VALUE: value, **carry.columns(np.concatenate(carried, axis=-1))})


def ascending(key: I64, at: I64) -> bool:
    """Return True if every row comes after the one before it: (key, at) ascend."""
    return bool(np.all((key[1:] > key[:-1]) | ((key[1:] == key[:-1]) & (at[1:] > at[:-1]))))


def _changes(q: int, out: Output, number: I64, name: I64, sign: float) -> tuple[AnyArray, ...]:
    """Return the columns of one query's changes: of a step first those that leave, then those that enter, each in rank order."""
    n = int(out.counts[0])
    row, value = out.changes[:n], out.change_value[:n]
    order = np.lexsort((name[row[:, 5]], -value, row[:, 3], row[:, 2], row[:, 0]))
    row, value = row[order], value[order]
    first = np.ones(n, bool)
    first[1:] = (row[1:, 0] != row[:-1, 0]) | (row[1:, 2] != row[:-1, 2])
    pos = np.arange(n) - np.maximum.accumulate(np.where(first, np.arange(n), 0))
    return (
        np.full(n, q, np.int16), row[:, 0], row[:, 1], row[:, 2], pos.astype(np.int32), row[:, 3].astype(np.int8),
        row[:, 4].astype(np.int8), sign * value + 0.0, number[row[:, 5]],
        out.carried[:, :n][:, order],
    )  # fmt: skip
