"""Check the tests of a spec (``tests:``): columns, tables, and values that columns cannot hold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from skyband.framework.base.cells import cell
from skyband.framework.base.errors import did_you_mean, one_of
from skyband.framework.base.table_names import query_tables
from skyband.framework.spec.checks.columns import lookup_columns, source_types
from skyband.framework.spec.checks.queries import further_tables
from skyband.framework.spec.checks.scope import Scope
from skyband.framework.spec.checks.table_columns import missing_tables, table_columns
from skyband.framework.spec.models.source import kind_of
from skyband.framework.spec.parsing.document import Path

MOST_MISTAKES: Final = 20
"""Maximum number of reported errors of one test."""
_NONE: Final[Mapping[str, str]] = {}


def check_examples(s: Scope) -> None:
    """Report all errors of the tests. O(cells)."""
    seen: dict[str, int] = {}
    absent: Mapping[str, str] = {} if s.doc.bad(("queries",)) else missing_tables(s)
    for i, test in enumerate(s.job.tests):
        at: Path = ("tests", i)
        if s.doc.bad(at):
            continue
        if test.name in seen and not s.doc.bad((*at, "name")):
            s.doc.add("SKY-E102", f"two tests named '{test.name}'", s.doc.where_value((*at, "name")), "give each test a name of its own")
        seen.setdefault(test.name, i)
        before = len(s.doc.errors)
        _clock(s, (*at, "clock"), test.clock)
        added = {c.name for c in s.job.source.position}
        types = {} if s.doc.bad_below(("source", "schema")) else {n: t for n, t in source_types(s.job).items() if n not in added}
        columns = {n: kind_of(t) for n, t in types.items()} or None
        for n, row in enumerate(test.rows):
            if isinstance(row, dict):
                _row(s, (*at, "rows", n), row, columns, "the source", types)
        for name, rows in test.lookups.items():
            _lookup(s, (*at, "lookups", name), name, rows)
        for table, rows in test.expect.items():
            known = _columns(s, (*at, "expect", table), table, absent)
            for n, row in enumerate(rows):
                _row(s, (*at, "expect", table, n), row, known, f"table {table}")
        del s.doc.errors[before + MOST_MISTAKES :]


def _lookup(s: Scope, at: Path, name: str, rows: Sequence[Mapping[str, Any]]) -> None:
    """Report the errors in a test's rows of a look-up."""
    if s.doc.bad(at) or s.doc.bad_below(("lookups", name)) or s.doc.bad(("lookups",)):
        return
    if name not in s.job.lookups:
        hint = did_you_mean(name, s.job.lookups) or (f"look-ups: {one_of(list(s.job.lookups), 20)}" if s.job.lookups else None)
        s.doc.add("SKY-E122", f"no look-up '{name}' in this job", s.doc.where_key(at), hint)
        return
    types = {column: type_ for column, (_, type_) in lookup_columns(s.job.lookups[name]).items()}
    for n, row in enumerate(rows):
        _row(s, (*at, n), row, {c: kind_of(t) for c, t in types.items()}, f"look-up {name}", types)


def _clock(s: Scope, at: Path, clock: str | None) -> None:
    if clock is None or s.doc.bad(at):
        return
    try:
        cell(clock, "time")
    except ValueError as e:
        s.doc.add("SKY-E530", f"'clock' {e}", s.doc.where_value(at))


def _columns(s: Scope, at: Path, table: str, absent: Mapping[str, str]) -> Mapping[str, Any] | None:
    """Return columns and their kinds, or None if they are not known or the table does not exist, which is reported."""
    if s.doc.bad_below(at) or s.doc.bad(("queries",)):
        return None
    queries = s.job.queries
    known = {t for q in queries for t in query_tables(q) if not t.endswith("_skyband") and t not in absent} | further_tables(s)
    if table not in known | {"rejected"}:
        if s.may_have_table(table):
            return None
        hint = f"the only table of this query is {absent[table]}" if table in absent else did_you_mean(table, known)
        hint = hint or f"tables: {one_of([*sorted(known), 'rejected'], 20)}"
        s.doc.add("SKY-E122", f"a test cannot expect rows of a table '{table}'", s.doc.where_key(at), hint)
        return None
    found = table_columns(s, table)
    if table == "rejected" and found is not None:
        # `text` holds a rejected row as JSON; tests may name its columns.
        return {"event_time": "time", **s.kinds_in_source(), "reason": "text"}
    return found if found is None else {n: k for n, k in found.items() if n != "batch_id"}


def _row(
    s: Scope, at: Path, row: Mapping[str, Any], columns: Mapping[str, Any] | None, where: str, types: Mapping[str, str] = _NONE
) -> None:
    if columns is None or s.doc.bad(at):
        return
    for name, value in row.items():
        path = (*at, name)
        if s.doc.bad(path):
            continue
        if name not in columns:
            hint = did_you_mean(name, columns) or f"columns: {one_of(list(columns), 20)}"
            s.doc.add("SKY-E120", f"{where} has no column '{name}'", s.doc.where_key(path), hint)
            continue
        try:
            cell(value, columns[name], types.get(name, ""))
        except ValueError as e:
            s.doc.add("SKY-E530", f"'{name}' {e}", s.doc.where_value(path))
