"""Read the rows that a job has processed so far again, without Spark where the result is certain to be the same."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from skyband.framework.base.errors import SkybandError
from skyband.framework.base.reasons import REASON
from skyband.framework.lookups.join import Tables
from skyband.framework.plan.model import IntakeNode, Plan
from skyband.framework.preview.judged import with_reasons
from skyband.framework.rehearsal.rows import Rows
from skyband.framework.sources.files.format import by_cuts, files_to_read
from skyband.framework.sources.files.log_pruning import pruned
from skyband.framework.sources.first_rows import FirstRows
from skyband.framework.sources.logs import local_path
from skyband.framework.sources.preview import first_rows
from skyband.framework.sources.registry import source_format
from skyband.framework.streaming.job.layout import JobFile, Layout
from skyband.framework.streaming.job.lookup_versions import LookupVersions
from skyband.framework.streaming.spark.packages import packages
from skyband.framework.streaming.spark.session import get_session
from skyband.framework.verify.brute_force.accepted import source_rows

MOST: Final = 2_000_000
"""The most rows read without Spark, which is faster for more."""
_BY_SPARK: Final = ("SKY-E531", "SKY-E201", "SKY-E206")
"""Errors about rows that only Spark can read or judge."""


@dataclass
class ReadRows:
    """Rows read without Spark, in parts with the look-up tables that their batches have used."""

    parts: list[tuple[FirstRows, Tables]]
    numbers: dict[tuple[str, tuple[Any, ...]], int] = field(default_factory=dict)
    """The numbers that stand for the hashes of ids and keys, the same in all tables."""

    def table(self, node: IntakeNode) -> pa.Table:
        """Return every row with the columns and the reason that the intake ``node`` gives it. O(rows).

        Raises SkybandError SKY-E531 for SQL that only Spark can evaluate.
        """
        made = []
        for found, tables in self.parts:
            rows = Rows(node, tables)
            rows.numbers = self.numbers
            made.append(rows.table(found.rows, found.reasons, found.texts))
        return pa.concat_tables(made)


def read_rows(plan: Plan, layout: Layout) -> ReadRows | None:
    """Return the rows that the job has taken; None where only Spark can read them, or if there are too many for Python. O(rows)."""
    return read_parts(plan, _local_parts(plan, layout) or ())


def read_parts(plan: Plan, files: Iterable[tuple[list[str], Tables]]) -> ReadRows | None:
    """Return the rows of ``files``, in parts with their look-up tables; None as ``read_rows``, and if there are no files."""
    parts, left = [], MOST
    for paths, tables in files:
        try:
            found = first_rows(plan.source, left + 1, paths)
        except SkybandError as e:
            if e.code in _BY_SPARK:
                return None
            raise
        left -= len(found.rows)
        if found.doubtful or left < 0:
            return None
        parts.append((found, tables))
    return ReadRows(parts) if parts else None


def taken_rows(plan: Plan, layout: Layout, job: JobFile) -> pa.Table:
    """Return every processed row that the intake passes. Raises SkybandError SKY-E301 if the source or a part of it is gone."""
    read = read_rows(plan, layout)
    found = None if read is None else passing(plan, read)
    if found is not None:
        return found
    return source_rows(get_session(plan.job, packages=packages(plan), home=layout.home), plan, layout, job)


def passing(plan: Plan, read: ReadRows) -> pa.Table | None:
    """Return the rows that the intake passes; None if it has SQL that only Spark can evaluate. O(rows)."""
    try:
        rows = with_reasons(plan, read.table(plan.intake))
    except SkybandError as e:
        if e.code in _BY_SPARK:
            return None
        raise
    return rows.filter(pc.is_null(rows[REASON])).select([f.name for f in plan.intake.fields])


def _local_parts(plan: Plan, layout: Layout) -> list[tuple[list[str], Tables]] | None:
    """Return the files that batches have taken, in parts with the look-up tables that these used; None if they are not all files here."""
    if not source_format(plan.source.format).of_files or pruned(layout.checkpoint):
        return None
    paths = {url: local_path(url) for url in files_to_read(plan.source, layout.checkpoint)}
    if not paths or any(p is None or not Path(p).exists() for p in paths.values()):
        return None
    kept = LookupVersions(plan, layout)
    versions = kept.known() if plan.lookups else []
    parts = by_cuts(plan.source, layout.checkpoint, list(paths), [v.after for v in versions[1:]])
    return [([str(paths[url]) for url in part], kept.tables(versions[i]) if versions else {}) for i, part in parts]
