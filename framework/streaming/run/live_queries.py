"""Take the requests for live queries at a batch boundary: all that wait at once, beside the job, swapped in when they are complete."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Final

from skyband.framework.base.counts import counted
from skyband.framework.base.errors import SkybandError, SpecErrors
from skyband.framework.base.failpoints import failpoint
from skyband.framework.plan.growth import Additions, live_changes
from skyband.framework.plan.live import MOST, Live, LiveQuery, from_instant, sections_of, too_many
from skyband.framework.plan.model import Plan
from skyband.framework.queries.registry import query_type
from skyband.framework.sources.logs import last_batch, watermark
from skyband.framework.streaming.bucket.bucket_states import States
from skyband.framework.streaming.job.edits import unreadable
from skyband.framework.streaming.job.layout import Layout
from skyband.framework.streaming.job.live_requests import Request, any_waiting, refuse, waiting
from skyband.framework.streaming.job.sent import Sent
from skyband.framework.streaming.rebuild.new_states import read, states_now
from skyband.framework.streaming.run.batch import Totals
from skyband.framework.streaming.run.context import OpenedJob, RunContext
from skyband.framework.tables.results.derive import batches_behind
from skyband.operators.base import NEVER

Replan = Callable[[Live], Plan]
"""Compiles the job's spec with live queries. Raises SpecErrors, or SkybandError."""
CHANGING: Final = "adding and removing queries"


@dataclass(frozen=True, slots=True)
class LiveQueries:
    """The live queries of a run. ``replan``: None if this run takes no requests."""

    context: RunContext
    replan: Replan | None

    def due(self, totals: Totals) -> bool:
        """Return True if requests wait, and the job has the state to which they apply."""
        if self.replan is None or totals.last_batch < 0:
            return False
        # A run asks often: the directory of requests first.
        if not any_waiting(self.context.layout):
            return False
        job = self.context.layout.load()
        return job is not None and bool(waiting(self.context.layout, job.live.taken))

    def ready(self) -> bool:
        """Return True if no batch is unfinished, and buckets have nothing deferred."""
        layout = self.context.layout
        planned, done = (last_batch(layout.checkpoint / log) for log in ("offsets", "commits"))
        return planned == done and not batches_behind(layout.root)

    def take(self, opened: OpenedJob) -> Plan:
        """Do all requests that wait, refuse those that cannot be done, and return the plan with the live queries.

        Only for a moment when the job is ``ready``. Raises SkybandError if the job's own state cannot be read. O(rows of the window), and
        O(rows of the source) if a state is made from it.
        """
        # It loads the compiler, which a run without requests does not need.
        from skyband.framework.streaming.rebuild import add_queries

        context, layout, plan, job = self.context, self.context.layout, opened.plan, opened.job
        assert self.replan is not None
        requests = _first_of_each(waiting(layout, job.live.taken))
        started = time.perf_counter()
        context.phase(CHANGING)
        begins = _boundary(layout, states_now(layout, job))
        asked = self._possible(plan, requests, begins)
        if asked is None:
            return plan
        new, found = asked
        try:
            Sent(layout, job).forget(found.queries)
            add_queries.add(lambda: context.spark, new, layout, job, found, context.engine.local, context.warn)
        except SkybandError as e:
            # The source cannot be read, or is not what it was: then all that needs it is refused, and the rest is done.
            needs = [r for r in requests if r.do == "add" and r.start == "backfill"]
            if not found.states or not needs:
                raise
            for request in needs:
                self._refuse(request, e)
            return plan
        failpoint("live.swapped")
        waiting(layout, new.live.taken)
        names = [f"+{n}" for n in found.queries] + [f"-{n}" for n in found.removed]
        seconds = time.perf_counter() - started
        many = counted(len(names), "live query", "live queries")
        context.tell(f"{many} after batch {last_batch(layout.checkpoint / 'commits')}: {' '.join(names)} ({seconds:.1f} s)")
        return new

    def _possible(self, plan: Plan, requests: Sequence[Request], begins: int) -> tuple[Plan, Additions] | None:
        """Return the plan with the requests that can be done, and what it changes; refuse the others. None if none is left."""
        with suppress(SkybandError, SpecErrors):
            return self._changed(plan, requests, begins)
        # At least one of them cannot be done.
        kept: list[Request] = []
        found = None
        for request in requests:
            try:
                found = self._changed(plan, [*kept, request], begins)
                kept.append(request)
            except (SkybandError, SpecErrors) as e:
                self._refuse(request, e.errors[0] if isinstance(e, SpecErrors) else e)
        return found

    def _changed(self, plan: Plan, requests: Sequence[Request], begins: int) -> tuple[Plan, Additions]:
        """Return the plan with the requests, and what it changes. Raises SpecErrors or SkybandError if they cannot be done."""
        assert self.replan is not None
        live = replace(_with(plan, requests, begins), texts=plan.texts)
        new = self.replan(live)
        if new.texts != plan.texts:
            # States with codes of texts are made from the source anyway: former constants need not keep theirs.
            new = self.replan(replace(live, texts=()))
        found = live_changes(plan, new)
        obstacle = unreadable(new, self.context.layout) if found.states else None
        if obstacle is not None:
            raise SkybandError("SKY-E591", f"the rows of the source are needed again: {obstacle}")
        if found.removed:
            batch = last_batch(self.context.layout.checkpoint / "commits")
            new = replace(new, live=replace(new.live, removed_at=batch))
        return new, found

    def _refuse(self, request: Request, error: SkybandError) -> None:
        refuse(self.context.layout, request, error)
        self.context.warn(f"the request to {request.do} query {request.name} is refused: {error.code} {error.message}")


