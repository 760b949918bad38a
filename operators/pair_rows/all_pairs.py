"""The logic of operators that keep all pairs within bounds of their score: a table of pairs, from which changes are read (``life``)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

import numpy as np

from skyband.operators.base import (
    ARRIVAL,
    BOUNDARY,
    DELETE,
    EXPIRY,
    F64,
    I64,
    NEVER,
    AnyArray,
    Arrivals,
    Changes,
    Instant,
    Items,
    State,
    Window,
)
from skyband.operators.pair_rows.deletions import Deletions, ending, no_deletions
from skyband.operators.pair_rows.kernels.tables import NEXT_SEQ
from skyband.operators.pair_rows.queries import BoundedPairQuery
from skyband.operators.pair_rows.search import PartnerQuery, PartnerSearch
from skyband.operators.pair_rows.windows import Windows
from skyband.operators.windows import UNBOUNDED, check_window, count_of, micros_of

# When a pair is in a query's result: from its newer object's arrival until the older one leaves the query's window.
#
# Both instants are known from the pair alone, except the end in a count window, which is a later arrival. So the changes of a time range
# are read from a table of pairs, without a replay. With boundaries, both instants move up to the next boundary (docs/semantics 3).

NOT_IN: int = -(2**62)
"""The end of a pair in a query whose result never contains it."""


class Alive(NamedTuple):
    """Pairs that are in a result or still have to leave one. All of shape (pairs,), except ``end``."""

    key: I64
    """int64."""
    older: I64
    """int64: seq."""
    newer: I64
    """int64: twice the newer seq, plus 1 if that one is the pair's ``a``."""
    score: F64
    """float64: internal."""
    newer_time: I64
    """int64: time of the newer object."""
    older_time: I64
    """int64: time of the older object."""
    end: I64
    """int64 (pairs, queries): when the pair leaves the query's window, or is deleted; ``NEVER`` while unknown, ``NOT_IN`` if never in the
    result."""
    deleted: I64
    """int64 (pairs, 1): when one of its objects was deleted, or ``NEVER``; (pairs, 0) if nothing can be deleted."""


class Lives(NamedTuple):
    """The queries as arrays (queries,). The last one is the state itself: the largest window, without changes."""

    window_count: I64
    """int64: objects of the window, or ``UNBOUNDED``."""
    window_micros: I64
    """int64: microseconds of the window, or ``UNBOUNDED``."""
    worst: F64
    """float64: the largest internal score."""
    every: I64
    """int64: microseconds between boundaries, or 0."""


def no_pairs(queries: int, deletes: bool) -> Alive:
    """Return a table without pairs."""
    none = np.empty(0, np.int64)
    return Alive(none, none, none, np.empty(0), none, none, np.empty((0, queries), np.int64), np.empty((0, int(deletes)), np.int64))


def new_pairs(key: I64, older: I64, newer: I64, score: F64, windows: Windows, lives: Lives) -> Alive:
    """Return a table of pairs just found, with the ends that are known. Deletions are not known yet."""
    newer_time, older_time = windows.times(key, newer >> 1), windows.times(key, older)
    end = np.empty((len(key), len(lives.window_count)), np.int64)
    for q, (count, micros, worst) in enumerate(
        zip(lives.window_count.tolist(), lives.window_micros.tolist(), lives.worst.tolist(), strict=True)
    ):
        by_time = older_time + micros if micros < UNBOUNDED else np.full(len(key), NEVER)
        good = (score <= worst) & ((newer >> 1) - older < count) & (newer_time < by_time)
        end[:, q] = np.where(good, by_time, NOT_IN)
    deleted = np.full((len(key), int(windows.until_row >= 0)), NEVER)
    return Alive(key, older, newer, score, newer_time, older_time, end, deleted)


def set_count_ends(pairs: Alive, keys: I64, first_new: I64, windows: Windows, lives: Lives, next_seq: I64) -> None:
    """Set the ends in count windows caused by the arrivals of ``keys`` from seq ``first_new`` on; ``next_seq`` is of all keys."""
    since = np.full(len(next_seq), NEVER)
    since[keys] = first_new
    for q in np.flatnonzero(lives.window_count < UNBOUNDED).tolist():
        pusher = pairs.older + lives.window_count[q]
        out = np.flatnonzero((pusher >= since[pairs.key]) & (pusher < next_seq[pairs.key]) & (pairs.end[:, q] != NOT_IN))
        pairs.end[out, q] = np.minimum(pairs.end[out, q], windows.times(pairs.key[out], pusher[out]))


