"""The base class of skylines with and without deletions: their keys, windows, shown results, checkpoints and counters."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final, Generic, TypeVar

import numpy as np

from skyband.operators.base import I64, NEVER, NULL, AnyArray, Arrivals, Changes, Instant, Items, Window
from skyband.operators.expressions import RowKernel, compile_row
from skyband.operators.single_rows.arrays import changes_of_rows, earliest, widened
from skyband.operators.skyline.configuration import SkylineConfiguration
from skyband.operators.skyline.kernels.state import COUNT, EVERY, HEAD, MICROS, NEXT_BOUNDARY, SEQ, STEP, TIME
from skyband.operators.windows import UNBOUNDED, check_window, count_of, micros_of

if TYPE_CHECKING:
    from skyband.operators.skyline.kernels.state import Table
    from skyband.operators.skyline.kernels.window_state import WindowTable

NONE: I64 = np.empty(0, np.int64)

SAVED: Final = {"head": HEAD, "boundary": NEXT_BOUNDARY, "step": STEP}
"""Fields of queries that a checkpoint holds, by the names of its arrays."""

KeyedTable = TypeVar("KeyedTable", "Table", "WindowTable")


class KeyedSkylineLogic(ABC, Generic[KeyedTable]):
    """The state of one bucket: a table of arrays grouped by key. ``windows``: those of the queries, and others to keep a head for."""

    work_counters: ClassVar[tuple[str, ...]] = ("dominance_tests",)
    """Names of the counters that the kernels add to."""

    def __init__(self, op: SkylineConfiguration, windows: Sequence[Window]) -> None:
        self.op = op
        self._dimensions = sorted(op.dimensions, key=lambda d: d.direction == "equal")
        self._ordered = op.ordered
        self._first_level = op.ordered if op.levels is None else op.levels[0]
        self._fresh = np.zeros((len(windows), 8), np.int64)
        self._fresh[:, COUNT] = [count_of(w) for w in windows]
        self._fresh[:, MICROS] = [micros_of(w) for w in windows]
        self._fresh[: len(op.queries), EVERY] = [q.every_micros or 0 for q in op.queries]
        self._fresh[:, NEXT_BOUNDARY] = NEVER
        self._boundaries = any(q.every_micros for q in op.queries)
        self._timed = self._boundaries or micros_of(op.window) < UNBOUNDED
        self._filter: RowKernel | None = None
        if op.where is not None:
            self._filter = compile_row(None, op.where, False, {t: i for i, t in enumerate(op.texts)})
        self._work = np.zeros(len(self.work_counters), np.int64)
        self._rows_in = self._unusable = self._matching = 0
        self.until: Instant = NULL
        self._table: KeyedTable = self._no_keys()
        self._places: tuple[I64, I64] | None = None

    @abstractmethod
    def _no_keys(self) -> KeyedTable:
        """Return the state without keys."""

    @abstractmethod
    def _advance(self, arrivals: Arrivals, first: I64, end: I64, active: AnyArray, until: Instant) -> I64:
        """Process every event < ``until`` of the keys with ``active`` (keys,), bool; return change rows (m, 8) as in ``ChangeRows``.

        The arrivals of key k are the rows ``first[k]`` to ``end[k]``.
        """

    @abstractmethod
    def _in_skyband(self, rows: I64, alive: AnyArray, k: int) -> I64:
        """Return the ascending seqs of those of a key's object rows that are in the k-skyband of the ``alive`` (rows,), bool."""

    def _ensure_capacity(self, keys: int) -> None:
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

    def _passes(self, rows: Arrivals) -> AnyArray:
        """Return which rows the predicate ``where`` holds for, (n,) uint8."""
        n = len(rows)
        return np.ones(n, np.uint8) if self._filter is None else self._filter.passes(rows.columns, n).astype(np.uint8)

    def advance(self, arrivals: Arrivals, until: Instant) -> Changes:
        """Process every event < ``until``. The class says what that costs."""
        n = len(arrivals)
        key = np.asarray(arrivals.key, np.int64)
        if n:
            self._ensure_capacity(int(key[-1]) + 1)
        self._rows_in += n
        count = len(self._table.last)
        first = np.searchsorted(key, np.arange(count)) if n else np.zeros(count, np.int64)
        end = np.append(first[1:], n) if count else first
        active = (end > first) | (self._table.due < until)
        self.until = max(self.until, until)
        if not active.any():
            return Changes.empty(1)
        rows = self._advance(arrivals, first, end, active, until)
        if len(self._fresh) > 1 and len(rows):
            rows = rows[np.argsort(rows[:, 0], kind="stable")]
        return changes_of_rows(rows, np.full(len(rows), np.nan))

    def wake(self) -> Instant | None:
        """Return the next expiry of an object or due boundary."""
        return earliest(self._table.due)

    def _saved_keys(self) -> dict[str, AnyArray]:
        """Return what a checkpoint holds of the keys: steps, window heads, and the last results of the ``every`` queries."""
        table = self._table
        saved = {"until": np.array([self.until], np.int64), "last": table.last, "shown_start": table.shown_start, "shown": table.shown}
        return saved | {name: table.queries[:, :, field].copy() for name, field in SAVED.items()}

    def _restore_keys(self, arrays: Mapping[str, Any]) -> None:
        """Restore what ``_saved_keys`` returned, but the shown results."""
        self.until = int(arrays["until"][0])
        keys = len(arrays["last"])
        self._ensure_capacity(keys)
        self._table.last[:] = arrays["last"]
        for name, field in SAVED.items():
            self._table.queries[:, :, field] = np.array(arrays[name], np.int64).reshape(keys, len(self._fresh))

    def _restore_shown(self, arrays: Mapping[str, Any]) -> None:
        """Restore the shown results."""
        shown = np.array(arrays["shown"], np.int64).reshape(-1, self._table.shown.shape[1])
        self._table = self._table._replace(shown_start=np.array(arrays["shown_start"], np.int64), shown=shown)

    def row_places(self) -> tuple[I64, I64]:
        """Return where each key's object rows start, int64 (keys + 1,), and the seqs of all of them, by key and in seq order.

        The arrays are the same objects as before if no rows have changed since.
        """
        table = self._table
        if self._places is None or self._places[0] is not table.start:
            self._places = (table.start, np.ascontiguousarray(table.rows[:, SEQ]))
        return self._places

    def _row_keys(self) -> I64:
        """Return the key of every object row."""
        return np.repeat(np.arange(len(self._table.last)), np.diff(self._table.start))

    def _with_shown(self, key: I64, seq: I64) -> tuple[I64, I64]:
        """Return (key, seq) of these objects and of those that an ``every`` query still shows."""
        table = self._table
        if not len(table.shown):
            return key, seq
        shown_key = np.repeat(np.arange(len(table.last)), np.diff(table.shown_start[:: len(self._fresh)]))
        both = np.unique(np.stack([np.append(key, shown_key), np.append(seq, table.shown[:, SEQ])]), axis=1)
        return both[0].copy(), both[1].copy()

    def snapshot(self, key: int, k: int, window: Window, query: int = 0) -> Items:
        """Return the k-skyband (k <= K) of any window n <= N after all events < ``until``, newest first."""
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
        found = self._in_skyband(rows, alive, k)[::-1]
        return Items(np.full(len(found), key, np.int64), found.reshape(-1, 1).copy(), np.full(len(found), np.nan))

    def counters(self) -> dict[str, int]:
        """Return rows, kept objects, work of the kernels, and unusable objects per query, since the last call."""
        found = {"rows": self._rows_in, "retained": len(self._table.rows)}
        found |= dict(zip(self.work_counters, self._work.tolist(), strict=True))
        for i in range(len(self.op.queries)):
            found |= {f"unusable:{i}": self._unusable, f"asked:{i}": self._matching}
        self._rows_in = self._unusable = self._matching = 0
        self._work[:] = 0
        return found
