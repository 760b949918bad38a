"""Number keys and objects, and find duplicate ids: hash tables in flat arrays, one kernel pass over a block.

Ids and keys come as 128-bit hashes made by Spark (two 64-bit hashes with different seeds): two different ids
meet with probability 2**-128 a pair.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from skyband.framework.streaming.bucket.operations import DELETE, INSERT, REJECT, REPLACE
from skyband.operators.base import NEVER, NULL, Window
from skyband.operators.jit import jit

I64 = npt.NDArray[np.int64]
I8 = npt.NDArray[np.int8]
Bool = npt.NDArray[np.bool_]

MAX_KEYS = 1 << 23

_PART: Final = 1 << 16
"""Rows accepted at once, at the least."""

HASH_1, HASH_2, KEY, SEQ, TIME = range(5)
"""Columns of the table of ids; SEQ is -1 where there is no entry."""

DELETED = 1 << 62
"""In place of the seq of an id's newest object: it has been deleted."""

_EVERY_ROW_INSERTS: Final = np.empty(0, np.int8)


@jit
def _find_keys(k1: I64, k2: I64, d1: I64, d2: I64, slots: I64, known: int, out: I64, first: I64) -> int:
    """Dense numbers for hashed keys; new keys get the next number and their first row is noted. Returns the number of keys."""
    mask = len(slots) - 1
    for i in range(len(k1)):
        at = (k1[i] ^ (k2[i] >> 7)) & mask
        while True:
            s = slots[at]
            if s < 0:
                slots[at] = known
                d1[known] = k1[i]
                d2[known] = k2[i]
                first[known] = i
                out[i] = known
                known += 1
                break
            if d1[s] == k1[i] and d2[s] == k2[i]:
                out[i] = s
                break
            at = (at + 1) & mask
    return known


@jit
def _refill_slots(d1: I64, d2: I64, known: int, slots: I64) -> None:
    mask = len(slots) - 1
    for s in range(known):
        at = (d1[s] ^ (d2[s] >> 7)) & mask
        while slots[at] >= 0:
            at = (at + 1) & mask
        slots[at] = s


@jit
def _accept(
    key: I64, time: I64, hashes: tuple[I64, I64], operation: I8, on_duplicate: int, next_seq: I64, window: tuple[int, int], table: I64,
    numbers: tuple[I64, I64],
) -> int:  # fmt: skip
    """Number rows in canonical order. Returns the table's new entries.

    ``numbers``: (seq, target). seq[i] = the row's number, or -1 if an alive object keeps its id; target[i] = the number of the object that
    the row deletes or replaces. A deletion takes no number; without an object its target is -1. ``operation`` has shape (0,) if every row
    inserts. ``window``: rows and microseconds, 0 for no bound.
    """
    h1, h2 = hashes
    count, micros = window
    seq, target = numbers
    mask = len(table) - 1
    new = 0
    for i in range(len(key)):
        k = key[i]
        at = (h1[i] ^ (h2[i] >> 9) ^ (k * 1000003)) & mask
        while table[at, SEQ] >= 0 and not (table[at, HASH_1] == h1[i] and table[at, HASH_2] == h2[i] and table[at, KEY] == k):
            at = (at + 1) & mask
        before = table[at, SEQ]
        alive = before >= 0 and before != DELETED
        if alive and count > 0 and before < next_seq[k] - count:
            alive = False
        if alive and micros > 0 and time[i] - table[at, TIME] >= micros:
            alive = False
        does = operation[i] if len(operation) else INSERT
        if does == DELETE:
            seq[i] = -1
            target[i] = before if alive else -1
            if alive:
                table[at, SEQ] = DELETED
            continue
        if alive:
            if does == INSERT and on_duplicate != REPLACE:
                seq[i] = -1
                continue
            target[i] = before
        if before < 0:
            new += 1
        table[at, HASH_1] = h1[i]
        table[at, HASH_2] = h2[i]
        table[at, KEY] = k
        table[at, SEQ] = next_seq[k]
        table[at, TIME] = time[i]
        seq[i] = next_seq[k]
        next_seq[k] += 1
    return new


