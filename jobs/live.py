"""Requests for live queries and what is known of a job's queries: for the command ``queries`` and for Python."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from skyband.framework.base.errors import SkybandError, SpecErrors, did_you_mean, one_of
from skyband.framework.plan.live import MOST, Live, LiveQuery, Start, entries, instant, sections, spelled, too_many
from skyband.framework.spec.parsing.live_parts import LivePart
from skyband.framework.spec.parsing.recovery import MAX_BYTES
from skyband.jobs.spec import SpecText

if TYPE_CHECKING:
    from skyband.framework.plan.model import Plan
    from skyband.framework.streaming.job.layout import JobFile, Layout
    from skyband.framework.streaming.job.live_requests import Request

GIVEN: Final = "<queries>"
"""The name of queries that Python gives, in messages."""


@dataclass(frozen=True, slots=True)
class KnownQuery:
    """A query of a job. ``origin``: spec or live. ``state``: running, removed, waiting to be added or removed, or refused.

    ``since``: when it came or was requested (ISO 8601; None: with the job). ``start``: backfill or from_now, None for one of the spec.
    ``begins``: for from_now the first event time that takes part. ``changes``: rows of its table of changes, None if there is none.
    ``reason``: why it was refused.
    """

    name: str
    type: str
    origin: str
    state: str
    since: str | None
    start: str | None = None
    begins: str | None = None
    changes: int | None = None
    reason: str | None = None


class LiveJob:
    """The queries of the job of a spec, as they are and as they have been requested. Reads the sink when it is made."""

    def __init__(self, text: SpecText, command: str) -> None:
        """Raises SpecErrors; SkybandError SKY-E591 if the job has not run yet, SKY-E632 on object storage, SKY-E205 for another job."""
        from skyband.framework.storage.location import require_local
        from skyband.framework.storage.sinks import require_readable
        from skyband.framework.streaming.job.layout import Layout
        from skyband.framework.streaming.job.live_requests import peek

        found = text.validated()
        if found.job is None:
            raise SpecErrors(found.errors)
        self.text, self.job = text, found.job
        require_local(self.job.sink.path, command)
        require_readable(self.job.sink.path)
        self.layout: Layout = Layout(self.job.sink.path)
        kept = self.layout.load()
        if kept is None:
            hint = "run it first, or put the query into the spec: skyband run SPEC"
            raise SkybandError("SKY-E591", f"the job has not run yet: there is none at {self.layout.root}", hint=hint)
        if kept.job != self.job.job:
            raise SkybandError("SKY-E205", f"the sink {self.layout.root} is that of job {kept.job!r}", "see sink.path of the spec")
        self.kept: JobFile = kept
        self.live: Live = kept.live.with_spec(self.job.queries)
        self.requests: list[Request] = peek(self.layout, kept.live.taken)

    @property
    def waiting(self) -> list[Request]:
        """Return the requests that wait."""
        return [r for r in self.requests if not r.refused]

    def coming(self) -> Live:
        """Return the live queries once all requests that wait have been done."""
        live = self.live
        for request in self.waiting:
            if request.do == "remove":
                live = live.without(request.name)
            elif request.name not in live.names:
                live = Live((*live.queries, request.query), tuple(n for n in live.removed if n != request.name), live.texts, live.taken)
        return live

    def names(self, live: Live) -> list[str]:
        """Return the names of the queries of the spec and of ``live``."""
        of_spec = [n for n in self.job.queries if n not in live.removed]
        return [*of_spec, *(n for n in live.names if n not in of_spec)]

    def add(self, part: LivePart, start: Start) -> list[str]:
        """Request the queries of ``part``, and return their names. Raises SpecErrors with all of its mistakes, SkybandError SKY-E591."""
        from skyband.framework.streaming.job.live_requests import Request, now, put

        live = self.coming()
        found = self.text.validated(live, part)
        if found.job is None or found.document is None:
            raise SpecErrors(found.errors)
        names = [n for n in found.job.queries if n not in self.names(live)]
        again = [n for n in names if n in self.job.queries]
        if again:
            hint = "give it another name, or remove the entry from the spec too"
            raise SkybandError("SKY-E591", f"the spec still has the query {again[0]!r}, which was removed", hint)
        if len(live.queries) + len(names) > MOST:
            raise too_many(len(live.queries) + len(names))
        data = found.document.data
        texts = entries({"queries": {n: data["queries"][n] for n in names}, "scoring": self._own_scoring(data.get("scoring") or {})})
        at = now()
        try:
            queries = tuple(LiveQuery(n, t, start, at) for n, t in texts.items())
        except ValueError as e:
            raise SkybandError("SKY-E591", f"a query is too long: {e}") from e
        # An operator may refuse what the spec's checks allow.
        _none_over_results(self.text.with_live(Live((*live.queries, *queries), live.removed, live.texts)))
        put(self.layout, [Request("add", q.name, at, q.text, start) for q in queries], self.kept.live.taken)
        return names

    def _own_scoring(self, scoring: Mapping[str, Any]) -> dict[str, Any]:
        """Return the scoring functions that the spec does not have."""
        return {n: f for n, f in scoring.items() if n not in self.job.scoring}

    def remove(self, names: Sequence[str]) -> None:
        """Request that queries be removed. Raises SkybandError SKY-E591 for a name that the job does not have, or if none would be left."""
        from skyband.framework.streaming.job.live_requests import Request, now, put, withdraw

        live = self.coming()
        known = self.names(live)
        refused = {r.name: r for r in self.requests if r.refused}
        for name in dict.fromkeys(names):
            if name not in known and name not in refused:
                hint = did_you_mean(name, known) or f"its queries: {one_of(known)}"
                raise SkybandError("SKY-E591", f"the job has no query {name!r}", hint=hint)
        gone = [n for n in dict.fromkeys(names) if n in known]
        if gone and set(known) <= set(gone):
            raise SkybandError("SKY-E591", "a job keeps at least one query", hint="skyband reset SPEC removes all that the job has left")
        for name in gone:
            live = live.without(name)
        if gone:
            _none_over_results(self.text.with_live(self.live))
            self.text.with_live(live)
        for name in (n for n in names if n in refused):
            withdraw(self.layout, refused[name])
        put(self.layout, [Request("remove", n, now()) for n in gone], self.kept.live.taken)

    def known(self) -> list[KnownQuery]:
        """Return the queries of the job: those of the spec, then live ones, then what was refused or is removed."""
        doing = {r.name: f"waiting to be {'added' if r.do == 'add' else 'removed'}" for r in self.waiting}
        merged = self.text.validated(self.live)
        types = {n: q.type for n, q in (merged.job.queries if merged.job is not None else {}).items()}
        live = {q.name: q for q in self.live.queries}
        there = self.kept.fingerprint.get("queries", {})
        found = []
        for name in self.names(self.live):
            q, running = live.get(name), "running" if name in there else "not in the job: the next run refuses it"
            found.append(
                KnownQuery(
                    name,
                    types.get(name, "?"),
                    "spec" if q is None or q.in_spec else "live",
                    doing.get(name, running),
                    None if q is None else q.since,
                    None if q is None else q.start,
                    _instant(q),
                    self._changes(name),
                )
            )
        for r in self.waiting:
            if r.do == "add" and r.name not in live:
                found.append(KnownQuery(r.name, _type(r.query), "live", "waiting to be added", r.at, r.start))
        found += [KnownQuery(n, self.job.queries[n].type, "spec", "removed", None) for n in self.live.removed]
        found += [KnownQuery(r.name, "?", "live", "refused", r.at, r.start, reason=r.refused) for r in self.requests if r.refused]
        return found

    def exported(self) -> dict[str, Any]:
        """Return the sections of all live queries that the spec does not have."""
        return sections(Live(tuple(q for q in self.live.queries if not q.in_spec)))

    def _changes(self, query: str) -> int | None:
        from skyband.framework.storage import delta_read

        try:
            return delta_read.open_table(self.layout.root, f"{query}_changes").count()
        except SkybandError:
            return None


def _none_over_results(plan: Plan) -> None:
    """Raise SkybandError SKY-E591 for a job with queries over results: their states cannot be backfilled, or removed one by one."""
    if plan.streams:
        name, of = plan.streams[0].plan.queries[0].name, plan.streams[0].of
        said = f"query {name!r} takes the result of {of!r}: a job with queries over results has no live queries"
        raise SkybandError("SKY-E591", said, hint="edit the spec, and make its results again: skyband rebuild SPEC")


def part_of(path: str) -> LivePart:
    """Return the file of queries at ``path``. Raises SkybandError SKY-E590 if it cannot be read as text."""
    try:
        with open(path, "rb") as file:
            raw = file.read(MAX_BYTES + 1)
        if len(raw) > MAX_BYTES:
            raise SkybandError("SKY-E590", f"{path}: the file is larger than {MAX_BYTES // 1024} KB", hint="add the queries in parts")
        return LivePart(os.fspath(Path(path)), raw.decode("utf-8"), new=True)
    except OSError as e:
        raise SkybandError("SKY-E590", f"{path}: {(e.strerror or 'cannot be read').lower()}", "give a file with queries:") from e
    except ValueError as e:
        raise SkybandError("SKY-E590", f"{path} is not UTF-8 text", "save it as UTF-8") from e


def part_from(queries: Mapping[str, Any], scoring: Mapping[str, Any] | None) -> LivePart:
    """Return queries that Python gives. Raises SkybandError SKY-E201 if they are not plain data."""
    try:
        return LivePart(GIVEN, spelled({"queries": dict(queries), **({"scoring": dict(scoring)} if scoring else {})}), new=True)
    except (TypeError, ValueError) as e:
        hint = "give entries as in a spec: a dict of names and queries"
        raise SkybandError("SKY-E201", "queries takes a mapping of names to entries", hint=hint) from e


def _type(query: LiveQuery) -> str:
    return str(sections(Live((query,)))["queries"][query.name].get("type", "?"))


def _instant(query: LiveQuery | None) -> str | None:
    return None if query is None or query.begins is None else instant(query.begins)
