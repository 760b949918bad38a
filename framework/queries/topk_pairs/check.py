"""What can be wrong with an entry: its scoring function, its bounds, its sides."""

from __future__ import annotations

from skyband.framework.queries.checks import bounds_in_order, uses_scoring
from skyband.framework.queries.pair_rows.check import check_between, check_room
from skyband.framework.queries.topk_pairs.model import TopKPairs
from skyband.framework.spec.checks.scope import PAIR_SIDES, Scope
from skyband.framework.spec.parsing.document import Path


def check(s: Scope, path: Path, query: TopKPairs) -> None:
    """Note everything that is wrong with the entry at ``path``."""
    uses_scoring(s, path, query, query.scoring, PAIR_SIDES)
    bounds_in_order(s, path, query.min_score, query.max_score)
    if query.between is not None:
        check_between(s, (*path, "between"), query.between)
    check_room(s, path, query)
