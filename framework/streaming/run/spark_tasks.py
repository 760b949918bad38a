"""The work of a batch in Spark's tasks: its rows are read and packed by the streaming query, then its buckets run and are saved."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Final

from pyspark.sql import DataFrame, SparkSession

from skyband.framework.base.messages import FOUND
from skyband.framework.spark_adapter.driver import serialize_function
from skyband.framework.storage.location import Location
from skyband.framework.storage.locations import location
from skyband.framework.streaming.bucket.bucket_states import States
from skyband.framework.streaming.bucket.calls import Call, HeldBuckets, Packed, Watermarks, calls
from skyband.framework.streaming.bucket.state_files import StateFiles
from skyband.framework.streaming.rows.config import WATERMARK, HostConfig
from skyband.framework.streaming.rows.outbox import Block, Deliver
from skyband.framework.streaming.rows.shuffle_files import ShuffleFiles, opened
from skyband.framework.streaming.run.batch import EPOCH
from skyband.framework.streaming.run.delivery import number_batch
from skyband.framework.streaming.spark.executors import require_driver_versions
from skyband.framework.streaming.spark.worker_pools import freeze_loaded_objects, pool, pools

_HELD: Final[dict[str, HeldBuckets]] = {}
"""The buckets that this worker process keeps, by their job and the directory of its states, which moves with a rebuild."""


class SparkTasks:
    """Runs batches of the streaming query. ``states``: the directory of the states of buckets. ``tasks``: those that run buckets.

    ``deliver`` handles blocks on their way to the driver, ``shuffle`` those between tasks.
    """

    def __init__(
        self, spark: SparkSession, config: HostConfig, states: Location, tasks: int, deliver: Deliver, shuffle: ShuffleFiles
    ) -> None:
        self._context, self._config, self._tasks = spark.sparkContext, config, tasks
        self._states, self._deliver, self._shuffle = str(states), deliver, shuffle

    def run(
        self, made: DataFrame, batch_id: int, watermark_ms: int, clock: int | None, newest: Mapping[str, int], states: States | None
    ) -> Iterator[Block]:
        """Yield the messages of a batch to the driver. ``made``: its messages of ``Pack``, each with ``WATERMARK``.

        ``watermark_ms``: that of the batches before it. ``clock``: at which it was planned, in microseconds; None if event times are not
        compared with it. ``newest``: how far each of several sources has come. ``states``: those of buckets before it.
        """
        number_batch(self._context, batch_id, clock, newest)
        packed = Packed()
        for row in made.toArrow().to_pylist():
            packed.add(row["node"], row["bucket"], row["kind"], row["data"])
            if row[WATERMARK] is not None:
                # Rounded down, as Spark does it for its own watermark.
                packed.reaches((row[WATERMARK] - EPOCH) // timedelta(milliseconds=1))
        watermarks = packed.watermarks(watermark_ms, self._config.intake.delay_ms)
        yield from packed.aside
        due = list(calls(packed, states, self._config, watermarks))
        found: dict[int, list[Block]] = {}
        for number, kind, data in self._ran([call for call in due if call.number < 0], watermarks):
            if kind.endswith(FOUND):
                found.setdefault(self._config.bucket_of(number), []).append((kind, data))
            else:
                yield kind, data
        of_buckets = [call._replace(found=found.get(call.number, ())) for call in due if call.number >= 0]
        yield from ((kind, data) for _, kind, data in self._ran(of_buckets, watermarks))
        yield self._config.frontier_count(watermarks.after)
        self._shuffle.done(batch_id)

    def _ran(self, due: Sequence[Call], watermarks: Watermarks) -> list[tuple[int, str, bytes]]:
        """Return the messages of calls, with the number of the bucket or shard that has sent each."""
        if not due:
            return []
        send = self._shuffle.message if due[0].number < 0 else self._deliver
        parts = min(self._tasks, len(due))
        shares: list[list[Call]] = [[] for _ in range(parts)]
        for i, call in enumerate(due):
            shares[i % parts].append(call)
        work = _RunBuckets(self._config, self._states, watermarks, send)
        with pool(self._context, pools(self._context).host):
            ran = self._context.parallelize(shares, parts).mapPartitions(work)
            serialize_function(ran)
        sent: list[tuple[int, str, bytes]] = ran.collect()
        return sent


class _RunBuckets:
    """The function for the tasks."""

    def __init__(self, config: HostConfig, states: str, watermarks: Watermarks, send: Deliver) -> None:
        self._config, self._states, self._watermarks, self._send = config, states, watermarks, send

    def __call__(self, shares: Iterable[Sequence[Call]]) -> Iterator[tuple[int, str, bytes]]:
        """Yield what the buckets of a task send."""
        require_driver_versions()
        freeze_loaded_objects()
        key = f"{self._config.cache_key} {self._states}"
        buckets = _HELD.setdefault(key, HeldBuckets(self._config, StateFiles(location(self._states)), opened))
        buckets.config = self._config
        for share in shares:
            for call in share:
                for kind, data in buckets.run(call, self._watermarks):
                    yield call.number, *self._send(kind, data)
