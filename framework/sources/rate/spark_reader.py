"""Generates the same rows with Spark as a stream or as a batch."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from skyband.framework.plan.model import Field, SourceNode
from skyband.framework.sources.files.spark_reader import rows
from skyband.framework.sources.rate.rows import start_micros

_N: Final = "value"
"""Spark's name of the row number."""


def stream(spark: SparkSession, source: SourceNode) -> DataFrame:
    """Return the rows as a stream, ``rows`` per batch."""
    made = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", dict(source.options)["rows"]).load()
    return _made(made, source)


def first(spark: SparkSession, source: SourceNode, count: int) -> DataFrame:
    """Return the first ``count`` rows."""
    return _made(spark.range(count).withColumnRenamed("id", _N), source)


def _made(frame: DataFrame, source: SourceNode) -> DataFrame:
    given = dict(source.options)
    n, seed = F.col(_N), F.lit(int(given["seed"]))
    columns = {str(f.source_name): _drawn(f, seed, n) for f in source.fields}
    # Exact: whole seconds, then what is left of one (n / rate would lose digits).
    rate = int(given["per_second"])
    micros = F.floor(n / F.lit(rate)) * F.lit(1_000_000) + F.floor(F.pmod(n, F.lit(rate)) * F.lit(1_000_000) / F.lit(rate))
    columns |= {
        "$n": n,
        "$time": F.timestamp_micros(F.lit(start_micros(source)) + micros),
        "$key": F.pmod(F.xxhash64(seed, F.lit("$key"), n), F.lit(int(given["keys"]))),
    }
    named = frame.select(*(columns[name].alias(name) for name in dict.fromkeys(str(f.source_name) for f in source.fields)))
    return rows(named, source, F.lit("rate"))


def _drawn(field: Field, seed: Column, n: Column) -> Column:
    """Return the values of a column: doubles in [0, 1), whole numbers in [0, 1000000), or one of 1,000 texts."""
    drawn = F.xxhash64(seed, F.lit(field.source_name), n)
    match field.type:
        case "double" | "float":
            return F.pmod(drawn, F.lit(1 << 53)) / F.lit(float(1 << 53))
        case "boolean":
            return F.pmod(drawn, F.lit(2)) == 0
        case "string":
            return F.concat(F.lit("v"), F.pmod(drawn, F.lit(1000)))
        case _:
            return F.pmod(drawn, F.lit(1_000_000))
