"""What can be wrong with an entry: its scoring function, bounds that are missing or leave nothing."""

from __future__ import annotations

from skyband.framework.queries.checks import uses_scoring
from skyband.framework.queries.single_rows.list_check import needed_fields
from skyband.framework.queries.threshold.model import BOUNDS, Threshold, nothing_passes, two_on_one_side
from skyband.framework.spec.checks.scope import ROW_SIDES, Scope
from skyband.framework.spec.parsing.document import Path


def check(s: Scope, path: Path, query: Threshold) -> None:
    """Note everything that is wrong with the entry at ``path``."""
    needed_fields(s, path, query)
    uses_scoring(s, path, query, query.scoring, ROW_SIDES)
    if s.doc.bad_below(path):
        return
    given = [b for b in ("at_least", "above", "at_most", "below") if getattr(query, b) is not None]
    hint = "one of at_least, above, at_most, below"
    if not given and query.queries_from is None:
        s.doc.add("SKY-E111", "a threshold query needs a bound", s.doc.where_key(path), hint)
    elif two_on_one_side(given):
        s.doc.add("SKY-E117", f"a threshold query has two bounds on one side ({', '.join(given)})", s.doc.where_key(path), hint)
    elif nothing_passes(*(getattr(query, b) for b in BOUNDS)):
        s.doc.add("SKY-E117", "the bounds leave nothing that can pass", s.doc.where_value((*path, given[0])))
