"""Which results would have been other, when, and by which rows: two runs of a job in memory, as it was and with a change.

Both runs use the job's own operators over the rows that it has taken from its source, so they are exact. The run without the change is
compared with the job's tables first: what it does not reproduce cannot be known.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skyband.framework.base.counts import agree, counted
from skyband.framework.base.errors import SkybandError, SpecErrors, did_you_mean, one_of
from skyband.framework.plan.model import Plan, QueryNode
from skyband.framework.rehearsal.rehearsal import Rehearsal
from skyband.framework.sources.protocol import ORIGIN
from skyband.framework.storage.sinks import require_readable
from skyband.framework.streaming.job.layout import JobFile, Layout, changed_since
from skyband.framework.tables.schemas import changes_name, identity_columns, stream_columns, trajectory_name
from skyband.framework.verify.budget import Done, Progress
from skyband.framework.verify.differences import instant
from skyband.framework.verify.stored import Key, Stored, exact, key_of, keys_of, micros
from skyband.framework.whatif.compare import Because, Causes, Difference, clipped, compare
from skyband.framework.whatif.rows import (
    LATER,
    Change,
    Fates,
    Judged,
    JudgedRows,
    Reasons,
    SourceRows,
    SparkRows,
    check_reasons,
    judge,
)
from skyband.framework.whatif.sides import Columns, Side, columns_of, streams
from skyband.framework.why.source import read_rows

# Run a job in memory over all of its rows, up to one instant.

_ROWS: Final = 200_000
"""About how many rows are processed at a time."""


@dataclass(frozen=True, slots=True)
class Ran:
    """The tables of a run, without those derived from changes. ``fates``: of every row of the source, None or why it was rejected.

    Rows after the end of the run are ``LATER``, unless it is known without the run that they are rejected.
    """

    tables: Mapping[str, pa.Table]
    fates: Reasons


def run_rows(judged: JudgedRows, end: int, began: Callable[[Done], None] = lambda _: None) -> Ran:
    """Process the rows before ``end`` (microseconds) in the order of their times, and all that is due before ``end``.

    ``began``: takes, before the first row, a function that returns how many of how many rows are done.

    The state in memory is that of one bucket. O(rows log rows) for the order, and the cost of the operators.
    """
    rows = judged.candidates()
    times = rows[judged.plan.intake.event_time].cast(pa.int64()).to_numpy()
    order = np.argsort(times, kind="stable")
    many = int(np.searchsorted(times[order], end))
    order, later = order[:many], order[many:]
    fates = list(judged.reasons)
    for number in rows[ORIGIN].take(pa.array(later)).to_pylist():
        fates[int(number)] = LATER
    rows, times = rows.take(pa.array(order)), times[order]
    job = Rehearsal(judged.plan)
    start = 0
    began(lambda: (start, len(times)))
    while start < len(times):
        stop = min(start + _ROWS, len(times))
        # Rows of one instant stay together.
        stop = len(times) if stop == len(times) else int(np.searchsorted(times, times[stop - 1], side="right"))
        job.advance(rows.slice(start, stop - start), end if stop == len(times) else int(times[stop - 1]) + 1)
        start = stop
    if not len(times):
        job.advance(rows, end)
    tables = job.tables(results=False)
    rejected = tables["rejected"]
    known = rejected.filter(pc.is_valid(rejected["origin"]))
    for number, reason in zip(known["origin"].to_pylist(), known["reason"].to_pylist(), strict=True):
        fates[int(number)] = reason
    return Ran(tables, fates)


_LATENESS: Final = "every other row came late or in time as it did: the order in which rows came is not simulated"


@dataclass(frozen=True, slots=True)
class OfQuery:
    """The differences of a query, each with its rows. ``unknown``: why they cannot be known, None if they are."""

    query: QueryNode
    columns: Columns | None = None
    found: list[tuple[Difference, Because]] = field(default_factory=list)
    unknown: str | None = None


@dataclass(frozen=True, slots=True)
class Supposed:
    """The answer. ``begin``, ``end``: the first and last instant that it covers, in microseconds (``begin``: None for the first row).

    ``rows``: the rows that only one of the runs accepts, by their fates; ``rejected``: of ``--with``, what becomes of the rows of each
    reason; ``cannot_know``: what the answer does not cover; ``assumed``: what it takes as given.
    """

    plan: Plan
    change: Change
    begin: int | None
    end: int
    rows: list[dict[str, Any]]
    rejected: list[dict[str, Any]]
    queries: list[OfQuery]
    cannot_know: list[str]
    assumed: list[str]

    @property
    def known(self) -> bool:
        """Return True if the answer covers all that was asked."""
        return not self.cannot_know

    @property
    def count(self) -> int:
        """Return the number of differences."""
        return sum(len(q.found) for q in self.queries)


def what_if(
    plan: Plan, edited: Plan, change: Change, begin: int | None = None, end: int | None = None, query: str | None = None,
    read: Callable[[], SourceRows | None] | None = None, progress: Progress | None = None,
) -> Supposed:  # fmt: skip
    """Compare the results of the job with those that it would have with ``change``, at the instants from ``begin`` to ``end``.

    ``edited``: the plan of the edited spec (else ``plan``); ``query``: only this one. ``read``: reads the source without Spark.
    ``progress``: reports the stages. Nothing is written. Raises SkybandError SKY-E402 before the first run or for an ``end`` that is not
    complete yet, SKY-E301 if the source cannot be read again, SKY-E201 for a query, row or reason that does not exist; SpecErrors of
    SKY-E150 if the spec is not that of the last run.

    O(rows of the source) in memory, two runs of the operators in time.
    """
    require_readable(plan.sink)
    layout = Layout(plan.sink)
    job = layout.known()
    differences = changed_since(plan, layout)
    if differences:
        hint = "ask with the spec of the last run, and suppose an edit by --set"
        raise SpecErrors([SkybandError("SKY-E150", d, hint=hint) for d in differences])
    chosen = _chosen(plan, edited, query)
    stored = Stored(plan)
    check_reasons(change, sorted(pc.unique(stored.table("rejected")["reason"]).to_pylist()))
    until = _Until(stored, end)
    if begin is not None and begin > until.last:
        raise SkybandError("SKY-E201", f"--from {instant(begin)} is after the end of the range, {instant(until.last)}")

    def doing(text: str, done: Done | None = None) -> None:
        if progress is not None:
            progress.doing(text, done)

    doing("reading the source")
    judged = _judged(plan, edited, change, stored, layout, job, read or (lambda: read_rows(plan, layout)))
    was = run_rows(judged.as_is, until.last + 1, lambda done: doing("running the job as it is", done))
    now = run_rows(judged.changed, until.last + 1, lambda done: doing("running the job with the change", done))
    doing("comparing the results")
    fates = Fates(was.fates, now.fates)
    causes = Causes(plan, judged, fates)
    found = [_of_query(plan, edited, q, stored, was, now, until, causes, begin) for q in chosen]
    rejected = fates.of_rejected(stored.table("rejected"), change, until.last) if change.put_back else []
    unknown, assumed = list(_unknown(stored, rejected, found)), list(_assumed(judged, fates))
    return Supposed(plan, change, begin, until.last, fates.kinds(), rejected, found, unknown, assumed)


def _chosen(plan: Plan, edited: Plan, name: str | None) -> list[QueryNode]:
    names = [q.name for q in plan.every_query]
    new = [q.name for q in edited.every_query if q.name not in names]
    if new:
        raise SkybandError(
            "SKY-E201", f"the job has no query {one_of(new)} to compare with", hint="skyband preview shows what a query finds"
        )
    if name is None:
        return list(plan.every_query)
    found = [q for q in plan.every_query if q.name == name]
    if not found:
        raise SkybandError("SKY-E201", f"no query {name!r} in this spec", hint=did_you_mean(name, names) or f"queries: {one_of(names)}")
    return found


class _Until:
    """Up to which instant the results of a key are compared. ``last``: the last of these instants."""

    def __init__(self, stored: Stored, end: int | None) -> None:
        self._plan = stored.plan
        self._until = stored.until
        self._least = stored.frontier(min(stored.derived_upto(q) for q in stored.plan.queries)) - 1
        complete = max([*self._until.values(), self._least])
        if complete < 0:
            raise SkybandError("SKY-E402", "no result is complete yet", hint="run the job first")
        if end is not None and end > complete:
            hint = "use an earlier instant, or run the job on newer data"
            raise SkybandError("SKY-E402", f"results are complete only up to {instant(complete)}; {instant(end)} is later", hint=hint)
        self.last = complete if end is None else end

    def of(self, query: QueryNode, stream: Key) -> int:
        """Return the last instant of a stream."""
        return min(self._until.get(key_of(self._plan, query, stream), self._least), self.last)


def _judged(
    plan: Plan, edited: Plan, change: Change, stored: Stored, layout: Layout, job: JobFile, read: Callable[[], SourceRows | None]
) -> Judged:
    rejected = stored.table("rejected")
    local = read()
    if local is not None:
        try:
            return judge(plan, edited, local, rejected, change)
        except SkybandError as e:
            if e.code != "SKY-E531":
                raise
    return judge(plan, edited, SparkRows(plan, layout, job), rejected, change)


def _of_query(
    plan: Plan, edited: Plan, query: QueryNode, stored: Stored, was: Ran, now: Ran, until: _Until, causes: Causes, begin: int | None
) -> OfQuery:
    if query not in plan.queries:
        return OfQuery(query, unknown="it takes the result of another query, whose changes are not followed")
    differs = _not_reproduced(stored, query, was, until)
    if differs is not None:
        return OfQuery(query, unknown=differs)
    other = next((q for q in edited.queries if q.name == query.name), None)
    ran = was.tables[changes_name(query.name)]
    columns = columns_of(plan, query, ran)
    if (
        other is None
        or columns_of(edited, other, now.tables[changes_name(query.name)]).name != columns.name
        or other.item.parts != query.item.parts
    ):
        return OfQuery(query, unknown="with the change, its items are named by other columns")
    ranked = query.k is not None and other.k is not None
    before = streams(plan, query, was.tables, lambda k: until.of(query, k), ranked)
    after = streams(edited, other, now.tables, lambda k: until.of(query, k), ranked)
    found: list[tuple[Difference, Because]] = []
    for key in sorted(before.keys() | after.keys(), key=repr):
        mine = compare(key, query, before.get(key, Side()), after.get(key, Side()), ranked)
        of_stream = list(zip(mine, causes.of(query, other, mine), strict=True))
        found += [(kept, why) for d, why in of_stream for kept in clipped([d], begin, until.last)]
    found.sort(key=lambda x: (x[0].since, repr(x[0].key), x[0].kind, repr(x[0].name)))
    return OfQuery(query, columns, found)


def _not_reproduced(stored: Stored, query: QueryNode, was: Ran, until: _Until) -> str | None:
    """Return how the run without a change differs from the job's tables; None if it does not."""
    plan = stored.plan
    tables = [(changes_name(query.name), stored.changes(query, stored.changes_upto(query)), "changed_at")]
    if query.item.time_varying is not None:
        points = stored.table(trajectory_name(query.name))
        tables.append((trajectory_name(query.name), points, "valid_from"))
    for name, there, when in tables:
        made = was.tables[name]
        columns = columns_of(plan, query, made)
        named = list(columns.compared) if when == "changed_at" else [*columns.stream, *identity_columns(plan, query)]
        named += [when, "change"] if when == "changed_at" and query.item.lasting else [when]
        if query.item.time_varying is not None:
            named += [c for c in query.item.varying_columns if c not in named]
        ours, theirs = (Counter(_rows(query, plan, t, named, when, until)) for t in (made, there))
        if ours != theirs:
            lacks, more = (theirs - ours).total(), (ours - theirs).total()
            said = f"table {name} has {counted(lacks, 'row')} that the rows of the source do not give"
            return f"{said}, and lacks {counted(more, 'row')} that they give" if more else said
    return None


def _rows(query: QueryNode, plan: Plan, table: pa.Table, named: list[str], when: str, until: _Until) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of a table up to the end of the range, bit for bit."""
    keys = keys_of(table, stream_columns(plan, query))
    for key, at, row in zip(keys, micros(table, when), exact(table, named), strict=True):
        if (at or 0) <= until.of(query, key):
            yield row


def _unknown(stored: Stored, rejected: list[dict[str, Any]], found: list[OfQuery]) -> Iterator[str]:
    """Yield what the answer does not cover."""
    for q in found:
        if q.unknown is not None:
            yield f"the results of {q.query.name}: {q.unknown}"
    if any(q.unknown is not None for q in found) and not stored.settled:
        yield "whether this is because a batch is unfinished: let the job finish it, and ask again"
    lost = sum(r["not_found"] for r in rejected)
    if lost:
        yield f"what {counted(lost, 'rejected row')} would have done: {agree(lost, 'it is', 'they are')} not in the source that can be read"


def _assumed(judged: Judged, fates: Fates) -> Iterator[str]:
    """Yield what the answer takes as given."""
    if judged.unjudged:
        yield f"{counted(judged.unjudged, 'row')} that the change lets in came in time: the runs did not look"
    if fates.changed:
        yield _LATENESS
