"""Processes the first rows of a source as a job would: each row with its columns and reason, and the results of these rows alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from skyband.framework.base.reasons import FILTERED, REASON
from skyband.framework.plan.model import Plan
from skyband.framework.preview.first_rows import first_rows
from skyband.framework.rehearsal.rehearsal import Rehearsal
from skyband.framework.rehearsal.rows import Rows
from skyband.framework.sources.first_rows import FirstRows
from skyband.framework.streaming.rows import reports, tokens
from skyband.framework.tables.schemas import changes_name, now_name

LOOKED: Final = 1_000
"""Most rows that are read."""


Read = Callable[[Plan, int], tuple[FirstRows, pa.Table]]
"""Read at most so many first rows, and return (the rows read, the rows after the intake)."""


@dataclass(frozen=True, slots=True)
class Judged:
    """The processed first rows. ``rows``: all their columns and ``REASON``. ``rejected``: counts by reason, repeated ids included.

    ``tables``: every table of the job, as if these rows were all there is.
    """

    first: FirstRows
    rows: pa.Table
    rejected: Mapping[str, int]
    filtered: int
    tables: Mapping[str, pa.Table]

    @property
    def percent(self) -> float:
        """Return the percentage of rejected rows, as ``quality.max_rejected`` counts it."""
        return float(100 * sum(self.rejected.values()) / max(1, self.rows.num_rows))


def judged(plan: Plan, most: int = LOOKED, results: bool = True, read: Read | None = None) -> Judged:
    """Return the first ``most`` rows of the source, processed; without ``results`` the tables stay empty.

    ``read``: gives the rows as Spark's intake does (``streaming.first_rows``); else they are read without it.

    Raises SkybandError as ``first_rows`` or ``read``; SKY-E531 for SQL that is not evaluated without Spark; SKY-E502.
    """
    found, taken = (read or _without_spark)(plan, most)
    rows = with_reasons(plan, taken)
    job = Rehearsal(plan)
    if results:
        job.take(taken)
        job.finish()
    tables = job.tables(results)
    reasons = tables["rejected"]["reason"].to_pylist() if results else [r for r in rows[REASON].to_pylist() if r is not None]
    rejected = Counter(r for r in reasons if r != FILTERED)
    return Judged(found, rows, rejected, rows[REASON].to_pylist().count(FILTERED), tables)


def _without_spark(plan: Plan, most: int) -> tuple[FirstRows, pa.Table]:
    found = first_rows(plan.source, most)
    return found, of_intake(plan, found)


def of_intake(plan: Plan, found: FirstRows) -> pa.Table:
    """Return the rows with all columns and the intake's reasons. SkybandError SKY-E531 for SQL that is not evaluated without Spark."""
    return Rows(plan.intake).table(found.rows, found.reasons, found.texts)


def with_reasons(plan: Plan, rows: pa.Table) -> pa.Table:
    """Return all columns of ``rows`` and the reasons of rejected rows, without checking ids and lateness. O(rows)."""
    for node in plan.intake.tokens:
        made = tokens.reasons(node, tokens.sets(node, rows[node.column], tokens.key_of("")))
        rows = rows.set_column(rows.column_names.index(REASON), REASON, pa.chunked_array([_either(rows[REASON], made)]))
    return reports.judged(rows, plan.intake.reports, plan.texts)


def _either(first: pa.ChunkedArray, second: pa.Array) -> pa.Array:
    return pa.array([a if a is not None else b for a, b in zip(first.to_pylist(), second.to_pylist(), strict=True)], pa.string())


def results_of(plan: Plan, found: Judged) -> list[tuple[str, pa.Table]]:
    """Return (query, its current result, or all its events for a query that only reports events) of every query."""
    return [(q.name, found.tables[now_name(q.name) if q.item.lasting else changes_name(q.name)]) for q in plan.queries]
