"""The rows of queries in the tables beside those of a key's source: what is compared, and how much of it has been."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from skyband.framework.base.items import SCORE, rank_key
from skyband.framework.plan.model import LogicalQuery, QueryNode
from skyband.framework.queries.protocol import QueryType
from skyband.framework.queries.registry import query_type
from skyband.framework.tables.schemas import identity_columns, stream_columns
from skyband.framework.verify.brute_force import instants
from skyband.framework.verify.brute_force.objects import I64, Accepted, Found, Objects
from skyband.framework.verify.brute_force.stream_rows import StreamRows
from skyband.framework.verify.replay.causes import Clocks
from skyband.framework.verify.replay.replay import FinalResults, Stream, Trajectories, stream_of
from skyband.framework.verify.shares import Share
from skyband.framework.verify.stored import Item, Key, Stored, key_of, keys_of, micros, smallest_first
from skyband.operators.base import NEVER

# Read the result of a query at any instant from its tables.


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
        return [(x.item, _number(x.columns.get(value, 0.0))) for x in sorted(current, key=lambda x: rank(x.columns))]


def _number(value: float | None) -> float:
    """Return a score as brute force has it: NaN for null."""
    return math.nan if value is None else value


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


Turn = Iterator[tuple["KeyRows", instants.Stream, int]]


@dataclass(slots=True)
class KeyRows:
    """A key of the sample, with its accepted rows."""

    mine: Accepted
    data: Objects
    until: int


class QueryRows:
    """A query, its rows in the tables, and how much of it has been compared. ``stored`` and ``clocks`` are those of its plan."""

    def __init__(self, stored: Stored, clocks: Clocks, query: QueryNode) -> None:
        self.stored, self.clocks, self.plan = stored, clocks, stored.plan
        self.query = query
        self.kind: QueryType = query_type(query.type)
        self.changes = stream_of(stored, query)
        self.rows: dict[Key, list[int]] = dict(self.changes.streams())
        self.results = Results(stored, query) if query.item.lasting else Reports(self.changes)
        self.finals = FinalResults(stored, query) if query.item.closes else None
        self.of_key: dict[Key, list[Key]] = {}
        for stream in self.rows:
            self.of_key.setdefault(key_of(stored.plan, query, stream), []).append(stream)
        self.logical: list[LogicalQuery | None] = list(query.asked) if query.members else [query.asked[0] if query.asked else None]
        self._at: dict[tuple[Key, int], list[int]] = {}
        for stream, rows in self.rows.items():
            for i in rows:
                self._at.setdefault((stream, self.changes.at[i]), []).append(i)
        self.streams: list[instants.Stream] = []
        self.turns: deque[Turn] = deque()
        self.trajectories = self.results.lines if isinstance(self.results, Results) else None
        self.known = self.scored = self.points = self.windows = 0
        """How many changes, scores, points of trajectories and final results have been compared, all of a stream at once."""

    def at(self, stream: Key, at: int) -> list[int]:
        """Return the rows of a stream's changes at an instant."""
        return self._at.get((stream, at), [])

    def shares(self, rows_elsewhere: int, taken: str | None) -> Iterator[Share]:
        """Yield what has been compared; ``rows_elsewhere``: the number of accepted rows of keys outside of the sample."""
        query, total = self.query, self.changes.rows.num_rows
        if query.item.rows:
            yield Share("rows", query.name, self.known, total, taken)
        if query.item.moves or (query.item.scored and type(self.kind).scores is not QueryType.scores):
            yield Share("scores", query.name, self.scored, total, taken)
        events = sum(s.rows for s in self.streams) + rows_elsewhere * len(self.logical)
        yield Share("results", query.name, sum(int(s.covered.sum()) for s in self.streams), events, taken)
        if query.item.lasting:
            if self.trajectories is not None:
                yield Share("points", query.name, self.points, self.trajectories.count, taken)
            if self.kind.has_history and self.finals is not None:
                yield Share("finals", query.name, self.windows, len(self.finals.windows), taken)
            steps = sum(len({self.changes.step[i] for i in rows}) for rows in self.rows.values())
            yield Share("steps", query.name, sum(len(s.steps) for s in self.streams), steps, taken)


class PartRows:
    """One of the job's plans with its queries: over the source's rows, or (``made``) over those that a result makes up.

    ``rows``: how many have been taken.
    """

    def __init__(self, stored: Stored, clocks: Clocks, made: StreamRows | None) -> None:
        self.stored, self.made = stored, made
        mine = clocks.part(stored)
        self.queries = [QueryRows(stored, mine, q) for q in stored.plan.queries]
        self.taken: list[Key] = []
        self.rows = 0

    @property
    def of(self) -> str | None:
        """Return the query whose result is taken; None for the source's rows."""
        return None if self.made is None else self.made.node.of

    def rows_elsewhere(self) -> int:
        """Return the number of rows of the keys that have not been taken."""
        if self.made is not None:
            return sum(self.made.count(key) for key in self.stored.until if key not in set(self.taken))
        return max(0, sum((s or 0) + 1 for s in self.stored.table("heads")["last_seq"].to_pylist()) - self.rows)
