"""Replay a change stream by its definition (docs/semantics 3, 6, tables), and compare the tables derived from it."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import groupby, pairwise
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from skyband.framework.base.items import SCORE, TimeVarying, rank_key
from skyband.framework.base.types import STAMP
from skyband.framework.plan.model import QueryNode
from skyband.framework.queries.registry import query_type
from skyband.framework.tables.schemas import (
    changes_name,
    final_name,
    identity_columns,
    now_name,
    now_schema,
    results_schema,
    stream_columns,
    trajectory_name,
)
from skyband.framework.verify.brute_force.calendars import window_around
from skyband.framework.verify.budget import UNLIMITED, Budget, OutOfTime
from skyband.framework.verify.differences import Difference, place
from skyband.framework.verify.replay.causes import Change, Clocks, Rules, Step, impossible
from skyband.framework.verify.stored import BEFORE, Item, Key, Stored, exact, key_of, keys_of, micros, row_of, smallest_first, window_for

# Compare the final results of tumbling windows with the calendar, with each other and with the changes.


class FinalResults:
    """The rows of ``<query>_final`` in the batches that results have been derived from, by stream and end of the window."""

    def __init__(self, stored: Stored, query: QueryNode) -> None:
        self.query, self.names = query, stream_columns(stored.plan, query)
        rows = stored.table(final_name(query.name))
        rows = rows.filter(pc.less_equal(rows["batch_id"], stored.derived_upto(query)))
        self._rows = rows.to_pylist()
        self._items = keys_of(rows, identity_columns(stored.plan, query))
        self.start = micros(rows, "window_start")
        self.windows: dict[tuple[Key, int], list[int]] = {}
        """The rows of a stream and end, by rank."""
        for i, (stream, end) in enumerate(zip(keys_of(rows, self.names), micros(rows, "window_end"), strict=True)):
            self.windows.setdefault((stream, end or 0), []).append(i)
        for mine in self.windows.values():
            mine.sort(key=lambda i: self._rows[i]["rank"])

    def at(self, stream: Key, end: int) -> list[tuple[Item, float]]:
        """Return (item, score) of the window of a stream that ended then, in rank order."""
        return [(self._items[i], self._rows[i].get(SCORE, 0.0)) for i in self.windows.get((stream, end), [])]

    def carried(self, stream: Key, end: int) -> list[tuple[Any, ...]]:
        """Return what each row of a window carries (``ItemShape.carried``), in rank order."""
        return [tuple(self._rows[i][c.name] for c in self.query.item.carried) for i in self.windows.get((stream, end), [])]

    def differs(self, stream: Key, end: int, said: str, expected: list[dict[str, Any]] | None = None) -> Difference:
        """Return a difference in the rows of a window."""
        shown = [self._rows[i] for i in self.windows.get((stream, end), [])]
        return Difference(place(f"table {final_name(self.query.name)}", self.names, stream, end), said, expected, shown, end)

    def mistakes(self) -> Iterator[Difference]:
        """Yield the windows whose bounds are not those of the calendar, or whose rows are not one result in rank order."""
        for (stream, end), mine in self.windows.items():
            rank, rows = rank_key(self.query.item, smallest_first(self.query, stream)), [self._rows[i] for i in mine]
            keys = [rank(row) for row in rows]
            if not self._bounded({self.start[i] or 0 for i in mine}, end):
                yield self.differs(stream, end, "its bounds are not those of a window")
            elif [row["rank"] for row in rows] != list(range(1, len(rows) + 1)) or any(a >= b for a, b in pairwise(keys)):
                yield self.differs(stream, end, "its rows are not in rank order, or not ranked 1, 2, 3, ...")
            elif len({row["batch_id"] for row in rows}) > 1:
                yield self.differs(stream, end, "its rows were written by two batches")

    def _bounded(self, starts: set[int], end: int) -> bool:
        """Return True if rows with these starts may be of one window that ends at ``end``. Only the source knows where sessions end."""
        window = self.query.window
        if window.tumbling is None:
            return len(starts) == 1 and end - max(starts) >= (window.session or 0)
        return starts == {window_around(window.tumbling, end - 1)[0]} and window_around(window.tumbling, end)[0] == end


def compare_final_results(stored: Stored, query: QueryNode, left: dict[tuple[Key, int], set[tuple[Item, str]]]) -> Iterator[Difference]:
    """Compare final results with the calendar and, without ``every``, with the changes: of sessions, those that have a final result.

    ``left``: of each stream and instant the items that left in the first step, with the bits of their scores.
    """
    finals, calendar = FinalResults(stored, query), query.window.tumbling
    yield from finals.mistakes()
    if query.every_micros:
        return
    ended = {at for _, at in left if calendar is not None and window_around(calendar, at)[0] == at}
    ends = {(stream, at) for stream, at in left if at in ended}
    for stream, end in sorted(ends | set(finals.windows), key=repr):
        found = {(item, score.hex()) for item, score in finals.at(stream, end)}
        if found != left.get((stream, end), set()):
            yield finals.differs(stream, end, "the members are not those that left the result as the window ended")


# Read trajectories: the value of an item at an instant, and whether its points follow from each other.


class Point(NamedTuple):
    """From ``at`` on, an item has ``value``, which grows by ``slope`` per microsecond. All are in microseconds.

    A value that is constant between points has slope 0 and its own unit. ``carried``: what the point has of ``ItemShape.carried``.
    """

    at: int
    value: float
    slope: int
    carried: tuple[Any, ...] = ()

    def by(self, at: int) -> float:
        """Return the value at a later instant."""
        return self.value + self.slope * (at - self.at)


def to_micros(seconds: float) -> int:
    """Return seconds, as tables have them, in microseconds."""
    return round(seconds * 1e6)


def value_and_slope(rows: pa.Table, varying: TimeVarying) -> tuple[list[float], list[int]]:
    """Return the value of each row, in the unit of ``Point``, and its slope."""
    values = rows[varying.value].to_pylist()
    if varying.slope is None:
        return values, [0] * rows.num_rows
    return [to_micros(v) for v in values], rows[varying.slope].to_pylist()


class Trajectories:
    """The points of ``<query>_trajectory`` in the batches that results have been derived from, by stream and item."""

    def __init__(self, stored: Stored, query: QueryNode) -> None:
        varying = query.item.time_varying
        assert varying is not None
        self.varying = varying
        rows = stored.table(trajectory_name(query.name))
        rows = rows.filter(pc.less_equal(rows["batch_id"], stored.derived_upto(query)))
        streams, items = keys_of(rows, stream_columns(stored.plan, query)), keys_of(rows, identity_columns(stored.plan, query))
        self._carried = [c.name for c in query.item.carried]
        more = [rows[name].to_pylist() for name in self._carried]
        carried = list(zip(*more, strict=True)) if more else [()] * rows.num_rows
        columns = micros(rows, "valid_from"), *value_and_slope(rows, varying)
        self.points: dict[tuple[Key, Item], list[Point]] = {}
        for name, at, value, slope, further in zip(zip(streams, items, strict=True), *columns, carried, strict=True):
            self.points.setdefault(name, []).append(Point(at or 0, value, slope, further))
        self._items: dict[Key, set[Item]] = {}
        for stream, item in self.points:
            self._items.setdefault(stream, set()).add(item)
        for line in self.points.values():
            line.sort(key=lambda p: p[:3])  # what points carry may be null

    def values(self, stream: Key, item: Item, at: int) -> dict[str, Any]:
        """Return the time-varying values of an item at ``at``, and what it carries, by column.

        Before its first point, the values are NaN, which equals nothing.
        """
        point = at_instant(self.points.get((stream, item), []), at)
        if point is None:
            return {self.varying.value: math.nan, **({} if self.varying.slope is None else {self.varying.slope: 0})}
        if self.varying.slope is None:
            return {self.varying.value: point.value, **dict(zip(self._carried, point.carried, strict=True))}
        return {self.varying.value: point.by(at) / 1e6, self.varying.slope: point.slope}

    def items(self, stream: Key) -> set[Item]:
        """Return the items of a stream that have points."""
        return self._items.get(stream, set())

    def at(self, stream: Key, item: Item, at: int) -> Point | None:
        """Return an item's last point by ``at``; None before its first point."""
        return at_instant(self.points.get((stream, item), []), at)

    @property
    def count(self) -> int:
        """The number of all points."""
        return sum(map(len, self.points.values()))

    def count_until(self, stream: Key, at: int) -> int:
        """Return the number of a stream's points up to an instant."""
        return sum(bisect_right(self.points[stream, item], at, key=lambda p: p.at) for item in self.items(stream))

    def carried(self, stream: Key, item: Item, at: int) -> tuple[Any, ...] | None:
        """Return what an item's last point by ``at`` carries; None before its first point."""
        point = at_instant(self.points.get((stream, item), []), at)
        return None if point is None else point.carried


