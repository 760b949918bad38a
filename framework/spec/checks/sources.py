"""Check the source of a job, or several: each by its format, and what several must have in common."""

from __future__ import annotations

from collections.abc import Sequence

from skyband.framework.base.errors import did_you_mean, one_of
from skyband.framework.catalogs.model import InvalidName, table_of
from skyband.framework.queries.models import QueryModel
from skyband.framework.sources.protocol import Section
from skyband.framework.sources.registry import source_format
from skyband.framework.sources.several.format import SEVERAL, SOURCE
from skyband.framework.spec.checks.scope import Scope
from skyband.framework.spec.models.job import given_for_all
from skyband.framework.spec.models.source import OneOfSources, Source, SourceColumn
from skyband.framework.spec.parsing.document import Path
from skyband.framework.storage.location import overlap


def column_path(s: Scope, name: str) -> Path:
    """Return the path of a source's column in the spec: of several sources, that of the first that has it."""
    first = next((source for source, one in s.job.sources.items() if name in one.columns), None)
    return ("source", "schema", name) if first is None else ("sources", first, "schema", name)


def check_sources(s: Scope) -> None:
    """Report the mistakes of the one source, or of ``sources`` and of a ``source`` that names what belongs to them."""
    doc = s.doc
    if "sources" not in doc.data:
        if not doc.bad(("source",)):
            check_source(s, s.job.source, ("source",))
        return
    if doc.bad(("sources",)):
        return
    for field in given_for_all(doc.data):
        said = f"'{field}' belongs to each of the sources, not to what they have in common"
        doc.add("SKY-E117", said, doc.where_key(("source", field)), "move it to the sources below 'sources:'")
    if not s.job.sources:
        doc.add("SKY-E111", "sources needs at least one source", doc.where_value(("sources",)), "name each source and say what it is")
    for name, one in s.job.sources.items():
        if not doc.bad(("sources", name)):
            check_source(s, one, ("sources", name))
    _check_columns(s)
    _check_places(s)


def check_source(s: Scope, one: Source | OneOfSources, at: Path) -> None:
    """Report what is wrong with a source at ``at``: what its format finds in its section, and names of columns that are reserved."""
    doc = s.doc
    if not doc.bad((*at, "format")):
        _check_format(s, one, at)
    _check_table(s, one, at)
    for name in one.columns:
        if name.startswith("__"):
            said = f"'{name}': names that begin with two underscores are reserved for Skyband"
            doc.add("SKY-E116", said, doc.where_key((*at, "schema", name)))


def _check_table(s: Scope, one: Source | OneOfSources, at: Path) -> None:
    """Report what is wrong with the name of a source in a catalog."""
    doc, place = s.doc, (*at, "table")
    if one.table is None or doc.bad(place):
        return
    if place in doc.variables():
        hint = "write the name itself, or give it by a profile or a parameter"
        doc.add("SKY-E119", "the name of a table is stored and shown, so it cannot come from the environment", doc.where_value(place), hint)
    elif one.path is not None:
        doc.add("SKY-E117", "'table' and 'path' do not go together", doc.where_key(place), "leave out one of them")
    elif not doc.bad((*at, "format")) and not source_format(one.format).of_table:
        doc.add(
            "SKY-E117", f"'table' does not go with format {one.format}", doc.where_key(place), "format: delta, or path instead of table"
        )
    else:
        try:
            table_of(one.table)
        except InvalidName as e:
            doc.add("SKY-E680", str(e), doc.where_value(place), e.hint)


def _check_format(s: Scope, one: Source | OneOfSources, at: Path) -> None:
    doc, source = s.doc, s.job.source
    if one.format == SEVERAL:
        doc.add("SKY-E114", f"'{SEVERAL}' is not a source format", doc.where_value((*at, "format")), "name the sources under 'sources:'")
        return
    columns = {c: ((spec.source_name if isinstance(spec, SourceColumn) else None) or c, _type(one, c)) for c, spec in one.columns.items()}
    options = (*at, "options")
    secret = frozenset(str(p[-1]) for p in doc.variables() if p[:-1] == options)
    operation = source.op.column if source.op is not None else None
    section = Section(
        one.format, one.path if one.table is None else one.path or one.table, one.options, columns, secret, source.event_time.tie_break,
        s.job.deletes is not None or operation is not None, operation, source.event_time.column,
    )  # fmt: skip
    for m in source_format(one.format).check(section):
        # Event times are of all sources together.
        place: Path = ("source", *m.field) if m.field[:1] == ("event_time",) else (*at, *m.field)
        if not doc.bad(place):
            doc.add(m.code, m.message, doc.where_key(place) if m.of_name else doc.where_value(place), m.hint)


