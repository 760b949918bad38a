"""The windows of a bucket's keys for operators of pairs: the attributes and times of every alive object, numbered by seq."""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np

from skyband.operators.base import CHARACTERS, I64, NEVER, NULL, TOKENS, AnyArray, Arrivals, Instant, Ragged, Window
from skyband.operators.expressions.compile import PairKernel, matrix
from skyband.operators.pair_rows.deletions import UNTIL, lifetimes
from skyband.operators.pair_rows.kernels.arena import append
from skyband.operators.pair_rows.kernels.tables import (
    FIRST_ALIVE,
    FIRST_STORED,
    KEY_COLUMNS,
    NEXT_SEQ,
    REGION_CAPACITY,
    REGION_START,
    Objects,
)
from skyband.operators.pair_rows.nulls import present
from skyband.operators.pair_rows.queries import Between
from skyband.operators.ranges import ranges
from skyband.operators.windows import count_of, micros_of

# The pool of an arena: the texts and sets of its objects, which kernels compare (``expressions.compile``).


class Pool:
    """Values of the integer attributes ``names`` that are texts or sets, behind one another. It is full when less than half is alive.

    A text or set is its number of values, and then these: code points, or ascending codes. A null text and an empty set take no room.
    """

    def __init__(self, names: tuple[str, ...]) -> None:
        self.rows = {name: row for row, name in enumerate(names) if name.startswith((CHARACTERS, TOKENS))}
        self.values, self.end = np.empty(0, np.int64), 0
        self.moves = 0
        """How often values have moved: offsets from before a move are wrong after it."""

    def append(self, arrivals: Arrivals, keys: I64, objects: Objects) -> dict[str, I64]:
        """Add the arrivals' texts and sets; return their offsets, or ``NULL``, by attribute. Amortised O(values).

        May move the present ones, and then writes the new offsets into ``objects``, the arena of the key table ``keys``.
        """
        found = {name: arrivals.ragged[name] for name in self.rows}
        more = sum(len(r.start) - 1 + len(r.values) for r in found.values())
        if self.end + more > len(self.values):
            self._rebuild(more, keys, objects)
        return {name: self._add(name, rows) for name, rows in found.items()}

    def _add(self, name: str, rows: Ragged) -> I64:
        start, values = np.asarray(rows.start, np.int64), np.asarray(rows.values, np.int64)
        length = np.diff(start)
        if name.startswith(TOKENS):
            values = values[np.lexsort((values, np.repeat(np.arange(len(length)), length)))]
        there = present(rows, name.startswith(TOKENS))
        if not there.all():
            values, length = values[np.repeat(there, length)], length[there]
        at = self.end + np.cumsum(length + 1) - (length + 1)
        self.values[at] = length
        self.values[ranges(at + 1, length)] = values
        self.end += len(length) + len(values)
        offsets = np.full(len(there), NULL)
        offsets[there] = at
        return offsets

    def _rebuild(self, more: int, keys: I64, objects: Objects) -> None:
        """Move what objects of the arena have to a pool with room for as much again, and for ``more`` values. O(values alive)."""
        stored = keys[:, NEXT_SEQ] - keys[:, FIRST_STORED]
        position = ranges(keys[:, REGION_START], stored)
        parts: list[AnyArray] = []
        end = 0
        for row in self.rows.values():
            at = objects.integers[row, position]
            known = at != NULL
            size = self.values[at[known]] + 1
            first = np.cumsum(size) - size
            parts.append(self.values[ranges(at[known], size)])
            objects.integers[row, position[known]] = end + first
            end += len(parts[-1])
        self.values = np.empty(max(256, 2 * (end + more)), np.int64)
        self.values[:end] = np.concatenate([np.empty(0, np.int64), *parts])
        self.end = end
        self.moves += 1


def no_objects(floats: int, integers: int) -> Objects:
    """Return an arena without room, of so many attributes."""
    return Objects(np.empty((floats, 0)), np.empty((integers, 0), np.int64), np.empty(0, np.int64), np.empty(0, np.int64))


class WindowsConfiguration(Protocol):
    """The part of an operator's configuration that says what its windows hold."""

    @property
    def window(self) -> Window:
        """Return the largest window."""
        ...

    @property
    def between(self) -> Between | None:
        """Return the two sides, if there are any."""
        ...

    @property
    def kernel(self) -> PairKernel:
        """Return the kernel that decides which pairs are candidates."""
        ...

    def side_codes(self) -> tuple[int, int]:
        """Return the codes of the side column for a and for b."""
        ...


class Marks(NamedTuple):
    """Names of attributes of objects that kernels of a score do not read. New objects have inf and ``NEVER``.

    Where objects can be deleted and the kernel does not read ``UNTIL``, it is the last of ``integers``.
    """

    floats: tuple[str, ...] = ()
    integers: tuple[str, ...] = ()