def at_instant(points: list[Point], at: int) -> Point | None:
    """Return the last of an item's ``points`` (in order) that is not later than ``at``."""
    found = bisect_right(points, at, key=lambda p: p.at)
    return points[found - 1] if found else None


def differences(item: Any, start: Point, end: tuple[int, float] | None, points: list[Point], of_all: bool) -> Iterator[str]:
    """Yield what is wrong with an item's trajectory during one stay in the result.

    The item entered at ``start`` and left at (instant, value) ``end``, None if it is still in. ``points`` are all of the item's, in order.
    ``of_all``: items have points outside of the result too; otherwise a point must stand where the item enters.
    """
    first = at_instant(points, start.at)
    if first is None or (first.by(start.at), first.slope) != (start.value, start.slope) or (first.at != start.at and not of_all):
        yield f"{item} entered with {start}, but its trajectory has {first}"
        return
    inside = [p for p in points if p.at >= first.at and (end is None or p.at < end[0])]
    yield from off_line(item, inside)
    if end is not None and inside[-1].by(end[0]) != end[1]:
        yield f"{item} left at {end[0]} us with {end[1]} us, but its trajectory gives {inside[-1].by(end[0])}"


def unmarked(item: Any, start: int, end: int | None, points: list[Point]) -> Iterator[str]:
    """Yield what is wrong with the points of a value without slope during one stay in the result, from ``start`` to ``end``.

    The stay has a point where it begins, unless it ends at that instant, and one per instant. Changes may have values from within an
    instant; points have those of its end.
    """
    inside = [p for p in points if p.at >= start and (end is None or p.at < end)]
    if start != end and (not inside or inside[0].at != start):
        yield f"{item} entered at {start} us, but its trajectory has {inside[0] if inside else None}"
    for before, p in pairwise(inside):
        if p.at <= before.at:
            yield f"{item} has two points at {p.at} us"
        elif (p.value, p.carried) == (before.value, before.carried):
            yield f"{item} has a point at {p.at} us, but the values of the point before"