def _check_columns(s: Scope) -> None:
    """Report columns that a source lacks, that have another type in another source, or whose name is reserved."""
    doc, source = s.doc, s.job.source
    common = [*source.id, *source.partition_by, source.event_time.column, *source.event_time.tie_break]
    first: dict[str, str] = {}
    for name, one in s.job.sources.items():
        at: Path = ("sources", name, "schema")
        if doc.bad_below(at):
            continue
        for column in one.columns:
            if column.lower() == SOURCE:
                hint = "rename it: {other: {type: ..., from: source}}"
                doc.add("SKY-E125", f"'{SOURCE}' is the column with the name of a row's source", doc.where_key((*at, column)), hint)
            elif column in first and _type(one, column) != _type(s.job.sources[first[column]], column):
                said = f"'{column}' is {_type(one, column)} here and {_type(s.job.sources[first[column]], column)} in '{first[column]}'"
                doc.add("SKY-E126", said, doc.where_value((*at, column)), "give it the same type in all sources, or another name in one")
            first.setdefault(column, name)
        in_all = [c for c in dict.fromkeys(common) if c != SOURCE and any(c in other.columns for other in s.job.sources.values())]
        lacking = [c for c in in_all if c not in one.columns]
        if lacking:
            said = f"source '{name}' lacks {one_of(lacking).replace(' or ', ' and ')}, which identify, order or group all rows"
            doc.add("SKY-E120", said, doc.where_key(at), "declare them, with 'from:' where the source has other names")


def check_source_of(s: Scope, path: Path, query: QueryModel) -> None:
    """Report a query that takes the rows of a source that is not there, and sides that are no sources."""
    at: Path = (*path, "from")
    if query.source is not None and not s.doc.bad(at):
        _known(s, at, query.source, [str(name) for name in s.doc.data.get("queries", {}) if str(name) != path[-1]])
    between = getattr(query, "between", None)
    if between is not None and between.column == SOURCE and s.job.sources:
        for i, side in enumerate((between.a, between.b)):
            short: Path = (*path, "between", SOURCE, i)
            place = short if short in s.doc.places else (*path, "between", "ab"[i])
            if isinstance(side, str) and not s.doc.bad(place):
                _known(s, place, side)


def _known(s: Scope, at: Path, name: str, queries: Sequence[str] = ()) -> None:
    if name not in s.job.sources and not s.doc.bad(("sources",)):
        hint = did_you_mean(name, [*s.job.sources, *queries]) or (
            f"sources: {one_of(list(s.job.sources))}" if s.job.sources else "the job has one source"
        )
        s.doc.add("SKY-E120", f"there is no source{' or query' if queries else ''} '{name}'", s.doc.where_value(at), hint)


def _check_places(s: Scope) -> None:
    """Report sources in the same place, where a file would be read twice."""
    known: dict[str, str] = {}
    for name, one in s.job.sources.items():
        at: Path = ("sources", name, "path")
        if one.path is None or s.doc.bad(at) or s.doc.bad(("sources", name, "format")) or not source_format(one.format).of_files:
            continue
        other = next((n for n, path in known.items() if overlap(path, one.path)), None)
        if other is not None:
            said = f"the directories of '{other}' and '{name}' are the same, or one is in the other"
            s.doc.add("SKY-E119", said, s.doc.where_value(at), "give each source a directory of its own")
        known[name] = one.path


def _type(one: Source | OneOfSources, column: str) -> str:
    spec = one.columns[column]
    return spec.type if isinstance(spec, SourceColumn) else spec
