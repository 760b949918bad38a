"""The moving part of ``ManyTopK``: the window's rows, one list per (query, key), and for a bucket of one key the influence grid."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from skyband.operators.base import F64, I64, NEVER, NULL, AnyArray, Arrivals, Changes, Instant, Items, State, Window
from skyband.operators.kernels.jit import HAVE_NUMBA
from skyband.operators.kernels.topk_grid import influence, occupied, probe
from skyband.operators.kernels.topk_many import run
from skyband.operators.kernels.topk_window import LEAF, append, plan, score_rows
from skyband.operators.topk_blocks import (
    MANY,
    TARGET_COLUMN,
    Block,
    Tombs,
    changes,
    count_of,
    cut,
    earliest,
    extent,
    external,
    last_key,
    list_sizes,
    micros_of,
    spans,
    widened,
)
from skyband.operators.topk_scoring import as_floats
from skyband.operators.windows import check_window, within

if TYPE_CHECKING:
    from skyband.operators.topk_many import ManyTopK

MAX_ENTRIES = 4_000_000
MAX_CELLS = 16_384
BLOCK_ROWS = 131_072


class ManyTopKLogic:
    """State of one bucket: the window's rows, one list per (query, key), and for a bucket of one key the influence grid."""

    _SAVED = (
        "next_seq",
        "step",
        "wake_at",
        "due",
        "rep_n",
        "rep_s",
        "rep_q",
        "rep_t",
        "rep_d",
        "l_m",
        "l_size",
        "l_thr",
        "l_cut",
        "l_full",
        "l_old",
    )

    def __init__(self, op: ManyTopK, state: State | None) -> None:
        self.op = op
        q, d = op.weights.shape
        zero = np.zeros(q, np.int64)
        largest = np.ones(q, bool) if op.largest is None else op.largest.astype(bool)
        self.sign = np.where(largest, 1.0, -1.0)
        self.w = np.ascontiguousarray(op.weights * self.sign[:, None], np.float64)
        self.k = np.ascontiguousarray(op.k, np.int64)
        counts, micros = (zero if a is None else a for a in (op.counts, op.micros))
        self.n = np.where(counts > 0, counts, count_of(op.window)).astype(np.int64)
        self.micros = np.where(micros > 0, micros, micros_of(op.window)).astype(np.int64)
        self.every = zero if op.every is None else np.ascontiguousarray(op.every, np.int64)
        self.where = np.full(q, -1) if op.where_of is None else np.ascontiguousarray(op.where_of, np.int64)
        none = np.full(q, np.nan)
        least, most = (none if a is None else a for a in (op.min_score, op.max_score))
        least, most = np.where(np.isnan(least), -np.inf, least), np.where(np.isnan(most), np.inf, most)
        self.floor, self.ceiling = np.where(largest, least, -most), np.where(largest, most, -least)
        self.low = np.full((q, d), -np.inf) if op.low is None else np.ascontiguousarray(op.low, np.float64)
        self.high = np.full((q, d), np.inf) if op.high is None else np.ascontiguousarray(op.high, np.float64)
        self.boxed: AnyArray = np.asarray(((self.low > -np.inf) | (self.high < np.inf)).any(axis=1))
        self.size = list_sizes(self.k)
        self.rep_col = np.concatenate([[0], np.cumsum(np.where(self.every > 0, self.k, 0))]).astype(np.int64)
        empty, width = np.empty(0, np.int64), int(self.rep_col[-1])
        self.until, self.next_seq = NULL, empty
        self.slab, self.room, self.head, self.tail, self.leaf_at = (np.empty(0, np.int64) for _ in range(5))
        self.x, self.tm, self.end = np.empty((d, 0), np.float64), empty, 0
        self.flags, self.dead = empty, empty
        self.zlo, self.zhi = np.empty((d, 0)), np.empty((d, 0))
        self.step, self.wake_at, self.due, self.rep_n = (np.empty((q, 0), np.int64) for _ in range(4))
        self.l_at, self.l_room, self.l_m, self.l_size, self.l_cut, self.l_full, self.l_old = (np.empty((q, 0), np.int64) for _ in range(7))
        self.l_thr = np.empty((q, 0), np.float64)
        self.ps, self.pq, self.pt, self.pool = np.empty(0, np.float64), empty, empty, 0
        self.rep_s = np.empty((0, width), np.float64)
        self.rep_q, self.rep_t, self.rep_d = (np.empty((0, width), np.int64) for _ in range(3))
        self.tombs = Tombs.empty()
        self.work = np.zeros(8, np.int64)
        self.rows = self.unusable = 0
        self.grid: tuple[AnyArray, ...] | None = None
        self.grid_thr = np.empty(0)
        self.grid_rows = self.grid_tests = self.grid_cost = self.grid_seen = 0
        self.grid_rate, self.grid_patience = 0.0, 4
        self.seen = np.empty(0, np.uint8)
        if state is not None:
            self._restore(state)

    # ---------------------------------------------------------------- rows in

    def advance(self, arrivals: Arrivals, until: Instant) -> Changes:
        """See ``Logic.advance``. O(rows) for one key, O(rows x queries) for many, plus O(k) per change."""
        op = self.op
        self._grow(last_key(arrivals) + 1)
        if len(self.next_seq) == 1 and len(arrivals) > BLOCK_ROWS + BLOCK_ROWS // 2:
            return self._advance_in_parts(arrivals, until)
        also = np.flatnonzero(self.wake_at.min(axis=0) < until) if self.next_seq.size else np.empty(0, np.int64)
        block = cut(arrivals, self.next_seq, also, op.deletes)
        self.rows += len(block.time)
        columns = block.columns(arrivals, tuple(c.name for c in op.columns))
        cols = tuple(as_floats(columns[a]) for a in op.attributes)
        shift = self._append(block, columns, cols)
        found = self._candidates(block, shift, cols)
        oi, os, n, self.ps, self.pq, self.pt, self.pool = run(
            self.k, self.n, self.micros, self.floor, self.ceiling, self.every, self.size, self.w, self.boxed, self.low, self.high,
            self.where,
            block.keys, block.lo, block.hi, block.dlo, block.dhi, block.seq0, block.time, shift, self.head,
            self.x, self.tm, self.flags, self.dead, block.dpos, block.dtime, block.dtarget, *found,
            self.l_at, self.l_room, self.l_m, self.l_size, self.l_thr, self.l_cut, self.l_full, self.l_old, self.ps, self.pq, self.pt,
            self.pool,
            self.zlo, self.zhi, self.leaf_at, self.step, self.wake_at, self.due, self.rep_n, self.rep_col,
            self.rep_s, self.rep_q, self.rep_t, self.rep_d, until, self.work,
        )  # fmt: skip
        if len(self.dead):
            self.dead[self.dead < NEVER] = -1
        self.next_seq[block.keys] = block.seq0 + block.hi - block.lo
        self.until = until
        if n:
            os[:n] *= self.sign[oi[:n, 0]]
        return changes(oi, os, n, False)

    def _advance_in_parts(self, arrivals: Arrivals, until: Instant) -> Changes:
        """A long block of one key in pieces, cut where time moves on, so that cutoffs keep up with the rows."""
        parts, lo, n = [], 0, len(arrivals)
        while lo < n:
            hi = min(n, lo + BLOCK_ROWS)
            if hi < n:
                back = int(np.searchsorted(arrivals.time[lo:hi], arrivals.time[hi])) + lo
                hi = back if back > lo else int(np.searchsorted(arrivals.time, arrivals.time[hi], "right"))
            part = Arrivals(
                arrivals.key[lo:hi], arrivals.seq[lo:hi], arrivals.time[lo:hi], {c: a[lo:hi] for c, a in arrivals.columns.items()}
            )  # fmt: skip
            parts.append(self.advance(part, int(arrivals.time[hi]) if hi < n else until))
            lo = hi
        order = np.argsort(np.concatenate([p.query for p in parts]), kind="stable")
        fields = ("query", "key", "at", "step", "pos", "sign", "cause", "score", "items")
        return Changes(**{f: np.concatenate([getattr(p, f) for p in parts])[order] for f in fields})

    def _append(self, block: Block, columns: dict[str, AnyArray], cols: tuple[F64, ...]) -> I64:
        """Store the block's rows; returns by how much each key's pool rows are ahead of its block rows."""
        op = self.op
        rows = len(block.time)
        new_flags = np.zeros(rows if op.where else 0, np.int64)
        for i, p in enumerate(op.predicates):
            new_flags |= p.matches(columns, rows).astype(np.int64) << i
        new, target = block.hi - block.lo, np.empty(len(block.keys), np.int64)
        w = op.window
        end = plan(
            block.keys, new, self.next_seq, count_of(w), micros_of(w), self.until, self.tm,
            self.slab, self.room, self.head, self.tail, self.end, target,
        )  # fmt: skip
        self._pool_rows(end)
        append(
            block.keys, block.lo, block.hi, target, self.slab, self.head, self.tail, self.x, self.tm, self.flags, self.dead,
            cols, block.time, new_flags, self.leaf_at,
        )  # fmt: skip
        shift = self.tail[block.keys] - block.hi
        if len(block.dpos):
            of = np.repeat(np.arange(len(block.keys)), block.dhi - block.dlo)
            row = block.lo[of] + shift[of] + block.dtarget - block.seq0[of]
            here = row >= self.head[block.keys[of]]
            self.dead[row[here]] = np.flatnonzero(here)
            self.tombs = self.tombs.with_(Tombs(block.keys[of], block.dtarget, block.dtime))
        return shift

    def _pool_rows(self, end: int) -> None:
        self.end = end
        have = self.x.shape[1]
        if end <= have:
            return
        room = max(end, have + have // 2)
        x = np.empty((self.x.shape[0], room), np.float64)
        x[:, :have] = self.x
        self.x = x
        if self.op.window.micros is not None:
            self.tm = np.concatenate([self.tm, np.zeros(room - have, np.int64)])
        if self.op.where:
            self.flags = np.concatenate([self.flags, np.zeros(room - have, np.int64)])
        if self.op.deletes:
            self.dead = np.concatenate([self.dead, np.full(room - have, NEVER)])
        leaves = room // LEAF + 1 - self.zlo.shape[1]
        self.zlo, self.zhi = (np.concatenate([z, np.empty((len(x), leaves))], axis=1) for z in (self.zlo, self.zhi))

    def _grow(self, keys: int) -> None:
        have = len(self.next_seq)
        if keys <= have:
            return
        for name in ("next_seq", "slab", "room", "head", "tail", "leaf_at"):
            setattr(self, name, widened(getattr(self, name), keys, 0, 0))
        for name, fill in (("step", 0), ("rep_n", 0), ("l_at", 0), ("l_room", 0), ("l_m", 0), ("l_full", 1), ("l_cut", -1),
                           ("l_old", NEVER // 4), ("wake_at", NEVER), ("due", NEVER)):  # fmt: skip
            setattr(self, name, widened(getattr(self, name), keys, fill, 1))
        new = keys - have
        self.l_size = np.concatenate([self.l_size, np.repeat(self.size[:, None], new, axis=1)], axis=1)
        self.l_thr = np.concatenate([self.l_thr, np.repeat(self.floor[:, None], new, axis=1)], axis=1)
        for name in ("rep_s", "rep_q", "rep_t", "rep_d"):
            setattr(self, name, widened(getattr(self, name), keys, 0, 0))

    # ---------------------------------------------------------------- which queries can a row concern

    def _candidates(self, block: Block, shift: I64, cols: tuple[F64, ...]) -> tuple[I64, I64, F64]:
        """Candidates by the influence grid, or three empty arrays: score the block for every query."""
        rows = len(block.time)
        a, b = (int(shift[0]), int(shift[0]) + rows) if len(shift) else (0, 0)
        thr = np.ascontiguousarray(self.l_thr[:, 0]) if len(self.next_seq) == 1 else np.empty(0)
        if not HAVE_NUMBA or len(self.next_seq) != 1 or rows < 64 or len(cols) > 15 or not self._refit(a, b, thr) or self.grid is None:
            if rows:
                self.unusable += int(np.logical_or.reduce([np.isnan(c) for c in cols]).sum())
            return np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.float64)
        g_lo, scale, g, start, lists, hot = self.grid
        tests, wild = int(self.work[2]), int(self.work[3])
        found = probe(
            self.w, self.boxed, self.low, self.high, self.where, self.ceiling, thr, self.x, self.flags, a, b, g_lo, scale, int(g[0]), a,
            start, lists, hot, self.work,
        )  # fmt: skip
        if 64 * (int(self.work[3]) - wild) > rows:
            self.grid = None  # the data have moved: fit again next time
        self.unusable += int(self.work[4])
        self.work[4] = 0
        self.grid_rows += rows
        self.grid_seen += rows
        self.grid_tests += int(self.work[2]) - tests
        return found

    def _refit(self, a: int, b: int, thr: F64) -> bool:
        """Bring the grid up to date: after drift, a turnover of the window, a lowered cutoff, or raised ones that would pay. False:
        none is worth it."""
        head = int(self.head[0])
        fresh = self.grid is None or self.grid_rows > max(4 * (b - head), BLOCK_ROWS)
        wasted = pays = False
        if not fresh:
            raised = thr > self.grid_thr
            pays = self.grid_tests > self.grid_patience * self.grid_cost and 8 * int(raised.sum()) > len(thr)
            wasted = pays or 8 * int((raised & (self.grid_thr == self.floor)).sum()) > len(thr)
        if not fresh and not wasted and not (thr < self.grid_thr).any():
            return True
        rate = self.grid_tests / max(1, self.grid_seen)
        if wasted and pays:  # a fit that saved little is not repeated soon
            self.grid_patience = 4 * self.grid_patience if 5 * rate > 4 * self.grid_rate else 1
        self.grid_rate, self.grid_seen = rate, 0
        d = self.w.shape[1]
        if fresh or self.grid is None:
            self.grid_rows = 0
            since = max(head, a - (b - head) // 2)
            x = self.x[:, since:b]
            low, high = extent(x)
            g = max(2, min(256, int(MAX_CELLS ** (1 / d) + 1e-9)))
            width = high - low
            margin = np.where(width > 0, width * 0.001, np.maximum(1.0, abs(low)) * 1e-6)
            step = (width + 2 * margin) / g
            if not np.isfinite(step).all():
                self.grid = None
                return False
            grid_of: tuple[AnyArray, ...] = (low - margin, 1.0 / step, np.array([g], np.int64))
            self.seen = np.zeros(sum(g**t for t in range(1, d + 1)), np.uint8)
            occupied(self.x, head, b, grid_of[0], grid_of[1], g, self.seen)
        else:
            grid_of = self.grid[:3]
        start, lists, hot, entries = influence(
            self.w, self.boxed, self.low, self.high, thr, grid_of[0], 1.0 / grid_of[1], int(grid_of[2][0]), self.seen, MAX_ENTRIES
        )  # fmt: skip
        if entries < 0:
            self.grid = None
            return False
        self.grid, self.grid_thr = (*grid_of, start, lists, hot), thr.copy()
        self.grid_cost, self.grid_tests = max(500 * len(thr), int((hot != 2).sum()) * len(thr) // 4), 0
        return True

    # ---------------------------------------------------------------- state

    def checkpoint(self) -> dict[str, AnyArray]:
        """Steps, clocks, and the seqs on every query's list; rows are the host's."""
        saved: dict[str, AnyArray] = {"until": np.array([self.until], np.int64)}
        saved.update({name: np.array(getattr(self, name)) for name in self._SAVED})
        m = self.l_m.ravel()
        saved["lists"] = self.pq[spans(self.l_at.ravel(), m)]
        if self.op.deletes:
            self.tombs = self.tombs.alive(self.next_seq, self.until, self.op.window)
            saved.update(tomb_key=self.tombs.key, tomb_seq=self.tombs.seq, tomb_time=self.tombs.time)
        return saved

    def _restore(self, state: State) -> None:
        a, rows, op = state.arrays, state.rows, self.op
        self.until = int(a["until"][0])
        for name in self._SAVED:
            setattr(self, name, np.array(a[name]))
        keys = len(self.next_seq)
        key, seq, time = (np.asarray(v, np.int64) for v in (rows.key, rows.seq, rows.time))
        keep = seq >= self.next_seq[key] - count_of(op.window)
        if op.window.micros is not None:
            keep &= time >= self.until - op.window.micros
        key, seq, time = key[keep], seq[keep], np.ascontiguousarray(time[keep])
        ends = np.searchsorted(key, np.arange(keys), "right").astype(np.int64)
        begins = np.searchsorted(key, np.arange(keys)).astype(np.int64)
        columns = {c.name: rows.columns[c.name][keep] for c in op.columns if c != TARGET_COLUMN}
        self.slab, self.room, self.head, self.tail, self.leaf_at = (np.zeros(keys, np.int64) for _ in range(5))
        after = self.next_seq
        self.next_seq = after - (ends - begins)  # as before these rows came
        none = np.empty(0, np.int64)
        every_key = np.arange(keys)
        block = Block(
            every_key, begins, ends, np.zeros(keys, np.int64), np.zeros(keys, np.int64), self.next_seq, time, None, none, none, none
        )
        self._append(block, columns, tuple(as_floats(columns[c]) for c in op.attributes))
        self.next_seq = after
        if op.deletes:
            self.tombs = Tombs(np.array(a["tomb_key"]), np.array(a["tomb_seq"]), np.array(a["tomb_time"]))
            self.dead[spans(self.head, self.tail - self.head)] = np.where(self.tombs.times(key, seq) < NEVER, -1, NEVER)
        self._restore_lists(np.asarray(a["lists"], np.int64))

    def _restore_lists(self, seqs: I64) -> None:
        """Give every listed seq its row's time and score again; those that have left the window were not shown."""
        keys = max(1, len(self.next_seq))
        of = np.repeat(np.arange(self.l_m.size), self.l_m.ravel())
        row = self.tail[of % keys] - (self.next_seq[of % keys] - seqs)
        here = row >= self.head[of % keys]
        of, row, seqs = of[here], row[here], seqs[here]
        m = np.bincount(of, minlength=self.l_m.size).astype(np.int64)
        self.l_m = m.reshape(self.l_m.shape)
        self.l_room = self.l_m.copy()
        self.l_at = (np.cumsum(m) - m).reshape(self.l_m.shape)
        self.pool = len(seqs)
        q = of // keys
        self.pq, self.pt = seqs.copy(), self.tm[row] if len(self.tm) else np.zeros(len(row), np.int64)
        s = self.w[q, 0] * self.x[0, row]
        for t in range(1, self.w.shape[1]):
            s += self.w[q, t] * self.x[t, row]
        self.ps = s + 0.0

    def wake(self) -> Instant | None:
        """The next expiry of a list member or the next boundary of a query with something to tell."""
        return earliest(self.wake_at)

    def retained(self) -> tuple[I64, I64]:
        """What queries with boundaries have shown (the host keeps the window itself)."""
        keys, seqs = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
        for q in np.flatnonzero(self.every):
            shown = np.arange(self.k[q]) < self.rep_n[q][:, None]
            keys.append(np.nonzero(shown)[0])
            seqs.append(self.rep_q[:, self.rep_col[q] : self.rep_col[q + 1]][shown])
        both = np.unique(np.stack([np.concatenate(keys), np.concatenate(seqs)]), axis=1)
        return both[0], both[1]

    def snapshot(self, key: int, k: int, window: Window, query: int = 0) -> Items:
        """The best k of any window n <= N for one of the queries: a scan of the window."""
        if k < 1:
            raise ValueError(f"k = {k}: at least 1")
        check_window(window, self.op.window, "snapshot")
        if not 0 <= key < len(self.next_seq):
            return Items(np.empty(0, np.int64), np.empty((0, 1), np.int64), np.empty(0, np.float64))
        w = within(window, self.op.window)
        hi = int(self.tail[key])
        lo = max(int(self.head[key]), hi - min(count_of(w), MANY))
        if w.micros is not None:
            lo += int(np.searchsorted(self.tm[lo:hi], self.until - w.micros))
        s = np.empty(hi - lo, np.float64)
        q = query
        score_rows(self.w[q], self.x, lo, hi, self.boxed[q], self.low[q], self.high[q], self.where[q], self.flags, self.ceiling[q], s)
        ok = s >= self.floor[q]
        if len(self.dead):
            ok &= self.dead[lo:hi] == NEVER
        at = np.flatnonzero(ok)
        best = at[np.lexsort((at, s[at]))[::-1][:k]]
        seq = self.next_seq[key] - hi + lo + best
        return Items(np.full(len(best), key, np.int64), seq.reshape(-1, 1), external(s[best], self.sign[q] < 0))

    def skyband(self) -> Items:
        """Nothing: there is one skyband per query, and the window is kept anyway."""
        return Items(np.empty(0, np.int64), np.empty((0, 1), np.int64), np.empty(0, np.float64))

    def counters(self) -> dict[str, int]:
        """Rows, objects no query can use, refills, rows they read, (row, query) tests and rows outside the grid since the last call."""
        names = ("refills", "refill_rows", "tests", "wild")
        found = {"rows": self.rows, **{n: int(self.work[i]) for i, n in enumerate(names)}}
        found.update({f"unusable:{i}": self.unusable for i in range(len(self.k))})
        self.rows = self.unusable = 0
        self.work[:] = 0
        return found
