"""Derive ``<query>`` (intervals) and ``<query>_now`` from the changes, incrementally and exactly once.

The changes are the source of truth. The ``txn`` of a table's commits has the batch up to which it has been derived, so a derivation can be
killed at any point and repeated. All steps work on columns: O(n log n) in the new changes and the open rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from skyband.framework.base.errors import SkybandError
from skyband.framework.base.failpoints import failpoint
from skyband.framework.base.items import ItemShape
from skyband.framework.base.messages import behind
from skyband.framework.base.table_names import QUERY_COLUMN
from skyband.framework.base.types import STAMP
from skyband.framework.plan.model import Plan, QueryNode
from skyband.framework.storage import delta_read
from skyband.framework.storage.delta_read import to_schema
from skyband.framework.storage.location import Location
from skyband.framework.tables.delta.data_files import DataFile
from skyband.framework.tables.delta.expected_columns import need_columns
from skyband.framework.tables.outcome import Outcome
from skyband.framework.tables.render import key_numbers, last_of_each, numbered, order_by
from skyband.framework.tables.results import invariants
from skyband.framework.tables.schemas import changes_name, fixed_schema, identity_columns, now_name, stream_columns, trajectory_name
from skyband.framework.tables.writing.sink import FILLED_BATCH, Sink

I64 = npt.NDArray[np.int64]

# Compute time-varying values of items, and what they carry, at an instant from the points of their trajectories.
#
# A point has a value and its slope, valid from ``valid_from`` until the item's next point. Values with a slope are stored in seconds but
# are whole microseconds. Computed in microseconds, a value is the same from whichever earlier point it is computed. Other values are
# constant.


def values_at(rows: pa.Table, points: pa.Table, item: ItemShape, named: Sequence[str], at: I64) -> pa.Table:
    """Return intervals with time-varying values as of ``at`` (microseconds, one per row), from the latest of ``points`` by then.

    An interval has the values as of its ``valid_from``. ``named``: the columns that identify items and their streams. O(n log n).
    SkybandError SKY-E900 if an interval begins after its instant.
    """
    points = pa.concat_tables([rows.select(points.column_names).cast(points.schema), points])
    number, of_point = (
        key_numbers([rows, points], named) if named else (np.zeros(rows.num_rows, np.int64), np.zeros(points.num_rows, np.int64))
    )
    since = _micros(points)
    # Sort points and instants together, points first: the point before an instant gives its value.
    order = np.lexsort((np.repeat([0, 1], [len(since), len(at)]), np.append(since, at), np.append(of_point, number)))
    is_point = order < len(since)
    before = np.maximum.accumulate(np.where(is_point, np.arange(len(order)), -1))[~is_point]
    of_row = order[~is_point] - len(since)
    found = np.empty(len(at), np.int64)
    found[of_row] = np.where(before < 0, -1, order[before]) if len(order) else -1
    if (found < 0).any() or not np.array_equal(of_point[found], number) if len(at) else False:
        raise SkybandError("SKY-E900", "the value of an item is requested for an instant before it entered the result")
    varying = item.time_varying
    assert varying is not None
    columns = {name: points[name].take(pa.array(found)) for name in item.varying_columns}
    if varying.slope is not None:
        value = points[varying.value].to_numpy()[found]
        slope = points[varying.slope].cast(pa.int64()).to_numpy()[found]
        micros = np.round(value * 1e6).astype(np.int64) + slope * (at - since[found])
        columns |= {varying.value: pa.array(micros / 1e6), varying.slope: pa.array(slope).cast(rows.schema.field(varying.slope).type)}
    for name, column in columns.items():
        rows = rows.set_column(rows.column_names.index(name), rows.schema.field(name), column)
    return rows


def latest_known(rows: pa.Table, points: pa.Table, streams: Sequence[str], at: I64) -> I64:
    """Return for each interval the later of ``at``, up to which it is complete, and the last known instant of its stream.

    For a key without new rows, ``at`` is that of its last rows; its results may have changed since. O(n log n).
    """
    known = np.append(_micros(rows), _micros(points))
    every = pa.concat_tables([rows.select(streams), points.select(streams).cast(rows.select(streams).schema)]) if streams else None
    number = key_numbers([every], streams)[0] if every is not None else np.zeros(len(known), np.int64)
    newest = np.full(int(number.max(initial=-1)) + 1, np.iinfo(np.int64).min)
    np.maximum.at(newest, number, known)
    found: I64 = np.maximum(at, newest[number[: rows.num_rows]])
    return found


def latest_points(points: pa.Table, named: Sequence[str]) -> pa.Table:
    """Return the last point of every item. O(n log n)."""
    ordered = points.take(pa.array(np.argsort(_micros(points), kind="stable")))
    (number,) = key_numbers([ordered], named) if named else (np.zeros(ordered.num_rows, np.int64),)
    return ordered.take(pa.array(last_of_each(number)))


def _micros(points: pa.Table) -> I64:
    found: I64 = pc.cast(points["valid_from"], pa.int64()).to_numpy()
    return found


# Split the derivation of many keys into parts: spans of a key column's values, each small enough for the memory of a task.

PART_ROWS: Final = 1_000_000
"""The approximate number of input rows of a part."""


@dataclass(frozen=True, slots=True)
class Part:
    """Keys with ``first`` <= ``column`` < ``end`` (None: no such bound)."""

    column: str = ""
    first: Any = None
    end: Any = None

    def of(self, sink: Sink, where: pc.Expression | None = None) -> pc.Expression | None:
        """Return the condition for the rows of this part in any table with the key, and ``where``."""
        for bound, kept in ((self.first, False), (self.end, True)):
            if bound is not None:
                below = pc.field(self.column) < pa.scalar(bound, sink.specs["heads"].schema.field(self.column).type)
                # NaN is below nothing: it is in the part without an end.
                mine = below if kept else ~below
                where = mine if where is None else where & mine
        return where


@dataclass(frozen=True, slots=True)
class Made:
    """The outcome of a part: files of its rows, and the violations found."""

    files: list[DataFile]
    broken: list[Outcome] = field(default_factory=list)


Make = Callable[[Sink, Part], Made]
Spread = Callable[[Sink, Make, Sequence[Part]], list[Made]]
"""Derives the parts of a table, here or in tasks."""


def in_process(sink: Sink, make: Make, parts: Sequence[Part]) -> list[Made]:
    """Derive the parts in this process, one after the other."""
    return [make(sink, part) for part in parts]


def cut(sink: Sink, rows: int) -> list[Part]:
    """Return parts of about ``PART_ROWS`` of ``rows``, if all keys have equally many. O(keys log keys), O(1) if one is enough."""
    keys = sink.plan.intake.partition_by
    count = -(-rows // PART_ROWS)
    if count <= 1 or not keys or sink.writer.task_root is None:
        return [Part()]
    heads = sink.writer.read("heads", list(keys))
    column = max(keys, key=lambda name: int(pc.count_distinct(heads[name]).as_py()))
    values = heads[column].take(pc.sort_indices(heads[column]))
    if pa.types.is_floating(values.type):
        values = values.filter(pc.invert(pc.is_nan(values)))
    if not len(values):
        return [Part()]
    picked = values.take(pa.array(np.arange(1, count) * len(values) // count))
    bounds = pc.unique(picked.filter(pc.greater(picked, values[0]))).to_pylist()
    if not bounds:
        return [Part()]
    return [Part(column, first, end) for first, end in zip([None, *bounds], [*bounds, None], strict=True)]


# How far ``heads`` and skybands, which buckets may write later than other tables, are behind. Does not import Spark.


def batches_behind(root: str | Location) -> int:
    """Return the batches by which ``heads`` and skybands below ``root`` are behind ``runs``; 0 before the first. O(rows of ``runs``).

    A run that has ended leaves none behind. Until then, state that depends on these tables cannot be changed.
    """
    if not delta_read.exists(root, "runs"):
        return 0
    table = delta_read.open_table(root, "runs")
    need_columns(table, "runs", fixed_schema("runs"), ["batch_id", "counters"])
    last = pc.max(delta_read.read(table, ["batch_id"])["batch_id"]).as_py()
    return 0 if last is None else behind(delta_read.read(table, ["counters"], pc.field("batch_id") == last)["counters"][0].as_py())


BEFORE = FILLED_BATCH - 1
"""A batch id before that of every change."""
MAX_ROWS = 2_000_000
"""The most changes processed at a time, but at least one batch: bounds memory when results are far behind."""


def derive(sink: Sink, upto: int, spread: Spread = in_process) -> None:
    """Derive the results of every query up to batch ``upto``, the last complete one.

    If there are many rows of many keys, ``spread`` derives them in parts (``parts.cut``). The tables get the same rows.
    """
    failpoint("derive.before")
    for i, query in enumerate(q for q in sink.plan.every_query if q.item.lasting):
        if i:
            failpoint("derive.between")
        _derive_intervals(sink, query, upto, spread)
        failpoint("derive.between")
        _derive_now(sink, query, upto, spread)
    failpoint("derive.after")
    sink.maintain()


def intervals(opened: pa.Table, changes: pa.Table, keys: Sequence[str], identity: Sequence[str], number: I64 | None = None) -> pa.Table:
    """Return the rows of ``<query>`` after ``changes`` (in any order): the open ones, and those that the changes close.

    ``opened``: the rows open before, with the columns of ``<query>``. Every ``+`` opens an interval, which the next ``-`` of the same (key,
    item) closes. ``number``: the key's number in every row of both, if it is known. Raises SkybandError SKY-E900 if the changes do not
    alternate.
    """
    entered = opened.schema.names
    kept = [n for n in entered if n in changes.column_names]
    columns_of_events = [*kept, "changed_at", "step"]
    events = pa.concat_tables(
        [
            opened.rename_columns([{"valid_from": "changed_at", "from_step": "step"}.get(n, n) for n in entered]).select(columns_of_events),
            changes.select(columns_of_events),
        ]
    )
    enters = np.concatenate([np.ones(opened.num_rows, bool), pc.equal(changes["change"], "+").to_numpy()])
    step = events["step"].to_numpy()
    item = [_numbered(events, c) for c in identity]
    key = numbered(opened, changes, keys) if number is None else number
    order = order_by(key, *item, step)
    same = np.ones(len(order), bool)
    same[:1] = False
    for column in (key, *item):
        ordered = column[order]
        same[1:] &= ordered[1:] == ordered[:-1]
    sign = enters[order]
    wrong = np.where(same, sign == np.roll(sign, 1), ~sign)
    if wrong.any():
        at = int(order[int(np.argmax(wrong))])
        raise SkybandError(
            "SKY-E900", f"the changes do not replay: an item enters twice, or leaves without having entered, at step {step[at]}"
        )
    opening = np.nonzero(sign)[0]
    follows = np.append(same[1:], False)[opening]
    leaving = np.where(follows, order[np.minimum(opening + 1, len(order) - 1)], -1)
    # In the order of events, not of keys, so that each file covers a span of time.
    rows = order[opening]
    by_row = np.argsort(rows)
    rows, leaving = rows[by_row], leaving[by_row]
    closed = leaving >= 0
    taken = events.take(pa.array(rows))
    at = pc.cast(events["changed_at"], pa.int64()).to_numpy()
    closing = np.where(closed, leaving, 0)
    columns = {n: taken[n] for n in kept}
    columns |= {
        "valid_from": taken["changed_at"],
        "from_step": taken["step"],
        "valid_to": pa.array(at[closing] if len(at) else closing, pa.int64(), mask=~closed).cast(STAMP),
        "to_step": pa.array(step[closing] if len(at) else closing, pa.int64(), mask=~closed),
        "is_current": pa.array(~closed),
    }
    return pa.table([columns[n] for n in entered], schema=opened.schema)


def rank_order(rows: pa.Table, query: QueryNode, number: I64) -> I64:
    """Return positions of ``rows`` by key number, then by the terms of the item's rank (docs/semantics 6)."""
    by: list[npt.NDArray[Any]] = [number]
    for term in query.item.rank:
        columns = np.stack([np.zeros(rows.num_rows) if term.nullable else _ordered(rows, c) for c in term.columns])
        value = columns.min(axis=0) if term.of == "least" else columns.max(axis=0) if term.of == "greatest" else columns[0]
        ascending = np.full(len(value), term.order == "asc" or (term.order == "query" and query.direction == "min"))
        if term.order == "query" and query.turned:
            ascending ^= pc.is_in(rows[QUERY_COLUMN], pa.array(query.turned)).to_numpy()
        if term.nullable:
            by += _nulls_last(rows[term.columns[0]].combine_chunks(), bool(term.order == "asc" or ascending.all()))
            continue
        by.append(np.where(ascending, value, -value))
    return np.lexsort(by[::-1])


