"""Change rows: the net difference between two lists of pairs, written by a kernel."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from skyband.operators.base import ARRIVAL, BOUNDARY, DELETE, DISPLACED, EXPIRY, PROMOTED
from skyband.operators.jit import inner, maker
from skyband.operators.pair_rows.kernels.lists import ranks_before
from skyband.operators.pair_rows.kernels.tables import (
    AT,
    CAUSE,
    KEY,
    NEWER,
    OLDER,
    POSITION,
    QUERY,
    SIGN,
    STEP,
    ChangeRows,
    Pairs,
)


class Event(NamedTuple):
    """What made a list of one query and key change."""

    query: int
    """int64."""
    key: int
    """int64."""
    at: int
    """int64: microseconds."""
    step: int
    """int64: the step its changes belong to."""
    first_alive: int
    """int64: the first seq alive then in the query's window: a pair with an older object has left by expiry."""
    arriving: int
    """int64: seq of the object that arrives, or -1."""
    boundary: bool
    """Whether it is one, and the changes net ones since the last."""
    deleted: int
    """int64: seq of the object that is deleted, or -1."""


@maker
def ensure_capacity(rows: ChangeRows, written: int, more: int) -> ChangeRows:
    """Return the change rows with room for ``more``."""
    if written + more <= len(rows.score):
        return rows
    size = 2 * len(rows.score) + more
    new = ChangeRows(np.empty((size, rows.fields.shape[1]), np.int64), np.empty(size, np.float64))
    for row in range(written):
        new.score[row] = rows.score[row]
        for column in range(rows.fields.shape[1]):
            new.fields[row, column] = rows.fields[row, column]
    return new


@inner
def put(rows: ChangeRows, row: int, event: Event, position: int, sign: int, cause: int, pairs: Pairs, i: int) -> None:
    """Write change ``row``: pair ``i`` of a list enters or leaves."""
    fields = rows.fields[row]
    fields[QUERY], fields[KEY], fields[AT], fields[STEP] = event.query, event.key, event.at, event.step
    fields[POSITION], fields[SIGN], fields[CAUSE] = position, sign, cause
    fields[OLDER], fields[NEWER] = pairs.older[i], pairs.newer[i]
    rows.score[row] = pairs.score[i]


@inner
def first_not_before(pairs: Pairs, start: int, length: int, score: float, older: int, newer: int) -> int:
    """Return the first place from ``start`` on in a list whose pair does not rank before the given one, or ``length``."""
    i = start
    while i < length and ranks_before(pairs.score[i], pairs.older[i], pairs.newer[i], score, older, newer):
        i += 1
    return i


@inner
def cause_of_leaving(event: Event, older: int, newer: int) -> int:
    """Return why a pair leaves a list."""
    if older == event.deleted or newer >> 1 == event.deleted:
        return DELETE
    return EXPIRY if older < event.first_alive else DISPLACED


@inner
def difference(rows: ChangeRows, written: int, event: Event, before: Pairs, length_before: int, after: Pairs, length: int) -> int:
    """Write the net difference from list ``before`` to list ``after``; returns the next free row. O(both lengths).

    ``rows`` must have room for ``length_before`` + ``length`` more.
    """
    position, j = 0, 0
    for i in range(length_before):
        j = first_not_before(after, j, length, before.score[i], before.older[i], before.newer[i])
        if j < length and after.older[j] == before.older[i] and after.newer[j] == before.newer[i]:
            continue
        put(rows, written, event, position, -1, cause_of_leaving(event, before.older[i], before.newer[i]), before, i)
        position += 1
        written += 1
    j = 0
    for i in range(length):
        j = first_not_before(before, j, length_before, after.score[i], after.older[i], after.newer[i])
        if j < length_before and before.older[j] == after.older[i] and before.newer[j] == after.newer[i]:
            continue
        cause = BOUNDARY if event.boundary else (ARRIVAL if (after.newer[i] >> 1) == event.arriving else PROMOTED)
        put(rows, written, event, position, 1, cause, after, i)
        position += 1
        written += 1
    return written
