"""The pairs of a window by definition: every object with every other, as columns of pairs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

import numpy as np
import numpy.typing as npt

from skyband.framework.plan.model import QueryNode
from skyband.framework.queries.protocol import Question
from skyband.framework.verify.brute_force.expressions import Objects, Values, text_number
from skyband.framework.verify.brute_force.objects import Found, window_of
from skyband.framework.verify.brute_force.objects import Objects as Data
from skyband.operators.base import Window

I64 = npt.NDArray[np.int64]
F64 = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]

BLOCK: Final = 1 << 13
"""Pairs that are compared in one go: their columns fit into a processor's cache."""


class Compare(Protocol):
    """What a query type says of pairs of objects."""

    def __call__(self, a: I64, b: I64) -> tuple[F64, F64]:
        """Return what ranks each pair (the smallest first) and its score, both NaN where the query admits none. ``a``, ``b``: seqs."""


@dataclass(frozen=True, slots=True)
class Pairs:
    """Pairs as columns: seqs by age and by role, what ranks them (the smallest first), their scores."""

    older: I64
    newer: I64
    a: I64
    rank: F64
    score: F64

    def take(self, which: I64 | Bools | slice) -> Pairs:
        """The pairs at these places."""
        return Pairs(self.older[which], self.newer[which], self.a[which], self.rank[which], self.score[which])

    def ordered(self) -> Pairs:
        """The pairs in rank order: of equal ones the larger older seq first, then the larger newer seq (docs/semantics 6)."""
        return self.take(np.lexsort((-(self.older << 32 | self.newer), self.rank)))

    def found(self) -> Found:
        """(items in the order of the query's roles, score) of each."""
        b = self.older + self.newer - self.a
        return [((x, y), s) for x, y, s in zip(self.a.tolist(), b.tolist(), self.score.tolist(), strict=True)]


def joined(parts: list[Pairs]) -> Pairs:
    """All pairs of ``parts``."""
    if not parts:
        none = np.empty(0, np.int64)
        return Pairs(none, none, none, np.empty(0), np.empty(0))
    return Pairs(*(np.concatenate([getattr(p, n) for p in parts]) for n in ("older", "newer", "a", "rank", "score")))


