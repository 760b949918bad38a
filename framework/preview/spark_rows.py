"""Reads the first rows of a source with Spark, for every format, option and SQL. Takes seconds, most of them to start Spark."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from functools import reduce

import pyarrow as pa
from pyspark.errors import AnalysisException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from skyband.framework.base.errors import SkybandError
from skyband.framework.plan.model import Plan
from skyband.framework.sources.first_rows import FirstRows
from skyband.framework.sources.protocol import CORRUPT, ORIGIN
from skyband.framework.sources.registry import source_format
from skyband.framework.streaming.rows.intake import intake
from skyband.framework.streaming.rows.lookup_tables import read_tables
from skyband.framework.streaming.spark.log import first_cause


def rows_by_spark(plan: Plan, most: int, spark: SparkSession) -> tuple[FirstRows, pa.Table]:
    """Read at most ``most`` first rows, and return (the rows read, the table that ``Rows.table`` would be).

    SkybandError SKY-E206 if there are none, SKY-E201 if they cannot be read; SKY-E301 as runs raise it.
    """
    # In the order in which a job takes them.
    one_by_one = tuple((name, replace(part, max_files_per_batch=1)) for name, part in plan.source.parts)
    source = replace(plan.source, max_files_per_batch=1, parts=one_by_one)
    kind = source_format(source.format)
    header = kind.columns(spark, source)
    parts: list[pa.Table] = []

    def keep(batch: DataFrame, number: int) -> None:
        wanted = most - sum(p.num_rows for p in parts)
        if wanted > 0:
            parts.append(batch.limit(wanted).toArrow())

    with tempfile.TemporaryDirectory(prefix="skyband-preview-") as checkpoint:
        try:
            lookups = read_tables(spark, plan)
            frame = reduce(DataFrame.unionByName, (intake(f, plan.intake, lookups) for f in kind.frames(spark, source, header)))
            query = frame.writeStream.foreachBatch(keep).option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
            while not query.awaitTermination(1):
                if sum(p.num_rows for p in parts) >= most:
                    query.stop()
        except (AnalysisException, StreamingQueryException) as e:
            of_source = kind.failure(str(e), header, plan.source.path)
            raise of_source or SkybandError(
                "SKY-E201", f"the source cannot be read: {first_cause(str(e))}", hint="compare its columns and the spec's SQL with it"
            ) from e
    rows = pa.concat_tables(parts) if parts else None
    if rows is None or not rows.num_rows:
        raise SkybandError("SKY-E206", f"there are no rows in {source.path or 'the source'} yet", hint="put some there")
    found = FirstRows(files=list(dict.fromkeys(str(o) for o in rows[ORIGIN].to_pylist())))
    texts = [t for t in rows[CORRUPT].to_pylist() if t is not None]
    found.why = [why for t in texts if (why := source_format(source.format).unparsed(source, header, t)) is not None]
    return found, rows
