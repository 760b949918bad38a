"""Views over a query's tables, for whoever draws or reports: plain SQL, decided by what an item is, not by the type of the query.

Nothing of them is stored. A view whose name a table has already is not made, and an own column whose name a user's column has gets an
underscore behind it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from skyband.framework.plan.model import Plan, QueryNode
from skyband.framework.tables.schemas import (
    changes_name,
    changes_schema,
    identity_columns,
    now_name,
    results_schema,
    stream_columns,
    tables,
)
from skyband.framework.tables.sql import SECONDS_BETWEEN, order_by

SUFFIXES: Final = ("_history", "_ranks", "_summary")
"""Behind the name of a query: its views."""


@dataclass(frozen=True, slots=True)
class View:
    """``sql`` is a ``select`` in DuckDB's SQL over the job's tables by name (``dialects`` has it for others); ``reads`` are these tables.

    ``columns``: own columns, which no table has, with their meaning and unit; the others are those of the table.
    """

    name: str
    comment: str
    sql: str
    reads: tuple[str, ...]
    columns: Mapping[str, str]


def views(plan: Plan) -> list[View]:
    """Every view of the job, in the order of its queries."""
    taken = {t.name for t in tables(plan)}
    return [v for q in plan.queries for v in _of_query(plan, q) if v.name not in taken]


def _of_query(plan: Plan, query: QueryNode) -> Iterable[View]:
    if not query.item.lasting:
        yield _told_summary(plan, query)
        return
    yield _history(plan, query)
    if not query.item.moving:
        # Of values that move, ranks change between the changes: where, no table says.
        yield _ranks(plan, query)
    yield _summary(plan, query)


def _history(plan: Plan, query: QueryNode) -> View:
    """Intervals and how long each lasted; those that are open up to where the results are complete."""
    streams, name, now = stream_columns(plan, query), query.name, now_name(query.name)
    (lasted,) = _free(results_schema(plan, query).names, "lasted_seconds")
    end = _by("", streams)
    ended = f"select {end}max(as_of) as as_of from {_q(now)}" + (f" group by {_list(streams)}" if streams else "")
    sql = (
        f"select r.*, {SECONDS_BETWEEN}(r.valid_from, coalesce(r.valid_to, e.as_of)) as {_q(lasted)} "
        f"from {_q(name)} r left join ({ended}) e on {_same('r', 'e', streams)}"
    )
    said = {lasted: "seconds it was in the result; of what is still in: up to the instant up to which results are complete"}
    return View(f"{name}_history", f"Every time anything was in the result of {name}, and for how long.", sql, (name, now), said)


def _ranks(plan: Plan, query: QueryNode) -> View:
    """Who was at which place from when to when: a row for every stretch of time in which an item's rank stays the same."""
    streams, name = stream_columns(plan, query), query.name
    columns = [f.name for f in results_schema(plan, query) if f.name not in ("valid_from", "valid_to", "to_step", "is_current")]
    shown = [c for c in columns if c != "from_step"]
    stay = f"partition by {_list([*streams, *identity_columns(plan, query), 'from_step'])} order by changes_at"
    at = " union ".join(
        f"select {_by('', streams)}{c} as changes_at from {_q(name)} where {c} is not null" for c in ("valid_from", "valid_to")
    )
    sql = (
        f"with instants as ({at}), placed as ("
        f"select {_by('r.', columns)}r.valid_to, i.changes_at, "
        f'row_number() over (partition by {_by("r.", streams)}i.changes_at order by {order_by(query, "r.")}) as "rank" '
        f"from {_q(name)} r join instants i on {_same('r', 'i', streams)} "
        "and r.valid_from <= i.changes_at and (r.valid_to is null or i.changes_at < r.valid_to)), "
        f'told as (select placed.*, lag("rank") over ({stay}) as former from placed) '
        f'select {_by("", shown)}"rank", changes_at as valid_from, coalesce(lead(changes_at) over ({stay}), valid_to) as valid_to '
        'from told where former is null or former <> "rank"'
    )
    said = {
        "rank": "place in the result, from 1, from valid_from on",
        "valid_from": "event time from which the item had this rank",
        "valid_to": "event time up to which it had it; null: still has. At t: valid_from <= t < valid_to",
    }
    return View(
        f"{name}_ranks", f"Ranks in the result of {name} over time: one row for as long as an item keeps a rank.", sql, (name,), said
    )


