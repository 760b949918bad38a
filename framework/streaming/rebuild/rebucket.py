"""A job that has more buckets from now on: every bucket's state divided, beside the job, and swapped in with the tables that name buckets.

In ``_skyband/added``: the states as they were (``was``) and as they will be (``filling``), the heads and skybands. Nothing of the job is
touched before the swap (``generations.swap_in``); the job's next batch takes the states up (``filling``).
"""

from __future__ import annotations

import secrets
import shutil
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession

from skyband.framework.base.failpoints import failpoint
from skyband.framework.console.lines import Warn
from skyband.framework.plan.growth import Growth
from skyband.framework.plan.model import Plan
from skyband.framework.sources.logs import last_batch
from skyband.framework.streaming.bucket.fill_files import read_state, write_state
from skyband.framework.streaming.job.filling import taken_up
from skyband.framework.streaming.job.generations import swap_in
from skyband.framework.streaming.job.layout import JobFile, Layout, Waiting, cache_key, grows
from skyband.framework.streaming.rebuild.stored_states import stored_states
from skyband.framework.streaming.rows.config import HostConfig
from skyband.framework.tables.key_numbers import key_numbers
from skyband.framework.tables.writing.factory import writer_for
from skyband.framework.tables.writing.sink import Sink

BUCKET: Final = "bucket"
"""The column of tables that names a row's bucket."""


def grown(spark: SparkSession, plan: Plan, layout: Layout, job: JobFile, warn: Warn) -> tuple[Plan, JobFile]:
    """``job`` with as many buckets as ``plan`` has, and the plan that it fits. For who holds the job's lock.

    A batch that is unfinished is repeated as it was: then this run is one with the buckets of before, and ``warn`` hears of it.
    """
    growth = grows(plan, job)
    if growth is None:
        return plan, job
    planned, done = (last_batch(layout.checkpoint / log) for log in ("offsets", "commits"))
    if planned > done:
        warn(f"batch {planned} is unfinished: run.buckets is {growth.was} in this run, and {growth.now} from the next one on")
        return replace(plan, buckets=growth.was), job
    return plan, _divided(spark, plan, layout, taken_up(layout, job), growth)


def _divided(spark: SparkSession, plan: Plan, layout: Layout, job: JobFile, growth: Growth) -> JobFile:
    """Divides the state as ``growth`` says, and swaps it in; the job file then.

    Killed before the swap, nothing has happened; after it, all has. O(state) for every new bucket of an old one; one bucket's state, and
    one table of heads or a skyband, are in memory at a time.
    """
    # What divides states loads the operators' compiler.
    from skyband.framework.streaming.rebuild.split_buckets import Division

    shutil.rmtree(layout.added, ignore_errors=True)
    made = Layout(str(layout.added))
    config = HostConfig.of(plan, (), cache_key(layout, job))
    filling: list[int] = []
    placed: list[pa.Table] = []
    for bucket in stored_states(spark, layout, job, made.home / "was"):
        division = Division(config, read_state(made.home / "was", bucket), growth.now)
        for number in range(bucket, growth.now, growth.was):
            # The old bucket's own number keeps its place in Spark's store, even without a key.
            if number == bucket or (division.bucket_of == number).any():
                write_state(made.filling, number, division.of(number))
                filling.append(number)
        if division.key_rows is not None:
            placed.append(division.key_rows.append_column(BUCKET, pa.array(division.bucket_of, pa.int32())))
    old, new = (Sink(plan, writer_for(str(of.root), spark), job.generation) for of in (layout, made))
    names = list(_tables(old, new, pa.concat_tables(placed))) if placed else []
    failpoint("grown.made")
    made.save(replace(layout.renewed(plan, job), filling=Waiting(secrets.token_hex(8), sorted(filling))))
    swap_in(layout, names, names)
    return layout.known()


def _tables(old: Sink, new: Sink, placed: pa.Table) -> Iterator[str]:
    """Writes the tables that name buckets with the new ones; the names of those that have rows. ``placed``: all keys with theirs."""
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
