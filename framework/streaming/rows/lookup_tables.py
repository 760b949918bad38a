"""Read look-up tables with Spark, of every format and option, on this machine and elsewhere."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from skyband.framework.base.errors import SkybandError
from skyband.framework.base.redaction import redact_values
from skyband.framework.lookups.in_memory import unparsed, unreadable
from skyband.framework.lookups.join import Tables
from skyband.framework.lookups.table import MOST_ROWS, checked, nodes
from skyband.framework.plan.model import Plan, SourceNode
from skyband.framework.plan.nodes import LookupNode
from skyband.framework.sources.files import preflight, spark_reader
from skyband.framework.sources.protocol import CORRUPT
from skyband.framework.sources.registry import source_format
from skyband.framework.streaming.spark.log import first_cause


def read_tables(spark: SparkSession, plan: Plan) -> Tables:
    """Return the tables of all look-ups as they are now. O(rows).

    Raises SkybandError SKY-E321 if one cannot be read or is too large, SKY-E320 if one has a key twice.
    """
    return {node.name: _read(spark, node, source) for node, source in nodes(plan)}


def _read(spark: SparkSession, node: LookupNode, source: SourceNode) -> pa.Table:
    format_ = source_format(source.format)
    header: list[str] | None = None
    try:
        wrong = preflight.missing(source) or next(iter(preflight.columns(source, every=True)), None)
        if wrong is not None:
            raise wrong
        header = format_.columns(spark, source)
        rows = _frame(spark, source, header).limit(MOST_ROWS + 1).toArrow()
    except SkybandError as e:
        raise unreadable(node, e.message, e.hint) from e
    except PySparkException as e:
        known = format_.failure(str(e), header, source.path)
        said, hint = (known.message, known.hint) if known is not None else (first_cause(redact_values(str(e))), None)
        raise unreadable(node, said, hint or "compare the table with the look-up's schema and options") from e
    bad = rows.num_rows - rows[CORRUPT].null_count
    if bad:
        raise unparsed(node, bad, None)
    return checked(node, source, rows)


def _frame(spark: SparkSession, source: SourceNode, header: list[str] | None) -> DataFrame:
    """Return the table with the columns of the look-up's schema and ``CORRUPT``."""
    format_ = source_format(source.format)
    if format_.of_table:
        table = spark.read.format(source.format).load(str(source.path))
        return _text(spark_reader.rows(table, source, F.lit("")), source)
    backlog = format_.backlog(source, header, Path())
    assert backlog is not None
    files = spark_reader.listed(spark, source)
    if not files:
        raise SkybandError("SKY-E321", f"there are no files in {source.path}", hint="names that begin with _ or . are not read")
    if large := backlog.too_large(files):
        raise SkybandError("SKY-E321", f"the file {large[0]} has a line, or unpacks to more bytes, than can be read")
    return _text(backlog.rows(spark, files), source)


def _text(frame: DataFrame, source: SourceNode) -> DataFrame:
    """Return ``frame`` with only UTF-8 in its texts: Arrow accepts nothing else as text."""
    columns = [F.make_valid_utf8(F.col(f"`{f.name}`")).alias(f.name) if f.type == "string" else F.col(f"`{f.name}`") for f in source.fields]
    return frame.select(*columns, CORRUPT)
