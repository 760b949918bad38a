"""The state of a skyline over rows that can be deleted: all alive objects of the window of every key of a bucket.

A row that deletes a dominator brings objects back, so none can be dropped early. Most objects are only known by proofs that they are in no
result (``kernels/window_state``), so an arrival or a deletion still costs a few searches, not a pass over the window.
"""

from __future__ import annotations

import numpy as np

from skyband.operators.base import DELETION_TARGET, I64, NEVER, NULL, AnyArray, Arrivals, Changes, Instant, Items, State, Window
from skyband.operators.expressions import RowKernel, compile_row
from skyband.operators.single_rows.arrays import widened
from skyband.operators.single_rows.tombstones import Tombstones
from skyband.operators.skyline.configuration import SkylineConfiguration
from skyband.operators.skyline.kernels.state import COUNT, EVERY, HEAD, MICROS, NEXT_BOUNDARY, SEQ, STEP, TIME
from skyband.operators.skyline.kernels.window_advance import advance_windows, rebuild, snapshot_of
from skyband.operators.skyline.kernels.window_state import KEYS, WindowBlock, WindowSettings, WindowTable
from skyband.operators.skyline.kernels.words import read_floats, read_ints
from skyband.operators.windows import UNBOUNDED, check_window, count_of, micros_of

NO_FIELD = np.ones(4)
NONE: I64 = np.empty(0, np.int64)


