"""The members of one query's result as reports on objects: an object goes on with its first entry, and off with its last one.

Several items of one object may be in a result at a time. What enters and leaves in one step of the query is one change of its members.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from skyband.framework.streaming.bucket.objects import ObjectNumbers
from skyband.framework.streaming.bucket.sequence import grown, number_rows
from skyband.operators.base import NULL

I64 = npt.NDArray[np.int64]
Bool = npt.NDArray[np.bool_]


class Switches(NamedTuple):
    """Objects that go on or off: ``change`` (m,), the last change of the step; ``on`` (m,)."""

    change: I64
    on: Bool


class Members:
    """The objects with entries in the result of a query, by how many there are. ``columns`` name an object."""

    def __init__(self, columns: tuple[str, ...], schema: pa.Schema) -> None:
        self.objects = ObjectNumbers(columns, schema)
        self.counts: I64 = np.empty(0, np.int64)
        """Entries of each of the known objects."""
        self.next_seq: I64 = np.zeros(16, np.int64)

    def take(self, key: I64, step: I64, sign: I64, rows: pa.Table) -> Switches:
        """Return who goes on or off, in the order of the changes, which are sorted by (key, step). ``rows``: their columns.

        Items with a null among the naming columns have no object. O(n log n + objects).
        """
        number = self.objects.number(key, rows)
        known = self.objects.numbers
        self.counts = np.append(self.counts, np.zeros(len(known) - len(self.counts), np.int64))
        order = np.argsort(number, kind="stable")
        order = order[number[order] != NULL]
        of, when = number[order], step[order]
        starts = np.append(True, of[1:] != of[:-1])[: len(of)]
        place = np.searchsorted(known, of)
        total = np.cumsum(sign[order])
        before_call = self.counts[place] - (total - sign[order])[np.maximum.accumulate(np.where(starts, np.arange(len(of)), 0))]
        after = total + before_call
        last = np.append(starts[1:] | (when[1:] != when[:-1]), True)[: len(of)]
        ends = np.flatnonzero(last)
        first_end = starts[np.append(0, ends[:-1] + 1)] if len(ends) else np.empty(0, bool)
        was = np.where(first_end, self.counts[place[ends]], np.append(0, after[ends[:-1]])[: len(ends)])
        switched = (was > 0) != (after[ends] > 0)
        self._count(place, np.append(starts[1:], True)[: len(of)], after)
        found = order[ends[switched]]
        by_change = np.argsort(found)
        return Switches(found[by_change], (after[ends[switched]] > 0)[by_change])

    def numbered(self, key: I64) -> I64:
        """Return the seq of each report; ``key`` is sorted. O(n)."""
        self.next_seq = grown(self.next_seq, int(key.max(initial=-1)) + 1)
        return number_rows(self.next_seq, key)

    def saved(self) -> tuple[dict[str, Any], pa.Table]:
        """Return the arguments of ``restore``."""
        return {"counts": self.counts, "next_seq": self.next_seq}, self.objects.saved()

    def restore(self, arrays: dict[str, Any], known: pa.Table) -> None:
        """Continue from the result of ``saved``."""
        self.counts, self.next_seq = arrays["counts"].copy(), arrays["next_seq"].copy()
        self.objects.restore(known)

    def _count(self, place: I64, ends: Bool, after: I64) -> None:
        """Note the entries of each object, and remove the objects that have none."""
        self.counts[place[ends]] = after[ends]
        kept = self.counts > 0
        self.objects.keep([self.objects.numbers[kept]])
        self.counts = self.counts[kept]
