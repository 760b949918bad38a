"""Read the rows that a job has taken from its source again, and judge them by one intake or another."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol

import pyarrow as pa

from skyband.framework.base.errors import SkybandError
from skyband.framework.lookups.join import Tables
from skyband.framework.plan.model import IntakeNode, Plan
from skyband.framework.rehearsal.rows import Rows
from skyband.framework.sources.first_rows import FirstRows
from skyband.framework.sources.preview import first_rows
from skyband.framework.streaming.job.layout import JobFile, Layout
from skyband.framework.streaming.job.taken_rows import taken_rows
from skyband.framework.streaming.spark.packages import packages
from skyband.framework.streaming.spark.session import get_session
from skyband.framework.why.source import MOST, local_parts


class SourceRows(Protocol):
    """The rows of a source, in one order."""

    def table(self, node: IntakeNode) -> pa.Table:
        """Return every row with the columns and the reason that the intake ``node`` gives it. O(rows).

        Raises SkybandError SKY-E531 for SQL that only Spark can evaluate, and SKY-E301 if the rows cannot be read again.
        """
        ...


@dataclass
class ReadRows:
    """Rows read without Spark, in parts with the look-up tables that their batches have used."""

    parts: list[tuple[FirstRows, Tables]]
    numbers: dict[tuple[str, tuple[Any, ...]], int] = field(default_factory=dict)
    """The numbers that stand for the hashes of ids and keys, the same in all tables."""

    def table(self, node: IntakeNode) -> pa.Table:
        """See ``SourceRows.table``."""
        made = []
        for found, tables in self.parts:
            rows = Rows(node, tables)
            rows.numbers = self.numbers
            made.append(rows.table(found.rows, found.reasons, found.texts))
        return pa.concat_tables(made)


class SparkRows:
    """Rows read by Spark."""

    def __init__(self, plan: Plan, layout: Layout, job: JobFile) -> None:
        self.plan, self.layout, self.job = plan, layout, job
        self._columns: pa.Table | None = None

    def table(self, node: IntakeNode) -> pa.Table:
        """See ``SourceRows.table``. Raises SkybandError SKY-E301 if Spark returns the rows in another order than before."""
        spark = get_session(self.plan.job, packages=packages(self.plan), home=self.layout.home)
        found = taken_rows(spark, self.plan, self.layout, self.job, node).toArrow()
        columns = found.select([f.name for f in node.fields if f.source_name is not None])
        if self._columns is None:
            self._columns = columns
        elif not columns.equals(self._columns):
            raise SkybandError("SKY-E301", "the rows of the source come in another order each time", hint="set only queries and scoring")
        return found


def read_rows(plan: Plan, layout: Layout) -> ReadRows | None:
    """Return the rows that the job has taken; None where only Spark can read them, or if there are too many for Python. O(rows)."""
    parts = []
    left = MOST
    for paths, tables in local_parts(plan, layout) or ():
        try:
            found = first_rows(plan.source, left + 1, paths)
        except SkybandError as e:
            if e.code in ("SKY-E531", "SKY-E201", "SKY-E206"):
                return None
            raise
        left -= len(found.rows)
        if found.doubtful or left < 0:
            return None
        parts.append((found, tables))
    return ReadRows(parts) if parts else None
