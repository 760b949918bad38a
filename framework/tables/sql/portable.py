"""Write the SQL that gives the same answer in other tools: plain SQL over the job's tables by name."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

from skyband.framework.base.table_names import QUERY_COLUMN
from skyband.framework.plan.model import OperatorNode, Plan, QueryNode
from skyband.framework.tables.schemas import changes_name, identity_columns, now_name, skyband_name, stream_columns, trajectory_name
from skyband.operators.base import Window

SECONDS_BETWEEN = "seconds_between"
"""The name, in this SQL, of the function for the seconds between two instants. ``dialects`` translates it."""
MICROS_BETWEEN = "micros_between"
"""The same for microseconds, as a whole number."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def order_by(plan: Plan, query: QueryNode, prefix: str = "") -> str:
    """Return the terms of the item's rank."""
    terms = []
    for term in query.item.rank:
        names = [prefix + c for c in term.columns]
        text = names[0] if term.of == "value" else f"{term.of}({', '.join(names)})"
        if term.nullable and _may_be_nan(plan, query, term.columns[0]):
            text = f"nullif({text}, cast('NaN' as double))"
        order = term.order
        if term.order == "query":
            if query.turned:
                reversed_queries = ", ".join(_text(n) for n in query.turned)
                text = f"case when {prefix}{_quoted(QUERY_COLUMN)} in ({reversed_queries}) then -{text} else {text} end"
            order = "asc" if query.direction == "min" else "desc"
        if term.nullable:  # not every tool has "nulls last"
            terms.append(f"case when {text} is null then 1 else 0 end")
        terms.append(f"{text} {order}")
    return ", ".join(terms)


def _may_be_nan(plan: Plan, query: QueryNode, column: str) -> bool:
    """Return True if a column that ranks may have NaN, which ranks as null: one of the stream. Values of the operator are null then."""
    if column in ("seq", *(v.name for v in query.item.values)):
        return False
    return plan.of(query.name).field(column).type in ("float", "double")


Key = Mapping[str, str] | None
"""The requested values of key columns (and of ``query``)."""


def as_of(plan: Plan, query: QueryNode, at: datetime | None, key: Key = None) -> str:
    """Return the query for the result at ``at`` (None: now), with time-varying values from the table of trajectories."""
    if query.item.time_varying is not None:
        return _time_varying_as_of(plan, query, at, key)
    condition = "is_current" if at is None else f"valid_from <= {instant(at)} and (valid_to is null or valid_to > {instant(at)})"
    order = ", ".join([*map(_name, stream_columns(plan, query)), order_by(plan, query)])
    return f'select * from "{query.name}" where {" and ".join([condition, *of_key(key)])} order by {order}'


def _time_varying_as_of(plan: Plan, query: QueryNode, at: datetime | None, key: Key) -> str:
    """Return the query for the result with time-varying values as of ``at``, from the latest point of each item."""
    varying, streams = query.item.time_varying, stream_columns(plan, query)
    assert varying is not None
    if at is None:
        order = ", ".join([*map(_name, streams), _quoted("rank")])
        chosen = f" where {' and '.join(of_key(key))}" if key else ""
        return f'select * from "{now_name(query.name)}"{chosen} order by {order}'
    named = (*streams, *identity_columns(plan, query))
    made = query.item.columns(plan.of(query.name).intake.id, query.carry, plan.intake.partition_by)
    items = [*streams, *(c.name for c in made if c not in query.item.carried)]
    trajectory, t = trajectory_name(query.name), instant(at)
    joined = [f"p.{c} = r.{c}" for c in dict.fromkeys(named)]
    last = " and ".join([*(f"l.{c} = r.{c}" for c in dict.fromkeys(named)), f"l.valid_from <= {t}"])
    values = [f"p.{c}" for c in (*(c.name for c in query.item.carried), *varying.columns)]
    if varying.slope is not None:
        value = f"round(p.{varying.value} + p.{varying.slope} * extract(epoch from ({t} - p.valid_from)), 6)"
        values = [f"{value} as {varying.value}", f"p.{varying.slope}"]
    alive = [f"r.valid_from <= {t}", f"(r.valid_to is null or r.valid_to > {t})", *of_key(key, "r.")]
    return (
        f"select * from (\n"
        f"  select {', '.join([*(f'r.{c}' for c in items), *values])}\n"
        f'  from "{query.name}" r join "{trajectory}" p on {" and ".join(joined) or "true"}\n'
        f"  where {' and '.join(alive)}\n"
        f'    and p.valid_from = (select max(l.valid_from) from "{trajectory}" l where {last})\n'
        f") found order by {', '.join([*map(_name, streams), order_by(plan, query)])}"
    )