def off_line(item: Any, points: Iterable[Point]) -> Iterator[str]:
    """Yield the points that do not follow from the point before."""
    before: Point | None = None
    for p in points:
        if p.slope not in (-1, 0, 1):
            yield f"{item} has slope {p.slope} at {p.at} us"
        if before is not None and p.at <= before.at:
            yield f"{item} has two points at {p.at} us"
        elif before is not None and before.by(p.at) != p.value:
            yield f"{item} jumps to {p.value} us at {p.at} us, where the point before gives {before.by(p.at)}"
        before = p


# Compare ``<query>`` and ``<query>_now`` with the result of replaying the changes: every column, bit for bit.


def compare_results(stored: Stored, query: QueryNode, changes: pa.Table, intervals: Sequence[tuple[int, int | None]]) -> list[Difference]:
    """Compare ``<query>`` with ``intervals``: the rows of ``changes`` that open and close each."""
    opening, closing = pa.array([a for a, _ in intervals], pa.int64()), pa.array([b for _, b in intervals], pa.int64())
    opened, closed = changes.take(opening), changes.select(["changed_at", "step"]).take(closing)
    made = {
        "valid_from": opened["changed_at"], "valid_to": closed["changed_at"], "from_step": opened["step"], "to_step": closed["step"],
        "is_current": pa.array([b is None for _, b in intervals], pa.bool_()),
    }  # fmt: skip
    schema = results_schema(stored.plan, query)
    expected = pa.table([made[n] if n in made else opened[n] for n in schema.names], names=schema.names)
    streams = stream_columns(stored.plan, query)
    same = (*streams, *identity_columns(stored.plan, query), "from_step")
    return _differences(query.name, expected, stored.table(query.name), schema.names, same, streams, "valid_from")


