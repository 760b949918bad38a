"""Run the streaming query of a job to its end, and turn Spark's failures into the user's terms."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Final

from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from skyband.framework.base.errors import SkybandError
from skyband.framework.base.messages import FOUND
from skyband.framework.sources.logs import last_batch, watermark
from skyband.framework.spark_adapter.driver import serialize_function
from skyband.framework.storage.location import Location, location
from skyband.framework.streaming.bucket.bucket_states import States
from skyband.framework.streaming.bucket.calls import Call, HeldBuckets, Packed, Watermarks, calls
from skyband.framework.streaming.bucket.state_files import StateFiles
from skyband.framework.streaming.job.checkpoint import failure as lost_part
from skyband.framework.streaming.job.layout import JobFile
from skyband.framework.streaming.rows.arrow_intake import unsupported_file
from skyband.framework.streaming.rows.config import WATERMARK, HostConfig
from skyband.framework.streaming.rows.outbox import Block, Deliver, as_it_is
from skyband.framework.streaming.rows.shuffle_files import ShuffleFiles, opened, shuffle_files_of
from skyband.framework.streaming.run.batch import EPOCH
from skyband.framework.streaming.run.by_arrow import after, look
from skyband.framework.streaming.run.commit import CommitBatch
from skyband.framework.streaming.run.context import OpenedJob, OpenedSource, RunContext
from skyband.framework.streaming.run.delivery import Delivery, number_batch
from skyband.framework.streaming.run.query import JobQuery, config_of
from skyband.framework.streaming.run.results import GateSchedule
from skyband.framework.streaming.run.spark_errors import error_of
from skyband.framework.streaming.run.states import COLLECT, collect_states
from skyband.framework.streaming.spark.executors import Watch, require_driver_versions
from skyband.framework.streaming.spark.stop_signal import STOP
from skyband.framework.streaming.spark.worker_pools import freeze_loaded_objects, pool, pools

# The work of a batch in Spark's tasks: its rows are read and packed by the streaming query, then its buckets run and are saved.

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


_PATIENCE: Final = 30.0
"""Seconds to wait for the end of a batch before it is interrupted, and repeated."""


def stop_between_batches(query: StreamingQuery, checkpoint: Location) -> None:
    """Stop the query when no batch runs. A batch that takes long, or begins in that moment, is interrupted: it is repeated."""
    until = time.monotonic() + _PATIENCE
    while query.isActive and time.monotonic() < until:
        if last_batch(checkpoint / "offsets") == last_batch(checkpoint / "commits"):
            break
        time.sleep(0.02)
    query.stop()


class Stream:
    """Runs the job's query, again where files had to be set aside or Spark's reader has to take over."""

    def __init__(self, context: RunContext, opened: OpenedJob, source: OpenedSource, commit: CommitBatch, gate: GateSchedule) -> None:
        self._context = context
        self._opened = opened
        self._source = source
        self._commit = commit
        self._gate = gate
        self._phase = ""
        self._failure: SkybandError | None = None
        self._work: SparkTasks | None = None
        self._begun: int | None = None
        self._spark_reads = ""
        """Why Spark reads the rest of this run's files instead of Arrow."""

    def run(self, once: bool, phase: str) -> bool:
        """Run the query over the present input (``once``), or until a signal or a ``boundary``. Return False if a signal stopped it.

        A backlog that needs caps is read first, by a query of its own. ``phase`` describes the work for progress lines.
        """
        self._phase = phase
        while self._source.backlog.begin():
            if not self._query(once=True):
                return False
            if not self._source.backlog.done() and once:
                return True
        return self._query(once)

    def _query(self, once: bool) -> bool:
        """Run one query as ``run`` does, and again for as long as it fails for a reason that is now removed."""
        ended = None
        while ended is None:
            ended = self._try_query(once)
        return ended

    def _try_query(self, once: bool) -> bool | None:
        """Run one query as ``run`` does. Return None if it failed for a reason that is now removed."""
        spark, checkpoint, job = self._context.spark, self._context.layout.checkpoint, self._opened.job
        self._begun = None
        self._context.phase(self._phase)
        try:
            left_out, capped = self._source.files.left_out(), self._source.backlog.capped
            reads = self._reads()
            layout, plan, lookups = self._context.layout, self._opened.plan, self._source.lookups
            config, shuffle = config_of(spark, plan, layout, job, together=once), shuffle_files_of(spark.sparkContext, layout.home)
            deliver: Deliver = Delivery.of(self._opened.sink) or as_it_is
            self._work = SparkTasks(spark, config, layout.state, job.partitions, deliver, shuffle)
            query = JobQuery(spark, plan, layout, reads, config, left_out, capped, deliver, lookups).start(self._on_batch, once, shuffle)
        except PySparkException as e:
            raise lost_part(str(e), checkpoint) or self._failure or error_of(e, self._opened.plan, self._opened.job, checkpoint) from e
        executors = Watch(spark)
        with STOP.heeded():
            try:
                while not query.awaitTermination(1):
                    if STOP.signal is not None:
                        query.stop()
                        break
                    if not once and self._context.boundary():
                        stop_between_batches(query, checkpoint)
                        break
                    executors.look()
            except SkybandError:
                query.stop()
                raise
            except StreamingQueryException as e:
                # A terminal's Ctrl-C reaches Spark's workers too: the batch may fail before it is stopped.
                if STOP.signal is None:
                    remedies = (self._read_by_spark, partial(self._source.files.set_aside, spark, batch=self._begun))
                    if self._failure is None and any(remedy(str(e)) for remedy in remedies):
                        return None
                    raise self._failure or error_of(e, self._opened.plan, self._opened.job, checkpoint) from e
        self._collect()
        return STOP.signal is None

    def _collect(self) -> None:
        collect_states(self._context.layout, self._opened.sink, self._opened.job, self._commit.states, self._context.warn)

    def _on_batch(self, df: DataFrame, batch_id: int) -> None:
        self._begun = batch_id
        try:
            self._commit(partial(self._tasks, df, batch_id), batch_id)
            if batch_id % COLLECT == 0:
                self._collect()
            if self._gate.batch_done(batch_id):
                self._context.phase(self._phase)
        except BaseException as e:
            self._failure = e if isinstance(e, SkybandError) else None
            raise

    def _tasks(self, df: DataFrame, batch_id: int, clock: int | None, newest: Mapping[str, int], states: States | None) -> Iterable[Block]:
        """See ``commit.Tasks``. Raises RuntimeError (see ``by_arrow.look``)."""
        assert self._work is not None
        # The caller times the tasks: they are over when this returns.
        sent = list(self._work.run(df, batch_id, watermark(self._context.layout.checkpoint), clock, newest, states))
        look(self._opened.plan, self._reads(), self._source.files.files(batch_id))
        return sent

    def _read_by_spark(self, said: str) -> bool:
        """Return True if the query failed because a file needs another reader, which reads from now on (``by_arrow.after``).

        All read the same rows, so a batch may be repeated by the next one. The job file records it if more such files will come.
        """
        job, found = self._opened.job, unsupported_file(said)
        reads = None if found is None else after(self._opened.plan, self._reads(), found[0])
        if found is None or reads is None:
            return False
        self._spark_reads = reads
        if found[1]:
            job.engine_reads = reads
            self._context.layout.save(job)
        return True

    def _reads(self) -> JobFile:
        """Return the job file, with the reason why Arrow does not read in this run."""
        return replace(self._opened.job, engine_reads=self._spark_reads or self._opened.job.engine_reads)