def _ordered(rows: pa.Table, column: str) -> npt.NDArray[Any]:
    """Return the column as numbers in the same order."""
    values = rows[column].combine_chunks()
    plain = pa.types.is_integer(values.type) or pa.types.is_floating(values.type)
    found: npt.NDArray[Any] = (values if plain else pc.rank(values, tiebreaker="dense").cast(pa.int64())).to_numpy(zero_copy_only=False)
    return found


def _nulls_last(values: pa.Array, ascending: bool) -> list[npt.NDArray[Any]]:
    """Return the terms that order a column of any type, null and NaN last: whether it has a value, then the value's rank."""
    if pa.types.is_floating(values.type):
        values = pc.if_else(pc.is_nan(values), pa.scalar(None, values.type), values)
    if pa.types.is_boolean(values.type):
        values = values.cast(pa.int8())
    there = values.is_valid().to_numpy(zero_copy_only=False)
    known = values.drop_null()
    rank = np.zeros(len(values), np.int64)
    rank[there] = pc.rank(known, tiebreaker="dense").to_numpy(zero_copy_only=False)
    return [~there, rank if ascending else -rank]


def _numbered(rows: pa.Table, column: str) -> I64:
    """Return numbers that are equal where the column is."""
    plain = rows.schema.field(column).type == pa.int64() and not rows[column].null_count
    found: I64 = rows[column].to_numpy() if plain else key_numbers([rows], [column])[0]
    return found


