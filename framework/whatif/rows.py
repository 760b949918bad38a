"""Decide for every row of the source whether the job took it in as it was, and whether it would with a change."""

from __future__ import annotations

import csv
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from skyband.framework.base.errors import SkybandError, did_you_mean, one_of
from skyband.framework.base.reasons import LATE, REASON, RULE, STOPS, TOO_FAR_AHEAD
from skyband.framework.plan.model import IntakeNode, Plan
from skyband.framework.preview.judged import with_reasons
from skyband.framework.sources.protocol import ORIGIN
from skyband.framework.spec_tests.tables import plain_value
from skyband.framework.streaming.job.layout import JobFile, Layout
from skyband.framework.streaming.job.taken_rows import taken_rows
from skyband.framework.streaming.rows import rejects
from skyband.framework.streaming.spark.packages import packages
from skyband.framework.streaming.spark.session import get_session
from skyband.framework.why.item import value_of

# Read the rows that a job has taken from its source again, and judge them by one intake or another.


class SourceRows(Protocol):
    """The rows of a source, in one order."""

    def table(self, node: IntakeNode) -> pa.Table:
        """Return every row with the columns and the reason that the intake ``node`` gives it. O(rows).

        Raises SkybandError SKY-E531 for SQL that only Spark can evaluate, and SKY-E301 if the rows cannot be read again.
        """
        ...


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


# The change that is supposed: rejected rows put back, rows left out, an edited spec.

Flags = npt.NDArray[np.bool_]
REJECTED: Final = "rejected"


@dataclass(frozen=True, slots=True)
class Left:
    """Rows to leave out: those with these values (see ``plain_value``), by column. ``said``: as they were named."""

    said: str
    values: Mapping[str, Any]

    def matching(self, rows: pa.Table) -> Flags:
        """Return which of ``rows`` have the values. O(rows)."""
        found = np.ones(rows.num_rows, np.bool_)
        for column, value in self.values.items():
            type_ = rows.schema.field(column).type
            found &= np.fromiter((plain_value(v, type_) == value for v in rows[column].to_pylist()), np.bool_, rows.num_rows)
        return found


@dataclass(frozen=True, slots=True)
class Change:
    """What is supposed. ``put_back``: None, or the reasons whose rows are put back, "" for all. ``settings``: of the edited spec."""

    put_back: tuple[str, ...] = ()
    without: tuple[Left, ...] = ()
    settings: tuple[str, ...] = ()

    def puts_back(self, reason: str) -> bool:
        """Return True if rows that were rejected for ``reason`` are put back."""
        return any(p in ("", reason) or reason.startswith(f"{p}:") for p in self.put_back)

    @property
    def said(self) -> list[str]:
        """Return the parts of the change, as they are written."""
        found = [f"--with {REJECTED}{f':{p}' if p else ''}" for p in self.put_back]
        return [*found, *(f"--without {w.said}" for w in self.without), *(f"--set {s}" for s in self.settings)]


def change_of(plan: Plan, with_: Sequence[str], without: Sequence[str], settings: Sequence[str]) -> Change:
    """Parse the arguments. Raises SkybandError SKY-E201 for what is none, and if nothing is supposed."""
    if not (with_ or without or settings):
        raise SkybandError("SKY-E201", "nothing is to be other", hint="add --with rejected, --without ID or --set PATH=VALUE")
    put_back = []
    for text in with_:
        what, colon, reason = text.partition(":")
        if what != REJECTED or (colon and not reason):
            hint = "--with rejected, or of one reason --with rejected:late"
            raise SkybandError("SKY-E201", f"--with takes {REJECTED} or {REJECTED}:REASON, not {text!r}", hint=hint)
        put_back.append(reason)
    return Change(tuple(put_back), tuple(_left(plan, text) for text in without), tuple(settings))


def _left(plan: Plan, text: str) -> Left:
    """Parse ``value,value`` in the order of ``source.id``, or ``column=value,...`` of any columns."""
    columns = [f.name for f in plan.intake.fields]
    cells = next(csv.reader([text]), [])
    named = [c.partition("=") for c in cells]
    ids = plan.intake.id
    if cells and all(equals and name.strip() in columns for name, equals, _ in named):
        given = {name.strip(): value for name, _, value in named}
    elif cells and len(cells) == len(ids):
        given = dict(zip(ids, cells, strict=True))
    else:
        hint = did_you_mean(named[0][0].strip(), columns) if cells and named[0][1] else None
        said = (
            f"--without {text!r} names no row: it takes a value of {one_of(ids)}" if len(ids) == 1 else f"--without {text!r} names no row"
        )
        raise SkybandError("SKY-E201", said, hint=hint or f"write {','.join(ids)}, or COLUMN=VALUE,... of any columns")
    try:
        return Left(text, {c: value_of(plan, c, v) for c, v in given.items()})
    except SkybandError as e:
        near = did_you_mean(named[0][0].strip(), columns) if named[0][1] else None
        raise SkybandError(e.code, f"--without: {e.message}", hint=near or e.hint) from None


