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

from skyband.framework.base.failpoints import failpoint
from skyband.framework.base.messages import behind
from skyband.framework.base.types import STAMP
from skyband.framework.plan.model import QueryNode
from skyband.framework.storage import delta_read
from skyband.framework.storage.delta_read import to_schema
from skyband.framework.storage.location import Location
from skyband.framework.tables.delta.data_files import DataFile
from skyband.framework.tables.delta.expected_columns import need_columns
from skyband.framework.tables.outcome import Outcome
from skyband.framework.tables.render import numbered
from skyband.framework.tables.results import invariants
from skyband.framework.tables.results.timeline import Timeline, key_as_of
from skyband.framework.tables.schemas import changes_name, fixed_schema, now_name, trajectory_name
from skyband.framework.tables.writing.sink import FILLED_BATCH, Sink

I64 = npt.NDArray[np.int64]

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
    timeline = Timeline.of(sink.plan, query)
    number = numbered(opened, changes, timeline.streams)
    rows = timeline.intervals(opened, changes, number)
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
    timeline = Timeline.of(sink.plan, query)
    as_of = key_as_of(rows, sink.writer.read("heads", where=part.of(sink)), sink.plan, frontier)
    if query.item.time_varying is not None:
        points = _points(sink, timeline, done, upto, part)
        as_of = timeline.latest_known(rows, points, as_of)
        rows = timeline.values_at(rows, points, as_of)
    return to_schema(timeline.ranked(rows.select(columns).append_column("as_of", pa.array(as_of).cast(STAMP))), schema)


def _points(sink: Sink, timeline: Timeline, done: int, upto: int, part: Part) -> pa.Table:
    """Return the latest points of trajectories up to batch ``upto``, of the items in the result at batch ``done`` or later.

    The rows of the current results, derived up to batch ``done``, are points themselves. So earlier batches are not read again.
    """
    source = trajectory_name(timeline.query.name)
    columns = [n for n in sink.specs[source].schema.names if n != "batch_id"]
    points = sink.writer.read(now_name(timeline.query.name), [*(n for n in columns if n != "valid_from"), "as_of"], part.of(sink))
    points = points.rename_columns([{"as_of": "valid_from"}.get(n, n) for n in points.column_names]).select(columns)
    for first, last, _ in _slices(sink, source, done, upto):
        span = (pc.field("batch_id") >= first) & (pc.field("batch_id") <= last)
        new = sink.writer.read(source, columns, part.of(sink, span))
        points = timeline.last(pa.concat_tables([points, new.cast(points.schema)]))
    return points
