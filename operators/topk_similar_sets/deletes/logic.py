"""The logic of ``TopKSimilarSetsDeletes``: lists of best pairs, and a join of the window for a list that deletions leave too short."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from skyband.operators import jit
from skyband.operators.base import I64, NEVER, AnyArray, Arrivals, Changes, Instant, Items, State, Window
from skyband.operators.expressions.compile import score_type
from skyband.operators.pair_rows.deletions import Deletions, loaded, no_deletions, saved, split
from skyband.operators.pair_rows.kernels.tables import KEY_COLUMNS, NEXT_SEQ, Advance, ChangeRows, DeletionRows, Pairs, Queries, Settings
from skyband.operators.pair_rows.logic import deletion_rows, no_progress, no_queries
from skyband.operators.pair_rows.windows import no_objects
from skyband.operators.ranges import ranges
from skyband.operators.set_index.kernels.tables import ArrivingSets, Tokens, new_index
from skyband.operators.single_rows.tombstones import Tombstones
from skyband.operators.topk_similar_sets.configuration import TopKSimilarSetsConfiguration
from skyband.operators.topk_similar_sets.deletes.kernels import Best, JoinedWindow, Results, drive, join_window
from skyband.operators.topk_similar_sets.logic import SimilarSetsLogic
from skyband.operators.windows import check_window, count_of

PLACES: tuple[int, int] = (4, 16)
"""The list of a query has 4k + 16 places. A full list is cut to half of them, and a list with fewer than k pairs is filled to half."""

_NONE = np.empty(0, np.int64)
_PLACES = ("score", "older", "newer")
_BY_QUERY = tuple(name for name in Best._fields if name not in _PLACES)


def no_best(queries: int, keys: int, places: int) -> Best:
    """Return empty lists, ``places`` for each key, which have all pairs there are."""
    none = np.full((queries, keys), -1)
    return Best(
        np.zeros((keys, places)), np.zeros((keys, places), np.int64), np.zeros((keys, places), np.int64),
        np.zeros((queries, keys), np.int64), np.full((queries, keys), NEVER), np.full((queries, keys), np.inf), none, none.copy(),
    )  # fmt: skip


def _pairs(size: int) -> Pairs:
    return Pairs(np.empty(size), np.empty(size, np.int64), np.empty(size, np.int64))


@cache
def driver() -> Callable[..., Any]:
    """Return ``drive``, compiled once for all conditions: its signature is the types of its tables."""
    if not jit.HAVE_NUMBA:
        return drive
    from numba import typeof

    results = Results(no_queries(), no_best(0, 0, 0), no_progress(0, 0, 0), np.empty((0, 0), np.int64), _pairs(0))
    tables = (
        Settings(0, 0, 0, 0, 0, 0, 0), 0, 0, results, np.empty((0, KEY_COLUMNS), np.int64), no_objects(0, 0), Advance(_NONE, _NONE, 0, 0),
        DeletionRows(_NONE, _NONE, _NONE, _NONE), ArrivingSets(Tokens(_NONE, _NONE), _NONE, 0), new_index(1, 1, 1, 1, 0), _NONE,
        _NONE,
    )  # fmt: skip
    compiled: Callable[..., Any] = jit.jit((score_type(), score_type(), *map(typeof, tables)))(drive)
    return compiled


@cache
def joiner() -> Callable[..., Any]:
    """Return ``join_window``, compiled once for all conditions."""
    if not jit.HAVE_NUMBA:
        return join_window
    from numba import typeof

    tables = (
        Settings(0, 0, 0, 0, 0, 0, 0), 0, 0, np.empty((0, KEY_COLUMNS), np.int64), no_objects(0, 0), JoinedWindow(0, 0, 0, 0.0), 0,
        new_index(1, 1, 1, 1, 0), _pairs(0), _NONE,
    )  # fmt: skip
    compiled: Callable[..., Any] = jit.jit((score_type(), score_type(), *map(typeof, tables)))(join_window)
    return compiled


class DeletableSetsLogic(SimilarSetsLogic):
    """O(list) per arrival and deletion beside the search of an arrival; O(window) searches where a list has too few pairs left."""

    def __init__(self, configuration: TopKSimilarSetsConfiguration, state: State | None) -> None:
        self.best = no_best(len(configuration.queries), 0, 0)
        self.shown_deleted = np.zeros((0, 0), np.int64)
        self.tombs, self.largest = Tombstones.empty(), 0
        kernel = configuration.kernel
        self.tests = (kernel.swapped.score_block, kernel.score_block)
        """The pairs' condition for an object that is a, and for one that is b."""
        super().__init__(configuration, state)

    def _query_tables(self) -> tuple[Queries, int]:
        """Return the queries with more room in their lists, but not for more pairs than a window has."""
        tables, shown = super()._query_tables()
        factor, more = PLACES
        count = np.minimum(tables.window_count, 1 << 20)
        room = np.minimum(factor * tables.k + more, np.maximum(1, count * (count - 1) // 2))
        return tables._replace(list_room=room, list_start=np.cumsum(room) - room), shown

    def _grow(self, keys: int) -> None:
        more = max(0, keys - len(self.windows.keys))
        super()._grow(keys)
        new = no_best(len(self.queries.k), more, int(self.queries.list_room.sum()))
        if not self.best.length.size:
            self.best, self.shown_deleted = new, np.zeros((more, self.progress.shown_score.shape[1]), np.int64)
        elif more:
            joined: list[AnyArray] = [
                np.concatenate([x, y], axis=0 if name in _PLACES else 1) for name, x, y in zip(Best._fields, self.best, new, strict=True)
            ]
            self.best = Best(*joined)
            self.shown_deleted = np.concatenate([self.shown_deleted, np.zeros((more, self.shown_deleted.shape[1]), np.int64)])

    def advance(self, arrivals: Arrivals, until: Instant) -> Changes:
        """See ``Logic.advance``. One kernel call."""
        due, deletions = self._due(until), no_deletions()
        mine = firsts = _NONE
        if len(arrivals):
            self._grow(int(arrivals.key[-1]) + 1)
            arrivals, deletions = split(arrivals, self.windows.keys[:, NEXT_SEQ])
            self.tombs = self.tombs.with_(Tombstones(deletions.key, deletions.seq, deletions.time))
        if len(arrivals):
            self._count_unusable(arrivals)
            mine, firsts = self.windows.append(arrivals, self.until)
        keys = np.unique(np.concatenate([due, mine, deletions.key]))
        since, self.until = self.until, max(self.until, until)
        if not len(keys):
            return Changes.empty(2)
        return self._drive(arrivals, deletions, self._advance_of(keys, mine, firsts, since, until))

    def _drive(self, arrivals: Arrivals, deletions: Deletions, advance: Advance) -> Changes:
        tokens, largest = self.sets.tokens(arrivals) if len(arrivals) else (Tokens(np.zeros(1, np.int64), _NONE), 0)
        self.largest = max(self.largest, largest)
        results = Results(self.queries, self.best, self.progress, self.shown_deleted, _pairs(int(self.queries.k.max())))
        rows, written, self.sets.index = driver()(
            *self.tests, self.settings, self.sets.function, self.windows.until_row, results, self.windows.keys, self.windows.objects,
            advance, deletion_rows(deletions, advance.keys),
            ArrivingSets(tokens, self.sets.rows_of(arrivals, advance.keys), self.largest), self.sets.index, self.work, self.sets.counters,
        )  # fmt: skip
        return self._changes(ChangeRows(rows.fields[:written], rows.score[:written]))

    def checkpoint(self) -> dict[str, AnyArray]:
        """Return lists, next seqs, steps, due boundaries, shown lists and deletions. O(keys + lists)."""
        self.tombs = self.tombs.alive(self.windows.keys[:, NEXT_SEQ], self.until, self.configuration.window)
        key, place = self._entries()
        return {
            "until": np.array([self.until], np.int64), "next": self.windows.keys[:, NEXT_SEQ].copy(),
            **self._saved_progress(),
            **{f"best_{name}": getattr(self.best, name).copy() for name in _BY_QUERY}, "best_key": key, "best_place": place,
            **{f"best_{name}": getattr(self.best, name)[key, place] for name in _PLACES}, "shown_deleted": self.shown_deleted.copy(),
            **saved(self.tombs),
        }  # fmt: skip

    def _restore(self, state: State) -> None:
        a = state.arrays
        self._grow(len(a["next"]))
        self.windows.restore(state.rows, np.asarray(a["next"], np.int64), self.until)
        self.until = int(a["until"][0])
        self._restore_progress(a)
        by_query: dict[str, Any] = {name: np.array(a[f"best_{name}"], getattr(self.best, name).dtype) for name in _BY_QUERY}
        self.best, self.shown_deleted = self.best._replace(**by_query), np.array(a["shown_deleted"])
        for name in _PLACES:
            getattr(self.best, name)[a["best_key"], a["best_place"]] = a[f"best_{name}"]
        self.sets.restore(self.settings, self.windows, state.rows, self.until)
        self.largest = int(np.diff(state.rows.ragged[self.sets.column].start).max(initial=0)) if len(state.rows) else 0
        self.tombs = loaded(a)
        self.windows.delete(self.tombs.key, self.tombs.seq, 0)

    def snapshot(self, key: int, k: int, window: Window, query: int = 0) -> Items:
        """Return the best k pairs of any window n <= N within the query's score bounds, in rank order. Joins the window."""
        if not 1 <= k <= self.settings.keep_k:
            raise ValueError(f"k = {k}: this state answers 1 to {self.settings.keep_k}")
        check_window(window, self.configuration.window, "snapshot")
        if not 0 <= key < len(self.windows.keys):
            return Items(_NONE, np.empty((0, 2), np.int64), np.empty(0))
        own = window.within(self.configuration.window)
        newest, pairs = int(self.windows.keys[key, NEXT_SEQ]) - 1, _pairs(k)
        seqs = np.arange(max(0, newest + 1 - min(count_of(own), newest + 1)), newest + 1)
        alive = self.windows.alive(np.full(len(seqs), key), seqs, window, self.until)
        asked = JoinedWindow(key, newest + 1 - int(np.count_nonzero(alive)), newest, float(self.queries.worst[query]))
        n = joiner()(
            *self.tests, self.settings, self.sets.function, self.windows.until_row, self.windows.keys, self.windows.objects, asked,
            self.largest, self.sets.index, pairs, self.sets.counters.copy(),
        )  # fmt: skip
        return Items(np.full(n, key), self._items(pairs.older[:n], pairs.newer[:n]), self._external(pairs.score[:n]))

    def _entries(self) -> tuple[I64, I64]:
        """Return the keys and the places of all entries of lists, by key. O(keys + lists)."""
        length = self.best.length.T.ravel()  # by key, then by query
        entry = np.repeat(np.arange(len(length)), length)
        queries = len(self.queries.k)
        return entry // queries, ranges(np.tile(self.queries.list_start, len(length) // queries), length)

    def skyband(self) -> Items:
        """Return the pairs of all lists that are alive, each once, grouped by key."""
        key, place = self._entries()
        rows = np.stack([key, self.best.older[key, place], self.best.newer[key, place]], axis=1)
        rows, first = np.unique(rows, axis=0, return_index=True)
        score = self.best.score[key, place][first]
        alive = self.windows.alive(rows[:, 0], rows[:, 1], self.configuration.window, self.until)
        rows, score = rows[alive], score[alive]
        return Items(rows[:, 0].copy(), self._items(rows[:, 1], rows[:, 2]), self._external(score))
