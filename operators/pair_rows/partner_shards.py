"""Operators that search for the partners of each arrival, divided among shards: what a shard does, and a search that takes its pairs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from skyband.operators.base import AnyArray, Arrivals, Instant, State
from skyband.operators.found_pairs import FoundPairs
from skyband.operators.pair_rows.deletions import UNTIL
from skyband.operators.pair_rows.kernels.arena import drop_dead
from skyband.operators.pair_rows.kernels.partners import KEY, NEWER, OLDER, PARTNER_COLUMNS, QUERY, Partners
from skyband.operators.pair_rows.kernels.tables import NEXT_SEQ, Advance
from skyband.operators.pair_rows.search import PartnerQuery, PartnerSearch, SearchConfiguration, newest_first, some
from skyband.operators.pair_rows.windows import Marks
from skyband.operators.shards import Share

LONG_AGO: int = -(2**62)


class PartnerShard:
    """A search that looks for the partners of its share of the arrivals (``ShardLogic``)."""

    def __init__(self, search: PartnerSearch, share: Share, state: State | None) -> None:
        self.search, self.until = search, LONG_AGO
        search.settings = search.settings._replace(shard=share.number, shards=share.of)
        if state is not None:
            search.restore(state.rows, state.arrays, self.until)
            self.until = int(state.arrays["until"][0])

    def find(self, arrivals: Arrivals, until: Instant) -> FoundPairs:
        """Return the pairs of its share of the arrivals, as ``ShardLogic.find``."""
        since, self.until = self.until, max(self.until, until)
        if not len(arrivals):
            return FoundPairs.none()
        self.search.grow(int(arrivals.key[-1]) + 1)
        arrivals, deletions = self.search.split(arrivals)
        if not len(arrivals):
            self.search.delete(deletions)
            return FoundPairs.none()
        return FoundPairs(*self.search.find(arrivals, deletions, since, until)[2])

    def checkpoint(self) -> dict[str, AnyArray]:
        """Return next seqs and deletions. O(keys + deletions)."""
        next_seq = self.search.windows.keys[:, NEXT_SEQ].copy()
        return {"until": np.array([self.until], np.int64), "next": next_seq, **self.search.saved(self.until)}

    def counters(self) -> dict[str, int]:
        """Return and reset the counters of the search."""
        return self.search.work_done()


class DeletesConfiguration(SearchConfiguration, Protocol):
    """The part of an operator's configuration that ``FoundSearch`` reads."""

    @property
    def deletes(self) -> bool:
        """Return whether rows may be deletions."""
        ...


class FoundSearch(PartnerSearch):
    """The windows of one bucket, and the partners that shards have found (``Arrivals.found``) instead of a search."""

    def __init__(self, configuration: DeletesConfiguration, queries: Sequence[PartnerQuery]) -> None:
        marks = Marks(integers=(UNTIL,)) if configuration.deletes and UNTIL not in configuration.kernel.int_names else None
        super().__init__(configuration, queries, marks=marks)

    def _find(self, arrivals: Arrivals, advance: Advance) -> tuple[Partners, int]:
        drop_dead(self.windows.keys, advance.keys, self.windows.objects.times, self.settings.window_count, self.settings.window_micros)
        found = arrivals.found
        assert found is not None, "shards have searched for these arrivals"
        fields = np.empty((len(found), PARTNER_COLUMNS), np.int64)
        fields[:, QUERY], fields[:, KEY], fields[:, OLDER], fields[:, NEWER] = found.query, found.key, found.older, found.newer
        partners = Partners(fields, found.score)
        if self.queries.k.min() == 0:
            return newest_first(partners), len(found)
        return some(partners, np.lexsort((-found.older, found.score, found.newer, found.key))), len(found)

    def work_done(self) -> dict[str, int]:
        """Return nothing: shards count their work."""
        return {}
