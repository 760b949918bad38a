"""What every arriving set's most similar older ones are asked for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from skyband.operators.pair_rows.queries import PairQuery
from skyband.operators.set_index.configuration import SetsConfiguration
from skyband.operators.state_keys import StateKeys
from skyband.operators.windows import check_ranked


@dataclass(frozen=True, kw_only=True)
class MatchesConfiguration(SetsConfiguration):
    """For every arriving set its ``k`` most similar older ones in the query's window, reported once, at its arrival.

    ``min_score`` (``max_score`` of the distance ``hamming``) is the score a pair must have at least. Raises ValueError for k < 1, a window
    larger than the state's or of another kind, a bound that is NaN or on the better side, ``every_micros``, and what
    ``SetsConfiguration`` refuses.
    """

    queries: tuple[PairQuery, ...]

    state_format: ClassVar[str] = "Matches"
    query_types: ClassVar[frozenset[str]] = frozenset({"matches"})
    lasting: ClassVar[bool] = False
    state_keys: ClassVar[StateKeys] = StateKeys(each={"next": 0, "step": 1})
    """Nothing of what was reported is kept: there is no result that changes add up to."""

    def __post_init__(self) -> None:
        self.check()
        check_ranked(self.queries, max([q.k for q in self.queries], default=1), self.window, self.direction, "matches")
        for q in self.queries:
            self.check_bounds(q.name, q.min_score, q.max_score)
            if q.every_micros is not None:
                raise ValueError(f"{q.name}: what is reported once has no boundaries")
