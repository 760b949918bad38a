"""The state of a skyline over rows that can be deleted: all alive objects of the window of every key of a bucket.

A row that deletes a dominator brings objects back, so none can be dropped early. Most objects are only known by proofs that they are in no
result (``kernels/window_state``), so an arrival or a deletion still costs a few searches, not a pass over the window.
"""

from __future__ import annotations

import numpy as np

from skyband.operators.base import DELETION_TARGET, I64, NEVER, NULL, AnyArray, Arrivals, Instant, Items, State
from skyband.operators.single_rows.tombstones import Tombstones
from skyband.operators.skyline.configuration import SkylineConfiguration
from skyband.operators.skyline.kernels.state import HEAD, SEQ
from skyband.operators.skyline.kernels.window_advance import advance_windows, rebuild, snapshot_of
from skyband.operators.skyline.kernels.window_state import KEYS, WindowBlock, WindowSettings, WindowTable
from skyband.operators.skyline.kernels.words import read_floats, read_ints
from skyband.operators.skyline.keyed_logic import NONE, KeyedSkylineLogic

NO_FIELD = np.ones(4)


class SkylineDeletesLogic(KeyedSkylineLogic[WindowTable]):
    """The state of one bucket: a ``WindowTable`` of arrays grouped by key, and the deletions of objects that the window still covers.

    A call costs O(objects of the keys with events) to load these, then the searches for witnesses.
    """

    def __init__(self, op: SkylineConfiguration, state: State | None) -> None:
        windows = [q.window.within(op.window) for q in op.queries]
        if op.window not in windows:
            windows.append(op.window)
        super().__init__(op, windows)
        self._settings = WindowSettings(
            op.band, self._ordered, op.distinct, len(op.queries), windows.index(op.window), self._timed, self._first_level, op.level_ends
        )
        self._tombs = Tombstones.empty()
        if state is not None:
            self._restore(state)

    def _no_keys(self) -> WindowTable:
        return WindowTable(
            start=np.zeros(1, np.int64), rows=np.empty((0, KEYS + len(self._dimensions)), np.int64),
            witness=np.empty((0, self.op.band), np.int64), critical=NONE, tracked=np.empty(0, np.uint8), last=NONE, due=NONE,
            queries=np.empty((0, len(self._fresh), 8), np.int64), shown_start=np.zeros(1, np.int64), shown=np.empty((0, 3), np.int64),
        )  # fmt: skip

    def _restore(self, state: State) -> None:
        arrays, rows = state.arrays, state.rows
        self._restore_keys(arrays)
        table = self._table
        self._tombs = Tombstones(*(np.array(arrays[name], np.int64) for name in ("tomb_key", "tomb_seq", "tomb_time")))
        key, seq, time = (np.asarray(a, np.int64) for a in (rows.key, rows.seq, rows.time))
        values, usable, _ = self._read(rows)
        keep = (usable > 0) & (seq >= table.queries[key, self._settings.largest, HEAD]) & (self._tombs.times(key, seq) == NEVER)
        if self.op.window.micros is not None:
            # Heads do not move past deleted objects, and the tombstones of those that have expired since are gone.
            keep &= time >= self.until - self.op.window.micros
        found = np.column_stack([seq, time, values.T])[keep]
        count = len(found)
        self._table = table._replace(
            start=np.searchsorted(key[keep], np.arange(len(table.last) + 1)), rows=np.ascontiguousarray(found),
            witness=np.full((count, self.op.band), -1), critical=np.full(count, -1), tracked=np.zeros(count, np.uint8),
            shown_start=np.zeros(1, np.int64),
        )  # fmt: skip
        rebuild(self._settings, self._table)
        self._restore_shown(arrays)

    def _read(self, rows: Arrivals) -> tuple[I64, AnyArray, AnyArray]:
        """Return keys (D, n), usable (n,) and matching (n,) of the rows. O(n D)."""
        usable = self._passes(rows)
        matching = usable > 0
        keys = np.empty((len(self._dimensions), len(rows)), np.int64)
        for j, d in enumerate(self._dimensions):
            flip = -1 if d.direction == "max" else 0
            if d.column.kind == "float":
                values = np.ascontiguousarray(rows.columns[d.column.name], np.float64)
                read_floats(values, values.view(np.int64), flip, keys[j], usable, False, NO_FIELD, NONE)
            else:
                read_ints(np.ascontiguousarray(rows.columns[d.column.name], np.int64), flip, keys[j], usable)
        return keys, usable, matching

    def _advance(self, arrivals: Arrivals, first: I64, end: I64, active: AnyArray, until: Instant) -> I64:
        key = np.asarray(arrivals.key, np.int64)
        seq, time = np.ascontiguousarray(arrivals.seq, np.int64), np.ascontiguousarray(arrivals.time, np.int64)
        target = np.ascontiguousarray(arrivals.columns[DELETION_TARGET], np.int64) if len(arrivals) else NONE
        gone = target != NULL
        self._tombs = self._tombs.with_(Tombstones(key[gone], target[gone], time[gone]))
        keys, usable, matching = self._read(arrivals)
        self._matching += int(np.count_nonzero(matching & ~gone))
        self._unusable += int(np.count_nonzero(matching & ~gone & (usable == 0)))
        block = WindowBlock(first, end, seq, target, time, keys, usable)
        rows, self._table = advance_windows(self._settings, block, self._table, active, until, self._work)
        return rows

    def checkpoint(self) -> dict[str, AnyArray]:
        """Return steps, window heads, deletions, and the last results of the ``every`` queries; witnesses are found again."""
        self._tombs = self._tombs.alive(self._table.last + 1, self.until, self.op.window)
        return self._saved_keys() | {"tomb_key": self._tombs.key, "tomb_seq": self._tombs.seq, "tomb_time": self._tombs.time}

    def retained(self) -> tuple[I64, I64]:
        """Return the objects that an ``every`` query still shows."""
        return self._with_shown(NONE, NONE)

    def _in_skyband(self, rows: I64, alive: AnyArray, k: int) -> I64:
        """See the base class. O(alive searches)."""
        rows = np.ascontiguousarray(rows[alive])
        found: I64 = rows[snapshot_of(rows, k, self._settings) > 0, SEQ]
        return found

    def skyband(self) -> Items:
        """Return all alive objects, grouped by key, in seq order: any of them can come back."""
        key = self._row_keys()
        return Items(key, self._table.rows[:, SEQ].reshape(-1, 1).copy(), np.full(len(key), np.nan))
