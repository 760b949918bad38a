"""Last stage: the changes and points of all queries, in the order of the contract."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from skyband.operators.base import F64, I64, AnyArray, Calendar, Changes, Finals, Traces
from skyband.operators.calendar import window_starts
from skyband.operators.groups.carry import Carry
from skyband.operators.groups.kernels.rank import UNSORTED, Output

VALUE = "score"
"""The time-varying value of ``Traces``, and the value of ``Finals``."""


class Columns:
    """Columns of the contract. ``number`` and ``name``: number and rank by name of each group; ``shown`` gives the scores of internal
    values."""

    def __init__(self, number: I64, name: I64, shown: Callable[[F64], F64], carry: Carry, calendar: Calendar | None) -> None:
        self.number, self.name, self.shown, self.carry, self.calendar = number, name, shown, carry, calendar

    def empty(self) -> Changes:
        """Return no changes."""
        return replace(Changes.empty(1), values=self.carry.columns(np.empty((len(self.carry.names), 0), np.int64)))

    def changes_of(self, out: Output, ends: Sequence[tuple[int, int, int]]) -> Changes:
        """Return changes by (query, key, step, pos), points by (query, key, at, name), and the final results of tumbling windows.

        ``ends``: changes, points and finals up to the end of each query.
        """
        (query, n), (point_query, m), (final_query, _) = (_queries([end[i] for end in ends]) for i in range(3))
        side, cause, value, group, carried = out.sign[:n], out.cause[:n], out.value[:n], out.group[:n], out.carried[:, :n]
        point_group, point_value, point_carried = out.point_group[:m], out.point_value[:m], out.point_carried[:, :m]
        if out.counts[UNSORTED]:
            order = np.lexsort((self.name[group], -value, side, out.step[:n], out.key[:n], query))
            side, cause, value, group, carried = side[order], cause[order], value[order], group[order], carried[:, order]
            order = np.lexsort((self.name[point_group], out.point_at[:m], out.point_key[:m], point_query))
            point_group, point_value, point_carried = point_group[order], point_value[order], point_carried[:, order]
        points = {VALUE: self.shown(point_value), **(self.carry.columns(point_carried) if len(point_carried) else {})}
        traces = Traces(point_query, out.point_key[:m], out.point_at[:m], self.number[point_group].reshape(-1, 1), points)
        return Changes(
            query=query, key=out.key[:n], at=out.at[:n], step=out.step[:n], pos=out.pos[:n], sign=side, cause=cause,
            score=self.shown(value), items=self.number[group].reshape(-1, 1), traces=traces, values=self.carry.columns(carried),
            finals=None if self.calendar is None else self._finals(out, final_query, self.calendar),
        )  # fmt: skip

    def _finals(self, out: Output, query: AnyArray, calendar: Calendar) -> Finals:
        """Return the final results of the windows whose rows expired where ``calendar`` ends them; ``query``: of each member."""
        n = len(query)
        key, end, group, value = out.final_key[:n], out.final_at[:n], out.final_group[:n], out.final_value[:n]
        order = np.lexsort((self.name[group], -value, end, key, query))
        order = order[window_starts(calendar, end[order]) == end[order]]
        query, key, end, group, value = query[order], key[order], end[order], group[order], value[order]
        first = np.ones(len(order), bool)
        first[1:] = (query[1:] != query[:-1]) | (key[1:] != key[:-1]) | (end[1:] != end[:-1])
        rank = np.arange(1, len(order) + 1) - np.maximum.accumulate(np.where(first, np.arange(len(order)), 0))
        values = {VALUE: self.shown(value), **self.carry.columns(out.final_carried[:, order])}
        return Finals(query, key, window_starts(calendar, end - 1), end, rank, self.number[group].reshape(-1, 1), values)


def _queries(ends: Sequence[int]) -> tuple[AnyArray, int]:
    """Return the query of each row, and the number of rows."""
    counts = np.diff([0, *ends])
    return np.repeat(np.arange(len(ends), dtype=np.int16), counts), int(counts.sum())
