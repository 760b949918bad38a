"""A job with nothing to do: known from the source's folder and the checkpoint, without an engine.

A run that has read what lay there and been through to its end leaves a note, in ``<sink>/_skyband/rest.json``: with that batch the engine
had nothing left to do. It stays true for as long as that batch is the checkpoint's last one, and no other is begun; what may have changed
since is the source.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress

from skyband.framework import durable
from skyband.framework.plan.model import SourceNode
from skyband.framework.sources.drop import Drop
from skyband.framework.sources.logs import last_batch, local_path, owed, taken
from skyband.framework.sources.preflight import FORMATS, hidden, local_folder
from skyband.framework.streaming.layout import JobFile, Layout


def note(layout: Layout, job: JobFile, batch: int, finished: bool) -> None:
    """With ``batch`` all is done that lay there, and the engine has no further batch to make of it.

    ``finished``: the input has been declared complete after the newest row. Does nothing before the first batch.
    """
    if batch >= 0 and not _noted(layout, job, batch, finished):
        durable.replace(layout.rest, json.dumps({"generation": job.generation, "batch": batch, "finished": finished}))


def at_rest(layout: Layout, job: JobFile, finish: bool) -> bool:
    """Whether a run, if nothing waits in its source (``waiting``), would find nothing to do in the engine; never if that is uncertain.

    ``finish``: the run declares the input complete; then that must have been done after the last row.
    """
    if os.environ.get("SKYBAND_WRITER") == "spark":
        return False
    batch = last_batch(layout.checkpoint / "commits")
    if batch < 0 or last_batch(layout.checkpoint / "offsets") != batch or not _noted(layout, job, batch, finish) or owed(layout.checkpoint):
        return False
    drop = Drop.load(layout.home)
    return job.filling is None and not drop.capped and drop.greatest is None and all(layout.ordered(f) for _, f in job.finishes)


def waiting(source: SourceNode, layout: Layout) -> list[str] | None:
    """The files that lie in a local source's folder and have not been taken; None if that cannot be told from here. O(files)."""
    root = None if source.path is None or source.format not in FORMATS else local_folder(source.path)
    if root is None or not os.path.isdir(root):
        return None
    found = _files(os.path.abspath(root))
    if not found:
        return found
    done = {local_path(t.url) for t in taken(layout.checkpoint / "sources" / "0")}
    return [f for f in found if f not in done]


def _files(root: str) -> list[str] | None:
    """What the engine may take for files of the source below ``root``; None if a folder is a link, which may lead anywhere."""
    found: list[str] = []
    for where, folders, names in os.walk(root):
        folders[:] = [f for f in folders if not hidden(f)]
        if any(os.path.islink(os.path.join(where, f)) for f in folders):
            return None
        found += [os.path.join(where, n) for n in names if not hidden(n)]
    return found


def _noted(layout: Layout, job: JobFile, batch: int, finished: bool) -> bool:
    with suppress(OSError, ValueError, AttributeError):
        said = json.loads(layout.rest.read_text())
        return (said.get("generation"), said.get("batch")) == (job.generation, batch) and said.get("finished") in (True, finished)
    return False
