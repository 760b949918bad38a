"""The state and logic of ``ManyTopK``: the window's rows, a list per (query, key), and the influence grid of a bucket of one key."""

from __future__ import annotations

from typing import Any

import numpy as np

from skyband.operators.base import F64, I64, NEVER, NULL, AnyArray, Arrivals, Changes, Instant, Items, State, Window
from skyband.operators.single_rows.arrays import changes_of, earliest, external, spans, widened
from skyband.operators.single_rows.blocks import DELETION_COLUMN, Block, columns_of, cut, last_key
from skyband.operators.single_rows.scores import as_floats
from skyband.operators.single_rows.tombstones import Tombstones
from skyband.operators.topk.kernels.many import replay_queries
from skyband.operators.topk.kernels.many_probe import BlockCandidates
from skyband.operators.topk.kernels.many_queries import COUNTERS, UNUSABLE, query_of
from skyband.operators.topk.kernels.many_scores import score_rows
from skyband.operators.topk.kernels.window_pool import first_place_from
from skyband.operators.topk.list_sizes import list_sizes
from skyband.operators.topk.many_configuration import ManyTopKConfiguration
from skyband.operators.topk.many_index import InfluenceIndex
from skyband.operators.topk.many_table import (
    SAVED_LISTS,
    SAVED_RECORDS,
    no_lists,
    no_records,
    query_table,
    saved,
    scores_of,
    wider_lists,
    wider_records,
)
from skyband.operators.topk.many_window import ManyWindow
from skyband.operators.windows import check_window, count_of

BLOCK_ROWS, FIRST_ROWS, LEAST_ROWS = 131_072, 16_384, 1024
COUNTED = ("refills", "refill_rows", "tests", "wild")
"""The first counters of ``work``, as users see them."""


