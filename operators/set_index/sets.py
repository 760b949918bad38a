"""The index of a bucket's sets, as the operators of similar sets pass it to their kernels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from skyband.operators.base import I64, Arrivals, Instant
from skyband.operators.pair_rows.kernels.tables import NEXT_SEQ, Advance, Settings
from skyband.operators.pair_rows.windows import Windows
from skyband.operators.set_index.configuration import SetsConfiguration
from skyband.operators.set_index.functions import SIMILARITIES
from skyband.operators.set_index.kernels.arrive import index_rows
from skyband.operators.set_index.kernels.probe import PROBED
from skyband.operators.set_index.kernels.tables import ArrivingSets, Index, Tokens, new_index


def new_sets(keys: int = 1) -> Index:
    """Return an empty index of ``keys`` keys."""
    return new_index(8, 64, 16, 64, 2 * keys)


class Sets:
    """The index of a bucket, its counters, and the compiled condition of pairs. A restore rebuilds it from the host's rows."""

    def __init__(self, configuration: SetsConfiguration) -> None:
        self.column = configuration.tokens
        self.function = SIMILARITIES.index(configuration.similarity)
        kernel = configuration.kernel
        as_b = kernel.score_block
        as_a = as_b if configuration.between is None else kernel.swapped.score_block
        self.tests: tuple[Callable[..., Any], ...] = (as_a, as_b)
        self.has_condition = configuration.condition is not None
        self.index: Index = new_sets(0)
        self.counters = np.zeros(PROBED, np.int64)

    def grow(self, keys: int) -> None:
        """Enlarge the index to ``keys`` keys."""
        more = 2 * keys - len(self.index.newest)
        if more > 0:
            self.index = self.index._replace(newest=np.concatenate([self.index.newest, np.full(more, -1, np.int64)]))

    def tokens(self, arrivals: Arrivals) -> tuple[Tokens, int]:
        """Return the arrivals' tokens and the size of the largest set."""
        ragged = arrivals.ragged[self.column]
        start, values = np.ascontiguousarray(ragged.start, np.int64), np.ascontiguousarray(ragged.values, np.int64)
        return Tokens(start, values), int(np.diff(start).max(initial=0))

    @staticmethod
    def rows_of(arrivals: Arrivals, keys: I64) -> I64:
        """Return the row of each key's first arrival; undefined for keys without one."""
        return np.searchsorted(arrivals.key, keys).astype(np.int64)

    def restore(self, settings: Settings, windows: Windows, rows: Arrivals, until: Instant) -> None:
        """Rebuild the index from the windows' ``rows``."""
        self.grow(len(windows.keys))
        if not len(rows):
            return
        tokens, largest = self.tokens(rows)
        keys = np.unique(rows.key)
        first = self.rows_of(rows, keys)
        restored = Advance(keys, np.asarray(rows.seq, np.int64)[first], until, until)
        assert np.array_equal(windows.keys[keys, NEXT_SEQ], rows.seq[np.append(first[1:], len(rows)) - 1] + 1)
        self.index = index_rows(settings, windows.keys, windows.objects, restored, ArrivingSets(tokens, first, largest), self.index)
