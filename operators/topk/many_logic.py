"""The state and logic of ``ManyTopK``: the window's rows, a list per (query, key), and the influence grid of a bucket of one key."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from skyband.operators.base import CHANGE_COLUMNS, F64, I64, NEVER, NULL, AnyArray, Arrivals, Changes, Instant, Items, State, Window
from skyband.operators.jit import HAVE_NUMBA
from skyband.operators.single_rows.arrays import changes_of, earliest, extent, external, spans, widened
from skyband.operators.single_rows.blocks import DELETION_COLUMN, Block, columns_of, cut, last_key
from skyband.operators.single_rows.kernels.ranked_list import alive_from
from skyband.operators.single_rows.kernels.replay_state import Records
from skyband.operators.single_rows.score_programs import program_scores
from skyband.operators.single_rows.scores import as_floats
from skyband.operators.single_rows.tombstones import Tombstones
from skyband.operators.topk.kernels.many import forget, replay_queries
from skyband.operators.topk.kernels.many_probe import BOUNDS, UNKNOWN, BlockCandidates, CellLists, InfluenceGrid, probe_grid
from skyband.operators.topk.kernels.many_tables import (
    COUNTERS,
    LEAF,
    NO_RING,
    NO_SEQ,
    OUTSIDE,
    TESTS,
    UNUSABLE,
    QueryLists,
    QueryTable,
    WindowPool,
    append_rows,
    first_place_from,
    plan_slabs,
    query_of,
    score_rows,
)
from skyband.operators.topk.list_sizes import list_sizes
from skyband.operators.topk.many_configuration import ManyTopKConfiguration
from skyband.operators.windows import check_window, count_of, micros_of

# The rows of the windows of one bucket: a ring for a bucket of one key, slabs in a pool for many (see ``WindowPool``).

SLACK = 131_072


class ManyWindow:
    """The window's rows, kept in ``pool``, which is another one after every method that changes it.

    ``d`` attributes; ``flags``: whether rows have predicate bits; ``deletes``: whether they can be deleted.
    """

    def __init__(self, window: Window, d: int, flags: bool, deletes: bool) -> None:
        self.window, self.has_flags, self.deletes = window, flags, deletes
        none, no_leaf = np.empty(0, np.int64), np.empty((d, 0))
        self.pool = WindowPool(
            np.empty((d, 0)), none, none, none, no_leaf, no_leaf, NO_RING, begin=none, room=none, head=none, tail=none, leaves_end=none
        )
        self.end = 0
        """The end of all slabs."""

    @property
    def ring(self) -> bool:
        """Return True if the rows lie in a ring."""
        return self.pool.wrap < NO_RING

    def grow(self, keys: int) -> None:
        """Make room for ``keys`` keys."""
        pool = self.pool
        if len(pool.begin) == 1 < keys and self.ring:
            self._lay(int(pool.tail[0] - pool.head[0]))
            self.pool = pool = self.pool._replace(wrap=NO_RING)
            pool.room[0] = self.end = pool.values.shape[1]
        begin, room, head, tail, known = (
            widened(a, keys, 0, 0) for a in (pool.begin, pool.room, pool.head, pool.tail, pool.leaves_end)
        )  # fmt: skip
        self.pool = pool._replace(begin=begin, room=room, head=head, tail=tail, leaves_end=known)

    def append(self, block: Block, until: Instant, columns: tuple[F64, ...], flags: I64) -> None:
        """Drop what has expired before ``until`` and store the block's rows: ``columns`` d float64 (rows,), ``flags`` int64 (rows,) or
        empty. O(rows), amortised."""
        if len(self.pool.begin) == 1:
            if len(block.keys):
                self._append_ring(block, until, columns, flags)
        else:
            target = np.empty(len(block.keys), np.int64)
            self.end = plan_slabs(block, self.pool, count_of(self.window), micros_of(self.window), until, self.end, target)
            self._reserve(self.end)
            append_rows(block, self.pool, target, columns, flags)

    def _append_ring(self, block: Block, until: Instant, columns: tuple[F64, ...], flags: I64) -> None:
        pool, count = self.pool, count_of(self.window)
        head, tail, new = int(pool.head[0]), int(pool.tail[0]), int(block.end[0] - block.begin[0])
        head = max(head, tail - count)
        if self.window.micros is not None and tail > head:
            head = first_place_from(pool, head, tail, alive_from(until - 1, self.window.micros))
        pool.head[0] = head
        need = tail - head + new + LEAF
        if need > pool.values.shape[1] or not self.ring:
            self._lay(max(need, min(2 * need, count + SLACK + LEAF)))
        elif head >= pool.wrap:
            for places in (pool.head, pool.tail, pool.leaves_end):
                places[0] -= pool.wrap
            pool.leaves_end[0] = max(pool.leaves_end[0], 0)
        pool = self.pool
        tail = int(pool.tail[0])
        for to, lo, hi in self.stretches(tail, tail + new):
            some = slice(int(block.begin[0]) + lo - tail, int(block.begin[0]) + hi - tail)
            for i, column in enumerate(columns):
                pool.values[i, to] = column[some]
            for stored, arrived in ((pool.time, block.time), (pool.flags, flags)):
                if len(stored):
                    stored[to] = arrived[some]
            if len(pool.ended_by):
                pool.ended_by[to] = NEVER
        pool.tail[0] = tail + new

    def stretches(self, begin: int, end: int) -> list[tuple[slice, int, int]]:
        """Return places [begin, end) of the only key or of a slab as one or two (rows, first place, end)."""
        wrap = self.pool.wrap
        if not self.ring:
            return [(slice(begin, end), begin, end)] if end > begin else []
        at = min(max(begin, wrap), end)
        both = [(slice(begin, at), begin, at), (slice(at - wrap, end - wrap), at, end)]
        return [stretch for stretch in both if stretch[2] > stretch[1]]

    def rows(self, places: I64) -> I64:
        """Return the rows of places, int64 both."""
        return np.where(places < self.pool.wrap, places, places - self.pool.wrap)

    def extent(self, rows: int) -> tuple[F64, F64]:
        """Return the range of the newest half of the only key's window and of the last ``rows``: float64 (d,) each."""
        head, tail = int(self.pool.head[0]), int(self.pool.tail[0])
        newest = max(head, tail - rows - (tail - head) // 2)
        with np.errstate(invalid="ignore"):  # both infinities in one column
            found = [extent(self.pool.values[:, to]) for to, _, _ in self.stretches(newest, tail)]
        return np.minimum.reduce([f[0] for f in found]), np.maximum.reduce([f[1] for f in found])

    def _lay(self, room: int) -> None:
        """Lay the only key's rows at the beginning of new columns with room for ``room``."""
        pool = self.pool
        head, tail = int(pool.head[0]), int(pool.tail[0])
        room = (room + LEAF - 1) // LEAF * LEAF
        stretches = self.stretches(head, tail)

        def moved(a: AnyArray) -> AnyArray:
            b = np.empty((*a.shape[:-1], room), a.dtype)
            for to, lo, hi in stretches:
                b[..., lo - head : hi - head] = a[..., to]
            return b

        ended_by = moved(pool.ended_by) if self.deletes else pool.ended_by
        if self.deletes:
            ended_by[tail - head :] = NEVER
        d = len(pool.values)
        self.pool = pool._replace(
            values=moved(pool.values), time=pool.time if self.window.micros is None else moved(pool.time),
            flags=moved(pool.flags) if self.has_flags else pool.flags, ended_by=ended_by,
            leaf_low=np.empty((d, room // LEAF + 1)), leaf_high=np.empty((d, room // LEAF + 1)), wrap=room,
        )  # fmt: skip
        pool.head[0], pool.tail[0], pool.begin[0], pool.leaves_end[0] = 0, tail - head, 0, 0

    def _reserve(self, end: int) -> None:
        """Make room for slabs up to ``end``."""
        pool = self.pool
        have = pool.values.shape[1]
        if end <= have:
            return
        room = max(end, have + have // 2)
        values = np.empty((len(pool.values), room), np.float64)
        values[:, :have] = pool.values
        leaves = np.empty((len(values), room // LEAF + 1 - pool.leaf_low.shape[1]))

        def longer(a: I64, fill: int) -> I64:
            return np.concatenate([a, np.full(room - have, fill)])

        self.pool = pool._replace(
            values=values, time=pool.time if self.window.micros is None else longer(pool.time, 0),
            flags=longer(pool.flags, 0) if self.has_flags else pool.flags,
            ended_by=longer(pool.ended_by, NEVER) if self.deletes else pool.ended_by,
            leaf_low=np.concatenate([pool.leaf_low, leaves], axis=1), leaf_high=np.concatenate([pool.leaf_high, leaves], axis=1),
        )  # fmt: skip


# Many top-k queries as the table their kernels read, and the state a query and key begins with.


def query_table(op: ManyTopKConfiguration, sign: F64, list_size: I64) -> QueryTable:
    """Return the queries of ``op``: ``sign`` float64 (Q,) turns their scores into internal ones, ``list_size`` int64 (Q,)."""
    q, d = len(op.names), len(op.attributes)
    program, weights = op.functions(sign)
    none = np.full(q, np.nan)
    least, most = (none if bound is None else bound for bound in (op.min_score, op.max_score))
    least, most = np.where(np.isnan(least), -np.inf, least), np.where(np.isnan(most), np.inf, most)
    low = np.full((q, d), -np.inf) if op.low is None else np.ascontiguousarray(op.low, np.float64)
    high = np.full((q, d), np.inf) if op.high is None else np.ascontiguousarray(op.high, np.float64)
    count, micros, every, where = op.filled()
    k = np.ascontiguousarray(op.k, np.int64)
    boxed: AnyArray = np.asarray(((low > -np.inf) | (high < np.inf)).any(axis=1))
    return QueryTable(
        k, count, micros, every, list_size, where, column=np.cumsum(np.where(every > 0, k, 0)) - np.where(every > 0, k, 0),
        weights=weights, low=low, high=high, columns=np.ascontiguousarray(weights.T), floor=np.where(sign > 0, least, -most),
        ceiling=np.where(sign > 0, most, -least), boxed=boxed, program=program,
    )  # fmt: skip


def scores_of(table: QueryTable, queries: I64, values: F64) -> F64:
    """Return the internal score of row i of ``values`` float64 (d, rows) for query i of ``queries`` int64 (rows,). O(rows)."""
    weights = table.weights[queries]
    if table.program.result >= 0:
        return program_scores(table.program, [*values, *weights.T])
    score: F64 = weights[:, 0] * values[0]
    for t in range(1, len(values)):
        score += weights[:, t] * values[t]
    score += 0.0
    return score


def no_records(table: QueryTable) -> Records:
    """Return the records of no key."""
    q, columns = len(table.k), int(table.k[table.every > 0].sum())
    step, wake, due, shown = (np.empty((q, 0), np.int64) for _ in range(4))
    seq, time, deleted = (np.empty((0, columns), np.int64) for _ in range(3))
    return Records(step, wake, due, shown, np.empty((0, columns), np.float64), seq, time, deleted)


def no_lists(table: QueryTable) -> QueryLists:
    """Return the lists of no key."""
    q, none = len(table.k), np.empty(0, np.int64)
    begin, room, size, limit, cut, full, oldest = (np.empty((q, 0), np.int64) for _ in range(7))
    return QueryLists(begin, room, size, limit, np.empty((q, 0)), cut, full, oldest, np.empty(0), none, none, 0)


def wider_records(records: Records, keys: int) -> Records:
    """Return the same with room for ``keys`` keys."""
    step, shown = (widened(a, keys, 0, 1) for a in (records.step, records.shown))
    wake, due = (widened(a, keys, NEVER, 1) for a in (records.wake, records.due))
    columns = (records.shown_score, records.shown_seq, records.shown_time, records.shown_deleted)
    return Records(step, wake, due, shown, *(widened(a, keys, 0, 0) for a in columns))


def wider_lists(lists: QueryLists, table: QueryTable, keys: int) -> QueryLists:
    """Return the same with empty lists for the keys up to ``keys``."""
    new = keys - lists.begin.shape[1]
    begin, room, size = (widened(a, keys, 0, 1) for a in (lists.begin, lists.room, lists.size))
    return lists._replace(
        begin=begin, room=room, size=size,
        limit=np.concatenate([lists.limit, np.repeat(table.list_size[:, None], new, axis=1)], axis=1),
        cutoff=np.concatenate([lists.cutoff, np.repeat(table.floor[:, None], new, axis=1)], axis=1),
        cut=widened(lists.cut, keys, -1, 1), full=widened(lists.full, keys, 1, 1), oldest=widened(lists.oldest, keys, NO_SEQ, 1),
    )  # fmt: skip


SAVED_RECORDS = {
    "step": "step", "wake_at": "wake", "due": "due", "rep_n": "shown", "rep_s": "shown_score", "rep_q": "shown_seq", "rep_t": "shown_time",
    "rep_d": "shown_deleted",
}  # fmt: skip
SAVED_LISTS = {"l_m": "size", "l_size": "limit", "l_thr": "cutoff", "l_cut": "cut", "l_full": "full", "l_old": "oldest"}
"""The names in a checkpoint of the fields of ``Records`` and of ``QueryLists``."""


def saved(records: Records, lists: QueryLists) -> dict[str, AnyArray]:
    """Return the part a checkpoint keeps: the fields of ``SAVED_RECORDS`` and ``SAVED_LISTS``, and in ``lists`` all lists' seqs."""
    out: dict[str, AnyArray] = {name: np.array(getattr(records, field)) for name, field in SAVED_RECORDS.items()}
    out.update({name: np.array(getattr(lists, field)) for name, field in SAVED_LISTS.items()})
    out["lists"] = lists.seq[spans(lists.begin.ravel(), lists.size.ravel())]
    return out


# The influence grid of a bucket of one key: when to fit it, when to rebuild its lists, and the candidates it finds.

MAX_CELLS = 65_536
MAX_FORGOTTEN = 64
MAX_CANDIDATES = 4_000_000
REFIT_ROWS = 131_072

Extent: TypeAlias = Callable[[], tuple[F64, F64]]


def _no_lists() -> CellLists:
    return CellLists(np.empty(0, np.int32), np.empty(0, np.int32))


class InfluenceIndex:
    """A grid over the data of one key and Q queries.

    Everything here is a matter of time, not of results: a candidate more or less changes nothing as long as no row at or above a query's
    cutoff is missed. ``work`` int64 (``COUNTERS``,) are the logic's counters.
    """

    def __init__(self, table: QueryTable, work: I64) -> None:
        self.table, self.work = table, work
        self.grid: InfluenceGrid | None = None
        self.lists = _no_lists()
        self.known = self.base = np.empty(0)
        self.window = self.rows = self.seen = self.tests = self.outside = 0
        self.rate, self.patience = np.inf, 4

    def candidates(
        self, columns: tuple[F64, ...], rows: int, flags: I64, cutoffs: F64, window: int, full: int, extent: Extent
    ) -> BlockCandidates | None:
        """Return candidates among the block's rows for ``cutoffs`` float64 (Q,), or None: score the block instead.

        ``window`` is the number of rows in the window now, ``full`` when it is full; ``extent`` returns the range of recent rows.
        """
        if not HAVE_NUMBA or len(columns) > 15 or int((cutoffs == -np.inf).sum()) * rows > MAX_CANDIDATES:
            return None
        grid = self.grid
        if grid is None or self.rows > max(4 * window, REFIT_ROWS) or self.outside * len(cutoffs) > window * len(columns):
            if rows < 64 and grid is None:
                return None
            grid = self._fit(*extent())
            if grid is None:
                return None
        if window > 2 * self.window or window > self.window == 0 or (window == full > self.window):
            self.known, self.window = np.empty(0), window  # cutoffs rise while the window fills
        self._follow(grid, cutoffs)
        tests, outside = int(self.work[TESTS]), int(self.work[OUTSIDE])
        found, self.lists = probe_grid(self.table, cutoffs, columns, rows, flags, grid, self.lists, self.work)
        self.rows += rows
        self.seen += rows
        self.tests += int(self.work[TESTS]) - tests
        self.outside += int(self.work[OUTSIDE]) - outside
        return found

    def _fit(self, low: F64, high: F64) -> InfluenceGrid | None:
        """Lay the grid over the range [low, high] and a little more. None if that cannot be."""
        d = len(low)
        g = max(2, min(256, int(MAX_CELLS ** (1 / d) + 1e-9)))
        with np.errstate(all="ignore"):
            width = high - low
            margin = np.where(width > 0, width * 0.001, np.maximum(1.0, abs(low)) * 1e-6)
            step = (width + 2 * margin) / g
        self.grid, self.rows, self.outside = None, 0, 0
        if not np.isfinite(step).all():
            return None
        begin, scale = low - margin, 1.0 / step
        step = 1.0 / scale
        self.grid = InfluenceGrid(
            g, begin, scale, step, 1e-9 * (abs(begin) + abs(step) * g), np.empty((g**d >> 5) + 1, np.uint32),
            np.empty(((g + 1) // 2) ** d, np.int32), np.empty(g**d, np.int32), np.zeros(3, np.int64),
        )  # fmt: skip
        self.known = np.empty(0)
        return self.grid

    def _start(self, grid: InfluenceGrid, cutoffs: F64) -> None:
        """Mark all cells unknown."""
        grid.bits[:] = 0xFFFFFFFF
        grid.coarse[:] = grid.fine[:] = UNKNOWN
        grid.counters[:] = 0
        self.base = cutoffs
        self.seen = self.tests = 0

    def _follow(self, grid: InfluenceGrid, cutoffs: F64) -> None:
        """Bring the lists up to date: cells that a lowered cutoff reaches are unknown again; all, when raised cutoffs make that pay."""
        if len(self.known) == 0:
            self._start(grid, cutoffs)
        else:
            q = len(cutoffs)
            lowered = np.flatnonzero(cutoffs < self.known)
            raised = cutoffs > self.base
            pays = 8 * self.tests > self.patience * (int(grid.counters[BOUNDS]) + 8 * len(grid.coarse)) and 8 * int(raised.sum()) > q
            if pays:  # a start that saved little is not repeated soon
                rate = self.tests / max(1, self.seen)
                self.patience = min(4 * self.patience, 1 << 20) if 5 * rate > 4 * self.rate else 4
                self.rate = rate
            if pays or len(lowered) > MAX_FORGOTTEN or 8 * int((raised & (self.base == self.table.floor)).sum()) > q:
                self._start(grid, cutoffs)
            elif len(lowered):
                if (cutoffs[lowered] == -np.inf).any():
                    self._start(grid, cutoffs)
                else:
                    forget(lowered, self.table, cutoffs, grid)
        self.known = cutoffs


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
        """Process every event < ``until``, as ``Logic.advance``. O(rows) for one key, O(rows x queries) for many, plus O(k) per change."""
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
        whole: dict[str, Any] = {f: np.concatenate([getattr(p, f) for p in parts])[order] for f in CHANGE_COLUMNS}
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