def newest_reports(plan: Plan, query: QueryNode, at: datetime | None, newest: int, key: Key = None) -> str:
    """Return the query for the ``newest`` items reported by ``at`` (None: now), in complete batches."""
    by_then = [] if at is None else [f"changed_at <= {instant(at)}"]
    conditions = ["batch_id <= (select max(batch_id) from runs)", *by_then, *of_key(key)]
    order = ", ".join(["changed_at desc", *map(_name, stream_columns(plan, query)), "step desc", "pos"])
    return f'select * from "{changes_name(query.name)}" where {" and ".join(conditions)} order by {order} limit {newest}'


def best(plan: Plan, query: QueryNode, k: int, key: Key = None) -> str:
    """Return the query for the first ``k`` of the current result."""
    order = ", ".join([*map(_name, stream_columns(plan, query)), _quoted("rank")])
    conditions = " and ".join([f'"rank" <= {k}', *of_key(key)])
    return f'select * from "{now_name(query.name)}" where {conditions} order by {order}'


def snapshot(plan: Plan, query: QueryNode, operator: OperatorNode, k: int, window: Window, frontier: int | None, key: Key = None) -> str:
    """Return the query for the best ``k`` (without ``k``: all) of each key within ``window``, from the skyband and ``heads``."""
    keys = plan.intake.partition_by
    columns = [c.name for c in query.item.columns(plan.intake.id, query.carry, keys)]
    ends: dict[str, str] = {}
    if window.count is not None:
        ends["seq"] = f"h.last_seq - {window.count}"
    if window.micros is not None:
        as_of_key = "h.as_of" if frontier is None else f"greatest(h.as_of, {instant(_EPOCH + timedelta(microseconds=frontier - 1))})"
        ends["time"] = f"{as_of_key} - interval '{window.micros / 1e6:.6f}' second"
    conditions = [f"{_oldest(query, what)} > {end}" for what, end in ends.items() if query.item.rows]
    hidden_by = query.item.hidden_by
    if hidden_by is not None:
        columns_of = {"seq": hidden_by, "time": f"{hidden_by}_time"}
        expired = [f"s.{columns_of[what]} <= {end}" for what, end in ends.items()]
        conditions.append(f"({' or '.join([f's.{hidden_by} is null', *expired])})")
    conditions += [f"s.score >= {query.min_score!r}"] if query.min_score is not None else []
    conditions += [f"s.score <= {query.max_score!r}"] if query.max_score is not None else []
    conditions += of_key(key, "s.")
    joined = " and ".join(f"h.{c} = s.{c}" for c in keys) if keys else "1 = 1"
    partition = f"partition by {', '.join('s.' + c for c in keys)} " if keys else ""
    best = "" if query.k is None else f'where "rank" <= {k} '
    chosen = ", ".join(f"s.{c}" for c in (*keys, *columns, *(v.name for v in query.item.values)))
    return (
        f"select * from (\n"
        f'  select {chosen}, row_number() over ({partition}order by {order_by(plan, query, "s.")}) as "rank"\n'
        f'  from "{skyband_name(operator.name)}" s join heads h on {joined}\n'
        f"  where {' and '.join(conditions) or 'true'}\n"
        f") found {best}order by {', '.join([*keys, _quoted('rank')])}"
    )


def of_key(key: Key, prefix: str = "") -> list[str]:
    """Return conditions for the requested values. Values are quoted: engines cast them to the type of the column."""
    return [f"{prefix}{_quoted(c)} = {_text(value)}" for c, value in (key or {}).items()]


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def instant(at: datetime) -> str:
    """Return a timestamp literal in UTC."""
    return f"timestamp with time zone '{at.strftime('%Y-%m-%d %H:%M:%S.%f')}+00:00'"


def _oldest(query: QueryNode, what: str) -> str:
    """Return the expression for the seq or time of an item's oldest row."""
    names = [f"s.{part.prefix}{what}" for part in query.item.rows]
    return names[0] if query.item.by_age else f"least({', '.join(names)})"


def _name(column: str) -> str:
    """Return a user's column unquoted. Column ``query`` is quoted, since it is a keyword in some engines."""
    return _quoted(column) if column == QUERY_COLUMN else column


def _quoted(name: str) -> str:
    return f'"{name}"'
