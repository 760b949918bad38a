"""Load a spec file as a checked `Job`: report all its errors at once, without Spark, in well under a second."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from skyband.framework.base.errors import SkybandError, Where, sort_errors
from skyband.framework.base.redaction import note_path
from skyband.framework.plan.compile import compile_job
from skyband.framework.plan.engine import why_not_local
from skyband.framework.plan.model import EngineName
from skyband.framework.queries.models import QueryModel
from skyband.framework.queries.single_rows.cells import ROOTS, outside
from skyband.framework.spec.chains import resolved
from skyband.framework.spec.checks.job import check
from skyband.framework.spec.models.errors import read_job
from skyband.framework.spec.models.job import Job
from skyband.framework.spec.parsing.assemble import Setting, read_text
from skyband.framework.spec.parsing.document import Document
from skyband.framework.spec.parsing.live_parts import NO_PARTS, LiveParts
from skyband.framework.spec.parsing.positions import SourceText, is_secret
from skyband.framework.storage.location import without_scheme
from skyband.operators.spelling import bounded

# Check that the engine that a spec names can run its job.


def check_engine(doc: Document, job: Job, engine: EngineName | None = None) -> None:
    """Report an engine that cannot run ``job``, of which no other mistake is known. ``engine``: the caller's, instead of the spec's."""
    if job.run.engine != "local" or doc.errors or engine not in (None, "local"):
        return
    why = why_not_local(compile_job(job))
    if why is not None:
        where = doc.where_value(("run", "engine"))
        hint = "run it by Spark: engine: spark, which is the default, or --engine spark for one run"
        doc.add("SKY-E137", f"the local engine cannot run this job: {why}", where, hint)


# Paths of a spec: relative ones start at the directory of its file, and values of the environment that are only paths stay readable.
#
# A variable's value counts as a path only if three things hold. Every use of it begins ``source.path``, ``sink.path`` or the path of
# a look-up. Its name is not that of a secret. It is a directory of this machine (or in one), or a location on object storage. Every other
# value is concealed.

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


_COMPARISONS: Final = 100_000
"""Maximum number of name pairs that hints compare, about half a second."""


@dataclass(frozen=True, slots=True)
class Validated:
    """The result of a validation. ``job`` is None iff there are ``errors``, which are in the order of the file.

    ``source``: the text; ``document``: its data, and warnings (None if the file cannot be read).
    """

    job: Job | None
    errors: list[SkybandError]
    source: SourceText | None = None
    document: Document | None = None


def validate_text(text: str, env: Mapping[str, str] | None = None, file: str = "<spec>") -> tuple[Job | None, list[SkybandError]]:
    """Return the job of a spec's text and its errors in the order of the file; the job is None iff there are errors.

    ``env`` has the values of ``${NAME}`` (default: the process environment); ``file`` is the name in messages. Never raises for invalid
    text.
    """
    found = _validated(text, env, file)
    return found.job, found.errors


def validate_file(path: str | os.PathLike[str], env: Mapping[str, str] | None = None) -> tuple[Job | None, list[SkybandError]]:
    """Validate a file like ``validate_text``. A file that cannot be read is an error too."""
    found = validated_file(path, env)
    return found.job, found.errors


def validated_file(
    path: str | os.PathLike[str],
    env: Mapping[str, str] | None = None,
    raw: bytes | None = None,
    settings: Sequence[Setting] = (),
    live: LiveParts = NO_PARTS,
    engine: EngineName | None = None,
) -> Validated:
    """Validate a file and also return its text and data. ``raw``: the content of the file, if known.

    ``settings`` replace values of it; ``live``: what is put into it; ``engine``: what runs the job, if not the engine that the spec names.
    """
    name = os.fspath(path)
    try:
        raw = Path(path).read_bytes() if raw is None else raw
    except OSError as e:
        hint = "run skyband init to write a first spec" if isinstance(e, FileNotFoundError) else None
        return Validated(None, [SkybandError("SKY-E100", f"{name}: {(e.strerror or 'cannot be read').lower()}", hint)])
    except ValueError:
        # A NUL character or a lone surrogate.
        return Validated(None, [SkybandError("SKY-E100", f"{name!r} is not the name of a file", "run skyband init to write a first spec")])
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as e:
        before = raw[: e.start].decode("utf-8", "replace")
        where = Where(name, before.count("\n") + 1, len(before) - (before.rfind("\n") + 1) + 1)
        return Validated(None, [SkybandError("SKY-E100", "the file is not UTF-8 text", "save it as UTF-8", where)])
    return _validated(text, env, name, settings, live, engine)


def _validated(
    text: str,
    env: Mapping[str, str] | None,
    file: str,
    settings: Sequence[Setting] = (),
    live: LiveParts = NO_PARTS,
    engine: EngineName | None = None,
) -> Validated:
    with bounded(_COMPARISONS):
        doc = read_text(file, text, os.environ if env is None else env, settings, live)
        job = read_job(doc)
        if job is not None:
            job = resolved(resolve_paths(doc, job, str(Path(file).parent), os.environ if env is None else env))
            check(doc, job)
            check_engine(doc, job, engine)
            job = job.with_variables(doc.variables())
        register_paths(doc.variables(), os.environ if env is None else env)
    errors = sort_errors(doc.errors)
    if job is None and not errors:
        errors = [SkybandError("SKY-E900", "the spec cannot be read, for an unknown reason", "please report this spec", Where(file, 1, 1))]
    return Validated(None if errors else job, errors, doc.source, doc)
