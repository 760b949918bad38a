"""Take over a job of an earlier version, whose state Spark kept in the checkpoint: its state becomes files of the sink."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from skyband.framework.base.errors import SkybandError
from skyband.framework.base.failpoints import failpoint
from skyband.framework.sources.logs import last_batch
from skyband.framework.storage.location import remove_tree
from skyband.framework.streaming.job.consistency import Found
from skyband.framework.streaming.job.generations import swap_in
from skyband.framework.streaming.job.layout import JobFile, Layout, Waiting
from skyband.framework.streaming.rebuild.stored_states import stored_states

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def taken_over(start: Callable[[], SparkSession], layout: Layout, job: JobFile, found: Found) -> JobFile:
    """Return ``job`` with its state in files, which its buckets take up in the next batch. ``start`` is called if Spark keeps it.

    A kill before the swap changes nothing, after it the job is taken over. Raises SkybandError SKY-E209 if only the version that has
    begun it can complete what is unfinished. O(state).
    """
    if job.state == "files":
        # What Spark kept before.
        remove_tree(layout.checkpoint / "state")
        return job
    planned, done = (last_batch(layout.checkpoint / log) for log in ("offsets", "commits"))
    if (planned > done and found.unfinished_committed) or job.moving is not None or job.resharding:
        said = f"an earlier version of Skyband was stopped before batch {planned} was complete: only that version can complete it"
        raise SkybandError("SKY-E209", said, hint="run the job once with it, then with this version")
    remove_tree(layout.added)
    made = Layout(str(layout.added))
    buckets = stored_states(start, layout, job, made.filling)
    filled = Waiting(secrets.token_hex(8), sorted(buckets))
    made.save(replace(job, filling=filled, state="files", engine_reads=""))
    failpoint("takeover.made")
    swap_in(layout, [], [])
    remove_tree(layout.checkpoint / "state")
    return layout.known()
