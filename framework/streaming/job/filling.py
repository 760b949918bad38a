"""States in files that are to take the place of those in Spark's store, since queries have come: taken up by the job's next batch.

The job file names them. A row in the control source makes every bucket run; each takes up its file, in the store's own transaction, before
anything else. When the batch with that row is done they all have, and the files go. Until then a batch that is repeated does so again.
"""

from __future__ import annotations

import shutil
from dataclasses import replace

from skyband.framework.sources.logs import last_batch, offset, taken
from skyband.framework.streaming.job.checkpoint import CONTROL
from skyband.framework.streaming.job.layout import JobFile, Layout
from skyband.framework.streaming.rows.config import Filling


def filling(layout: Layout, job: JobFile) -> Filling | None:
    """What is to be taken up, None if nothing is."""
    return None if job.filling is None else Filling(str(layout.filling), job.filling.token, job.fill_buckets)


def order(layout: Layout, job: JobFile) -> JobFile:
    """``job`` as ``taken_up`` gives it; the row for which every bucket runs is there, if it is needed. For a moment when no query runs."""
    job = taken_up(layout, job)
    if job.filling is not None:
        layout.order_wake(job.filling.token)
    return job


def taken_up(layout: Layout, job: JobFile) -> JobFile:
    """``job`` without its filling, written and its files removed, if all of them have been taken up; else as it is."""
    if job.filling is not None:
        done = offset(layout.checkpoint, last_batch(layout.checkpoint / "commits"), CONTROL)
        row = layout.wake(job.filling.token).name
        if not any(t.number <= done and t.url.endswith(f"/{row}") for t in taken(layout.checkpoint / "sources" / str(CONTROL))):
            return job
        job = replace(job, filling=None)
        layout.save(job)
    shutil.rmtree(layout.filling, ignore_errors=True)
    return job
