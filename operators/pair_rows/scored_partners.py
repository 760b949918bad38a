"""Search for the partners of each arrival by a scoring expression: objects of the window are scored unless a hash index or a zone map
excludes them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Any, Final

import numpy as np

from skyband.operators import jit
from skyband.operators.base import Arrivals
from skyband.operators.expressions.compile import bound_type, count_type, score_type
from skyband.operators.pair_rows.deletions import UNTIL
from skyband.operators.pair_rows.hash_index.index import no_index
from skyband.operators.pair_rows.kernels.partners import KEY, NEWER, Partners
from skyband.operators.pair_rows.kernels.scored_partners import find_partners
from skyband.operators.pair_rows.kernels.tables import COUNTERS, NEXT_SEQ, Advance, Bucket, Objects, pairs_counted
from skyband.operators.pair_rows.logic import no_skyband
from skyband.operators.pair_rows.scored import ScoredPairs
from skyband.operators.pair_rows.search import PartnerQuery, PartnerSearch, newest_first, no_partner_task, some
from skyband.operators.pair_rows.shortcuts import Shortcuts
from skyband.operators.pair_rows.windows import Marks
from skyband.operators.pair_rows.zone_maps.kernels import Zones, no_zones

SUB_BATCH: Final = 32
"""Arrivals of a key that are taken together, at the most."""
DELETION_MARKS: Final = Marks(integers=(UNTIL,))
"""What an object has if it can be deleted."""
HEAP_PLACES: Final = 1 << 20
"""Partners that the heaps of a sub-batch hold, at the most, unless those of a single arrival hold more."""


@cache
def finder() -> Callable[..., Any]:
    """Return ``find_partners``, compiled once for all scoring expressions: its signature is the types of its tables."""
    if not jit.HAVE_NUMBA:
        return find_partners
    from numba import typeof

    tables = (no_zones(0, 0), no_index(), no_partner_task(), np.empty(0, np.int64))
    signature = (count_type(), score_type(), count_type(), score_type(), bound_type(), bound_type(), *map(typeof, tables))
    compiled: Callable[..., Any] = jit.jit(signature)(find_partners)
    return compiled


class ScoredPartnerSearch(PartnerSearch):
    """The windows of one bucket, with the queries that search them. O(window) vectorised scores per arrival, whatever the queries."""

    def __init__(self, configuration: ScoredPairs, queries: Sequence[PartnerQuery], marks: Marks | None = None) -> None:
        places = sum(min(q.k, configuration.window.count or q.k) for q in queries)
        if marks is None and configuration.deletes:
            marks = DELETION_MARKS
        super().__init__(configuration, queries, max(1, min(SUB_BATCH, HEAP_PLACES // max(1, places))), marks)
        self.configuration = configuration
        self.shortcuts = Shortcuts(configuration)
        self.work = np.zeros(COUNTERS, np.int64)

    def _find(self, arrivals: Arrivals, advance: Advance) -> tuple[Partners, int]:
        self.shortcuts.drop_if_moved(self.windows.pool.moves)
        found = [*self._parts(advance)]
        fields, score = np.concatenate([p.fields for p in found]), np.concatenate([p.score for p in found])
        partners = Partners(fields, score)
        if self.queries.k.min() == 0:
            partners = newest_first(partners)  # they are found range by range, and keys with zones after the others
        elif len(found) > 1:
            partners = some(partners, np.lexsort((fields[:, NEWER], fields[:, KEY])))  # those of an arrival stay in rank order
        return partners, len(score)

    def _parts(self, advance: Advance) -> Iterator[Partners]:
        """Find the partners: at once those of keys with few objects, then key by key, in slices."""
        worth = self.shortcuts.worth(self.settings, self.windows.keys, advance)
        if not worth.all():
            yield self._part(None, advance._replace(keys=advance.keys[~worth], first_new=advance.first_new[~worth]))
        keys, objects = self.windows.keys, self.attributes()
        for key, first_new in zip(advance.keys[worth].tolist(), advance.first_new[worth].tolist(), strict=True):
            at, stop = first_new, int(keys[key, NEXT_SEQ])
            while at < stop:
                bucket = Bucket(keys, objects, no_skyband(), 0)
                zones, upto = self.shortcuts.next_slice(self.settings, bucket, key, at, stop)
                keys[key, NEXT_SEQ] = upto
                before = self.work.copy()
                yield self._part(zones, advance._replace(keys=np.array([key]), first_new=np.array([at])))
                self.shortcuts.judge(zones, key, upto, self.work - before)
                at = upto

    def _part(self, zones: Zones | None, advance: Advance) -> Partners:
        functions, windows = self.configuration.functions(zones is not None), self.windows
        zones = zones or no_zones(len(windows.float_names) - self.settings.own_floats, len(windows.int_names) - self.settings.own_integers)
        self.shortcuts.grow(len(windows.keys))
        partners, n, self.shortcuts.index = finder()(*functions, zones, self.shortcuts.index, self.task(advance), self.work)
        return Partners(partners.fields[:n], partners.score[:n])

    def attributes(self) -> Objects:
        """Return the windows' arena with the attributes of the kernel alone."""
        objects, settings = self.windows.objects, self.settings
        floats, integers = len(objects.floats) - settings.own_floats, len(objects.integers) - settings.own_integers
        return objects._replace(floats=objects.floats[:floats], integers=objects.integers[:integers])

    def work_done(self) -> dict[str, int]:
        """Return and reset the numbers of scored and of skipped pairs."""
        found = pairs_counted(self.work)
        self.work[:] = 0
        return found