def check_reasons(change: Change, known: Sequence[str]) -> None:
    """Raise SkybandError SKY-E201 if no row was rejected for a reason that is to be put back. ``known``: the reasons of the table."""
    for reason in change.put_back:
        if reason and not any(k == reason or k.startswith(f"{reason}:") for k in known):
            hint = did_you_mean(reason, known) or (f"reasons: {one_of(known)}" if known else "no row was rejected")
            raise SkybandError("SKY-E201", f"no row was rejected for {reason!r}", hint=hint)


LEFT_OUT: Final = "left out"
"""The reason of rows that ``--without`` leaves out."""
LATER: Final = "later than the range"
"""The fate of rows that a run up to an earlier instant does not reach."""
Reasons = list[str | None]


@dataclass(slots=True)
class JudgedRows:
    """All rows of the source under one spec. ``reasons``: why a row is not to be processed, None for the others."""

    plan: Plan
    rows: pa.Table
    reasons: Reasons

    def candidates(self) -> pa.Table:
        """Return the rows to process. Their ``ORIGIN`` is their number, by which those that the run rejects are known. O(rows)."""
        keep = pa.array([r is None for r in self.reasons], pa.bool_())
        numbers = pa.array(np.arange(self.rows.num_rows)).cast(pa.string())
        at = self.rows.column_names.index(ORIGIN)
        rows = self.rows.set_column(at, ORIGIN, numbers).filter(keep)
        return rows.set_column(rows.column_names.index(REASON), REASON, pa.nulls(rows.num_rows, pa.string()))


@dataclass(slots=True)
class Judged:
    """The rows as the job took them, and as they would be with the change.

    ``unjudged``: rows that the change lets in, and of which the job has not found out whether they were late.
    """

    as_is: JudgedRows
    changed: JudgedRows
    unjudged: int = 0


def judge(plan: Plan, edited: Plan, source: SourceRows, rejected: pa.Table, change: Change) -> Judged:
    """Return all rows under both specs. ``rejected``: the job's table.

    What the job rejected as late, as too far ahead or by a row rule is known only from ``rejected``, where it is found by its text. The
    clocks of batches and the rules of that time are not asked again. O(rows of the source).
    """
    bare = _without_rules(plan.intake)
    rows = source.table(bare)
    passed = _reasons(plan, rows)
    at_run = _of_runs(rows, passed, plan, rejected)
    as_is: Reasons = [p if p is not None else at_run.get(i) for i, p in enumerate(passed)]
    other_rules = edited.intake.rules != plan.intake.rules
    other_intake = _without_rules(edited.intake) != bare
    there = source.table(_without_rules(edited.intake)) if other_intake else rows
    made = _reasons(edited, there) if other_intake else list(passed)
    broken = _broken(edited, source) if edited.intake.rules and (other_rules or other_intake) else None
    unjudged = 0
    for i, before in enumerate(passed):
        if made[i] is not None:
            continue
        reason = at_run.get(i)
        by_rule = reason is not None and reason.startswith(RULE)
        if reason is not None and not change.puts_back(reason) and not (by_rule and other_rules):
            made[i] = reason
        elif broken is not None and broken[i] is not None and (other_rules or before is not None):
            # The rules of the job's runs decided about the other rows.
            made[i] = broken[i]
        elif before is not None or by_rule:
            unjudged += 1
    for left in change.without:
        for i in np.flatnonzero(_matching(left, rows)).tolist():
            made[i] = LEFT_OUT
    return Judged(JudgedRows(_ready(plan), rows, as_is), JudgedRows(_ready(edited), there, made), unjudged)


def _matching(left: Left, rows: pa.Table) -> Any:
    found = left.matching(rows)
    if not found.any():
        hint = "write its id as the tables show it, or COLUMN=VALUE,..."
        raise SkybandError("SKY-E201", f"no row of the source has {', '.join(f'{c} {v}' for c, v in left.values.items())}", hint=hint)
    return found