def ranked(rows: pa.Table, query: QueryNode, keys: Sequence[str]) -> tuple[pa.Table, I64, I64]:
    """Return (rows in rank order by key, the key number of each, its rank from 1 within its key)."""
    (number,) = key_numbers([rows], keys) if keys else [np.zeros(rows.num_rows, np.int64)]
    order = rank_order(rows, query, number)
    number = number[order]
    starts = np.nonzero(np.diff(number, prepend=-1))[0]
    rank = np.arange(len(order)) - np.repeat(starts, np.diff(np.append(starts, len(order)))) + 1
    return rows.take(pa.array(order)), number, rank


def _derive_intervals(sink: Sink, query: QueryNode, upto: int, spread: Spread) -> None:
    app_id = sink.app_id(query.name)
    done = sink.writer.version(query.name, app_id)
    for first, last, count in _slices(sink, changes_name(query.name), BEFORE if done is None else done, upto):
        parts = cut(sink, count + sink.writer.rows(query.name, ("is_current", True)))
        if len(parts) == 1:
            rows, found = _intervals_of(sink, query, first, last, *parts)
            files: list[DataFile] = []
        else:
            made = spread(sink, partial(_make_intervals, query, first, last), parts)
            rows = sink.specs[query.name].schema.empty_table()
            files, found = [f for m in made for f in m.files], [o for m in made for o in m.broken]
        invariants.record(sink, query.name, found, first, last)
        sink.writer.overwrite_partitions(query.name, rows, "is_current", [True], app_id, last, files)


