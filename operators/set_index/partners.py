"""What operators that look at every arrival's partners on their own share: windows, index, and the call of the kernel."""

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
from skyband.operators.set_index.kernels.partners import KEY, NEWER, OLDER, QUERY, Wanted, find_partners
from skyband.operators.set_index.kernels.probe import COUNTED, READ, WEIGHED
from skyband.operators.set_index.kernels.tables import Tokens, new_index
from skyband.operators.set_index.sets import Sets
from skyband.operators.windows import count_of, micros_of


class Pairs(NamedTuple):
    """Pairs found. All of shape (m,)."""

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
    """``find_partners``, compiled once for all conditions: its signature is the types of its tables."""
    if not jit.HAVE_NUMBA:
        return find_partners
    jit.prepare_numba()
    from numba import typeof

    none = np.empty(0, np.int64)
    tables = (
        Settings(0, 0, 0, 0, 0, 0, 0), 0, False, Wanted(none, none, none, np.empty(0)), np.empty((0, KEY_COLUMNS), np.int64),
        no_objects(0, 0), Advance(none, none, 0, 0), none, Tokens(none, none), 0, new_index(1, 1, 1, 0), none,
    )  # fmt: skip
    signature = (score_type(), score_type(), *map(typeof, tables))
    compiled: Callable[..., Any] = jit.jit(signature)(find_partners)
    return compiled


class PartnerSearch:
    """The windows and the index of one bucket, and what every query wants of them."""

    def __init__(self, configuration: SetsConfiguration, wanted: Sequence[tuple[int, Window, float]]) -> None:
        """``wanted``: (how many of the best or 0, window, largest internal score) of every query."""
        between, window = configuration.between, configuration.window
        self.windows, self.sets = Windows(window, configuration.kernel), Sets(configuration)
        side_row, codes = (-1, (0, 0)) if between is None else (self.windows.int_names.index(between.column), configuration.side_codes())
        self.settings = Settings(0, count_of(window), micros_of(window), 0, side_row, *codes)
        self.between = between
        ends = [w.within(window) for _, w, _ in wanted]
        self.wanted = Wanted(
            np.array([k for k, _, _ in wanted], np.int64), np.array([count_of(w) for w in ends], np.int64),
            np.array([micros_of(w) for w in ends], np.int64), np.array([worst for _, _, worst in wanted], np.float64),
        )  # fmt: skip
        self.arrived = self.unusable = self.asked = self.found = 0

    def grow(self, keys: int) -> int:
        """Make the tables hold ``keys`` keys; returns how many are new."""
        self.sets.grow(keys)
        return self.windows.grow(keys)

    def find(self, arrivals: Arrivals, since: Instant, until: Instant) -> tuple[I64, I64, Pairs]:
        """Put arrivals (at least one) into windows and index; returns their keys, the seq of each key's first, and the pairs found, every
        query's by key and by arrival. The tables hold the keys."""
        bad = self.sets.empty(arrivals)
        if self.between is not None:
            side = arrivals.columns[self.between.column]
            of_a_side = (side == self.settings.code_a) | (side == self.settings.code_b)
            bad = bad & of_a_side
        self.arrived += len(arrivals)
        self.asked += len(arrivals) if self.between is None else int(np.count_nonzero(of_a_side))
        self.unusable += int(np.count_nonzero(bad))
        keys, first = self.windows.append(arrivals, since)
        tokens, most = self.sets.tokens(arrivals)
        partners, n, self.sets.index = finder()(
            *self.sets.tests, self.settings, self.sets.function, self.sets.tested, self.wanted, self.windows.keys, self.windows.objects,
            Advance(keys, first, since, until), self.sets.rows_of(arrivals, keys), tokens, most, self.sets.index, self.sets.counts,
        )  # fmt: skip
        self.found += n
        fields = partners.fields[:n]
        query, key, older, newer = (fields[:, c].copy() for c in (QUERY, KEY, OLDER, NEWER))
        return keys, first, Pairs(query, key, older, newer, partners.score[:n].copy())

    def restore(self, rows: Arrivals, next_seq: I64, until: Instant) -> None:
        """Windows and index of the host's rows."""
        self.grow(len(next_seq))
        self.windows.restore(rows, next_seq, until)
        self.sets.restore(self.settings, self.windows, rows, until)

    @staticmethod
    def items(older: I64, newer: I64) -> I64:
        """Shape (m, 2), in the order of the roles; ``newer`` as of ``Pairs``."""
        newer_seq, newer_is_a = newer >> 1, (newer & 1) == 1
        return np.stack([np.where(newer_is_a, newer_seq, older), np.where(newer_is_a, older, newer_seq)], axis=1)

    def counters(self, queries: int) -> dict[str, int]:
        """Objects, entries of lists read, different sets among them, those counted, pairs found, objects without tokens."""
        counts = self.sets.counts
        told = {"objects": self.arrived, "read": int(counts[READ]), "weighed": int(counts[WEIGHED]), "counted": int(counts[COUNTED])}
        told["candidates"] = self.found
        for i in range(queries):
            told |= {f"unusable:{i}": self.unusable, f"asked:{i}": self.asked}
        self.arrived = self.unusable = self.asked = self.found = 0
        counts[:] = 0
        return told
