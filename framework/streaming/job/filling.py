"""Replace the states of buckets by files of a backfill, in the job's next batch.

The job file names the files. A row in the control source makes every bucket run; each bucket first loads its file, and saves it as its
state. When the batch with that row is done, all buckets have loaded theirs, and the files are removed. A repeated batch loads them
again.
"""

from __future__ import annotations

from dataclasses import replace

from skyband.framework.sources.logs import last_batch, offset, taken
from skyband.framework.storage.location import remove_tree
from skyband.framework.streaming.job.checkpoint import CONTROL
from skyband.framework.streaming.job.layout import JobFile, Layout
from skyband.framework.streaming.rows.config import Filling


def filling(layout: Layout, job: JobFile) -> Filling | None:
    """Return the states to load, None if there are none."""
    return None if job.filling is None else Filling(str(layout.filling), job.filling.token, job.fill_buckets)


def order(layout: Layout, job: JobFile) -> JobFile:
    """``job`` as ``taken_up`` gives it; the row for which every bucket runs is there, if it is needed. For a moment when no query runs."""
    job = taken_up(layout, job)
    if job.filling is not None:
        layout.order_wake(job.filling.token)
    return job


def waits(layout: Layout, job: JobFile) -> bool:
    """Return True if buckets have still to take up the states of a filling. The job file may name one that they have taken up."""
    if job.filling is None:
        return False
    done = offset(layout.checkpoint, last_batch(layout.checkpoint / "commits"), CONTROL)
    row = layout.wake(job.filling.token).name
    return not any(t.number <= done and t.url.endswith(f"/{row}") for t in taken(layout.checkpoint / "sources" / str(CONTROL)))


def taken_up(layout: Layout, job: JobFile) -> JobFile:
    """``job`` without its filling, written and its files removed, if all of them have been taken up; else as it is."""
    if job.filling is not None:
        if waits(layout, job):
            return job
        job = replace(job, filling=None)
        layout.save(job)
    remove_tree(layout.filling)
    return job
