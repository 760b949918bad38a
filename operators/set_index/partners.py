"""Search for the partners of each arriving set in the index of the window's sets."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np

from skyband.operators import jit
from skyband.operators.base import AnyArray, Arrivals, Instant
from skyband.operators.expressions.compile import score_type
from skyband.operators.pair_rows.kernels.partners import Partners
from skyband.operators.pair_rows.kernels.tables import Advance
from skyband.operators.pair_rows.search import PartnerQuery, PartnerSearch, newest_first, no_partner_task, some
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
    tables = (0, False, no_partner_task(), ArrivingSets(Tokens(none, none), none, 0), new_index(1, 1, 1, 1, 0), none)
    signature = (score_type(), score_type(), *map(typeof, tables))
    compiled: Callable[..., Any] = jit.jit(signature)(find_partners)
    return compiled


class SetPartnerSearch(PartnerSearch):
    """The windows and the index of one bucket, with the queries that search them."""

    def __init__(self, configuration: SetsConfiguration, queries: Sequence[PartnerQuery]) -> None:
        super().__init__(configuration, queries)
        self.sets = Sets(configuration)

    def grow(self, keys: int) -> int:
        """Enlarge the tables to ``keys`` keys; return the number of new ones."""
        self.sets.grow(keys)
        return super().grow(keys)

    def _find(self, arrivals: Arrivals, advance: Advance) -> tuple[Partners, int]:
        """Also put the arrivals into the index."""
        tokens, largest = self.sets.tokens(arrivals)
        sets = ArrivingSets(tokens, self.sets.rows_of(arrivals, advance.keys), largest)
        partners, n, self.sets.index = finder()(
            *self.sets.tests, self.sets.function, self.sets.has_condition, self.task(advance), sets, self.sets.index,
            self.sets.counters,
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