def _make_intervals(query: QueryNode, first: int, last: int, sink: Sink, part: Part) -> Made:
    rows, found = _intervals_of(sink, query, first, last, part)
    return Made(sink.writer.files(query.name, rows, "is_current"), found)


def _intervals_of(sink: Sink, query: QueryNode, first: int, last: int, part: Part) -> tuple[pa.Table, list[Outcome]]:
    """Return the intervals of one part that are open before the batches ``first`` to ``last`` or begin there, and the violations."""
    schema = sink.specs[query.name].schema
    source = changes_name(query.name)
    columns = [n for n in sink.specs[source].schema.names if n in schema.names or n in ("changed_at", "step", "change")]
    span = (pc.field("batch_id") >= first) & (pc.field("batch_id") <= last)
    changes = sink.writer.read(source, columns, part.of(sink, span))
    opened = to_schema(sink.writer.read(query.name, where=part.of(sink, pc.field("is_current"))), schema)
    streams = stream_columns(sink.plan, query)
    number = numbered(opened, changes, streams)
    rows = intervals(opened, changes, streams, identity_columns(sink.plan, query), number)
    return rows, list(invariants.broken(sink.plan, query, opened, changes, rows, number))


def _slices(sink: Sink, source: str, done: int, upto: int) -> Iterator[tuple[int, int, int]]:
    """Yield spans of batches after ``done`` with at most ``MAX_ROWS`` changes (or one batch), and their number of changes."""
    if done >= upto:
        return
    first, total = None, 0
    previous = done
    for batch, count in sink.writer.batches(source, done, upto):
        if first is not None and total + count > MAX_ROWS:
            yield first, previous, total
            first, total = None, 0
        first = batch if first is None else first
        total += count
        previous = batch
    if first is not None:
        yield first, previous, total


