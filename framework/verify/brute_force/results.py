"""Read the result of a query at any instant from its tables."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from skyband.framework.base.items import SCORE, rank_key
from skyband.framework.plan.model import QueryNode
from skyband.framework.tables.schemas import identity_columns, stream_columns
from skyband.framework.verify.brute_force.objects import I64, Found
from skyband.framework.verify.replay.replay import Stream
from skyband.framework.verify.replay.trajectories import Trajectories
from skyband.framework.verify.stored import Item, Key, Stored, keys_of, micros, smallest_first
from skyband.operators.base import NEVER


@dataclass(slots=True)
class _Interval:
    start: int
    end: int | None
    item: Item
    columns: dict[str, Any]


class Results:
    """The intervals of ``<query>``, by stream."""

    def __init__(self, stored: Stored, query: QueryNode) -> None:
        self.query = query
        self.lines = Trajectories(stored, query) if query.item.varies else None
        rows = stored.table(query.name)
        named = identity_columns(stored.plan, query)
        needed = list(
            dict.fromkeys([*named, *(v.name for v in query.item.values), *(c for term in query.item.rank for c in term.columns)])
        )  # fmt: skip
        columns = {n: rows[n].to_pylist() for n in needed}
        items, starts, ends = keys_of(rows, named), micros(rows, "valid_from"), micros(rows, "valid_to")
        self._by_stream: dict[Key, list[_Interval]] = {}
        self._bounds: dict[Key, tuple[I64, I64]] = {}
        for i, key in enumerate(keys_of(rows, stream_columns(stored.plan, query))):
            mine = _Interval(starts[i] or 0, ends[i], items[i], {n: c[i] for n, c in columns.items()})
            self._by_stream.setdefault(key, []).append(mine)
        for key, intervals in self._by_stream.items():
            self._bounds[key] = np.array([x.start for x in intervals]), np.array([NEVER if x.end is None else x.end for x in intervals])

    def at(self, stream: Key, at: int) -> Found:
        """Return (item, score or time-varying value or 0.0) after all events with time <= ``at``, in rank order.

        O(intervals of the stream).
        """
        rank = rank_key(self.query.item, smallest_first(self.query, stream))
        if stream not in self._by_stream:
            return []
        starts, ends = self._bounds[stream]
        current = [self._by_stream[stream][i] for i in np.nonzero((starts <= at) & (at < ends))[0].tolist()]
        if self.lines is not None:
            for x in current:
                x.columns |= self.lines.values(stream, x.item, at)
        value = SCORE if self.lines is None else self.lines.varying.value
        return [(x.item, x.columns.get(value, 0.0)) for x in sorted(current, key=lambda x: rank(x.columns))]


class Reports:
    """The rows of ``<query>_changes`` by stream and instant, for items that are reported once."""

    def __init__(self, stream: Stream) -> None:
        scores = stream.rows[SCORE].to_pylist() if stream.query.item.scored else [0.0] * stream.rows.num_rows
        self._reported: dict[tuple[Key, int], Found] = {}
        for _, rows in stream.streams():
            for i in rows:
                self._reported.setdefault((stream.keys[i], stream.at[i]), []).append((stream.items[i], scores[i]))

    def at(self, stream: Key, at: int) -> Found:
        """Return (item, score or 0.0) reported at exactly ``at``, in order."""
        return self._reported.get((stream, at), [])
