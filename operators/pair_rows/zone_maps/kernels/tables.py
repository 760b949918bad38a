"""The tables of a zone map: copies of a key's objects in leaves of neighbours, and the box of every leaf and group of leaves.

Shapes use: floats = float attributes, integers = other attributes, size = objects that there is room for, a multiple of ``GROUP``.

A *box* holds for each attribute its least and its greatest value and whether one is null: rows 3 r, 3 r + 1 and 3 r + 2 for attribute r.
Without values that are not null the least is greater than the greatest (``NO_LEAST`` and ``NO_GREATEST``, or the infinities).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from skyband.operators.base import F64, I64

LEAF = 64
"""Objects of a leaf."""
GROUP = 1024
"""Objects of a group: its 16 leaves follow each other."""

FIRST_SEQ, STOP_SEQ, START, SEGMENT_COLUMNS = range(4)
"""Columns of ``Zones.segments``: the segment has the objects from seq FIRST_SEQ to STOP_SEQ - 1, at START, ... of the arrays."""

NO_LEAST: int = 2**63 - 1
NO_GREATEST: int = -(2**63) + 1


class Zones(NamedTuple):
    """A zone map as arrays. Within a segment, objects are in the order of leaves."""

    segments: I64
    """int64 (segments, SEGMENT_COLUMNS), the newest first: each goes up to where the one before it starts."""
    floats: F64
    """float64 (floats, size)."""
    integers: I64
    """int64 (integers, size)."""
    seqs: I64
    """int64 (size,): seq of each object."""
    leaf_floats: F64
    """float64 (3 floats, size / LEAF): boxes of leaves."""
    leaf_integers: I64
    """int64 (3 integers, size / LEAF)."""
    group_floats: F64
    """float64 (3 floats, size / GROUP): boxes of groups."""
    group_integers: I64
    """int64 (3 integers, size / GROUP)."""


def no_zones(floats: int, integers: int, size: int = 0) -> Zones:
    """Return arrays with room for ``size`` objects (a multiple of ``GROUP``), without segments."""
    return Zones(
        np.empty((0, SEGMENT_COLUMNS), np.int64), np.empty((floats, size)), np.empty((integers, size), np.int64),
        np.empty(size, np.int64), np.empty((3 * floats, size // LEAF)), np.empty((3 * integers, size // LEAF), np.int64),
        np.empty((3 * floats, size // GROUP)), np.empty((3 * integers, size // GROUP), np.int64),
    )  # fmt: skip
