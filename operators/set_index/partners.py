"""Search for the partners of each arrival: windows, index and kernel, for the operators that need no skyband."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from skyband.operators import jit
from skyband.operators.base import F64, I64, Arrivals, Instant, Window
from skyband.operators.expressions.compile import score_type
from skyband.operators.pair_rows.kernels.tables import KEY_COLUMNS, Advance, Settings
from skyband.operators.pair_rows.windows import Windows, no_objects
from skyband.operators.set_index.configuration import SetsConfiguration
from skyband.operators.set_index.kernels.partners import KEY, NEWER, OLDER, QUERY, PartnerQueries, find_partners
from skyband.operators.set_index.kernels.probe import COUNTED, READ, WEIGHED
from skyband.operators.set_index.kernels.tables import ArrivingSets, Tokens, new_index
from skyband.operators.set_index.sets import Sets
from skyband.operators.windows import count_of, micros_of


class Pairs(NamedTuple):
    """The pairs found. All arrays of shape (m,)."""

    query: I64
    """int64."""
    key: I64
    """int64."""
    older: I64
    """int64: seq."""
    newer: I64
    """int64: twice the newer seq, plus 1 if that one is the pair's ``a``."""
    score: F64
    """float64: internal."""


@cache
def finder() -> Callable[..., Any]:
    """Return ``find_partners``, compiled once for all conditions: its signature is the types of its tables."""
    if not jit.HAVE_NUMBA:
        return find_partners
    from numba import typeof

    none = np.empty(0, np.int64)
    tables = (
        Settings(0, 0, 0, 0, 0, 0, 0), 0, False, PartnerQueries(none, none, none, np.empty(0)), np.empty((0, KEY_COLUMNS), np.int64),
        no_objects(0, 0), Advance(none, none, 0, 0), ArrivingSets(Tokens(none, none), none, 0), new_index(1, 1, 1, 1, 0), none,
    )  # fmt: skip
    signature = (score_type(), score_type(), *map(typeof, tables))
    compiled: Callable[..., Any] = jit.jit(signature)(find_partners)
    return compiled


class PartnerSearch:
    """The windows and the index of one bucket, with the queries that search them."""

    def __init__(self, configuration: SetsConfiguration, queries: Sequence[tuple[int, Window, float]]) -> None:
        """Search for ``queries``: each (number of best partners or 0 for all, window, largest internal score)."""
        between, window = configuration.between, configuration.window
        self.windows, self.sets = Windows(window, configuration.kernel), Sets(configuration)
        side_row, codes = (-1, (0, 0)) if between is None else (self.windows.int_names.index(between.column), configuration.side_codes())
        self.settings = Settings(0, count_of(window), micros_of(window), 0, side_row, *codes)
        self.between = between
        ends = [w.within(window) for _, w, _ in queries]
        self.queries = PartnerQueries(
            np.array([k for k, _, _ in queries], np.int64), np.array([count_of(w) for w in ends], np.int64),
            np.array([micros_of(w) for w in ends], np.int64), np.array([worst for _, _, worst in queries], np.float64),
        )  # fmt: skip
        self.arrived = self.unusable = self.on_a_side = self.found = 0

    def grow(self, keys: int) -> int:
        """Enlarge the tables to ``keys`` keys; return the number of new ones."""
        self.sets.grow(keys)
        return self.windows.grow(keys)

    def find(self, arrivals: Arrivals, since: Instant, until: Instant) -> tuple[I64, I64, Pairs]:
        """Put arrivals (at least one) into windows and index, and find their pairs.

        Returns the arrivals' keys, the seq of each key's first, and the pairs by key and arrival. The tables must hold the keys (``grow``).
        """
        unusable = self.sets.empty(arrivals)
        if self.between is not None:
            side = arrivals.columns[self.between.column]
            on_a_side = (side == self.settings.code_a) | (side == self.settings.code_b)
            unusable = unusable & on_a_side
        self.arrived += len(arrivals)
        self.on_a_side += len(arrivals) if self.between is None else int(np.count_nonzero(on_a_side))
        self.unusable += int(np.count_nonzero(unusable))
        keys, first = self.windows.append(arrivals, since)
        tokens, largest = self.sets.tokens(arrivals)
        sets = ArrivingSets(tokens, self.sets.rows_of(arrivals, keys), largest)
        partners, n, self.sets.index = finder()(
            *self.sets.tests, self.settings, self.sets.function, self.sets.has_condition, self.queries, self.windows.keys,
            self.windows.objects, Advance(keys, first, since, until), sets, self.sets.index, self.sets.counters,
        )  # fmt: skip
        self.found += n
        fields = partners.fields[:n]
        query, key, older, newer = (fields[:, c].copy() for c in (QUERY, KEY, OLDER, NEWER))
        return keys, first, Pairs(query, key, older, newer, partners.score[:n].copy())

    def restore(self, rows: Arrivals, next_seq: I64, until: Instant) -> None:
        """Fill windows and index with the rows that the host kept."""
        self.grow(len(next_seq))
        self.windows.restore(rows, next_seq, until)
        self.sets.restore(self.settings, self.windows, rows, until)

    @staticmethod
    def items(older: I64, newer: I64) -> I64:
        """Return the items (m, 2) in the order of the roles; ``newer`` is as in ``Pairs``."""
        newer_seq, newer_is_a = newer >> 1, (newer & 1) == 1
        return np.stack([np.where(newer_is_a, newer_seq, older), np.where(newer_is_a, older, newer_seq)], axis=1)

    def counters(self, queries: int) -> dict[str, int]:
        """Return and reset the counters of arrivals, of the search, and of arrivals without tokens (``unusable``)."""
        counts = self.sets.counters
        counters = {"objects": self.arrived, "read": int(counts[READ]), "weighed": int(counts[WEIGHED]), "counted": int(counts[COUNTED])}
        counters["candidates"] = self.found
        for i in range(queries):
            counters |= {f"unusable:{i}": self.unusable, f"asked:{i}": self.on_a_side}
        self.arrived = self.unusable = self.on_a_side = self.found = 0
        counts[:] = 0
        return counters
