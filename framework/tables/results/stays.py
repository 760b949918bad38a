"""Durable results from the tables: items that were in a result for a share of an interval, and rows that were in it at an age.

A stay is a maximal span of instants at which an item is in the result (that is, in the result as of each of them). An item that leaves and
enters again at one instant stays; one that enters and leaves at one instant does not. The intervals of ``<query>`` are the index:
durable top-k needs no other (Gao, Sintos, Agarwal, Yang: Durable top-k queries on temporal data, VLDB 2018, and Durable top-k
instant-stamped temporal records, ICDE 2021, where k and the window are arguments). All sums are whole microseconds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from skyband.framework.base.counts import counted
from skyband.framework.base.errors import SkybandError, did_you_mean, one_of
from skyband.framework.base.types import STAMP
from skyband.framework.base.units import format_duration
from skyband.framework.plan.model import Plan, QueryNode
from skyband.framework.tables.render import instant_text, key_numbers, order_by
from skyband.framework.tables.results.reader import Reader, both
from skyband.framework.tables.results.timeline import in_result
from skyband.framework.tables.schemas import identity_columns, results_schema, stream_columns
from skyband.framework.tables.sql import stays as sql

I64 = npt.NDArray[np.int64]

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICRO: Final = timedelta(microseconds=1)
_EARLIEST: Final = datetime.min.replace(tzinfo=UTC)
_OF_INTERVALS: Final = ("valid_from", "valid_to", "from_step", "to_step", "is_current")


@dataclass(frozen=True, slots=True)
class Interval:
    """Requested instants: ``start`` <= t < ``end``. ``start``: an instant, microseconds before ``end``, or None: the first entry.

    ``end``: None for the end of what is complete, just after the last complete instant.
    """

    start: datetime | int | None = None
    end: datetime | None = None


@dataclass(frozen=True, slots=True)
class Durable:
    """The answer: ``rows`` in [``start``, ``end``), where results are complete up to ``as_of``; ``sql`` gives the same rows in DuckDB."""

    rows: pa.Table
    start: datetime
    end: datetime
    as_of: datetime
    sql: str
    note: str | None = None


def durable(
    reader: Reader, name: str, share: Fraction, interval: Interval, by: Sequence[str] = (), key: Mapping[str, str] | None = None
) -> Durable:
    """Return the items of query ``name`` that were in its result for at least ``share`` (0 < share <= 1) of the interval.

    ``by``: columns of the items to compare them by, instead of their identity; stays of several items that overlap count once. Rows: key
    columns, those of the item (or ``by``), ``seconds``, ``share``, ``first_entered`` (the start of the interval for items in the result
    before), ``last_left`` (null: in the result up to the end of the interval) and ``stays``, longest first. O(n log n) in the intervals
    of ``<query>`` that overlap. SkybandError SKY-E201 for what the tables cannot answer, SKY-E402 for an interval that is not complete.
    """
    query = _lasting(reader, name)
    plan = reader.plan
    for column in by:
        _known(plan, query, column)
    chosen, member = reader.chosen(query, key)
    start, end, as_of = _bounds(reader, interval, chosen, key)
    impossible = _impossible(query, share, start, end, by)
    streams = stream_columns(plan, query)
    named = tuple(dict.fromkeys((*streams, *(by or identity_columns(plan, query)))))
    shown = named if by else tuple(dict.fromkeys((*streams, *_columns(plan, query), *named)))
    needed = (*shown, *identity_columns(plan, query), *_OF_INTERVALS)
    ended = pc.field("valid_from") < _stamp(end)
    ended = ended if start is None else ended & (pc.field("valid_to") > _stamp(start))
    rows = reader.intervals_of(query, both(chosen, member), needed, ended)
    entered = rows["valid_from"].cast(pa.int64()).to_numpy()
    if start is None:
        start = min(int(entered.min(initial=end)), end)
        note = None if start < end else "before the first result: the result was empty"
    else:
        note = impossible
    left = np.minimum(pc.fill_null(rows["valid_to"].cast(pa.int64()), end).to_numpy(), end)
    entered = np.maximum(entered, start)
    inside = entered < left
    found = _longest(rows.filter(pa.array(inside)), entered[inside], left[inside], (start, end), share, named, shown)
    statement = sql.durable(query, named, shown, _instant(start), _instant(end), least_micros(share, end - start), key)
    return Durable(found, _instant(start), _instant(end), as_of, statement, note)


def _impossible(query: QueryNode, share: Fraction, start: int | None, end: int, by: Sequence[str]) -> str | None:
    """Say why no item can be in the result for the share: one that consists of rows leaves at the end of its window. None if one can."""
    least = 0 if start is None else least_micros(share, end - start)
    window = query.window.micros
    if by or window is None or not query.item.rows or query.item.closes or query.every_micros is not None or least <= window:
        return None
    said = f"no item can be in the result for {format_duration(least)}: its window is {format_duration(window)}"
    return f"{said}; ask for a smaller share or a shorter interval, or compare items by a column: --by"


def records(reader: Reader, name: str, after: int | None, interval: Interval, key: Mapping[str, str] | None = None) -> Durable:
    """Return the rows of query ``name`` that arrived in the interval and were in the result as of their event time (durable records).

    With ``after``, return those that were in the result when they were ``after`` microseconds old, and ``on_arrival``, whether they were
    in it as of their event time, too. Rows: key columns, those of the row, ``entered_at`` and ``left_at`` (null: still in) of the stay,
    newest first. Rows too young to be decided are left out, with a note. O(n log n) in the intervals of the rows that arrived then.
    SkybandError SKY-E201 for a query whose items are not single rows, SKY-E402 for an interval that is not complete.
    """
    query = _lasting(reader, name)
    plan, age = reader.plan, after or 0
    if len(query.item.parts) != 1 or not query.item.rows:
        said = f"records are single rows, and the items of {name!r} are not"
        raise SkybandError("SKY-E201", said, hint="--durable takes a share of an interval, for all items")
    # With `every`, a row that has expired stays until the next boundary.
    if query.window.micros is not None and age >= query.window.micros and query.every_micros is None:
        said = f"no row is in the result {format_duration(age)} after it arrived: its window is {format_duration(query.window.micros)}"
        raise SkybandError("SKY-E201", said, hint="use a shorter time: half the window for the middle of it")
    chosen, member = reader.chosen(query, key)
    start, end, as_of = _bounds(reader, interval, chosen, key)
    time = next(c.name for c in query.item.columns((), (), ()) if c.what == "time")
    arrived = pc.field(time) < _stamp(end)
    arrived = arrived if start is None else arrived & (pc.field(time) >= _stamp(start))
    streams = stream_columns(plan, query)
    named = (*streams, *identity_columns(plan, query))
    shown = tuple(dict.fromkeys((*streams, *_columns(plan, query))))
    needed = (*shown, *named, *_OF_INTERVALS)
    rows = reader.intervals_of(query, both(both(chosen, member), arrived), needed)
    at = rows[time].cast(pa.int64()).to_numpy()
    start = min(int(at.min(initial=end)), end) if start is None else start
    decided = max(start, min(end, _micros(as_of) + 1 - age))
    number = key_numbers([rows], named)[0]
    note = _undecided(len(np.unique(number[at >= decided])), decided, end, age)
    there = in_result(rows, at + age) & (at < decided)
    found = rows.filter(pa.array(there)).select([*shown, "valid_from", "valid_to"]).rename_columns([*shown, *sql.record_columns(shown)[:2]])
    if after is not None:
        early = np.isin(number[there], number[in_result(rows, at)])
        found = found.append_column(sql.record_columns(shown)[2], pa.array(early))
    order = [(time, "descending"), *((c, "ascending") for c in streams), *((c, "descending") for c in named[len(streams) :])]
    statement = sql.records(query, named, shown, time, (_instant(start), _instant(decided)), after, key)
    return Durable(found.sort_by(order), _instant(start), _instant(end), as_of, statement, note)


def least_micros(share: Fraction, span: int) -> int:
    """Return the fewest microseconds that are at least ``share`` of ``span``."""
    return -(-share.numerator * span // share.denominator)


def covered(number: I64, entered: I64, left: I64) -> tuple[I64, I64, I64, I64, I64]:
    """Return for every number the union of its spans [entered, left): (position of the last, microseconds, first, last, stays).

    Numbers are those that occur, in increasing order. Spans are not empty. O(n log n).
    """
    order = order_by(number, entered)
    number, entered, left = number[order], entered[order], left[order]
    is_first = np.diff(number, prepend=-1) != 0
    starts = np.nonzero(is_first)[0]
    # The latest end before each span, of its own number: ends as ranks, so that numbers and ends fit one integer.
    ends, rank = np.unique(left, return_inverse=True)
    group = np.cumsum(is_first) - 1
    running = np.maximum.accumulate(group * len(ends) + rank) - group * len(ends)
    before = np.where(is_first, entered, ends[np.roll(running, 1)] if len(ends) else left)
    micros = np.maximum(0, left - np.maximum(entered, before))
    begins = (is_first | (entered > before)).astype(np.int64)
    if not len(starts):
        return order, micros, entered, left, begins
    last = order[np.append(starts[1:], len(order)) - 1]
    return last, np.add.reduceat(micros, starts), entered[starts], np.maximum.reduceat(left, starts), np.add.reduceat(begins, starts)


def _longest(
    rows: pa.Table, entered: I64, left: I64, interval: tuple[int, int], share: Fraction, named: Sequence[str], shown: Sequence[str]
) -> pa.Table:
    """Return the items whose spans cover at least ``share`` of the interval, longest first."""
    start, end = interval
    number = key_numbers([rows], named)[0] if named else np.zeros(rows.num_rows, np.int64)
    last, micros, first_entered, last_left, stays = covered(number, entered, left)
    kept = micros >= least_micros(share, end - start)
    found = rows.select(shown).take(pa.array(last[kept]))
    micros = micros[kept]
    values = (
        pa.array(micros / 1e6),
        pa.array(micros / max(1, end - start)),
        pa.array(first_entered[kept]).cast(STAMP),
        pa.array(last_left[kept], mask=last_left[kept] >= end).cast(STAMP),
        pa.array(stays[kept]),
    )
    titles = sql.durable_columns(shown)
    for title, column in zip(titles, values, strict=True):
        found = found.append_column(title, column)
    return found.sort_by([(titles[0], "descending"), *((c, "ascending") for c in named)])


def _lasting(reader: Reader, name: str) -> QueryNode:
    query = reader.query(name)
    if not query.item.lasting:
        said = f"query {name!r} reports every arrival once: its items do not stay in a result"
        raise SkybandError("SKY-E201", said, hint="--at T --limit N shows the newest N reported by T")
    return query


def _columns(plan: Plan, query: QueryNode) -> list[str]:
    """Return the columns of an item that are the same as long as it exists: not those with values that vary."""
    made = query.item.columns(plan.of(query.name).intake.id, query.carry, plan.intake.partition_by)
    if query.item.varies:
        return [c.name for c in made if c not in query.item.carried]
    return [*(c.name for c in made), *(v.name for v in query.item.values)]


def _known(plan: Plan, query: QueryNode, column: str) -> None:
    """Raise SKY-E201 unless items can be compared by ``column``."""
    made = query.item.columns(plan.of(query.name).intake.id, query.carry, plan.intake.partition_by)
    named = [*stream_columns(plan, query), *(c.name for c in made if c not in query.item.carried)]
    schema = results_schema(plan, query)
    known = [c for c in named if not pa.types.is_list(schema.field(c).type)]
    if column not in known:
        said = f"the tables of {query.name!r} have no column {column!r} to compare items by"
        raise SkybandError("SKY-E201", said, hint=did_you_mean(column, known) or f"columns: {one_of(known)}; a query's carry adds others")


def _bounds(
    reader: Reader, interval: Interval, chosen: pc.Expression | None, key: Mapping[str, str] | None
) -> tuple[int | None, int, datetime]:
    """Return the start (None: the first entry) and end of the interval in microseconds, and the last complete instant."""
    last = None if interval.end is None else max(interval.end, _EARLIEST + _MICRO) - _MICRO
    as_of = reader.complete_until(last, chosen, key)
    end = _micros(as_of) + 1 if interval.end is None else _micros(interval.end)
    if interval.start is None:
        return None, end, as_of
    start = max(end - interval.start, _micros(_EARLIEST)) if isinstance(interval.start, int) else _micros(interval.start)
    if start >= end:
        said = f"the interval is empty: from {instant_text(_instant(start))} to {instant_text(_instant(end))} UTC"
        raise SkybandError("SKY-E201", said, hint="use an instant before the end of the interval, or a duration such as 30 days")
    return start, end, as_of


def _undecided(rows: int, decided: int, end: int, age: int) -> str | None:
    """Return a note about rows that arrived too late to be decided, if the interval has such instants."""
    if decided >= end:
        return None
    said = f"not decided: rows that arrived at {instant_text(_instant(decided))} UTC or later, which were not {format_duration(age)} old"
    return f"{said} at the last complete instant; {counted(rows, 'such row')} had been in the result so far"


def _instant(micros: int) -> datetime:
    return _EPOCH + timedelta(microseconds=int(micros))


def _micros(at: datetime) -> int:
    return (at - _EPOCH) // _MICRO


def _stamp(micros: int) -> pa.Scalar:
    return pa.scalar(micros, pa.int64()).cast(STAMP)
