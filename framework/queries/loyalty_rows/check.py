"""What can be wrong with an entry: its object, what turns a row into a report, a window that is not of time."""

from __future__ import annotations

from typing import Final

from skyband.framework.base.columns import FIXED_COLUMNS
from skyband.framework.queries.loyalty_rows.model import LOYALTY, SLOPE, LoyaltyRows
from skyband.framework.spec.checks.scope import ROW_SIDES, Scope
from skyband.framework.spec.parsing.document import Path

_NAMING: Final = ("string", "int", "bigint", "boolean", "timestamp", "date")
_SWITCHES: Final = ("boolean", "int", "bigint")


def check(s: Scope, path: Path, query: LoyaltyRows) -> None:
    """Note everything that is wrong with the entry at ``path``."""
    _check_object(s, (*path, "object"), query)
    _check_reports(s, path, query)
    _check_window(s, path, query)
    if query.carry and not s.doc.bad_below((*path, "carry")):
        said = "the items are objects that many rows report on: there is no row to carry columns from"
        s.doc.add("SKY-E117", said, s.doc.where_key((*path, "carry")), "leave it out; more columns may name the object")


def time_of(s: Scope, query: LoyaltyRows) -> int | None:
    """The query's window in microseconds, None if it has none."""
    own = query.window.time if query.window is not None else None
    return own if own is not None else s.job.window.time


def _check_object(s: Scope, path: Path, query: LoyaltyRows) -> None:
    doc, keys = s.doc, s.job.source.partition_by
    for i, name in enumerate(keys):
        if name.lower() in {LOYALTY, SLOPE} and not doc.bad(("source", "partition_by", i)):
            _collides(s, ("source", "partition_by", i), name, query)
    if doc.bad(path):
        return
    for i, name in enumerate(query.objects):
        at = path if isinstance(query.object, str) else (*path, i)
        if not s.column(at, name):
            continue
        type_ = s.types[name]
        if type_ is not None and type_ not in _NAMING and not type_.startswith("decimal"):
            hint = f"derive a text or a whole number from it, such as cast({name} as string)"
            doc.add("SKY-E126", f"numbers with a fraction name no object, '{name}' is {type_}", doc.where_value(at), hint)
        if name in query.objects[:i]:
            doc.add("SKY-E125", f"'{name}' is listed twice in object", doc.where_value(at))
        elif name.lower() in {*FIXED_COLUMNS, LOYALTY, SLOPE} and name not in keys:
            _collides(s, at, name, query)


def _collides(s: Scope, at: Path, name: str, query: LoyaltyRows) -> None:
    said = f"result column '{name}' collides with a column of every {query.type} result"
    s.doc.add("SKY-E124", said, s.doc.where_value(at), "give the column another name with 'from:', or derive it under one")


def _check_reports(s: Scope, path: Path, query: LoyaltyRows) -> None:
    doc, at = s.doc, (*path, "updates")
    if query.criteria is None and query.updates is None:
        if not doc.bad_below((*path, "criteria")) and not doc.bad_below(at):
            hint = "when is an object on? such as criteria: temp > 30, or updates: a boolean column that says so"
            doc.add("SKY-E111", "a query of this type needs 'criteria' or 'updates'", doc.where_key(path), hint)
        return
    if query.criteria is not None and query.updates is not None:
        doc.add("SKY-E117", "an object is on by 'criteria' or by 'updates'", doc.where_key(at), "keep one of them")
        return
    if query.criteria is not None:
        s.expression((*path, "criteria"), query.criteria, ROW_SIDES, "predicate")
    if query.updates is not None and s.column(at, query.updates):
        type_ = s.types[query.updates]
        if type_ is not None and type_ not in _SWITCHES:
            said = f"updates come from a boolean column, or one of 0 and 1; '{query.updates}' is {type_}"
            doc.add("SKY-E126", said, doc.where_value(at), "use criteria: a predicate, such as state = 'on'")


def _check_window(s: Scope, path: Path, query: LoyaltyRows) -> None:
    doc, at = s.doc, (*path, "window")
    if doc.bad_below(at) or doc.bad_below(("window",)):
        return
    own = query.window.count if query.window is not None else None
    if own is not None or s.job.window.count is not None:
        where = doc.where_value((*at, "count")) if own is not None else doc.where_value(("window", "count"))
        whose = "" if own is not None else "the job's window counts rows, and "
        hint = "give the time alone" if own is not None else "give the job's window in time alone, or the query a job of its own"
        doc.add("SKY-E117", f"{whose}loyalty is a share of time: query '{path[-1]}' has no use for a window in rows", where, hint)
