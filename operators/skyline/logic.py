"""The state of a skyline: the retained objects of every key of a bucket, and the last result of each query.

Retained are the objects with fewer than K newer dominators: the smallest set that can still matter, about ln(N)^d / d! of N independent
objects for K = 1 (measured 1.2 to 1.6 times that). All arrays are flat and grouped by key.
"""

from __future__ import annotations

import numpy as np

from skyband.operators.base import I64, NEVER, NULL, AnyArray, Arrivals, Changes, Instant, Items, State, Window
from skyband.operators.expressions import RowKernel, compile_row
from skyband.operators.single_rows.arrays import widened
from skyband.operators.skyline.configuration import SkylineConfiguration
from skyband.operators.skyline.kernels.advance import advance_keys
from skyband.operators.skyline.kernels.state import (
    COUNT,
    DOMINATORS,
    EVERY,
    HEAD,
    MICROS,
    NEWER,
    NEXT_BOUNDARY,
    SEQ,
    STEP,
    TIME,
    Block,
    Settings,
    Table,
)
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
from skyband.operators.windows import UNBOUNDED, check_window, count_of, micros_of

REFIT: int = 1 << 16
"""Words are refitted to the data after at most this many objects (or four times the retained ones)."""

SAMPLE: int = 2048


class SkylineLogic:
    """The state of one bucket: a ``Table`` of arrays grouped by key."""

    def __init__(self, op: SkylineConfiguration, state: State | None) -> None:
        self.op = op
        ordered = [d for d in op.dimensions if d.direction != "equal"]
        equal = [d for d in op.dimensions if d.direction == "equal"]
        self._names = [d.column.name for d in ordered + equal]
        self._is_float = np.array([d.column.kind == "float" for d in ordered + equal])
        self._sign = np.array([-1 if d.direction == "max" else 1 for d in ordered + equal], np.int64)
        self._dims, self._d = len(ordered), len(self._names)
        self._first = DOMINATORS + op.band
        self._layout = layout(self._dims, len(equal))
        self._low, self._scale = np.zeros(self._dims), np.ones(self._dims)
        self._to_refit = self._seen = 0
        windows = [q.window.within(op.window) for q in op.queries]
        self._fresh = np.zeros((len(windows), 8), np.int64)
        self._fresh[:, COUNT] = [count_of(w) for w in windows]
        self._fresh[:, MICROS] = [micros_of(w) for w in windows]
        self._fresh[:, EVERY] = [q.every_micros or 0 for q in op.queries]
        self._fresh[:, NEXT_BOUNDARY] = NEVER
        self._boundaries = any(q.every_micros for q in op.queries)
        self._settings = Settings(
            band=op.band,
            ordered=self._dims,
            distinct=op.distinct,
            window_count=count_of(op.window),
            window_micros=micros_of(op.window),
            least_count=min(count_of(w) for w in windows),
            least_micros=min(micros_of(w) for w in windows),
            timed=self._boundaries or micros_of(op.window) < UNBOUNDED,
            skips=op.band == 1 and not equal and self._dims == len(self._layout.shifts),
        )
        self._filter: RowKernel | None = None
        if op.where is not None:
            self._filter = compile_row(None, op.where, False, {t: i for i, t in enumerate(op.texts)})
        self._work = np.zeros(2, np.int64)
        self._rows_in = self._unusable = self._matching = 0
        self.until: Instant = NULL
        self._table = Table(
            start=np.zeros(1, np.int64),
            rows=np.empty((0, self._first + self._d), np.int64),
            words=np.empty(0, np.int64),
            last=np.empty(0, np.int64),
            due=np.empty(0, np.int64),
            queries=np.empty((0, len(windows), 8), np.int64),
            shown_start=np.zeros(1, np.int64),
            shown=np.empty((0, 2), np.int64),
        )
        if state is not None:
            self._restore(state)

    def _restore(self, state: State) -> None:
        arrays = state.arrays
        self.until = int(arrays["until"][0])
        keys, rows = len(arrays["last"]), np.array(arrays["rows"], np.int64, ndmin=2).reshape(-1, self._first + self._d)
        queries = np.tile(self._fresh, (keys, 1, 1))
        for field, name in ((HEAD, "head"), (NEXT_BOUNDARY, "boundary"), (STEP, "step")):
            queries[:, :, field] = np.array(arrays[name], np.int64).reshape(keys, len(self._fresh))
        self._table = Table(
            start=np.array(arrays["start"], np.int64),
            rows=rows,
            words=np.empty(len(rows), np.int64),
            last=np.array(arrays["last"], np.int64),
            due=np.array(arrays["due"], np.int64),
            queries=queries,
            shown_start=np.array(arrays["shown_start"], np.int64),
            shown=np.array(arrays["shown"], np.int64).reshape(-1, 2),
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

    def _refit(self, arrivals: Arrivals) -> None:
        """Fit the words' rounding to a sample of the retained and arriving objects; rewrite the retained words."""
        keys = np.ascontiguousarray(self._table.rows[:, self._first :].T)
        retained = minimised(keys, self._is_float, self._sign, self._dims)
        every = max(1, len(arrivals) // SAMPLE)
        fresh = np.empty((self._dims, len(arrivals.seq[::every])))
        for j in range(self._dims):
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
        """Return keys (D, n), words (n,), usable (n,) of the arrivals. O(n D)."""
        n = len(arrivals)
        usable = np.ones(n, np.uint8) if self._filter is None else self._filter.passes(arrivals.columns, n).astype(np.uint8)
        matching = int(np.count_nonzero(usable))
        if self._to_refit <= 0:
            self._refit(arrivals)
        self._to_refit -= n
        keys = np.empty((self._d, n), np.int64)
        shifts, top = self._layout.shifts, self._layout.top
        used = used_fields(self._dims, self._d, shifts)
        words = np.full(n, empty_word(used, self._d == self._dims, shifts), np.int64)
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
        if self._d > self._dims:
            add_digest(keys[self._dims :], shifts[used], shifts[used + 1], top, words)
        usable_count = int(np.count_nonzero(usable))
        self._unusable += matching - usable_count
        self._matching += matching
        if usable_count < n:
            words[usable == 0] = self._layout.dead - self._layout.guard
        return keys, words, usable

    def advance(self, arrivals: Arrivals, until: Instant) -> Changes:
        """Process every event < ``until``. O(objects scanned): see ``kernels/scan.py``."""
        n = len(arrivals)
        key = np.asarray(arrivals.key, np.int64)
        if n:
            self._make_room(int(key[-1]) + 1)
        self._rows_in += n
        count = len(self._table.last)
        first = np.searchsorted(key, np.arange(count)) if n else np.zeros(count, np.int64)
        end = np.append(first[1:], n) if count else first
        active = (end > first) | (self._table.due < until)
        self.until = max(self.until, until)
        if not active.any():
            return Changes.empty(1)
        seq, time = np.ascontiguousarray(arrivals.seq, np.int64), np.ascontiguousarray(arrivals.time, np.int64)
        block = Block(first, end, seq, time, *self._keys_and_words(arrivals))
        rows, self._table = advance_keys(self._settings, self._layout, block, self._table, active, until, self._work)
        if len(self._fresh) > 1 and len(rows):
            rows = rows[np.argsort(rows[:, 0], kind="stable")]
        return Changes(
            query=rows[:, 0].astype(np.int16), key=rows[:, 1].copy(), at=rows[:, 2].copy(), step=rows[:, 3].copy(),
            pos=rows[:, 4].astype(np.int32), sign=rows[:, 5].astype(np.int8), cause=rows[:, 6].astype(np.int8),
            score=np.full(len(rows), np.nan), items=rows[:, 7:8].copy(),
        )  # fmt: skip

    def wake(self) -> Instant | None:
        """Return the next expiry of a retained object or due boundary."""
        first = int(self._table.due.min()) if len(self._table.due) else NEVER
        return None if first == NEVER else first

    def checkpoint(self) -> dict[str, AnyArray]:
        """Return all retained objects with keys, steps and window heads, and the last results of the ``every`` queries."""
        table = self._table
        return {
            "until": np.array([self.until], np.int64), "start": table.start, "rows": table.rows, "last": table.last, "due": table.due,
            "head": table.queries[:, :, HEAD].copy(), "boundary": table.queries[:, :, NEXT_BOUNDARY].copy(),
            "step": table.queries[:, :, STEP].copy(), "shown_start": table.shown_start, "shown": table.shown,
        }  # fmt: skip

    def _row_keys(self) -> I64:
        return np.repeat(np.arange(len(self._table.last)), np.diff(self._table.start))

    def retained(self) -> tuple[I64, I64]:
        """Return (key, seq) of the retained objects, and of those an ``every`` query still shows."""
        key, seq = self._row_keys(), self._table.rows[:, SEQ]
        if not len(self._table.shown):
            return key, seq.copy()
        shown_key = np.repeat(np.arange(len(self._table.last)), np.diff(self._table.shown_start[:: len(self._fresh)]))
        both = np.unique(np.stack([np.append(key, shown_key), np.append(seq, self._table.shown[:, 0])]), axis=1)
        return both[0].copy(), both[1].copy()

    def snapshot(self, key: int, k: int, window: Window, query: int = 0) -> Items:
        """Return the k-skyband (k <= K) of any window n <= N after all events < ``until``, newest first. O(retained K)."""
        if not 1 <= k <= self.op.band:
            raise ValueError(f"band {k}: this state answers 1 to {self.op.band}")
        check_window(window, self.op.window, "snapshot")
        if not 0 <= key < len(self._table.last):
            return Items(np.empty(0, np.int64), np.empty((0, 1), np.int64), np.empty(0))
        rows = self._table.rows[self._table.start[key] : self._table.start[key + 1]]
        clipped = window.within(self.op.window)
        alive = rows[:, SEQ] > self._table.last[key] - count_of(clipped)
        if clipped.micros is not None:
            alive &= rows[:, TIME] >= self.until - clipped.micros
        # An older dominator that is no longer retained had K newer ones, all dominators of this one too: those decide.
        seqs = rows[alive, SEQ]
        older = np.isin(rows[:, DOMINATORS : self._first], seqs).sum(1)
        found = rows[alive & (older + rows[:, NEWER] < k), SEQ][::-1]
        return Items(np.full(len(found), key, np.int64), found.reshape(-1, 1).copy(), np.full(len(found), np.nan))

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

    def counters(self) -> dict[str, int]:
        """Return rows, retained objects, dominance tests, objects scanned, unusable objects per query, since the last call."""
        tests, scanned = self._work.tolist()
        found = {"rows": self._rows_in, "retained": len(self._table.rows), "dominance_tests": tests, "scanned": scanned}
        for i in range(len(self._fresh)):
            found |= {f"unusable:{i}": self._unusable, f"asked:{i}": self._matching}
        self._rows_in = self._unusable = self._matching = 0
        self._work[:] = 0
        return found
