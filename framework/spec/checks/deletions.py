"""Check what deletes objects: ``deletes``, and ``op`` and ``on_duplicate`` of the source."""

from __future__ import annotations

from typing import Final

from skyband.framework.base.errors import one_of
from skyband.framework.queries.registry import QUERY_TYPES
from skyband.framework.spec.checks.scope import ROW_SIDES, Scope
from skyband.framework.spec.models.source import Operations
from skyband.framework.spec.parsing.document import Path

_OP: Final[Path] = ("source", "op")
_ON_DUPLICATE: Final[Path] = ("source", "on_duplicate")
_KINDS: Final = ("insert", "update", "delete", "ignore")
_TYPES: Final = ("string", "int", "bigint")
"""Types of a column with the kind of change."""


def what_deletes(s: Scope) -> tuple[str, Path] | None:
    """Return (name, place) of the part of the spec by which objects may be deleted; None if there is none, or it is invalid."""
    job = s.job
    for name, path, given in (
        ("deletes", ("deletes",), job.deletes is not None),
        ("source.op", _OP, job.source.op is not None),
        ("on_duplicate: replace", _ON_DUPLICATE, job.source.on_duplicate == "replace"),
    ):
        if given and not s.doc.bad(path):
            return name, path
    return None


def check_deletions(s: Scope) -> None:
    """Report all errors of deletions and replaced rows."""
    if s.job.deletes is not None and not s.doc.bad(("deletes",)):
        s.expression(("deletes",), s.job.deletes, ROW_SIDES, "predicate", only=s.kinds_in_source())
    if s.job.source.op is not None and not s.doc.bad_below(_OP):
        _check_operations(s, s.job.source.op)
    _check_ids(s)
    found = what_deletes(s)
    if found is None:
        return
    can = sorted((name for name, kind in QUERY_TYPES.all().items() if kind.takes_deletions), key=len)
    for name, query in s.job.queries.items():
        if query.type not in can and not s.doc.bad(("queries", name)):
            where = s.doc.where_value(("queries", name, "type"))
            s.doc.add("SKY-E117", f"{query.type} cannot be used with {found[0]}", where, f"only {one_of(can).replace(' or ', ' and ')} can")


def _check_operations(s: Scope, op: Operations) -> None:
    at: Path = (*_OP, "column")
    type_ = s.types.get(op.column) if s.column(at, op.column) else None
    if type_ is not None and type_ not in _TYPES:
        hint = "derive a text from it first, such as cast(x as string)"
        s.doc.add("SKY-E126", f"op needs a text or a whole number, but '{op.column}' is {type_}", s.doc.where_value(at), hint)
    seen: dict[str, str] = {}
    for kind in _KINDS:
        for i, value in enumerate(getattr(op, kind)):
            if value in seen:
                said = f"'{value}' is listed under {seen[value]} already"
                s.doc.add("SKY-E125", said, s.doc.where_value((*_OP, kind, i)), "a value means one kind of change")
            seen.setdefault(value, kind)
    if not {"insert", "update"} & {*seen.values()}:
        hint = "insert: [c, r], or the values that your feed uses"
        s.doc.add("SKY-E111", "op lists no value of rows that bring objects", s.doc.where_key(_OP), hint)
    if (op.update or op.delete) and not s.job.source.event_time.tie_break and not s.doc.bad_below(("source", "event_time")):
        said = "without 'tie_break', changes of an id at one instant count in this order: insertions, updates, deletions"
        hint = "event_time: {tie_break: [lsn]}, with the columns by which the feed orders its changes, such as a log sequence number"
        s.doc.warn("SKY-E139", said, s.doc.where_key(("source", "event_time")), hint)
    if s.job.deletes is not None and not s.doc.bad(("deletes",)):
        s.doc.add("SKY-E117", "op and deletes cannot be used together", s.doc.where_key(("deletes",)), "list the values under op.delete")


def _check_ids(s: Scope) -> None:
    """Check that ids are checked where rows are found by their ids."""
    source = s.job.source
    if source.unique != "assumed" or s.doc.bad(("source", "unique")):
        return
    found = what_deletes(s)
    if found is None and source.on_duplicate == "keep_first" and not s.doc.bad(_ON_DUPLICATE):
        found = "on_duplicate: keep_first", _ON_DUPLICATE
    if found is not None:
        where = s.doc.where_value(("source", "unique"))
        s.doc.add("SKY-E117", f"{found[0]} needs checked ids, since it finds rows by their ids", where, "remove 'unique'")
