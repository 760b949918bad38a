"""Search for the partners of each arriving set in the index of the window's sets."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np

from skyband.operators import jit
from skyband.operators.base import AnyArray, Arrivals, Instant
from skyband.operators.expressions.compile import score_type
from skyband.operators.pair_rows.kernels.partners import PartnerQueries, Partners
from skyband.operators.pair_rows.kernels.tables import KEY_COLUMNS, Advance, Settings
from skyband.operators.pair_rows.search import PartnerQuery, PartnerSearch, newest_first, some
from skyband.operators.pair_rows.windows import no_objects
from skyband.operators.set_index.configuration import SetsConfiguration
from skyband.operators.set_index.kernels.partners import find_partners
from skyband.operators.set_index.kernels.probe import COUNTED, READ, WEIGHED
from skyband.operators.set_index.kernels.tables import ArrivingSets, Tokens, new_index
from skyband.operators.set_index.sets import Sets


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


class SetPartnerSearch(PartnerSearch):
    """The windows and the index of one bucket, with the queries that search them."""

    def __init__(self, configuration: SetsConfiguration, queries: Sequence[PartnerQuery]) -> None:
        super().__init__(configuration, queries)
        self.sets = Sets(configuration)

    def grow(self, keys: int) -> int:
        """See ``PartnerSearch``."""
        self.sets.grow(keys)
        return super().grow(keys)

    def _find(self, arrivals: Arrivals, advance: Advance) -> tuple[Partners, int]:
        """Also put the arrivals into the index."""
        tokens, largest = self.sets.tokens(arrivals)
        sets = ArrivingSets(tokens, self.sets.rows_of(arrivals, advance.keys), largest)
        partners, n, self.sets.index = finder()(
            *self.sets.tests, self.settings, self.sets.function, self.sets.has_condition, self.queries, self.windows.keys,
            self.windows.objects, advance, sets, self.sets.index, self.sets.counters,
        )  # fmt: skip
        if self.queries.k.min() == 0:
            partners = newest_first(some(partners, np.arange(n)))  # the order of finding depends on the lists of all tokens
        return partners, n

    def restore(self, rows: Arrivals, arrays: Mapping[str, AnyArray], until: Instant) -> None:
        """Fill windows and index with the rows that the host kept."""
        super().restore(rows, arrays, until)
        self.sets.restore(self.settings, self.windows, rows, until)

    def work_done(self) -> dict[str, int]:
        """Return and reset the numbers of list entries read, sets weighed, and sets whose common tokens were counted."""
        counts = self.sets.counters
        found = {"read": int(counts[READ]), "weighed": int(counts[WEIGHED]), "counted": int(counts[COUNTED])}
        counts[:] = 0
        return found
