"""The influence grid of a bucket of one key: when to fit it, when to rebuild its lists, and the candidates it finds."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from skyband.operators.base import F64, I64
from skyband.operators.jit import HAVE_NUMBA
from skyband.operators.topk.kernels.many_forget import forget
from skyband.operators.topk.kernels.many_grid import BOUNDS, UNKNOWN, CellLists, InfluenceGrid
from skyband.operators.topk.kernels.many_probe import BlockCandidates, probe_grid
from skyband.operators.topk.kernels.many_queries import OUTSIDE, TESTS, QueryTable

MAX_CELLS = 65_536
MAX_FORGOTTEN = 64
MAX_CANDIDATES = 4_000_000
REFIT_ROWS = 131_072

Extent: TypeAlias = Callable[[], tuple[F64, F64]]


def _no_lists() -> CellLists:
    return CellLists(np.empty(0, np.int32), np.empty(0, np.int32))


class InfluenceIndex:
    """A grid over the data of one key and Q queries.

    Everything here is a matter of time, not of results: a candidate more or less changes nothing as long as no row at or above a query's
    cutoff is missed. ``work`` int64 (``COUNTERS``,) are the logic's counters.
    """

    def __init__(self, table: QueryTable, work: I64) -> None:
        self.table, self.work = table, work
        self.grid: InfluenceGrid | None = None
        self.lists = _no_lists()
        self.known = self.base = np.empty(0)
        self.window = self.rows = self.seen = self.tests = self.outside = 0
        self.rate, self.patience = np.inf, 4

    def candidates(
        self, columns: tuple[F64, ...], rows: int, flags: I64, cutoffs: F64, window: int, full: int, extent: Extent
    ) -> BlockCandidates | None:
        """Return candidates among the block's rows for ``cutoffs`` float64 (Q,), or None: score the block instead.

        ``window`` is the number of rows in the window now, ``full`` when it is full; ``extent`` returns the range of recent rows.
        """
        if not HAVE_NUMBA or len(columns) > 15 or int((cutoffs == -np.inf).sum()) * rows > MAX_CANDIDATES:
            return None
        grid = self.grid
        if grid is None or self.rows > max(4 * window, REFIT_ROWS) or self.outside * len(cutoffs) > window * len(columns):
            if rows < 64 and grid is None:
                return None
            grid = self._fit(*extent())
            if grid is None:
                return None
        if window > 2 * self.window or window > self.window == 0 or (window == full > self.window):
            self.known, self.window = np.empty(0), window  # cutoffs rise while the window fills
        self._follow(grid, cutoffs)
        tests, outside = int(self.work[TESTS]), int(self.work[OUTSIDE])
        found, self.lists = probe_grid(self.table, cutoffs, columns, rows, flags, grid, self.lists, self.work)
        self.rows += rows
        self.seen += rows
        self.tests += int(self.work[TESTS]) - tests
        self.outside += int(self.work[OUTSIDE]) - outside
        return found

    def _fit(self, low: F64, high: F64) -> InfluenceGrid | None:
        """Lay the grid over the range [low, high] and a little more. None if that cannot be."""
        d = len(low)
        g = max(2, min(256, int(MAX_CELLS ** (1 / d) + 1e-9)))
        with np.errstate(all="ignore"):
            width = high - low
            margin = np.where(width > 0, width * 0.001, np.maximum(1.0, abs(low)) * 1e-6)
            step = (width + 2 * margin) / g
        self.grid, self.rows, self.outside = None, 0, 0
        if not np.isfinite(step).all():
            return None
        begin, scale = low - margin, 1.0 / step
        step = 1.0 / scale
        self.grid = InfluenceGrid(
            g, begin, scale, step, 1e-9 * (abs(begin) + abs(step) * g), np.empty((g**d >> 5) + 1, np.uint32),
            np.empty(((g + 1) // 2) ** d, np.int32), np.empty(g**d, np.int32), np.zeros(3, np.int64),
        )  # fmt: skip
        self.known = np.empty(0)
        return self.grid

    def _start(self, grid: InfluenceGrid, cutoffs: F64) -> None:
        """Mark all cells unknown."""
        grid.bits[:] = 0xFFFFFFFF
        grid.coarse[:] = grid.fine[:] = UNKNOWN
        grid.counters[:] = 0
        self.base = cutoffs
        self.seen = self.tests = 0

    def _follow(self, grid: InfluenceGrid, cutoffs: F64) -> None:
        """Bring the lists up to date: cells that a lowered cutoff reaches are unknown again; all, when raised cutoffs make that pay."""
        if len(self.known) == 0:
            self._start(grid, cutoffs)
        else:
            q = len(cutoffs)
            lowered = np.flatnonzero(cutoffs < self.known)
            raised = cutoffs > self.base
            pays = 8 * self.tests > self.patience * (int(grid.counters[BOUNDS]) + 8 * len(grid.coarse)) and 8 * int(raised.sum()) > q
            if pays:  # a start that saved little is not repeated soon
                rate = self.tests / max(1, self.seen)
                self.patience = min(4 * self.patience, 1 << 20) if 5 * rate > 4 * self.rate else 4
                self.rate = rate
            if pays or len(lowered) > MAX_FORGOTTEN or 8 * int((raised & (self.base == self.table.floor)).sum()) > q:
                self._start(grid, cutoffs)
            elif len(lowered):
                if (cutoffs[lowered] == -np.inf).any():
                    self._start(grid, cutoffs)
                else:
                    forget(lowered, self.table, cutoffs, grid)
        self.known = cutoffs
