"""Join rows with look-up tables in Spark: a broadcast left join with tables that are fixed when a query starts."""

from __future__ import annotations

from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from skyband.framework.base.reasons import NO_MATCH
from skyband.framework.lookups.join import Tables
from skyband.framework.lookups.table import END, START, on_names
from skyband.framework.plan.model import IntakeNode
from skyband.framework.plan.nodes import LookupNode

UNMATCHED = "__unmatched"
"""Column of rows while they are read: the reason for which a row without a match is rejected, or null."""


def with_lookups(rows: DataFrame, node: IntakeNode, tables: Tables) -> DataFrame:
    """Return ``rows`` with the columns that they take of every look-up, and ``UNMATCHED`` if there are look-ups."""
    if not node.lookups:
        return rows
    reasons = []
    for i, lookup in enumerate(node.lookups):
        rows = _joined(rows, lookup, tables, F.col(f"`{node.event_time}`"), f"__lookup_{i}")
        if lookup.missing == "reject":
            reasons.append(F.when(F.col(f"__lookup_{i}").isNull(), F.lit(NO_MATCH + lookup.name)))
    rows = rows.withColumn(UNMATCHED, F.coalesce(*reasons) if reasons else F.lit(None).cast("string"))
    return rows.drop(*(f"__lookup_{i}" for i in range(len(node.lookups))))


def _joined(rows: DataFrame, lookup: LookupNode, tables: Tables, at: Column, matched: str) -> DataFrame:
    """Return ``rows`` with what they take of one table; ``matched`` is null where a row of the table is missing."""
    keys = on_names(lookup)
    table = rows.sparkSession.createDataFrame(tables[lookup.name]).withColumn(matched, F.lit(True))
    conditions = [F.col(f"`{own}`") == F.col(name) for name, (own, _) in zip(keys, lookup.on, strict=True)]
    helpers = list(keys)
    if lookup.valid is not None:
        conditions += [at.isNotNull(), F.col(START).isNull() | (F.col(START) <= at), F.col(END).isNull() | (at < F.col(END))]
        helpers += [START, END]
    return rows.join(F.broadcast(table), reduce(lambda a, b: a & b, conditions), "left").drop(*helpers)
