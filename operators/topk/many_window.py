"""The rows of the windows of one bucket: a ring for a bucket of one key, slabs in a pool for many (``kernels.topk_window``)."""

from __future__ import annotations

import numpy as np

from skyband.operators.base import F64, I64, NEVER, AnyArray, Instant, Window
from skyband.operators.single_rows.arrays import extent, widened
from skyband.operators.single_rows.blocks import Block
from skyband.operators.single_rows.kernels.expiry import alive_from
from skyband.operators.topk.kernels.many_refill import first_from
from skyband.operators.topk.kernels.window_pool import LEAF, append, plan
from skyband.operators.windows import UNBOUNDED, count_of, micros_of

SLACK = 131_072


class ManyWindow:
    """Columns ``x`` float64 (d, rows), times ``tm`` (for time windows), predicate bits ``flags`` and deletions ``dead`` where needed.

    Rows are named by *place*: place p is row p, or p - ``wrap`` from ``wrap`` on. Key g has places [head[g], tail[g]). ``wrap`` is the
    ring's length for one key, and UNBOUNDED (never reached) for slabs.
    """

    def __init__(self, window: Window, d: int, flags: bool, deletes: bool) -> None:
        self.window, self.has_flags, self.deletes = window, flags, deletes
        empty = np.empty(0, np.int64)
        self.slab, self.room, self.head, self.tail, self.leaf_at = (empty for _ in range(5))
        self.x, self.tm, self.flags, self.dead, self.end = np.empty((d, 0)), empty, empty, empty, 0
        self.zlo, self.zhi = np.empty((d, 0)), np.empty((d, 0))
        self.wrap = UNBOUNDED

    def grow(self, keys: int) -> None:
        """Make room for ``keys`` keys."""
        if len(self.slab) == 1 < keys and self.wrap < UNBOUNDED:
            self._lay(int(self.tail[0] - self.head[0]))
            self.wrap = UNBOUNDED
            self.room[0] = self.end = self.x.shape[1]
        for name in ("slab", "room", "head", "tail", "leaf_at"):
            setattr(self, name, widened(getattr(self, name), keys, 0, 0))

    def append(self, block: Block, next_seq: I64, until: Instant, cols: tuple[F64, ...], flags: I64) -> I64:
        """Drop what has expired before ``until`` and store the block's rows; returns by how much each key's places are ahead of its
        block rows. O(rows), amortised."""
        keys, new = block.keys, block.end - block.begin
        if len(self.slab) == 1:
            if len(keys):
                self._append_ring(block, until, cols, flags)
        else:
            target = np.empty(len(keys), np.int64)
            self.end = plan(
                keys, new, next_seq, count_of(self.window), micros_of(self.window), until, self.tm,
                self.slab, self.room, self.head, self.tail, self.end, target,
            )  # fmt: skip
            self._reserve(self.end)
            append(
                keys, block.begin, block.end, target, self.slab, self.head, self.tail, self.x, self.tm, self.flags, self.dead,
                cols, block.time, flags, self.leaf_at,
            )  # fmt: skip
        return self.tail[keys] - block.end

    def _append_ring(self, block: Block, until: Instant, cols: tuple[F64, ...], flags: I64) -> None:
        head, tail, new = int(self.head[0]), int(self.tail[0]), int(block.end[0] - block.begin[0])
        head = max(head, tail - count_of(self.window))
        if self.window.micros is not None and tail > head:
            head = first_from(self.tm, head, tail, self.wrap, alive_from(until - 1, self.window.micros))
        self.head[0] = head
        need = tail - head + new + LEAF
        if need > self.x.shape[1] or self.wrap == UNBOUNDED:
            self._lay(max(need, min(2 * need, count_of(self.window) + SLACK + LEAF)))
        elif head >= self.wrap:
            for a in (self.head, self.tail, self.leaf_at):
                a[0] -= self.wrap
            self.leaf_at[0] = max(self.leaf_at[0], 0)
        tail = int(self.tail[0])
        for to, lo, hi in self.parts(tail, tail + new):
            some = slice(int(block.begin[0]) + lo - tail, int(block.begin[0]) + hi - tail)
            for i, c in enumerate(cols):
                self.x[i, to] = c[some]
            for a, v in ((self.tm, block.time), (self.flags, flags)):
                if len(a):
                    a[to] = v[some]
            if len(self.dead):
                self.dead[to] = NEVER
        self.tail[0] = tail + new

    def parts(self, a: int, b: int) -> list[tuple[slice, int, int]]:
        """Places [a, b) of the only key or of a slab: (rows, first place, end) of its one or two stretches."""
        at = min(max(a, self.wrap), b)
        out = [(slice(a, at), a, at), (slice(at - self.wrap, b - self.wrap), at, b)] if self.wrap < UNBOUNDED else [(slice(a, b), a, b)]
        return [p for p in out if p[2] > p[1]]

    def rows(self, places: I64) -> I64:
        """Rows of places."""
        return np.where(places < self.wrap, places, places - self.wrap)

    def extent(self, rows: int) -> tuple[F64, F64]:
        """Range of the newest half of the only key's window and of the ``rows`` just appended."""
        head, tail = int(self.head[0]), int(self.tail[0])
        with np.errstate(invalid="ignore"):  # both infinities in one column
            found = [extent(self.x[:, to]) for to, _, _ in self.parts(max(head, tail - rows - (tail - head) // 2), tail)]
        return np.minimum.reduce([f[0] for f in found]), np.maximum.reduce([f[1] for f in found])

    def _lay(self, room: int) -> None:
        """Lay the only key's rows at the beginning of new columns with room for ``room``."""
        head, tail = int(self.head[0]), int(self.tail[0])
        room = (room + LEAF - 1) // LEAF * LEAF
        stretches = self.parts(head, tail)

        def moved(a: AnyArray) -> AnyArray:
            b = np.empty((*a.shape[:-1], room), a.dtype)
            for to, lo, hi in stretches:
                b[..., lo - head : hi - head] = a[..., to]
            return b

        self.x = moved(self.x)
        if self.window.micros is not None:
            self.tm = moved(self.tm)
        if self.has_flags:
            self.flags = moved(self.flags)
        if self.deletes:
            self.dead = moved(self.dead)
            self.dead[tail - head :] = NEVER
        self.zlo, self.zhi = (np.empty((len(self.x), room // LEAF + 1)) for _ in range(2))
        self.head[0], self.tail[0], self.slab[0], self.leaf_at[0] = 0, tail - head, 0, 0
        self.wrap = room

    def _reserve(self, end: int) -> None:
        have = self.x.shape[1]
        if end <= have:
            return
        room = max(end, have + have // 2)
        x = np.empty((self.x.shape[0], room), np.float64)
        x[:, :have] = self.x
        self.x = x
        if self.window.micros is not None:
            self.tm = np.concatenate([self.tm, np.zeros(room - have, np.int64)])
        if self.has_flags:
            self.flags = np.concatenate([self.flags, np.zeros(room - have, np.int64)])
        if self.deletes:
            self.dead = np.concatenate([self.dead, np.full(room - have, NEVER)])
        leaves = room // LEAF + 1 - self.zlo.shape[1]
        self.zlo, self.zhi = (np.concatenate([z, np.empty((len(x), leaves))], axis=1) for z in (self.zlo, self.zhi))
