"""A job with shards makes the tables of one without, byte for byte, whatever their number, and when it changes between runs."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import functions as F

from skyband.framework.base.messages import SHARD
from skyband.framework.streaming.job.layout import Layout
from skyband.framework.streaming.rows.shards.slots import Shards, task_of
from tests.spark.cuts import verified
from tests.spark.equality import assert_equal_tables
from tests.spark.jobs import run, table, write_file
from tests.spark.kinds import KINDS, Kind, groups

pytestmark = pytest.mark.spark


def sharded(shards: int, keyed: bool = False) -> Kind:
    """Jobs of every query type whose search is shared, and some whose is not."""
    of = KINDS["shards"]
    return Kind(of.queries, of.rows, of.more | {"shards": shards, "partition": keyed, "buckets": 2 if keyed else None}, of.sections)


def test_slots_are_in_the_tasks_where_they_should_be(spark) -> None:
    numbers = [0, 1, 7, 1_000_003, 2**31 - 1]
    for tasks in (1, 2, 3, 8):
        keys = spark.createDataFrame([(SHARD, n) for n in numbers], "node int, bucket int")
        by_spark = [row[0] for row in keys.select(F.pmod(F.hash("node", "bucket"), F.lit(tasks))).collect()]
        assert [task_of(SHARD, n, tasks) for n in numbers] == by_spark
    shards = Shards(3, 4, 5)
    slots = {(b, s): shards.slot(b, s) for b in range(4) for s in range(3)}
    assert {place: shards.place(slot) for place, slot in slots.items()} == {place: place for place in slots}
    assert [task_of(SHARD, slots[0, s], 5) for s in range(3)] == [0, 1, 2]


@pytest.mark.parametrize("keyed", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_their_number_leaves_no_trace(spark, tmp_path: Path, keyed: bool) -> None:
    """None, 2, 3, 5 and none again, from run to run, with rows that wait between runs."""
    files = groups(KINDS["shards"].rows(5, 240), 5, seed=5)
    plain, job = tmp_path / "plain", tmp_path / "job"
    whole = sharded(1, keyed).write(plain, 100)
    spec = sharded(1, keyed).write(job, 100)
    for n, (rows, shards) in enumerate(zip(files, (1, 2, 3, 5, 1), strict=True)):
        for directory in (plain, job):
            write_file(directory, f"{n}.csv", rows, at=20 * n)
        text = spec.read_text()
        spec.write_text(text.replace(text[text.index("shards: ") :].split("}")[0], f"shards: {shards}"))
        run(spark, whole, finish=n == len(files) - 1)
        run(spark, spec, finish=n == len(files) - 1)
        made = Layout(str(job / "out")).known()
        assert made.shards == (None if shards == 1 else [shards, max(shards, made.partitions)]) and made.filling is None
        counted = [c for c in table(job, "runs").sort_by("batch_id")["counters"].to_pylist() if ".us" in c]
        assert bool(counted) == (n > 0)
    assert_equal_tables(job, plain)
    assert verified(spec)
