"""The state and logic of an operator that keeps a K-skyband of pairs; a subclass finds the candidates."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from math import isqrt
from typing import Protocol

import numpy as np

from skyband.operators.base import F64, I64, NEVER, AnyArray, Arrivals, Changes, Instant, Items, State, Window
from skyband.operators.pair_rows.deletions import Deletions
from skyband.operators.pair_rows.kernels.skyband import stairs
from skyband.operators.pair_rows.kernels.tables import (
    AT,
    CAUSE,
    COUNTERS,
    FOUND,
    KEY,
    KEY_COLUMNS,
    NEWER,
    NEXT_SEQ,
    OLDER,
    POSITION,
    QUERY,
    REFILLS,
    SIGN,
    SKYBAND_CAPACITY,
    SKYBAND_LENGTH,
    SKYBAND_START,
    STEP,
    Advance,
    Bucket,
    ChangeRows,
    DeletionRows,
    Pairs,
    Progress,
    Queries,
    Settings,
    Skyband,
    Task,
    pairs_counted,
)
from skyband.operators.pair_rows.queries import PairQuery
from skyband.operators.pair_rows.windows import Windows, WindowsConfiguration, no_objects
from skyband.operators.ranges import ranges
from skyband.operators.windows import check_window, count_of, micros_of

LONG_AGO: int = -(2**62)
_NONE: I64 = np.empty(0, np.int64)


class PairConfiguration(WindowsConfiguration, Protocol):
    """The part of an operator's configuration that the logic reads."""

    @property
    def queries(self) -> tuple[PairQuery, ...]:
        """Return the queries of the state."""
        ...

    @property
    def keep_k(self) -> int:
        """Return K, the pairs kept for any window."""
        ...

    def worst_score(self, q: PairQuery) -> float:
        """Return the largest internal score the query accepts."""
        ...


def no_skyband() -> Skyband:
    """Return an empty arena."""
    return Skyband(np.empty(0), np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0))


def no_queries() -> Queries:
    """Return a table without queries."""
    none = np.empty(0, np.int64)
    return Queries(none, none, none, none, none, none, none, np.empty(0), none)


def no_progress(queries: int, keys: int, shown: int) -> Progress:
    """Return the progress of queries before their first change; ``shown``: the width of the lists shown at boundaries."""
    return Progress(
        step=np.zeros((queries, keys), np.int64), wake=np.full((queries, keys), NEVER), due=np.full((queries, keys), NEVER),
        shown_score=np.zeros((keys, shown)), shown_older=np.zeros((keys, shown), np.int64), shown_newer=np.zeros((keys, shown), np.int64),
        shown=np.zeros((queries, keys), np.int64),
    )  # fmt: skip


def no_task() -> Task:
    """Return a task without keys: its types are those that drivers are compiled for."""
    none = np.empty(0, np.int64)
    bucket = Bucket(np.empty((0, KEY_COLUMNS), np.int64), no_objects(0, 0), no_skyband(), 0)
    return Task(Settings(0, 0, 0, 0, 0, 0, 0), no_queries(), bucket, no_progress(0, 0, 0), Advance(none, none, 0, 0), none)


def places_of(regions: I64) -> tuple[I64, I64]:
    """Return (number of the region, place in the arena) of every pair of regions like those of the key table."""
    length = regions[:, SKYBAND_LENGTH]
    return np.repeat(np.arange(len(regions)), length), ranges(regions[:, SKYBAND_START], length)


def lay_out(regions: I64, number: I64) -> None:
    """Let the regions stand one after the other without room for more; ``number`` (pairs,): the region of every pair."""
    length = np.bincount(number, minlength=len(regions))
    regions[:, SKYBAND_LENGTH] = regions[:, SKYBAND_CAPACITY] = length
    regions[:, SKYBAND_START] = np.cumsum(length) - length


def starts(of_rows: I64, keys: I64) -> I64:
    """Return where the rows of each of ``keys`` start, and the end; (keys + 1,). ``of_rows``: the key of every row, sorted."""
    return np.append(np.searchsorted(of_rows, keys), len(of_rows)).astype(np.int64)


