"""Order all rows that a job has taken by bucket and event time, in this process: what a shuffle of Spark does for a backfill."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa

from skyband.framework.plan.model import IntakeNode, Plan
from skyband.framework.streaming.job.layout import JobFile, Layout
from skyband.framework.streaming.job.taken_rows import OddFiles, taken_tables
from skyband.framework.streaming.rows.config import KEY_HASHES

_ROWS: Final = 65_536
"""Rows of a batch."""


def ordered_rows(start: OddFiles, plan: Plan, layout: Layout, job: JobFile, node: IntakeNode, directory: Path) -> Iterator[pa.RecordBatch]:
    """Yield the rows that the intake ``node`` passes: bucket after bucket, each in the order of event times.

    Memory holds a file of the source, then the rows of a bucket; ``directory``, which is made, gets all rows. ``start``: see
    ``taken_tables``, whose errors this raises. O(n log n) for n rows.
    """
    directory.mkdir(parents=True)
    files: dict[int, pa.ipc.RecordBatchStreamWriter] = {}
    schema: pa.Schema | None = None
    with ExitStack() as stack:
        for found in taken_tables(start, plan, layout, job, node):
            # Spark and Arrow agree in names and types of columns, and not in what they say of nulls.
            schema = found.schema if schema is None else schema
            rows = found.select(schema.names).cast(schema)
            for bucket, mine in _by_bucket(rows, plan.buckets if node.partition_by else 1):
                if bucket not in files:
                    sink = stack.enter_context(pa.OSFile(os.fspath(directory / str(bucket)), "wb"))
                    files[bucket] = stack.enter_context(pa.ipc.new_stream(sink, schema))
                files[bucket].write_table(mine)
    for bucket in sorted(files):
        path = directory / str(bucket)
        with pa.memory_map(os.fspath(path)) as mapped, pa.ipc.open_stream(mapped) as stream:
            yield from stream.read_all().sort_by(node.event_time).to_batches(max_chunksize=_ROWS)
        path.unlink()


def _by_bucket(rows: pa.Table, buckets: int) -> Iterator[tuple[int, pa.Table]]:
    if buckets == 1:
        yield 0, rows
        return
    of = rows[KEY_HASHES[0]].to_numpy() % buckets
    for bucket in np.unique(of):
        yield int(bucket), rows.filter(pa.array(of == bucket))
