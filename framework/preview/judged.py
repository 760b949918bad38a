"""Process the first rows of a source as a job would: each row with its columns and reason, the results, and the share of rejected rows."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from skyband.framework.base.counts import agree, counted
from skyband.framework.base.errors import SkybandError
from skyband.framework.base.reasons import FILTERED, REASON
from skyband.framework.lookups.in_memory import read_tables
from skyband.framework.lookups.join import Tables
from skyband.framework.plan.model import Plan
from skyband.framework.rehearsal.rehearsal import Rehearsal
from skyband.framework.rehearsal.rows import Rows
from skyband.framework.sources.first_rows import FirstRows
from skyband.framework.sources.preview import first_rows, texts_of
from skyband.framework.streaming.rows import operations, rejects, reports, tokens, vectors
from skyband.framework.streaming.rows.instants import ahead
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
    def looked_at(self) -> int:
        """Return the number of rows that were read, those left out because Spark may read them differently included."""
        return int(self.rows.num_rows) + self.first.doubtful

    @property
    def percent(self) -> float:
        """Return the percentage of rejected rows of those read, as ``quality.max_rejected`` counts it."""
        return float(100 * sum(self.rejected.values()) / max(1, self.looked_at))


def judged(plan: Plan, most: int = LOOKED, results: bool = True, read: Read | None = None) -> Judged:
    """Return the first ``most`` rows of the source, processed; without ``results`` the tables stay empty.

    ``read``: gives the rows as Spark's intake does (``streaming.first_rows``); else they are read without it.

    Raises SkybandError as ``first_rows`` or ``read``; SKY-E531 for SQL that is not evaluated without Spark; SKY-E502.
    """
    found, taken = (read or _without_spark)(plan, most)
    clock = time.time_ns() // 1000
    rows = with_reasons(plan, ahead.judged(taken, plan.intake, clock))
    job = Rehearsal(plan, clock=clock)
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


def of_intake(plan: Plan, found: FirstRows, tables: Tables | None = None) -> pa.Table:
    """Return the rows with all columns and the intake's reasons. ``tables``: those of look-ups; else they are read as they are now.

    Raises SkybandError SKY-E531 for SQL that is not evaluated without Spark, and as ``read_tables``.
    """
    return Rows(plan.intake, read_tables(plan) if tables is None else tables).table(found.rows, found.reasons, found.texts)


def with_reasons(plan: Plan, rows: pa.Table) -> pa.Table:
    """Return all columns of ``rows`` and the reasons of rejected rows, without checking ids and lateness. O(rows)."""
    rows = operations.judged(rows, plan.intake.operations)
    for node in plan.intake.tokens:
        made = tokens.reasons(node, tokens.sets(node, rows[node.column], tokens.key_of("")))
        rows = rejects.with_reasons(rows, made)
    return reports.judged(vectors.judged(rows, plan.intake.vectors), plan.intake, plan.texts)


def results_of(plan: Plan, found: Judged) -> list[tuple[str, pa.Table]]:
    """Return (query, its current result, or all its events for a query that only reports events) of every query."""
    return [(q.name, found.tables[now_name(q.name) if q.item.lasting else changes_name(q.name)]) for q in plan.every_query]


def share_of(plan: Plan) -> tuple[list[SkybandError], str]:
    """Return (SKY-E532 if that is more than ``quality.max_rejected`` allows, else a sentence about it).

    Ids that come twice and late rows are not seen here. Where only Spark can read the rows, or there are none yet, that is said.
    """
    try:
        found = judged(plan, results=False)
    except SkybandError as e:
        if e.code in ("SKY-E531", "SKY-E206"):
            return [], f"; its rows were not looked at: {e.message}"
        return [e], ""
    if found.first.absent and found.rows.num_rows:
        return [_absent(plan, found.first)], ""
    many, rejected = found.looked_at, sum(found.rejected.values())
    if not many:
        return [], "; its source has no rows yet, so none was judged"
    said = f"of the first {counted(many, 'row')} {rejected:,} would be rejected"
    if rejected:
        kinds = ", ".join(f"{n:,} {reason}" for reason, n in sorted(found.rejected.items(), key=lambda r: (-r[1], r[0])))
        said += f" ({found.percent:.1f} %: {kinds})"
    if plan.max_rejected < 100 and found.percent > plan.max_rejected:
        hint = next((f"the first kind that does not parse: {text}" for text in texts_of(found.first)), "skyband preview shows them")
        return [SkybandError("SKY-E532", f"{said}{_left_out(found)}; quality.max_rejected allows {plan.max_rejected:g} %", hint=hint)], ""
    return [], f"; {said}{_left_out(found)}"


def _left_out(found: Judged) -> str:
    """Return how many rows were read and not judged, as a part of a sentence; an empty text if there are none."""
    n = found.first.doubtful
    return f"; {counted(n, 'row')} {agree(n, 'was', 'were')} not judged: Spark may read {agree(n, 'it', 'them')} differently" if n else ""


def _absent(plan: Plan, first: FirstRows) -> SkybandError:
    """Return SKY-E206 about columns that no row has."""
    names = [str(f.source_name) for f in plan.source.fields if f.name in first.absent]
    said = (
        f"none of the first {counted(len(first.rows), 'row')} has the column{'s' if len(names) > 1 else ''} {', '.join(map(repr, names))}"
    )
    hint = "'from:' gives a column another name, or names a member of an object: from: user.score"
    return SkybandError("SKY-E206", f"{said} (first file: {first.files[0]})", hint=hint)
