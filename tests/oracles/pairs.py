"""Top-k pairs by definition: every pair of alive objects is looked at after every event (docs/semantics 1-9).

Slow and obvious on purpose; shares no code with the operators. ``score(a, b)`` is a plain function of two objects' attributes that gives a
float, NaN for a pair that is no candidate (the predicate included).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from tests.oracles.events import changes, instants

Attributes = dict[str, Any]
Row = tuple[Any, ...]
"""A change: (query, key, at, step, pos, sign, cause, first seq, second seq, score)."""


@dataclass(frozen=True)
class Query:
    """What is asked of one key's stream; ``count`` and ``micros`` are the effective ends of the window (None: no such end)."""

    k: int
    count: int | None
    micros: int | None
    min_score: float = -math.inf
    max_score: float = math.inf
    every: int | None = None
    max_per_object: int | None = None


@dataclass(frozen=True)
class Stream:
    """One key's objects in order, and what a pair is. ``sides``: (column, a, b), or None for (older, newer)."""

    times: Sequence[int]
    objects: Sequence[Attributes]
    score: Callable[[Attributes, Attributes], float]
    maximise: bool
    sides: tuple[str, Any, Any] | None = None
    events: Sequence[tuple[int, int | None]] | None = None
    """(time, seq of the deleted object or None) of all rows, if some are deletions; ``times`` and ``objects`` are of the others."""

    def pair(self, older: int, newer: int) -> tuple[float, int, int]:
        """(score, first seq, second seq) of the pair's item; the score is NaN if the two cannot pair."""
        x, y = self.objects[older], self.objects[newer]
        if self.sides is None:
            return self.score(x, y) + 0.0, older, newer
        column, a, b = self.sides
        if x[column] == a and y[column] == b:
            return self.score(x, y) + 0.0, older, newer
        if x[column] == b and y[column] == a:
            return self.score(y, x) + 0.0, newer, older
        return math.nan, older, newer


Pair = tuple[float, int, int, int, int]
"""(score, older, newer, first, second)."""


def rank(stream: Stream, p: Pair) -> tuple[float, int, int]:
    """Smaller is better."""
    return (-p[0] if stream.maximise else p[0], -p[1], -p[2])


def all_pairs(stream: Stream, min_score: float = -math.inf, max_score: float = math.inf) -> list[Pair]:
    """All candidate pairs of the whole stream, in rank order."""
    found = []
    for newer in range(len(stream.times)):
        for older in range(newer):
            s, first, second = stream.pair(older, newer)
            if not math.isnan(s) and min_score <= s <= max_score:
                found.append((s, older, newer, first, second))
    return sorted(found, key=lambda p: rank(stream, p))


def first_alive(stream: Any, query: Any, t: int, arrived: int) -> int:
    """Smallest seq alive at instant t when ``arrived`` objects have come: by ``times``, ``count`` and ``micros``."""
    first = 0 if query.count is None else max(0, arrived - query.count)
    if query.micros is not None:
        while first < arrived and t >= stream.times[first] + query.micros:
            first += 1
    return first


def taken(ranked: Iterable[Any], query: Any) -> list[Any]:
    """The first k of pairs in rank order, passing over those with an object that is in ``max_per_object`` of them already."""
    most = getattr(query, "max_per_object", None)
    if most is None:
        return list(islice(ranked, query.k))
    found: list[Any] = []
    for p in ranked:
        if len(found) == query.k:
            break
        if all(sum(o in q[1:3] for q in found) < most for o in p[1:3]):
            found.append(p)
    return found


