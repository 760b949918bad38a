"""The logic of matches: nothing but the window, as the search for partners has it, and the numbers of steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np

from skyband.operators.base import ARRIVAL, F64, I64, AnyArray, Arrivals, Changes, Instant, Items, State, Window
from skyband.operators.pair_rows.kernels.tables import NEXT_SEQ
from skyband.operators.pair_rows.queries import PairQuery
from skyband.operators.pair_rows.search import Pairs, PartnerQuery, PartnerSearch
from skyband.operators.windows import check_window

LONG_AGO: int = -(2**62)


class MatchesConfiguration(Protocol):
    """The part of an operator's configuration that the logic reads."""

    @property
    def queries(self) -> tuple[PairQuery, ...]:
        """Return the queries of the state."""
        ...

    @property
    def window(self) -> Window:
        """Return the largest window."""
        ...

    def worst_score(self, q: PairQuery) -> float:
        """Return the largest internal score the query accepts."""
        ...

    def external(self, score: F64) -> F64:
        """Return internal scores as users know them."""
        ...


def partner_queries(configuration: MatchesConfiguration) -> list[PartnerQuery]:
    """Return what is searched for: every query for itself."""
    return [PartnerQuery(q.k, q.window, configuration.worst_score(q)) for q in configuration.queries]


class MatchesLogic:
    """Every query searches for itself, with a bar that rises as it finds."""

    def __init__(
        self, configuration: MatchesConfiguration, search: Callable[[Sequence[PartnerQuery]], PartnerSearch], state: State | None
    ) -> None:
        self.configuration = configuration
        self.search = search(partner_queries(configuration))
        self.until = LONG_AGO
        self.step = np.zeros((len(configuration.queries), 0), np.int64)
        if state is not None:
            self.search.restore(state.rows, state.arrays, self.until)
            self.until = int(state.arrays["until"][0])
            self.step = np.array(state.arrays["step"], np.int64)

    def advance(self, arrivals: Arrivals, until: Instant) -> Changes:
        """Process every event < ``until``, as ``Logic.advance``. Only arrivals bring changes."""
        since, self.until = self.until, max(self.until, until)
        if not len(arrivals):
            return Changes.empty(2)
        more = self.search.grow(int(arrivals.key[-1]) + 1)
        self.step = np.concatenate([self.step, np.zeros((len(self.step), more), np.int64)], axis=1)
        arrivals, deletions = self.search.split(arrivals)
        if not len(arrivals):
            self.search.delete(deletions)
            return Changes.empty(2)
        _, _, found = self.search.find(arrivals, deletions, since, until)
        return self._changes(found)

    def _changes(self, found: Pairs) -> Changes:
        order = np.lexsort((found.newer, found.key, found.query))  # stable: an arrival's matches stay in rank order
        query, key, older, newer = found.query[order], found.key[order], found.older[order], found.newer[order]
        if not len(query):
            return Changes.empty(2)
        group = np.ones(len(query), bool)
        group[1:] = (query[1:] != query[:-1]) | (key[1:] != key[:-1])
        arrival = group.copy()
        arrival[1:] |= newer[1:] != newer[:-1]
        number = np.cumsum(arrival)
        steps = number - (number[group] - 1)[np.cumsum(group) - 1] + self.step[query, key]
        place = np.arange(len(query)) - np.flatnonzero(arrival)[number - 1]
        last = np.append(group[1:], True)
        self.step[query[last], key[last]] = steps[last]
        times = self.search.windows.times(key, newer >> 1)
        return Changes(
            query=query.astype(np.int16), key=key, at=times, step=steps, pos=place.astype(np.int32),
            sign=np.ones(len(query), np.int8), cause=np.full(len(query), ARRIVAL, np.int8),
            score=self.configuration.external(found.score[order]), items=self.search.items(older, newer),
        )  # fmt: skip

    def wake(self) -> Instant | None:
        """Never: nothing happens without an arrival."""
        return None

    def checkpoint(self) -> dict[str, AnyArray]:
        """Next seqs and steps, and deletions. O(keys)."""
        return {
            "until": np.array([self.until], np.int64), "next": self.search.windows.keys[:, NEXT_SEQ].copy(), "step": self.step.copy(),
            **self.search.saved(self.until),
        }  # fmt: skip

    def retained(self) -> tuple[I64, I64]:
        """Nothing out of the window."""
        return np.empty(0, np.int64), np.empty(0, np.int64)

    def snapshot(self, key: int, k: int, window: Window, query: int = 0) -> Items:
        """Nothing: what was reported is not kept."""
        check_window(window, self.configuration.window, "snapshot")
        return self.skyband()

    def skyband(self) -> Items:
        """Nothing: what was reported is not kept."""
        return Items(np.empty(0, np.int64), np.empty((0, 2), np.int64), np.empty(0, np.float64))

    def counters(self) -> dict[str, int]:
        """Those of the search."""
        return self.search.counters(len(self.configuration.queries))