@jit
def _alive(table: I64, next_seq: I64, count: int, micros: int, until: int, keep: Bool) -> int:
    """Whether each entry's object is alive at ``until``, in keep; how many are."""
    n = 0
    for i in range(len(table)):
        seq = table[i, SEQ]
        keep[i] = seq >= 0 and seq != DELETED
        if keep[i] and micros > 0 and table[i, TIME] <= until - micros:
            keep[i] = False
        if keep[i] and count > 0 and seq < next_seq[table[i, KEY]] - count:
            keep[i] = False
        n += keep[i]
    return n


@jit
def _reinsert(keep: Bool, entries: I64, table: I64) -> int:
    """Puts those ``entries`` (columns as ``table`` has them) that are to be kept into the table. Returns the new ones."""
    mask = len(table) - 1
    n = 0
    for i in range(len(entries)):
        if not keep[i]:
            continue
        h1, h2, k = entries[i, HASH_1], entries[i, HASH_2], entries[i, KEY]
        at = (h1 ^ (h2 >> 9) ^ (k * 1000003)) & mask
        while table[at, SEQ] >= 0 and not (table[at, HASH_1] == h1 and table[at, HASH_2] == h2 and table[at, KEY] == k):
            at = (at + 1) & mask
        if table[at, SEQ] < 0:
            n += 1
        elif table[at, SEQ] > entries[i, SEQ]:
            continue
        table[at, HASH_1] = h1
        table[at, HASH_2] = h2
        table[at, KEY] = k
        table[at, SEQ] = entries[i, SEQ]
        table[at, TIME] = entries[i, TIME]
    return n


def _no_entries(size: int) -> I64:
    # Not np.zeros: NumPy asks for large pages only for memory that it does not have the system clear, which takes a fifth of the time.
    return np.full((size, 5), -1)


def _room(n: int) -> int:
    """A power of two at least twice ``n``."""
    return 1 << max(6, int(2 * n).bit_length())


def grown(a: npt.NDArray[Any], n: int, fill: int = 0) -> npt.NDArray[Any]:
    """``a`` with room for at least ``n`` entries (doubling), new ones ``fill``."""
    if n <= len(a):
        return a
    out = np.full(max(n, 2 * len(a), 16), fill, a.dtype)
    out[: len(a)] = a
    return out


@dataclass(slots=True)
class Keys:
    """The keys of one bucket: dense numbers in the order of their first rows; per key the next seq and the last event time."""

    known: int = 0
    d1: I64 = field(default_factory=lambda: np.zeros(16, np.int64))
    d2: I64 = field(default_factory=lambda: np.zeros(16, np.int64))
    slots: I64 = field(default_factory=lambda: np.full(64, -1, np.int64))
    next_seq: I64 = field(default_factory=lambda: np.zeros(16, np.int64))
    last_time: I64 = field(default_factory=lambda: np.zeros(16, np.int64))

    def number(self, k1: I64, k2: I64) -> tuple[I64, I64]:
        """(dense numbers of the rows, rows that brought the new keys in order of their numbers). O(n) expected."""
        n = len(k1)
        self._reserve(self.known + n)
        out = np.empty(n, np.int64)
        first = np.empty(self.known + n, np.int64)
        before = self.known
        self.known = int(_find_keys(k1, k2, self.d1, self.d2, self.slots, before, out, first))
        if self.known > MAX_KEYS:
            raise OverflowError(f"more than {MAX_KEYS:,} keys in one bucket: rebuild the job with a larger run.buckets")
        return out, first[before : self.known]

    def single(self) -> None:
        """The one key of a stream without ``partition_by``."""
        self._reserve(1)
        self.known = 1

    def _reserve(self, n: int) -> None:
        if n > len(self.d1):
            self.d1, self.d2 = grown(self.d1, n), grown(self.d2, n)
            self.next_seq, self.last_time = grown(self.next_seq, n), grown(self.last_time, n)
        if _room(n) > len(self.slots):
            self.slots = np.full(_room(n), -1, np.int64)
            _refill_slots(self.d1, self.d2, self.known, self.slots)

    def arrays(self) -> dict[str, I64]:
        """Return the arguments of ``restore``."""
        n = self.known
        return {"d1": self.d1[:n], "d2": self.d2[:n], "next_seq": self.next_seq[:n], "last_time": self.last_time[:n]}

    @classmethod
    def restore(cls, arrays: dict[str, I64]) -> Keys:
        """The keys of ``arrays``."""
        keys = cls()
        n = len(arrays["d1"])
        keys._reserve(n)
        keys.known = n
        for name in ("d1", "d2", "next_seq", "last_time"):
            getattr(keys, name)[:n] = arrays[name]
        keys.slots[:] = -1
        _refill_slots(keys.d1, keys.d2, n, keys.slots)
        return keys


