"""Checks that the entries of several query types share."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Final

from skyband.framework.base.errors import did_you_mean, one_of
from skyband.framework.queries.models import QueryModel
from skyband.framework.spec.checks.scope import PAIR_SIDES, ROW_SIDES, Scope
from skyband.framework.spec.models.scoring import GlobalScoring, LinearScoring
from skyband.framework.spec.parsing.document import Path


def uses_scoring(
    s: Scope, path: Path, query: QueryModel, scoring: str | None, sides: tuple[str, ...], field: str = "scoring"
) -> None:  # fmt: skip
    """Check that the scoring function ``scoring``, given in ``field``, exists and scores what the type scores: rows or pairs."""
    if scoring is None or s.doc.bad((*path, field)) or s.doc.bad(("scoring",)):
        return
    named: Any = s.doc.data.get("scoring")
    known = list(named) if isinstance(named, dict) else list(s.job.scoring)
    where = s.doc.where_value((*path, field))
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


NAMING: Final = ("string", "int", "bigint", "boolean", "timestamp", "date")
"""Types, besides decimals, of columns that may name the items of a query."""


def naming_columns(scope: Scope, path: Path, query: QueryModel, given: str | Sequence[str], reserved: Collection[str]) -> None:
    """Check the columns ``given`` in the field at ``path``, which name what many rows are about: an object or a group.

    ``reserved``: names of the columns that every result of this type has.
    """
    doc, keys, what = scope.doc, scope.job.source.partition_by, path[-1]
    if doc.bad(path):
        return
    names = [given] if isinstance(given, str) else given
    for i, name in enumerate(names):
        at = path if isinstance(given, str) else (*path, i)
        if not scope.column(at, name):
            continue
        type_ = scope.types[name]
        if type_ is not None and type_ not in NAMING and not type_.startswith("decimal"):
            hint = f"derive a text or a whole number from it, such as cast({name} as string)"
            doc.add("SKY-E126", f"numbers with a fraction name no {what}, '{name}' is {type_}", doc.where_value(at), hint)
        if name in names[:i]:
            doc.add("SKY-E125", f"'{name}' is listed twice in {what}", doc.where_value(at))
        elif name.lower() in reserved and name not in keys:
            collides(scope, at, name, query)


def collides(scope: Scope, at: Path, name: str, query: QueryModel) -> None:
    """Report that the column ``name``, given at ``at``, has the name of a column of every result of this type."""
    message = f"result column '{name}' collides with a column of every {query.type} result"
    scope.doc.add("SKY-E124", message, scope.doc.where_value(at), "give the column another name with 'from:', or derive it under one")
