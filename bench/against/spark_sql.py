"""Spark: a streaming query whose ``foreachBatch`` computes the window's answer by Spark SQL and replaces the one in a Delta table.

It reuses what ``duck.py`` reuses, in Delta tables with idempotent writes (txnAppId, txnVersion). The join broadcasts the new rows, the
result is one file, and shuffles have as many partitions as the session sets: two.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from bench.against.payments import K

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SCHEMA = "id bigint, paid_at timestamp, market bigint, amount double, fee double, wait double"
PAIR_SCHEMA = "market bigint, older bigint, newer bigint, score double, paid_at timestamp"
TOPK = """
select * from (
  select market, row_number() over (partition by market order by amount desc, id desc) as rank, id from {recent}) where rank <= {k}
"""
PAIRS = """
select market, older, newer, score, paid_at from (
  select *, row_number() over (partition by older order by score, newer desc) as place from (
    select market, older, newer, score, paid_at from {kept}
    union all
    select /*+ broadcast(b) */ a.market, a.id, b.id, abs(a.amount - b.amount) + abs(a.wait - b.wait), a.paid_at
    from {recent} a join {fresh} b on a.market = b.market and a.id < b.id))
where place <= {k}
"""
TOPK_PAIRS = """
select * from (
  select market, row_number() over (partition by market order by score, older desc, newer desc) as rank, older, newer from {pairs})
where rank <= {k}
"""
BEATEN = """b.market = a.market and b.amount >= a.amount and b.fee <= a.fee and b.wait <= a.wait
and (b.amount > a.amount or b.fee < a.fee or b.wait < a.wait)"""
NOT_BEATEN_BY_NEWER = f"select a.* from {{recent}} a where not exists (select 1 from {{recent}} b where b.id > a.id and {BEATEN})"
SKYLINE = f"select a.market, a.id from {{recent}} a where not exists (select 1 from {{recent}} b where {BEATEN})"


class SparkSql:
    """One query after every batch; the answer's table is ``out``, with the reused tables beside it."""

    def __init__(self, spark: SparkSession, query: str, out: Path) -> None:
        self.spark, self.query, self.out = spark, query, out
        self.rows, self.pairs, self.checkpoint = (out.with_name(f"{out.name}-{part}") for part in ("rows", "pairs", "checkpoint"))

    def run(self, directory: Path, done: Callable[[], None]) -> None:
        """Streams over the files there are, one a batch; ``done`` is called after each."""

        def batch(fresh: DataFrame, number: int) -> None:
            self.batch(fresh, number)
            done()

        files = self.spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(directory))
        stream = files.writeStream.foreachBatch(batch).option("checkpointLocation", str(self.checkpoint)).trigger(availableNow=True).start()
        stream.awaitTermination()

    def batch(self, fresh: DataFrame, number: int) -> None:
        """Takes the rows of a batch; when it returns the answer can be read."""
        spark = fresh.sparkSession  # the stream's own: views that SQL is given live there
        fresh = fresh.persist()
        low = spark.sql("select max(paid_at) - interval 1 hour as low from {fresh}", fresh=fresh).first()["low"]
        fresh = fresh.where(fresh.paid_at > low)
        if self.query == "skyline":
            recent = spark.sql(NOT_BEATEN_BY_NEWER, recent=self._kept(fresh, self.rows, number, SCHEMA, low).union(fresh))
            self._write(recent, self.rows, number, "overwrite")
            said = spark.sql(SKYLINE, recent=self._kept(fresh, self.rows, 1, SCHEMA, low))
        else:
            self._write(fresh, self.rows, number, "append")
            recent = self._kept(fresh, self.rows, 1, SCHEMA, low)
            if self.query == "topk":
                said = spark.sql(TOPK, recent=recent, k=K)
            else:
                kept = self._kept(fresh, self.pairs, number, PAIR_SCHEMA, low)
                self._write(spark.sql(PAIRS, kept=kept, recent=recent, fresh=fresh, k=K), self.pairs, number, "overwrite")
                said = spark.sql(TOPK_PAIRS, pairs=self._kept(fresh, self.pairs, 1, PAIR_SCHEMA, low), k=K)
        self._write(said, self.out, number, "overwrite")
        fresh.unpersist()

    def _kept(self, fresh: DataFrame, table: Path, number: int, schema: str, low: object) -> DataFrame:
        """What a table has of the window; it is there from batch 0 on."""
        spark = fresh.sparkSession
        kept = spark.read.format("delta").load(str(table)) if number else spark.createDataFrame([], schema)
        return kept.where(kept.paid_at > low)

    def _write(self, rows: DataFrame, table: Path, number: int, mode: str) -> None:
        once = {"txnAppId": f"{self.query}-{table.name}", "txnVersion": str(number)}
        rows.coalesce(1).write.format("delta").options(**once).mode(mode).save(str(table))
