"""Define views over a query's tables for charts and reports, in plain SQL. They depend on the item, not on the type of the query.

Views are not stored. A view with the name of a table is left out. A column of a view with the name of a user's column gets an underscore.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
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
from skyband.framework.tables.sql.portable import SECONDS_BETWEEN, order_by
from skyband.framework.tables.sql.source_rows import rows_view
from skyband.framework.tables.sql.view import View, by, free, listed, quoted, same

SUFFIXES: Final = ("_history", "_ranks", "_summary", "_rows")
"""The suffixes of the views of a query."""


def views(plan: Plan) -> list[View]:
    """Return every view of the job, in the order of its queries, except those left out."""
    taken = {t.name for t in tables(plan)}
    return [v for v in _all(plan) if v.name not in taken]


def left_out(plan: Plan) -> list[str]:
    """Return the views that are left out because a query has their name."""
    taken = {t.name for t in tables(plan)}
    return [v.name for v in _all(plan) if v.name in taken]


def said_left_out(name: str) -> str:
    """Return a sentence about a view that is left out."""
    return f"there is no view {name}: a query's table has that name (to have both, rename the query)"


def _all(plan: Plan) -> Iterable[View]:
    return (v for q in plan.every_query for v in _of_query(plan, q))


def _of_query(plan: Plan, query: QueryNode) -> Iterable[View]:
    if not query.item.lasting:
        yield _reports_summary(plan, query)
        yield from rows_view(plan, query)
        return
    yield _history(plan, query)
    if not query.item.varies:
        # Ranks by time-varying values change between the changes, which no table has.
        yield _ranks(plan, query)
    yield _summary(plan, query)
    yield from rows_view(plan, query)


def _history(plan: Plan, query: QueryNode) -> View:
    """Return the view of intervals and their duration; open ones last until the results are complete."""
    streams, name, now = stream_columns(plan, query), query.name, now_name(query.name)
    (lasted,) = free(results_schema(plan, query).names, "lasted_seconds")
    end = by("", streams)
    ended = f"select {end}max(as_of) as as_of from {quoted(now)}" + (f" group by {listed(streams)}" if streams else "")
    sql = (
        f"select r.*, {SECONDS_BETWEEN}(r.valid_from, coalesce(r.valid_to, e.as_of)) as {quoted(lasted)} "
        f"from {quoted(name)} r left join ({ended}) e on {same('r', 'e', streams)}"
    )
    said = {lasted: "seconds in the result; for items still in it, up to the last complete instant"}
    return View(f"{name}_history", f"Every time anything was in the result of {name}, and for how long.", sql, (name, now), said)


def _ranks(plan: Plan, query: QueryNode) -> View:
    """Return the view of ranks over time: one row for each span of time in which the rank of an item is constant."""
    streams, name = stream_columns(plan, query), query.name
    columns = [f.name for f in results_schema(plan, query) if f.name not in ("valid_from", "valid_to", "to_step", "is_current")]
    shown = [c for c in columns if c != "from_step"]
    stay = f"partition by {listed([*streams, *identity_columns(plan, query), 'from_step'])} order by changes_at"
    at = " union ".join(
        f"select {by('', streams)}{c} as changes_at from {quoted(name)} where {c} is not null" for c in ("valid_from", "valid_to")
    )
    sql = (
        f"with _instants as ({at}), _placed as ("
        f"select {by('r.', columns)}r.valid_to, i.changes_at, "
        f'row_number() over (partition by {by("r.", streams)}i.changes_at order by {order_by(plan, query, "r.")}) as "rank" '
        f"from {quoted(name)} r join _instants i on {same('r', 'i', streams)} "
        "and r.valid_from <= i.changes_at and (r.valid_to is null or i.changes_at < r.valid_to)), "
        f'_moved as (select _placed.*, lag("rank") over ({stay}) as former from _placed) '
        f'select {by("", shown)}"rank", changes_at as valid_from, coalesce(lead(changes_at) over ({stay}), valid_to) as valid_to '
        'from _moved where former is null or former <> "rank"'
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
    items, entries, still, mean, longest, first, last = free(streams, *own)
    lasted = f"{SECONDS_BETWEEN}(valid_from, coalesce(valid_to, as_of))"
    identity = dict.fromkeys([*streams, *identity_columns(plan, query)])
    named = ", ".join(f"r.{quoted(c)}" for c in identity)
    of_items = f"{by('r.', identity)}r.valid_from, r.valid_to, r.from_step"
    ended = f"select {by('', streams)}max(as_of) as as_of from {quoted(now)}" + (f" group by {listed(streams)}" if streams else "")
    sql = (
        f"with _ended as ({ended}), _stays as (select {of_items}, e.as_of, "
        f"row_number() over (partition by {named or '1'} order by r.from_step) as nth "
        f"from {quoted(name)} r left join _ended e on {same('r', 'e', streams)}) "
        f"select {by('', streams)}count(case when nth = 1 then 1 end) as {quoted(items)}, "
        f"count(*) as {quoted(entries)}, count(case when valid_to is null then 1 end) as {quoted(still)}, avg({lasted}) as {quoted(mean)}, "
        f"max({lasted}) as {quoted(longest)}, min(valid_from) as {quoted(first)}, "
        f"max(coalesce(valid_to, valid_from)) as {quoted(last)} from _stays"
    )
    sql += f" group by {listed(streams)}" if streams else " having count(*) > 0"
    said = {
        items: "how many different items were ever in the result", entries: "how often one entered", still: "how many are in it",
        mean: "seconds that a stay in the result lasts on average", longest: "seconds of the longest stay",
        first: "event time at which the first entered", last: "latest event time at which the result changed",
    }  # fmt: skip
    return View(f"{name}_summary", f"The result of {name} in figures{_each(streams)}.", sql, (name, now), said)


def _reports_summary(plan: Plan, query: QueryNode) -> View:
    streams, name = stream_columns(plan, query), changes_name(query.name)
    items, arrivals, first, last = free(streams, "items_ever", "arrivals", "first_told", "last_told")
    sql = (
        f"select {by('', streams)}count(*) as {quoted(items)}, max(step) as {quoted(arrivals)}, min(changed_at) as {quoted(first)}, "
        f"max(changed_at) as {quoted(last)} from {quoted(name)}" + (f" group by {listed(streams)}" if streams else " having count(*) > 0")
    )
    said = {
        items: "how many items were reported", arrivals: "how many arrivals reported items",
        first: "event time of the first of them", last: "event time of the last",
    }  # fmt: skip
    assert "step" in changes_schema(plan, query).names
    return View(f"{query.name}_summary", f"The items reported by {query.name}, in figures{_each(streams)}.", sql, (name,), said)


def _each(streams: Sequence[str]) -> str:
    return f", by {', '.join(streams)}" if streams else ""
