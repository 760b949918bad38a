"""Send committed changes to Kafka, at least once: the rows that a batch added to ``<query>_changes`` are sent after its commit.

Records are read from the tables: the rows after the batch that ``Sent`` records, up to the last complete batch. A run killed between
commit and sending sends them when it starts again. A run killed before ``Sent`` is written sends the same bytes twice. All records of a
stream of changes have one key, so they are in one partition, in the order of step and ``pos``.
"""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from skyband.framework.base.errors import SkybandError
from skyband.framework.base.failpoints import failpoint
from skyband.framework.base.redaction import redact_values
from skyband.framework.sources.kafka.client import connection, refused
from skyband.framework.spark_adapter.failures import log_file
from skyband.framework.streaming.job.sent import Sent
from skyband.framework.streaming.spark.log import first_cause
from skyband.framework.tables.schemas import changes_name, stream_columns

if TYPE_CHECKING:
    from skyband.framework.plan.model import Plan
    from skyband.framework.plan.nodes import KafkaNode
    from skyband.framework.streaming.job.layout import JobFile, Layout
    from skyband.framework.tables.writing.sink import Sink

_JSON: Final = {"ignoreNullFields": "false", "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX", "timeZone": "UTC"}


class KafkaSink:
    """Sends the changes of one generation of a job to the topics of ``kafka``."""

    def __init__(self, spark: SparkSession, plan: Plan, kafka: KafkaNode, layout: Layout, job: JobFile, sink: Sink) -> None:
        self.spark, self.layout, self.sink = spark, layout, sink
        self.kafka = kafka
        self.generation = job.generation
        nodes = {q.name: q for q in plan.every_query}
        self.queries = {name: (topic, stream_columns(plan, nodes[name])) for name, topic in kafka.topics}
        """Query -> (topic, the key columns of its streams of changes)."""
        self.sent = Sent(layout, job)

    def catch_up(self, batch: int) -> None:
        """Send the rows up to ``batch``, the last complete one, that have not been sent."""
        self._send(list(self.queries), batch)

    def send(self, batch: int) -> None:
        """Send the changes of ``batch``, which has just been committed, and unsent earlier ones. Does nothing if it has no changes."""
        self._send([q for q in self.queries if self.sink.committed.get(changes_name(q)) == batch], batch)

    def rest(self, batch: int) -> None:
        """Record that everything up to ``batch`` has been sent: some batches have no changes."""
        self.sent.moved(self.queries, batch)

    def _send(self, queries: list[str], batch: int) -> None:
        """Raise SkybandError SKY-E640 if the records cannot be sent; the next run sends them."""
        behind = [q for q in queries if self.sent.upto(q) < batch]
        if not behind:
            return
        failpoint("kafka.before")
        records = reduce(DataFrame.unionByName, (self._records(q, batch) for q in behind))
        # One task sends all records of a stream, in their order.
        ordered = records.repartition("key").sortWithinPartitions("key", "step", "pos").drop("step", "pos")
        try:
            ordered.write.format("kafka").options(**connection(dict(self.kafka.options))).save()
        except Exception as e:  # whatever Spark says
            failed = _failed(str(e))
            if failed is None:
                raise
            raise failed from e
        failpoint("kafka.sent")
        self.sent.moved(self.queries, batch)

    def _records(self, name: str, batch: int) -> DataFrame:
        topic, stream = self.queries[name]
        table = changes_name(name)
        rows = self.spark.read.format("delta").load(str(self.layout.root / table))
        rows = rows.where((F.col("batch_id") > self.sent.upto(name)) & (F.col("batch_id") <= batch))
        key = [F.lit(table).alias("table"), *([F.struct(*map(_column, stream)).alias("key")] if stream else [])]
        headers_of = {"table": F.lit(table), "generation": F.lit(self.generation), "step": F.col("step"), "pos": F.col("pos")}
        headers = [F.struct(F.lit(n).alias("key"), c.cast("string").cast("binary").alias("value")) for n, c in headers_of.items()]
        return rows.select(
            F.lit(topic).alias("topic"), F.to_json(F.struct(*key), _JSON).alias("key"),
            F.to_json(F.struct(*map(_column, rows.columns)), _JSON).alias("value"), F.array(*headers).alias("headers"), "step", "pos",
        )  # fmt: skip


def _failed(said: str) -> SkybandError | None:
    """Return Spark's error ``said`` as a SkybandError; None if it is not from Kafka (Spark may have died)."""
    known = refused(said)
    if known is None and "org.apache.kafka" not in said:
        return None
    what, hint = known or (first_cause(redact_values(said)), f"Spark's log is {log_file()}")
    return SkybandError(
        "SKY-E640", f"changes cannot be sent to Kafka: {what}", hint=f"{hint}; they are in the tables, and the next run sends them"
    )


def _column(name: str) -> Column:
    return F.col(f"`{name}`")
