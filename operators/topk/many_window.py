"""The rows of the windows of one bucket: a ring for a bucket of one key, slabs in a pool for many (see ``WindowPool``)."""

from __future__ import annotations

import numpy as np

from skyband.operators.base import F64, I64, NEVER, AnyArray, Instant, Window
from skyband.operators.single_rows.arrays import extent, widened
from skyband.operators.single_rows.blocks import Block
from skyband.operators.single_rows.kernels.list_moves import alive_from
from skyband.operators.topk.kernels.window_pool import LEAF, NO_RING, WindowPool, append_rows, first_place_from, plan_slabs
from skyband.operators.windows import count_of, micros_of

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
