"""Check queries over queries: what they take, and that no query takes its own result."""

from __future__ import annotations

from typing import Any, Final

from skyband.framework.base.errors import did_you_mean, one_of
from skyband.framework.base.stream_columns import cause, instant, membership, sign
from skyband.framework.queries.models import QueryModel
from skyband.framework.spec.chains import (
    CONTRADICTING,
    Division,
    StreamJob,
    Takes,
    cycle,
    divided,
    identity,
    item_columns,
    item_of,
    taken,
)
from skyband.framework.spec.checks.scope import Scope
from skyband.framework.spec.models.job import Job
from skyband.framework.spec.parsing.document import Path

_WORDS: Final = {"entries": "from", "members": "of"}


def check_chains(s: Scope) -> list[Scope]:
    """Report all errors of what queries take; return the scope of the source's rows, then those of the results that are taken."""
    without = _without_input(s)
    if not without and all(taken(s.job, q) is None for q in s.job.queries.values()):
        return [s]
    for name, query in s.job.queries.items():
        found = taken(s.job, query)
        if found is not None and not s.doc.bad(("queries", name)):
            _check(s, ("queries", name), query, *found)
    for name in without:
        # Its columns are not known: it is checked once the query whose result it takes has no mistakes.
        s.of_stream(_only(s.job, {name}), {}, False, name)
    division = divided(_only(s.job, set(s.job.queries) - without), s.types)
    scopes = [s.of_job(division.job)]
    for one in division.streams:
        known = not s.doc.bad_below(("queries", one.stream.of))
        if known:
            _check_columns(s, one, division)
        scopes.append(s.of_stream(one.job, one.types, known, one.stream.of))
    return scopes


def _without_input(s: Scope) -> set[str]:
    """Return the queries that take the result of a query with mistakes, directly or through others. O(queries ** 2)."""
    found: set[str] = set()
    inputs = {name: getattr(query, "of", None) or query.source for name, query in s.job.queries.items()}
    while True:
        more = {n for n, of in inputs.items() if of is not None and of not in s.job.sources and (of in found or s.has_mistakes(str(of)))}
        if more <= found:
            return found
        found |= more


def _only(job: Job, names: set[str]) -> Job:
    """Return the job with the queries ``names`` and the scoring functions that no other query uses alone."""
    others = {s for n, q in job.queries.items() if n not in names and (s := getattr(q, "scoring", None)) is not None}
    used = {s for n, q in job.queries.items() if n in names and (s := getattr(q, "scoring", None)) is not None}
    scoring = {n: s for n, s in job.scoring.items() if n in used or n not in others}
    return job.model_copy(update={"queries": {n: q for n, q in job.queries.items() if n in names}, "scoring": scoring})


def _check_columns(s: Scope, one: StreamJob, division: Division) -> None:
    """Report objects that the entries of a result do not have, and two columns of one name."""
    doc, of, stream = s.doc, one.stream.of, one.stream
    entries = list(item_columns(of, s.job.queries[of], division.home(of), stream.takes).values())
    names = [*entries, sign(of), cause(of)]
    if stream.takes == "members":
        names = [*dict.fromkeys((*division.home(of).source.partition_by, *stream.objects)), membership(of)]
        for query in stream.queries:
            for i, name in enumerate(stream.objects):
                short: Path = ("queries", query, "object")
                at = short if (*short, i) not in doc.places else (*short, i)
                if name not in entries and not doc.bad(at):
                    hint = did_you_mean(name, entries) or f"columns: {one_of(entries, 20)}"
                    doc.add("SKY-E120", f"the result of '{of}' has no column '{name}'", doc.where_value(at), hint)
    lower = [n.lower() for n in (*names, instant(of))]
    twice = next((n for n in lower if lower.count(n) > 1), None)
    if twice is not None:
        said = f"the result of '{of}' has a column '{twice}' already, which is what Skyband calls one of its own here"
        hint = f"rename the query '{of}', or the column, or leave it out of the query's 'carry'"
        doc.add("SKY-E125", said, doc.where_value(("queries", stream.queries[0], _WORDS[stream.takes])), hint)


def _check(s: Scope, path: Path, query: QueryModel, of: str, takes: Takes) -> None:
    doc, name, at = s.doc, str(path[-1]), (*path, _WORDS[takes])
    if doc.bad(at):
        return
    other = s.job.queries.get(of)
    if s.has_mistakes(of):
        return
    if other is None:
        hint = did_you_mean(of, [q for q in s.job.queries if q != name]) or f"queries: {one_of([q for q in s.job.queries if q != name])}"
        doc.add("SKY-E120", f"there is no query '{of}'", doc.where_value(at), hint)
        return
    around = cycle(s.job, name)
    if around is not None:
        if around[0] == name:
            said = f"queries take each other's results in a circle: {' <- '.join(around)}"
            doc.add("SKY-E117", said, doc.where_value(at), "let one of them take the source's rows")
        return
    for table, where in ((other, doc.where_value(at)), (query, doc.where_key((*path, "queries_from")))):
        if getattr(table, "queries_from", None) is not None:
            doc.add("SKY-E117", "a table of queries neither takes a result nor gives one", where, "spell out the query under 'queries:'")
            return
    if takes == "members":
        _check_members(s, path, query, of, other)


def _check_members(s: Scope, path: Path, query: Any, of: str, other: QueryModel) -> None:
    doc, at = s.doc, (*path, "of")
    for field in CONTRADICTING:
        if getattr(query, field) is not None and not doc.bad_below((*path, field)):
            said = f"with 'of' an object is on while it is in the result of '{of}'; '{field}' says otherwise"
            doc.add("SKY-E117", said, doc.where_key((*path, field)), f"leave out '{field}', or 'of'")
    if query.source is not None and not doc.bad((*path, "from")):
        doc.add("SKY-E117", "'from' and 'of' cannot be used together", doc.where_key((*path, "from")), "leave one of them out")
    if not item_of(other).lasting:
        hint = "take a query whose items enter and leave its result"
        doc.add("SKY-E117", f"items of '{of}' are reported once, and are in no result", doc.where_value(at), hint)
    if query.object is None and not doc.bad((*path, "object")):
        known = identity(other, s.job)
        hint = f"such as object: {known[0]}" if known else "the column that names the object"
        said = f"the result of '{of}' consists of rows: which column names the object that a row is about?"
        doc.add("SKY-E111", f"'object' is missing: {said}", doc.where_key(path), hint)
