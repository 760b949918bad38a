"""The state of a skyline of a chosen size: the state of the skyline, the values of its rows, and the members of every result."""

from __future__ import annotations

from typing import Final

import numpy as np

from skyband.operators.base import DELETION_TARGET, I64, AnyArray, Arrivals, Changes, Instant, Items, State, Window
from skyband.operators.single_rows.arrays import changes_of_rows, widened
from skyband.operators.single_rows.scores import as_floats
from skyband.operators.skyline.kernels.sizing import Members, Points, Preference, chosen, sized_changes, values_of
from skyband.operators.skyline.operator import Skyline, SkylineDeletes
from skyband.operators.skyline.sized_configuration import SizedConfiguration

_NONE: Final[I64] = np.empty(0, np.int64)
_ROW: Final = ("query", "key", "at", "step", "pos", "sign", "cause")


class SizedSkylineLogic:
    """The state of one bucket. A call costs that of the skyline, O(rows kept), and O(members^2 d 2^d) per step of the skyline.

    Radii are those among the members. They are the same among all rows of the window, since at least ``band`` members dominate every other
    row and score at least as high for the same weights; members alone make them independent of rounding in the others.
    """

    def __init__(self, op: SizedConfiguration, skyline: Skyline | SkylineDeletes, state: State | None) -> None:
        self.op = op
        self._skyline = skyline.build(state)
        self._preference = Preference(np.array(op.weights, np.float64), op.band, op.distinct)
        self._sizes = np.array(op.sizes, np.int64)
        self._bounded = np.array([q.every_micros is not None for q in op.queries], np.uint8)
        self._saves_values = op.keeps == "retained"
        self._d = len(op.dimensions)
        self._no_points = Points(np.zeros(1, np.int64), _NONE, np.empty((0, self._d), np.float64))
        self._points = self._no_points
        self._members = Members(np.zeros(1, np.int64), _NONE, np.empty(0, np.uint8), np.empty((0, self._d), np.float64))
        self._steps = np.zeros((0, len(op.queries)), np.int64)
        if state is not None:
            self._restore(state)

    def _restore(self, state: State) -> None:
        arrays = state.arrays
        self._steps = np.array(arrays["sized_step"], np.int64).reshape(-1, len(self.op.queries))
        self._members = Members(
            np.array(arrays["member_start"], np.int64), np.array(arrays["member_seq"], np.int64),
            np.array(arrays["member_shown"], np.uint8), np.array(arrays["member_values"], np.float64).reshape(-1, self._d),
        )  # fmt: skip
        start, seq = self._skyline.row_places()
        if self._saves_values:
            self._points = Points(start, seq, np.array(arrays["row_values"], np.float64).reshape(-1, self._d))
        else:
            self._points = self._points_at(start, seq, self._points_of(state.rows))

    def _points_of(self, rows: Arrivals) -> Points:
        """Return the values of the objects among rows, larger is better. O(rows d)."""
        key, seq = np.asarray(rows.key, np.int64), np.asarray(rows.seq, np.int64)
        values = np.empty((len(rows), self._d), np.float64)
        for j, d in enumerate(self.op.dimensions):
            column = as_floats(np.asarray(rows.columns[d.column.name]))
            values[:, j] = -column if d.direction == "min" else column
        if DELETION_TARGET in rows.columns:
            objects = seq >= 0
            key, seq, values = key[objects], seq[objects], values[objects]
        keys = int(key[-1]) + 1 if len(key) else 0
        return Points(np.searchsorted(key, np.arange(keys + 1)), np.ascontiguousarray(seq), np.ascontiguousarray(values))

    def _points_at(self, start: I64, seq: I64, fresh: Points) -> Points:
        """Return the values of the rows ``seq``, grouped by key, which are known or ``fresh``."""
        key = np.repeat(np.arange(len(start) - 1), np.diff(start))
        return Points(start, seq, values_of(key, seq, self._points, fresh))

    def advance(self, arrivals: Arrivals, until: Instant) -> Changes:
        """Process every event < ``until``."""
        before = self._skyline.row_places()
        found = self._skyline.advance(arrivals, until)
        fresh = self._points_of(arrivals) if len(arrivals) else self._no_points
        made = self._sized(found, fresh) if len(found) else Changes.empty(1)
        start, seq = self._skyline.row_places()
        if len(arrivals) or seq is not before[1]:
            self._points = self._points_at(start, seq, fresh)
        return made

    def _sized(self, found: Changes, fresh: Points) -> Changes:
        """Return the changes of the results that follow from those of the skyline."""
        keys, queries = int(found.key.max()) + 1, len(self.op.queries)
        self._steps = widened(self._steps, keys, 0, 0)
        start = self._starts(len(self._steps) * queries)
        rows = np.column_stack([*(getattr(found, name).astype(np.int64) for name in _ROW), found.items[:, 0]])
        values = values_of(rows[:, 1].copy(), rows[:, 7].copy(), self._points, fresh)
        members = self._members._replace(start=start)
        with np.errstate(over="ignore"):
            made, self._members = sized_changes(rows, values, self._sizes, self._bounded, self._steps, members, self._preference)
        return changes_of_rows(made, np.full(len(made), np.nan)) if len(made) else Changes.empty(1)

    def _starts(self, lists: int) -> I64:
        """Return where the members of each of ``lists`` (key, query) begin, and the end of the last."""
        return widened(self._members.start, lists + 1, int(self._members.start[-1]), 0)

    def wake(self) -> Instant | None:
        """Return the next instant at which the skyline may change."""
        return self._skyline.wake()

    def checkpoint(self) -> dict[str, AnyArray]:
        """Return the arrays of the skyline, the members with their values, steps, and the values of rows unless the host keeps these."""
        saved = self._skyline.checkpoint()
        keys, m = len(saved["last"]), self._members
        saved |= {"sized_step": widened(self._steps, keys, 0, 0), "member_start": self._starts(keys * len(self.op.queries))}
        saved |= {"member_seq": m.seq, "member_shown": m.shown, "member_values": m.values}
        return saved | ({"row_values": self._points.values} if self._saves_values else {})

    def retained(self) -> tuple[I64, I64]:
        """Return the rows that the skyline needs."""
        return self._skyline.retained()

    def snapshot(self, key: int, k: int, window: Window, query: int = 0) -> Items:
        """Return the ``k`` members with the smallest radii in any window n <= N after all events < ``until``, newest first."""
        if k < 1:
            raise ValueError(f"k is {k}, and must be at least 1")
        found = self._skyline.snapshot(key, self.op.band, window, query)
        seq = found.items[::-1, 0].copy()
        values = values_of(np.full(len(seq), key), seq, self._points, self._no_points)
        with np.errstate(over="ignore"):
            kept = chosen(seq, values, k, self._preference)[::-1] > 0
        return Items(found.key[kept], found.items[kept], found.score[kept])

    def skyband(self) -> Items:
        """Return all rows that can come into a result, with the ``extra`` columns of the skyline."""
        return self._skyline.skyband()

    def counters(self) -> dict[str, int]:
        """Return those of the skyline."""
        return self._skyline.counters()
