"""Compile several sources of one stream, and queries that take the rows of one of them."""

from __future__ import annotations

from skyband.framework.base.units import bytes_of
from skyband.framework.plan.model import Field, SourceNode
from skyband.framework.plan.source_nodes import SourceClock
from skyband.framework.queries.models import QueryModel
from skyband.framework.queries.registry import query_type
from skyband.framework.sources.registry import source_format
from skyband.framework.sources.several.format import SOURCE
from skyband.framework.spec.models.column_types import kind_of
from skyband.framework.spec.models.job import Job
from skyband.framework.spec.models.source import OneOfSources, SourceColumn


def clocks(job: Job) -> tuple[SourceClock, ...]:
    """Return how each of several sources moves the watermark; none for a job with one source."""
    usual = job.source.event_time.watermark
    return tuple(SourceClock(n, usual if one.watermark is None else one.watermark, one.idle_after) for n, one in job.sources.items())


def parts(job: Job) -> tuple[tuple[str, SourceNode], ...]:
    """Return the several sources by name, as nodes; none for a job with one source.

    The control source is the second of the query's sources, so it has the number 1.
    """
    return tuple((name, _part(job, name, one, i + (i > 0))) for i, (name, one) in enumerate(job.sources.items()))


def of_source(query: QueryModel) -> QueryModel:
    """Return ``query`` with its ``from`` as a condition of its ``where``."""
    if query.source is None:
        return query
    sides = query_type(query.type).sides
    condition = " and ".join(f"{side}.{SOURCE} = '{query.source}'" if side else f"{SOURCE} = '{query.source}'" for side in sides)
    return query.model_copy(update={"where": condition if query.where is None else f"{condition} and ({query.where})"})


def _part(job: Job, name: str, one: OneOfSources, number: int) -> SourceNode:
    fields = []
    for column, spec in one.columns.items():
        type_, given = (spec.type, spec.source_name) if isinstance(spec, SourceColumn) else (spec, None)
        fields.append(Field(column, type_, kind_of(type_), given or column))
    return SourceNode(
        format=one.format,
        path=one.path,
        options=tuple(source_format(one.format).options(one.options).items()),
        fields=tuple(fields),
        max_files_per_batch=job.run.max_files,
        max_bytes_per_batch=job.run.max_bytes,
        written=dict(job.variables).get(("sources", name, "path")),
        on_bad_file=one.on_bad_file,
        max_line=bytes_of(one.max_line),
        on_drift="warn",
        relative=job.relative_sources.get(name),
        number=number,
        table=one.table,
    )
