"""The changes of a query in memory, by stream and instant, with items named alike in two runs.

Positions of rows (``seq``) differ between runs that accept other rows. So a row is named by its id and event time, and by a number where
several rows of that name are in a result at once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa

from skyband.framework.base.items import rank_key
from skyband.framework.plan.model import Plan, QueryNode
from skyband.framework.tables.results.timeline import Timeline
from skyband.framework.tables.schemas import changes_name, identity_columns, stream_columns, trajectory_name
from skyband.framework.verify.stored import Key, keys_of, micros, smallest_first

Name = tuple[Any, ...]
Item = tuple[Name, int]
"""The name of an item, and its number among those of that name."""
_OWN: Final = ("changed_at", "step", "pos", "change", "cause", "batch_id")


@dataclass(frozen=True, slots=True)
class Columns:
    """The columns of a query's changes: ``name`` an item, ``seq`` identifies it in one run, ``values`` are compared.

    ``carried``: those that vary with an item's value; points of trajectories have them.
    """

    stream: tuple[str, ...]
    name: tuple[str, ...]
    seq: tuple[str, ...]
    values: tuple[str, ...]
    carried: tuple[str, ...]

    @property
    def compared(self) -> tuple[str, ...]:
        """Return the columns that are the same in every run over the same rows."""
        return (*self.stream, *self.name, *self.values, *self.carried)


def columns_of(plan: Plan, query: QueryNode, table: pa.Table) -> Columns:
    """Return the columns of the changes in ``table``."""
    stream = stream_columns(plan, query)
    items = query.item.columns(plan.intake.id, query.carry, plan.intake.partition_by)
    name = tuple(c.name for c in items if c.what in ("id", "time", "object"))
    seq = tuple(c.name for c in items if c.what == "seq")
    moving = set() if query.item.time_varying is None else {*query.item.time_varying.columns, *(v.name for v in query.item.values)}
    carried = _carried(query)
    other = {*stream, *name, *seq, *_OWN, *moving, *carried}
    return Columns(stream, name, seq, tuple(c for c in table.column_names if c not in other), carried)


def _carried(query: QueryNode) -> tuple[str, ...]:
    varying = query.item.time_varying
    return () if varying is None else tuple(c for c in query.item.varying_columns if c not in varying.columns)


@dataclass(frozen=True, slots=True)
class Present:
    """An item of a result. ``values``: those of ``Columns.values``; ``ranked``: the columns that its rank follows from, as it entered."""

    values: tuple[Any, ...]
    ranked: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Change:
    """An item that enters or leaves. ``identity`` is that of its run."""

    at: int
    enters: bool
    name: Name
    identity: Name
    item: Present


@dataclass(frozen=True, slots=True)
class Point:
    """A point of the trajectory of an item: the value from ``at`` on, in microseconds if it has a slope, that, and what is carried."""

    at: int
    name: Name
    value: Any
    slope: int | None
    carried: tuple[Any, ...] = ()

    def as_of(self, at: int) -> Any:
        """Return the value at ``at``, in microseconds if it has a slope."""
        return self.value if self.slope is None else self.value + self.slope * (at - self.at)


@dataclass
class Side:
    """One run's stream of a query: what comes in, in order, and the result so far.

    ``order``: the sort key of items; ``varying``: the column of a value that varies and comes from points. ``changes``: at one instant,
    items that leave come first, so that one that leaves and enters then keeps its number.
    """

    order: Callable[[Mapping[str, Any]], Any] | None = None
    varying: str | None = None
    changes: list[Change] = field(default_factory=list)
    points: list[Point] = field(default_factory=list)
    present: dict[Item, Present] = field(default_factory=dict)
    moving: dict[Name, Point] = field(default_factory=dict)
    _items: dict[Name, Item] = field(default_factory=dict)
    _change: int = 0
    _point: int = 0

    def next(self) -> int | None:
        """Return the instant of what comes next."""
        at = [x[n].at for x, n in ((self.changes, self._change), (self.points, self._point)) if n < len(x)]
        return min(at, default=None)

    def take(self, at: int) -> set[Item]:
        """Apply all that comes at ``at``, and return the items that it touches."""
        touched: set[Item] = set()
        while self._change < len(self.changes) and self.changes[self._change].at == at:
            change = self.changes[self._change]
            self._change += 1
            if change.enters:
                number = 0
                while (change.name, number) in self.present:
                    number += 1
                item = self._items[change.identity] = (change.name, number)
                self.present[item] = change.item
            else:
                item = self._items.pop(change.identity)
                del self.present[item]
            touched.add(item)
        while self._point < len(self.points) and self.points[self._point].at == at:
            point = self.points[self._point]
            self._point += 1
            self.moving[point.name] = point
            touched.add((point.name, 0))
        return touched

    def ranks(self) -> dict[Item, int]:
        """Return the rank of every item. O(n log n)."""
        if self.order is None:
            return {}
        keys = {i: self.order({**p.ranked, **self._moved(i)}) for i, p in self.present.items()}
        return {item: n for n, item in enumerate(sorted(keys, key=lambda i: keys[i]), 1)}

    def _moved(self, item: Item) -> dict[str, Any]:
        point = self.moving.get(item[0])
        return {} if point is None or self.varying is None else {self.varying: point.value}

    def value(self, item: Item) -> tuple[Any, ...]:
        """Return the values of an item of the result; of one that varies, the point that they come from."""
        point = self.moving.get(item[0])
        return self.present[item].values if point is None else (*self.present[item].values, point)


def streams(plan: Plan, query: QueryNode, tables: Mapping[str, pa.Table], until: Callable[[Key], int], ranked: bool) -> dict[Key, Side]:
    """Return the streams of a query's changes, each up to the instant that ``until`` returns for its key of the stream. O(changes)."""
    table = tables[changes_name(query.name)]
    columns = columns_of(plan, query, table)
    varying = query.item.time_varying
    found: dict[Key, Side] = {}
    keys, names, values = (keys_of(table, c) for c in (columns.stream, columns.name, columns.values))
    identities = keys_of(table, identity_columns(plan, query))
    at = [t if t is not None else 0 for t in micros(table, "changed_at")]
    step, pos = table["step"].to_pylist(), table["pos"].to_pylist()
    entered, left = list(range(table.num_rows)), [-1] * table.num_rows
    if query.item.lasting:
        spans = Timeline.of(plan, query).spans(table)
        entered, left = spans.entered.tolist(), spans.left.tolist()
    terms = list(dict.fromkeys(c for term in query.item.rank for c in term.columns)) if ranked else []
    ranks = keys_of(table, terms)
    by = {d: rank_key(query.item, d) for d in (False, True)}

    def side(key: Key) -> Side:
        if key not in found:
            found[key] = Side(by[smallest_first(query, key)] if ranked else None, None if varying is None else varying.value)
        return found[key]

    for i, j in sorted(zip(entered, left, strict=True), key=lambda span: (step[span[0]], pos[span[0]])):
        # An item that enters and leaves at one instant is in the result as of none.
        end = at[j] if j >= 0 else None
        if at[i] <= until(keys[i]) and end != at[i]:
            item = Present(values[i], dict(zip(terms, ranks[i], strict=True)))
            mine = side(keys[i]).changes
            mine.append(Change(at[i], True, names[i], identities[i], item))
            if end is not None and end <= until(keys[i]):
                mine.append(Change(end, False, names[i], identities[i], item))
    for one in found.values():
        one.changes.sort(key=lambda change: (change.at, change.enters))
    if varying is not None:
        for key, point in _points(plan, query, tables[trajectory_name(query.name)]):
            if point.at <= until(key):
                side(key).points.append(point)
        for one in found.values():
            one.points.sort(key=lambda p: p.at)
    return found


def _points(plan: Plan, query: QueryNode, table: pa.Table) -> list[tuple[Key, Point]]:
    varying = query.item.time_varying
    assert varying is not None
    keys, names = keys_of(table, stream_columns(plan, query)), keys_of(table, identity_columns(plan, query))
    values, carried = table[varying.value].to_pylist(), keys_of(table, _carried(query))
    slopes = [None] * table.num_rows if varying.slope is None else [int(s) for s in table[varying.slope].to_pylist()]
    at = [t if t is not None else 0 for t in micros(table, "valid_from")]
    return [
        (k, Point(t, n, v if s is None else round(v * 1e6), s, c))
        for k, t, n, v, s, c in zip(keys, at, names, values, slopes, carried, strict=True)
    ]  # fmt: skip