def _derive_now(sink: Sink, query: QueryNode, upto: int, spread: Spread) -> None:
    name = now_name(query.name)
    app_id = sink.app_id(name)
    done = sink.writer.version(name, app_id)
    if done is not None and done >= upto:
        return
    last = (sink.last_run() or {}).get("frontier")
    frontier = None if last is None else pa.scalar(last, STAMP).cast(pa.int64()).as_py()
    parts = cut(sink, sink.writer.rows(query.name, ("is_current", True)))
    span = BEFORE if done is None else done, upto
    if len(parts) == 1:
        sink.writer.overwrite(name, _now_of(sink, query, *span, frontier, *parts), app_id, upto)
        return
    made = spread(sink, partial(_make_now, query, *span, frontier), parts)
    sink.writer.overwrite(name, sink.specs[name].schema.empty_table(), app_id, upto, [f for m in made for f in m.files])


def _make_now(query: QueryNode, done: int, upto: int, frontier: int | None, sink: Sink, part: Part) -> Made:
    return Made(sink.writer.files(now_name(query.name), _now_of(sink, query, done, upto, frontier, part)))


def _now_of(sink: Sink, query: QueryNode, done: int, upto: int, frontier: int | None, part: Part) -> pa.Table:
    """Return the current results of one part."""
    schema = sink.specs[now_name(query.name)].schema
    columns = [n for n in schema.names if n not in ("rank", "as_of")]
    rows = sink.writer.read(query.name, [*columns, "valid_from"], part.of(sink, pc.field("is_current")))
    plan, heads = sink.plan, sink.writer.read("heads", where=part.of(sink))
    as_of = key_as_of(rows, heads, plan, frontier)
    if query.item.time_varying is not None:
        streams = stream_columns(plan, query)
        named = (*streams, *identity_columns(plan, query))
        points = _points(sink, query, named, done, upto, part)
        as_of = latest_known(rows, points, streams, as_of)
        rows = values_at(rows, points, query.item, named, as_of)
    rows = rows.select(columns).append_column("as_of", pa.array(as_of).cast(STAMP))
    ordered, _, rank = ranked(rows, query, stream_columns(plan, query))
    return to_schema(ordered.append_column("rank", pa.array(rank.astype(np.int32))), schema)


def _points(sink: Sink, query: QueryNode, named: Sequence[str], done: int, upto: int, part: Part) -> pa.Table:
    """Return the latest points of trajectories up to batch ``upto``, of the items in the result at batch ``done`` or later.

    The rows of the current results, derived up to batch ``done``, are points themselves. So earlier batches are not read again.
    """
    source = trajectory_name(query.name)
    columns = [n for n in sink.specs[source].schema.names if n != "batch_id"]
    points = sink.writer.read(now_name(query.name), [*(n for n in columns if n != "valid_from"), "as_of"], part.of(sink))
    points = points.rename_columns([{"as_of": "valid_from"}.get(n, n) for n in points.column_names]).select(columns)
    for first, last, _ in _slices(sink, source, done, upto):
        span = (pc.field("batch_id") >= first) & (pc.field("batch_id") <= last)
        new = sink.writer.read(source, columns, part.of(sink, span))
        points = latest_points(pa.concat_tables([points, new.cast(points.schema)]), named)
    return points


def key_as_of(rows: pa.Table, heads: pa.Table, plan: Plan, frontier: int | None) -> I64:
    """Return for each row the last microsecond up to which its key is complete: that of ``heads``, or of the frontier if later."""
    keys = plan.intake.partition_by
    floor = -(2**63) if frontier is None else frontier - 1
    if not rows.num_rows or not heads.num_rows:
        return np.full(rows.num_rows, floor)
    at = pc.cast(heads["as_of"], pa.int64()).to_numpy()
    if not keys:
        return np.full(rows.num_rows, max(int(at.max(initial=floor)), floor))
    mine, theirs = key_numbers([rows, heads], keys)
    by_number = np.argsort(theirs)
    found = by_number[np.minimum(np.searchsorted(theirs, mine, sorter=by_number), len(theirs) - 1)]
    # A bucket may have deferred the row of a new key: all that is known is the frontier.
    out: I64 = np.where(theirs[found] == mine, np.maximum(at[found], floor), floor)
    return out
