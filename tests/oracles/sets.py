"""Similar sets by definition: every pair of alive sets is compared after every event, in exact arithmetic (docs/semantics 1-9).

Slow and obvious on purpose; shares no code with the operators. Similarities are ranked as fractions (cosine as its square), and become
floats only when they are reported.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from tests.oracles.events import changes, instants
from tests.oracles.pairs import Watched, deleted_at, events_of, first_alive, matched

Attributes = dict[str, Any]
Row = tuple[Any, ...]
"""A change: (query, key, at, step, pos, sign, cause, first seq, second seq, score)."""


def rank_of(similarity: str, x: frozenset[int], y: frozenset[int]) -> Fraction | None:
    """What two sets are ranked by, smaller is better; None: they are no pair."""
    o, a, b = len(x & y), len(x), len(y)
    if not a or not b:
        return None
    if similarity == "hamming":
        return Fraction(len(x ^ y))
    if o == 0:
        return None
    return -{
        "jaccard": Fraction(o, len(x | y)), "cosine": Fraction(o * o, a * b), "dice": Fraction(2 * o, a + b), "overlap": Fraction(o),
    }[similarity]  # fmt: skip


def score_of(similarity: str, rank: Fraction) -> float:
    """What is reported of it."""
    if similarity == "hamming":
        return float(rank)
    return math.sqrt(float(-rank)) if similarity == "cosine" else float(-rank)


@dataclass(frozen=True)
class Query:
    """What is asked of one key's stream; ``count`` and ``micros`` are the effective ends of the window (None: no such end)."""

    k: int
    count: int | None
    micros: int | None
    bound: float | None = None
    every: int | None = None


@dataclass(frozen=True)
class Stream:
    """One key's objects in order, and what a pair is. ``sides``: (column, a, b), or None for (older, newer)."""

    times: Sequence[int]
    objects: Sequence[Attributes]
    sets: Sequence[frozenset[int]]
    similarity: str
    where: Callable[[Attributes, Attributes], bool]
    sides: tuple[str, Any, Any] | None = None
    events: Sequence[tuple[int, int | None]] | None = None
    """(time, seq of the deleted object or None) of all rows, if some are deletions; the other fields are of the objects."""

    def pair(self, older: int, newer: int) -> tuple[int, int] | None:
        """(first seq, second seq) of the pair's item, or None if the two cannot pair."""
        first, second = older, newer
        if self.sides is not None:
            column, a, b = self.sides
            found = (self.objects[older][column], self.objects[newer][column])
            if found not in ((a, b), (b, a)):
                return None
            if found == (b, a):
                first, second = newer, older
        return (first, second) if self.where(self.objects[first], self.objects[second]) else None


Pair = tuple[Fraction, int, int, int, int]
"""(what it is ranked by, older, newer, first, second)."""


def all_pairs(stream: Stream, bound: float | None = None) -> list[Pair]:
    """All candidate pairs of the whole stream with a score that reaches ``bound``, in rank order."""
    found = []
    for newer in range(len(stream.times)):
        for older in range(newer):
            rank, item = rank_of(stream.similarity, stream.sets[older], stream.sets[newer]), stream.pair(older, newer)
            if rank is None or item is None:
                continue
            score = score_of(stream.similarity, rank)
            if bound is None or (score <= bound if stream.similarity == "hamming" else score >= bound):
                found.append((rank, older, newer, *item))
    return sorted(found, key=lambda p: (p[0], -p[1], -p[2]))


def replay(query_index: int, key: int, stream: Stream, query: Query, until: int) -> list[Row]:
    """All changes of one query up to ``until`` (exclusive)."""
    found = instants([t for t, _ in events_of(stream)], stream.times, query.micros, query.every, until)
    score = stream.similarity
    return [
        (query_index, key, *rest, p[3], p[4], score_of(score, p[0]))
        for *rest, p in changes(found, query.every, Watched(stream, query, all_pairs(stream, query.bound)))
    ]


def matches(query_index: int, key: int, stream: Stream, query: Query, until: int) -> list[Row]:
    """The ``k`` best pairs of every arriving set with older ones of its window, reported once."""
    score, pairs = stream.similarity, all_pairs(stream, query.bound)
    return [
        (query_index, key, t, step, pos, 1, "arrival", p[3], p[4], score_of(score, p[0]))
        for t, step, pos, p in matched(stream, query, pairs, until)
    ]


def snapshot(stream: Stream, query: Query, t: int, arrived: int) -> list[tuple[int, int, float]]:
    """(first, second, score) of the query's result at instant t when ``arrived`` objects have come, in rank order."""
    first, gone = first_alive(stream, query, t, arrived), deleted_at(stream, arrived)
    best = [p for p in all_pairs(stream, query.bound) if p[2] < arrived and p[1] >= first and not gone.intersection(p[1:3])]
    return [(p[3], p[4], score_of(stream.similarity, p[0])) for p in best[: query.k]]


def skyband(stream: Stream, k: int, window: Query, t: int, arrived: int) -> set[tuple[int, int, float]]:
    """Alive pairs with fewer than ``k`` dominators: pairs of better rank that end no earlier. ``window``: its ends and score bound."""
    first = first_alive(stream, window, t, arrived)
    alive = [p for p in all_pairs(stream, window.bound) if p[2] < arrived and p[1] >= first]
    return {
        (p[3], p[4], score_of(stream.similarity, p[0])) for i, p in enumerate(alive) if sum(q[1] >= p[1] for q in alive[:i]) < k
    }  # fmt: skip
