"""Top-k of a stream by one scoring function, for any number of queries that share it (docs/algorithms.md D1, replaces TMA and SMA).

The shared state is the K-skyband of the largest window: about K (1 + ln(N/K)) objects, whatever the window's size. With deletions
dominated objects can come back, so ``TopKDeletes`` keeps the scores of the whole window.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Literal

import numpy as np

from skyband.operators.base import F64, I64, NEVER, NULL, AnyArray, Arrivals, Changes, Column, Instant, Items, State, Window
from skyband.operators.expressions.ast import Node
from skyband.operators.jit import HAVE_NUMBA
from skyband.operators.single_rows.blocks import (
    TARGET_COLUMN,
    Tombstones,
    changes,
    count_of,
    cut,
    earliest,
    external,
    last_key,
    list_sizes,
    micros_of,
    spans,
    widened,
)
from skyband.operators.single_rows.scores import Direction, Linear, Scorer, scorer
from skyband.operators.topk.kernels.bands import absorb
from skyband.operators.topk.kernels.compact import compact, mark_deleted
from skyband.operators.topk.kernels.one_function import groups_of, publish, run
from skyband.operators.windows import check_ranked, check_window, within


@dataclass(frozen=True, slots=True)
class TopKQuery:
    """The best ``k`` of ``window`` whose score lies in [min_score, max_score]; ``every_micros``: net changes at its multiples only."""

    name: str
    k: int
    window: Window
    every_micros: int | None = None
    min_score: float | None = None
    max_score: float | None = None


@dataclass(frozen=True)
class TopK:
    """One scoring function and its queries; see ``TopKDeletes`` for streams with deletions.

    Queries that share a state agree in the bound on its *better* side (``max_score`` for direction max): that bound decides who may
    dominate. Raises ValueError for k < 1, k > ``keep_k``, a window larger than the state's, a bound that is NaN, or names used twice.
    """

    scoring: Linear | Node
    direction: Direction
    where: Node | None
    queries: tuple[TopKQuery, ...]
    keep_k: int
    window: Window
    texts: tuple[str, ...] = ()

    state_format: ClassVar[str] = "TopK"
    query_types: ClassVar[frozenset[str]] = frozenset({"topk"})
    keeps: ClassVar[Literal["window", "retained", "none"]] = "retained"
    deletes: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_ranked(self.queries, self.keep_k, self.window, self.direction, "topk")
        if len({self._ceiling(q) for q in self.queries}) > 1:
            raise ValueError("queries of one state must agree in " + ("max_score" if self.direction == "max" else "min_score"))

    def _ceiling(self, q: TopKQuery) -> float:
        """Internal score above which an object is no candidate."""
        bound = q.max_score if self.direction == "max" else q.min_score
        return np.inf if bound is None else float(bound if self.direction == "max" else -bound)

    def _floor(self, q: TopKQuery) -> float:
        """Internal score below which an object is no candidate of the query."""
        bound = q.min_score if self.direction == "max" else q.max_score
        return -np.inf if bound is None else float(bound if self.direction == "max" else -bound)

    @property
    def roles(self) -> tuple[str, ...]:
        """Single objects."""
        return ("",)

    @cached_property
    def scores(self) -> Scorer:
        """Internal scores of a block of objects."""
        return scorer(self.scoring, self.where, self.direction, self.texts)

    @property
    def columns(self) -> tuple[Column, ...]:
        """Attributes of the scoring function and the predicate, and the deletions' targets."""
        return self.scores.columns + ((TARGET_COLUMN,) if self.deletes else ())

    def __getstate__(self) -> dict[str, object]:
        return {k: v for k, v in self.__dict__.items() if k != "scores"}

    def build(self, state: State | None) -> TopKLogic:
        """A logic that continues ``state`` bit for bit, or starts empty."""
        return TopKLogic(self, state)


class TopKDeletes(TopK):
    """Top-k of a stream with deletions: the whole window is kept, since a dominated object can come back (docs/semantics.md 10)."""

    state_format: ClassVar[str] = "TopKDeletes"
    keeps: ClassVar[Literal["window", "retained", "none"]] = "window"
    deletes: ClassVar[bool] = True


class _Scratch(threading.local):
    """Arrays that live through one ``advance``, kept per thread: fresh ones would cost a page fault for every 512 rows."""

    def __init__(self) -> None:
        self.score, self.scores, self.os = np.empty(0), np.empty(0), np.empty(1024)
        self.rows, self.count, self.oi = np.empty(0, np.int64), np.empty(0, np.int64), np.empty((1024, 8), np.int64)

    def fit(self, rows: int) -> None:
        """Room for ``rows`` rows; what is much too large goes."""
        if len(self.score) < rows or len(self.score) > max(16 * rows, 1 << 18):
            self.score, self.scores = np.empty(rows), np.empty(rows)
            self.rows, self.count = np.empty(rows, np.int64), np.empty(rows, np.int64)
        if len(self.os) > 1 << 18:
            self.oi, self.os = np.empty((1024, 8), np.int64), np.empty(1024)


