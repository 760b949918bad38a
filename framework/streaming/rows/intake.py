"""Parse, transform and check source rows: each gets its columns and, if it is rejected, the reason. One pass, no row is lost."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from skyband.framework.base.messages import FLUSH
from skyband.framework.base.reasons import (
    CONTROL,
    FILTERED,
    INT_RANGE,
    NULL_ID,
    NULL_KEY,
    NULL_TIME,
    PARSE,
    REASON,
    RULE,
    STOPS,
    TIME_RANGE,
    YEAR_RANGE,
)
from skyband.framework.base.types import YEARS
from skyband.framework.lookups.join import Tables
from skyband.framework.plan.model import Derive, Filter, IntakeNode, RowRule
from skyband.framework.sources.files.spark_reader import NEVER_TOO_OLD
from skyband.framework.sources.protocol import CAP, CORRUPT, ORIGIN
from skyband.framework.sources.structs import struct
from skyband.framework.streaming.rows.config import CAPPED, ID_HASHES, KEY_HASHES, WARNED, WATERMARK
from skyband.framework.streaming.rows.lookups import UNMATCHED, with_lookups
from skyband.operators.base import NEVER, NULL

_NONE: Final[Tables] = {}
_TEXTS = "array<string>"
"""The type of lists of texts."""


# What Spark's watermark (from 1970 on) and readers' calendars (to 9999) can hold; a unit mistaken in the spec lands outside.
_FIRST, _LAST = "1970-01-01 00:00:00", "9999-12-30 00:00:00"
_DAYS = NEVER // 86_400_000_000
"""Whole days in int64 microseconds."""


def intake(df: DataFrame, node: IntakeNode, tables: Tables = _NONE) -> DataFrame:
    """``df`` (see ``SourceFormat.stream``) as: all fields, hashes, ``__origin``, ``__corrupt``, ``__reason`` (null: accepted so far).

    The reason is the first that applies, in the order below (see ``reasons``). Rules see every row that parses and is not filtered: one
    about an id or a time has a say before the row is rejected anyway. ``CAP`` stays, if it is there; ``WARNED`` comes with such rules.
    ``tables``: those of the look-ups.
    """
    df = with_lookups(df, node, tables)
    keep: Column = F.lit(True)
    for t in node.transforms:
        if isinstance(t, Derive):
            df = df.withColumn(t.name, F.expr(t.sql).cast(node.field(t.name).type))
        elif isinstance(t, Filter):
            df = df.withColumn(
                "__keep", (F.col("__keep") if "__keep" in df.columns else F.lit(True)) & F.coalesce(F.expr(t.sql), F.lit(False))
            )
            keep = F.col("__keep")
    reason = F.when(F.col(CORRUPT).isNotNull() | ~_all_text(node), F.lit(PARSE))
    if node.lookups:
        reason = reason.when(F.col(UNMATCHED).isNotNull(), F.col(UNMATCHED))
    reason = reason.when(~keep, F.lit(FILTERED))
    for rules, begins in ((node.rules_of("fail"), STOPS), (node.rules_of("reject"), RULE)):
        if rules:
            reason = reason.when(reduce(lambda a, b: a | b, map(_breaks, rules)), F.concat(F.lit(begins), _broken(rules)))
    reason = (
        reason.when(_any_null(node.id), F.lit(NULL_ID))
        .when(F.col(f"`{node.event_time}`").isNull(), F.lit(NULL_TIME))
        .when(~F.col(f"`{node.event_time}`").between(F.lit(_FIRST).cast("timestamp"), F.lit(_LAST).cast("timestamp")), F.lit(TIME_RANGE))
        .when(_any_null(node.partition_by), F.lit(NULL_KEY))
        .when(reduce(lambda a, b: a | b, [_null_or_out_of_range(node, n) for n in node.whole], F.lit(False)), F.lit(INT_RANGE))
    )
    for f in node.fields:
        if f.type in YEARS:
            reason = reason.when(~_number(F.col(f"`{f.name}`"), f.type).between(*YEARS[f.type]), F.lit(f"{YEAR_RANGE}{f.name}"))
    columns = [_readable(F.col(f"`{f.name}`"), f.type).cast(f.type).alias(f.name) for f in node.fields]
    if node.partition_by:
        columns += _hashes(KEY_HASHES, node.partition_by)
    if node.unique == "checked":
        columns += _hashes(ID_HASHES, node.id)
    more = [F.col(CAP)] if CAP in df.columns else []
    if warn := node.rules_of("warn"):
        more.append(F.when(reduce(lambda a, b: a | b, map(_breaks, warn)), _broken(warn)).alias(WARNED))
    return df.select(*columns, F.col(ORIGIN), F.col(CORRUPT), reason.alias(REASON), *more)


def _breaks(rule: RowRule) -> Column:
    """Return True where a row breaks the rule; null does not break it."""
    return ~F.coalesce(F.expr(rule.sql), F.lit(True))


def _broken(rules: Sequence[RowRule]) -> Column:
    """Return the names of the rules that a row breaks."""
    return F.concat_ws(",", *(F.when(_breaks(r), F.lit(r.name)) for r in rules))


def _all_text(node: IntakeNode) -> Column:
    """Return True if every text is UTF-8: sources may contain other bytes, which Arrow does not accept as text."""
    texts = [_is_text(F.col(f"`{f.name}`")) for f in node.fields if f.type == "string"]
    texts += [F.coalesce(F.forall(F.col(f"`{f.name}`"), _is_text), F.lit(True)) for f in node.fields if f.type == _TEXTS]
    return reduce(lambda a, b: a & b, texts, F.lit(True))


def _is_text(column: Column) -> Column:
    return F.coalesce(F.is_valid_utf8(column), F.lit(True))


def _readable(column: Column, type_: str) -> Column:
    if type_ == _TEXTS:
        return F.transform(column, F.make_valid_utf8)
    return F.make_valid_utf8(column) if type_ == "string" else column


def _any_null(names: tuple[str, ...]) -> Column:
    return reduce(lambda a, b: a | b, [F.col(f"`{n}`").isNull() for n in names], F.lit(False))


def _null_or_out_of_range(node: IntakeNode, name: str) -> Column:
    """Return True for the int64 that stands for null, and for dates outside of int64 microseconds (null for neither)."""
    column, type_ = F.col(f"`{name}`"), node.field(name).type
    if type_ == "date":
        return ~_number(column, type_).between(-_DAYS, _DAYS)
    return (_number(column, type_) if type_ == "timestamp" else column) == F.lit(NULL)


def _number(column: Column, type_: str) -> Column:
    """Return a date in days, an instant in microseconds since 1970."""
    return F.unix_date(column) if type_ == "date" else F.unix_micros(column)


def _hashes(names: tuple[str, str], columns: tuple[str, ...]) -> list[Column]:
    """Return two independent 64-bit hashes of ``columns``: the second has another seed."""
    cols = [F.col(f"`{c}`") for c in columns]
    return [F.xxhash64(*cols).alias(names[0]), F.xxhash64(F.lit("skyband"), *cols).alias(names[1])]


def with_control(spark: SparkSession, frames: Sequence[DataFrame], control_path: str, node: IntakeNode) -> DataFrame:
    """Return the rows of the sources ``frames`` united with the control source, which is the second of all.

    ``WATERMARK`` is null in rows of a source: ``Pack`` knows which of them count. Of several sources it also knows what caps mean.
    """
    first, *others = (counted(rows, node).withColumn(WATERMARK, F.lit(None).cast("timestamp")) for rows in frames)
    return reduce(DataFrame.unionByName, [first, _control_as(first, control_rows(spark, control_path)), *others])


def counted(rows: DataFrame, node: IntakeNode) -> DataFrame:
    """Return ``rows``, as ``intake`` gives them, with the time with which each counts for the watermark, where files have caps."""
    if CAP not in rows.columns or node.sources:
        return rows
    # The host processes rows up to the next watermark, and no further.
    stamp = F.least(F.col(f"`{node.event_time}`"), F.timestamp_micros(F.col(CAP)))
    return rows.withColumn(CAPPED, F.when(F.col(REASON).isNull(), stamp)).drop(CAP)


def _control_as(rows: DataFrame, control: DataFrame) -> DataFrame:
    """Return the rows of the control source with the columns of ``rows``."""
    nulls = [F.lit(None).cast(f.dataType).alias(f.name) for f in rows.schema.fields if f.name not in (REASON, WATERMARK)]
    reason = F.when(F.col("flush"), FLUSH).otherwise(CONTROL)
    return control.select(*nulls, reason.alias(REASON), F.col("at").alias(WATERMARK))


def control_rows(spark: SparkSession, control_path: str) -> DataFrame:
    """Read the control source: times ``at`` to which it moves the watermark, whether buckets ``flush``."""
    return (
        spark.readStream.format("json")
        .schema(struct(at="timestamp", flush="boolean"))
        .option("maxFileAge", NEVER_TOO_OLD)
        .load(control_path)
    )