def first_pairs(question: Question, count: int | None, make: Callable[[Question], Compare]) -> Found | None:
    """Return the first ``count`` pairs of the window within the query's bounds of scores, in rank order. None if that is too much.

    All pairs that are ever in a window together are ranked once, if there is room for that: the result at an instant is the first of them
    whose objects are both in the window then. Else every pair of the window is compared again.
    """
    query, data = question.query, question.data
    first, end, at = window_of(query, query.window, data, question.at)
    least, most = _bounds(query)
    alive = data.deleted > at
    ranking = _ranking(question, make)
    if ranking is not None:
        return _first_of(ranking, first, end, alive, count, least, most).found()
    if not question.work.take((end - first) ** 2 // 2):
        return None
    compare, best = make(question), joined([])
    for block in blocks(question, compare, first, end, np.full(end, first)):
        good = (block.score >= least) & (block.score <= most) & alive[block.older] & alive[block.newer]
        if count is not None and len(best.rank) == count:
            good &= block.rank <= best.rank[-1]
        if good.any():
            best = joined([best, block.take(good)]).ordered().take(slice(count))
        if question.work.late():
            return None
    return best.found()


def blocks(question: Question, compare: Compare, first: int, end: int, low: I64) -> Iterator[Pairs]:
    """The admitted pairs whose newer object x has ``first`` <= x < ``end``, with the older ones from ``low[x]`` on; some at a time."""
    op: Any = question.plan.operators[question.query.operator].inner
    sides = None if op.between is None else _sides(question, op.between)
    at = first
    while at < end:
        # As many newer objects as make a block, at least one.
        ahead = min(end, at + 4096)
        sizes = np.cumsum(np.arange(at, ahead) - low[at:ahead])
        stop = at + max(1, int(np.searchsorted(sizes, BLOCK, side="right")))
        newer = np.repeat(np.arange(at, stop), np.arange(at, stop) - low[at:stop])
        begins = np.repeat(np.concatenate([[0], sizes[: stop - at - 1]]), np.arange(at, stop) - low[at:stop])
        older = np.arange(len(newer)) - begins + low[newer]
        if sides is None:
            yield _admitted(compare, older, newer, older)
        else:
            is_a, is_b = sides
            for mine, a in ((is_a[older] & is_b[newer], older), (is_b[older] & is_a[newer], newer)):
                yield _admitted(compare, older[mine], newer[mine], a[mine])
        at = stop


def _admitted(compare: Compare, older: I64, newer: I64, a: I64) -> Pairs:
    rank, score = compare(a, older + newer - a)
    pairs = Pairs(older, newer, a, rank, score)
    there = ~np.isnan(rank)
    return pairs if there.all() else pairs.take(there)


def pairs_of(question: Question, x: int, first: int, compare: Compare) -> Pairs:
    """The admitted pairs of object ``x`` with the older ones from ``first`` on that the query's bounds admit, in rank order."""
    low = np.zeros(x + 1, np.int64)
    low[x] = first
    found = joined(list(blocks(question, compare, x, x + 1, low)))
    least, most = _bounds(question.query)
    return found.take((found.score >= least) & (found.score <= most)).ordered()


def item_scores(question: Question, items: Sequence[tuple[Any, ...]], compare: Compare) -> list[float]:
    """The score of each of ``items``; NaN if it is no pair that the query admits."""
    a, b = (np.array([int(item[n]) for item in items], np.int64) for n in (0, 1))
    op: Any = question.plan.operators[question.query.operator].inner
    good = a < b
    if op.between is not None:
        is_a, is_b = _sides(question, op.between)
        good = is_a[a] & is_b[b] & (a != b)
    score = compare(a, b)[1]
    least, most = _bounds(question.query)
    found: list[float] = np.where(good & (score >= least) & (score <= most), score, np.nan).tolist()
    return found


def _bounds(query: QueryNode) -> tuple[float, float]:
    least = -np.inf if query.min_score is None else query.min_score
    return least, np.inf if query.max_score is None else query.max_score


def _ranking(question: Question, make: Callable[[Question], Compare]) -> Pairs | None:
    """All admitted pairs that are in a window of the operator's queries together, in rank order; None if there is no room for them."""
    data, work = question.data, question.work
    windows = {q.window for q in question.plan.queries if q.operator == question.query.operator} | {question.query.window}
    name = ("ranking", question.query.operator, frozenset(windows))

    def sized() -> tuple[I64, bool]:
        low = _lows(data, windows)
        pairs = int((np.arange(len(low)) - low).sum())
        return low, data.room.take(pairs)

    low, fits = data.once((*name, "fits"), sized)
    if not fits:
        return None
    parts: list[Pairs] = data.once((*name, "parts"), list)
    done: list[int] = data.once((*name, "done"), lambda: [0])
    compare = make(question)
    # What has been compared is kept if time is up, and the rest comes later.
    while done[0] < len(low):
        stop = min(len(low), done[0] + 256)
        if work.late():
            return None
        parts += blocks(question, compare, done[0], stop, low)
        done[0] = stop

    def ranked() -> Pairs:
        found = joined(parts).ordered()
        parts.clear()
        return found

    return data.once(name, ranked)


def _lows(data: Data, windows: set[Window]) -> I64:
    """For every object the oldest one that is in one of ``windows`` when it comes."""
    time = data.every.time
    n = len(time)
    low: I64 = np.arange(n)
    for window in windows:
        mine = np.zeros(n, np.int64)
        if window.micros:
            mine = np.searchsorted(time, time - window.micros, side="right").astype(np.int64)
        if window.count:
            mine = np.maximum(mine, np.arange(n) + 1 - window.count)
        low = np.minimum(low, mine)
    return low


def _first_of(ranking: Pairs, first: int, end: int, alive: Bools, count: int | None, least: float, most: float) -> Pairs:
    """The first ``count`` pairs of a ranking with both objects in ``first`` <= seq < ``end`` and ``alive``, and scores within bounds."""
    found: list[Pairs] = []
    have, at, size = 0, 0, 4096
    while at < len(ranking.rank) and (count is None or have < count):
        part = ranking.take(slice(at, at + size))
        part = part.take((part.older >= first) & (part.newer < end) & (part.score >= least) & (part.score <= most))
        part = part.take(alive[part.older] & alive[part.newer])
        found.append(part)
        have, at, size = have + len(part.rank), at + size, size * 2
    return joined(found).take(slice(count))


def _sides(question: Question, between: Any) -> tuple[Bools, Bools]:
    """Which objects stand on side a, and which on side b."""
    side = whole(question)[between.column]
    is_a, is_b = (side.valid & (side.value == _side(v)) for v in (between.a, between.b))
    return is_a, is_b


def _side(value: str | int | bool) -> int | bool:
    return text_number(value) if isinstance(value, str) else value


def whole(question: Question) -> Objects:
    """The columns of all objects."""
    return question.data.values(0, len(question.data.every.time))


def some(objects: Objects, which: I64) -> Objects:
    """The columns of some objects. A column is taken when it is first asked for: an expression reads few of them."""
    return _Taken(objects, which)


class _Taken(dict[str, Values]):
    def __init__(self, objects: Objects, which: I64) -> None:
        super().__init__()
        self._objects, self._which = objects, which

    def __missing__(self, name: str) -> Values:
        of = self._objects[name]
        self[name] = found = Values(of.value[self._which], of.valid[self._which])
        return found
