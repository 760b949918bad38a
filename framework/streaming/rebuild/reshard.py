"""Give a job another number of shards. A shard's state is made of its bucket's, which stays what it is.

The states of all buckets are copied to files, which buckets and shards take up in the job's next batch (``filling``).
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from skyband.framework.base.failpoints import failpoint
from skyband.framework.console.lines import Warn
from skyband.framework.plan.model import Plan
from skyband.framework.sources.logs import last_batch
from skyband.framework.storage.location import remove_tree
from skyband.framework.streaming.job.generations import swap_in
from skyband.framework.streaming.job.layout import JobFile, Layout, Waiting
from skyband.framework.streaming.rebuild.stored_states import stored_states
from skyband.framework.tables.results.derive import batches_behind

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def reshard(start: Callable[[], SparkSession], plan: Plan, layout: Layout, job: JobFile, shards: int, warn: Warn) -> JobFile:
    """Give the job so many ``shards`` of each bucket, and return the job file.

    While a batch is unfinished, ``warn`` is called instead. Only for a caller that holds the job's lock. O(state).
    """
    was = job.shards[0] if job.shards is not None else 1
    planned, done = (last_batch(layout.checkpoint / log) for log in ("offsets", "commits"))
    if done < 0 or shards == was:
        return job
    if planned > done or batches_behind(layout.root):
        warn(f"the last run was stopped before its end: run.shards is {was} in this run, and {shards} from the next one on")
        return job
    remove_tree(layout.added)
    made = Layout(str(layout.added))
    buckets = stored_states(start, layout, job, made.filling)
    filled = Waiting(secrets.token_hex(8), sorted(buckets))
    failpoint("shards.made")
    wanted = [shards, job.partitions] if shards > 1 else None
    made.save(replace(layout.renewed(plan, job), filling=filled, shards=wanted))
    swap_in(layout, [], [])
    failpoint("shards.swapped")
    return layout.known()
