"""The influence grid of a bucket of one key: when to fit it, when to start its lists anew, and the candidates it finds."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from skyband.operators.base import F64, I64, AnyArray
from skyband.operators.jit import HAVE_NUMBA
from skyband.operators.topk.kernels.many_grid import BOUNDS, UNKNOWN, forget, probe_lazy

MAX_CELLS = 65_536
MAX_FORGOTTEN = 64
MAX_CANDIDATES = 4_000_000
REFIT_ROWS = 131_072

Extent = Callable[[], tuple[F64, F64]]


class InfluenceIndex:
    """A grid over the data of one key and Q queries.

    Everything here is a matter of time, not of results: a candidate more or less changes nothing as long as no row at or above a query's
    cutoff is missed.
    """

    def __init__(self, weights: F64, boxed: AnyArray, low: F64, high: F64, where: I64, ceiling: F64, floor: F64, work: I64) -> None:
        self.w, self.boxed, self.low, self.high, self.where, self.ceiling, self.floor = weights, boxed, low, high, where, ceiling, floor
        self.wt = np.ascontiguousarray(weights.T)
        self.work = work
        self.g = 0
        self.lo = self.scale = self.step = self.pad = np.empty(0)
        self.known = self.base = np.empty(0)
        self.bits = np.empty(0, np.uint32)
        self.coarse = self.fine = self.halves = self.lists = np.empty(0, np.int32)
        self.fill = np.zeros(3, np.int64)
        self.fitted = False
        self.window = self.rows = self.seen = self.tests = self.wild = 0
        self.rate, self.patience = np.inf, 4

    def candidates(
        self, cols: tuple[F64, ...], rows: int, flags: I64, thr: F64, window: int, full: int, extent: Extent
    ) -> tuple[I64, I64, F64] | None:
        """Candidates among the block's rows for cutoffs ``thr``: (offset per query, rows, scores); None: score the block instead.

        ``window`` is the number of rows in the window now, ``full`` when it is full; ``extent`` tells the range of recent rows.
        """
        if not HAVE_NUMBA or len(cols) > 15 or int((thr == -np.inf).sum()) * rows > MAX_CANDIDATES:
            return None
        if not self.fitted or self.rows > max(4 * window, REFIT_ROWS) or self.wild * len(thr) > window * len(cols):
            if rows < 64 and not self.fitted:
                return None
            if not self._fit(*extent()):
                return None
        if window > 2 * self.window or window > self.window == 0 or (window == full > self.window):
            self.known, self.window = np.empty(0), window  # cutoffs rise while the window fills
        self._follow(thr)
        work = self.work
        tests, wild = int(work[2]), int(work[5])
        offset, at, scores, self.halves, self.lists = probe_lazy(
            self.w, self.wt, self.boxed, self.low, self.high, self.where, self.ceiling, thr, cols, rows, flags,
            self.lo, self.scale, self.step, self.pad, self.g, self.bits, self.coarse, self.fine, self.halves, self.lists, self.fill, work,
        )  # fmt: skip
        self.rows += rows
        self.seen += rows
        self.tests += int(work[2]) - tests
        self.wild += int(work[5]) - wild
        return offset, at, scores

    def _fit(self, low: F64, high: F64) -> bool:
        """Lay the grid over the range [low, high] and a little more. False if that cannot be."""
        d = len(low)
        g = max(2, min(256, int(MAX_CELLS ** (1 / d) + 1e-9)))
        with np.errstate(all="ignore"):
            width = high - low
            margin = np.where(width > 0, width * 0.001, np.maximum(1.0, abs(low)) * 1e-6)
            step = (width + 2 * margin) / g
        self.fitted = bool(np.isfinite(step).all())
        self.rows = self.wild = 0
        if not self.fitted:
            return False
        self.lo, self.scale, self.step, self.g = low - margin, 1.0 / step, step, g
        self.step = 1.0 / self.scale
        self.pad = 1e-9 * (abs(self.lo) + abs(self.step) * g)
        self.bits = np.empty((g**d >> 5) + 1, np.uint32)
        self.coarse, self.fine = np.empty(((g + 1) // 2) ** d, np.int32), np.empty(g**d, np.int32)
        self.known = np.empty(0)
        return True

    def _start(self, thr: F64) -> None:
        """All cells unknown."""
        self.bits[:] = 0xFFFFFFFF
        self.coarse[:] = self.fine[:] = UNKNOWN
        self.fill[:] = 0
        self.base = thr
        self.seen = self.tests = 0

    def _follow(self, thr: F64) -> None:
        """Bring the lists up to date: cells that a lowered cutoff reaches are unknown again; all, when raised cutoffs make that pay."""
        if len(self.known) == 0:
            self._start(thr)
        else:
            lowered = np.flatnonzero(thr < self.known)
            raised = thr > self.base
            pays = 8 * self.tests > self.patience * (int(self.fill[BOUNDS]) + 8 * len(self.coarse)) and 8 * int(raised.sum()) > len(thr)
            if pays:  # a start that saved little is not repeated soon
                rate = self.tests / max(1, self.seen)
                self.patience = min(4 * self.patience, 1 << 20) if 5 * rate > 4 * self.rate else 4
                self.rate = rate
            if pays or len(lowered) > MAX_FORGOTTEN or 8 * int((raised & (self.base == self.floor)).sum()) > len(thr):
                self._start(thr)
            elif len(lowered):
                if (thr[lowered] == -np.inf).any():
                    self._start(thr)
                else:
                    forget(lowered, self.w, thr, self.lo, self.step, self.pad, self.g, self.bits, self.coarse, self.fine, self.fill)
        self.known = thr