def _without_rules(node: IntakeNode) -> IntakeNode:
    return replace(node, rules=())


def _ready(plan: Plan) -> Plan:
    """Return ``plan`` for a run over judged rows. A repeated id that is only counted is rejected instead, so that its row is known."""
    node = replace(plan.intake, rules=(), ahead_micros=None)
    return replace(plan, intake=replace(node, on_duplicate="reject") if node.on_duplicate == "keep_first" else node)


def _reasons(plan: Plan, rows: pa.Table) -> Reasons:
    found: Reasons = with_reasons(plan, rows)[REASON].to_pylist()
    return found


def _broken(plan: Plan, source: SourceRows) -> Reasons:
    """Return the reason of the rows that break a rule of ``plan``."""
    found = source.table(plan.intake)[REASON].to_pylist()
    return [r if r is not None and r.startswith((RULE, STOPS)) else None for r in found]


def _of_runs(rows: pa.Table, passed: Reasons, plan: Plan, rejected: pa.Table) -> Mapping[int, str]:
    """Return the reasons that only the runs could know, by the number of the row. Equal rows are interchangeable. O(rows)."""
    reason = rejected["reason"]
    rejected = rejected.filter(pc.or_(pc.is_in(reason, pa.array([LATE, TOO_FAR_AHEAD])), pc.starts_with(reason, RULE)))
    if not rejected.num_rows:
        return {}
    waiting: dict[str, list[str]] = defaultdict(list)
    for text, why in zip(rejected["text"].to_pylist(), rejected["reason"].to_pylist(), strict=True):
        waiting[text].append(why)
    among = pa.array([p is None for p in passed], pa.bool_())
    times = rejected["event_time"]
    if not times.null_count:
        among = pc.and_(among, pc.fill_null(pc.is_in(rows[plan.intake.event_time].combine_chunks(), pc.unique(times).cast(
            rows.schema.field(plan.intake.event_time).type)), False))  # fmt: skip
    numbers = np.flatnonzero(among.to_numpy(zero_copy_only=False))
    texts = rejects.json_rows(rows.select([f.name for f in plan.intake.fields]).take(pa.array(numbers)).combine_chunks()).to_pylist()
    found: dict[int, str] = {}
    for number, text in zip(numbers.tolist(), texts, strict=True):
        if waiting.get(text):
            found[number] = waiting[text].pop()
    return found


@dataclass(frozen=True, slots=True)
class Fates:
    """What became of every row in both runs: None if it was accepted, else the reason."""

    was: Reasons
    would_be: Reasons

    @property
    def changed(self) -> list[int]:
        """Return the numbers of the rows that only one of the runs accepts. O(rows)."""
        return [i for i, (a, b) in enumerate(zip(self.was, self.would_be, strict=True)) if (a is None) != (b is None)]

    def kinds(self) -> list[dict[str, Any]]:
        """Return the changed rows by what they were and what they would be, the most frequent first. O(rows)."""
        found = Counter((self.was[i] or ACCEPTED, self.would_be[i] or ACCEPTED) for i in self.changed)
        return [{"was": a, "would_be": b, "rows": n} for (a, b), n in sorted(found.items(), key=lambda x: (-x[1], x[0]))]

    def of_rejected(self, rejected: pa.Table, change: Change, last: int) -> list[dict[str, Any]]:
        """Return, by reason, the rows of ``rejected`` that are to be put back, and what would become of them. O(rows).

        ``last``: the last instant (microseconds) of the range; nothing is said of the fate of rows after it.
        """
        reasons, times = rejected["reason"].to_pylist(), rejected["event_time"].cast(pa.int64()).to_pylist()
        counts = Counter(r for r in reasons if change.puts_back(r))
        later = Counter(r for r, at in zip(reasons, times, strict=True) if r in counts and at is not None and at > last)
        after: dict[str, Counter[str]] = defaultdict(Counter)
        for was, would_be in zip(self.was, self.would_be, strict=True):
            if was is not None and was in counts and would_be != LATER:
                after[was][would_be or ACCEPTED] += 1
        return [
            {
                "reason": reason, "rows": n, "accepted": after[reason][ACCEPTED],
                "rejected": {r: m for r, m in after[reason].items() if r != ACCEPTED}, "later": later[reason],
                "not_found": max(0, n - later[reason] - after[reason].total()),
            }
            for reason, n in sorted(counts.items(), key=lambda x: (-x[1], x[0]))
        ]  # fmt: skip


ACCEPTED: Final = "accepted"
