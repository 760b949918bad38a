"""Top-k and threshold results by definition: the whole window is looked at after every event (docs/semantics 1-6, 10).

Slow and obvious on purpose; shares no code with the operators.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tests.oracles.events import changes, instants

Row = tuple[Any, ...]
"""A change: (query, key, at, step, pos, sign, cause, seq, score)."""


@dataclass(frozen=True)
class Event:
    """One accepted row of a key in order: an object (``target`` None) or the deletion of seq ``target``."""

    time: int
    score: float = math.nan
    target: int | None = None


@dataclass(frozen=True)
class Query:
    """What is asked: ``accept(score)`` and k (None: all that are accepted)."""

    k: int | None
    count: int | None
    micros: int | None
    largest_first: bool = True
    every: int | None = None
    accept: Callable[[float], bool] = lambda s: True


class Watched:
    """A query over one key's events."""

    def __init__(self, events: Sequence[Event], query: Query) -> None:
        self.events, self.query = events, query
        self.objects = [(e.time, e.score) for e in events if e.target is None]
        self.newest, self.deleted = -1, set[int]()

    def enter(self, row: int) -> None:
        target = self.events[row].target
        if target is None:
            self.newest += 1
        else:
            self.deleted.add(target)

    def alive(self, seq: int, t: int) -> bool:
        q = self.query
        in_count = q.count is None or seq > self.newest - q.count
        return in_count and (q.micros is None or t < self.objects[seq][0] + q.micros)

    def rank(self, x: tuple[float, int]) -> tuple[float, int]:
        return (-x[0] if self.query.largest_first else x[0], -x[1])

    def result(self, t: int) -> list[tuple[float, int]]:
        now = [(self.objects[s][1] + 0.0, s) for s in range(self.newest + 1) if s not in self.deleted and self.alive(s, t)]
        return sorted((x for x in now if not math.isnan(x[0]) and self.query.accept(x[0])), key=self.rank)[: self.query.k]

    def left(self, item: tuple[float, int], t: int) -> str:
        return "delete" if item[1] in self.deleted else "displaced" if self.alive(item[1], t) else "expiry"

    def brought(self, item: tuple[float, int], row: int) -> bool:
        return self.events[row].target is None and item[1] == self.newest


def replay(query_index: int, key: int, events: Sequence[Event], query: Query, until: int) -> list[Row]:
    """All changes of one query and key up to ``until`` (exclusive)."""
    watched = Watched(events, query)
    found = instants([e.time for e in events], [t for t, _ in watched.objects], query.micros, query.every, until)
    return [(query_index, key, *rest, seq, score) for *rest, (score, seq) in changes(found, query.every, watched)]
