"""Run the parts of ``verify`` in order: losses, replay, reconciliation, source. Each part is reported as soon as it is done."""

from __future__ import annotations

import time as clock
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from skyband.framework.base.counts import agree, counted
from skyband.framework.base.errors import SkybandError, SpecErrors
from skyband.framework.base.reasons import TOO_FAR_AHEAD
from skyband.framework.base.table_names import QUERY_COLUMN
from skyband.framework.console.lines import Lines
from skyband.framework.plan.model import Plan, QueryNode
from skyband.framework.storage.sinks import HOME, require_readable
from skyband.framework.streaming.job.clocks import batch_clocks, recorded_rows
from skyband.framework.streaming.job.consistency import Loss, look, losses_text
from skyband.framework.streaming.job.layout import JobFile, Layout, changed_since
from skyband.framework.tables.schemas import changes_name, now_name, tables, trajectory_name
from skyband.framework.verify.brute_force.sample import compare
from skyband.framework.verify.budget import Budget, Clock, Progress, Sample
from skyband.framework.verify.differences import Difference, by_kind, format_differences, place
from skyband.framework.verify.reconciliation import compare_count, compare_row_counts
from skyband.framework.verify.replay.causes import Clocks
from skyband.framework.verify.replay.replay import replay
from skyband.framework.verify.shares import Share, number, summary, total_by_kind
from skyband.framework.verify.stored import Stored, micros, row_of, runs_gone

# Detect nulls where no run writes one: such a table cannot be replayed, so ``verify`` checks this first.


def missing_values(stored: Stored) -> list[Difference]:
    """Return the first null of every column that must have a value, and the names of queries that the spec does not have."""
    required = {table.name: table.required for table in tables(stored.job_plan)}
    found = [d for name in ("rejected", "runs") for d in _nulls(stored, name, required[name])]
    for query in stored.job_plan.every_query:
        for name in _tables(query):
            found += _nulls(stored, name, required[name])
            if query.members:
                known = pc.is_in(stored.table(name)[QUERY_COLUMN], pa.array(query.members))
                found += _first(stored, name, pc.invert(known), "the spec has no such query")
    return found


def _tables(query: QueryNode) -> Iterator[str]:
    yield changes_name(query.name)
    if query.item.lasting:
        yield query.name
        yield now_name(query.name)
    if query.item.varies:
        yield trajectory_name(query.name)


def _nulls(stored: Stored, name: str, columns: Iterable[str]) -> Iterator[Difference]:
    table = stored.table(name)
    for column in columns:
        if column in table.column_names and table[column].null_count:
            yield from _first(stored, name, pc.is_null(table[column]), f"a value is missing: {column}")


def _first(stored: Stored, name: str, wrong: pa.ChunkedArray, said: str) -> Iterator[Difference]:
    where = pc.index(pc.fill_null(wrong, True), True).as_py()
    if where >= 0:
        yield Difference(place(f"table {name}"), said, None, [row_of(stored.table(name), where)])


# Compare the rows that were too far ahead, and the newest event times, with the clocks that ``runs`` has recorded.


def compare_clocks(stored: Stored) -> Iterator[Difference]:
    """Yield the batches that rejected rows which were not too far ahead, or took rows which were. O(rejected rows)."""
    runs = stored.table("runs")
    latest = {batch: found.latest for batch, found in batch_clocks(runs).items()}
    table = stored.table("rejected")
    far = table.filter(pc.equal(table["reason"], TOO_FAR_AHEAD))
    earlier = {(r["origin"], r["event_time"]) for r in recorded_rows(Path(stored.root, HOME)).to_pylist()} if far.num_rows else set()
    wrong: dict[int, int] = {}
    for batch, origin, at in zip(far["batch_id"].to_pylist(), far["origin"].to_pylist(), micros(far, "event_time"), strict=True):
        # A rebuilt generation judges some rows by earlier clocks.
        if batch in latest and at is not None and at <= latest[batch] and (origin, at) not in earlier:
            wrong[batch] = wrong.get(batch, 0) + 1
    for batch, n in sorted(wrong.items()):
        yield Difference("table rejected", f"{counted(n, 'row')} of batch {batch} {agree(n, 'is', 'are')} not too far ahead of its clock")
    before: int | None = None
    for batch, newest in sorted(zip(runs["batch_id"].to_pylist(), micros(runs, "newest"), strict=True), key=lambda r: r[0]):
        if newest is not None and newest != before and newest > latest.get(batch, newest):
            yield Difference(f"table runs, batch {batch}", "newest is further ahead of the batch's clock than it allowed")
        before = newest


