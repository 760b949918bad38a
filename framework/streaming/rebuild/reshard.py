"""Give a job another number of shards. A shard's state is made of its bucket's, which stays what it is.

The states of all buckets are copied to files, which buckets and shards take up in the job's next batch (``filling``). The step of shards
has a state of its own in Spark's checkpoint: it begins as a copy of that of the buckets, which Spark accepts as the state after as many
batches, and what is of buckets in it is removed in the job's next batch. Without shards the step is removed.
"""

from __future__ import annotations

import secrets
from dataclasses import replace
from typing import Final

from pyspark.sql import SparkSession

from skyband.framework.base.failpoints import failpoint
from skyband.framework.base.system_failures import raising_system_failures
from skyband.framework.console.lines import Warn
from skyband.framework.plan.model import Plan
from skyband.framework.sources.logs import last_batch
from skyband.framework.storage.location import Location
from skyband.framework.storage.locations import remove_tree
from skyband.framework.streaming.job.generations import swap_in
from skyband.framework.streaming.job.layout import JobFile, Layout, Waiting
from skyband.framework.streaming.rebuild.stored_states import stored_states
from skyband.framework.tables.results.deferred import batches_behind

_BUCKETS: Final = "0"
"""The directory of the state of the step of buckets: Spark counts from the last step."""
_SHARDS: Final = "1"
"""The directory of the state of the step of shards."""


def reshard(spark: SparkSession, plan: Plan, layout: Layout, job: JobFile, shards: int, warn: Warn) -> JobFile:
    """Give the job so many ``shards`` of each bucket, spread over its tasks, and return the job file.

    While a batch is unfinished, ``warn`` is called instead. Only for a caller that holds the job's lock. O(state).
    """
    wanted = [shards, job.partitions] if shards > 1 else None
    planned, done = (last_batch(layout.checkpoint / log) for log in ("offsets", "commits"))
    if done < 0:
        return job
    if wanted != job.shards:
        was = job.shards[0] if job.shards is not None else 1
        if planned > done or batches_behind(layout.root):
            warn(f"the last run was stopped before its end: run.shards is {was} in this run, and {shards} from the next one on")
            return job
        remove_tree(layout.added)
        made = Layout(str(layout.added))
        buckets = stored_states(lambda: spark, layout, job, made.filling)
        filled = Waiting(secrets.token_hex(8), sorted(buckets))
        failpoint("shards.made")
        made.save(replace(layout.renewed(plan, job), filling=filled, shards=wanted, resharding=True))
        swap_in(layout, [], [])
        job = complete(layout, layout.known())
    if job.filling is not None:
        layout.order_wake(job.filling.token)
    return job


def complete(layout: Layout, job: JobFile) -> JobFile:
    """Make the state of the step of shards again, if that has still to be done, and return the job file. O(state).

    Spark reads the states of all steps when it moves them to other tasks (``partitions``): so this comes first.
    """
    if job.resharding:
        failpoint("shards.swapped")
        with raising_system_failures(layout.checkpoint):
            _renew_step(layout.checkpoint / "state", job.shards is not None)
        failpoint("shards.renewed")
        job = replace(job, resharding=False)
        layout.save(job)
    return job


def _renew_step(state: Location, needed: bool) -> None:
    """Remove the state of the step of shards, and copy that of the buckets to its place if it is ``needed``."""
    before, after = state / _BUCKETS, state / _SHARDS
    remove_tree(after)
    if not needed:
        return
    for path in before.rglob("*"):
        if not path.is_file():
            continue
        copy, data = after / path.relative_to(before), path.read_bytes()
        copy.parent.mkdir(parents=True, exist_ok=True)
        if "_metadata" in path.relative_to(before).parts[:1]:
            if path.name.endswith(".crc"):
                continue
            # The sink's own path may have such parts, too.
            data = data.replace(b'"operatorId":0', b'"operatorId":1').replace(b"/checkpoint/state/0/", b"/checkpoint/state/1/")
        copy.write_bytes(data)
