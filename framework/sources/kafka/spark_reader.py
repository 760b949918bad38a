"""A topic read with Spark, as a stream or at rest: records parsed into the spec's columns."""

from __future__ import annotations

import json
from typing import Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructField, StructType

from skyband.framework.plan.model import Field, SourceNode
from skyband.framework.sources.files.spark_reader import rows
from skyband.framework.sources.kafka.avro_reader import with_record
from skyband.framework.sources.kafka.client import connection
from skyband.framework.sources.kafka.records import META, OF_KEY, Offsets
from skyband.framework.sources.protocol import CORRUPT
from skyband.framework.spark_adapter.driver import type_of_ddl

_KEY, _VALUE = "__key", "__value"
_PARSING: Final = ("sep", "quote", "escape", "nullValue", "dateFormat", "timestampFormat")


def stream(spark: SparkSession, source: SourceNode) -> DataFrame:
    """The topic from ``start`` on, in batches of at most ``rows`` records."""
    given = dict(source.options)
    reader = spark.readStream.format("kafka").options(**client(given))
    return _parsed(reader.option("startingOffsets", given["start"]).option("maxOffsetsPerTrigger", given["rows"]).load(), source)


def between(spark: SparkSession, source: SourceNode, first: Offsets, after: Offsets) -> DataFrame:
    """The records from ``first`` to before ``after``; no record if there are no offsets."""
    reader = spark.read.format("kafka").options(**client(dict(source.options)))
    if not after:
        return _parsed(reader.load().limit(0), source)
    return _parsed(reader.option("startingOffsets", json.dumps(first)).option("endingOffsets", json.dumps(after)).load(), source)


def client(given: dict[str, str]) -> dict[str, str]:
    """Spark's options: the client's own among them are made of checked values only."""
    return {**connection(given), "subscribe": given["topic"], "failOnDataLoss": "true"}


def _parsed(frame: DataFrame, source: SourceNode) -> DataFrame:
    """Records as ``SourceFormat`` promises rows."""
    given = dict(source.options)
    names = [str(f.source_name) for f in source.fields]
    of_key = [f for f in source.fields if str(f.source_name).startswith(OF_KEY)]
    of_value = [f for f in source.fields if str(f.source_name) not in META and f not in of_key]
    # Bytes that are no text would not be taken for one by Arrow.
    key, value = (F.make_valid_utf8(F.col(name).cast("string")) for name in ("key", "value"))
    if given["value"] == "avro":
        value = F.base64(F.col("value"))
    columns = {f"${name}": F.col(name) for name in ("topic", "partition", "offset", "timestamp")} | {"$key": key}
    corrupt: list[Column] = []
    options: dict[str, str] = {n: given[n] for n in _PARSING if n in given}
    for kind, text, fields, column in ((given["value"], value, of_value, _VALUE), ("json", key, of_key, _KEY)):
        if not fields:
            continue
        if kind == "avro":
            frame = with_record(frame, column, given, fields, text)
        else:
            frame = frame.withColumn(column, _record(kind, text, fields, options if column == _VALUE else {}))
        columns |= {str(f.source_name): F.col(f"{column}.`{_inside(f)}`") for f in fields}
        # A record without a value (or key) is no text of that form either.
        corrupt.append(F.when(F.col(f"{column}.{CORRUPT}").isNotNull() | text.isNull(), F.coalesce(value, key, F.lit(""))))
    origin = F.concat(F.col("topic"), F.lit("/"), F.col("partition"), F.lit("@"), F.col("offset"))
    chosen = frame.select(
        *(columns[n].alias(n) for n in dict.fromkeys(names)), F.coalesce(*corrupt, F.lit(None)).alias(CORRUPT), origin.alias("$origin")
    )
    return rows(chosen, source, F.col("`$origin`"), F.col(CORRUPT))


def _inside(f: Field) -> str:
    return str(f.source_name).removeprefix(OF_KEY).replace("`", "``")


def _record(kind: str, text: Column, fields: list[Field], options: dict[str, str]) -> Column:
    schema = StructType([StructField(str(f.source_name).removeprefix(OF_KEY), type_of_ddl(f.type)) for f in fields])
    schema.add(CORRUPT, StringType())
    options = {**options, "mode": "PERMISSIVE", "columnNameOfCorruptRecord": CORRUPT}
    if kind == "csv":
        return F.from_csv(text, F.lit(schema.toDDL()), options)
    return F.from_json(text, schema, options)
