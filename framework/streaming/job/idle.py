"""Detect an idle job from its source directory and checkpoint, without starting Spark.

A run that has processed its whole source writes a note, ``<sink>/_skyband/rest.json``: after that batch Spark had nothing left to do. The
note is valid as long as that batch is the checkpoint's last one and no other has begun; only the source can have changed since.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import ClassVar, Final

from pydantic import ConfigDict

from skyband.framework.plan.model import SourceNode
from skyband.framework.sources.files.ledger import Ledger
from skyband.framework.sources.files.listing import listing, root_of
from skyband.framework.sources.logs import last_batch, local_path, taken
from skyband.framework.sources.registry import source_format
from skyband.framework.sources.watermark_caps import WatermarkCaps
from skyband.framework.storage.records import STRICT, Record, Whole
from skyband.framework.streaming.job.layout import JobFile, Layout


@dataclass(frozen=True, slots=True)
class _Rest:
    generation: str
    batch: Whole
    finished: bool
    __pydantic_config__: ClassVar[ConfigDict] = STRICT


_REST: Final = Record[_Rest](_Rest, indent=None)


def note(layout: Layout, job: JobFile, batch: int, finished: bool) -> None:
    """Note that ``batch`` completed the whole source and that Spark has no further batch.

    ``finished``: the input has been declared complete after the newest row. Does nothing before the first batch.
    """
    if batch >= 0 and not _noted(layout, job, batch, finished):
        _REST.write(layout.rest, _Rest(job.generation, batch, finished))


def at_rest(layout: Layout, job: JobFile, finish: bool) -> bool:
    """Return True if a run with no new files (``waiting``) would have nothing to do in Spark; False if that is uncertain.

    ``finish``: the run declares the input complete; then that must have been done after the last row.
    """
    if os.environ.get("SKYBAND_WRITER") == "spark":
        return False
    batch = last_batch(layout.checkpoint / "commits")
    if batch < 0 or last_batch(layout.checkpoint / "offsets") != batch or not _noted(layout, job, batch, finish):
        return False
    drop = WatermarkCaps.load(layout.home)
    return job.before is None and not drop.capped and drop.greatest is None and all(layout.ordered(f) for _, f in job.finishes)


def waiting(source: SourceNode, layout: Layout) -> list[str] | None:
    """Return the unprocessed files of a local source's directory; None if that cannot be determined without Spark. O(files)."""
    found = listing(source) if source_format(source.format).of_files else None
    if found is None or found.linked or not os.path.exists(str(root_of(source))):
        return None
    if not found.files:
        return []
    done = {local_path(t.url) for t in taken(layout.checkpoint / "sources" / "0")} | {local_path(u) for u in Ledger.load(layout.home).aside}
    return [f for f in found.files if f not in done]


def _noted(layout: Layout, job: JobFile, batch: int, finished: bool) -> bool:
    said = _REST.known(layout.rest)
    return said is not None and (said.generation, said.batch) == (job.generation, batch) and said.finished in (True, finished)