def compare_now(stored: Stored, query: QueryNode, changes: pa.Table, current: Sequence[int], name: str) -> list[Difference]:
    """Compare ``<query>_now`` with ``current``: the rows of ``changes`` in the current results, by stream and rank."""
    rows = changes.take(pa.array(current, pa.int64()))
    streams = stream_columns(stored.plan, query)
    keys = keys_of(rows, streams)
    ranks = [rank for _, mine in groupby(keys) for rank, _ in enumerate(mine, 1)]
    names = now_schema(stored.plan, query).names
    made: Mapping[str, Any] = {"rank": pa.array(ranks, pa.int32())}
    if stored.derived_upto(query) == stored.last_batch and stored.heads_complete:
        complete = _complete(stored)
        made = {**made, "as_of": pa.array([complete.get(key_of(stored.plan, query, k)) for k in keys], pa.int64()).cast(STAMP)}
    else:  # a killed or running job: its keys are ahead of its results
        names = [n for n in names if n != "as_of"]
    same = (*streams, "rank")
    if query.item.varies:  # ranks and values are as of now, not as of the changes
        same = (*streams, *identity_columns(stored.plan, query))
        names = [n for n in names if n not in {"rank", *(v.name for v in query.item.values), *query.item.varying_columns}]
    expected = pa.table([made[n] if n in made else rows[n] for n in names], names=names)
    return _differences(name, expected, stored.table(name), names, same, streams, None)


def _complete(stored: Stored) -> dict[Key, int]:
    """Return up to when the results of every key are complete: the end of its last batch, or of the job's if that is later."""
    heads, keys = stored.table("heads"), stored.plan.intake.partition_by
    last = stored.frontier(stored.last_batch) - 1
    found = {k: max(BEFORE if t is None else t, last) for k, t in zip(keys_of(heads, keys), micros(heads, "as_of"), strict=True)}
    return found or {(): last}


def _differences(
    table: str, expected: pa.Table, got: pa.Table, names: Sequence[str], same: Sequence[str], streams: Sequence[str], at: str | None
) -> list[Difference]:
    """Return the rows on one side only; two rows that are equal in the columns ``same`` become one difference."""
    sides = exact(expected, names), exact(got, names)
    counts = Counter(sides[0]), Counter(sides[1])
    lone: list[dict[Key, list[int]]] = []
    for side, (rows, table_of_side) in enumerate(zip(sides, (expected, got), strict=True)):
        left = counts[side] - counts[1 - side]
        named = exact(table_of_side, same) if left else []
        mine: dict[Key, list[int]] = {}
        for i, row in enumerate(rows) if left else ():
            if left[row]:
                left[row] -= 1
                mine.setdefault(named[i], []).append(i)
        lone.append(mine)
    out = []
    for which in [*lone[0], *(k for k in lone[1] if k not in lone[0])]:
        missing, found = lone[0].get(which, []), lone[1].get(which, [])
        shown, i = (expected, missing[0]) if missing else (got, found[0])
        when = shown[at].slice(i, 1).cast(pa.int64())[0].as_py() if at is not None else None
        where = place(f"table {table}", streams, keys_of(shown.slice(i, 1), streams)[0], when)
        what = "a row that the changes do not give" if not missing else "a row is missing that the changes give"
        if missing and found:
            unlike = [n for n, a, b in zip(names, sides[0][missing[0]], sides[1][found[0]], strict=True) if a != b]
            what = f"differs from the changes: {', '.join(unlike)}"
        out.append(Difference(where, what, [row_of(expected, i) for i in missing], [row_of(got, i) for i in found], when))
    return out


# Compare the trajectories of time-varying values with the changes, and ``<query>_now`` with the trajectories.


def compare_trajectories(
    stored: Stored, query: QueryNode, changes: pa.Table, intervals: Sequence[tuple[int, int | None]]
) -> Iterator[Difference]:
    """Compare the trajectories with ``intervals``: the rows of ``changes`` that open and close each."""
    lines = Trajectories(stored, query)
    varying, streams = lines.varying, stream_columns(stored.plan, query)
    names = list(zip(keys_of(changes, streams), keys_of(changes, identity_columns(stored.plan, query)), strict=True))
    at, (values, slopes) = micros(changes, "changed_at"), value_and_slope(changes, varying)

    def wrong(name: tuple[Key, Item], said: str, when: int | None = None) -> Difference:
        return Difference(place(f"table {trajectory_name(query.name)}", streams, name[0], when), said, at=when)

    for enters, leaves in intervals:
        start = Point(at[enters] or 0, values[enters], slopes[enters])
        end = None if leaves is None else (at[leaves] or 0, values[leaves])
        item, points = names[enters][1], lines.points.get(names[enters], [])
        if varying.slope is None:
            found = unmarked(item, start.at, None if end is None else end[0], points)
        else:
            found = differences(item, start, end, points, varying.all_items)
        for said in found:
            yield wrong(names[enters], said, start.at)
    for name, line in lines.points.items() if varying.all_items else ():
        # Before its first point the value of an object is 0, and it is never negative.
        for said in off_line(name[1], [Point(line[0].at - 1, 0, 0), *line]):
            yield wrong(name, said)
        if line[-1].by(max(stored.until.get(name[0][len(name[0]) - len(stored.plan.intake.partition_by) :], 0), line[-1].at)) < 0:
            yield wrong(name, f"{name[1]} falls below 0 after its last point, {line[-1]}", line[-1].at)
    yield from _now(stored, query, lines)


