"""Deletions of reports: which of them delete the report that is valid for its object, and so switch the object off (docs/semantics 12)."""

from __future__ import annotations

import numpy as np

from skyband.operators.base import DELETION_TARGET, I64, NULL, AnyArray, Arrivals
from skyband.operators.single_rows.arrays import widened

DELETION = 2
"""``Rows.on`` of a deletion: it switches its object off and is no report."""

NONE: I64 = np.empty(0, np.int64)


class Deletions:
    """Per object the seq of its last report, ``last`` (room,), -1 before the first one. Without deletions every method does nothing."""

    def __init__(self, active: bool, last: I64 = NONE) -> None:
        self.active, self.last = active, last

    def objects(self, arrivals: Arrivals) -> AnyArray:
        """Return which rows are no deletions, (rows,) bool."""
        return arrivals.columns[DELETION_TARGET] == NULL if self.active and len(arrivals) else np.ones(len(arrivals), bool)

    def ensure_capacity(self, room: int) -> None:
        """Make room for ``room`` objects."""
        if self.active and room > len(self.last):
            self.last = widened(self.last, 2 * room, -1, 0)

    def keep(self, places: I64) -> None:
        """Keep only the objects at ``places``, in this order."""
        if self.active:
            self.last = self.last[places]

    def saved(self, count: int) -> dict[str, I64]:
        """Return the arrays of a checkpoint."""
        return {"last": self.last[:count].copy()} if self.active else {}

    def effective(self, arrivals: Arrivals, reports: I64, place: I64, key_of: I64) -> tuple[I64, I64]:
        """Return (row, place of the object) of every deletion of the report that is valid for its object, and note the new last reports.

        ``reports``: the rows that are usable reports, ascending; ``place`` (rows,): the places of their objects; ``key_of``: keys of the
        objects. A report that is not its object's last one had ended before. O(objects log deletions + rows log rows), without deletions
        O(reports).
        """
        if not self.active:
            return NONE, NONE
        seq = np.asarray(arrivals.seq, np.int64)
        gone = np.flatnonzero(arrivals.columns[DELETION_TARGET] != NULL)
        if len(gone) == 0 or len(key_of) == 0:
            self.last[place[reports]] = seq[reports]  # of several reports on an object the last one counts
            return NONE, NONE
        key, target = np.asarray(arrivals.key, np.int64), np.asarray(arrivals.columns[DELETION_TARGET], np.int64)[gone]
        of = self._earlier(key[gone], target, key_of)
        row = _row_of(key, seq, key[gone], target)
        usable = np.zeros(len(arrivals) + 1, bool)  # one more for deletions of rows of earlier calls, which are at -1
        usable[reports] = True
        now = usable[row] & (row < gone)
        of[now] = place[row[now]]
        # The last report on the same object before the deletion, in this call, or else in an earlier one.
        span = len(arrivals) + 1
        order = np.sort(np.append(place[reports] * span + reports, -span))
        before = np.searchsorted(order, of * span + gone) - 1
        latest, here = self.last[of], order[before] // span == of
        latest[here & (of >= 0)] = seq[order[before[here & (of >= 0)]] % span]
        hit = (of >= 0) & (latest == target)
        self.last[place[reports]] = seq[reports]
        return gone[hit], of[hit]

    def _earlier(self, key: I64, target: I64, key_of: I64) -> I64:
        """Return the place of the object whose last report was ``target`` of ``key`` when the call began, or -1."""
        order = np.lexsort((target, key))
        key, target = key[order], target[order]
        last = self.last[: len(key_of)]
        some = np.sort(target)
        candidates = np.flatnonzero(some[np.minimum(np.searchsorted(some, last), len(some) - 1)] == last)
        # Deletions first, then candidates: each candidate follows the deletion of its report, if there is one.
        both_key, both_seq = np.concatenate([key, key_of[candidates]]), np.concatenate([target, last[candidates]])
        merged = np.lexsort((np.arange(len(both_key)), both_seq, both_key))
        before, after = merged[:-1], merged[1:]
        same = (before < len(key)) & (after >= len(key)) & (both_key[before] == both_key[after]) & (both_seq[before] == both_seq[after])
        of = np.full(len(key), -1)
        of[order[before[same]]] = candidates[after[same] - len(key)]
        return of


def _row_of(key: I64, seq: I64, of_key: I64, target: I64) -> I64:
    """Return the row of the object ``target`` of ``of_key``, or -1 if it came in an earlier call. Rows are sorted by key and order."""
    objects = np.flatnonzero(seq >= 0)
    if len(objects) == 0:
        return np.full(len(target), -1)
    first = np.minimum(np.searchsorted(key[objects], of_key), len(objects) - 1)
    index = first + target - seq[objects[first]]
    inside = (target >= seq[objects[first]]) & (index < len(objects)) & (key[objects[first]] == of_key)
    index = np.where(inside, index, 0)
    row = objects[index]
    return np.where(inside & (key[row] == of_key) & (seq[row] == target), row, -1)
