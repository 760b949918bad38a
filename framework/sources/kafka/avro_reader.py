"""Decodes Avro values with Spark, completely or not at all.

The library says nothing of what it could not decode but nulls, and passes over bytes that are left. So a record is read as the middle one
of three parts, of which the first and the last are known: those come out as they went in only if it was decoded, to its end.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.avro.functions import from_avro

from skyband.framework.plan.model import Field
from skyband.framework.sources.kafka.avro_schema import rebuilt
from skyband.framework.sources.protocol import CORRUPT

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
