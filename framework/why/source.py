"""Read the rows that a job has processed so far again, without Spark where the result is certain to be the same."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from skyband.framework.base.errors import SkybandError
from skyband.framework.base.reasons import REASON
from skyband.framework.lookups.join import Tables
from skyband.framework.plan.model import Plan
from skyband.framework.preview.judged import of_intake, with_reasons
from skyband.framework.sources.files.format import by_cuts, files_to_read
from skyband.framework.sources.files.ledger import Ledger
from skyband.framework.sources.files.log_pruning import pruned
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


def taken_rows(plan: Plan, layout: Layout, job: JobFile) -> pa.Table:
    """Return every processed row that the intake passes. Raises SkybandError SKY-E301 if the source or a part of it is gone."""
    found = _without_spark(plan, layout)
    if found is not None:
        return found
    return source_rows(get_session(plan.job, packages=packages(plan), home=layout.home), plan, layout, job)


def _without_spark(plan: Plan, layout: Layout) -> pa.Table | None:
    """Return the same rows without Spark; None where only Spark can read them."""
    parts = local_parts(plan, layout)
    found = []
    for paths, tables in parts or ():
        rows = rows_of(plan, paths, tables)
        if rows is None:
            return None
        found.append(rows)
    return pa.concat_tables(found) if found else None


def local_parts(plan: Plan, layout: Layout) -> list[tuple[list[str], Tables]] | None:
    """Return the files that batches have taken, in parts with the look-up tables that these used; None if they are not all files here."""
    if not source_format(plan.source.format).of_files or pruned(layout.checkpoint):
        return None
    aside = Ledger.load(layout.home).aside
    paths = {url: local_path(url) for url in files_to_read(plan.source, layout.checkpoint) if url not in aside}
    if not paths or any(p is None or not Path(p).exists() for p in paths.values()):
        return None
    kept = LookupVersions(plan, layout)
    versions = kept.known() if plan.lookups else []
    parts = by_cuts(plan.source, layout.checkpoint, list(paths), [v.after for v in versions[1:]])
    return [([str(paths[url]) for url in part], kept.tables(versions[i]) if versions else {}) for i, part in parts]


def rows_of(plan: Plan, paths: list[str], tables: Tables) -> pa.Table | None:
    """Return every row of the files that the intake passes; None if Spark may read one differently, or if there are too many. O(rows).

    ``tables``: those of the look-ups.
    """
    try:
        found = first_rows(plan.source, MOST + 1, paths)
        if found.doubtful or len(found.rows) > MOST:
            return None
        rows = with_reasons(plan, of_intake(plan, found, tables))
    except SkybandError as e:
        if e.code in ("SKY-E531", "SKY-E201", "SKY-E206"):
            return None
        raise
    return rows.filter(pc.is_null(rows[REASON])).select([f.name for f in plan.intake.fields])
