"""Several sources as the one source that the rest of a job sees."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from skyband.framework.sources.several.format import SEVERAL, SOURCE
from skyband.framework.spec.models.job import Job
from skyband.framework.spec.models.source import SourceColumn

_OF_EACH: Final = ("format", "path", "table", "options", "schema", "on_bad_file", "max_line", "on_drift")
"""Fields of ``source`` that each of several sources has for itself."""


def given_for_all(data: Mapping[str, Any]) -> list[str]:
    """Return the fields of ``source`` in the data of a spec that belong to each of its ``sources``."""
    source = data.get("source")
    return [name for name in _OF_EACH if "sources" in data and isinstance(source, dict) and name in source]


def as_one(data: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the data of a spec with what its ``source`` lacks because each of its ``sources`` has it."""
    source = data.get("source")
    if "sources" not in data or not isinstance(source, dict):
        return data
    common = {name: value for name, value in source.items() if name not in _OF_EACH}
    return {**data, "source": {**common, "format": SEVERAL, "schema": {SOURCE: "string"}}}


def merged(job: Job) -> Job:
    """Return ``job`` with all columns of its ``sources`` as those of ``source``, and the source's name as part of the id.

    A row is identified by its id and its source: two sources may use the same ids.
    """
    if not job.sources or job.source.format != SEVERAL or job.source.by_position:
        return job
    columns = dict(job.source.columns)
    for one in job.sources.values():
        for name, spec in one.columns.items():
            columns.setdefault(name, spec.type if isinstance(spec, SourceColumn) else spec)
    id_ = (*job.source.id, *([SOURCE] if SOURCE not in job.source.id else []))
    return job.model_copy(update={"source": job.source.model_copy(update={"columns": columns, "given_id": id_})})
