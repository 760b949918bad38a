"""Checks that the entries of several query types share."""

from __future__ import annotations

from typing import Any

from skyband.framework.base.errors import did_you_mean, one_of
from skyband.framework.queries.models import QueryModel
from skyband.framework.spec.checks.scope import PAIR_SIDES, ROW_SIDES, Scope
from skyband.framework.spec.models.job import GlobalScoring, LinearScoring
from skyband.framework.spec.parsing.document import Path


def uses_scoring(s: Scope, path: Path, query: QueryModel, scoring: str | None, sides: tuple[str, ...]) -> None:
    """Check that the scoring function ``scoring`` exists and scores what the type scores: rows or pairs."""
    if scoring is None or s.doc.bad((*path, "scoring")) or s.doc.bad(("scoring",)):
        return
    named: Any = s.doc.data.get("scoring")
    known = list(named) if isinstance(named, dict) else list(s.job.scoring)
    where = s.doc.where_value((*path, "scoring"))
    if scoring not in known:
        hint = did_you_mean(scoring, known) or (f"scoring functions: {one_of(known)}" if known else "add it under 'scoring:'")
        s.doc.add("SKY-E121", f"unknown scoring function '{scoring}'", where, hint)
        return
    found = s.job.scoring.get(scoring)
    if isinstance(found, GlobalScoring) and sides == ROW_SIDES:
        s.doc.add("SKY-E117", f"'{scoring}' combines two rows, {query.type} scores single rows", where, "use expression or linear")
    if isinstance(found, LinearScoring) and sides == PAIR_SIDES:
        s.doc.add("SKY-E117", f"'{scoring}' scores single rows, {query.type} scores pairs", where, "use expression or combine")


def bounds_in_order(s: Scope, path: Path, least: float | None, most: float | None) -> None:
    """Check that ``min_score`` is not larger than ``max_score``."""
    if least is not None and most is not None and least > most:
        s.doc.add("SKY-E117", "min_score is larger than max_score: nothing can pass", s.doc.where_value((*path, "min_score")))
