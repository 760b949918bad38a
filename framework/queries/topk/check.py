"""What can be wrong with an entry: its scoring function, missing fields, bounds."""

from __future__ import annotations

from skyband.framework.queries.checks import bounds_in_order, uses_scoring
from skyband.framework.queries.single_rows.list_check import needed_fields
from skyband.framework.queries.topk.model import TopK
from skyband.framework.spec.checks.scope import ROW_SIDES, Scope
from skyband.framework.spec.parsing.document import Path


def check(s: Scope, path: Path, query: TopK) -> None:
    """Note everything that is wrong with the entry at ``path``."""
    needed_fields(s, path, query)
    uses_scoring(s, path, query, query.scoring, ROW_SIDES)
    bounds_in_order(s, path, query.min_score, query.max_score)