class SkylineDeletesLogic:
    """The state of one bucket: a ``WindowTable`` of arrays grouped by key, and the deletions of objects that the window still covers."""

    def __init__(self, op: SkylineConfiguration, state: State | None) -> None:
        self.op = op
        self._dimensions = sorted(op.dimensions, key=lambda d: d.direction == "equal")
        windows = [q.window.within(op.window) for q in op.queries]
        asked = len(windows)
        if op.window not in windows:
            windows.append(op.window)
        self._fresh = np.zeros((len(windows), 8), np.int64)
        self._fresh[:, COUNT] = [count_of(w) for w in windows]
        self._fresh[:, MICROS] = [micros_of(w) for w in windows]
        self._fresh[:asked, EVERY] = [q.every_micros or 0 for q in op.queries]
        self._fresh[:, NEXT_BOUNDARY] = NEVER
        self._boundaries = any(q.every_micros for q in op.queries)
        ordered = sum(d.direction != "equal" for d in op.dimensions)
        timed = self._boundaries or micros_of(op.window) < UNBOUNDED
        self._settings = WindowSettings(op.band, ordered, op.distinct, asked, windows.index(op.window), timed)
        self._filter: RowKernel | None = None
        if op.where is not None:
            self._filter = compile_row(None, op.where, False, {t: i for i, t in enumerate(op.texts)})
        self._work = np.zeros(1, np.int64)
        self._rows_in = self._unusable = self._matching = 0
        self.until: Instant = NULL
        self._tombs = Tombstones.empty()
        self._table = self._no_keys()
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
        self.until = int(arrays["until"][0])
        self._make_room(len(arrays["last"]))
        keys, table = len(arrays["last"]), self._table
        table.last[:] = arrays["last"]
        for field, name in ((HEAD, "head"), (NEXT_BOUNDARY, "boundary"), (STEP, "step")):
            table.queries[:, :, field] = np.array(arrays[name], np.int64).reshape(keys, len(self._fresh))
        self._tombs = Tombstones(*(np.array(arrays[name], np.int64) for name in ("tomb_key", "tomb_seq", "tomb_time")))
        key, seq, time = (np.asarray(a, np.int64) for a in (rows.key, rows.seq, rows.time))
        values, usable, _ = self._read(rows)
        keep = (usable > 0) & (seq >= table.queries[key, self._settings.largest, HEAD]) & (self._tombs.times(key, seq) == NEVER)
        if self.op.window.micros is not None:
            keep &= time >= self.until - self.op.window.micros  # no head has passed deleted objects yet, whose deletions may be forgotten
        found = np.column_stack([seq, time, values.T])[keep]
        count = len(found)
        self._table = table._replace(
            start=np.searchsorted(key[keep], np.arange(keys + 1)), rows=np.ascontiguousarray(found),
            witness=np.full((count, self.op.band), -1), critical=np.full(count, -1), tracked=np.zeros(count, np.uint8),
            shown_start=np.zeros(1, np.int64),
        )  # fmt: skip
        rebuild(self._settings, self._table)
        self._table = self._table._replace(
            shown_start=np.array(arrays["shown_start"], np.int64), shown=np.array(arrays["shown"], np.int64).reshape(-1, 3)
        )

    def _make_room(self, keys: int) -> None:
        """Make room for ``keys`` keys. O(new keys)."""
        table = self._table
        more = keys - len(table.last)
        if more <= 0:
            return
        self._table = table._replace(
            start=widened(table.start, keys + 1, table.start[-1], 0),
            last=widened(table.last, keys, -1, 0),
            due=widened(table.due, keys, NEVER, 0),
            queries=np.concatenate([table.queries, np.tile(self._fresh, (more, 1, 1))]),
        )
        if self._boundaries:
            shown_start = widened(table.shown_start, keys * len(self._fresh) + 1, table.shown_start[-1], 0)
            self._table = self._table._replace(shown_start=shown_start)

    def _read(self, rows: Arrivals) -> tuple[I64, AnyArray, AnyArray]:
        """Return keys (D, n), usable (n,) and matching (n,) of the rows. O(n D)."""
        n = len(rows)
        usable = np.ones(n, np.uint8) if self._filter is None else self._filter.passes(rows.columns, n).astype(np.uint8)
        matching = usable > 0
        keys = np.empty((len(self._dimensions), n), np.int64)
        for j, d in enumerate(self._dimensions):
            flip = -1 if d.direction == "max" else 0
            if d.column.kind == "float":
                values = np.ascontiguousarray(rows.columns[d.column.name], np.float64)
                read_floats(values, values.view(np.int64), flip, keys[j], usable, False, NO_FIELD, NONE)
            else:
                read_ints(np.ascontiguousarray(rows.columns[d.column.name], np.int64), flip, keys[j], usable)
        return keys, usable, matching

    def advance(self, arrivals: Arrivals, until: Instant) -> Changes:
        """Process every event < ``until``. O(objects) to load the keys at work, then the searches for witnesses."""
        n = len(arrivals)
        key = np.asarray(arrivals.key, np.int64)
        if n:
            self._make_room(int(key[-1]) + 1)
        count = len(self._table.last)
        first = np.searchsorted(key, np.arange(count)) if n else np.zeros(count, np.int64)
        end = np.append(first[1:], n) if count else first
        active = (end > first) | (self._table.due < until)
        self.until = max(self.until, until)
        if not active.any():
            return Changes.empty(1)
        seq, time = np.ascontiguousarray(arrivals.seq, np.int64), np.ascontiguousarray(arrivals.time, np.int64)
        target = np.ascontiguousarray(arrivals.columns[DELETION_TARGET], np.int64) if n else NONE
        gone = target != NULL
        self._tombs = self._tombs.with_(Tombstones(key[gone], target[gone], time[gone]))
        keys, usable, matching = self._read(arrivals)
        self._rows_in += n
        self._matching += int(np.count_nonzero(matching & ~gone))
        self._unusable += int(np.count_nonzero(matching & ~gone & (usable == 0)))
        block = WindowBlock(first, end, seq, target, time, keys, usable)
        rows, self._table = advance_windows(self._settings, block, self._table, active, until, self._work)
        if len(self._fresh) > 1 and len(rows):
            rows = rows[np.argsort(rows[:, 0], kind="stable")]
        return Changes(
            query=rows[:, 0].astype(np.int16), key=rows[:, 1].copy(), at=rows[:, 2].copy(), step=rows[:, 3].copy(),
            pos=rows[:, 4].astype(np.int32), sign=rows[:, 5].astype(np.int8), cause=rows[:, 6].astype(np.int8),
            score=np.full(len(rows), np.nan), items=rows[:, 7:8].copy(),
        )  # fmt: skip

    def wake(self) -> Instant | None:
        """Return the next expiry of an object or due boundary."""
        first = int(self._table.due.min()) if len(self._table.due) else NEVER
        return None if first == NEVER else first

    def checkpoint(self) -> dict[str, AnyArray]:
        """Return steps, window heads, deletions, and the last results of the ``every`` queries; witnesses are found again."""
        table = self._table
        self._tombs = self._tombs.alive(table.last + 1, self.until, self.op.window)
        saved = {"until": np.array([self.until], np.int64), "last": table.last, "shown_start": table.shown_start, "shown": table.shown}
        saved |= {"tomb_key": self._tombs.key, "tomb_seq": self._tombs.seq, "tomb_time": self._tombs.time}
        fields = ((HEAD, "head"), (NEXT_BOUNDARY, "boundary"), (STEP, "step"))
        return saved | {name: np.ascontiguousarray(table.queries[:, :, field]) for field, name in fields}

    def _row_keys(self) -> I64:
        return np.repeat(np.arange(len(self._table.last)), np.diff(self._table.start))

    def retained(self) -> tuple[I64, I64]:
        """Return the objects that an ``every`` query still shows."""
        if not len(self._table.shown):
            return NONE, NONE
        key = np.repeat(np.arange(len(self._table.last)), np.diff(self._table.shown_start[:: len(self._fresh)]))
        both = np.unique(np.stack([key, self._table.shown[:, 0]]), axis=1)
        return both[0].copy(), both[1].copy()

    def snapshot(self, key: int, k: int, window: Window, query: int = 0) -> Items:
        """Return the k-skyband (k <= K) of any window n <= N after all events < ``until``, newest first. O(alive searches)."""
        if not 1 <= k <= self.op.band:
            raise ValueError(f"band {k}: this state answers 1 to {self.op.band}")
        check_window(window, self.op.window, "snapshot")
        if not 0 <= key < len(self._table.last):
            return Items(NONE, np.empty((0, 1), np.int64), np.empty(0))
        rows = self._table.rows[self._table.start[key] : self._table.start[key + 1]]
        clipped = window.within(self.op.window)
        alive = rows[:, SEQ] > self._table.last[key] - count_of(clipped)
        if clipped.micros is not None:
            alive &= rows[:, TIME] >= self.until - clipped.micros
        rows = np.ascontiguousarray(rows[alive])
        found = rows[snapshot_of(rows, k, self._settings) > 0, SEQ][::-1]
        return Items(np.full(len(found), key, np.int64), found.reshape(-1, 1).copy(), np.full(len(found), np.nan))

    def skyband(self) -> Items:
        """Return all alive objects, grouped by key, in seq order: any of them can come back."""
        key = self._row_keys()
        return Items(key, self._table.rows[:, SEQ].reshape(-1, 1).copy(), np.full(len(key), np.nan))

    def counters(self) -> dict[str, int]:
        """Return rows, kept objects, dominance tests, and unusable objects per query, since the last call."""
        found = {"rows": self._rows_in, "retained": len(self._table.rows), "dominance_tests": int(self._work[0])}
        for i in range(len(self.op.queries)):
            found |= {f"unusable:{i}": self._unusable, f"asked:{i}": self._matching}
        self._rows_in = self._unusable = self._matching = 0
        self._work[:] = 0
        return found