def _first_of_each(requests: Sequence[Request]) -> list[Request]:
    """Return the requests before the first that adds a query which one of them removes: it needs a boundary of its own."""
    removed: set[str] = set()
    found = []
    for request in requests:
        if request.do == "add" and request.name in removed:
            break
        removed |= {request.name} if request.do == "remove" else set()
        found.append(request)
    return found


def _with(plan: Plan, requests: Sequence[Request], begins: int) -> Live:
    """Return the live queries of ``plan`` as the requests change them. Raises SkybandError SKY-E591 if there is no such query."""
    live = replace(plan.live, taken=max(r.number for r in requests))
    known = {q.name for q in plan.queries}
    for request in requests:
        if request.do == "remove":
            if request.name not in known:
                raise SkybandError("SKY-E591", f"the job has no query {request.name!r}", hint="skyband queries list SPEC")
            live = live.without(request.name)
            known.remove(request.name)
            continue
        if request.name in known or request.name in live.removed:
            raise SkybandError("SKY-E591", f"the job has a query {request.name!r} already", hint="give the new one another name")
        if len(live.queries) >= MOST:
            raise too_many(len(live.queries) + 1)
        live = replace(live, queries=(*live.queries, _begun(plan, request, begins)))
        known.add(request.name)
    return live


def _begun(plan: Plan, request: Request, begins: int) -> LiveQuery:
    """Return the query that a request adds; one that begins from now on takes rows from ``begins`` on."""
    if request.start == "backfill" or begins <= -NEVER // 2:
        return request.query
    kind = str(sections_of(request.text)["queries"][request.name].get("type"))
    text = from_instant(request.text, request.name, plan.intake.event_time, query_type(kind).sides, begins)
    return replace(request.query, text=text, begins=begins)


def _boundary(layout: Layout, states: States) -> int:
    """Return the event time in microseconds before which every bucket has processed all events. O(states)."""
    ends = [int(json.loads(read(layout, bucket, state)["core"])["until"]) for bucket, state in states.items()]
    return max([1000 * watermark(layout.checkpoint) or -NEVER, *ends])
