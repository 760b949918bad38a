"""Top-k of a stream by one scoring function, for any number of queries that share it (algorithms.md D1, replaces TMA and SMA).

The shared state is the K-skyband of the largest window: about K (1 + ln(N/K)) objects, whatever the window's size. With deletions
dominated objects
can come back, so ``TopKDeletes`` keeps the scores of the whole window.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Literal

import numpy as np

from skyband.operators.base import F64, I64, NEVER, NULL, AnyArray, Arrivals, Changes, Column, Instant, Items, State, Window
from skyband.operators.expressions.ast import Node
from skyband.operators.kernels.topk_compact import compact, mark_deleted
from skyband.operators.kernels.topk_single import run
from skyband.operators.topk_blocks import (
    TARGET_COLUMN,
    Block,
    Tombs,
    changes,
    count_of,
    cut,
    earliest,
    external,
    last_key,
    list_sizes,
    micros_of,
    widened,
)
from skyband.operators.topk_scoring import Direction, Linear, Scorer, scorer
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
    """Top-k of a stream with deletions: the whole window is kept, since a dominated object can come back (architecture 3.10)."""

    keeps: ClassVar[Literal["window", "retained", "none"]] = "window"
    deletes: ClassVar[bool] = True


class TopKLogic:
    """State of one bucket: per key the skyband in seq order, per query and key the step and the next instant that matters."""

    def __init__(self, op: TopK, state: State | None) -> None:
        self.op = op
        qs = op.queries
        w = [within(q.window, op.window) for q in qs]
        self.k = np.array([q.k for q in qs], np.int64)
        self.n = np.array([count_of(x) for x in w], np.int64)
        self.micros = np.array([micros_of(x) for x in w], np.int64)
        self.floor = np.array([op._floor(q) for q in qs], np.float64)
        self.every = np.array([q.every_micros or 0 for q in qs], np.int64)
        self.size = list_sizes(self.k)
        self.ceiling = op._ceiling(qs[0])
        self.rep_col = np.concatenate([[0], np.cumsum(np.where(self.every > 0, self.k, 0))]).astype(np.int64)
        self.work = np.zeros(4, np.int64)
        self.unusable = 0
        self.rows = 0
        empty, width = np.empty(0, np.int64), int(self.rep_col[-1])
        self.until = NULL
        self.next_seq, self.coff = empty, np.zeros(1, np.int64)
        self.cs, self.cq, self.ct = np.empty(0, np.float64), empty, empty
        self.step, self.wake_at, self.due, self.rep_n = (np.empty((len(qs), 0), np.int64) for _ in range(4))
        self.rep_s = np.empty((0, width), np.float64)
        self.rep_q, self.rep_t, self.rep_d = (np.empty((0, width), np.int64) for _ in range(3))
        self.tombs = Tombs.empty()
        if state is not None:
            self._restore(state)

    _SAVED = ("next_seq", "coff", "cs", "cq", "ct", "step", "wake_at", "due", "rep_n", "rep_s", "rep_q", "rep_t", "rep_d")

    def _restore(self, state: State) -> None:
        a = state.arrays
        self.until = int(a["until"][0])
        for name in self._SAVED:
            if name in a:
                setattr(self, name, np.array(a[name]))
        if not self.op.deletes:
            return
        self.tombs = Tombs(np.array(a["tomb_key"]), np.array(a["tomb_seq"]), np.array(a["tomb_time"]))
        rows = state.rows
        score = self._score({c.name: rows.columns[c.name] for c in self.op.scores.columns}, len(rows))
        key, seq, time = (np.asarray(x, np.int64) for x in (rows.key, rows.seq, rows.time))
        keep = ~np.isnan(score) & (self.tombs.times(key, seq) == NEVER) & (seq >= self.next_seq[key] - count_of(self.op.window))
        if self.op.window.micros is not None:
            keep &= time >= self.until - self.op.window.micros
        self.cs, self.cq, self.ct = score[keep], seq[keep], time[keep]
        self.coff = np.searchsorted(key[keep], np.arange(len(self.next_seq) + 1)).astype(np.int64)

    def _score(self, columns: dict[str, AnyArray], rows: int) -> F64:
        score, unusable = self.op.scores(columns, rows)
        self.unusable += unusable
        if self.ceiling < np.inf:
            score = np.where(score > self.ceiling, np.nan, score)
        return score

    def _grow(self, keys: int) -> None:
        if keys <= len(self.next_seq):
            return
        self.coff = widened(self.coff, keys + 1, int(self.coff[-1]), 0)
        self.next_seq = widened(self.next_seq, keys, 0, 0)
        self.step, self.rep_n = widened(self.step, keys, 0, 1), widened(self.rep_n, keys, 0, 1)
        self.wake_at, self.due = widened(self.wake_at, keys, NEVER, 1), widened(self.due, keys, NEVER, 1)
        self.rep_s, self.rep_q, self.rep_t, self.rep_d = (widened(a, keys, 0, 0) for a in (self.rep_s, self.rep_q, self.rep_t, self.rep_d))

    def advance(self, arrivals: Arrivals, until: Instant) -> Changes:
        """See ``Logic.advance``. O(rows) block compares per query, O(k) per change, one skyband pass at the end."""
        op = self.op
        self._grow(last_key(arrivals) + 1)
        also = np.flatnonzero(self.wake_at.min(axis=0) < until) if self.next_seq.size else np.empty(0, np.int64)
        block = cut(arrivals, self.next_seq, also, op.deletes)
        rows = len(block.time)
        sc = self._score(block.columns(arrivals, tuple(c.name for c in op.scores.columns)), rows)
        self.rows += rows
        sd, cd = self._mark(block, sc)
        oi, os, n = run(
            self.k, self.n, self.micros, self.floor, self.every, self.size, block.keys, block.lo, block.hi, block.dlo, block.dhi,
            block.seq0,
            sc, block.time, sd, block.dpos, block.dtime, block.dtarget, self.coff, self.cs, self.cq, self.ct, cd,
            self.step, self.wake_at, self.due, self.rep_n, self.rep_col, self.rep_s, self.rep_q, self.rep_t, self.rep_d,
            self.until, until, op.deletes, self.work,
        )  # fmt: skip
        group = np.full(len(self.next_seq), -1, np.int64)
        group[block.keys] = np.arange(len(block.keys))
        self.next_seq[block.keys] = block.seq0 + block.hi - block.lo
        self.until = until
        self.coff, self.cs, self.cq, self.ct = compact(
            group, block.lo, block.hi, block.seq0, sc, block.time, sd, self.coff, self.cs, self.cq, self.ct, cd, self.next_seq,
            op.keep_k, count_of(op.window), micros_of(op.window), until, op.deletes,
        )  # fmt: skip
        return changes(oi, os, n, op.direction == "min")

    def _mark(self, block: Block, sc: F64) -> tuple[I64, I64]:
        """Which deletion ends which row (of the block, of the state); empty without deletions."""
        if not self.op.deletes:
            return np.empty(0, np.int64), np.empty(0, np.int64)
        sd, cd = np.full(len(sc), NEVER), np.full(len(self.cs), NEVER)
        if len(block.dpos):
            mark_deleted(
                block.lo, block.hi, block.dlo, block.dhi, block.seq0, block.keys, block.dtarget, sc, sd, self.coff, self.cs, self.cq, cd
            )  # fmt: skip
            self.tombs = self.tombs.with_(Tombs(np.repeat(block.keys, block.dhi - block.dlo), block.dtarget, block.dtime))
        return sd, cd

    def wake(self) -> Instant | None:
        """The next expiry of a list member or the next boundary of a query with something to tell."""
        return earliest(self.wake_at)

    def checkpoint(self) -> dict[str, AnyArray]:
        """Skyband, steps, shown lists of ``every`` queries; with deletions the deleted seqs instead of the skyband."""
        saved: dict[str, AnyArray] = {"until": np.array([self.until], np.int64)}
        for name in self._SAVED:
            if not (self.op.deletes and name in ("coff", "cs", "cq", "ct")):
                saved[name] = np.array(getattr(self, name))
        if self.op.deletes:
            self.tombs = self.tombs.alive(self.next_seq, self.until, self.op.window)
            saved.update(tomb_key=self.tombs.key, tomb_seq=self.tombs.seq, tomb_time=self.tombs.time)
        return saved

    def _alive(self, window: Window) -> tuple[I64, AnyArray]:
        """Key of every state row, and whether it is alive in ``window`` now."""
        key = np.repeat(np.arange(len(self.next_seq)), np.diff(self.coff))
        alive = self.cq >= self.next_seq[key] - count_of(window)
        if window.micros is not None and len(key):
            alive &= self.ct >= self.until - window.micros
        return key, alive

    def retained(self) -> tuple[I64, I64]:
        """The objects of the skyband, and those a query with boundaries has shown and may still have to report as gone."""
        key, alive = self._alive(self.op.window)
        keys, seqs = [key[alive]], [self.cq[alive]]
        for q in np.flatnonzero(self.every):
            shown = np.arange(self.k[q]) < self.rep_n[q][:, None]
            keys.append(np.nonzero(shown)[0])
            seqs.append(self.rep_q[:, self.rep_col[q] : self.rep_col[q + 1]][shown])
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
        lo, hi = int(self.coff[key]), int(self.coff[key + 1])
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
        key, alive = self._alive(self.op.window)
        return Items(key[alive], self.cq[alive].reshape(-1, 1), external(self.cs[alive], self.op.direction == "min"))

    def counters(self) -> dict[str, int]:
        """Rows, unusable objects per query, refills since the last call."""
        found = {"rows": self.rows, "refills": int(self.work[0])}
        found.update({f"unusable:{i}": self.unusable for i in range(len(self.k))})
        self.rows = self.unusable = 0
        self.work[:] = 0
        return found
