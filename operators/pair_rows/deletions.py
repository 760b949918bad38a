"""Deletions of objects that are in pairs: which objects an arrival can still pair with, and which deletion ends a pair.

Objects have two more attributes: ``$seq``, the object's seq, and ``$until``, the seq of the first object that arrived after its deletion
(``NEVER`` if it is not deleted). Two objects can pair if and only if the ``$until`` of each is greater than the ``$seq`` of the other.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final, NamedTuple

import numpy as np

from skyband.operators.base import DELETION_TARGET, I64, NEVER, NULL, AnyArray, Arrivals, Column, Ragged
from skyband.operators.expressions.ast import Attr, Binary, Node
from skyband.operators.ranges import ranges
from skyband.operators.single_rows.blocks import DELETION_COLUMN
from skyband.operators.single_rows.tombstones import Tombstones

SEQ: Final = "$seq"
UNTIL: Final = "$until"
LIFETIME: Final = (SEQ, UNTIL)
"""The attributes that the operator gives to objects itself."""

SAVED: Final = ("tomb_key", "tomb_seq", "tomb_time")
"""The arrays of a checkpoint that hold past deletions (``Tombstones``)."""


class Deletions(NamedTuple):
    """The deletions of one call, in order within each key. All of shape (n,)."""

    key: I64
    """int64."""
    seq: I64
    """int64: the deleted object."""
    before: I64
    """int64: the seq of the key's next object."""
    time: I64
    """int64: microseconds."""


_SEQ_BITS = 40
"""Bits of a seq in one sortable number for (key, seq), as the host has it."""


def no_deletions() -> Deletions:
    """Return an empty table of deletions."""
    none = np.empty(0, np.int64)
    return Deletions(none, none, none, none)


def both_alive() -> list[Node]:
    """Return the conditions that the older object of a pair (a, b) was not yet deleted when the newer one arrived."""

    def of(side: str, name: str) -> Node:
        return Attr(type="int", side=side, name=name)

    return [Binary(type="bool", op=">", x=of(x, UNTIL), y=of(y, SEQ)) for x, y in (("a", "b"), ("b", "a"))]


def given_columns(columns: dict[str, Column], deletes: bool) -> tuple[Column, ...]:
    """Return the columns that the host gives to an operator whose kernels read ``columns``."""
    own = tuple(c for c in columns.values() if c.name not in LIFETIME)
    return (*own, DELETION_COLUMN) if deletes else own


def lifetimes(seq: I64) -> dict[str, I64]:
    """Return the attributes of objects that nothing has deleted."""
    return {SEQ: seq, UNTIL: np.full(len(seq), NEVER)}


def split(arrivals: Arrivals, next_seq: I64) -> tuple[Arrivals, Deletions]:
    """Return the objects among ``arrivals`` and the deletions among them. ``next_seq`` is of all keys, before these arrivals. O(rows)."""
    target = np.asarray(arrivals.columns[DELETION_TARGET], np.int64)
    gone = np.flatnonzero(target != NULL)
    if not len(gone):
        return arrivals, no_deletions()
    key = np.asarray(arrivals.key, np.int64)
    is_object = target == NULL
    arrived = np.cumsum(is_object)
    first_row = np.searchsorted(key, key[gone])
    before_key = arrived[first_row] - is_object[first_row]
    before = next_seq[key[gone]] + arrived[gone] - before_key
    found = Deletions(key[gone], target[gone], before, np.asarray(arrivals.time, np.int64)[gone])
    return _rows(arrivals, np.flatnonzero(is_object)), found


def _rows(arrivals: Arrivals, at: I64) -> Arrivals:
    """Return the rows at the positions ``at``."""
    columns = {name: values[at] for name, values in arrivals.columns.items()}
    ragged = {name: _some(rows, at) for name, rows in arrivals.ragged.items()}
    return replace(arrivals, key=arrivals.key[at], seq=arrivals.seq[at], time=arrivals.time[at], columns=columns, ragged=ragged)


def _some(rows: Ragged, at: I64) -> Ragged:
    length = np.diff(rows.start)[at]
    start = np.concatenate([[0], np.cumsum(length)]).astype(np.int64)
    return Ragged(start, rows.values[ranges(rows.start[at], length)])


def ending(deletions: Deletions, key: I64, older: I64, newer: I64) -> I64:
    """Return the number of the first of ``deletions`` that deletes an object of each pair, ``NEVER`` for none.

    ``newer`` is a seq. O((pairs + deletions) log deletions).
    """
    first = np.full(len(key), NEVER)
    if not len(deletions.key):
        return first
    gone = (deletions.key << _SEQ_BITS) | deletions.seq
    number = np.argsort(gone)
    sorted_ = gone[number]
    for seq in (older, newer):
        mine = (key << _SEQ_BITS) | seq
        at = np.minimum(np.searchsorted(sorted_, mine), len(gone) - 1)
        np.minimum(first, np.where(sorted_[at] == mine, number[at], NEVER), out=first)
    return first


def saved(tombs: Tombstones) -> dict[str, AnyArray]:
    """Return past deletions as the arrays of a checkpoint."""
    return dict(zip(SAVED, (tombs.key, tombs.seq, tombs.time), strict=True))


def loaded(arrays: Any) -> Tombstones:
    """Return the past deletions of a checkpoint; none if it has none."""
    if SAVED[0] not in arrays:
        return Tombstones.empty()
    return Tombstones(*(np.array(arrays[name], np.int64) for name in SAVED))
