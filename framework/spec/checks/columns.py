"""The columns of a job and their types, found without Spark: those of the source, of look-ups, then the derived ones."""

from __future__ import annotations

from collections.abc import Iterator

from skyband.framework.base.errors import SkybandError
from skyband.framework.spec.expressions.column_names import Columns
from skyband.framework.spec.expressions.sql import check_sql
from skyband.framework.spec.models.job import Job
from skyband.framework.spec.models.source import DerivedColumn, DeriveStep, Lookup, SourceColumn

UNKNOWN_TYPE = "the type of the derived column"


def type_hint(name: str) -> str:
    """Return the hint for a derived column whose type neither the spec nor its expression states."""
    return f'state its type: {name}: {{sql: "...", type: double}}'


def source_types(job: Job) -> dict[str, str]:
    """Return name -> type of the source's columns, in order."""
    return {name: spec.type if isinstance(spec, SourceColumn) else spec for name, spec in job.source.all_columns.items()}


def looked_up(job: Job) -> Iterator[tuple[str, str, str | None]]:
    """Yield (look-up, new column, its type, None if the table has no such column) of every column that rows take, in order."""
    for name, lookup in job.lookups.items():
        read = lookup_columns(lookup)
        yield from ((name, new, read[column][1] if column in read else None) for new, column in lookup.taken.items())


def lookup_columns(lookup: Lookup) -> dict[str, tuple[str, str]]:
    """Return name -> (name in the table, type) of the columns that are read from a look-up's table."""
    return {
        name: (spec.source_name or name, spec.type) if isinstance(spec, SourceColumn) else (name, spec)
        for name, spec in lookup.columns.items()
    }


def derived(job: Job) -> Iterator[tuple[int, str, str, str | None]]:
    """Yield (index of the step, name, SQL, explicit type or None) of every derived column, in order."""
    for i, step in enumerate(job.transform):
        if isinstance(step, DeriveStep):
            for name, spec in step.derive.items():
                if isinstance(spec, DerivedColumn):
                    yield i, name, spec.sql, spec.type
                else:
                    yield i, name, spec, None


def column_types(job: Job) -> dict[str, str]:
    """Return name -> type of every column after the transforms. Takes about a millisecond per derived column.

    Raises SkybandError SKY-E136 for a derived column of unknown type, which no valid spec has.
    """
    types = Columns({**source_types(job), **{new: type_ for _, new, type_ in looked_up(job)}})
    for _, name, sql, said in derived(job):
        types[name] = said or check_sql(sql, types).type
        if types[name] is None:
            raise SkybandError("SKY-E136", f"{UNKNOWN_TYPE} '{name}' is not known", type_hint(name))
    return {name: type_ for name, type_ in types.items() if type_ is not None}
