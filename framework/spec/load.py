"""Load a spec file as a checked `Job`: report all its errors at once, without Spark, in well under a second."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from skyband.framework.base.errors import SkybandError, Where, sort_errors
from skyband.framework.spec.chains import resolved
from skyband.framework.spec.checks.engine import check_engine
from skyband.framework.spec.checks.job import check
from skyband.framework.spec.models.errors import read_job
from skyband.framework.spec.models.job import Job
from skyband.framework.spec.parsing.assemble import read_text
from skyband.framework.spec.parsing.document import Document
from skyband.framework.spec.parsing.live_parts import NO_PARTS, LiveParts
from skyband.framework.spec.parsing.positions import SourceText
from skyband.framework.spec.parsing.settings import Setting
from skyband.framework.spec.paths import register_paths, resolve_paths
from skyband.operators.spelling import bounded

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
) -> Validated:
    """Validate a file and also return its text and data. ``raw``: the content of the file, if known.

    ``settings`` replace values of it; ``live``: what is put into it.
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
    return _validated(text, env, name, settings, live)


def _validated(
    text: str, env: Mapping[str, str] | None, file: str, settings: Sequence[Setting] = (), live: LiveParts = NO_PARTS
) -> Validated:
    with bounded(_COMPARISONS):
        doc = read_text(file, text, os.environ if env is None else env, settings, live)
        job = read_job(doc)
        if job is not None:
            job = resolved(resolve_paths(doc, job, str(Path(file).parent), os.environ if env is None else env))
            check(doc, job)
            check_engine(doc, job)
            job = job.with_variables(doc.variables())
        register_paths(doc.variables(), os.environ if env is None else env)
    errors = sort_errors(doc.errors)
    if job is None and not errors:
        errors = [SkybandError("SKY-E900", "the spec cannot be read, for an unknown reason", "please report this spec", Where(file, 1, 1))]
    return Validated(None if errors else job, errors, doc.source, doc)
