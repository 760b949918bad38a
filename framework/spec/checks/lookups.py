"""Check the section ``lookups``: the tables' formats, the columns that are joined on, and those that rows take."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from skyband.framework.base.errors import did_you_mean, one_of
from skyband.framework.sources.protocol import Mistake, Section
from skyband.framework.sources.registry import source_format
from skyband.framework.spec.checks.columns import lookup_columns
from skyband.framework.spec.checks.scope import Scope
from skyband.framework.spec.models.source import Lookup, Validity
from skyband.framework.spec.parsing.document import Path

KEYS: Final = ("string", "int", "bigint", "boolean", "date", "timestamp")
"""Types of columns that rows are joined on, and decimals: those in which equal values are the same everywhere."""


def check_lookups(s: Scope) -> None:
    """Report all errors of the look-ups, and add the columns that rows take. Called with the columns of the source known."""
    if s.doc.bad(("lookups",)):
        s.columns_known = False
        return
    for name, lookup in s.job.lookups.items():
        at: Path = ("lookups", name)
        if s.doc.bad_below(at):
            s.columns_known = False
        if not s.doc.bad(at):
            _lookup(s, at, lookup)


def _lookup(s: Scope, at: Path, lookup: Lookup) -> None:
    if not s.doc.bad((*at, "format")):
        _format(s, at, lookup)
    types = {} if s.doc.bad_below((*at, "schema")) else {name: type_ for name, (_, type_) in lookup_columns(lookup).items()}
    _keys(s, at, lookup, types)
    if isinstance(lookup.as_of, Validity):
        _validity(s, at, lookup.as_of, types)
    listed = not isinstance(lookup.take, dict)
    for i, (new, column) in enumerate(lookup.taken.items()):
        path: Path = (*at, "take", i if listed else new)
        if s.doc.bad(path):
            continue
        if new.startswith("__"):
            said = f"'{new}': names that begin with two underscores are reserved for Skyband"
            s.doc.add("SKY-E116", said, s.doc.where_key(path))
        _has(s, path, types, column)
        s.add_column(new, types.get(column), path)


def _format(s: Scope, at: Path, lookup: Lookup) -> None:
    """Report the mistakes that the format finds: a look-up's path and options obey the rules of a source's."""
    doc, format_ = s.doc, source_format(lookup.format)
    secret = frozenset(str(p[3]) for p in doc.variables() if p[:3] == (*at, "options") and len(p) == 4)
    section = Section(lookup.format, lookup.path, lookup.options, lookup_columns(lookup), secret)
    found = list(format_.check(section))
    if format_.of_table:
        said = "a look-up reads a Delta table as it is: it takes no options"
        found = [Mistake("SKY-E119", said, ("options", name), of_name=True) for name in lookup.options]
    for m in found:
        path: Path = (*at, *m.field)
        if not doc.bad(path):
            doc.add(m.code, m.message, doc.where_key(path) if m.of_name else doc.where_value(path), m.hint)


def _keys(s: Scope, at: Path, lookup: Lookup, types: Mapping[str, str]) -> None:
    for own, column in lookup.match.items():
        path: Path = (*at, "match", own)
        if not s.key_column(path, own) or not _has(s, path, types, column):
            continue
        mine, there = s.types.get(own), types[column]
        if there not in KEYS and not there.startswith("decimal("):
            said = f"rows cannot be joined on '{column}', which is {there}"
            s.doc.add("SKY-E126", said, s.doc.where_value(path), f"types to join on: {one_of([*KEYS, 'decimal'], 20)}")
        elif mine is not None and mine != there:
            said = f"'{own}' is {mine}, but '{column}' of the look-up is {there}"
            s.doc.add("SKY-E126", said, s.doc.where_value(path), "give both the same type in their schemas")


def _validity(s: Scope, at: Path, valid: Validity, types: Mapping[str, str]) -> None:
    for field, column in (("from", valid.start), ("to", valid.end)):
        path: Path = (*at, "as_of", field)
        if _has(s, path, types, column) and types[column] not in ("timestamp", "date"):
            said = f"as_of needs a timestamp or a date, but '{column}' is {types[column]}"
            s.doc.add("SKY-E126", said, s.doc.where_value(path))
    time = s.job.source.event_time.column
    if s.columns_known and time not in s.types and not s.doc.bad(("source", "event_time")):
        said = f"as_of needs the event time, but '{time}' is derived after look-ups"
        hint = f"read '{time}' as a timestamp in source.schema"
        s.doc.add("SKY-E117", said, s.doc.where_key((*at, "as_of")), hint)


def _has(s: Scope, path: Path, types: Mapping[str, str], column: str) -> bool:
    """Return True if the table has the column named at ``path``; report one that it has not."""
    if s.doc.bad(path) or not types:
        return False
    if column not in types:
        hint = did_you_mean(column, types) or f"columns: {one_of(list(types), 20)}"
        s.doc.add("SKY-E120", f"the schema of the look-up has no column '{column}'", s.doc.where_value(path), hint)
    return column in types