def _now(stored: Stored, query: QueryNode, lines: Trajectories) -> Iterator[Difference]:
    """Compare the values and ranks of ``<query>_now`` with the trajectories."""
    table, streams = stored.table(now_name(query.name)), stream_columns(stored.plan, query)
    named = keys_of(table, streams), keys_of(table, identity_columns(stored.plan, query))
    rows = table.to_pylist()
    ranked: dict[Key, list[tuple[Any, int]]] = {}
    for i, (stream, item, at) in enumerate(zip(*named, micros(table, "as_of"), strict=True)):
        values = lines.values(stream, item, at or 0)
        row = rows[i]
        if any(row[n] != v for n, v in values.items()):
            where = place(f"table {now_name(query.name)}", streams, stream, at)
            yield Difference(where, "differs from the trajectory", [{**row, **values}], [row], at)
        ranked.setdefault(stream, []).append((rank_key(query.item, smallest_first(query, stream))(row), i))
    for stream, places in ranked.items():
        for rank, (_, i) in enumerate(sorted(places), 1):
            row = rows[i]
            if row["rank"] != rank:
                where = place(f"table {now_name(query.name)}", streams, stream)
                yield Difference(where, "the ranks do not follow from the values", [{**row, "rank": rank}], [row])


_INTERVAL = ("valid_from", "valid_to", "from_step", "to_step", "is_current")


@dataclass(slots=True)
class Replayed:
    """The outcome of replaying one query. ``total``: its changes, of which ``changes`` have been replayed."""

    total: int = 0
    changes: int = 0
    steps: int = 0
    differences: list[Difference] = field(default_factory=list)


@dataclass
class Stream:
    """The columns of ``<query>_changes``, up to the last batch that results have been derived from."""

    stored: Stored
    query: QueryNode
    rows: pa.Table

    def __post_init__(self) -> None:
        plan, query = self.stored.plan, self.query
        self.names = stream_columns(plan, query)
        self.common = [f.name for f in results_schema(plan, query) if f.name not in _INTERVAL]
        self.keys = keys_of(self.rows, self.names)
        self.items: list[Item] = keys_of(self.rows, identity_columns(plan, query))
        self.at = [BEFORE if t is None else t for t in micros(self.rows, "changed_at")]
        self.step, self.pos, self.batch = (self.rows[n].to_pylist() for n in ("step", "pos", "batch_id"))
        # Items that are reported once have neither sign nor cause: they only enter.
        self.change, self.cause = ["+"] * self.rows.num_rows, ["arrival"] * self.rows.num_rows
        if self.query.item.lasting:
            self.change, self.cause = (self.rows[n].to_pylist() for n in ("change", "cause"))

    @cached_property
    def values(self) -> list[Key]:
        """Of each row the keys, item columns and values, bit for bit."""
        return exact(self.rows, self.common)

    @cached_property
    def shown(self) -> list[tuple[float, int | None, tuple[Any, ...]]]:
        """Of each row the score (NaN for none) or time-varying value (0.0 if it has neither), its slope, and what the change carries."""
        item, n = self.query.item, self.rows.num_rows
        value = item.time_varying.value if item.time_varying is not None else SCORE if item.scored else None
        slope = None if item.time_varying is None else item.time_varying.slope
        values = [0.0] * n if value is None else self.rows[value].to_pylist()
        if any(v.name == value and v.nullable for v in item.values):
            values = [math.nan if v is None else v for v in values]
        slopes = [None] * n if slope is None else self.rows[slope].to_pylist()
        return list(zip(values, slopes, keys_of(self.rows, [c.name for c in item.carried]), strict=True))

    @cached_property
    def ranks(self) -> list[Any]:
        """Of each row the sort key of its item within the stream."""
        named = list(dict.fromkeys(c for term in self.query.item.rank for c in term.columns))
        keys = {d: rank_key(self.query.item, d) for d in (False, True)}
        values = [self.rows[n].to_pylist() for n in named]
        return [
            keys[smallest_first(self.query, k)](dict(zip(named, v, strict=True)))
            for k, v in zip(self.keys, zip(*values, strict=True), strict=True)
        ]  # fmt: skip

    def streams(self) -> Iterator[tuple[Key, list[int]]]:
        """Yield the key and the rows of every stream, in the order of steps."""
        order = sorted(range(self.rows.num_rows), key=lambda i: (repr(self.keys[i]), self.step[i], self.pos[i]))
        for _, group in groupby(order, key=lambda i: repr(self.keys[i])):
            mine = list(group)
            yield self.keys[mine[0]], mine

    def differs(self, i: int, what: str, beside: list[int] | None = None) -> Difference:
        """Return a difference at row ``i``; ``beside``: the rows that it contradicts."""
        where = place(f"table {changes_name(self.query.name)}", self.names, self.keys[i], self.at[i], self.step[i])
        shown = None if beside is None else [row_of(self.rows, j) for j in beside]
        return Difference(where, what, shown, [row_of(self.rows, i)], self.at[i], "after")


