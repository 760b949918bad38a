"""Starting Spark of a run before its spec has been read, where the run before says that there will be something to do.

To read a spec, to make its plan and to look at its source takes a run half a second, which is as long as Spark's process takes until
it answers. A run leaves a note of what engine it had and of when its source's directory was changed last; if that has been changed
since, the
next one starts the same engine at once. What comes of it is known once the spec has been read: a JVM that was not needed, or not this
one, is ended. A note says nothing that a run relies on. Imports no Spark.
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
"""Notes that are kept, the newest ones."""


class JvmRequest(NamedTuple):
    """What ``session.get_session`` was asked for by a run that was soon over."""

    job: str
    packages: tuple[str, ...]


def note(spec: str, source: SourceNode, request: JvmRequest) -> None:
    """Leaves a note for the next run of the file ``spec``, if its source is a directory of this machine."""
    from skyband.framework.sources.files.preflight import local_directory
    from skyband.framework.sources.registry import source_format

    directory = None if source.path is None or not source_format(source.format).of_files else local_directory(source.path)
    with suppress(OSError):
        if directory is not None and os.path.isfile(spec):
            noted = {**request._asdict(), "folder": os.path.abspath(directory), "changed": os.stat(directory).st_mtime_ns}
            file = _file(spec)
            file.parent.mkdir(mode=0o700, exist_ok=True)
            file.write_text(json.dumps(noted))
            _forget(file.parent)


def expected(spec: str) -> JvmRequest | None:
    """Spark that the next run of ``spec`` will need; None if it will need none, or nothing is known of it."""
    with suppress(OSError, ValueError, TypeError, KeyError):
        noted = mapping(_file(spec).read_text())
        if os.stat(noted["folder"]).st_mtime_ns != noted["changed"]:
            return JvmRequest(str(noted["job"]), tuple(map(str, noted["packages"])))
    return None


def _forget(directory: Path) -> None:
    """Removes the oldest notes: specs come and go."""
    notes = list(directory.glob("ahead-*.json"))
    if len(notes) > KEPT:
        for old in sorted(notes, key=lambda n: n.stat().st_mtime_ns)[:-KEPT]:
            old.unlink(missing_ok=True)


def _file(spec: str) -> Path:
    return kept() / f"ahead-{hashlib.sha256(os.path.abspath(spec).encode()).hexdigest()[:16]}.json"
