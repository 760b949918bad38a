"""Rebucket a job: split the state of every bucket beside the job, and swap it in with the tables that are partitioned by bucket.

``_skyband/added`` gets the heads, the skybands, and the job file that names the new states (``new_states``). Nothing of the job changes
before the swap (``generations.swap_in``).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

import numpy as np
import pyarrow as pa

from skyband.framework.base.failpoints import failpoint
from skyband.framework.console.lines import Warn
from skyband.framework.plan.growth import Growth
from skyband.framework.plan.model import Plan
from skyband.framework.sources.logs import last_batch
from skyband.framework.storage.location import remove_tree
from skyband.framework.streaming.bucket.bucket_states import BucketState
from skyband.framework.streaming.bucket.state_files import StateFiles
from skyband.framework.streaming.job.generations import swap_in
from skyband.framework.streaming.job.layout import JobFile, Layout, cache_key, grows, token_key
from skyband.framework.streaming.rebuild.new_states import as_new, of_shards, read, states_now, written
from skyband.framework.streaming.rows.config import HostConfig
from skyband.framework.streaming.rows.shards import several
from skyband.framework.tables.render import key_numbers
from skyband.framework.tables.results.derive import batches_behind
from skyband.framework.tables.writing.factory import writer_for
from skyband.framework.tables.writing.sink import Sink

BUCKET: Final = "bucket"
"""The column with a row's bucket."""


def rebucket_job(plan: Plan, layout: Layout, job: JobFile, warn: Warn) -> tuple[Plan, JobFile]:
    """Split the job's state into as many buckets as ``plan`` has. Return the plan of this run and the job file.

    An unfinished batch has to be repeated first: then this run keeps the former buckets, and ``warn`` is called. Only for a caller that
    holds the job's lock.
    """
    growth = grows(plan, job)
    if growth is None:
        return plan, job
    planned, done = (last_batch(layout.checkpoint / log) for log in ("offsets", "commits"))
    if planned > done:
        warn(f"batch {planned} is unfinished: run.buckets is {growth.was} in this run, and {growth.now} from the next one on")
        return replace(plan, buckets=growth.was), job
    if batches_behind(layout.root):
        warn(f"the last run was stopped before its end: run.buckets is {growth.was} in this run, and {growth.now} from the next one on")
        return replace(plan, buckets=growth.was), job
    return plan, _split(plan, layout, job, growth)


def _split(plan: Plan, layout: Layout, job: JobFile, growth: Growth) -> JobFile:
    """Split the state as ``growth`` says, swap it in, and return the job file.

    A kill before the swap changes nothing; after it, the split is complete. O(state) for every new bucket of an old one. One bucket's
    state, and one table of heads or a skyband, are in memory at a time.
    """
    # This module loads the operators' compiler.
    from skyband.framework.streaming.rebuild.split_buckets import Division

    remove_tree(layout.added)
    made = Layout(str(layout.added))
    config = HostConfig.of(plan, (), cache_key(layout, job), token_key=token_key(layout, job))
    files, shards = StateFiles(layout.state), several(job.shards, growth.now)
    states: dict[int, BucketState] = {}
    placed: list[pa.Table] = []
    for bucket, state in states_now(layout, job).items():
        division = Division(config, read(layout, bucket, state), growth.now)
        for number in division.numbers():
            values = division.of(number)
            states |= {number: written(files, number, values), **of_shards(files, number, values, shards)}
        if division.key_rows is not None:
            placed.append(division.key_rows.append_column(BUCKET, pa.array(division.bucket_of, pa.int32())))
    old, new = (Sink(plan, writer_for(str(of.root)), job.generation) for of in (layout, made))
    names = list(_tables(old, new, pa.concat_tables(placed))) if placed else []
    failpoint("grown.made")
    made.save(replace(layout.renewed(plan, job), new_states=as_new(layout, states)))
    swap_in(layout, names, names)
    return layout.known()


def _tables(old: Sink, new: Sink, placed: pa.Table) -> Iterator[str]:
    """Write the tables partitioned by bucket with the new buckets. Yield the names of tables with rows. ``placed``: keys with buckets."""
    keys = list(old.plan.intake.partition_by)
    for name, spec in new.specs.items():
        if spec.partition_by != (BUCKET,):
            continue
        old.writer.ensure(spec)
        rows = old.writer.read(name)
        if not rows.num_rows:
            continue
        known, mine = key_numbers([placed.select(keys).cast(rows.select(keys).schema), rows], keys)
        order = np.argsort(known, kind="stable")
        bucket = placed[BUCKET].to_numpy()[order[np.searchsorted(known[order], mine)]]
        rows = rows.set_column(rows.column_names.index(BUCKET), rows.schema.field(BUCKET), pa.array(bucket, pa.int32()))
        version = old.writer.version(name, old.app_id(name))
        assert version is not None, f"table {name} has rows of the job"
        new.writer.ensure(spec)
        new.writer.overwrite_partitions(name, rows, BUCKET, np.unique(bucket).tolist(), new.app_id(name), version)
        yield name
