"""The states of all buckets, as of the last batch, out of Spark's store into files."""

from __future__ import annotations

from itertools import groupby
from pathlib import Path

from pyspark.sql import SparkSession

from skyband.framework.base.errors import SkybandError
from skyband.framework.streaming.bucket.fill_files import read_state, write_state
from skyband.framework.streaming.job.layout import JobFile, Layout


def stored_states(spark: SparkSession, layout: Layout, job: JobFile, directory: Path) -> list[int]:
    """The buckets that have a state; each one's is in its file of ``directory``. SkybandError SKY-E303 if one is not whole."""
    if job.filling is not None:
        # Queries that came before these: their states have not been taken up yet.
        for bucket in job.fill_buckets:
            write_state(directory, bucket, read_state(layout.filling, bucket))
        return list(job.fill_buckets)
    # Who reads a state asks the coordinator of states, which a JVM that has streamed nothing yet does not have.
    _ = spark.streams
    found = spark.read.format("statestore").option("path", str(layout.checkpoint)).option("stateVarName", "values").load()
    pieces = found.select("key.bucket", "user_map_key.name", "user_map_key.piece", "user_map_value.data")
    buckets: list[int] = []
    # One bucket's at a time: together they are all the rows of the window.
    rows = pieces.orderBy("bucket", "name", "piece").toLocalIterator()
    for bucket, mine in groupby(rows, key=lambda row: int(row["bucket"])):
        values = {}
        for name, parts in groupby(mine, key=lambda row: str(row["name"])):
            data = b"".join(bytes(part["data"]) for part in parts)
            values[name] = data[8:]
            if len(values[name]) != int.from_bytes(data[:8], "little"):
                raise SkybandError("SKY-E303", f"the state of bucket {bucket} is not whole", hint="start again: skyband rebuild SPEC")
        write_state(directory, bucket, values)
        buckets.append(bucket)
    return buckets
