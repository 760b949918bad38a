"""Compare the final results of tumbling windows with the calendar, with each other and with the changes."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pyarrow.compute as pc

from skyband.framework.base.items import SCORE, rank_key
from skyband.framework.plan.model import QueryNode
from skyband.framework.tables.schemas import final_name, identity_columns, stream_columns
from skyband.framework.verify.brute_force.calendars import window_around
from skyband.framework.verify.differences import Difference, place
from skyband.framework.verify.stored import Item, Key, Stored, keys_of, micros, smallest_first


class FinalResults:
    """The rows of ``<query>_final`` in the batches that results have been derived from, by stream and end of the window."""

    def __init__(self, stored: Stored, query: QueryNode) -> None:
        self.query, self.names = query, stream_columns(stored.plan, query)
        rows = stored.table(final_name(query.name))
        rows = rows.filter(pc.less_equal(rows["batch_id"], stored.derived_upto(query)))
        self._rows = rows.to_pylist()
        self._items = keys_of(rows, identity_columns(stored.plan, query))
        self.start = micros(rows, "window_start")
        self.windows: dict[tuple[Key, int], list[int]] = {}
        """The rows of a stream and end, by rank."""
        for i, (stream, end) in enumerate(zip(keys_of(rows, self.names), micros(rows, "window_end"), strict=True)):
            self.windows.setdefault((stream, end or 0), []).append(i)
        for mine in self.windows.values():
            mine.sort(key=lambda i: self._rows[i]["rank"])

    def at(self, stream: Key, end: int) -> list[tuple[Item, float]]:
        """Return (item, score) of the window of a stream that ended then, in rank order."""
        return [(self._items[i], self._rows[i][SCORE]) for i in self.windows.get((stream, end), [])]

    def carried(self, stream: Key, end: int) -> list[tuple[Any, ...]]:
        """Return what each row of a window carries (``ItemShape.carried``), in rank order."""
        return [tuple(self._rows[i][c.name] for c in self.query.item.carried) for i in self.windows.get((stream, end), [])]

    def differs(self, stream: Key, end: int, said: str, expected: list[dict[str, Any]] | None = None) -> Difference:
        """Return a difference in the rows of a window."""
        shown = [self._rows[i] for i in self.windows.get((stream, end), [])]
        return Difference(place(f"table {final_name(self.query.name)}", self.names, stream, end), said, expected, shown, end)

    def mistakes(self) -> Iterator[Difference]:
        """Yield the windows whose bounds are not those of the calendar, or whose rows are not one result in rank order."""
        calendar = self.query.window.tumbling
        assert calendar is not None
        for (stream, end), mine in self.windows.items():
            rank, rows = rank_key(self.query.item, smallest_first(self.query, stream)), [self._rows[i] for i in mine]
            keys = [rank(row) for row in rows]
            if {self.start[i] for i in mine} != {window_around(calendar, end - 1)[0]} or window_around(calendar, end)[0] != end:
                yield self.differs(stream, end, "its bounds are not those of a window")
            elif [row["rank"] for row in rows] != list(range(1, len(rows) + 1)) or any(a >= b for a, b in pairwise(keys)):
                yield self.differs(stream, end, "its rows are not in rank order, or not ranked 1, 2, 3, ...")
            elif len({row["batch_id"] for row in rows}) > 1:
                yield self.differs(stream, end, "its rows were written by two batches")


def compare_final_results(stored: Stored, query: QueryNode, left: dict[tuple[Key, int], set[tuple[Item, str]]]) -> Iterator[Difference]:
    """Compare final results with the calendar and, without ``every``, with the changes.

    ``left``: of each stream and instant the items that left in the first step, with the bits of their scores.
    """
    finals, calendar = FinalResults(stored, query), query.window.tumbling
    yield from finals.mistakes()
    if query.every_micros or calendar is None:
        return
    ends = {(stream, at) for stream, at in left if left[stream, at] and window_around(calendar, at)[0] == at}
    for stream, end in sorted(ends | set(finals.windows), key=repr):
        found = {(item, score.hex()) for item, score in finals.at(stream, end)}
        if found != left.get((stream, end), set()):
            yield finals.differs(stream, end, "the members are not those that left the result as the window ended")