class Watched:
    """A query over one key's stream; ``pairs``: its candidates in rank order, whose second and third are the older and newer seq."""

    def __init__(self, stream: Any, query: Any, pairs: Sequence[Any]) -> None:
        self.stream, self.query, self.pairs = stream, query, pairs
        self.arrived, self.deleted = 0, set[int]()
        self.events = events_of(stream)

    def enter(self, row: int) -> None:
        target = self.events[row][1]
        if target is None:
            self.arrived += 1
        else:
            self.deleted.add(target)

    def first(self, t: int) -> int:
        return first_alive(self.stream, self.query, t, self.arrived)

    def result(self, t: int) -> list[Pair]:
        first = self.first(t)
        now = (p for p in self.pairs if p[2] < self.arrived and p[1] >= first and not self.deleted.intersection(p[1:3]))
        return taken(now, self.query)

    def left(self, item: Pair, t: int) -> str:
        return "delete" if self.deleted.intersection(item[1:3]) else "expiry" if item[1] < self.first(t) else "displaced"

    def brought(self, item: Pair, row: int) -> bool:
        return self.events[row][1] is None and item[2] == self.arrived - 1


def events_of(stream: Any) -> Sequence[tuple[int, int | None]]:
    """(time, seq of the deleted object or None) of all rows."""
    given: Sequence[tuple[int, int | None]] | None = stream.events
    return [(t, None) for t in stream.times] if given is None else given


def deleted_at(stream: Any, arrived: int) -> set[int]:
    """The objects deleted before the object of seq ``arrived`` comes; all that are deleted if there is none."""
    found, objects = set[int](), 0
    for _, target in events_of(stream):
        if target is not None:
            found.add(target)
        elif objects == arrived:
            break
        else:
            objects += 1
    return found


def replay(query_index: int, key: int, stream: Stream, query: Query, until: int) -> list[Row]:
    """All changes of one query up to ``until`` (exclusive)."""
    found = instants([t for t, _ in events_of(stream)], stream.times, query.micros, query.every, until)
    return [
        (query_index, key, *rest, p[3], p[4], p[0])
        for *rest, p in changes(found, query.every, Watched(stream, query, all_pairs(stream, query.min_score, query.max_score)))
    ]


def matched(stream: Any, query: Any, pairs: Sequence[Any], until: int) -> Iterator[tuple[int, int, int, Any]]:
    """(at, step, pos, pair): of every arrival its ``k`` best of ``pairs`` (as of ``Watched``) with older objects of its window."""
    step = 0
    for newer, t in enumerate(stream.times):
        first = first_alive(stream, query, t, newer + 1)
        gone = deleted_at(stream, newer)
        best = [p for p in pairs if p[2] == newer and p[1] >= first and p[1] not in gone][: query.k]
        step += bool(best)
        for pos, p in enumerate(best if t < until else []):
            yield t, step, pos, p


def matches(query_index: int, key: int, stream: Stream, query: Query, until: int) -> list[Row]:
    """The ``k`` best pairs of every arriving object with older ones of its window, reported once."""
    pairs = all_pairs(stream, query.min_score, query.max_score)
    return [(query_index, key, t, step, pos, 1, "arrival", p[3], p[4], p[0]) for t, step, pos, p in matched(stream, query, pairs, until)]


def snapshot(stream: Stream, query: Query, t: int, arrived: int) -> list[tuple[int, int, float]]:
    """(first, second, score) of the query's result at instant t when ``arrived`` objects have come, in rank order."""
    first = first_alive(stream, query, t, arrived)
    gone = deleted_at(stream, arrived)
    pairs = all_pairs(stream, query.min_score, query.max_score)
    best = [p for p in pairs if p[2] < arrived and p[1] >= first and not gone.intersection(p[1:3])]
    return [(p[3], p[4], p[0]) for p in taken(best, query)]


def skyband(stream: Stream, k: int, window: Query, t: int, arrived: int) -> set[tuple[int, int, float]]:
    """Alive pairs with fewer than ``k`` dominators: pairs of better rank that end no earlier. ``window``: its ends and score bounds."""
    first = first_alive(stream, window, t, arrived)
    alive = [p for p in all_pairs(stream, window.min_score, window.max_score) if p[2] < arrived and p[1] >= first]
    return {(p[3], p[4], p[0]) for i, p in enumerate(alive) if sum(q[1] >= p[1] for q in alive[:i]) < k}