@dataclass(slots=True)
class Interval:
    """A stay of an item in the result, from row ``enters`` of the changes to row ``leaves`` (None: still in the result)."""

    enters: int
    leaves: int | None


def stream_of(stored: Stored, query: QueryNode) -> Stream:
    """Return the change stream of ``query``, as far as its results have been derived."""
    return Stream(stored, query, stored.changes(query, stored.changes_upto(query)))


def replay(stored: Stored, query: QueryNode, clocks: Clocks, budget: Budget = UNLIMITED) -> Replayed:
    """Replay ``<query>_changes``, and compare every column of ``<query>`` and ``<query>_now`` with the outcome.

    In the stream itself, steps, positions, instants and batches must follow each other. Within a step all ``-`` come before all ``+``, each
    in rank order. An item leaves with the values it entered with, and no cause is impossible. Out of time, only some streams are replayed,
    and the other tables are not compared.
    """
    out = Replayed(total=stored.changes(query, stored.changes_upto(query)).num_rows)
    try:
        budget.check()
        _replay(stored, query, clocks, budget, out)
    except OutOfTime:
        out.changes = min(out.changes, max(0, out.total - 1))
    return out


def _replay(stored: Stored, query: QueryNode, clocks: Clocks, budget: Budget, out: Replayed) -> None:
    stream = stream_of(stored, query)
    intervals: list[Interval] = []
    for key, rows in stream.streams():
        found = [*_order(stream, rows, budget)]
        if not query.item.lasting:
            found += _reported_once(stream, rows)
        else:
            found += compare_causes(stream, key, rows, clocks, budget)
            intervals += _intervals(stream, rows, found, budget)
        out.differences += found
        out.changes += len(rows)
        out.steps += sum(stream.pos[i] == 0 for i in rows)
    if not query.item.lasting:
        return
    budget.check()
    out.differences += compare_results(stored, query, stream.rows, [(x.enters, x.leaves) for x in intervals])
    budget.check()
    now_upto = stored.derived_upto(query)
    current = [
        x.enters for x in intervals if stream.batch[x.enters] <= now_upto and (x.leaves is None or stream.batch[x.leaves] > now_upto)
    ]
    current.sort(key=lambda i: (repr(stream.keys[i]), stream.ranks[i]))
    out.differences += compare_now(stored, query, stream.rows, current, now_name(query.name))
    if query.item.time_varying is not None and not out.differences:
        budget.check()
        out.differences += compare_trajectories(stored, query, stream.rows, [(x.enters, x.leaves) for x in intervals])
    if query.item.closes and not out.differences:
        budget.check()
        out.differences += compare_final_results(stored, query, _left_first(stream))


def _left_first(stream: Stream) -> dict[tuple[Key, int], set[tuple[Item, str]]]:
    """Return of each stream and instant the items that left in the first step, with the bits of their scores."""
    scored, found = SCORE in stream.rows.column_names, dict[tuple[Key, int], set[tuple[Item, str]]]()
    scores = stream.rows[SCORE].to_pylist() if scored else [0.0] * stream.rows.num_rows
    first: dict[tuple[Key, int], int] = {}
    for key, rows in stream.streams():
        for i in rows:
            if first.setdefault((key, stream.at[i]), stream.step[i]) == stream.step[i] and stream.change[i] == "-":
                found.setdefault((key, stream.at[i]), set()).add((stream.items[i], scores[i].hex()))
    return found