def _summary(plan: Plan, query: QueryNode) -> View:
    streams, name, now = stream_columns(plan, query), query.name, now_name(query.name)
    own = ("items_ever", "entries", "items_now", "mean_seconds", "longest_seconds", "first_entry", "last_change")
    items, entries, still, mean, longest, first, last = _free(streams, *own)
    lasted = f"{SECONDS_BETWEEN}(valid_from, coalesce(valid_to, as_of))"
    identity = dict.fromkeys([*streams, *identity_columns(plan, query)])
    named = ", ".join(f"r.{_q(c)}" for c in identity)
    of_items = f"{_by('r.', identity)}r.valid_from, r.valid_to, r.from_step"
    ended = f"select {_by('', streams)}max(as_of) as as_of from {_q(now)}" + (f" group by {_list(streams)}" if streams else "")
    sql = (
        f"with ended as ({ended}), told as (select {of_items}, e.as_of, "
        f"row_number() over (partition by {named or '1'} order by r.from_step) as nth "
        f"from {_q(name)} r left join ended e on {_same('r', 'e', streams)}) "
        f"select {_by('', streams)}count(case when nth = 1 then 1 end) as {_q(items)}, count(*) as {_q(entries)}, "
        f"count(case when valid_to is null then 1 end) as {_q(still)}, avg({lasted}) as {_q(mean)}, max({lasted}) as {_q(longest)}, "
        f"min(valid_from) as {_q(first)}, max(coalesce(valid_to, valid_from)) as {_q(last)} from told"
    )
    sql += f" group by {_list(streams)}" if streams else " having count(*) > 0"
    said = {
        items: "how many different items were ever in the result", entries: "how often one entered", still: "how many are in it",
        mean: "seconds that a stay in the result lasts on average", longest: "seconds of the longest stay",
        first: "event time at which the first entered", last: "latest event time at which the result changed",
    }  # fmt: skip
    return View(f"{name}_summary", f"The result of {name} in figures{_each(streams)}.", sql, (name, now), said)


def _told_summary(plan: Plan, query: QueryNode) -> View:
    streams, name = stream_columns(plan, query), changes_name(query.name)
    items, arrivals, first, last = _free(streams, "items_ever", "arrivals", "first_told", "last_told")
    sql = (
        f"select {_by('', streams)}count(*) as {_q(items)}, max(step) as {_q(arrivals)}, min(changed_at) as {_q(first)}, "
        f"max(changed_at) as {_q(last)} from {_q(name)}" + (f" group by {_list(streams)}" if streams else " having count(*) > 0")
    )
    said = {
        items: "how many items were told", arrivals: "how many arrivals had something to tell",
        first: "event time of the first of them", last: "event time of the last",
    }  # fmt: skip
    assert "step" in changes_schema(plan, query).names
    return View(f"{query.name}_summary", f"What {query.name} told, in figures{_each(streams)}.", sql, (name,), said)


def _each(streams: Sequence[str]) -> str:
    return f", by {', '.join(streams)}" if streams else ""


def _free(taken: Iterable[str], *names: str) -> list[str]:
    """``names``, each with underscores behind it if a user's column has it."""
    used, made = {t.lower() for t in taken}, []
    for name in names:
        free = name
        while free in used:
            free += "_"
        made.append(free)
    return made


def _q(name: str) -> str:
    return f'"{name}"'


def _list(columns: Iterable[str]) -> str:
    return ", ".join(_q(c) for c in dict.fromkeys(columns))


def _by(prefix: str, columns: Iterable[str]) -> str:
    """``columns`` with a comma behind each."""
    return "".join(f"{prefix}{_q(c)}, " for c in columns)


def _same(a: str, b: str, columns: Iterable[str]) -> str:
    return " and ".join(f"{a}.{_q(c)} = {b}.{_q(c)}" for c in columns) or "1 = 1"
