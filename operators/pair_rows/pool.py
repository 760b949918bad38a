"""The pool of an arena: the texts and sets of its objects, which kernels compare (``expressions.compile``)."""

from __future__ import annotations

import numpy as np

from skyband.operators.base import CHARACTERS, I64, NULL, TOKENS, AnyArray, Arrivals, Ragged
from skyband.operators.pair_rows.kernels.tables import FIRST_STORED, NEXT_SEQ, REGION_START, Objects
from skyband.operators.pair_rows.nulls import present
from skyband.operators.ranges import ranges


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