def _order(stream: Stream, rows: list[int], budget: Budget) -> Iterator[Difference]:
    """Yield the rows that do not follow the row before them."""
    before: int | None = None
    every = stream.query.every_micros
    for i in budget.checked(rows):
        step, pos = (0, -1) if before is None else (stream.step[before], stream.pos[before])
        if (stream.step[i], stream.pos[i]) not in ((step, pos + 1), (step + 1, 0)) or (before is None and stream.step[i] == 0):
            yield stream.differs(i, f"step {stream.step[i]} pos {stream.pos[i]} does not follow step {step} pos {pos}")
        elif every and stream.at[i] % every:
            yield stream.differs(i, "a query with 'every' changes only at its multiples")
        elif before is not None:
            same = stream.step[i] == step
            if stream.at[i] < stream.at[before] or stream.batch[i] < stream.batch[before]:
                yield stream.differs(i, "its instant or batch is before that of the change it follows", [before])
            elif same and (stream.at[i] != stream.at[before] or stream.batch[i] != stream.batch[before]):
                yield stream.differs(i, "a step has two instants or two batches", [before])
            elif same and stream.change[before] == "+" and stream.change[i] == "-":
                yield stream.differs(i, "a - follows a + of the same step")
            elif same and stream.change[i] == stream.change[before] and stream.ranks[i] <= stream.ranks[before]:
                yield stream.differs(i, f"the {stream.change[i]} of a step are not in rank order: this row follows", [before])
        before = i


def _reported_once(stream: Stream, rows: list[int]) -> Iterator[Difference]:
    """Yield items that are reported twice, or not at the instant of the newest of their rows."""
    times = [micros(stream.rows, part.prefix + "time") for part in stream.query.item.rows]
    seen: dict[Item, int] = {}
    for i in rows:
        if stream.items[i] in seen:
            yield stream.differs(i, "the item has been reported before", [seen[stream.items[i]]])
        elif stream.at[i] != max(t[i] or BEFORE for t in times):
            yield stream.differs(i, "the item is not reported at the instant of the newest of its rows")
        seen[stream.items[i]] = i


def compare_causes(stream: Stream, key: Key, rows: list[int], clocks: Clocks, budget: Budget = UNLIMITED) -> Iterator[Difference]:
    """Yield the impossible causes in a stream's ``rows``, which are in order. Raises OutOfTime."""
    query, plan = stream.query, stream.stored.plan
    window = window_for(query, key)
    capped = query_type(query.type).limits(plan, query, query.asked[0] if query.asked else None).most_of_row is not None
    rules = Rules(window, bool(query.every_micros), plan.intake.has_deletions, query.item.varies, capped)
    clock = clocks.of(key_of(plan, query, key))
    seqs, times = clocks.parts(query.name)
    for _, group in groupby(budget.checked(rows), key=stream.step.__getitem__):
        mine = list(group)
        step = Step(stream.at[mine[0]], [Change(stream.change[i] == "+", stream.cause[i], seqs[i], times[i]) for i in mine])
        for position, why in impossible(step, rules, clock):
            yield stream.differs(mine[position], why)


def _intervals(stream: Stream, rows: list[int], differences: list[Difference], budget: Budget) -> list[Interval]:
    """Return the stays of all items; append what is wrong to ``differences``."""
    current: dict[Item, int] = {}
    done: list[Interval] = []
    for i in budget.checked(rows):
        item, enters = stream.items[i], stream.change[i] == "+"
        if stream.change[i] not in ("+", "-") or enters == (item in current):
            said = f"the change is {stream.change[i]}, but its item is {'already' if item in current else 'not'} in the result"
            differences.append(stream.differs(i, said, [current[item]] if item in current else None))
        elif enters:
            current[item] = i
        else:
            entered = current.pop(item)
            done.append(Interval(entered, i))
            if not stream.query.item.varies and stream.values[entered] != stream.values[i]:
                differences.append(stream.differs(i, "the item leaves with other values than it entered with", [entered]))
    return done + [Interval(i, None) for i in current.values()]
