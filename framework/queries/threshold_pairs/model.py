"""The entry of a spec: all pairs of rows with a score within bounds."""

from __future__ import annotations

from typing import Literal

from skyband.framework.queries.scored_pairs.model import ScoredPairs


class ThresholdPairs(ScoredPairs):
    """All pairs of rows whose score is at least ``min_score``, at most ``max_score``, or both."""

    type: Literal["threshold_pairs"]
