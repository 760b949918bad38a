"""The moving part of ``TopKPairs``: arenas of one bucket of keys, handed to the kernels once per ``advance``."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from math import isqrt
from typing import Any

import numpy as np

from skyband.operators import jit
from skyband.operators.base import F64, I64, NEVER, NULL, AnyArray, Arrivals, Changes, Instant, Items, State, Window
from skyband.operators.expressions.canonical import attributes
from skyband.operators.expressions.compile import count_type, matrix, score_type
from skyband.operators.topk_pairs.configuration import TopKPairsConfiguration
from skyband.operators.topk_pairs.kernels.arena import append
from skyband.operators.topk_pairs.kernels.drive import drive
from skyband.operators.topk_pairs.kernels.skyband import stairs
from skyband.operators.topk_pairs.kernels.tables import (
    AT,
    CAUSE,
    COUNTERS,
    FIRST_ALIVE,
    FIRST_HELD,
    FOUND,
    KEY,
    KEY_COLUMNS,
    NEWER,
    NEXT_SEQ,
    OLDER,
    POSITION,
    QUERY,
    REFILLS,
    REGION_CAPACITY,
    REGION_START,
    SCORED,
    SIGN,
    SKYBAND_CAPACITY,
    SKYBAND_LENGTH,
    SKYBAND_START,
    STEP,
    Advance,
    Bucket,
    ChangeRows,
    Objects,
    Progress,
    Queries,
    Settings,
    Skyband,
)
from skyband.operators.windows import check_window, count_of, micros_of

LONG_AGO: int = -(2**62)


def no_objects(floats: int, integers: int) -> Objects:
    """An arena without room, of so many attributes."""
    return Objects(np.empty((floats, 0)), np.empty((integers, 0), np.int64), np.empty(0, np.int64))


def no_skyband() -> Skyband:
    """An arena without room."""
    return Skyband(np.empty(0), np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0))


def no_progress(queries: int, keys: int, shown: int) -> Progress:
    """Nothing told yet; ``shown`` = width of the lists shown at boundaries."""
    return Progress(
        step=np.zeros((queries, keys), np.int64), wake=np.full((queries, keys), NEVER), due=np.full((queries, keys), NEVER),
        shown_score=np.zeros((keys, shown)), shown_older=np.zeros((keys, shown), np.int64), shown_newer=np.zeros((keys, shown), np.int64),
        shown=np.zeros((queries, keys), np.int64),
    )  # fmt: skip


@cache
def driver() -> Callable[..., Any]:
    """``drive``, compiled once for all scoring expressions: its signature is the types of its tables."""
    if not jit.HAVE_NUMBA:
        return drive
    jit.prepare_numba()
    from numba import typeof

    none = np.empty(0, np.int64)
    queries = Queries(none, none, none, none, none, none, np.empty(0))
    bucket = Bucket(np.empty((0, KEY_COLUMNS), np.int64), no_objects(0, 0), no_skyband(), 0)
    tables = (Settings(0, 0, 0, 0, 0, 0, 0), queries, bucket, no_progress(0, 0, 0), Advance(none, none, 0, 0), none)
    signature = (count_type(), score_type(), count_type(), score_type(), *map(typeof, tables))
    compiled: Callable[..., Any] = jit.jit(signature)(drive)
    return compiled


def sub_batch(k: int) -> int:
    """Arrivals taken together: about 4 sqrt(2K), where their own pairs and those with older partners balance (docs/algorithms.md D2)."""
    return max(8, min(256, 4 * isqrt(2 * k)))


class PairsLogic:
    """Windows, skybands and steps of one bucket. The window's columns are rebuilt from the host's rows, never checkpointed."""

    def __init__(self, configuration: TopKPairsConfiguration, state: State | None) -> None:
        self.configuration = configuration
        kernel, between = configuration.kernel, configuration.between
        as_b = (kernel.count_block, kernel.score_block)
        as_a = as_b if between is None else (kernel.swapped.count_block, kernel.swapped.score_block)
        self.scoring = (*as_a, *as_b)
        self.float_names, self.int_names = kernel.float_names, kernel.int_names
        side_row, codes = (-1, (0, 0)) if between is None else (self.int_names.index(between.column), configuration.side_codes())
        window = configuration.window
        self.settings = Settings(
            configuration.keep_k, count_of(window), micros_of(window), sub_batch(configuration.keep_k), side_row, *codes
        )
        self.queries, shown = self._query_tables()
        self.work = np.zeros(COUNTERS, np.int64)
        self.arrived = self.unusable = 0
        self.until = LONG_AGO
        self.keys = np.zeros((0, KEY_COLUMNS), np.int64)
        self.objects, self.objects_end = no_objects(len(self.float_names), len(self.int_names)), 0
        self.skybands, self.skybands_end = no_skyband(), 0
        self.progress = no_progress(len(configuration.queries), 0, shown)
        if state is not None:
            self._restore(state)

    def _query_tables(self) -> tuple[Queries, int]:
        """The queries as arrays, and the width of the lists shown at boundaries."""
        queries = self.configuration.queries
        windows = [q.window.within(self.configuration.window) for q in queries]
        k = np.array([q.k for q in queries], np.int64)
        every = np.array([q.every_micros or 0 for q in queries], np.int64)
        shown = np.where(every > 0, k, 0)
        tables = Queries(
            k=k, window_count=np.array([count_of(w) for w in windows], np.int64),
            window_micros=np.array([micros_of(w) for w in windows], np.int64), every=every,
            list_start=np.cumsum(k) - k, shown_start=np.cumsum(shown) - shown,
            worst=np.array([self.configuration.worst_score(q) for q in queries], np.float64),
        )  # fmt: skip
        return tables, int(shown.sum())

    def _grow(self, keys: int) -> None:
        """Make the tables hold ``keys`` keys."""
        more = keys - len(self.keys)
        if more <= 0:
            return
        self.keys = np.concatenate([self.keys, np.zeros((more, KEY_COLUMNS), np.int64)])
        old, new = self.progress, no_progress(len(self.queries.k), more, self.progress.shown_score.shape[1])
        by_key = ("shown_score", "shown_older", "shown_newer")
        self.progress = Progress(
            *(np.concatenate([x, y], axis=0 if name in by_key else 1) for name, x, y in zip(Progress._fields, old, new, strict=True))
        )

    def _append(self, rows: Arrivals, anywhere: bool = False) -> tuple[I64, I64]:
        """Put rows into the window's arena; returns the keys they belong to and the seq of each key's first row.

        ``anywhere``: keys start at the seqs of their first rows. Raises ValueError if a key's rows do not follow on what is there.
        """
        key = np.asarray(rows.key, np.int64)
        start = np.flatnonzero(np.concatenate([[True], key[1:] != key[:-1]]))
        stop = np.concatenate([start[1:], [len(key)]])
        which = key[start]
        self._grow(int(which[-1]) + 1)
        seq = np.asarray(rows.seq, np.int64)
        if anywhere:
            for column in (FIRST_HELD, NEXT_SEQ, FIRST_ALIVE):
                self.keys[which, column] = seq[start]
        if not np.array_equal(self.keys[which, NEXT_SEQ], seq[start]):
            raise ValueError("arrivals do not continue the seqs of their keys")
        incoming = Objects(
            matrix(rows.columns, self.float_names, np.float64, len(key)), matrix(rows.columns, self.int_names, np.int64, len(key)),
            np.ascontiguousarray(rows.time, np.int64),
        )  # fmt: skip
        self.objects, self.objects_end = append(
            self.keys, which, start, stop, incoming, self.objects, self.objects_end, self.until - 1,
            self.settings.window_count, self.settings.window_micros,
        )  # fmt: skip
        return which, seq[start]

    def advance(self, arrivals: Arrivals, until: Instant) -> Changes:
        """See ``Logic.advance``. One kernel call; about N vectorised scores per arrival, O(k) per change."""
        wake = self.progress.wake
        keys = due = np.flatnonzero(wake.min(axis=0) < until) if wake.size else np.empty(0, np.int64)
        first_new = self.keys[due, NEXT_SEQ]
        if len(arrivals):
            self._count_unusable(arrivals)
            keys, first_new = mine, firsts = self._append(arrivals)
            if len(due):
                keys = np.union1d(mine, due)
                first_new = self.keys[keys, NEXT_SEQ]
                first_new[np.searchsorted(keys, mine)] = firsts
        if not len(keys):
            self.until = max(self.until, until)
            return Changes.empty(2)
        bucket = Bucket(self.keys, self.objects, self.skybands, self.skybands_end)
        rows, written, self.skybands, self.skybands_end = driver()(
            *self.scoring, self.settings, self.queries, bucket, self.progress, Advance(keys, first_new, self.until, until), self.work
        )
        self.until = max(self.until, until)
        return self._changes(ChangeRows(rows.fields[:written], rows.score[:written]))

    def _count_unusable(self, arrivals: Arrivals) -> None:
        """Objects with a null in an attribute of the score (of their side's attributes, with ``between``)."""
        between = self.configuration.between
        bad = np.zeros(len(arrivals), bool)
        for c in attributes(self.configuration.scoring):
            x = arrivals.columns[c.name]
            bad |= np.isnan(x) if c.kind == "float" else x == NULL
        if between is not None:
            side = arrivals.columns[between.column]
            bad &= (side == self.settings.code_a) | (side == self.settings.code_b)
        self.arrived += len(arrivals)
        self.unusable += int(np.count_nonzero(bad))

    def _external(self, score: F64) -> F64:
        out: F64 = (-score if self.configuration.direction == "max" else score) + 0.0
        return out

    def _items(self, older: I64, newer: I64) -> I64:
        """Shape (m, 2), in the order of the roles; ``newer`` as of a pair."""
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
        """The next expiry of a list's member, or the next boundary of a query with something to tell."""
        wake = self.progress.wake
        least = int(wake.min()) if wake.size else NEVER
        return None if least == NEVER else least

    def _alive(self) -> tuple[I64, I64]:
        """(key, arena index) of every pair of every skyband whose older object is alive; grouped by key, older seq descending."""
        length = self.keys[:, SKYBAND_LENGTH]
        key = np.repeat(np.arange(len(self.keys)), length)
        at = np.arange(len(key)) - np.repeat(np.cumsum(length) - length, length) + self.keys[key, SKYBAND_START]
        keep = self._alive_older(key, self.skybands.older[at], self.configuration.window)
        return key[keep], at[keep]

    def _alive_older(self, key: I64, older: I64, window: Window) -> AnyArray:
        """Which older objects are alive now in ``window``."""
        w = window.within(self.configuration.window)
        keep: AnyArray = older >= np.maximum(self.keys[key, NEXT_SEQ] - count_of(w), self.keys[key, FIRST_HELD])
        if w.micros is not None:
            held = np.flatnonzero(keep)
            position = older[held] - self.keys[key[held], FIRST_HELD] + self.keys[key[held], REGION_START]
            keep[held] = self.objects.times[position] > self.until - 1 - w.micros
        return keep

    def checkpoint(self) -> dict[str, AnyArray]:
        """Skybands of alive pairs, next seqs, steps, due boundaries and shown lists. O(skyband + keys)."""
        key, at = self._alive()
        told, band = self.progress, self.skybands
        return {
            "until": np.array([self.until], np.int64), "next": self.keys[:, NEXT_SEQ].copy(),
            "sky_key": key, "sky_score": band.score[at], "sky_older": band.older[at], "sky_newer": band.newer[at],
            "step": told.step.copy(), "wake": told.wake.copy(), "due": told.due.copy(), "shown_score": told.shown_score.copy(),
            "shown_older": told.shown_older.copy(), "shown_newer": told.shown_newer.copy(), "shown": told.shown.copy(),
        }  # fmt: skip

    def _restore(self, state: State) -> None:
        a = state.arrays
        self._grow(len(a["next"]))
        if len(state.rows):
            self._append(state.rows, anywhere=True)
        held = self.keys[:, REGION_CAPACITY] > 0
        if not np.array_equal(self.keys[held, NEXT_SEQ], a["next"][held]):
            raise ValueError("the window's rows do not end where the state does")
        for column in (FIRST_HELD, NEXT_SEQ, FIRST_ALIVE):
            self.keys[~held, column] = a["next"][~held]
        self.until = int(a["until"][0])
        told: list[AnyArray] = [np.array(a[name], empty.dtype) for name, empty in zip(Progress._fields, self.progress, strict=True)]
        self.progress = Progress(*told)
        scores = np.array(a["sky_score"], np.float64)
        self.keys[:, SKYBAND_LENGTH] = np.bincount(np.asarray(a["sky_key"], np.int64), minlength=len(self.keys))
        self.keys[:, SKYBAND_CAPACITY] = self.keys[:, SKYBAND_LENGTH]
        self.keys[:, SKYBAND_START] = np.cumsum(self.keys[:, SKYBAND_LENGTH]) - self.keys[:, SKYBAND_LENGTH]
        stair = np.empty(len(scores))
        stairs(self.settings.keep_k, self.keys, scores, np.empty(self.settings.keep_k), stair)
        self.skybands = Skyband(scores, np.array(a["sky_older"], np.int64), np.array(a["sky_newer"], np.int64), stair)
        self.skybands_end = len(scores)

    def retained(self) -> tuple[I64, I64]:
        """Objects of the lists last shown by queries with ``every``: they may leave the window before a boundary takes them back."""
        keys, seqs = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
        told = self.progress
        for q in np.flatnonzero(self.queries.every > 0):
            first, k = int(self.queries.shown_start[q]), int(self.queries.k[q])
            key, place = np.nonzero(np.arange(k) < told.shown[q][:, None])
            keys += [key, key]
            seqs += [told.shown_older[key, first + place], told.shown_newer[key, first + place] >> 1]
        return np.concatenate(keys), np.concatenate(seqs)

    def snapshot(self, key: int, k: int, window: Window, query: int = 0) -> Items:
        """The best k <= K pairs of any window n <= N within the query's score bounds, in rank order. O(skyband)."""
        if not 1 <= k <= self.settings.keep_k:
            raise ValueError(f"k = {k}: this state answers 1 to {self.settings.keep_k}")
        check_window(window, self.configuration.window, "snapshot")
        if not 0 <= key < len(self.keys):
            return Items(np.empty(0, np.int64), np.empty((0, 2), np.int64), np.empty(0, np.float64))
        start = int(self.keys[key, SKYBAND_START])
        mine = slice(start, start + int(self.keys[key, SKYBAND_LENGTH]))
        score, older, newer = self.skybands.score[mine], self.skybands.older[mine], self.skybands.newer[mine]
        keep = self._alive_older(np.full(len(score), key, np.int64), older, window) & (score <= self.queries.worst[query])
        score, older, newer = score[keep], older[keep], newer[keep]
        best = np.lexsort((-newer, -older, score))[:k]
        return Items(np.full(len(best), key, np.int64), self._items(older[best], newer[best]), self._external(score[best]))

    def skyband(self) -> Items:
        """Every key's skyband, grouped by key, older seq descending."""
        key, at = self._alive()
        band = self.skybands
        return Items(key, self._items(band.older[at], band.newer[at]), self._external(band.score[at]))

    def counters(self) -> dict[str, int]:
        """Objects, scored pairs, candidates, refills, and unusable objects per query since the last call."""
        scored, candidates, refills = (int(self.work[i]) for i in (SCORED, FOUND, REFILLS))
        found = {"objects": self.arrived, "scored": scored, "candidates": candidates, "refills": refills}
        found.update({f"unusable:{i}": self.unusable for i in range(len(self.configuration.queries))})
        self.arrived = self.unusable = 0
        self.work[:] = 0
        return found