class Windows:
    """The key table and the objects' arena. The columns are rebuilt from the host's rows, never checkpointed."""

    def __init__(self, window: Window, kernel: PairKernel, marks: Marks | None = None) -> None:
        """``marks``: attributes besides those of the kernel."""
        self.window, self.marks = window, marks or Marks()
        self.float_names, self.int_names = kernel.float_names + self.marks.floats, kernel.int_names + self.marks.integers
        self.keys = np.zeros((0, KEY_COLUMNS), np.int64)
        self.objects, self.end = no_objects(len(self.float_names), len(self.int_names)), 0
        self.pool = Pool(self.int_names)
        self.until_row = self.int_names.index(UNTIL) if UNTIL in self.int_names else -1
        """The row of ``UNTIL`` in ``Objects.integers``, or -1 if no objects can be deleted."""

    def sides(self, configuration: WindowsConfiguration) -> tuple[int, int, int]:
        """Return ``side_row``, ``code_a`` and ``code_b`` of ``Settings``."""
        between = configuration.between
        return (-1, 0, 0) if between is None else (self.int_names.index(between.column), *configuration.side_codes())

    def grow(self, keys: int) -> int:
        """Make the key table hold ``keys`` keys; return how many are new."""
        more = max(0, keys - len(self.keys))
        if more:
            self.keys = np.concatenate([self.keys, np.zeros((more, KEY_COLUMNS), np.int64)])
        return more

    def append(self, rows: Arrivals, until: Instant, anywhere: bool = False) -> tuple[I64, I64]:
        """Put rows into the arena, everything before ``until`` being done; return their keys and the seq of each key's first row.

        The key table holds the keys. ``anywhere``: keys start at the seqs of their first rows, as a key does that has had none. Raises
        ValueError if a key's rows do not follow the present ones.
        """
        key = np.asarray(rows.key, np.int64)
        start = np.flatnonzero(np.concatenate([[True], key[1:] != key[:-1]]))
        stop = np.concatenate([start[1:], [len(key)]])
        which = key[start]
        seq = np.asarray(rows.seq, np.int64)
        unseen = np.flatnonzero((self.keys[which, NEXT_SEQ] == 0) | anywhere)
        for column in (FIRST_STORED, NEXT_SEQ, FIRST_ALIVE):
            self.keys[which[unseen], column] = seq[start[unseen]]
        if not np.array_equal(self.keys[which, NEXT_SEQ], seq[start]):
            raise ValueError("arrivals do not continue the seqs of their keys")
        columns = {**rows.columns, **self.pool.append(rows, self.keys, self.objects)}
        if self.until_row >= 0:
            columns |= lifetimes(seq)
        columns |= {name: np.full(len(key), np.inf) for name in self.marks.floats}
        columns |= {name: np.full(len(key), NEVER) for name in self.marks.integers}
        pool = self.pool.values
        incoming = Objects(
            matrix(columns, self.float_names, np.float64, len(key)), matrix(columns, self.int_names, np.int64, len(key)),
            np.ascontiguousarray(rows.time, np.int64), pool,
        )  # fmt: skip
        arena = self.objects._replace(pool=pool)
        self.objects, self.end = append(
            self.keys, which, start, stop, incoming, arena, self.end, until - 1, count_of(self.window), micros_of(self.window)
        )
        return which, seq[start]

    def restore(self, rows: Arrivals, next_seq: I64, until: Instant) -> None:
        """Restore the windows of keys from the host's rows. Raise ValueError if the rows do not end before ``next_seq``."""
        self.grow(len(next_seq))
        if len(rows):
            self.append(rows, until, anywhere=True)
        stored = self.keys[:, REGION_CAPACITY] > 0
        if not np.array_equal(self.keys[stored, NEXT_SEQ], next_seq[stored]):
            raise ValueError("the window's rows do not end where the state does")
        for column in (FIRST_STORED, NEXT_SEQ, FIRST_ALIVE):
            self.keys[~stored, column] = next_seq[~stored]

    def delete(self, key: I64, seq: I64, before: I64 | int) -> None:
        """Mark objects as deleted for those that arrive from the seqs ``before`` on."""
        self.set_integers(self.until_row, key, seq, before)

    def set_integers(self, row: int, key: I64, seq: I64, values: I64 | int) -> None:
        """Set an attribute of objects; objects that are not stored are left out."""
        stored = seq >= self.keys[key, FIRST_STORED]
        self.objects.integers[row, self.positions(key[stored], seq[stored])] = values if isinstance(values, int) else values[stored]

    def positions(self, key: I64, seq: I64) -> I64:
        """Return the positions of stored objects in the arena."""
        found: I64 = seq - self.keys[key, FIRST_STORED] + self.keys[key, REGION_START]
        return found

    def stored(self) -> tuple[I64, I64]:
        """Return (key, position in the arena) of all stored objects. O(objects)."""
        first, length = self.keys[:, REGION_START], self.keys[:, NEXT_SEQ] - self.keys[:, FIRST_STORED]
        return np.repeat(np.arange(len(self.keys)), length), ranges(first, length)

    def alive(self, key: I64, seq: I64, window: Window, until: Instant) -> AnyArray:
        """Return which objects (key, seq) are alive in ``window`` when everything before ``until`` is done."""
        w = window.within(self.window)
        keep: AnyArray = seq >= np.maximum(self.keys[key, NEXT_SEQ] - count_of(w), self.keys[key, FIRST_STORED])
        if w.micros is not None:
            stored = np.flatnonzero(keep)
            keep[stored] = self.times(key[stored], seq[stored]) > until - 1 - w.micros
        return keep

    def times(self, key: I64, seq: I64) -> I64:
        """Return the times of stored objects."""
        found: I64 = self.objects.times[self.positions(key, seq)]
        return found
