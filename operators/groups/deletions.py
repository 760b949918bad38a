"""Deletions of rows: their targets, and which rows of a restored window were deleted. Does nothing for streams without deletions."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from skyband.operators.base import DELETION_TARGET, I64, NEVER, NULL, AnyArray, Arrivals, Window
from skyband.operators.single_rows.tombstones import Tombstones

_SAVED = ("tomb_key", "tomb_seq", "tomb_time")
_NONE: I64 = np.empty(0, np.int64)


class Deletions:
    """The deletions of a bucket, as long as the window would have their rows. ``active``: rows may be deletions."""

    def __init__(self, active: bool) -> None:
        self.active = active
        self.tombs = Tombstones.empty()

    def of(self, arrivals: Arrivals) -> npt.NDArray[np.bool_]:
        """Return which rows are deletions."""
        target = arrivals.columns[DELETION_TARGET] if self.active else np.full(len(arrivals), NULL)
        return np.asarray(target != NULL, np.bool_)

    def targets(self, arrivals: Arrivals) -> I64:
        """Return the seq that each row deletes, or ``NULL``, and note these; an empty array if no row can be a deletion."""
        if not self.active or not len(arrivals):
            return _NONE
        target = np.ascontiguousarray(arrivals.columns[DELETION_TARGET], np.int64)
        gone = np.flatnonzero(target != NULL)
        self.tombs = self.tombs.with_(Tombstones(arrivals.key[gone], target[gone], arrivals.time[gone]))
        return target

    def alive(self, key: I64, seq: I64) -> npt.NDArray[np.bool_]:
        """Return which rows, by (key, seq), have not been deleted."""
        return np.asarray(self.tombs.times(key, seq) == NEVER, np.bool_)

    def saved(self, next_seq: I64, until: int, window: Window) -> dict[str, AnyArray]:
        """Return the arrays of a checkpoint, and forget deletions of rows that have left the window."""
        self.tombs = self.tombs.alive(next_seq, until, window)
        return dict(zip(_SAVED, (self.tombs.key, self.tombs.seq, self.tombs.time), strict=True)) if self.active else {}

    def load(self, saved: Mapping[str, AnyArray]) -> None:
        """Continue from the arrays of a checkpoint."""
        if self.active:
            self.tombs = Tombstones(*(np.array(saved[name], np.int64) for name in _SAVED))
