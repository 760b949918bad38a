"""Write the SQL of durable items and records: plain SQL over the intervals of a query, as ``portable``."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from skyband.framework.plan.model import QueryNode
from skyband.framework.tables.sql.portable import MICROS_BETWEEN, Key, instant, of_key
from skyband.framework.tables.sql.view import by, free, listed, quoted, same


def durable_columns(taken: Sequence[str]) -> list[str]:
    """Return the names of the columns that ``durable`` adds to those ``taken`` by the item."""
    return free(taken, "seconds", "share", "first_entered", "last_left", "stays")


def record_columns(taken: Sequence[str]) -> list[str]:
    """Return the names of the columns that ``records`` adds to those ``taken`` by the row."""
    return free(taken, "entered_at", "left_at", "on_arrival")


def durable(
    query: QueryNode, named: Sequence[str], shown: Sequence[str], start: datetime, end: datetime, least: int, key: Key = None
) -> str:
    """Return the query for items, identified by ``named``, in the result for ``least`` microseconds of [``start``, ``end``)."""
    seconds, share, first, last, stays = durable_columns(shown)
    entered, left, before, micros = free([*shown, *durable_columns(shown)], "_entered", "_left", "_before", "_micros")
    f, t = instant(start), instant(end)
    span = max(1, (end - start) // timedelta(microseconds=1))
    conditions = [
        f"r.valid_from < {t}", f"(r.valid_to is null or (r.valid_to > {f} and r.valid_from < r.valid_to))", *of_key(key, "r.")
    ]  # fmt: skip
    return (
        f"with _clipped as (select {by('r.', shown)}greatest(r.valid_from, {f}) as {quoted(entered)}, "
        f"least(coalesce(r.valid_to, {t}), {t}) as {quoted(left)} "
        f"from {quoted(query.name)} r where {' and '.join(conditions)}), "
        f"_spans as (select _clipped.*, max({quoted(left)}) over (partition by {listed(named) or '1'} order by {quoted(entered)} "
        f"rows between unbounded preceding and 1 preceding) as {quoted(before)} from _clipped), "
        f"_items as (select {by('', shown)}sum(case "
        f"when {quoted(before)} is null or {quoted(before)} <= {quoted(entered)} then {MICROS_BETWEEN}({quoted(entered)}, {quoted(left)}) "
        f"when {quoted(before)} < {quoted(left)} then {MICROS_BETWEEN}({quoted(before)}, {quoted(left)}) else 0 end) as {quoted(micros)}, "
        f"min({quoted(entered)}) as {quoted(first)}, max({quoted(left)}) as {quoted(last)}, "
        f"count(case when {quoted(before)} is null or {quoted(before)} < {quoted(entered)} then 1 end) as {quoted(stays)} "
        f"from _spans{f' group by {listed(shown)}' if shown else ' having count(*) > 0'}) "
        f"select {by('', shown)}{quoted(micros)} / 1e6 as {quoted(seconds)}, {quoted(micros)} / {span}e0 as {quoted(share)}, "
        f"{quoted(first)}, case when {quoted(last)} < {t} then {quoted(last)} end as {quoted(last)}, {quoted(stays)} "
        f"from _items where {quoted(micros)} >= {least} order by {', '.join([quoted(seconds) + ' desc', *map(quoted, named)])}"
    )


def records(
    query: QueryNode, named: Sequence[str], shown: Sequence[str], time: str, arrived: tuple[datetime, datetime], after: int | None,
    key: Key = None,
) -> str:  # fmt: skip
    """Return the query for the rows that ``arrived`` from one instant to another and were in the result at the age of ``after``
    microseconds. ``named``: the columns of streams, and last the row's seq.
    """
    entered, left, early = record_columns(shown)
    name, t = quoted(query.name), f"r.{quoted(time)}"
    ago = f" - interval '{after // 1_000_000}.{after % 1_000_000:06d}' second" if after else ""
    conditions = [
        f"{t} >= {instant(arrived[0])}", f"{t} < {instant(arrived[1])}", f"r.valid_from{ago} <= {t}",
        f"(r.valid_to is null or r.valid_to{ago} > {t})", *of_key(key, "r."),
    ]  # fmt: skip
    on_arrival = ""
    if after is not None:
        was = f"a.valid_from <= {t} and (a.valid_to is null or a.valid_to > {t})"
        on_arrival = (
            f", cast(case when exists (select 1 from {name} a where {same('a', 'r', named)} and {was}) then 1 else 0 end as boolean)"
        )
        on_arrival += f" as {quoted(early)}"
    *streams, seq = named
    order = [f"{t} desc", *(f"r.{quoted(c)}" for c in streams), f"r.{quoted(seq)} desc"]
    return (
        f"select {by('r.', shown)}r.valid_from as {quoted(entered)}, r.valid_to as {quoted(left)}{on_arrival} "
        f"from {name} r where {' and '.join(conditions)} order by {', '.join(order)}"
    )
