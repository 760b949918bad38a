"""A topic read with Spark, as a stream or at rest: records parsed into the spec's columns."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.avro.functions import from_avro
from pyspark.sql.types import StringType, StructField, StructType

from skyband.framework.plan.model import Field, SourceNode
from skyband.framework.sources.files.spark_reader import rows
from skyband.framework.sources.kafka.avro_schema import rebuilt
from skyband.framework.sources.kafka.client import connection
from skyband.framework.sources.kafka.records import META, OF_KEY, Offsets
from skyband.framework.sources.position import OFFSET, PARTITION
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
    of_value = [f for f in source.fields if str(f.source_name) not in META and not str(f.source_name).startswith(OF_KEY)]
    source = replace(source, fields=(*source.fields, *source.position))
    names = [str(f.source_name) for f in source.fields]
    of_key = [f for f in source.fields if str(f.source_name).startswith(OF_KEY)]
    # Bytes that are no text would not be taken for one by Arrow.
    key, value = (F.make_valid_utf8(F.col(name).cast("string")) for name in ("key", "value"))
    if given["value"] == "avro":
        value = F.base64(F.col("value"))
    columns = {f"${name}": F.col(name) for name in ("topic", "partition", "offset", "timestamp")} | {"$key": key}
    columns |= {PARTITION: F.col("partition"), OFFSET: F.col("offset")}
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


_BEGIN: Final = b"\x01"
"""The boolean true in Avro."""
_END: Final = bytes.fromhex("8f6c31d2e57a904b")
_HEADER: Final = 5
"""Bytes before a record in the framing of Confluent's registry: a zero, then the schema's number."""


def with_record(frame: DataFrame, column: str, given: Mapping[str, str], fields: Sequence[Field], text: Column) -> DataFrame:
    """Return ``frame``, which has Kafka's ``value``, with the struct ``column``: ``fields`` by their schema names, and ``CORRUPT``.

    That is ``text`` if the value is no record of the schema, else null.
    """
    value, outer = F.col("value"), f"{column}_outer"
    if given.get("framing") == "confluent":
        framed = (F.length(value) >= _HEADER) & (F.substring(value, 1, 1) == F.lit(b"\0"))
        value = F.when(framed, F.substring(value, _HEADER + 1, 2**31 - 1))
    bounded = F.concat(F.lit(_BEGIN), value, F.lit(_END))
    frame = frame.withColumn(outer, from_avro(bounded, json.dumps(_bounded(rebuilt(given["avro_schema"]))), {"mode": "PERMISSIVE"}))
    whole = F.coalesce(F.col(f"{outer}.begin") & (F.col(f"{outer}.end") == F.lit(_END)), F.lit(False))
    found = [F.when(whole, F.col(f"{outer}.record.`{f.source_name}`")).alias(str(f.source_name)) for f in fields]
    return frame.withColumn(column, F.struct(*found, F.when(~whole, text).alias(CORRUPT)))


def _bounded(record: dict[str, Any]) -> dict[str, Any]:
    end = {"type": "fixed", "name": "skyband_end", "size": len(_END)}
    parts = {"begin": "boolean", "record": record, "end": end}
    return {"type": "record", "name": "skyband_bounded", "fields": [{"name": n, "type": t} for n, t in parts.items()]}