@dataclass(slots=True)
class Verified:
    """The outcome of ``verify``.

    ``unproved``: why nothing could be compared, None if something was. ``parts``: the reported lines with their figures. ``shares``: how
    much has been compared, by kind of proof and query (``shares.Share.plain``). ``kinds``: of each kind of difference the ``kind``, the
    ``first`` in words, and how many there are (``count``).
    """

    job: str
    differences: int = 0
    unproved: str | None = None
    parts: list[dict[str, Any]] = field(default_factory=list)
    shares: list[dict[str, Any]] = field(default_factory=list)
    kinds: list[dict[str, Any]] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Return True if something was compared and nothing differs."""
        return not self.differences and self.unproved is None


def verify(
    plan: Plan, sample: Sample | None, lines: Lines, time: Clock = clock.monotonic, kept: list[Difference] | None = None
) -> Verified:
    """Replay all changes, reconcile the row counts, and compare a ``sample`` of results with brute force (None: do not read the source).

    Every part is reported to ``lines``, and so is progress if a part takes long. ``time`` measures the seconds of the sample. All
    differences are added to ``kept``. Raises SpecErrors of SKY-E150 if the spec is not that of the last run, and SkybandError SKY-E402
    before the first run. O(changes of the job, plus the source if it is read).
    """
    with Progress(lines) as progress:
        asked = sample is not None and sample.seconds is not None
        budget = Budget(None if sample is None else sample.limit, time, asked)
        return _Verification(plan, lines, progress, budget, [] if kept is None else kept).all(sample)


class _Verification:
    def __init__(self, plan: Plan, lines: Lines, progress: Progress, budget: Budget, kept: list[Difference]) -> None:
        self.plan = plan
        self.lines = lines
        self.progress = progress
        self.budget = budget
        self.kept = kept
        self.found = Verified(plan.job)
        self.shares: list[Share] = []
        self.changed: list[Loss] = []

    def all(self, sample: Sample | None) -> Verified:
        require_readable(self.plan.sink)
        layout = Layout(self.plan.sink)
        job = layout.known()
        hint = "verify with the spec and the tables of queries of the last run"
        changed = [SkybandError("SKY-E150", d, hint=hint) for d in changed_since(self.plan, layout)]
        if changed:
            raise SpecErrors(changed)
        consistency = look(self.plan, layout, job)
        lost = [x for x in consistency.losses if not x.changed]
        if lost or consistency.ahead:
            self.found.differences += max(1, len(lost))
            self.report("lost", f"DIFFERENT: {consistency.ahead or losses_text(lost)}", losses=len(lost))
            return self.found
        self.changed = [x for x in consistency.losses if x.changed]
        if self.changed:
            # Go on: whether the rows still agree with the changes is worth knowing.
            self.report("changed", f"DIFFERENT: {losses_text(self.changed)}", tables=len(self.changed))
        self.progress.doing("reading the tables")
        stored = Stored(self.plan)
        differences = missing_values(stored)
        if differences:
            self._differ(differences)
            self.report("different", f"DIFFERENT\n{format_differences(differences)}", differences=len(differences))
            self._end(None)
            return self.found
        self.budget.replaying(alone=sample is None)
        clocks = Clocks(stored)
        nothing = None if self._changes(stored, clocks) else "the tables hold no change of any result"
        self._reconcile(stored, clocks)
        if sample is not None:
            if not self.budget.never_late():
                self._count(stored, layout, job)
            try:
                nothing = self._source(stored, clocks, layout, job, sample)
            except SkybandError as e:
                if e.code != "SKY-E301":
                    raise
                self.report("not_compared", f"not compared with the source: {e.message}")
        self._end(nothing)
        return self.found

    def report(self, event: str, text: str, **figures: Any) -> None:
        """Report one part of the outcome at once, and keep it for ``Verified.parts``."""
        self.found.parts.append({"part": event, "said": text, **figures})
        self.lines.report(event, text, **figures)

    def _differ(self, differences: Sequence[Difference]) -> None:
        self.kept += differences
        self.found.differences += len(differences)

    def _changes(self, stored: Stored, clocks: Clocks) -> int:
        """Replay the changes of every query; return how many there are."""
        changes = 0
        todo = [(one, query) for one in stored.parts() for query in one.plan.queries]
        every = sum(part.changes(query, part.changes_upto(query)).num_rows for part, query in todo)
        self.progress.doing("replaying the changes", lambda: (changes, every))
        for part, query in todo:
            found = replay(part, query, clocks.part(part), self.budget)
            changes += found.total
            self.shares.append(Share("changes", query.name, found.changes, found.total))
            self._differ(found.differences)
            same = f"equal to table `{query.name}`" if query.item.lasting else "each item reported once"
            verdict = f"DIFFERENT\n{format_differences(found.differences)}" if found.differences else same
            if found.changes < found.total and not found.differences:
                verdict = f"the time was over before the other {found.total - found.changes:,}"
            text = f"{query.name}: replayed {number(found.changes, 'changes')} in {number(found.steps, 'steps')}: {verdict}"
            figures = {"query": query.name, "changes": found.changes, "steps": found.steps, "differences": len(found.differences)}
            self.report("replayed", text, **figures)
        return changes

    def _reconcile(self, stored: Stored, clocks: Clocks) -> None:
        self.progress.doing("reconciling the row counts of batches")
        gone = runs_gone(stored)
        if gone is not None:
            self.report("runs_gone", f"runs: {gone}")
        differences = [d for part in stored.parts() for d in clocks.part(part).differences]
        differences += [*compare_row_counts(stored, clocks), *compare_clocks(stored)]
        self._differ(differences)
        batches = len(set(stored.table("runs")["batch_id"].to_pylist()))
        self.shares.append(Share("batches", None, batches, stored.last_batch + 1))
        agree = "runs, heads and rejected agree with the other tables"
        verdict = f"DIFFERENT\n{format_differences(differences)}" if differences else agree
        self.report("books", f"row counts: {verdict}", differences=len(differences))

    def _count(self, stored: Stored, layout: Layout, job: JobFile) -> None:
        rows, differences = compare_count(stored, layout, job)
        self._differ(differences)
        if rows is not None:
            agree = f"{counted(rows, 'row')} counted in its files, as many as in table runs"
            verdict = f"DIFFERENT\n{format_differences(differences)}" if differences else agree
            self.report("counted", f"source: {verdict}", rows=rows, differences=len(differences))

    def _source(self, stored: Stored, clocks: Clocks, layout: Layout, job: JobFile, sample: Sample) -> str | None:
        """Compare a sample with the source; return why nothing could be compared, None if something was."""
        started = self.budget.spent
        found = compare(stored, clocks, layout, job, sample, self.budget, self.progress)
        if found.out_of_time:
            self.report("out_of_time", f"the {sample.seconds:g} s were over before all was compared (--seconds)", seconds=sample.seconds)
        if found.missing is not None:
            self.report("not_compared", f"not compared with the source: {found.missing}")
        if found.out_of_time and not found.keys:
            replayed = any(s.proven for s in self.shares if s.kind == "changes")
            return None if replayed else "the time was over before anything was compared"
        self.shares += found.shares
        wrong = len(found.differences)
        self._differ(found.differences)
        if wrong:
            first = found.differences[0]
            self.report("different", f"DIFFERENT from the source\n{format_differences(found.differences)}", differences=wrong, at=first.at)
        spent = self.budget.spent - started
        by = f" (read by {found.reader})" if found.reader is not None else ""
        left_out = f", {found.skipped:,} left out (window too large for brute force)" if found.skipped else ""
        taken = f" and {number(found.stream_rows, 'rows')} that results make up" if self.plan.streams else ""
        self.report(
            "compared",
            f"source{by}: {number(found.rows, 'accepted rows')}{taken} of {found.keys:,} of {number(found.of_keys, 'keys')}, "
            f"{number(found.results, 'results')} and the changes of {number(found.steps, 'instants')} recomputed by brute force{left_out}, "
            f"{wrong:,} different ({spent:.1f} s)",
            rows=found.rows,
            reader=found.reader,
            stream_rows=found.stream_rows,
            keys=found.keys,
            results=found.results,
            steps=found.steps,
            left_out=found.skipped,
            differences=wrong,
            seconds=round(spent, 3),
        )
        if not found.rows and not found.stream_rows and not found.out_of_time:
            return "the job has accepted no row of the source"
        large = " (each window is too large for brute force)" if found.skipped else ""
        return None if found.results else f"no result has been recomputed{large}"

    def _end(self, nothing: str | None) -> None:
        if not self.found.differences:
            self.found.differences += len(self.changed)
        wrong = self.found.differences
        self.found.shares = [s.plain() for s in self.shares]
        self.found.kinds = [{"kind": kind, "count": len(mine), "first": mine[0].text()} for kind, mine in by_kind(self.kept).items()]
        for share in total_by_kind(self.shares):
            if share.total:
                self.report("proven", share.text(differs=wrong > 0), **{k: v for k, v in share.plain().items() if k != "query"})
        if nothing is not None and not wrong:
            self.found.unproved = nothing
            text = f"NOTHING SHOWN: {nothing}, so nothing has been verified; see tables `rejected` and `runs`"
            self.report("nothing_shown", text)
            return
        kinds = f" of {counted(len(self.found.kinds), 'kind')}" if len(self.found.kinds) > 1 else ""
        text = "verified: no difference found" if not wrong else f"DIFFERENT: {counted(wrong, 'difference')}{kinds} found"
        self.report("verified", ": ".join(filter(None, (text, summary(self.shares, wrong > 0)))), differences=wrong)
