"""Queries over queries: divide a job into its own queries and the streams that results make up, each with its queries.

The entries of a result are the rows of a stream (``from: QUERY``): an item that enters is a row, one that leaves a deletion. Or they are
reports on objects (``of: QUERY``): an object goes on when its first item enters, and off when its last one leaves. A stream has a job
of its own, which the checks and the compiler treat like any other.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple

from skyband.framework.base.columns import cause, given_column, instant, membership, sign
from skyband.framework.base.items import ItemColumn, ItemShape
from skyband.framework.queries.models import QueryModel, QueryWindow
from skyband.framework.queries.registry import query_type
from skyband.framework.spec.checks.columns import column_types
from skyband.framework.spec.checks.table_columns import carried
from skyband.framework.spec.models.job import Job, Quality
from skyband.framework.spec.models.scoring import WindowSpec
from skyband.framework.spec.models.source import Source

Takes = Literal["entries", "members"]

CONTRADICTING: Final = ("criteria", "updates", "held", "stale_after")
"""Fields of queries about loyalty that say when an object is on, as ``of`` does."""

_DAY: Final = 86_400_000_000
_UNBOUNDED: Final = 1000 * 365 * _DAY
"""Microseconds of a window that is longer than any data: operators keep no rows of loyalty, whose reports stay valid."""


@dataclass(frozen=True, slots=True)
class Stream:
    """The stream called ``name`` that the result of query ``of`` makes up, and the ``queries`` that take it.

    ``takes``: its entries, or its ``members``, the objects that the columns ``objects`` name. ``window``: of the entries, if the queries
    say one. Otherwise entries stay as long as their items: one that has been there for ``renewed`` microseconds is entered again, if the
    stream has to be bounded. ``bounded``: whether the window is one that the queries say.
    """

    of: str
    takes: Takes
    objects: tuple[str, ...]
    queries: tuple[str, ...]
    window: WindowSpec
    renewed: int | None
    bounded: bool

    @property
    def name(self) -> str:
        """Return the name: of the query that it takes, with its own first query by name, as entries of a spec may change places."""
        return f"{self.of}.{min(self.queries)}"


@dataclass(frozen=True, slots=True)
class StreamJob:
    """A stream with a job of its queries, and its columns with their types (None: unknown)."""

    stream: Stream
    job: Job
    types: Mapping[str, str | None]


@dataclass(frozen=True, slots=True)
class Division:
    """A job with the queries that take its source's rows, and the streams of results in an order in which each follows what it takes."""

    job: Job
    streams: tuple[StreamJob, ...]

    def home(self, query: str) -> Job:
        """Return the job that ``query`` belongs to."""
        return next((s.job for s in self.streams if query in s.stream.queries), self.job)


def taken(job: Job, query: QueryModel) -> tuple[str, Takes] | None:
    """Return the query whose result ``query`` takes, and what of it; None for one that takes the source's rows."""
    of = getattr(query, "of", None)
    if of is not None:
        return str(of), "members"
    if query.source is not None and query.source not in job.sources and query.source in job.queries:
        return query.source, "entries"
    return None


def cycle(job: Job, name: str) -> tuple[str, ...] | None:
    """Return the names of the queries from ``name`` back to a query that has come already; None if there is no cycle."""
    seen: list[str] = []
    while name in job.queries:
        if name in seen:
            return (*seen[seen.index(name) :], name)
        seen.append(name)
        found = taken(job, job.queries[name])
        if found is None:
            return None
        name = found[0]
    return None


def resolved(job: Job) -> Job:
    """Return the job with the defaults of queries that take a result: their objects and windows."""
    if all(taken(job, q) is None for q in job.queries.values()):
        return job
    queries = dict(job.queries)
    for name in _in_order(job):
        queries[name] = _with_defaults(job, queries, queries[name])
    # A copy keeps what is private to the model: paths and variables.
    return job.model_copy(update={"queries": queries})


