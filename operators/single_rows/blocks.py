"""What the single-object operators share: blocks of arrivals and deletions cut by key, window arithmetic, change rows to columns.

Deletions travel in ``Arrivals`` as rows of their own with ``seq`` = -1 and the deleted object's seq in the column ``TARGET`` (int64,
``NULL``
in the rows of objects). Within a key they stand where they happen: after the objects that came before them. The host resolves ids to
live targets; a deletion without one never gets here. Other columns of a deletion row are not read.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from skyband.operators.base import F64, I64, NEVER, NULL, AnyArray, Arrivals, Changes, Column, Window

TARGET = "$target"
"""Name of the column with the deleted object's seq."""

TARGET_COLUMN = Column(TARGET, "int")

MANY: int = 2**62
"""A count no window reaches: "no count window"."""


def count_of(window: Window) -> int:
    """The window's count, or ``MANY``."""
    return MANY if window.count is None else window.count


def micros_of(window: Window) -> int:
    """The window's duration, or 0 for none."""
    return 0 if window.micros is None else window.micros


def list_sizes(k: I64) -> I64:
    """How many candidates a query's list is filled with: enough that chance alone hardly ever empties it to below k."""
    return (k + 4.0 * np.sqrt(k) + 8.0).astype(np.int64)


@dataclass(frozen=True, slots=True)
class Block:
    """One call's rows by key. ``keys[g]`` has object rows lo[g]..hi[g] (first with seq ``seq0``) and deletions dlo[g]..dhi[g].

    ``rows`` are the positions of the objects in the arrivals (None: all of them). Deletion j happens before object row ``dpos[j]``.
    """

    keys: I64
    lo: I64
    hi: I64
    dlo: I64
    dhi: I64
    seq0: I64
    time: I64
    rows: I64 | None
    dpos: I64
    dtime: I64
    dtarget: I64

    def columns(self, arrivals: Arrivals, names: tuple[str, ...]) -> dict[str, AnyArray]:
        """The objects' columns."""
        return {n: arrivals.columns[n] if self.rows is None else arrivals.columns[n][self.rows] for n in names}


def cut(arrivals: Arrivals, next_seq: I64, also: I64, deletes: bool) -> Block:
    """Cut ``arrivals`` by key, adding the keys of ``also`` (sorted; those without rows get empty blocks). O(rows), no Python per key."""
    key = np.asarray(arrivals.key, np.int64)
    time = np.ascontiguousarray(arrivals.time, np.int64)
    seq = np.asarray(arrivals.seq, np.int64)
    none = np.empty(0, np.int64)
    rows: I64 | None = None
    dpos = dtime = dtarget = dkey = none
    if deletes and len(key):
        target = np.asarray(arrivals.columns[TARGET], np.int64)
        is_object = target == NULL
        if not is_object.all():
            gone = np.flatnonzero(~is_object)
            rows = np.flatnonzero(is_object)
            dpos = np.cumsum(is_object)[gone]
            dtime, dtarget, dkey = time[gone], target[gone], key[gone]
            key, time, seq = key[rows], np.ascontiguousarray(time[rows]), seq[rows]
    if len(key) and key[0] == key[-1] and len(dkey) == 0 and (len(also) == 0 or (len(also) == 1 and also[0] == key[0])):
        keys, lo, hi = key[:1].copy(), np.zeros(1, np.int64), np.full(1, len(key))  # one global stream
    else:
        keys = np.unique(np.concatenate([key[_first(key)], dkey[_first(dkey)], also]))
        lo, hi = np.searchsorted(key, keys), np.searchsorted(key, keys, "right")
    seq0 = next_seq[keys]
    some = hi > lo
    seq0[some] = seq[lo[some]]
    return Block(
        keys, lo, hi, np.searchsorted(dkey, keys), np.searchsorted(dkey, keys, "right"), seq0, time, rows, dpos, dtime, dtarget
    )  # fmt: skip


def _first(key: I64) -> I64:
    """Positions where a sorted key column starts a new key."""
    return np.flatnonzero(np.concatenate([[True], key[1:] != key[:-1]])) if len(key) else np.empty(0, np.int64)


def last_key(arrivals: Arrivals) -> int:
    """The largest key of the arrivals, or -1."""
    return int(arrivals.key[-1]) if len(arrivals) else -1


