"""Writing rows of result changes."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from skyband.operators.base import F64, I64
from skyband.operators.jit import inner, maker
from skyband.operators.single_rows.kernels.arrays import grown, grown_rows


class ChangeRows(NamedTuple):
    """Room for changes; how many are written is counted by its user.

    ``numbers`` int64 (room, 8): query, key, at, step, pos, sign, cause, seq. ``score`` float64 (room,): internal scores.
    """

    numbers: I64
    score: F64


class Event(NamedTuple):
    """Whose result changes and when: numbers of query and key, instant, the query's step for this key."""

    query: int
    key: int
    at: int
    step: int


@maker
def change_rows(room: int) -> ChangeRows:
    """Return room for ``room`` changes."""
    return ChangeRows(np.empty((room, 8), np.int64), np.empty(room, np.float64))


@maker
def more_rows(changes: ChangeRows, room: int) -> ChangeRows:
    """Return the same changes with room for ``room``."""
    return ChangeRows(grown_rows(changes.numbers, room), grown(changes.score, room))


@inner
def put(changes: ChangeRows, row: int, event: Event, pos: int, sign: int, cause: int, seq: int, score: float) -> int:
    """Write change ``row`` and return row + 1."""
    numbers = changes.numbers
    numbers[row, 0], numbers[row, 1], numbers[row, 2], numbers[row, 3] = event.query, event.key, event.at, event.step
    numbers[row, 4], numbers[row, 5], numbers[row, 6], numbers[row, 7] = pos, sign, cause, seq
    changes.score[row] = score
    return row + 1