def deletion_rows(deletions: Deletions, keys: I64) -> DeletionRows:
    """Return deletions as kernels take them; ``keys`` (sorted) has the keys of all of them."""
    return DeletionRows(starts(deletions.key, keys), deletions.seq, deletions.before, deletions.time)


def sub_batch(k: int) -> int:
    """Return S = about 4 sqrt(2K), where scoring arrivals and older partners balance (docs/algorithms D2)."""
    return max(8, min(256, 4 * isqrt(2 * k)))


class PairRowsLogic(ABC):
    """Windows, skybands and steps of one bucket. The window's columns are rebuilt from the host's rows, never checkpointed."""

    def __init__(self, configuration: PairConfiguration, state: State | None) -> None:
        self.configuration = configuration
        window = configuration.window
        self.windows = self._windows()
        k = configuration.keep_k
        self.settings = Settings(k, count_of(window), micros_of(window), sub_batch(k), *self.windows.sides(configuration))
        self.queries, shown = self._query_tables()
        self.work = np.zeros(COUNTERS, np.int64)
        self.arrived = self.unusable = self.eligible = 0
        self.until = LONG_AGO
        self.skybands, self.skybands_end = no_skyband(), 0
        self.progress = no_progress(len(self.queries.k), 0, shown)
        if state is not None:
            self._restore(state)

    @abstractmethod
    def _run(self, arrivals: Arrivals, bucket: Bucket, advance: Advance) -> tuple[ChangeRows, int, Skyband, int]:
        """Take ``advance``, whose ``arrivals`` are in the windows; return change rows, their number, the skybands' arena and its end."""

    @abstractmethod
    def _unusable(self, arrivals: Arrivals) -> AnyArray:
        """Return which arrivals (n,) no pair can use; with ``between``, those of neither side may be among them."""

    @abstractmethod
    def _external(self, score: F64) -> F64:
        """Return internal scores as users write them."""

    def _windows(self) -> Windows:
        """Return the windows without objects."""
        return Windows(self.configuration.window, self.configuration.kernel)

    def _query_tables(self) -> tuple[Queries, int]:
        """Return the queries as arrays, and the width of the lists shown at boundaries."""
        queries = self.configuration.queries
        windows = [q.window.within(self.configuration.window) for q in queries]
        k = np.array([q.k for q in queries], np.int64)
        every = np.array([q.every_micros or 0 for q in queries], np.int64)
        shown = np.where(every > 0, k, 0)
        room = k + k // 2
        tables = Queries(
            k=k, window_count=np.array([count_of(w) for w in windows], np.int64),
            window_micros=np.array([micros_of(w) for w in windows], np.int64), every=every,
            list_start=np.cumsum(room) - room, list_room=room, shown_start=np.cumsum(shown) - shown,
            worst=np.array([self.configuration.worst_score(q) for q in queries], np.float64), partial=np.zeros(len(queries), np.int64),
        )  # fmt: skip
        return tables, int(shown.sum())

    def _grow(self, keys: int) -> None:
        """Make the tables hold ``keys`` keys."""
        more = self.windows.grow(keys)
        if not more:
            return
        old, new = self.progress, no_progress(len(self.queries.k), more, self.progress.shown_score.shape[1])
        by_key = ("shown_score", "shown_older", "shown_newer")
        self.progress = Progress(
            *(np.concatenate([x, y], axis=0 if name in by_key else 1) for name, x, y in zip(Progress._fields, old, new, strict=True))
        )

    def advance(self, arrivals: Arrivals, until: Instant) -> Changes:
        """Process every event < ``until``, as ``Logic.advance``. One kernel call."""
        since, due, mine, firsts = self.until, self._due(until), _NONE, _NONE
        if len(arrivals):
            self._count_unusable(arrivals)
            self._grow(int(arrivals.key[-1]) + 1)
            mine, firsts = self.windows.append(arrivals, since)
        self.until = max(since, until)
        keys = np.union1d(mine, due) if len(due) else mine
        if not len(keys):
            return Changes.empty(2)
        bucket = Bucket(self.windows.keys, self.windows.objects, self.skybands, self.skybands_end)
        advance = self._advance_of(keys, mine, firsts, since, until)
        rows, written, self.skybands, self.skybands_end = self._run(arrivals, bucket, advance)
        return self._changes(ChangeRows(rows.fields[:written], rows.score[:written]))

    def _task(self, bucket: Bucket, advance: Advance) -> Task:
        """Return what drivers take."""
        return Task(self.settings, self.queries, bucket, self.progress, advance, self.work)

    def _due(self, until: Instant) -> I64:
        """Return the keys with an expiry or a boundary before ``until``."""
        wake = self.progress.wake
        return np.flatnonzero(wake.min(axis=0) < until) if wake.size else _NONE

    def _advance_of(self, keys: I64, mine: I64, firsts: I64, since: Instant, until: Instant) -> Advance:
        """Return the ``Advance`` of ``keys``, of which ``mine`` have arrivals from the seqs ``firsts`` on."""
        first_new = self.windows.keys[keys, NEXT_SEQ]
        first_new[np.searchsorted(keys, mine)] = firsts
        return Advance(keys, first_new, since, until)

    def _count_unusable(self, arrivals: Arrivals) -> None:
        """Count the objects no pair can use (with ``between``: those of a side)."""
        bad = self._unusable(arrivals)
        between = self.configuration.between
        if between is not None:
            side = arrivals.columns[between.column]
            of_a_side = (side == self.settings.code_a) | (side == self.settings.code_b)
            bad = bad & of_a_side
        self.arrived += len(arrivals)
        self.eligible += len(arrivals) if between is None else int(np.count_nonzero(of_a_side))
        self.unusable += int(np.count_nonzero(bad))

    def _items(self, older: I64, newer: I64) -> I64:
        """Return the items (m, 2) in the order of the roles; ``newer`` as of a pair."""
        newer_seq = newer >> 1
        if self.configuration.between is None:
            return np.stack([older, newer_seq], axis=1)
        newer_is_a = (newer & 1) == 1
        return np.stack([np.where(newer_is_a, newer_seq, older), np.where(newer_is_a, older, newer_seq)], axis=1)

    def _changes(self, rows: ChangeRows) -> Changes:
        if not len(rows.score):
            return Changes.empty(2)
        order = np.lexsort((rows.fields[:, KEY], rows.fields[:, QUERY]))  # stable: steps and positions stay in order
        fields = rows.fields[order]
        return Changes(
            query=fields[:, QUERY].astype(np.int16), key=fields[:, KEY].copy(), at=fields[:, AT].copy(), step=fields[:, STEP].copy(),
            pos=fields[:, POSITION].astype(np.int32), sign=fields[:, SIGN].astype(np.int8), cause=fields[:, CAUSE].astype(np.int8),
            score=self._external(rows.score[order]), items=self._items(fields[:, OLDER], fields[:, NEWER]),
        )  # fmt: skip

    def wake(self) -> Instant | None:
        """Return the next expiry of a list's member, or the next boundary at which a query has changes."""
        wake = self.progress.wake
        least = int(wake.min()) if wake.size else NEVER
        return None if least == NEVER else least

    def _alive(self) -> tuple[I64, I64]:
        """Return (key, arena index) of every pair whose older object is alive, by key, older seq descending."""
        table = self.windows.keys
        key, at = places_of(table)
        keep = self.windows.alive(key, self.skybands.older[at], self.configuration.window, self.until)
        return key[keep], at[keep]

    def checkpoint(self) -> dict[str, AnyArray]:
        """Return skybands of alive pairs, next seqs, steps, due boundaries and shown lists. O(skyband + keys)."""
        key, at = self._alive()
        band = self.skybands
        return {
            "until": np.array([self.until], np.int64), "next": self.windows.keys[:, NEXT_SEQ].copy(),
            "sky_key": key, "sky_score": band.score[at], "sky_older": band.older[at], "sky_newer": band.newer[at],
            **self._saved_progress(),
        }  # fmt: skip

    def _restore(self, state: State) -> None:
        a = state.arrays
        self._grow(len(a["next"]))
        self.windows.restore(state.rows, a["next"], self.until)
        self.until = int(a["until"][0])
        self._restore_progress(a)
        scores = np.array(a["sky_score"], np.float64)
        lay_out(self.windows.keys, np.asarray(a["sky_key"], np.int64))
        self.skybands = Skyband(scores, np.array(a["sky_older"], np.int64), np.array(a["sky_newer"], np.int64), self._stair(state, scores))
        self.skybands_end = len(scores)

    def _saved_progress(self) -> dict[str, AnyArray]:
        """Return steps, due boundaries and shown lists as arrays of a checkpoint."""
        return {name: x.copy() for name, x in self.progress._asdict().items()}

    def _restore_progress(self, arrays: Mapping[str, AnyArray]) -> None:
        found: list[AnyArray] = [np.array(arrays[name], x.dtype) for name, x in self.progress._asdict().items()]
        self.progress = Progress(*found)

    def _stair(self, state: State, scores: F64) -> F64:
        """Return the staircase of skybands read back."""
        stair = np.empty(len(scores))
        stairs(self.settings.keep_k, self.windows.keys, scores, np.empty(self.settings.keep_k), stair)
        return stair

    def retained(self) -> tuple[I64, I64]:
        """Return the objects last shown by queries with ``every``: the window may drop them before a boundary removes them."""
        keys, seqs = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
        progress = self.progress
        for q in np.flatnonzero(self.queries.every > 0):
            first, k = int(self.queries.shown_start[q]), int(self.queries.k[q])
            key, place = np.nonzero(np.arange(k) < progress.shown[q][:, None])
            keys += [key, key]
            seqs += [progress.shown_older[key, first + place], progress.shown_newer[key, first + place] >> 1]
        return np.concatenate(keys), np.concatenate(seqs)

    def snapshot(self, key: int, k: int, window: Window, query: int = 0) -> Items:
        """Return the best k <= K pairs of any window n <= N within the query's score bounds, in rank order. O(skyband)."""
        if not 1 <= k <= self.settings.keep_k:
            raise ValueError(f"k = {k}: this state answers 1 to {self.settings.keep_k}")
        check_window(window, self.configuration.window, "snapshot")
        table = self.windows.keys
        if not 0 <= key < len(table):
            return Items(np.empty(0, np.int64), np.empty((0, 2), np.int64), np.empty(0, np.float64))
        start = int(table[key, SKYBAND_START])
        mine = slice(start, start + int(table[key, SKYBAND_LENGTH]))
        score, older, newer = self.skybands.score[mine], self.skybands.older[mine], self.skybands.newer[mine]
        alive = self.windows.alive(np.full(len(score), key, np.int64), older, window, self.until)
        keep = alive & (score <= self.queries.worst[query])
        best = self._best(Pairs(score[keep], older[keep], newer[keep]), k)
        return Items(np.full(len(best.score), key, np.int64), self._items(best.older, best.newer), self._external(best.score))

    def _best(self, pairs: Pairs, k: int) -> Pairs:
        """Return the result for ``k``, in rank order, of all pairs there are."""
        best = np.lexsort((-pairs.newer, -pairs.older, pairs.score))[:k]
        return Pairs(pairs.score[best], pairs.older[best], pairs.newer[best])

    def skyband(self) -> Items:
        """Return every key's skyband, grouped by key, older seq descending."""
        key, at = self._alive()
        band = self.skybands
        return Items(key, self._items(band.older[at], band.newer[at]), self._external(band.score[at]))

    def _work_done(self) -> dict[str, int]:
        """Scored and skipped pairs, candidates and refills since the last call."""
        return {**pairs_counted(self.work), "candidates": int(self.work[FOUND]), "refills": int(self.work[REFILLS])}

    def counters(self) -> dict[str, int]:
        """Return objects, the work done, and unusable objects per query since the last call."""
        found = {"objects": self.arrived, **self._work_done()}
        for i in range(len(self.configuration.queries)):
            found |= {f"unusable:{i}": self.unusable, f"asked:{i}": self.eligible}
        self.arrived = self.unusable = self.eligible = 0
        self.work[:] = 0
        return found
