"""The rows of queries in the tables beside those of a key's source: what is compared, and how much of it has been."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

from skyband.framework.plan.model import LogicalQuery, QueryNode
from skyband.framework.queries.protocol import QueryType
from skyband.framework.queries.registry import query_type
from skyband.framework.verify.brute_force import instants
from skyband.framework.verify.brute_force.objects import Accepted, Objects
from skyband.framework.verify.brute_force.results import Reports, Results
from skyband.framework.verify.brute_force.stream_rows import StreamRows
from skyband.framework.verify.replay.clocks import Clocks
from skyband.framework.verify.replay.final_results import FinalResults
from skyband.framework.verify.replay.replay import stream_of
from skyband.framework.verify.shares import Share
from skyband.framework.verify.stored import Key, Stored, key_of

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
