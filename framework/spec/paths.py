"""Paths of a spec: relative ones start at the directory of its file, and values of the environment that are only paths stay readable.

A variable's value counts as a path only if three things hold. Every use of it begins ``source.path``, ``sink.path`` or the path of
a look-up. Its name is not that of a secret. It is a directory of this machine (or in one), or a location on object storage. Every other
value is concealed.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Final

from skyband.framework.base.redaction import note_path
from skyband.framework.queries.models import QueryModel
from skyband.framework.queries.single_rows.table_file import ROOTS, outside
from skyband.framework.spec.models.job import Job
from skyband.framework.spec.parsing.document import Document
from skyband.framework.spec.parsing.positions import is_secret
from skyband.framework.storage.overlap import without_scheme

_REFERENCE: Final = re.compile(r"(?<!\$)\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_OBJECTS: Final = re.compile(r"(?:s3a?|gs|abfss)://[A-Za-z0-9.@_/=-]+")


def resolve_paths(doc: Document, job: Job, directory: str, env: Mapping[str, str]) -> Job:
    """Return ``job`` with its relative paths resolved against ``directory``; report tables of queries outside it."""
    directory = os.path.abspath(directory)
    source, sink = job.source, job.sink
    given = source.path
    if given is not None and (path := _from(directory, given, doc, ("source", "path"))) != given:
        job = job.model_copy(update={"source": source.model_copy(update={"path": path})}).with_relative_source(given)
    lookups = {
        name: lookup.model_copy(update={"path": _from(directory, lookup.path, doc, ("lookups", name, "path"))})
        for name, lookup in job.lookups.items()
    }
    job = job.model_copy(update={"lookups": lookups})
    if job.sources:
        sources, relative = {}, {}
        for name, one in job.sources.items():
            resolved = None if one.path is None else _from(directory, one.path, doc, ("sources", name, "path"))
            sources[name] = one.model_copy(update={"path": resolved})
            if one.path is not None and resolved != one.path:
                relative[name] = one.path
        job = job.with_sources(sources, relative)
    job = job.model_copy(update={"sink": sink.model_copy(update={"path": _from(directory, sink.path, doc, ("sink", "path"))})})
    return job.model_copy(update={"queries": _queries(doc, job, directory, env)})


def _from(directory: str, path: str, doc: Document, at: tuple[str, ...]) -> str:
    """Return ``path`` below ``directory`` if it is relative, else unchanged."""
    local = without_scheme(path)
    if "://" in local or os.path.isabs(local):
        return path
    joined = os.path.join(directory, local)
    place = doc.places.get(at)
    # Joined as text, so that messages can still find and mask values from the environment.
    return joined if place is not None and place.variables else os.path.normpath(joined)


def _queries(doc: Document, job: Job, directory: str, env: Mapping[str, str]) -> dict[str, QueryModel]:
    queries: dict[str, QueryModel] = {}
    for name, query in job.queries.items():
        source = getattr(query, "queries_from", None)
        if source is None:
            queries[name] = query
            continue
        path = os.path.join(directory, without_scheme(source.path))
        at = ("queries", name, "queries_from", "path")
        if not doc.bad(at) and outside(path, directory, env):
            hint = f"move it there, or add its directory to the environment variable {ROOTS}"
            doc.add("SKY-E145", "a table of queries must be below the directory of the spec", doc.where_value(at), hint)
            doc.poisoned.add(at)
        queries[name] = query.model_copy(update={"queries_from": source.model_copy(update={"path": path})})
    return queries


def register_paths(written: Mapping[tuple[str | int, ...], str], env: Mapping[str, str]) -> None:
    """Register for every used variable whether it is only a path. ``written``: path of a value -> its text in the spec."""
    only: dict[str, bool] = {}
    for path, text in written.items():
        for found in _REFERENCE.finditer(text):
            begins = names_path(path) and found.start() == 0 and text[found.end() : found.end() + 1] in ("", "/")
            only[found[1]] = only.get(found[1], True) and begins
    for name, so in only.items():
        if name in env:
            note_path(name, env[name], only=so and not is_secret((name,)) and _is_path(env[name]))


def names_path(path: tuple[str | int, ...]) -> bool:
    """Return True if the field at ``path`` is the path of a source, of a look-up or of the sink."""
    return path in (("source", "path"), ("sink", "path")) or (len(path) == 3 and path[0] in ("sources", "lookups") and path[2] == "path")


def _is_path(value: str) -> bool:
    if _OBJECTS.fullmatch(value):
        return True
    try:
        whole = os.path.normpath(value)
        above = os.path.dirname(whole)
        return os.path.isabs(value) and (os.path.isdir(whole) or (above != "/" and os.path.isdir(above))) and whole != "/"
    except ValueError:
        return False