class ManyTopKLogic:
    """State of one bucket.

    ``window`` the rows; ``lists`` one per query and key; ``records`` what queries have reported; ``next_seq`` int64 (keys,) the seq each
    key's next object has; ``tombs`` the deletions; ``index`` the influence grid.
    """

    def __init__(self, op: ManyTopKConfiguration, state: State | None) -> None:
        self.op = op
        q, d = len(op.names), len(op.attributes)
        self.sign = np.ones(q) if op.largest is None else np.where(op.largest.astype(bool), 1.0, -1.0)
        self.table = query_table(op, self.sign, list_sizes(np.ascontiguousarray(op.k, np.int64)))
        self.lists, self.records = no_lists(self.table), no_records(self.table)
        self.until, self.next_seq = NULL, np.empty(0, np.int64)
        self.window = ManyWindow(op.window, d, bool(op.where), op.deletes)
        self.new_flags = self.marked = np.empty(0, np.int64)
        self.tombs = Tombstones.empty()
        self.work = np.zeros(COUNTERS, np.int64)
        self.rows = self.unusable = 0
        self.piece = FIRST_ROWS
        self.index = InfluenceIndex(self.table, self.work)
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
        op, wake = self.op, self.records.wake
        also = np.flatnonzero(wake.min(axis=0) < until) if self.next_seq.size else np.empty(0, np.int64)
        block, objects = cut(arrivals, self.next_seq, also, op.deletes)
        self.rows += len(block.time)
        columns = columns_of(arrivals, objects, tuple(c.name for c in op.columns))
        attributes = tuple(as_floats(columns[a]) for a in op.attributes)
        self._append(block, columns, attributes)
        candidates = self._candidates(block, attributes, self.new_flags)
        found, rows, self.lists = replay_queries(
            self.table, block, self.window.pool, candidates, self.lists, self.records, until, self.work
        )
        if len(self.marked):
            self.window.pool.ended_by[self.marked] = -1
            self.marked = self.marked[:0]
        self.next_seq[block.keys] = block.first_seq + block.end - block.begin
        self.until = until
        if rows:
            found.score[:rows] *= self.sign[found.numbers[:rows, 0]]
        return changes_of(found, rows, False)

    def _advance_in_parts(self, arrivals: Arrivals, until: Instant) -> Changes:
        """Return a long block of one key in pieces, cut where time moves on, so that cutoffs keep up with the rows."""
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

    def _append(self, block: Block, columns: dict[str, AnyArray], attributes: tuple[F64, ...]) -> None:
        """Store the block's rows and mark those that its deletions take."""
        self.new_flags = self.op.flags(columns, len(block.time))
        self.window.append(block, self.until, attributes, self.new_flags)
        if len(block.deletion_seq):
            pool = self.window.pool
            of = np.repeat(np.arange(len(block.keys)), block.deletion_end - block.deletion_begin)
            keys = block.keys[of]
            place = pool.tail[keys] - (block.end - block.begin)[of] + block.deletion_seq - block.first_seq[of]
            here = place >= pool.head[keys]
            self.marked = self.window.rows(place[here])
            pool.ended_by[self.marked] = np.flatnonzero(here)
            self.tombs = self.tombs.with_(Tombstones(keys, block.deletion_seq, block.deletion_time))

    def _grow(self, keys: int) -> None:
        """Make room for ``keys`` keys."""
        if keys <= len(self.next_seq):
            return
        self.next_seq = widened(self.next_seq, keys, 0, 0)
        self.window.grow(keys)
        self.records, self.lists = wider_records(self.records, keys), wider_lists(self.lists, self.table, keys)

    # ---------------------------------------------------------------- which queries can a row concern

    def _candidates(self, block: Block, attributes: tuple[F64, ...], flags: I64) -> BlockCandidates:
        """Find candidates by the influence grid; if there is none, the kernels score the block for every query."""
        rows = len(block.time)
        found = None
        if rows and len(self.next_seq) == 1:
            cutoffs, pool = self.lists.cutoff[:, 0].copy(), self.window.pool
            found = self.index.candidates(
                attributes, rows, flags, cutoffs, int(pool.tail[0] - pool.head[0]), count_of(self.op.window),
                lambda: self.window.extent(rows),
            )  # fmt: skip
            self.unusable += int(self.work[UNUSABLE])
            self.work[UNUSABLE] = 0
        if found is not None:
            self._adapt(rows, len(found.rows))
            return found
        if rows:
            self.unusable += int(np.logical_or.reduce([np.isnan(a) for a in attributes]).sum())
        return BlockCandidates(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.float64))

    def _adapt(self, rows: int, candidates: int) -> None:
        """Adapt the length of pieces: long ones cost less, but their candidates use the cutoffs of their beginning."""
        room = int(self.lists.limit.sum())
        if candidates > 2 * room:
            self.piece = max(LEAST_ROWS, self.piece // 2)
        elif 2 * candidates < room and rows >= self.piece:
            self.piece = min(BLOCK_ROWS, 2 * self.piece)

    # ---------------------------------------------------------------- state

    def checkpoint(self) -> dict[str, AnyArray]:
        """Return steps, clocks and the seqs on every query's list; the host keeps the rows."""
        arrays: dict[str, AnyArray] = {"until": np.array([self.until], np.int64), "next_seq": np.array(self.next_seq)}
        arrays.update(saved(self.records, self.lists))
        if self.op.deletes:
            self.tombs = self.tombs.alive(self.next_seq, self.until, self.op.window)
            arrays.update(tomb_key=self.tombs.key, tomb_seq=self.tombs.seq, tomb_time=self.tombs.time)
        return arrays

    def _restore(self, state: State) -> None:
        arrays = state.arrays
        self.until, self.next_seq = int(arrays["until"][0]), np.array(arrays["next_seq"])
        self.records = self.records._replace(**{field: np.array(arrays[name]) for name, field in SAVED_RECORDS.items()})
        listed: dict[str, Any] = {field: np.array(arrays[name]) for name, field in SAVED_LISTS.items()}
        self.lists = self.lists._replace(**listed)
        if self.op.deletes:
            self.tombs = Tombstones(*(np.array(arrays[name]) for name in ("tomb_key", "tomb_seq", "tomb_time")))
        self._restore_window(state.rows)
        self._restore_lists(np.asarray(arrays["lists"], np.int64))

    def _restore_window(self, rows: Arrivals) -> None:
        """Store the alive ones of the host's rows, as one block that arrived before."""
        op, keys = self.op, len(self.next_seq)
        key, seq, time = (np.asarray(a, np.int64) for a in (rows.key, rows.seq, rows.time))
        keep = seq >= self.next_seq[key] - count_of(op.window)
        if op.window.micros is not None:
            keep &= time >= self.until - op.window.micros
        key, seq, time = key[keep], seq[keep], np.ascontiguousarray(time[keep])
        columns = {c.name: rows.columns[c.name][keep] for c in op.columns if c != DELETION_COLUMN}
        every_key, none = np.arange(keys), np.empty(0, np.int64)
        begin, end = (np.searchsorted(key, every_key, side).astype(np.int64) for side in ("left", "right"))
        no_deletion = np.zeros(keys, np.int64)
        block = Block(
            every_key, begin, end, no_deletion, no_deletion, self.next_seq - (end - begin), time, none, none, none
        )  # fmt: skip
        self.window.grow(keys)
        self._append(block, columns, tuple(as_floats(columns[a]) for a in op.attributes))
        if op.deletes:
            pool = self.window.pool
            alive = self.window.rows(spans(pool.head, pool.tail - pool.head))
            pool.ended_by[alive] = np.where(self.tombs.times(key, seq) < NEVER, -1, NEVER)

    def _restore_lists(self, seqs: I64) -> None:
        """Give every listed seq its row's time and score again; those that have left the window were not shown."""
        lists, pool, keys = self.lists, self.window.pool, max(1, len(self.next_seq))
        of = np.repeat(np.arange(lists.size.size), lists.size.ravel())
        place = pool.tail[of % keys] - (self.next_seq[of % keys] - seqs)
        here = place >= pool.head[of % keys]
        of, row, seqs = of[here], self.window.rows(place[here]), seqs[here]
        size = np.bincount(of, minlength=lists.size.size).astype(np.int64)
        begin, shape = np.cumsum(size) - size, lists.size.shape
        time = pool.time[row] if len(pool.time) else np.zeros(len(row), np.int64)
        score = scores_of(self.table, of // keys, pool.values[:, row])
        self.lists = lists._replace(
            begin=begin.reshape(shape), room=size.reshape(shape).copy(), size=size.reshape(shape), score=score, seq=seqs.copy(),
            time=time, end=len(seqs),
        )  # fmt: skip

    # ---------------------------------------------------------------- questions

    def wake(self) -> Instant | None:
        """Return the next expiry of a list member or the next boundary at which a query has changes."""
        return earliest(self.records.wake)

    def retained(self) -> tuple[I64, I64]:
        """Return what queries with boundaries have shown (the host keeps the window itself)."""
        table, records = self.table, self.records
        keys, seqs = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
        for q in np.flatnonzero(table.every):
            shown = np.arange(table.k[q]) < records.shown[q][:, None]
            keys.append(np.nonzero(shown)[0])
            seqs.append(records.shown_seq[:, table.column[q] : table.column[q] + table.k[q]][shown])
        both = np.unique(np.stack([np.concatenate(keys), np.concatenate(seqs)]), axis=1)
        return both[0], both[1]

    def snapshot(self, key: int, k: int, window: Window, query: int = 0) -> Items:
        """Return the best k of any window n <= N for one of the queries: a scan of the window."""
        if k < 1:
            raise ValueError(f"k = {k}: at least 1")
        check_window(window, self.op.window, "snapshot")
        if not 0 <= key < len(self.next_seq):
            return Items(np.empty(0, np.int64), np.empty((0, 1), np.int64), np.empty(0, np.float64))
        inside, pool = window.within(self.op.window), self.window.pool
        end = int(pool.tail[key])
        begin = max(int(pool.head[key]), end - count_of(inside))
        if inside.micros is not None:
            begin = int(first_place_from(pool, begin, end, self.until - inside.micros))
        one, score = query_of(self.table, query), np.empty(end - begin, np.float64)
        alive = np.ones(end - begin, bool)
        for to, a, b in self.window.stretches(begin, end):
            score_rows(one, pool, to.start, to.stop, score[a - begin : b - begin])
            if len(pool.ended_by):
                alive[a - begin : b - begin] = pool.ended_by[to] == NEVER
        at = np.flatnonzero(alive & (score >= self.table.floor[query]))
        best = at[np.lexsort((at, score[at]))[::-1][:k]]
        seq = self.next_seq[key] - end + begin + best
        return Items(np.full(len(best), key, np.int64), seq.reshape(-1, 1), external(score[best], self.sign[query] < 0))

    def skyband(self) -> Items:
        """Return no items: there is one skyband per query, and the window is kept anyway."""
        return Items(np.empty(0, np.int64), np.empty((0, 1), np.int64), np.empty(0, np.float64))

    def counters(self) -> dict[str, int]:
        """Return rows, objects no query can use, refills, rows they read, tests and rows outside the grid since the last call."""
        found = {"rows": self.rows, **{name: int(self.work[i]) for i, name in enumerate(COUNTED)}}
        found.update({f"unusable:{i}": self.unusable for i in range(len(self.table.k))})
        self.rows = self.unusable = 0
        self.work[:] = 0
        return found
