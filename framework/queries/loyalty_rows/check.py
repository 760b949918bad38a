"""Check an entry: its object, the report that a row makes, and that its window is of time."""

from __future__ import annotations

from typing import Final

from skyband.framework.base.columns import FIXED_COLUMNS
from skyband.framework.queries.checks import collides, naming_columns
from skyband.framework.queries.loyalty_rows.model import LOYALTY, SLOPE, LoyaltyRows
from skyband.framework.spec.checks.scope import ROW_SIDES, Scope
from skyband.framework.spec.parsing.document import Path

_SWITCHES: Final = ("boolean", "int", "bigint")


def check(scope: Scope, path: Path, query: LoyaltyRows) -> None:
    """Add every mistake in the entry at ``path``."""
    _check_object(scope, (*path, "object"), query)
    _check_reports(scope, path, query)
    _check_where(scope, (*path, "where"), query)
    _check_held(scope, (*path, "held"), query)
    _check_window(scope, path, query)
    if query.carry and not scope.doc.bad_below((*path, "carry")):
        message = "the items are objects that many rows report on: there is no row to carry columns from"
        scope.doc.add("SKY-E117", message, scope.doc.where_key((*path, "carry")), "leave it out; more columns may name the object")


def time_of(scope: Scope, query: LoyaltyRows) -> int | None:
    """Return the query's window in microseconds, None if it has none."""
    own = query.window.time if query.window is not None else None
    return own if own is not None else scope.job.window.time


def _check_object(scope: Scope, path: Path, query: LoyaltyRows) -> None:
    doc = scope.doc
    for i, name in enumerate(scope.job.source.partition_by):
        if name.lower() in {LOYALTY, SLOPE} and not doc.bad(("source", "partition_by", i)):
            collides(scope, ("source", "partition_by", i), name, query)
    if query.object is None:
        if not doc.bad(path) and not doc.bad_below(path[:-1]):
            doc.add("SKY-E111", "a query of this type needs 'object'", doc.where_key(path[:-1]), "the column that names the object")
        return
    naming_columns(scope, path, query, query.object, {*FIXED_COLUMNS, LOYALTY, SLOPE})


def _check_reports(scope: Scope, path: Path, query: LoyaltyRows) -> None:
    doc, at = scope.doc, (*path, "updates")
    if query.criteria is None and query.updates is None:
        if not doc.bad_below((*path, "criteria")) and not doc.bad_below(at):
            hint = "when is an object on? such as criteria: temp > 30, updates: a boolean column that says so, or of: another query"
            doc.add("SKY-E111", "a query of this type needs 'criteria', 'updates' or 'of'", doc.where_key(path), hint)
        return
    if query.criteria is not None and query.updates is not None:
        doc.add("SKY-E117", "an object is on by 'criteria' or by 'updates'", doc.where_key(at), "keep one of them")
        return
    if query.criteria is not None:
        scope.expression((*path, "criteria"), query.criteria, ROW_SIDES, "predicate")
    if query.updates is not None and scope.column(at, query.updates):
        type_ = scope.types[query.updates]
        if type_ is not None and type_ not in _SWITCHES:
            message = f"updates come from a boolean column, or one of 0 and 1; '{query.updates}' is {type_}"
            doc.add("SKY-E126", message, doc.where_value(at), "use criteria: a predicate, such as state = 'on'")


def _check_where(scope: Scope, at: Path, query: LoyaltyRows) -> None:
    if query.where is not None and not scope.doc.bad_below(at) and scope.reads_statistics(query.where, "predicate"):
        message = "which rows report is decided as rows are read, when they have no statistics yet"
        scope.doc.add("SKY-E117", message, scope.doc.where_value(at), "use statistics in 'criteria', which is null where they are")


def _check_held(scope: Scope, at: Path, query: LoyaltyRows) -> None:
    doc = scope.doc
    if query.held is None or not scope.column(at, query.held):
        return
    type_ = scope.types[query.held]
    if type_ is not None and type_ != "string":
        doc.add("SKY-E126", f"held switches are text; '{query.held}' is {type_}", doc.where_value(at), "a string column, which may be null")
    corrects = scope.job.has_deletions
    # With 'every' an object may stay in the result below the border, up to the boundary: what an edge holds back of it would be seen there.
    others = {
        "every": query.every is not None, "stale_after": query.stale_after is not None, "trace: all": query.trace == "all",
        "deleted or replaced rows": corrects,
    }  # fmt: skip
    for other in (name for name, given in others.items() if given):
        message = f"held switches cannot be used with {other}: an edge does not know them"
        doc.add("SKY-E117", message, doc.where_key(at), "leave one of them out")


def _check_window(scope: Scope, path: Path, query: LoyaltyRows) -> None:
    doc, at = scope.doc, (*path, "window")
    if doc.bad_below(at) or doc.bad_below(("window",)):
        return
    if query.window is not None and at not in doc.places:
        if query.window.count is not None:
            message = f"the job's window counts rows, and loyalty is a share of time: query '{path[-1]}' needs a window of its own"
            doc.add("SKY-E117", message, doc.where_key(path), "for example window: {time: 1 day}")
        return
    own = query.window.count if query.window is not None else None
    if own is not None or scope.job.window.count is not None:
        where = doc.where_value((*at, "count")) if own is not None else doc.where_value(("window", "count"))
        whose = "" if own is not None else "the job's window counts rows, and "
        hint = "give the time alone" if own is not None else "give the job's window in time alone, or the query a job of its own"
        doc.add("SKY-E117", f"{whose}loyalty is a share of time: query '{path[-1]}' has no use for a window in rows", where, hint)
