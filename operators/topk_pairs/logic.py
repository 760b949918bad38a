"""The moving part of ``TopKPairs``: arenas of one bucket of keys, handed to the kernels once per ``advance``."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from math import isqrt
from typing import TYPE_CHECKING, Any

import numpy as np

from skyband.operators import jit
from skyband.operators.base import F64, I64, NEVER, NULL, AnyArray, Arrivals, Changes, Instant, Items, State, Window
from skyband.operators.expressions.canonical import attributes
from skyband.operators.expressions.compile import count_type, matrix, score_type
from skyband.operators.topk_pairs.kernels.arena import BASE, CAP, KM_WIDTH, LO, NEXT, OFF, SCAP, SLEN, SOFF, append
from skyband.operators.topk_pairs.kernels.drive import drive
from skyband.operators.topk_pairs.kernels.skyband import stairs
from skyband.operators.windows import check_window, count_of, micros_of, within

if TYPE_CHECKING:
    from skyband.operators.topk_pairs.operator import TopKPairs

LONG_AGO: int = -(2**62)


@cache
def driver() -> Callable[..., Any]:
    """``drive``, compiled once for all scoring expressions."""
    if not jit.HAVE_NUMBA:
        return drive
    jit.prepare_numba()
    from numba import types

    i, f = types.int64, types.float64
    i1, i2, f1, f2 = i[::1], i[:, ::1], f[::1], f[:, ::1]
    count, score = count_type(), score_type()
    signature = (
        count, score, count, score, i2, f1, i, i, i, i, i, i, i, f2, i2, i1, i2, f1, i1, i1, f1, i, i1, i1, i2, i2, i2, f2, i2, i2, i2,
        i, i, i1,
    )  # fmt: skip
    compiled: Callable[..., Any] = jit.jit(signature)(drive)
    return compiled


def sub_batch(k: int) -> int:
    """Arrivals taken together: about 4 sqrt(2K), where candidates within and outside of the sub-batch balance (docs/algorithms.md D2)."""
    return max(8, min(256, 4 * isqrt(2 * k)))


class PairsLogic:
    """Windows, skybands and steps of one bucket. The window's columns are rebuilt from the host's rows, never checkpointed."""

    def __init__(self, op: TopKPairs, state: State | None) -> None:
        self.op = op
        kernel = op.kernel
        self.direct = (kernel.count_block, kernel.score_block)
        self.swapped = self.direct if op.between is None else (kernel.swapped.count_block, kernel.swapped.score_block)
        self.floats, self.ints = kernel.float_names, kernel.int_names
        self.side_row = -1 if op.between is None else self.ints.index(op.between.column)
        self.codes = (0, 0) if op.between is None else op.side_codes()
        self.size = sub_batch(op.keep_k)
        self.qi, self.qf, shown = self._query_tables()
        self.work = np.zeros(3, np.int64)
        self.arrived = self.unusable = 0
        self.until = LONG_AGO
        nq = len(op.queries)
        self.km = np.zeros((0, KM_WIDTH), np.int64)
        self.fcols, self.icols = np.empty((len(self.floats), 0)), np.empty((len(self.ints), 0), np.int64)
        self.times, self.end = np.empty(0, np.int64), 0
        self.ks, self.ku = np.empty(0), np.empty(0)
        self.ko, self.kn, self.sky_end = np.empty(0, np.int64), np.empty(0, np.int64), 0
        self.step, self.wake_at, self.due, self.em = (np.empty((nq, 0), np.int64) for _ in range(4))
        self.es, self.eo, self.en = np.empty((0, shown)), np.empty((0, shown), np.int64), np.empty((0, shown), np.int64)
        if state is not None:
            self._restore(state)

    def _query_tables(self) -> tuple[I64, F64, int]:
        """``qi``, ``qf`` of ``pairs_drive``, and the width of the shown lists."""
        rows, at, shown = [], 0, 0
        for q in self.op.queries:
            w = within(q.window, self.op.window)
            every = q.every_micros or 0
            rows.append([q.k, count_of(w), micros_of(w), every, at, shown])
            at += q.k
            shown += q.k if every else 0
        return np.array(rows, np.int64), np.array([self.op.worst_score(q) for q in self.op.queries], np.float64), shown

    def _grow(self, keys: int) -> None:
        have = len(self.km)
        if keys <= have:
            return
        more = keys - have
        self.km = np.concatenate([self.km, np.zeros((more, KM_WIDTH), np.int64)])
        nq = len(self.qi)
        self.step, self.em = (np.concatenate([x, np.zeros((nq, more), np.int64)], axis=1) for x in (self.step, self.em))
        self.wake_at, self.due = (np.concatenate([x, np.full((nq, more), NEVER)], axis=1) for x in (self.wake_at, self.due))
        width = self.es.shape[1]
        self.es = np.concatenate([self.es, np.zeros((more, width))])
        self.eo, self.en = (np.concatenate([x, np.zeros((more, width), np.int64)]) for x in (self.eo, self.en))

    def _append(self, rows: Arrivals, anywhere: bool = False) -> tuple[I64, I64]:
        """Put rows into the window's arena; returns the keys they belong to and the seq of each key's first row.

        ``anywhere``: keys start at the seqs of their first rows. Raises ValueError if a key's rows do not follow on what is there.
        """
        key = np.asarray(rows.key, np.int64)
        start = np.flatnonzero(np.concatenate([[True], key[1:] != key[:-1]]))
        stop = np.concatenate([start[1:], [len(key)]])
        keys = key[start]
        self._grow(int(keys[-1]) + 1)
        seq = np.asarray(rows.seq, np.int64)
        if anywhere:
            for column in (BASE, NEXT, LO):
                self.km[keys, column] = seq[start]
        if not np.array_equal(self.km[keys, NEXT], seq[start]):
            raise ValueError("arrivals do not continue the seqs of their keys")
        self.fcols, self.icols, self.times, self.end = append(
            self.km, keys, start, stop, matrix(rows.columns, self.floats, np.float64, len(key)),
            matrix(rows.columns, self.ints, np.int64, len(key)), np.ascontiguousarray(rows.time, np.int64),
            self.fcols, self.icols, self.times, self.end, self.until - 1, count_of(self.op.window), micros_of(self.op.window),
        )  # fmt: skip
        return keys, seq[start]

    def advance(self, arrivals: Arrivals, until: Instant) -> Changes:
        """See ``Logic.advance``. One kernel call; about N vectorised scores per arrival, O(k) per change."""
        due = np.flatnonzero(self.wake_at.min(axis=0) < until) if self.wake_at.size else np.empty(0, np.int64)
        keys, first_new = due, self.km[due, NEXT]
        if len(arrivals):
            self._count_unusable(arrivals)
            mine, firsts = self._append(arrivals)
            keys = np.union1d(mine, due)
            first_new = self.km[keys, NEXT]
            first_new[np.searchsorted(keys, mine)] = firsts
        if not len(keys):
            self.until = max(self.until, until)
            return Changes.empty(2)
        oi, os, n, self.ks, self.ko, self.kn, self.ku, self.sky_end = driver()(
            *self.swapped, *self.direct, self.qi, self.qf, self.op.keep_k, count_of(self.op.window), micros_of(self.op.window), self.size,
            self.side_row, *self.codes, self.fcols, self.icols, self.times, self.km, self.ks, self.ko, self.kn, self.ku, self.sky_end,
            keys, first_new, self.step, self.wake_at, self.due, self.es, self.eo, self.en, self.em, self.until, until, self.work,
        )  # fmt: skip
        self.until = max(self.until, until)
        return self._changes(oi[:n], os[:n])

    def _count_unusable(self, arrivals: Arrivals) -> None:
        """Objects with a null in an attribute of the score (of their side's attributes, with ``between``)."""
        between = self.op.between
        bad = np.zeros(len(arrivals), bool)
        for c in attributes(self.op.scoring):
            x = arrivals.columns[c.name]
            bad |= np.isnan(x) if c.kind == "float" else x == NULL
        if between is not None:
            side = arrivals.columns[between.column]
            bad &= (side == self.codes[0]) | (side == self.codes[1])
        self.arrived += len(arrivals)
        self.unusable += int(np.count_nonzero(bad))

    def _external(self, score: F64) -> F64:
        out: F64 = (-score if self.op.direction == "max" else score) + 0.0
        return out

    def _items(self, older: I64, flagged: I64) -> I64:
        """Shape (m, 2), in the order of the roles."""
        newer = flagged >> 1
        if self.op.between is None:
            return np.stack([older, newer], axis=1)
        newer_is_a = (flagged & 1) == 1
        return np.stack([np.where(newer_is_a, newer, older), np.where(newer_is_a, older, newer)], axis=1)

    def _changes(self, oi: I64, os: F64) -> Changes:
        if not len(os):
            return Changes.empty(2)
        order = np.lexsort((oi[:, 1], oi[:, 0]))  # stable: steps and positions stay in order
        oi, os = oi[order], os[order]
        return Changes(
            query=oi[:, 0].astype(np.int16), key=oi[:, 1].copy(), at=oi[:, 2].copy(), step=oi[:, 3].copy(), pos=oi[:, 4].astype(np.int32),
            sign=oi[:, 5].astype(np.int8), cause=oi[:, 6].astype(np.int8), score=self._external(os), items=self._items(oi[:, 7], oi[:, 8]),
        )  # fmt: skip

    def wake(self) -> Instant | None:
        """The next expiry of a list's member, or the next boundary of a query with something to tell."""
        least = int(self.wake_at.min()) if self.wake_at.size else NEVER
        return None if least == NEVER else least

    def _alive(self) -> tuple[I64, I64]:
        """(key, arena index) of every pair of every skyband whose older object is alive; grouped by key, older seq descending."""
        length = self.km[:, SLEN]
        key = np.repeat(np.arange(len(self.km)), length)
        at = np.arange(len(key)) - np.repeat(np.cumsum(length) - length, length) + self.km[key, SOFF]
        keep = self._alive_older(key, self.ko[at], self.op.window)
        return key[keep], at[keep]

    def _alive_older(self, key: I64, older: I64, window: Window) -> AnyArray:
        """Which older objects are alive now in ``window``."""
        w = within(window, self.op.window)
        keep: AnyArray = older >= np.maximum(self.km[key, NEXT] - count_of(w), self.km[key, BASE])
        if w.micros is not None:
            held = np.flatnonzero(keep)
            position = older[held] - self.km[key[held], BASE] + self.km[key[held], OFF]
            keep[held] = self.times[position] > self.until - 1 - w.micros
        return keep

    def checkpoint(self) -> dict[str, AnyArray]:
        """Skybands of alive pairs, next seqs, steps, due boundaries and shown lists. O(skyband + keys)."""
        key, at = self._alive()
        return {
            "until": np.array([self.until], np.int64), "next": self.km[:, NEXT].copy(),
            "sky_key": key, "sky_score": self.ks[at], "sky_older": self.ko[at], "sky_newer": self.kn[at],
            "step": self.step.copy(), "wake": self.wake_at.copy(), "due": self.due.copy(),
            "shown_score": self.es.copy(), "shown_older": self.eo.copy(), "shown_newer": self.en.copy(), "shown": self.em.copy(),
        }  # fmt: skip

    def _restore(self, state: State) -> None:
        a = state.arrays
        self._grow(len(a["next"]))
        if len(state.rows):
            self._append(state.rows, anywhere=True)
        held = self.km[:, CAP] > 0
        if not np.array_equal(self.km[held, NEXT], a["next"][held]):
            raise ValueError("the window's rows do not end where the state does")
        for column in (BASE, NEXT, LO):
            self.km[~held, column] = a["next"][~held]
        self.until = int(a["until"][0])
        self.step, self.wake_at, self.due, self.em = (np.array(a[x], np.int64) for x in ("step", "wake", "due", "shown"))
        self.es = np.array(a["shown_score"], np.float64)
        self.eo, self.en = np.array(a["shown_older"], np.int64), np.array(a["shown_newer"], np.int64)
        self.ks = np.array(a["sky_score"], np.float64)
        self.ko, self.kn = np.array(a["sky_older"], np.int64), np.array(a["sky_newer"], np.int64)
        self.km[:, SLEN] = self.km[:, SCAP] = np.bincount(np.asarray(a["sky_key"], np.int64), minlength=len(self.km))
        self.km[:, SOFF] = np.cumsum(self.km[:, SLEN]) - self.km[:, SLEN]
        self.sky_end = len(self.ks)
        self.ku = stairs(self.op.keep_k, self.km, self.ks, np.empty(len(self.ks)), np.empty(self.op.keep_k))

    def retained(self) -> tuple[I64, I64]:
        """Objects of the lists last shown by queries with ``every``: they may leave the window before a boundary takes them back."""
        keys, seqs = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
        for q in np.flatnonzero(self.qi[:, 3] > 0):
            first, k = int(self.qi[q, 5]), int(self.qi[q, 0])
            key, place = np.nonzero(np.arange(k) < self.em[q][:, None])
            keys += [key, key]
            seqs += [self.eo[key, first + place], self.en[key, first + place] >> 1]
        return np.concatenate(keys), np.concatenate(seqs)

    def snapshot(self, key: int, k: int, window: Window, query: int = 0) -> Items:
        """The best k <= K pairs of any window n <= N within the query's score bounds, in rank order. O(skyband)."""
        if not 1 <= k <= self.op.keep_k:
            raise ValueError(f"k = {k}: this state answers 1 to {self.op.keep_k}")
        check_window(window, self.op.window, "snapshot")
        if not 0 <= key < len(self.km):
            return Items(np.empty(0, np.int64), np.empty((0, 2), np.int64), np.empty(0, np.float64))
        a = int(self.km[key, SOFF])
        z = a + int(self.km[key, SLEN])
        s, o, n = self.ks[a:z], self.ko[a:z], self.kn[a:z]
        keep = self._alive_older(np.full(z - a, key, np.int64), o, window) & (s <= self.qf[query])
        s, o, n = s[keep], o[keep], n[keep]
        best = np.lexsort((-n, -o, s))[:k]
        return Items(np.full(len(best), key, np.int64), self._items(o[best], n[best]), self._external(s[best]))

    def skyband(self) -> Items:
        """Every key's skyband, grouped by key, older seq descending."""
        key, at = self._alive()
        return Items(key, self._items(self.ko[at], self.kn[at]), self._external(self.ks[at]))

    def counters(self) -> dict[str, int]:
        """Objects, scored pairs, candidates, refills, and unusable objects per query since the last call."""
        found = {"objects": self.arrived, "scored": int(self.work[0]), "candidates": int(self.work[1]), "refills": int(self.work[2])}
        found.update({f"unusable:{i}": self.unusable for i in range(len(self.op.queries))})
        self.arrived = self.unusable = 0
        self.work[:] = 0
        return found
