"""The moving part of a skyline: the retained objects of every key of a bucket, and what each query has shown.

Retained are the objects with fewer than K newer dominators: the smallest set that can still matter, about ln(N)^d / d! of N independent
objects for K = 1 (measured 1.2 to 1.6 times that). All arrays are flat and grouped by key.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from skyband.operators.base import I64, NEVER, NULL, AnyArray, Arrivals, Changes, Instant, Items, State, Window
from skyband.operators.skyline.kernels.events import COUNT, DUE, EVERY, HEAD, MICROS, NEWER, PRED, SEQ, STEP, TIME
from skyband.operators.skyline.kernels.run import run
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
from skyband.operators.windows import check_window, count_of, within

if TYPE_CHECKING:
    from skyband.operators.expressions import RowKernel
    from skyband.operators.skyline.operator import Skyline

REFIT: int = 1 << 16
"""Words are refitted to the data after at most this many objects (or four times what is retained)."""

SAMPLE: int = 2048


class SkylineLogic:
    """State of one bucket. ``rows`` (r, 3 + K + D): seq, time, newer dominators, seqs of older dominators (newest first, -1), keys."""

    def __init__(self, op: Skyline, state: State | None) -> None:
        self.op = op
        ordered = [d for d in op.dimensions if d.direction != "equal"]
        equal = [d for d in op.dimensions if d.direction == "equal"]
        self._names = [d.column.name for d in ordered + equal]
        self._is_float = np.array([d.column.kind == "float" for d in ordered + equal])
        self._sign = np.array([-1 if d.direction == "max" else 1 for d in ordered + equal], np.int64)
        self._dims, self._d = len(ordered), len(self._names)
        self._first = PRED + op.band
        self._shifts, self._guard, self._top, self._dead = layout(self._dims, len(equal))
        # words alone can prove dominance (kernels/skyline_skip.py) if every dimension has a field
        plain = op.band == 1 and not equal and self._dims == len(self._shifts)
        self._skip_shifts = self._shifts if plain else self._shifts[:0]
        self._low, self._scale = np.zeros(self._dims), np.ones(self._dims)
        self._to_refit = self._seen = 0
        windows = [within(q.window, op.window) for q in op.queries]
        self._fresh = np.zeros((len(windows), 8), np.int64)
        self._fresh[:, COUNT] = [count_of(w) for w in windows]
        self._fresh[:, MICROS] = [w.micros or 0 for w in windows]
        self._fresh[:, EVERY] = [q.every_micros or 0 for q in op.queries]
        self._fresh[:, DUE] = NEVER
        self._boundaries = any(q.every_micros for q in op.queries)
        self._filter: RowKernel | None = None
        if op.where is not None:
            from skyband.operators.expressions import compile_row

            self._filter = compile_row(None, op.where, False, {t: i for i, t in enumerate(op.texts)})
        self._work = np.zeros(2, np.int64)
        self._rows_in = self._unusable = 0
        self.until: Instant = NULL
        self.start: I64 = np.zeros(1, np.int64)
        self.rows: I64 = np.empty((0, self._first + self._d), np.int64)
        self.words: I64 = np.empty(0, np.int64)
        self.last: I64 = np.empty(0, np.int64)
        self.due: I64 = np.empty(0, np.int64)
        self.queries: I64 = np.empty((0, len(windows), 8), np.int64)
        self.shown_start: I64 = np.zeros(1, np.int64)
        self.shown: I64 = np.empty((0, 2), np.int64)
        if state is not None:
            self._restore(state)

    def _restore(self, state: State) -> None:
        a = state.arrays
        self.until = int(a["until"][0])
        self.start, self.rows = np.array(a["start"], np.int64), np.array(a["rows"], np.int64, ndmin=2).reshape(-1, self._first + self._d)
        self.last, self.due = np.array(a["last"], np.int64), np.array(a["due"], np.int64)
        n = len(self.last)
        self.queries = np.tile(self._fresh, (n, 1, 1))
        for field, name in ((HEAD, "head"), (DUE, "boundary"), (STEP, "step")):
            self.queries[:, :, field] = np.array(a[name], np.int64).reshape(n, len(self._fresh))
        self.shown_start, self.shown = np.array(a["shown_start"], np.int64), np.array(a["shown"], np.int64).reshape(-1, 2)
        self.words = np.empty(len(self.rows), np.int64)

    def _keys(self, count: int) -> None:
        """Make room for ``count`` keys. O(new keys)."""
        more = count - len(self.last)
        if more <= 0:
            return
        self.last = np.concatenate([self.last, np.full(more, -1, np.int64)])
        self.due = np.concatenate([self.due, np.full(more, NEVER, np.int64)])
        self.start = np.concatenate([self.start, np.full(more, self.start[-1], np.int64)])
        self.queries = np.concatenate([self.queries, np.tile(self._fresh, (more, 1, 1))])
        if self._boundaries:
            self.shown_start = np.concatenate([self.shown_start, np.full(more * len(self._fresh), self.shown_start[-1], np.int64)])

    def _refit(self, arrivals: Arrivals) -> None:
        """Fit the words' rounding to a sample of what is retained and what comes; rewrite the retained words."""
        keys = np.ascontiguousarray(self.rows[:, self._first :].T)
        held = minimised(keys, self._is_float, self._sign, self._dims)
        every = max(1, len(arrivals) // SAMPLE)
        fresh = np.empty((self._dims, len(arrivals.seq[::every])))
        for j in range(self._dims):
            x = np.asarray(arrivals.columns[self._names[j]])[::every]
            fresh[j] = x if self._is_float[j] else np.where(x == NULL, np.nan, x)
            fresh[j] *= self._sign[j]
        self._low, self._scale = fit(np.concatenate([held[:, :: max(1, len(self.rows) // SAMPLE)], fresh], axis=1), self._top)
        self.words = words_of(keys, held, self._low, self._scale, self._shifts, self._top) + self._guard
        self._seen += len(arrivals)
        self._to_refit = max(4 * len(self.rows), min(max(self._seen, 256), REFIT))

    def _keys_and_words(self, arrivals: Arrivals) -> tuple[I64, I64, AnyArray]:
        """Keys (D, n), words (n,), usable (n,) of the arrivals. O(n D)."""
        n = len(arrivals)
        usable = np.ones(n, np.uint8) if self._filter is None else self._filter.matches(arrivals.columns, n).astype(np.uint8)
        matching = int(np.count_nonzero(usable))
        if self._to_refit <= 0:
            self._refit(arrivals)
        self._to_refit -= n
        keys = np.empty((self._d, n), np.int64)
        used = used_fields(self._dims, self._d, self._shifts)
        words = np.full(n, empty_word(used, self._d == self._dims, self._shifts), np.int64)
        for j, name in enumerate(self._names):
            flip = -1 if self._sign[j] < 0 else 0
            if self._is_float[j]:
                x = np.ascontiguousarray(arrivals.columns[name], np.float64)
                field = np.array([self._low[j], self._scale[j], self._shifts[j], self._top], np.float64) if j < used else np.ones(4)
                read_floats(x, x.view(np.int64), flip, keys[j], usable, j < used, field, words)
            else:
                y = np.ascontiguousarray(arrivals.columns[name], np.int64)
                read_ints(y, flip, keys[j], usable)
                if j < used:
                    add_field(self._sign[j] * y.astype(np.float64), self._low[j], self._scale[j], self._shifts[j], self._top, words)
        if self._d > self._dims:
            add_digest(keys[self._dims :], self._shifts[used], self._shifts[used + 1], self._top, words)
        able = int(np.count_nonzero(usable))
        self._unusable += matching - able
        if able < n:
            words[usable == 0] = self._dead - self._guard
        return keys, words, usable

    def advance(self, arrivals: Arrivals, until: Instant) -> Changes:
        """Take every event < ``until``. O(objects scanned): see ``kernels/skyline_run.py``."""
        n = len(arrivals)
        key = np.asarray(arrivals.key, np.int64)
        if n:
            self._keys(int(key[-1]) + 1)
        self._rows_in += n
        count = len(self.last)
        lo = np.searchsorted(key, np.arange(count)) if n else np.zeros(count, np.int64)
        hi = np.append(lo[1:], n) if count else lo
        active = (hi > lo) | (self.due < until)
        self.until = max(self.until, until)
        if not active.any():
            return Changes.empty(1)
        keys, words, usable = self._keys_and_words(arrivals)
        out, m, self.start, self.rows, self.words, self.shown_start, self.shown = run(
            self.op.band, self._dims, self.op.distinct, count_of(self.op.window), self.op.window.micros or 0, until,
            self._guard, self._dead,
            self._shifts,
            self._skip_shifts, self._top,
            active, lo, hi, np.ascontiguousarray(arrivals.seq, np.int64), np.ascontiguousarray(arrivals.time, np.int64), keys, words,
            usable,
            self.start, self.rows, self.words, self.last, self.queries, self.due, self.shown_start, self.shown, self._work,
        )  # fmt: skip
        out = out[:m]
        if len(self._fresh) > 1 and m:
            out = out[np.argsort(out[:, 0], kind="stable")]
        return Changes(
            query=out[:, 0].astype(np.int16), key=out[:, 1].copy(), at=out[:, 2].copy(), step=out[:, 3].copy(),
            pos=out[:, 4].astype(np.int32), sign=out[:, 5].astype(np.int8), cause=out[:, 6].astype(np.int8),
            score=np.full(m, np.nan), items=out[:, 7:8].copy(),
        )  # fmt: skip

    def wake(self) -> Instant | None:
        """The next expiry of a retained object or due boundary."""
        first = int(self.due.min()) if len(self.due) else NEVER
        return None if first == NEVER else first

    def checkpoint(self) -> dict[str, AnyArray]:
        """All retained objects with their keys, steps, window heads, and what the ``every`` queries showed last."""
        return {
            "until": np.array([self.until], np.int64), "start": self.start, "rows": self.rows, "last": self.last, "due": self.due,
            "head": self.queries[:, :, HEAD].copy(), "boundary": self.queries[:, :, DUE].copy(), "step": self.queries[:, :, STEP].copy(),
            "shown_start": self.shown_start, "shown": self.shown,
        }  # fmt: skip

    def _row_keys(self) -> I64:
        return np.repeat(np.arange(len(self.last)), np.diff(self.start))

    def retained(self) -> tuple[I64, I64]:
        """(key, seq) of the retained objects, and of those an ``every`` query still shows."""
        key, seq = self._row_keys(), self.rows[:, SEQ]
        if not len(self.shown):
            return key, seq.copy()
        shown_key = np.repeat(np.arange(len(self.last)), np.diff(self.shown_start[:: len(self._fresh)]))
        both = np.unique(np.stack([np.append(key, shown_key), np.append(seq, self.shown[:, 0])]), axis=1)
        return both[0].copy(), both[1].copy()

    def snapshot(self, key: int, k: int, window: Window, query: int = 0) -> Items:
        """The k-skyband (k <= K) of any window n <= N, newest first: after all events before the last ``until``. O(retained K)."""
        if not 1 <= k <= self.op.band:
            raise ValueError(f"band {k}: this state answers 1 to {self.op.band}")
        check_window(window, self.op.window, "snapshot")
        if not 0 <= key < len(self.last):
            return Items(np.empty(0, np.int64), np.empty((0, 1), np.int64), np.empty(0))
        rows = self.rows[self.start[key] : self.start[key + 1]]
        w = within(window, self.op.window)
        alive = rows[:, SEQ] > self.last[key] - count_of(w)
        if w.micros is not None:
            alive &= rows[:, TIME] >= self.until - w.micros
        # an older dominator that is no longer retained had K newer ones, all dominators of this one too: those decide
        seqs = rows[alive, SEQ]
        older = np.isin(rows[:, PRED : self._first], seqs).sum(1)
        found = rows[alive & (older + rows[:, NEWER] < k), SEQ][::-1]
        return Items(np.full(len(found), key, np.int64), found.reshape(-1, 1).copy(), np.full(len(found), np.nan))

    def skyband(self) -> Items:
        """All retained objects, grouped by key, in seq order.

        ``extra``: ``newer`` dominators, and ``pred`` with ``pred_time``, the older dominator that decides: the object is in the K-skyband
        of a window in which it is alive iff ``pred`` is null or not alive.
        """
        key, seq = self._row_keys(), self.rows[:, SEQ]
        pred = self.rows[np.arange(len(key)), self._first - 1 - self.rows[:, NEWER]].copy()
        # both sorted by (key, seq): look a dominator up by position
        base = np.append(0, np.cumsum(self.last + 1))[:-1]
        place = np.searchsorted(base[key] + seq, base[key] + pred) if len(key) else np.empty(0, np.int64)
        place = np.minimum(place, max(len(key) - 1, 0))
        known = (pred >= 0) & (seq[place] == pred) & (key[place] == key) if len(key) else np.empty(0, np.bool_)
        time = self.rows[:, TIME]
        extra = {
            "newer": self.rows[:, NEWER].copy(), "pred": np.where(known, pred, NULL),
            "pred_time": np.where(known, time[place], NULL) if len(key) else np.empty(0, np.int64),
        }  # fmt: skip
        return Items(key, seq.reshape(-1, 1).copy(), np.full(len(key), np.nan), extra)

    def counters(self) -> dict[str, int]:
        """Rows, retained objects, exact dominance tests, objects scanned, unusable objects per query, since the last call."""
        found = {"rows": self._rows_in, "retained": len(self.rows), "dominance_tests": int(self._work[0]), "scanned": int(self._work[1])}
        found.update({f"unusable:{i}": self._unusable for i in range(len(self._fresh))})
        self._rows_in = self._unusable = 0
        self._work[:] = 0
        return found