def changes(oi: AnyArray, os: F64, rows: int, negate: bool) -> Changes:
    """Kernel change rows (query, key, at, step, pos, sign, cause, seq; internal score) as columns. Scores leave as the user wrote them."""
    if rows == 0:
        return Changes.empty(1)
    cols = oi[:rows]
    score = os[:rows]
    return Changes(
        query=cols[:, 0].astype(np.int16), key=cols[:, 1].copy(), at=cols[:, 2].copy(), step=cols[:, 3].copy(), pos=cols[:,
        4].astype(np.int32),
        sign=cols[:, 5].astype(np.int8), cause=cols[:, 6].astype(np.int8), score=external(score, negate), items=cols[:, 7:8].copy(),
    )  # fmt: skip


def external(score: F64, negate: bool) -> F64:
    """Internal scores as the user wrote them, -0.0 folded."""
    out: F64 = (-score if negate else score) + 0.0
    return out


def earliest(wake: AnyArray) -> int | None:
    """The smallest instant of ``wake``, or None if all are ``NEVER``."""
    if wake.size == 0:
        return None
    least = int(wake.min())
    return None if least == NEVER else least


def widened(a: AnyArray, keys: int, fill: int, axis: int) -> AnyArray:
    """``a`` with room for ``keys`` keys along ``axis``, new places ``fill``."""
    have = a.shape[axis]
    if keys <= have:
        return a
    shape = list(a.shape)
    shape[axis] = keys - have
    return np.concatenate([a, np.full(shape, fill, a.dtype)], axis=axis)


@dataclass(frozen=True, slots=True)
class Tombstones:
    """Deletions that have happened: key, seq of the deleted object, instant."""

    key: I64
    seq: I64
    time: I64

    @classmethod
    def empty(cls) -> Tombstones:
        """None."""
        none = np.empty(0, np.int64)
        return cls(none, none, none)

    def with_(self, more: Tombstones) -> Tombstones:
        """Both."""
        return Tombstones(*(np.concatenate([getattr(self, f), getattr(more, f)]) for f in ("key", "seq", "time")))

    def where(self, keep: AnyArray) -> Tombstones:
        """Those of ``keep``."""
        return Tombstones(self.key[keep], self.seq[keep], self.time[keep])

    def alive(self, next_seq: I64, until: int, window: Window) -> Tombstones:
        """Those whose object could still be alive in ``window`` had it not been deleted (an object is no newer than its deletion)."""
        keep = self.seq >= next_seq[self.key] - count_of(window)
        if window.micros is not None and len(keep):
            keep &= self.time >= until - window.micros
        return self.where(keep)

    def times(self, key: I64, seq: I64) -> I64:
        """The instant of deletion of every object (key, seq), sorted, or ``NEVER``. O((objects + deletions) log)."""
        out = np.full(len(key), NEVER)
        if len(self.key) == 0 or len(key) == 0:
            return out
        d = len(self.key)
        k, s = np.concatenate([self.key, key]), np.concatenate([self.seq, seq])
        order = np.lexsort((np.arange(len(k)), s, k))  # a deletion stands just before its object
        k, s = k[order], s[order]
        hit = np.flatnonzero((k[1:] == k[:-1]) & (s[1:] == s[:-1]) & (order[1:] >= d)) + 1
        before = order[hit - 1]
        hit, before = hit[before < d], before[before < d]
        out[order[hit] - d] = self.time[before]
        return out


def extent(x: F64) -> tuple[F64, F64]:
    """Smallest and largest finite value of every row of x (d, n); 0 where there is none."""
    low, high = x.min(axis=1), x.max(axis=1)
    for i in np.flatnonzero(~np.isfinite(low + high)):
        v = x[i][np.isfinite(x[i])]
        low[i], high[i] = (v.min(), v.max()) if len(v) else (0.0, 0.0)
    return low, high


def spans(at: I64, m: I64) -> I64:
    """Positions at[0]..at[0]+m[0], at[1].., one after the other."""
    ends = np.cumsum(m)
    out: I64 = np.arange(int(ends[-1]) if len(ends) else 0) + np.repeat(at - (ends - m), m)
    return out
