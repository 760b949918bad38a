"""Find the thresholds that rows pass: by influence grid where that pays, else by scoring every row for every query."""

from __future__ import annotations

import numpy as np

from skyband.operators.base import F64, I64, AnyArray
from skyband.operators.jit import HAVE_NUMBA
from skyband.operators.single_rows.arrays import extent
from skyband.operators.single_rows.score_programs import ScoreProgram, program_scores
from skyband.operators.threshold.kernels.many_grid import (
    ENTRIES,
    FILLS,
    FULL,
    NEW,
    OUTSIDE,
    TESTS,
    WILD,
    InfluenceGrid,
    Thresholds,
    find_passes,
)

MAX_ENTRIES = 8_000_000
CELLS = 16_384
MORE_CELLS = 65_536
MIN_QUERIES = 16
SAMPLE = 256
CHUNK = 4_000_000


class Influence:
    """Finds the queries a row passes. Scores are internal, -0.0 folded into 0.0.

    ``program`` and its constants ``weights`` (Q, constants): of weighted sums, the weights (Q, d). ``least``/``most`` (Q,) the closed
    interval that passes, ``low``/``high`` (Q, d) closed boxes or None, ``where`` (Q,) the bit of a row's flags that must be set, -1 for
    none; ``d`` attributes. What is found never depends on the grid.
    """

    def __init__(
        self, program: ScoreProgram, weights: F64, d: int, least: F64, most: F64, low: F64 | None, high: F64 | None, where: I64
    ) -> None:  # fmt: skip
        q = len(weights)
        self.weights, self.d = weights, d
        box_low = np.empty((0, d)) if low is None else np.ascontiguousarray(low, np.float64)
        box_high = np.empty((0, d)) if high is None else np.ascontiguousarray(high, np.float64)
        bounded = (box_low > -np.inf) | (box_high < np.inf)
        boxed: AnyArray = np.asarray(bounded.any(axis=1)) if len(box_low) else np.zeros(q, bool)
        packed = np.ascontiguousarray(np.concatenate([weights, least[:, None], most[:, None]], axis=1))
        self.table = Thresholds(least, most, box_low, box_high, np.ascontiguousarray(weights.T), packed, boxed, where, program)
        self.unusable = np.zeros(q, np.int64)
        self.tests = self.wild = 0
        self.cells, self.margin, self.rest = CELLS, 0.02, 0
        self.patience = 65_536
        self._forget()

    def _forget(self) -> None:
        """Discard the grid; the next rows are sampled first."""
        d = self.d
        self._lay(0, np.zeros(d), np.ones(d))
        self.rows = self.passed = 0
        self.sample: list[F64] = []

    def _lay(self, g: int, low: F64, step: F64) -> None:
        """Create a grid of g cells an axis from ``low`` (d,) on, of width ``step`` (d,), no cell of which has been touched; g = 0: none."""
        cells = g ** len(low) if g else 0
        marks = np.full(cells + 1, NEW, np.uint8)
        marks[-1] = OUTSIDE
        with np.errstate(over="ignore"):  # a width can be too small for its inverse: then all rows are outside
            scale, pad = 1.0 / step, 1e-9 * (abs(low) + step * g)
        begin, length = np.zeros(cells, np.int64), np.zeros(cells, np.int64)
        self.grid = InfluenceGrid(g, MAX_ENTRIES, low, step, scale, pad, begin, length, marks, np.zeros(5, np.int64))
        self.entries: AnyArray = np.empty(4096 if g else 0, np.int32)

    def find(self, x: F64, flags: I64) -> tuple[I64, I64, F64]:
        """Return (query, row, score) of every pass among the rows x (d, n), by row, then query; count objects without score."""
        if x.shape[1] == 0:
            return np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.float64)
        if not HAVE_NUMBA:
            return self._all_numpy(x, flags)
        self._fit(x)
        counters = self.grid.counters
        tests, wild = int(counters[TESTS]), int(counters[WILD])
        found, m, self.entries = find_passes(self.table, x, flags, self.grid, self.entries, self.unusable)
        self.rows += x.shape[1]
        self.passed += m
        self.tests += int(counters[TESTS]) - tests
        self.wild += int(counters[WILD]) - wild
        self._judge()
        return found.query[:m].astype(np.int64), found.row[:m], found.score[:m]

    def _fit(self, x: F64) -> None:
        """Lay a grid over the range of the rows seen since there was none, if they are enough."""
        q, d = len(self.weights), self.d
        if self.grid.cells or q < MIN_QUERIES or self.cells < 2**d:
            return
        if self.rest > 0:
            self.rest -= x.shape[1]
            return
        self.sample.append(x)
        if sum(s.shape[1] for s in self.sample) < SAMPLE:
            return
        with np.errstate(all="ignore"):
            low, high = extent(np.concatenate(self.sample, axis=1) if len(self.sample) > 1 else x)
            self.sample = []
            width = high - low
            margin = np.where(width > 0, width * self.margin, np.maximum(1.0, abs(low)) * 1e-6)
            g = max(2, min(4096, int(self.cells ** (1 / d) + 1e-9)))
            step = (width + 2 * margin) / g
            reach = np.maximum(abs(low), abs(high)) + margin + step
            if self.table.program.result < 0:
                reach = (abs(self.weights) * reach).sum(axis=1)
        if not (reach < 1e300).all() or not (step > 0).all():  # a sum could overflow within a cell
            self.rest, self.patience = self.patience, 2 * self.patience
            return
        self._forget()
        self._lay(g, low - margin, step)

    def _judge(self) -> None:
        """Discard the grid if the data have left it, if it is too fine or too coarse, or if lists are as long as Q."""
        if not self.grid.cells:
            return
        s, q = self.grid.counters, len(self.weights)
        if s[FULL]:
            self.cells = min(self.cells, CELLS) // 8
            self._forget()
        elif s[WILD] > max(64, int(s[FILLS]) // 4) and 64 * s[WILD] > self.rows:
            self.margin = min(0.25, 2 * self.margin)
            self._forget()
        elif self.cells == CELLS and self.rows > 16 * s[FILLS] + 4096 and s[TESTS] - self.passed > 16 * self.rows:
            self.cells = MORE_CELLS  # most tests fail, and the lists have paid for themselves
            self._forget()
        elif self.rows > 4096 and 3 * s[TESTS] > q * self.rows:
            self._forget()
            self.rest, self.patience = self.patience, 2 * self.patience

    def _all_numpy(self, x: F64, flags: I64) -> tuple[I64, I64, F64]:
        """Return every row for every query, in NumPy: the same operations in the same order."""
        table, q, (d, rows) = self.table, len(self.weights), x.shape
        found = []
        size = max(1, CHUNK // q)
        for a in range(0, rows, size):
            part = x[:, a : a + size]
            with np.errstate(all="ignore"):
                if table.program.result >= 0:
                    y = program_scores(table.program, [*part[:, :, None], *table.columns])
                else:
                    y = part[0][:, None] * table.columns[0]
                    for t in range(1, d):
                        y += part[t][:, None] * table.columns[t]
                    y += 0.0
                ok: AnyArray = (y >= table.least) & (y <= table.most)
            bad = np.isnan(y)
            for t in range(d if len(table.low) else 0):
                v = part[t][:, None]
                free = np.isnan(v) & (table.low[:, t] == -np.inf) & (table.high[:, t] == np.inf)
                here = free | ((table.low[:, t] <= v) & (v <= table.high[:, t]))
                ok &= here
                bad &= here
            if len(flags):
                true = (table.where < 0) | ((flags[a : a + size, None] >> np.maximum(table.where, 0)) & 1 == 1)
                ok &= true
                bad &= true
            self.unusable += bad.sum(axis=0)
            row, of = np.nonzero(ok)
            found.append((of, row + a, y[row, of]))
        of, row, score = (np.concatenate([f[i] for f in found]) for i in range(3))
        return of, row, score

    def counters(self) -> dict[str, int]:
        """Return tests by lists and rows tested against all queries since the last call."""
        found = {"tests": self.tests, "wild": self.wild, "grid": int(self.grid.counters[ENTRIES])}
        self.tests = self.wild = 0
        return found
