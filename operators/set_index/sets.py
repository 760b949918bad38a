"""The sets of a bucket's windows, by their tokens: what operators of similar sets hand to their kernels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from skyband.operators.base import I64, AnyArray, Arrivals, Instant
from skyband.operators.pair_rows.kernels.tables import NEXT_SEQ, Advance, Settings
from skyband.operators.pair_rows.windows import Windows
from skyband.operators.set_index.configuration import SIMILARITIES, SetsConfiguration
from skyband.operators.set_index.kernels.arrive import index_rows
from skyband.operators.set_index.kernels.probe import PROBED
from skyband.operators.set_index.kernels.tables import Index, Tokens, new_index


def new_sets(keys: int = 1) -> Index:
    """The index of no sets, of so many keys."""
    return new_index(64, 16, 64, 2 * keys)


class Sets:
    """The index, made anew from the host's rows after a restart, and what it is asked with."""

    def __init__(self, configuration: SetsConfiguration) -> None:
        self.column = configuration.tokens
        self.function = SIMILARITIES.index(configuration.similarity)
        kernel = configuration.kernel
        as_b = kernel.score_block
        as_a = as_b if configuration.between is None else kernel.swapped.score_block
        self.tests: tuple[Callable[..., Any], ...] = (as_a, as_b)
        self.tested = configuration.condition is not None
        self.index: Index = new_sets(0)
        self.counts = np.zeros(PROBED, np.int64)

    def grow(self, keys: int) -> None:
        """Make the index hold ``keys`` keys."""
        more = 2 * keys - len(self.index.newest)
        if more > 0:
            self.index = self.index._replace(newest=np.concatenate([self.index.newest, np.full(more, -1, np.int64)]))

    def tokens(self, arrivals: Arrivals) -> tuple[Tokens, int]:
        """The token rows of arrivals, and how many tokens the largest has."""
        ragged = arrivals.ragged[self.column]
        start, values = np.ascontiguousarray(ragged.start, np.int64), np.ascontiguousarray(ragged.values, np.int64)
        return Tokens(start, values), int(np.diff(start).max(initial=0))

    def empty(self, arrivals: Arrivals) -> AnyArray:
        """Which arrivals (n,) have no tokens: they pair with nothing."""
        found: AnyArray = np.diff(arrivals.ragged[self.column].start) == 0
        return found

    @staticmethod
    def rows_of(arrivals: Arrivals, keys: I64) -> I64:
        """The row of each key's first arrival; of keys without one, whatever."""
        return np.searchsorted(arrivals.key, keys).astype(np.int64)

    def restore(self, settings: Settings, windows: Windows, rows: Arrivals, until: Instant) -> None:
        """The index of the windows' ``rows``."""
        self.grow(len(windows.keys))
        if not len(rows):
            return
        tokens, most = self.tokens(rows)
        keys = np.unique(rows.key)
        first = self.rows_of(rows, keys)
        there = Advance(keys, np.asarray(rows.seq, np.int64)[first], until, until)
        assert np.array_equal(windows.keys[keys, NEXT_SEQ], rows.seq[np.append(first[1:], len(rows)) - 1] + 1)
        self.index = index_rows(settings, windows.keys, windows.objects, there, first, tokens, most, self.index)
