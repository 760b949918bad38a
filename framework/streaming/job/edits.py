"""Predict the effect of an edited spec on its job: whether the next run continues, and what starting again would cost."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Literal

import pyarrow.compute as pc

from skyband.framework.base.counts import counted
from skyband.framework.base.errors import SkybandError, SpecErrors
from skyband.framework.base.table_names import every_table
from skyband.framework.plan.growth import Additions, additions
from skyband.framework.plan.model import Plan
from skyband.framework.sources.logs import last_batch
from skyband.framework.sources.registry import source_format
from skyband.framework.storage import delta_read
from skyband.framework.storage.sinks import require_readable
from skyband.framework.streaming.job.accepting_rules import rules_of
from skyband.framework.streaming.job.checkpoint import whole
from skyband.framework.streaming.job.consistency import check
from skyband.framework.streaming.job.generations import bytes_in, gone_files
from skyband.framework.streaming.job.layout import JobFile, Layout, changed_since, grows
from skyband.framework.tables.delta.expected_columns import need_columns
from skyband.framework.tables.results.derive import batches_behind
from skyband.framework.tables.schemas import fixed_schema, skyband_name

Verdict = Literal["first run", "nothing", "rules", "buckets", "added", "queries", "state"]
SAYS: Final[dict[str, str]] = {
    "first run": "nothing has run yet: the next run starts from the beginning of the source",
    "nothing": "the state fits: the next run goes on from where the last one ended",
    "rules": "the state fits: the next run goes on from where the last one ended, and judges the rows that come from then on by the new "
    "row rules, or reads them with the new options; rows that were accepted or rejected before stay so",
    "buckets": "only the number of buckets has grown: the next run divides the state among them and goes on from where the last one ended",
    "added": "only queries have come: they can be made alone, from the rows that the job has accepted so far. The next run refuses until "
    "they are",
    "queries": "only queries have come or gone: the next run refuses",
    "state": "what the job has kept was made for another spec: the next run refuses",
}


@dataclass(frozen=True, slots=True)
class Cost:
    """What the job's rows have taken so far, which is what making everything again has to be reckoned with.

    Of the batches that table ``runs`` still has (``run.keep``); ``seconds`` are those of the batches, without Spark's start.
    """

    rows: int
    batches: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Edit:
    """``verdict``: see ``SAYS``. ``differences`` as the next run would tell them; ``cost``: of starting again, None if it need not.

    Of ``added``: ``states`` are those that have to be made from the first row on, ``again`` the queries of before that have a part in
    them, ``stands_in_the_way`` says why that cannot be done now. ``moves``: the bytes on disk of the state that ``buckets``
    divides.
    """

    job: str
    verdict: Verdict
    differences: list[str] = field(default_factory=list)
    added: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    cost: Cost | None = None
    states: list[str] = field(default_factory=list)
    again: list[str] = field(default_factory=list)
    stands_in_the_way: str | None = None
    moves: int | None = None

    @property
    def fits(self) -> bool:
        """Return True if the next run continues (or is the first)."""
        return self.verdict in ("first run", "nothing", "rules", "buckets")


def edited(plan: Plan) -> Edit:
    """What ``plan`` does to the job in its sink. Only reads. SkybandError SKY-E303 and SKY-E307 if that is none of this version.

    Checks, schedule, trigger and sizes of batches are in no state: they may change at any time, and are not compared. O(rows of ``runs``).
    """
    require_readable(plan.sink)
    layout = Layout(plan.sink)
    job = layout.load()
    if job is None:
        return Edit(plan.job, "first run")
    more = grows(plan, job)
    if more is not None and more.error is None:
        differences = [f"run.buckets was {more.was}, now {more.now}"]
        return Edit(plan.job, "buckets", differences, moves=bytes_in(layout.checkpoint / "state" if job.spark_keeps else layout.state))
    differences = changed_since(plan, layout)
    if not differences:
        return Edit(plan.job, "rules" if job.rules != rules_of(plan, job.salt) else "nothing")
    before, now = set(job.fingerprint.get("queries", {})), [q.name for q in plan.every_query]
    added, removed = [n for n in now if n not in before], sorted(before - set(now))
    named = tuple(f"queries.{n} " for n in (*added, *removed))
    found = additions(job.fingerprint, plan, job.salt)
    if found is not None:
        states, again = list(found.states), list(found.again)
        return Edit(plan.job, "added", differences, added, [], _cost(layout), states, again, unreadable(plan, layout))
    only = bool(named) and all(d.startswith(named) for d in differences)
    return Edit(plan.job, "queries" if only else "state", differences, added, removed, _cost(layout))


def addable(plan: Plan, layout: Layout, job: JobFile) -> Additions | None:
    """What ``plan`` has more than the job, which can be made alone; None if it fits as it is.

    Raises SpecErrors of SKY-E580 if it differs in more, SkybandError SKY-E580 if something stands in the way, SKY-E303 and SKY-E304 if
    the job has lost something.
    """
    differences = changed_since(plan, layout)
    if not differences:
        return None
    found = additions(job.fingerprint, plan, job.salt)
    if found is None:
        named = tuple(f"queries.{q.name} is new" for q in plan.every_query)
        hint = "skyband rebuild SPEC (without --added) rebuilds everything; or edit in two steps"
        raise SpecErrors(
            [SkybandError("SKY-E580", f"not only queries have come: {d}", hint) for d in differences if not d.startswith(named)]
        )
    obstacle = unreadable(plan, layout)
    if obstacle is not None:
        raise SkybandError("SKY-E580", f"the new queries cannot be made alone: {obstacle}")
    whole(layout.checkpoint, layout.control, job.partitions, job.finishes, job.state_steps)
    states = [skyband_name(n) for n in found.states if n not in job.fingerprint["states"]]
    check(plan, layout, job, coming=[*(t for q in found.queries for t in every_table(q)), *states])
    return found


def unreadable(plan: Plan, layout: Layout) -> str | None:
    """Return why the queries cannot be backfilled alone, and what to do."""
    if plan.streams:
        taken = ", ".join(q.name for s in plan.streams for q in s.plan.queries)
        return f"the job has queries over the results of others ({taken}), whose states are made with all others: skyband rebuild does that"
    if source_format(plan.source.format).once:
        return f"a {plan.source.format} source is not read again; skyband rebuild rebuilds everything"
    planned, done = (last_batch(layout.checkpoint / log) for log in ("offsets", "commits"))
    if planned > done:
        return f"batch {planned} is unfinished: run the job once with its former spec"
    if batches_behind(layout.root):
        return "the last run was stopped before its end: run the job once with its former spec"
    gone, known = gone_files(layout)
    if gone:
        return f"{gone:,} of the {counted(known, 'file')} that the job has read are gone: put them back"
    return None


def _cost(layout: Layout) -> Cost | None:
    try:
        table = delta_read.open_table(layout.root, "runs")
        need_columns(table, "runs", fixed_schema("runs"), ["rows_in", "batch_ms"])
        runs = delta_read.read(table, ["rows_in", "batch_ms"])
    except SkybandError:
        return None
    rows, spent = (pc.sum(runs[c]).as_py() or 0 for c in ("rows_in", "batch_ms"))
    return Cost(rows, runs.num_rows, round(spent / 1000, 3))
