"""The moving part of ``ManyTopK``: the window's rows, one list per (query, key), and for a bucket of one key the influence grid."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from skyband.operators.base import F64, I64, NEVER, NULL, AnyArray, Arrivals, Changes, Instant, Items, State, Window
from skyband.operators.single_rows.arrays import earliest, spans, widened
from skyband.operators.single_rows.blocks import DELETION_COLUMN, Block, columns_of, cut, last_key
from skyband.operators.single_rows.changes import changes_of, external
from skyband.operators.single_rows.kernels.emit import ChangeRows
from skyband.operators.single_rows.scores import as_floats
from skyband.operators.single_rows.tombstones import Tombstones
from skyband.operators.topk.kernels.many import run
from skyband.operators.topk.kernels.many_refill import first_from
from skyband.operators.topk.kernels.window_pool import score_rows
from skyband.operators.topk.list_sizes import list_sizes
from skyband.operators.topk.many_index import InfluenceIndex
from skyband.operators.topk.many_window import ManyWindow
from skyband.operators.windows import UNBOUNDED, check_window, count_of, within

if TYPE_CHECKING:
    from skyband.operators.topk.many import ManyTopK

BLOCK_ROWS, FIRST_ROWS, LEAST_ROWS = 131_072, 16_384, 1024


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
        largest = np.ones(q, bool) if op.largest is None else op.largest.astype(bool)
        self.sign = np.where(largest, 1.0, -1.0)
        self.w = np.ascontiguousarray(op.weights * self.sign[:, None], np.float64)
        self.k = np.ascontiguousarray(op.k, np.int64)
        self.n, self.micros, self.every, self.where = op.filled()
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
        self.window = ManyWindow(op.window, d, bool(op.where), op.deletes)
        self.new_flags, self.marked = empty, empty
        self.step, self.wake_at, self.due, self.rep_n = (np.empty((q, 0), np.int64) for _ in range(4))
        self.l_at, self.l_room, self.l_m, self.l_size, self.l_cut, self.l_full, self.l_old = (np.empty((q, 0), np.int64) for _ in range(7))
        self.l_thr = np.empty((q, 0), np.float64)
        self.ps, self.pq, self.pt, self.pool = np.empty(0, np.float64), empty, empty, 0
        self.rep_s = np.empty((0, width), np.float64)
        self.rep_q, self.rep_t, self.rep_d = (np.empty((0, width), np.int64) for _ in range(3))
        self.tombs = Tombstones.empty()
        self.work = np.zeros(8, np.int64)
        self.rows = self.unusable = 0
        self.piece = FIRST_ROWS
        self.index = InfluenceIndex(self.w, self.boxed, self.low, self.high, self.where, self.ceiling, self.floor, self.work)
        if state is not None:
            self._restore(state)

    # ---------------------------------------------------------------- rows in

    def advance(self, arrivals: Arrivals, until: Instant) -> Changes:
        """See ``Logic.advance``. O(rows) for one key, O(rows x queries) for many, plus O(k) per change."""
        self._grow(last_key(arrivals) + 1)
        if len(self.next_seq) == 1 and len(arrivals) > self.piece + self.piece // 2:
            return self._advance_in_parts(arrivals, until)
        return self._advance(arrivals, until)

    def _advance(self, arrivals: Arrivals, until: Instant) -> Changes:
        op = self.op
        also = np.flatnonzero(self.wake_at.min(axis=0) < until) if self.next_seq.size else np.empty(0, np.int64)
        block, objects = cut(arrivals, self.next_seq, also, op.deletes)
        self.rows += len(block.time)
        columns = columns_of(arrivals, objects, tuple(c.name for c in op.columns))
        cols = tuple(as_floats(columns[a]) for a in op.attributes)
        shift = self._append(block, columns, cols)
        found = self._candidates(block, cols, self.new_flags)
        window = self.window
        oi, os, n, self.ps, self.pq, self.pt, self.pool = run(
            self.k, self.n, self.micros, self.floor, self.ceiling, self.every, self.size, self.w, self.boxed, self.low, self.high,
            self.where,
            block.keys, block.begin, block.end, block.deletion_begin, block.deletion_end,
            block.first_seq, block.time, shift, window.head, window.wrap,
            window.x, window.tm, window.flags, window.dead, block.deletion_row, block.deletion_time, block.deletion_seq, *found,
            self.l_at, self.l_room, self.l_m, self.l_size, self.l_thr, self.l_cut, self.l_full, self.l_old, self.ps, self.pq, self.pt,
            self.pool,
            window.zlo, window.zhi, window.leaf_at, self.step, self.wake_at, self.due, self.rep_n, self.rep_col,
            self.rep_s, self.rep_q, self.rep_t, self.rep_d, until, self.work,
        )  # fmt: skip
        if len(self.marked):
            window.dead[self.marked] = -1
            self.marked = self.marked[:0]
        self.next_seq[block.keys] = block.first_seq + block.end - block.begin
        self.until = until
        if n:
            os[:n] *= self.sign[oi[:n, 0]]
        return changes_of(ChangeRows(oi, os), n, False)

    def _advance_in_parts(self, arrivals: Arrivals, until: Instant) -> Changes:
        """A long block of one key in pieces, cut where time moves on, so that cutoffs keep up with the rows."""
        parts, lo, n = [], 0, len(arrivals)
        while lo < n:
            hi = lo + self.piece
            if hi + self.piece // 2 >= n:
                hi = n
            else:
                back = int(np.searchsorted(arrivals.time[lo:hi], arrivals.time[hi])) + lo
                hi = back if back > lo else int(np.searchsorted(arrivals.time, arrivals.time[hi], "right"))
            part = Arrivals(
                arrivals.key[lo:hi], arrivals.seq[lo:hi], arrivals.time[lo:hi], {c: a[lo:hi] for c, a in arrivals.columns.items()}
            )  # fmt: skip
            parts.append(self._advance(part, int(arrivals.time[hi]) if hi < n else until))
            lo = hi
        order = np.argsort(np.concatenate([p.query for p in parts]), kind="stable")
        fields = ("query", "key", "at", "step", "pos", "sign", "cause", "score", "items")
        whole: dict[str, Any] = {f: np.concatenate([getattr(p, f) for p in parts])[order] for f in fields}
        return Changes(**whole)

    def _append(self, block: Block, columns: dict[str, AnyArray], cols: tuple[F64, ...]) -> I64:
        """Store the block's rows; returns by how much each key's pool rows are ahead of its block rows."""
        self.new_flags = self.op.flags(columns, len(block.time))
        shift = self.window.append(block, self.next_seq, self.until, cols, self.new_flags)
        if len(block.deletion_row):
            of = np.repeat(np.arange(len(block.keys)), block.deletion_end - block.deletion_begin)
            place = block.begin[of] + shift[of] + block.deletion_seq - block.first_seq[of]
            here = place >= self.window.head[block.keys[of]]
            self.marked = self.window.rows(place[here])
            self.window.dead[self.marked] = np.flatnonzero(here)
            self.tombs = self.tombs.with_(Tombstones(block.keys[of], block.deletion_seq, block.deletion_time))
        return shift

    def _grow(self, keys: int) -> None:
        have = len(self.next_seq)
        if keys <= have:
            return
        self.next_seq = widened(self.next_seq, keys, 0, 0)
        self.window.grow(keys)
        for name, fill in (("step", 0), ("rep_n", 0), ("l_at", 0), ("l_room", 0), ("l_m", 0), ("l_full", 1), ("l_cut", -1),
                           ("l_old", NEVER // 4), ("wake_at", NEVER), ("due", NEVER)):  # fmt: skip
            setattr(self, name, widened(getattr(self, name), keys, fill, 1))
        new = keys - have
        self.l_size = np.concatenate([self.l_size, np.repeat(self.size[:, None], new, axis=1)], axis=1)
        self.l_thr = np.concatenate([self.l_thr, np.repeat(self.floor[:, None], new, axis=1)], axis=1)
        for name in ("rep_s", "rep_q", "rep_t", "rep_d"):
            setattr(self, name, widened(getattr(self, name), keys, 0, 0))

    # ---------------------------------------------------------------- which queries can a row concern

    def _candidates(self, block: Block, cols: tuple[F64, ...], flags: I64) -> tuple[I64, I64, F64]:
        """Candidates by the influence grid, or three empty arrays: score the block for every query."""
        rows = len(block.time)
        found = None
        if rows and len(self.next_seq) == 1:
            thr, window = self.l_thr[:, 0].copy(), int(self.window.tail[0] - self.window.head[0])
            found = self.index.candidates(cols, rows, flags, thr, window, count_of(self.op.window), lambda: self.window.extent(rows))
            self.unusable += int(self.work[4])
            self.work[4] = 0
        if found is not None:
            self._adapt(rows, len(found[1]))
            return found
        if rows:
            self.unusable += int(np.logical_or.reduce([np.isnan(c) for c in cols]).sum())
        return np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.float64)

    def _adapt(self, rows: int, candidates: int) -> None:
        """Long pieces cost least, but candidates are found with the cutoffs of a piece's beginning: no more of them than lists hold."""
        room = int(self.l_size.sum())
        if candidates > 2 * room:
            self.piece = max(LEAST_ROWS, self.piece // 2)
        elif 2 * candidates < room and rows >= self.piece:
            self.piece = min(BLOCK_ROWS, 2 * self.piece)

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
        columns = {c.name: rows.columns[c.name][keep] for c in op.columns if c != DELETION_COLUMN}
        self.window.grow(keys)
        after = self.next_seq
        self.next_seq = after - (ends - begins)  # as before these rows came
        none = np.empty(0, np.int64)
        every_key = np.arange(keys)
        block = Block(every_key, begins, ends, np.zeros(keys, np.int64), np.zeros(keys, np.int64), self.next_seq, time, none, none, none)
        self._append(block, columns, tuple(as_floats(columns[c]) for c in op.attributes))
        self.next_seq = after
        if op.deletes:
            self.tombs = Tombstones(np.array(a["tomb_key"]), np.array(a["tomb_seq"]), np.array(a["tomb_time"]))
            window = self.window
            alive = window.rows(spans(window.head, window.tail - window.head))
            window.dead[alive] = np.where(self.tombs.times(key, seq) < NEVER, -1, NEVER)
        self._restore_lists(np.asarray(a["lists"], np.int64))

    def _restore_lists(self, seqs: I64) -> None:
        """Give every listed seq its row's time and score again; those that have left the window were not shown."""
        keys = max(1, len(self.next_seq))
        of = np.repeat(np.arange(self.l_m.size), self.l_m.ravel())
        window = self.window
        place = window.tail[of % keys] - (self.next_seq[of % keys] - seqs)
        here = place >= window.head[of % keys]
        of, row, seqs = of[here], window.rows(place[here]), seqs[here]
        m = np.bincount(of, minlength=self.l_m.size).astype(np.int64)
        self.l_m = m.reshape(self.l_m.shape)
        self.l_room = self.l_m.copy()
        self.l_at = (np.cumsum(m) - m).reshape(self.l_m.shape)
        self.pool = len(seqs)
        q = of // keys
        self.pq, self.pt = seqs.copy(), window.tm[row] if len(window.tm) else np.zeros(len(row), np.int64)
        s = self.w[q, 0] * window.x[0, row]
        for t in range(1, self.w.shape[1]):
            s += self.w[q, t] * window.x[t, row]
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
        rows = self.window
        hi = int(rows.tail[key])
        lo = max(int(rows.head[key]), hi - min(count_of(w), UNBOUNDED))
        if w.micros is not None:
            lo = first_from(rows.tm, lo, hi, rows.wrap, self.until - w.micros)
        s, q = np.empty(hi - lo, np.float64), query
        ok = np.ones(hi - lo, bool)
        for to, a, b in rows.parts(lo, hi):
            score_rows(
                self.w[q], rows.x, to.start, to.stop, self.boxed[q], self.low[q], self.high[q], self.where[q], rows.flags,
                self.ceiling[q], s[a - lo : b - lo],
            )  # fmt: skip
            if len(rows.dead):
                ok[a - lo : b - lo] = rows.dead[to] == NEVER
        ok &= s >= self.floor[q]
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
