"""Copy the states of all buckets, as of the last batch, to files: from Spark's state store, or from the state files of the sink."""

from __future__ import annotations

from collections.abc import Callable
from itertools import groupby
from typing import TYPE_CHECKING

from skyband.framework.base.errors import SkybandError
from skyband.framework.storage.location import Location
from skyband.framework.streaming.bucket.bucket_states import last_states
from skyband.framework.streaming.bucket.fill_files import read_state, write_state
from skyband.framework.streaming.bucket.state_files import StateFiles
from skyband.framework.streaming.job.filling import waits
from skyband.framework.streaming.job.layout import JobFile, Layout

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def stored_states(session: Callable[[], SparkSession], layout: Layout, job: JobFile, directory: Location) -> list[int]:
    """Write every bucket's state to its file in ``directory``. Return the buckets.

    ``session`` is called if Spark keeps the states. Raises SkybandError SKY-E303 if a state is incomplete. O(bytes of all states).
    """
    if waits(layout, job):
        # Queries were added before: the job has not loaded their states yet.
        for bucket in job.fill_buckets:
            write_state(directory, bucket, read_state(layout.filling, bucket))
        return list(job.fill_buckets)
    if job.state == "files":
        states = {bucket: state for bucket, state in last_states(layout.root).items() if bucket >= 0}
        for bucket, state in states.items():
            write_state(directory, bucket, StateFiles(layout.state).read(bucket, state.token)[1])
        return sorted(states)
    spark = session()
    # The reader of states needs the coordinator of state stores, which Spark starts with its streaming manager.
    _ = spark.streams
    found = spark.read.format("statestore").option("path", str(layout.checkpoint)).option("stateVarName", "values").load()
    pieces = found.select("key.bucket", "user_map_key.name", "user_map_key.piece", "user_map_value.data")
    buckets: list[int] = []
    # Read one bucket at a time: together they are all rows of the window.
    rows = pieces.orderBy("bucket", "name", "piece").toLocalIterator()
    for bucket, mine in groupby(rows, key=lambda row: int(row["bucket"])):
        values = {}
        for name, parts in groupby(mine, key=lambda row: str(row["name"])):
            data = b"".join(bytes(part["data"]) for part in parts)
            values[name] = data[8:]
            if len(values[name]) != int.from_bytes(data[:8], "little"):
                raise SkybandError("SKY-E303", f"the state of bucket {bucket} is incomplete", hint="rebuild the job: skyband rebuild SPEC")
        write_state(directory, bucket, values)
        buckets.append(bucket)
    return buckets
