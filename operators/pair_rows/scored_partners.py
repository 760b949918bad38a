"""Search for the partners of each arrival by a scoring expression: every object of the window is scored."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, Final

import numpy as np

from skyband.operators import jit
from skyband.operators.base import AnyArray, Arrivals
from skyband.operators.expressions.compile import count_type, score_type
from skyband.operators.pair_rows.kernels.partners import KEY, NEWER, PartnerQueries, Partners
from skyband.operators.pair_rows.kernels.scored_partners import find_partners
from skyband.operators.pair_rows.kernels.tables import COUNTERS, KEY_COLUMNS, SCORED, Advance, Settings
from skyband.operators.pair_rows.scored import ScoredPairs
from skyband.operators.pair_rows.search import PartnerQuery, PartnerSearch
from skyband.operators.pair_rows.windows import no_objects

SUB_BATCH: Final = 32
"""Arrivals of a key that are taken together, at the most."""
HEAP_PLACES: Final = 1 << 20
"""Partners that the heaps of a sub-batch hold, at the most, unless those of a single arrival hold more."""


@cache
def finder() -> Callable[..., Any]:
    """Return ``find_partners``, compiled once for all scoring expressions: its signature is the types of its tables."""
    if not jit.HAVE_NUMBA:
        return find_partners
    from numba import typeof

    none = np.empty(0, np.int64)
    tables = (
        Settings(0, 0, 0, 0, 0, 0, 0), PartnerQueries(none, none, none, np.empty(0)), np.empty((0, KEY_COLUMNS), np.int64),
        no_objects(0, 0), Advance(none, none, 0, 0), none,
    )  # fmt: skip
    signature = (count_type(), score_type(), count_type(), score_type(), *map(typeof, tables))
    compiled: Callable[..., Any] = jit.jit(signature)(find_partners)
    return compiled


class ScoredPartnerSearch(PartnerSearch):
    """The windows of one bucket, with the queries that search them. O(window) vectorised scores per arrival, whatever the queries."""

    def __init__(self, configuration: ScoredPairs, queries: Sequence[PartnerQuery]) -> None:
        places = sum(min(q.k, configuration.window.count or q.k) for q in queries)
        super().__init__(configuration, queries, max(1, min(SUB_BATCH, HEAP_PLACES // max(1, places))))
        self.configuration = configuration
        kernel = configuration.kernel
        as_b = (kernel.count_block, kernel.score_block)
        as_a = as_b if configuration.between is None else (kernel.swapped.count_block, kernel.swapped.score_block)
        self.scoring: tuple[Callable[..., Any], ...] = (*as_a, *as_b)
        self.work = np.zeros(COUNTERS, np.int64)

    def _find(self, arrivals: Arrivals, advance: Advance) -> tuple[Partners, int]:
        partners, n = finder()(
            *self.scoring, self.settings, self.queries, self.windows.keys, self.windows.objects, advance, self.work
        )  # fmt: skip
        if self.queries.k.min() > 0:
            return partners, n
        # All partners are found range by range.
        order = np.lexsort((partners.fields[:n, NEWER], partners.fields[:n, KEY]))
        return Partners(partners.fields[order], partners.score[order]), n

    def _unusable(self, arrivals: Arrivals) -> AnyArray:
        return self.configuration.unusable(arrivals)

    def _work_done(self) -> dict[str, int]:
        """Return and reset the number of scored pairs."""
        found = {"scored": int(self.work[SCORED])}
        self.work[:] = 0
        return found