def divided(job: Job, types: Mapping[str, str | None] | None = None) -> Division:
    """Divide a resolved job, whose columns have ``types`` (None: found here). Queries of unknown names, or in a cycle, are left out.

    O(queries x columns).
    """
    own = {n: q for n, q in job.queries.items() if taken(job, q) is None}
    if len(own) == len(job.queries):
        return Division(job, ())
    types = column_types(job) if types is None else types
    elsewhere = {s for n, q in job.queries.items() if n not in own and (s := getattr(q, "scoring", None)) is not None}
    at_home = {s for q in own.values() if (s := getattr(q, "scoring", None)) is not None}
    base = job.model_copy(update={"queries": own, "scoring": {n: s for n, s in job.scoring.items() if n in at_home or n not in elsewhere}})
    homes: dict[str, tuple[Job, Mapping[str, str | None]]] = dict.fromkeys(own, (base, types))
    made: list[StreamJob] = []
    for found in _streams(job):
        if found.of not in homes:
            continue  # it takes what is a mistake of the spec
        home, columns = homes[found.of]
        stream = _with_window(job, found, home)
        one = _stream_job(job, stream, home, columns)
        made.append(one)
        homes |= dict.fromkeys(stream.queries, (one.job, one.types))
    return Division(base, tuple(made))


def item_of(query: QueryModel) -> ItemShape:
    """Return the shape of the items of a query's result."""
    return query_type(query.type).item(query)


def item_columns(of: str, query: QueryModel, home: Job, takes: Takes) -> dict[str, str]:
    """Return column of the changes of query ``of`` -> column of its stream, in order, of all that an entry has.

    What the operator computes for changes, and for points of trajectories, is not among them for members.
    """
    shape = item_of(query)
    left_out = () if takes == "entries" else shape.carried
    found = {c: c for c in home.source.partition_by}
    for c in _columns(query, home):
        if c not in left_out:
            found[c.name] = given_column(of, c.name, c.what not in ("seq", "time"))
    if not shape.moves:
        found |= {v.name: given_column(of, v.name, False) for v in shape.values}
    return found


def identity(query: QueryModel, home: Job) -> tuple[str, ...]:
    """Return the columns of the user's that identify an item of the query's result, besides the key."""
    return tuple(c.name for c in _columns(query, home) if c.what in ("id", "object"))


def _columns(query: QueryModel, home: Job) -> list[ItemColumn]:
    """Return the columns of an item of the query's result."""
    shape, source = item_of(query), home.source
    return shape.columns(source.id, carried(query, shape, source.id, source.partition_by), source.partition_by)


def _in_order(job: Job) -> Iterable[str]:
    """Yield the queries that take a result, each after the one that it takes."""
    waiting = {n: found[0] for n, q in job.queries.items() if (found := taken(job, q)) is not None}
    done = {n for n in job.queries if n not in waiting}
    while ready := [n for n, of in waiting.items() if of in done]:
        yield from ready
        done |= set(ready)
        waiting = {n: of for n, of in waiting.items() if n not in done}


def _with_defaults(job: Job, queries: Mapping[str, QueryModel], query: QueryModel) -> QueryModel:
    found = taken(job, query)
    assert found is not None
    of, takes = found
    more: dict[str, Any] = {}
    shape = item_of(queries[of])
    if takes == "members" and getattr(query, "object", None) is None and len(shape.parts) == 1 and shape.parts[0].columns:
        more["object"] = shape.parts[0].columns
    if query.window is None and (_adds_up(query) or not shape.lasting):
        more["window"] = QueryWindow.model_construct(count=job.window.count, time=job.window.time)
    return query.model_copy(update=more) if more else query


class _Found(NamedTuple):
    of: str
    takes: Takes
    objects: tuple[str, ...]
    window: QueryWindow | None
    adds_up: bool
    queries: tuple[str, ...] = ()


def _adds_up(query: QueryModel) -> bool:
    """Return True if the query's window is a span of time that it adds up, however old the rows are."""
    return query_type(query.type).family == "loyalty"


def _streams(job: Job) -> Iterable[_Found]:
    found: dict[_Found, list[str]] = {}
    for name in _in_order(job):
        query = job.queries[name]
        of, takes = taken(job, query) or ("", "entries")
        objects = tuple(getattr(query, "objects", ())) if takes == "members" else ()
        if takes == "members" and not objects:
            continue  # a mistake of the spec
        window = query.window if takes == "entries" and not _adds_up(query) else None
        found.setdefault(_Found(of, takes, objects, window, _adds_up(query)), []).append(name)
    for stream, names in found.items():
        yield stream._replace(queries=tuple(names))