@dataclass(slots=True)
class Ids:
    """Ids of the objects alive in the job's window: (key, 128-bit hash) -> (seq, time) of the newest object with it."""

    window: Window
    used: int = 0
    table: I64 = field(default_factory=lambda: _no_entries(64))
    """Shape (a power of two, 5): by row, for one place in memory is looked up at once."""

    def accept(
        self, keys: Keys, key: I64, time: I64, h1: I64, h2: I64, until: int, operation: I8 = _EVERY_ROW_INSERTS, on_duplicate: int = REJECT
    ) -> tuple[I64, I64]:
        """(seq, target) of each row (canonical order). Advances ``keys.next_seq``. O(n) expected.

        ``operation`` and ``on_duplicate`` as in ``operations``. seq is -1 where an object with the row's id is alive and stays, and for
        deletions. target is the seq of the alive object that a row deletes or replaces, -1 for a deletion without one; else NULL.
        """
        seq, target = np.empty(len(key), np.int64), np.full(len(key), NULL)
        single, at = keys.known == 1, 0
        while at < len(key):
            # Not all at once: a table that fits the window is faster than one that fits the rows.
            part = slice(at, at + max(_PART, self.used // 2))
            at = part.stop
            self._reserve(keys, len(key[part]), int(time[part.start]) if single else until)
            self.used += int(
                _accept(
                    key[part], time[part], (h1[part], h2[part]), operation[part], on_duplicate, keys.next_seq,
                    (self.window.count or 0, self.window.micros or 0), self.table, (seq[part], target[part]),
                )
            )  # fmt: skip
        return seq, target

    def load(self, keys: Keys, key: I64, seq: I64, time: I64, h1: I64, h2: I64) -> None:
        """Add the objects of a restored window."""
        self._reserve(keys, len(key), -NEVER)
        entries = np.stack((h1, h2, key, seq, time), axis=1)
        self.used += int(_reinsert(np.ones(len(key), bool), entries, self.table))

    def _reserve(self, keys: Keys, n: int, until: int) -> None:
        if _room(self.used + n) <= len(self.table):
            return
        keep = np.empty(len(self.table), bool)
        alive = _alive(self.table, keys.next_seq, self.window.count or 0, self.window.micros or 0, until, keep)
        old, self.table = self.table, _no_entries(_room(int(alive) + n))
        self.used = int(_reinsert(keep, old, self.table))


def number_rows(next_seq: I64, key: I64) -> I64:
    """seq of each row when ids are assumed unique; ``key`` is sorted. Advances ``next_seq``, by key. O(n), vectorised."""
    n = len(key)
    if n == 0:
        return np.empty(0, np.int64)
    starts = np.nonzero(np.concatenate(([True], key[1:] != key[:-1])))[0]
    lengths = np.diff(np.append(starts, n))
    seq = np.arange(n, dtype=np.int64) - np.repeat(starts, lengths) + next_seq[key]
    next_seq[key[starts]] += lengths
    return seq