_scratch = _Scratch()

STEP, WAKE, DUE, SHOWN = range(4)

PIECE: int = 4096
"""Rows looked through for candidates at a time, twice as many every time: a refill lowers the cutoff, and those beyond are in vain."""

_NONE, _NO_DELETIONS, _NO_CHANGES = np.empty(0, np.int64), np.empty((3, 0), np.int64), Changes.empty(1)


def _band_sizes(k: I64, size: I64) -> I64:
    """How many members of a k-skyband rank among the first ``size`` of the window: k (1 + ln(size/k)), for random arrivals."""
    return np.minimum(size, np.ceil(k * (1.0 + np.log(size / k)))).astype(np.int64)


class TopKLogic:
    """State of one bucket: per key the skyband in rank order, per query and key the step and the next instant that matters.

    ``start``/``length``/``room`` say where in (cs score, cq seq, ct time, cd dominators) a key's skyband is (``topk_single_bands``);
    with deletions it is all alive candidates, packed in seq order. ``clocks`` (4, queries, keys): step, wake, due, number shown.
    """

    def __init__(self, op: TopK, state: State | None) -> None:
        self.op = op
        qs = op.queries
        w = [within(q.window, op.window) for q in qs]
        self.k = np.array([q.k for q in qs], np.int64)
        self.every = np.array([q.every_micros or 0 for q in qs], np.int64)
        counts, micros = [count_of(x) for x in w], [micros_of(x) for x in w]
        size = list_sizes(self.k)
        first = size if op.deletes else _band_sizes(self.k, size)
        self.spec = np.array([self.k, counts, micros, self.every, size, first], np.int64)
        self.floor = np.array([op._floor(q) for q in qs], np.float64)
        self.ceiling = op._ceiling(qs[0])
        self.ends = count_of(op.window), micros_of(op.window)
        self.clocked = any(micros) or bool(self.every.any())
        self.rep_col = np.concatenate([[0], np.cumsum(np.where(self.every > 0, self.k, 0))]).astype(np.int64)
        self.work = np.zeros(4, np.int64)
        self.unusable = 0
        self.rows = 0
        self.until = NULL
        empty, width = np.empty(0, np.int64), int(self.rep_col[-1])
        self.next_seq, self.start, self.length, self.room, self.end = empty, empty, empty, empty, 0
        self.cs, self.cq, self.ct, self.cd = np.empty(0, np.float64), empty, empty, empty
        self.clocks = np.empty((4, len(qs), 0), np.int64)
        self.rep_s, self.rep_i = np.empty((0, width), np.float64), np.empty((3, 0, width), np.int64)
        self.tombs = Tombstones.empty()
        if state is not None:
            self._restore(state)

    _CLOCKS = ("step", "wake_at", "due", "rep_n")
    _SHOWN = ("rep_q", "rep_t", "rep_d")

    def _restore(self, state: State) -> None:
        a = state.arrays
        self.until = int(a["until"][0])
        self.next_seq, self.rep_s = np.array(a["next_seq"]), np.array(a["rep_s"])
        self.clocks = np.array([a[name] for name in self._CLOCKS], np.int64)
        self.rep_i = np.array([a[name] for name in self._SHOWN], np.int64)
        if not self.op.deletes:
            self.length = np.array(a["length"])
            self.cs, self.cq, self.ct, self.cd = (np.array(a[name]) for name in ("cs", "cq", "ct", "cd"))
            self._packed()
            return
        self.tombs = Tombstones(np.array(a["tomb_key"]), np.array(a["tomb_seq"]), np.array(a["tomb_time"]))
        rows = state.rows
        score = self._score(rows.columns, len(rows))
        self.unusable = 0  # these rows were counted when they came
        key, seq, time = (np.asarray(x, np.int64) for x in (rows.key, rows.seq, rows.time))
        keep = ~np.isnan(score) & (self.tombs.times(key, seq) == NEVER) & (seq >= self.next_seq[key] - count_of(self.op.window))
        if self.op.window.micros is not None:
            keep &= time >= self.until - self.op.window.micros
        self.cs, self.cq, self.ct = score[keep], seq[keep], time[keep]
        self.length = np.bincount(key[keep], minlength=len(self.next_seq)).astype(np.int64)
        self._packed()

    def _packed(self) -> None:
        """The keys' members stand one key after the other."""
        self.end = int(self.length.sum())
        self.start, self.room = np.cumsum(self.length) - self.length, self.length.copy()

    def _score(self, columns: Mapping[str, AnyArray], rows: int) -> F64:
        _scratch.fit(rows)
        score, unusable = self.op.scores(columns, rows, _scratch.score[:rows])
        self.unusable += unusable
        if self.ceiling < np.inf:
            score = np.where(score > self.ceiling, np.nan, score)
        return score

    def _grow(self, keys: int) -> None:
        if keys <= len(self.next_seq):
            return
        self.next_seq, self.start, self.length, self.room = (
            widened(a, keys, 0, 0) for a in (self.next_seq, self.start, self.length, self.room)
        )  # fmt: skip
        have = self.clocks.shape[2]
        self.clocks = widened(self.clocks, keys, 0, 2)
        self.clocks[WAKE, :, have:] = self.clocks[DUE, :, have:] = NEVER
        self.rep_s, self.rep_i = widened(self.rep_s, keys, 0, 0), widened(self.rep_i, keys, 0, 1)

    def _groups(self, arrivals: Arrivals, until: Instant) -> tuple[I64, I64, I64, AnyArray | None]:
        """Keys with something to do and their rows (``groups`` and ``dels`` of the kernel), times, positions of the objects."""
        also = _NONE
        if self.clocked and self.next_seq.size:
            also = np.flatnonzero(self.clocks[WAKE].min(axis=0) < until)
        if self.op.deletes or not HAVE_NUMBA:
            b = cut(arrivals, self.next_seq, also, self.op.deletes)
            groups, dels = np.array([b.keys, b.lo, b.hi, b.dlo, b.dhi, b.seq0], np.int64), np.array([b.dpos, b.dtime, b.dtarget], np.int64)
            return groups, dels, b.time, b.rows
        key, seq = np.asarray(arrivals.key, np.int64), np.asarray(arrivals.seq, np.int64)
        time = np.ascontiguousarray(arrivals.time, np.int64)
        if len(key) and key[0] == key[-1] and (len(also) == 0 or (len(also) == 1 and also[0] == key[0])):  # one global stream
            groups = np.zeros((6, 1), np.int64)
            groups[0], groups[2], groups[5] = key[0], len(key), seq[0]
            return groups, _NO_DELETIONS, time, None
        return groups_of(key, seq, also, self.next_seq), _NO_DELETIONS, time, None

    def advance(self, arrivals: Arrivals, until: Instant) -> Changes:
        """See ``Logic.advance``. O(rows) block compares per query, O(k) per change, one skyband pass at the end."""
        op = self.op
        self._grow(last_key(arrivals) + 1)
        groups, dels, time, objects = self._groups(arrivals, until)
        columns = arrivals.columns
        if objects is not None:
            columns = {c.name: columns[c.name][objects] for c in op.scores.columns}
        sc = self._score(columns, len(time))
        self.rows += len(time)
        sd, cd = self._mark(groups, dels, sc)
        _scratch.oi, _scratch.os, n = run(
            self.spec, self.floor, self.rep_col, groups, sc, time, sd, dels, self.start, self.length, self.cs, self.cq, self.ct, cd,
            self.next_seq, self.clocks, self.rep_s, self.rep_i, self.until, until, op.deletes, PIECE, self.work,
            _scratch.rows, _scratch.scores, _scratch.oi, _scratch.os,
        )  # fmt: skip
        self.until = until
        count, micros = self.ends
        if op.deletes:
            coff, self.cs, self.cq, self.ct = compact(
                groups, sc, time, sd, self._offsets(), self.cs, self.cq, self.ct, cd, self.next_seq, count, micros, until
            )  # fmt: skip
            self.length = np.diff(coff)
            self._packed()
        else:
            self.cs, self.cq, self.ct, self.cd, self.end = absorb(
                groups, sc, time, self.start, self.length, self.room, self.end, self.cs, self.cq, self.ct, self.cd,
                op.keep_k, count, micros, until, _scratch.rows, _scratch.scores, _scratch.count,
            )  # fmt: skip
        if n == 0:
            return _NO_CHANGES
        return Changes(*publish(_scratch.oi, _scratch.os, n, op.direction == "min")) if HAVE_NUMBA else changes(
            _scratch.oi, _scratch.os, n, op.direction == "min"
        )  # fmt: skip

    def _offsets(self) -> I64:
        """Where every key begins in packed columns, and where the last one ends."""
        return np.concatenate([[0], np.cumsum(self.length)]).astype(np.int64)

    def _mark(self, groups: I64, dels: I64, sc: F64) -> tuple[I64, I64]:
        """Which deletion ends which row (of the block, of the state); empty without deletions."""
        if not self.op.deletes:
            return _NONE, _NONE
        sd, cd = np.full(len(sc), NEVER), np.full(len(self.cs), NEVER)
        if dels.shape[1]:
            mark_deleted(groups, dels[2], sc, sd, self._offsets(), self.cs, self.cq, cd)
            self.tombs = self.tombs.with_(Tombstones(np.repeat(groups[0], groups[4] - groups[3]), dels[2], dels[1]))
        return sd, cd

    def wake(self) -> Instant | None:
        """The next expiry of a list member or the next boundary of a query with something to tell."""
        return earliest(self.clocks[WAKE]) if self.clocked else None

    def checkpoint(self) -> dict[str, AnyArray]:
        """Skyband, steps, shown lists of ``every`` queries; with deletions the deleted seqs instead of the skyband."""
        saved: dict[str, AnyArray] = {"until": np.array([self.until], np.int64)}
        saved.update(next_seq=self.next_seq.copy(), rep_s=self.rep_s.copy())
        saved.update(zip(self._CLOCKS, self.clocks.copy(), strict=True))
        saved.update(zip(self._SHOWN, self.rep_i.copy(), strict=True))
        if self.op.deletes:
            self.tombs = self.tombs.alive(self.next_seq, self.until, self.op.window)
            saved.update(tomb_key=self.tombs.key, tomb_seq=self.tombs.seq, tomb_time=self.tombs.time)
        else:
            key, at = self._alive(self.op.window)
            saved.update(length=np.bincount(key, minlength=len(self.next_seq)).astype(np.int64))
            saved.update(cs=self.cs[at], cq=self.cq[at], ct=self.ct[at], cd=self.cd[at])
        return saved

    def _alive(self, window: Window) -> tuple[I64, I64]:
        """Key and place of every state row alive in ``window`` now, by key."""
        key = np.repeat(np.arange(len(self.next_seq)), self.length)
        at = spans(self.start, self.length)
        keep = self.cq[at] >= self.next_seq[key] - count_of(window)
        if window.micros is not None and len(key):
            keep &= self.ct[at] >= self.until - window.micros
        return key[keep], at[keep]

    def retained(self) -> tuple[I64, I64]:
        """The objects of the skyband, and those a query with boundaries has shown and may still have to report as gone."""
        key, at = self._alive(self.op.window)
        keys, seqs = [key], [self.cq[at]]
        for q in np.flatnonzero(self.every):
            shown = np.arange(self.k[q]) < self.clocks[SHOWN, q][:, None]
            keys.append(np.nonzero(shown)[0])
            seqs.append(self.rep_i[0, :, self.rep_col[q] : self.rep_col[q + 1]][shown])
        if len(keys) == 1:
            return keys[0], seqs[0]
        both = np.unique(np.stack([np.concatenate(keys), np.concatenate(seqs)]), axis=1)
        return both[0], both[1]

    def snapshot(self, key: int, k: int, window: Window, query: int = 0) -> Items:
        """The best k <= K of any window n <= N within the query's score bounds."""
        if not 1 <= k <= self.op.keep_k:
            raise ValueError(f"k = {k}: this state answers 1 to {self.op.keep_k}")
        check_window(window, self.op.window, "snapshot")
        if not 0 <= key < len(self.next_seq):
            return Items(np.empty(0, np.int64), np.empty((0, 1), np.int64), np.empty(0, np.float64))
        lo = int(self.start[key])
        hi = lo + int(self.length[key])
        s, q, t = self.cs[lo:hi], self.cq[lo:hi], self.ct[lo:hi]
        w = within(window, self.op.window)
        keep = (q >= self.next_seq[key] - count_of(w)) & (s >= self.floor[query])
        if w.micros is not None and len(t):
            keep &= t >= self.until - w.micros
        s, q = s[keep], q[keep]
        best = np.lexsort((q, s))[::-1][:k]
        return Items(np.full(len(best), key, np.int64), q[best].reshape(-1, 1), external(s[best], self.op.direction == "min"))

    def skyband(self) -> Items:
        """The skyband of every key (with deletions: all alive candidates), grouped by key, in seq order."""
        key, at = self._alive(self.op.window)
        at = at[np.lexsort((self.cq[at], key))]
        return Items(key, self.cq[at].reshape(-1, 1), external(self.cs[at], self.op.direction == "min"))

    def counters(self) -> dict[str, int]:
        """Rows, unusable objects per query, refills since the last call."""
        found = {"rows": self.rows, "refills": int(self.work[0])}
        found.update({f"unusable:{i}": self.unusable for i in range(len(self.k))})
        self.rows = self.unusable = 0
        self.work[:] = 0
        return found
