"""A job with nothing to do: known from the source's directory and the checkpoint, without a JVM.

A run that has read what lay there and been through to its end leaves a note, in ``<sink>/_skyband/rest.json``: with that batch Spark
had nothing left to do. It stays true for as long as that batch is the checkpoint's last one, and no other is begun; what may have changed
since is the source.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress

from skyband.framework.base.plain_json import mapping
from skyband.framework.plan.model import SourceNode
from skyband.framework.sources.files.ledger import Ledger
from skyband.framework.sources.files.listing import listing, root_of
from skyband.framework.sources.logs import last_batch, local_path, owed, taken
from skyband.framework.sources.registry import source_format
from skyband.framework.sources.watermark_caps import WatermarkCaps
from skyband.framework.storage import durable
from skyband.framework.streaming.job.layout import JobFile, Layout


def note(layout: Layout, job: JobFile, batch: int, finished: bool) -> None:
    """With ``batch`` all is done that lay there, and Spark has no further batch to make of it.

    ``finished``: the input has been declared complete after the newest row. Does nothing before the first batch.
    """
    if batch >= 0 and not _noted(layout, job, batch, finished):
        durable.replace(layout.rest, json.dumps({"generation": job.generation, "batch": batch, "finished": finished}))


def at_rest(layout: Layout, job: JobFile, finish: bool) -> bool:
    """Whether a run, if nothing waits in its source (``waiting``), would find nothing to do in Spark; never if that is uncertain.

    ``finish``: the run declares the input complete; then that must have been done after the last row.
    """
    if os.environ.get("SKYBAND_WRITER") == "spark":
        return False
    batch = last_batch(layout.checkpoint / "commits")
    if batch < 0 or last_batch(layout.checkpoint / "offsets") != batch or not _noted(layout, job, batch, finish) or owed(layout.checkpoint):
        return False
    drop = WatermarkCaps.load(layout.home)
    return job.filling is None and not drop.capped and drop.greatest is None and all(layout.ordered(f) for _, f in job.finishes)


def waiting(source: SourceNode, layout: Layout) -> list[str] | None:
    """The files that lie in a local source's directory and have not been taken; None if that cannot be told from here. O(files)."""
    found = listing(source) if source_format(source.format).of_files else None
    if found is None or found.linked or not os.path.exists(str(root_of(source))):
        return None
    if not found.files:
        return []
    done = {local_path(t.url) for t in taken(layout.checkpoint / "sources" / "0")} | {local_path(u) for u in Ledger.load(layout.home).aside}
    return [f for f in found.files if f not in done]


def _noted(layout: Layout, job: JobFile, batch: int, finished: bool) -> bool:
    with suppress(OSError, ValueError, AttributeError):
        said = mapping(layout.rest.read_text())
        return (said.get("generation"), said.get("batch")) == (job.generation, batch) and said.get("finished") in (True, finished)
    return False
