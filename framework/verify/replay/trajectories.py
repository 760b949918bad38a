"""Read trajectories: the value of an item at an instant, and whether its points follow from each other."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from skyband.framework.base.items import TimeVarying
from skyband.framework.plan.model import QueryNode
from skyband.framework.tables.schemas import identity_columns, stream_columns, trajectory_name
from skyband.framework.verify.stored import Item, Key, Stored, keys_of, micros


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
