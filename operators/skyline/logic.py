"""The state of a skyline: the retained objects of every key of a bucket, and the last result of each query.

Retained are the objects with fewer than K newer dominators: the smallest set that can still matter, about ln(N)^d / d! of N independent
objects for K = 1 (measured 1.2 to 1.6 times that). All arrays are flat and grouped by key.
"""

from __future__ import annotations

import numpy as np

from skyband.operators.base import I64, NULL, AnyArray, Arrivals, Instant, Items, State
from skyband.operators.skyline.configuration import SkylineConfiguration
from skyband.operators.skyline.kernels.advance import advance_keys
from skyband.operators.skyline.kernels.state import DOMINATORS, NEWER, SEQ, TIME, Block, Settings, Table
from skyband.operators.skyline.kernels.words import (
    add_digest,
    add_field,
    empty_word,
    fit,
    layout,
    minimised,
    read_floats,
    read_ints,
    used_fields,
    words_of,
)
from skyband.operators.skyline.keyed_logic import NONE, KeyedSkylineLogic
from skyband.operators.windows import count_of, micros_of

REFIT: int = 1 << 16
"""Words are refitted to the data after at most this many objects (or four times the retained ones)."""

SAMPLE: int = 2048


class SkylineLogic(KeyedSkylineLogic[Table]):
    """The state of one bucket: a ``Table`` of arrays grouped by key. A call costs O(objects scanned): see ``kernels/advance.py``."""

    work_counters = ("dominance_tests", "scanned")

    def __init__(self, op: SkylineConfiguration, state: State | None) -> None:
        windows = [q.window.within(op.window) for q in op.queries]
        super().__init__(op, windows)
        self._names = [d.column.name for d in self._dimensions]
        self._is_float = np.array([d.column.kind == "float" for d in self._dimensions])
        self._sign = np.array([-1 if d.direction == "max" else 1 for d in self._dimensions], np.int64)
        self._d = len(self._names)
        self._first = DOMINATORS + op.band
        self._layout = layout(self._first_level, self._d - self._ordered)
        self._low, self._scale = np.zeros(self._first_level), np.ones(self._first_level)
        self._to_refit = self._seen = 0
        self._settings = Settings(
            band=op.band,
            ordered=self._ordered,
            distinct=op.distinct,
            window_count=count_of(op.window),
            window_micros=micros_of(op.window),
            least_count=min(count_of(w) for w in windows),
            least_micros=min(micros_of(w) for w in windows),
            timed=self._timed,
            skips=op.band == 1 and op.levels is None and self._d == self._ordered == len(self._layout.shifts),
            level_ends=op.level_ends,
        )
        if state is not None:
            self._restore(state)

    def _no_keys(self) -> Table:
        return Table(
            start=np.zeros(1, np.int64),
            rows=np.empty((0, DOMINATORS + self.op.band + len(self._dimensions)), np.int64),
            words=NONE,
            last=NONE,
            due=NONE,
            queries=np.empty((0, len(self._fresh), 8), np.int64),
            shown_start=np.zeros(1, np.int64),
            shown=np.empty((0, 2), np.int64),
        )

    def _restore(self, state: State) -> None:
        arrays = state.arrays
        self._restore_keys(arrays)
        rows = np.array(arrays["rows"], np.int64, ndmin=2).reshape(-1, self._first + self._d)
        self._table = self._table._replace(
            start=np.array(arrays["start"], np.int64),
            rows=rows,
            words=np.empty(len(rows), np.int64),
            due=np.array(arrays["due"], np.int64),
        )
        self._restore_shown(arrays)

    def _refit(self, arrivals: Arrivals) -> None:
        """Fit the words' rounding to a sample of the retained and arriving objects; rewrite the retained words."""
        keys = np.ascontiguousarray(self._table.rows[:, self._first :].T)
        if self._first_level < self._ordered:
            keys = np.concatenate([keys[: self._first_level], keys[self._ordered :]])
        retained = minimised(keys, self._is_float, self._sign, self._first_level)
        every = max(1, len(arrivals) // SAMPLE)
        fresh = np.empty((self._first_level, len(arrivals.seq[::every])))
        for j in range(self._first_level):
            values = np.asarray(arrivals.columns[self._names[j]])[::every]
            fresh[j] = values if self._is_float[j] else np.where(values == NULL, np.nan, values)
            fresh[j] *= self._sign[j]
        sample = np.concatenate([retained[:, :: max(1, len(self._table.rows) // SAMPLE)], fresh], axis=1)
        self._low, self._scale = fit(sample, self._layout.top)
        words = words_of(keys, retained, self._low, self._scale, self._layout.shifts, self._layout.top) + self._layout.guard
        self._table = self._table._replace(words=words)
        self._seen += len(arrivals)
        self._to_refit = max(4 * len(self._table.rows), min(max(self._seen, 256), REFIT))

    def _keys_and_words(self, arrivals: Arrivals) -> tuple[I64, I64, AnyArray]:
        """Return keys (D, n), words (n,), usable (n,) of the arrivals. O(n D).

        Only dimensions of the first level have fields: an object that dominates another is as good in each of these.
        """
        n = len(arrivals)
        usable = self._passes(arrivals)
        matching = int(np.count_nonzero(usable))
        if self._to_refit <= 0:
            self._refit(arrivals)
        self._to_refit -= n
        keys = np.empty((self._d, n), np.int64)
        shifts, top = self._layout.shifts, self._layout.top
        used = used_fields(self._first_level, self._first_level + self._d - self._ordered, shifts)
        words = np.full(n, empty_word(used, self._d == self._ordered, shifts), np.int64)
        for j, name in enumerate(self._names):
            flip = -1 if self._sign[j] < 0 else 0
            if self._is_float[j]:
                values = np.ascontiguousarray(arrivals.columns[name], np.float64)
                field = np.array([self._low[j], self._scale[j], shifts[j], top], np.float64) if j < used else np.ones(4)
                read_floats(values, values.view(np.int64), flip, keys[j], usable, j < used, field, words)
            else:
                integers = np.ascontiguousarray(arrivals.columns[name], np.int64)
                read_ints(integers, flip, keys[j], usable)
                if j < used:
                    add_field(self._sign[j] * integers.astype(np.float64), self._low[j], self._scale[j], shifts[j], top, words)
        if self._d > self._ordered:
            add_digest(keys[self._ordered :], shifts[used], shifts[used + 1], top, words)
        usable_count = int(np.count_nonzero(usable))
        self._unusable += matching - usable_count
        self._matching += matching
        if usable_count < n:
            words[usable == 0] = self._layout.dead - self._layout.guard
        return keys, words, usable

    def _advance(self, arrivals: Arrivals, first: I64, end: I64, active: AnyArray, until: Instant) -> I64:
        seq, time = np.ascontiguousarray(arrivals.seq, np.int64), np.ascontiguousarray(arrivals.time, np.int64)
        block = Block(first, end, seq, time, *self._keys_and_words(arrivals))
        rows, self._table = advance_keys(self._settings, self._layout, block, self._table, active, until, self._work)
        return rows

    def checkpoint(self) -> dict[str, AnyArray]:
        """Return all retained objects with keys, steps and window heads, and the last results of the ``every`` queries."""
        return self._saved_keys() | {"start": self._table.start, "rows": self._table.rows, "due": self._table.due}

    def retained(self) -> tuple[I64, I64]:
        """Return (key, seq) of the retained objects, and of those an ``every`` query still shows."""
        return self._with_shown(self._row_keys(), self._table.rows[:, SEQ].copy())

    def _in_skyband(self, rows: I64, alive: AnyArray, k: int) -> I64:
        """See the base class. An older dominator that is no longer retained had K newer ones, which dominate this object too and decide."""
        older = np.isin(rows[:, DOMINATORS : self._first], rows[alive, SEQ]).sum(1)
        found: I64 = rows[alive & (older + rows[:, NEWER] < k), SEQ]
        return found

    def skyband(self) -> Items:
        """Return all retained objects, grouped by key, in seq order.

        ``extra``: ``newer`` dominators, and ``pred`` with ``pred_time``, the older dominator that decides: the object is in the K-skyband
        of a window in which it is alive iff ``pred`` is null or not alive.
        """
        key, seq = self._row_keys(), self._table.rows[:, SEQ]
        pred = self._table.rows[np.arange(len(key)), self._first - 1 - self._table.rows[:, NEWER]].copy()
        # Both are sorted by (key, seq): look a dominator up by position.
        base = np.append(0, np.cumsum(self._table.last + 1))[:-1]
        place = np.searchsorted(base[key] + seq, base[key] + pred) if len(key) else np.empty(0, np.int64)
        place = np.minimum(place, max(len(key) - 1, 0))
        known = (pred >= 0) & (seq[place] == pred) & (key[place] == key) if len(key) else np.empty(0, np.bool_)
        time = self._table.rows[:, TIME]
        extra = {
            "newer": self._table.rows[:, NEWER].copy(), "pred": np.where(known, pred, NULL),
            "pred_time": np.where(known, time[place], NULL) if len(key) else np.empty(0, np.int64),
        }  # fmt: skip
        return Items(key, seq.reshape(-1, 1).copy(), np.full(len(key), np.nan), extra)