def set_deleted(pairs: Alive, number: I64, deletions: Deletions) -> None:
    """Note for every pair the one of ``deletions`` that ends it, ``number`` (pairs,), or ``NEVER`` (``deletions.ending``)."""
    which = np.flatnonzero((number < NEVER) & (pairs.deleted[:, 0] == NEVER))
    at = deletions.time[number[which]]
    pairs.deleted[which, 0] = at
    ends = pairs.end[which]
    pairs.end[which] = np.where(ends == NOT_IN, NOT_IN, np.minimum(ends, at[:, None]))


def boundary(instant: I64, every: int) -> I64:
    """Return the first boundary at ``instant`` or later; ``NEVER`` and ``NOT_IN`` stay."""
    fixed = (instant == NEVER) | (instant == NOT_IN)
    rounded: I64 = np.where(fixed, instant, -(-np.where(fixed, 0, instant) // every) * every)
    return rounded


def shown_span(pairs: Alive, lives: Lives, q: int) -> tuple[I64, I64, AnyArray]:
    """Return when every pair enters and leaves the result of query q, and whether it is ever shown; (pairs,) each."""
    entry, end = pairs.newer_time, pairs.end[:, q]
    shown: AnyArray = end != NOT_IN  # it may enter and leave within one instant
    if lives.every[q] > 0:
        entry, end = boundary(entry, int(lives.every[q])), boundary(end, int(lives.every[q]))
        shown = entry < end
    return entry, end, shown


def still_needed(pairs: Alive, lives: Lives, until: int) -> AnyArray:
    """Return a mask of the pairs in the state's window or with a change at ``until`` or later."""
    keep = np.zeros(len(pairs.key), bool)
    for q in range(len(lives.window_count)):
        _, end, shown = shown_span(pairs, lives, q)
        keep |= shown & (end >= until)
    return keep


def wake(pairs: Alive, lives: Lives, until: int) -> int:
    """Return the next instant from ``until`` on with a change that needs no arrival, or ``NEVER``."""
    least = NEVER
    for q in range(len(lives.window_count) - 1):
        entry, end, shown = shown_span(pairs, lives, q)
        for instant in (entry, end):
            later = instant[shown & (instant >= until)]
            least = min(least, int(later.min(initial=NEVER)))
    return least


LONG_AGO: int = -(2**62)


class AllPairsConfiguration(Protocol):
    """The part of an operator's configuration that the logic reads."""

    @property
    def queries(self) -> tuple[BoundedPairQuery, ...]:
        """Return the queries of the state."""
        ...

    @property
    def window(self) -> Window:
        """Return the largest window."""
        ...

    def worst_score(self, q: BoundedPairQuery) -> float:
        """Return the largest internal score the query accepts."""
        ...

    def external(self, score: F64) -> F64:
        """Return internal scores as users know them."""
        ...


def partner_queries(configuration: AllPairsConfiguration) -> list[PartnerQuery]:
    """Return what is searched for: all partners, for the loosest bound and the largest window."""
    return [PartnerQuery(0, configuration.window, max(configuration.worst_score(q) for q in configuration.queries))]


class AllPairsLogic:
    """Finds pairs once, for the loosest bound and the largest window; every query shows its part of them."""

    def __init__(
        self, configuration: AllPairsConfiguration, search: Callable[[Sequence[PartnerQuery]], PartnerSearch], state: State | None
    ) -> None:
        self.configuration = configuration
        queries, window = configuration.queries, configuration.window
        worst = [configuration.worst_score(q) for q in queries]
        self.search = search(partner_queries(configuration))
        windows = [*(q.window.within(window) for q in queries), window]
        self.lives = Lives(
            np.array([count_of(w) for w in windows], np.int64), np.array([micros_of(w) for w in windows], np.int64),
            np.array([*worst, max(worst)], np.float64), np.array([*(q.every_micros or 0 for q in queries), 0], np.int64),
        )  # fmt: skip
        self.until = LONG_AGO
        self.pairs = no_pairs(len(windows), self.search.deletes)
        self.step = np.zeros((len(queries), 0), np.int64)
        if state is not None:
            a = state.arrays
            self.search.restore(state.rows, a, self.until)
            self.until, self.step = int(a["until"][0]), np.array(a["step"], np.int64)
            deleted = a["deleted"] if self.search.deletes else np.empty((len(a["key"]), 0))
            fields = zip(Alive._fields, self.pairs, strict=True)
            saved: list[AnyArray] = [np.array({**a, "deleted": deleted}[name], empty.dtype) for name, empty in fields]
            self.pairs = Alive(*saved)

    def advance(self, arrivals: Arrivals, until: Instant) -> Changes:
        """Process every event < ``until``, as ``Logic.advance``. A search per arrival, and O(pairs) per call and query."""
        since, self.until = self.until, max(self.until, until)
        if len(arrivals):
            more = self.search.grow(int(arrivals.key[-1]) + 1)
            self.step = np.concatenate([self.step, np.zeros((len(self.step), more), np.int64)], axis=1)
        arrivals, deletions = self.search.split(arrivals) if len(arrivals) else (arrivals, no_deletions())
        if len(arrivals):
            keys, first, found = self.search.find(arrivals, deletions, since, until)
            windows = self.search.windows
            new = new_pairs(found.key, found.older, found.newer, found.score, windows, self.lives)
            longer: list[AnyArray] = [np.concatenate([x, y]) for x, y in zip(self.pairs, new, strict=True)]
            self.pairs = Alive(*longer)
            set_count_ends(self.pairs, keys, first, windows, self.lives, windows.keys[:, NEXT_SEQ])
        else:
            self.search.delete(deletions)
        ended_by = ending(deletions, self.pairs.key, self.pairs.older, self.pairs.newer >> 1)
        if len(deletions.key):
            set_deleted(self.pairs, ended_by, deletions)
        changes = self._changes(since, until, deletions, ended_by)
        keep = still_needed(self.pairs, self.lives, self.until)
        stay: list[AnyArray] = [x[keep] for x in self.pairs]
        self.pairs = Alive(*stay)
        return changes

    def _changes(self, since: Instant, until: Instant, deletions: Deletions, ended_by: I64) -> Changes:
        """Return the changes of the table's pairs in [since, until); ``ended_by``: the deletion that ends each pair, or ``NEVER``."""
        pairs, rows = self.pairs, []
        for q in range(len(self.lives.window_count) - 1):
            entry, end, shown = shown_span(pairs, self.lives, q)
            for instant, sign in ((end, -1), (entry, 1)):
                which = np.flatnonzero(shown & (instant >= since) & (instant < until))
                rows.append(self._rows(q, which, instant[which], sign, deletions, ended_by[which]))
        query, which, at, order, signs, cause = (np.concatenate([row[c] for row in rows]) for c in range(6))
        if not len(which):
            return Changes.empty(2)
        key, older, newer, score = pairs.key[which], pairs.older[which], pairs.newer[which], pairs.score[which]
        by = np.lexsort((-newer, -older, score, signs, order, at, key, query))
        query, at, order, signs, cause, key = (x[by] for x in (query, at, order, signs, cause, key))
        group = np.ones(len(query), bool)
        group[1:] = (query[1:] != query[:-1]) | (key[1:] != key[:-1])
        event = group.copy()
        event[1:] |= (at[1:] != at[:-1]) | (order[1:] != order[:-1])
        number = np.cumsum(event)
        steps = number - (number[group] - 1)[np.cumsum(group) - 1] + self.step[query, key]
        last = np.append(group[1:], True)
        self.step[query[last], key[last]] = steps[last]
        return Changes(
            query=query.astype(np.int16), key=key, at=at, step=steps,
            pos=(np.arange(len(query)) - np.flatnonzero(event)[number - 1]).astype(np.int32), sign=signs.astype(np.int8),
            cause=cause.astype(np.int8), score=self.configuration.external(score[by]), items=self.search.items(older[by], newer[by]),
        )  # fmt: skip

    def _rows(self, q: int, which: I64, at: I64, sign: int, deletions: Deletions, ended_by: I64) -> tuple[I64, I64, I64, I64, I64, I64]:
        """(query, pair, at, place within the instant, sign, cause) of changes of the pairs ``which``.

        Expiries by time come first, then arrivals by seq, with each one's deletions after it.
        """
        pairs, every = self.pairs, bool(self.lives.every[q] > 0)
        order, between = np.zeros(len(which), np.int64), 1 + len(deletions.key)
        cause = np.full(len(which), EXPIRY if sign < 0 else BOUNDARY if every else ARRIVAL)
        if sign < 0 and every and self.search.deletes:
            cause[pairs.deleted[which, 0] <= at] = DELETE
        elif sign > 0 and not every:
            order = (pairs.newer[which] >> 1) * between
        elif not every:
            by_time = at == pairs.older_time[which] + self.lives.window_micros[q]
            pushed_by = pairs.older[which] + self.lives.window_count[q]
            order = np.where(by_time, -1, pushed_by * between)
            if len(deletions.key):
                gone = np.flatnonzero((ended_by < NEVER) & ~by_time)
                gone = gone[pairs.deleted[which[gone], 0] == at[gone]]
                gone = gone[pushed_by[gone] >= deletions.before[ended_by[gone]]]
                order[gone] = (deletions.before[ended_by[gone]] - 1) * between + 1 + ended_by[gone]
                cause[gone] = DELETE
        return np.full(len(which), q), which, at, order, np.full(len(which), sign), cause

    def wake(self) -> Instant | None:
        """Return the next expiry by time of a shown pair, or the next boundary with a change."""
        least = wake(self.pairs, self.lives, self.until)
        return None if least == NEVER else least

    def checkpoint(self) -> dict[str, AnyArray]:
        """Return the table of pairs, next seqs, steps and deletions. O(pairs + keys)."""
        fixed = {"until": np.array([self.until], np.int64), "next": self.search.windows.keys[:, NEXT_SEQ].copy(), "step": self.step.copy()}
        pairs = {name: x.copy() for name, x in self.pairs._asdict().items() if name != "deleted" or self.search.deletes}
        return fixed | pairs | self.search.saved(self.until)

    def retained(self) -> tuple[I64, I64]:
        """Return the objects of pairs that a query with ``every`` shows, which may leave the window before a boundary."""
        shown = np.zeros(len(self.pairs.key), bool)
        for q in np.flatnonzero(self.lives.every > 0).tolist():
            _, end, shown_here = shown_span(self.pairs, self.lives, q)
            shown |= shown_here & (end >= self.until)
        key = self.pairs.key[shown]
        return np.concatenate([key, key]), np.concatenate([self.pairs.older[shown], self.pairs.newer[shown] >> 1])

    def snapshot(self, key: int, k: int, window: Window, query: int = 0) -> Items:
        """Return the best k pairs of any window n <= N within the query's bound, in rank order. O(pairs)."""
        if k < 1:
            raise ValueError(f"k = {k}: at least 1")
        check_window(window, self.configuration.window, "snapshot")
        pairs = self.pairs
        mine = np.flatnonzero((pairs.key == key) & (pairs.score <= self.lives.worst[query]) & (pairs.deleted == NEVER).all(axis=1))
        mine = mine[self.search.windows.alive(pairs.key[mine], pairs.older[mine], window, self.until)]
        mine = mine[np.lexsort((-pairs.newer[mine], -pairs.older[mine], pairs.score[mine]))[:k]]
        return self._items(mine)

    def skyband(self) -> Items:
        """Return all pairs of the largest window, grouped by key."""
        pairs = self.pairs
        alive = self.search.windows.alive(pairs.key, pairs.older, self.configuration.window, self.until)
        alive = np.flatnonzero(alive & (pairs.deleted == NEVER).all(axis=1))
        return self._items(alive[np.argsort(pairs.key[alive], kind="stable")])

    def _items(self, which: I64) -> Items:
        pairs = self.pairs
        items = self.search.items(pairs.older[which], pairs.newer[which])
        return Items(pairs.key[which], items, self.configuration.external(pairs.score[which]))

    def counters(self) -> dict[str, int]:
        """Return the counters of the search."""
        return self.search.counters(len(self.configuration.queries))
