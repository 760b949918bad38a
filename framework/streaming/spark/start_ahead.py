"""Predict from the last run whether the next run of a spec needs a JVM, so that it starts before the spec is read.

Reading and planning a spec takes half a second, about as long as the JVM takes to answer. A run leaves a note of the JVM it used and of
the modification time of its source's directory. If the directory has changed since, the next run starts the same JVM at once. If it turns
out that no JVM, or another one, is needed, that JVM is ended. Results never depend on a note. Does not import Spark.
"""

from __future__ import annotations

import hashlib
import json
import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from skyband.framework.base.plain_json import mapping
from skyband.framework.streaming.spark.launch import kept

if TYPE_CHECKING:
    from skyband.framework.plan.model import SourceNode

KEPT: Final = 100
"""The number of notes that are kept."""


class JvmRequest(NamedTuple):
    """The arguments of ``session.get_session`` in a short run."""

    job: str
    packages: tuple[str, ...]


def note(spec: str, source: SourceNode, request: JvmRequest) -> None:
    """Leave a note for the next run of the file ``spec``, if its source is a local directory."""
    from skyband.framework.sources.files.preflight import local_directory
    from skyband.framework.sources.registry import source_format

    directory = None if source.path is None or not source_format(source.format).of_files else local_directory(source.path)
    with suppress(OSError):
        if directory is not None and os.path.isfile(spec):
            noted = {**request._asdict(), "folder": os.path.abspath(directory), "changed": os.stat(directory).st_mtime_ns}
            file = _file(spec)
            file.parent.mkdir(mode=0o700, exist_ok=True)
            file.write_text(json.dumps(noted))
            _prune(file.parent)


def expected(spec: str) -> JvmRequest | None:
    """Return the JVM that the next run of ``spec`` will need; None if it will need none, or there is no note."""
    with suppress(OSError, ValueError, TypeError, KeyError):
        noted = mapping(_file(spec).read_text())
        if os.stat(noted["folder"]).st_mtime_ns != noted["changed"]:
            return JvmRequest(str(noted["job"]), tuple(map(str, noted["packages"])))
    return None


def _prune(directory: Path) -> None:
    """Remove the oldest notes."""
    notes = list(directory.glob("ahead-*.json"))
    if len(notes) > KEPT:
        for old in sorted(notes, key=lambda n: n.stat().st_mtime_ns)[:-KEPT]:
            old.unlink(missing_ok=True)


def _file(spec: str) -> Path:
    return kept() / f"ahead-{hashlib.sha256(os.path.abspath(spec).encode()).hexdigest()[:16]}.json"