def _with_window(job: Job, found: _Found, home: Job) -> Stream:
    own, renewed = found.window, None
    window = home.window
    if found.adds_up:
        window = WindowSpec.model_construct(time=_UNBOUNDED)
    elif own is None:
        renewed = _longest_stay(job, job.queries[found.of], home)
        # One more: an entry is entered again after all changes of its instant, and does not leave by itself before them.
        window = WindowSpec.model_construct(time=renewed + 1)
    elif own.count is not None or own.time is not None:
        window = WindowSpec.model_construct(count=own.count, time=own.time)
    return Stream(found.of, found.takes, found.objects, found.queries, window, renewed, not found.adds_up and own is not None)


def _longest_stay(job: Job, query: QueryModel, home: Job) -> int:
    """Return microseconds within which every entry has left, if items are rows of a window of time; of other items at least a day."""
    time = home.window.time
    if time is not None and item_of(query).rows:
        return time + (query.every or 0)
    return max(_DAY, job.window.time or 0)


def _stream_job(job: Job, stream: Stream, home: Job, types: Mapping[str, str | None]) -> StreamJob:
    of, source = job.queries[stream.of], home.source
    columns = _entry_types(stream, of, home, types) if stream.takes == "entries" else _member_types(stream, of, home, types)
    columns |= {instant(stream.of): "timestamp"}
    lasting = item_of(of).lasting
    made = Source.model_validate(
        {
            "format": "delta",
            "schema": {name: type_ or "double" for name, type_ in columns.items()},
            "id": (identity(of, home) or source.partition_by) if stream.takes == "entries" else [*stream.objects],
            "event_time": {"column": instant(stream.of), "max_ahead": "none"},
            "partition_by": source.partition_by,
        }
    )
    queries = {n: _of_stream(stream, job.queries[n]) for n in stream.queries}
    used = {s for q in queries.values() if (s := getattr(q, "scoring", None)) is not None}
    deletes = f"{sign(stream.of)} = '-'" if stream.takes == "entries" and lasting else None
    update = {
        "source": made, "sources": {}, "lookups": {}, "transform": (), "quality": Quality(), "tokens": {}, "vectors": {}, "stats": {},
        "window": stream.window, "scoring": {n: s for n, s in job.scoring.items() if n in used},
        "queries": queries, "deletes": deletes, "tests": (), "schedule": None,
    }  # fmt: skip
    return StreamJob(stream, job.model_copy(update=update), columns)


def _of_stream(stream: Stream, query: QueryModel) -> QueryModel:
    """Return the query as one over the rows of its stream."""
    if stream.takes == "entries":
        return query.model_copy(update={"source": None})
    # What says otherwise is a mistake, which the checks report.
    otherwise = dict.fromkeys(("of", "source", *CONTRADICTING))
    return query.model_copy(update={**otherwise, "updates": membership(stream.of)})


def _entry_types(stream: Stream, query: QueryModel, home: Job, types: Mapping[str, str | None]) -> dict[str, str | None]:
    of, shape = stream.of, item_of(query)
    found: dict[str, str | None] = {c: types.get(c) for c in home.source.partition_by}
    values = {v.name: v.type for v in shape.values}
    names = item_columns(of, query, home, stream.takes)
    for c in _columns(query, home):
        if c.name in names:
            found[names[c.name]] = "bigint" if c.what == "seq" else "timestamp" if c.what == "time" else c.type or types.get(c.source)
    found |= {names[name]: type_ for name, type_ in values.items() if name in names}
    return {**found, sign(of): "string", cause(of): "string"} if shape.lasting else found


def _member_types(stream: Stream, query: QueryModel, home: Job, types: Mapping[str, str | None]) -> dict[str, str | None]:
    entries = _entry_types(stream, query, home, types)
    found = {c: types.get(c) for c in home.source.partition_by}
    return {**found, **{c: entries.get(c) for c in stream.objects}, membership(stream.of): "boolean"}
