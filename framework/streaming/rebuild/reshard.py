"""Give a job another number of shards. A shard's state is made of its bucket's, which stays what it is."""

from __future__ import annotations

from dataclasses import replace

from skyband.framework.base.failpoints import failpoint
from skyband.framework.console.lines import Warn
from skyband.framework.plan.model import Plan
from skyband.framework.sources.logs import last_batch
from skyband.framework.streaming.bucket.state_files import StateFiles
from skyband.framework.streaming.job.layout import JobFile, Layout
from skyband.framework.streaming.rebuild.new_states import as_new, of_shards, read, states_now
from skyband.framework.streaming.rows.shards import several
from skyband.framework.tables.results.derive import batches_behind


def reshard(plan: Plan, layout: Layout, job: JobFile, shards: int, warn: Warn) -> JobFile:
    """Give the job so many ``shards`` of each bucket, and return the job file.

    While a batch is unfinished, ``warn`` is called instead. Only for a caller that holds the job's lock. O(state).
    """
    planned, done = (last_batch(layout.checkpoint / log) for log in ("offsets", "commits"))
    if done < 0 or shards == job.shards:
        return job
    if planned > done or batches_behind(layout.root):
        warn(f"the last run was stopped before its end: run.shards is {job.shards} in this run, and {shards} from the next one on")
        return job
    states, files = states_now(layout, job), StateFiles(layout.state)
    made = dict(states)
    if (of := several(shards, plan.buckets)) is not None:
        for bucket, state in states.items():
            made |= of_shards(files, bucket, read(layout, bucket, state), of)
    failpoint("shards.made")
    job = replace(layout.renewed(plan, job), new_states=as_new(layout, made), shards=shards)
    layout.save(job)
    failpoint("shards.saved")
    return job
