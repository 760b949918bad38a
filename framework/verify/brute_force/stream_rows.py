"""The rows that a result makes up for further queries, by definition (docs/semantics 15): one change after another, in plain Python.

They come from the tables of changes and trajectories of the query that is taken, which is compared with its own rows. Nothing of the
run's streams is used.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import Any, NamedTuple, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from skyband.framework.base.columns import cause, membership, sign
from skyband.framework.base.items import SCORE
from skyband.framework.base.types import STAMP, arrow_type
from skyband.framework.plan.model import QueryNode, StreamNode
from skyband.framework.tables.schemas import identity_columns, trajectory_name
from skyband.framework.verify.brute_force.accepted import sortable
from skyband.framework.verify.brute_force.objects import Accepted
from skyband.framework.verify.stored import Item, Key, Stored, keys_of, micros


class _Event(NamedTuple):
    """An event of the taken query, in the order of time: a change (``order`` 0, its step and pos), or a point (1).

    ``row``: its place among the changes, then the points.
    """

    at: int
    order: int
    step: int
    pos: int
    row: int


_Values: TypeAlias = tuple[Any, ...]


class _Entry(NamedTuple):
    """An item in the result: ``at`` and ``seq`` of its row, the ``values`` of it that vary, and the place of its columns, ``row``."""

    at: int
    seq: int
    values: _Values
    row: int


@dataclass(slots=True)
class _Made:
    """The rows of one key: of each its instant and the place of its columns; ``on``: of a report on an object. ``deletions`` as in
    ``Accepted``."""

    time: list[int] = field(default_factory=list)
    row: list[int] = field(default_factory=list)
    on: list[bool] = field(default_factory=list)
    deletions: list[tuple[int, int, int]] = field(default_factory=list)

    def add(self, at: int, row: int) -> int:
        """Add a row; return its seq."""
        self.time.append(at)
        self.row.append(row)
        return len(self.time) - 1


class StreamRows:
    """The rows of a stream by key, up to the instant to which results are complete. O(changes and points of the taken query)."""

    def __init__(self, stored: Stored, node: StreamNode) -> None:
        self.node, self.stored = node, stored
        self.query: QueryNode = next(q for q in stored.job_plan.every_query if q.name == node.of)
        self._taken = stored.job_plan.of(node.of)
        self._keys = self._taken.intake.partition_by
        self.changes = stored.changes(self.query, stored.changes_upto(self.query))
        """The changes that make the rows."""
        self._varies = self.query.item.varies and not self.query.item.moves
        points = self.changes.slice(0, 0)
        if self._varies and node.takes == "entries":
            points = stored.table(trajectory_name(self.query.name))
            points = points.filter(pc.less_equal(points["batch_id"], stored.derived_upto(self.query)))
        self._columns = _columns(node, self.changes, points)
        named = identity_columns(self._taken, self.query)
        self._items: list[Item] = [*keys_of(self.changes, named), *keys_of(points, named)]
        self._values: list[_Values] = []
        if self._varies and points.num_rows:
            varying = [SCORE, *(c.name for c in self.query.item.carried)]
            for table in (self.changes, points):
                self._values += zip(*(table[name].to_pylist() for name in varying), strict=True)
        self._enters = [True] * self.changes.num_rows
        if self.query.item.lasting:
            self._enters = [c == "+" for c in self.changes["change"].to_pylist()]
        self._step: list[int] = self.changes["step"].to_pylist()
        self._events = self._by_key(points)
        self._objects = keys_of(self._columns, node.objects) if node.takes == "members" else []
        self._made: dict[Key, _Made] = {}

    def count(self, key: Key) -> int:
        """Return the number of rows of a key."""
        return len(self._rows(key).time)

    def accepted(self, key: Key) -> Accepted:
        """Return the rows of a key as its objects."""
        made, node = self._rows(key), self.node
        rows = self._columns.take(pa.array(made.row, pa.int64()))
        given = {node.plan.intake.event_time: pa.array(made.time, pa.int64()).cast(STAMP)}
        if node.takes == "members":
            given[membership(node.of)] = pa.array(made.on, pa.bool_())
        names = [f.name for f in node.plan.intake.fields]
        table = pa.table({n: given[n] if n in given else rows[n] for n in names})
        return Accepted(key, table, made.time, {seq: at for at, _, seq in made.deletions}, made.deletions)

    def origin(self, key: Key, seq: int) -> int | None:
        """Return which row of ``changes`` made the row ``seq`` of a key; None for one that a point made."""
        row = self._rows(key).row[seq]
        return row if row < self.changes.num_rows else None

    def _by_key(self, points: pa.Table) -> dict[Key, list[_Event]]:
        """Return the events of every key in order. Points of one instant are in the order of the items' names."""
        found: dict[Key, list[_Event]] = {}
        columns = micros(self.changes, "changed_at"), self._step, self.changes["pos"].to_pylist()
        for i, (key, at, step, pos) in enumerate(zip(keys_of(self.changes, self._keys), *columns, strict=True)):
            found.setdefault(key, []).append(_Event(at or 0, 0, step, pos, i))
        if points.num_rows:
            first = self.changes.num_rows
            place = sorted(range(points.num_rows), key=lambda i: [sortable(v) for v in self._items[first + i]])
            keys, times = keys_of(points, self._keys), micros(points, "valid_from")
            for n, i in enumerate(place):
                found.setdefault(keys[i], []).append(_Event(times[i] or 0, 1, n, 0, first + i))
        for events in found.values():
            events.sort()
        return found

    def _rows(self, key: Key) -> _Made:
        if key not in self._made:
            until = self.stored.until.get(key, -1)
            events = [e for e in self._events.get(key, []) if e.at <= until]
            self._made[key] = self._switches(events) if self.node.takes == "members" else self._entries(events, until)
        return self._made[key]

    def _entries(self, events: Sequence[_Event], until: int) -> _Made:
        """Return a row for each item that enters, has another value, or has been there for long; with its deletion if it leaves before."""
        made, renewed = _Made(), self.node.renewed
        alive: dict[Item, _Entry] = {}
        due: list[tuple[int, int, Item]] = []

        def enter(item: Item, at: int, values: _Values, row: int) -> None:
            seq = made.add(at, row)
            alive[item] = _Entry(at, seq, values, row)
            if renewed is not None:
                heappush(due, (at + renewed, seq, item))

        def delete(item: Item, at: int) -> None:
            entry = alive.pop(item, None)
            if entry is not None and self._in_window(entry, at, len(made.time)):
                made.deletions.append((at, len(made.time), entry.seq))

        def renew(before: int) -> None:
            while due and due[0][0] < before:
                at, seq, item = heappop(due)
                entry = alive.get(item)
                if entry is not None and entry.seq == seq:
                    delete(item, at)
                    enter(item, at, entry.values, entry.row)

        for e in events:
            # What happens at an instant comes before the renewals of this instant.
            renew(e.at)
            item, values = self._items[e.row], self._values[e.row] if self._values else ()
            if e.order == 1:
                if item in alive and not _same(alive[item].values, values):
                    delete(item, e.at)
                    enter(item, e.at, values, e.row)
            elif self._enters[e.row]:
                enter(item, e.at, values, e.row)
            else:
                delete(item, e.at)
        renew(until + 1)
        return made

    def _in_window(self, entry: _Entry, at: int, count: int) -> bool:
        """Return True if the window of the stream still has a row, before which and after which ``count`` have come."""
        window = self.node.plan.window
        if window.micros is not None and entry.at + window.micros <= at:
            return False
        return window.count is None or entry.seq >= count - window.count

    def _switches(self, events: Sequence[_Event]) -> _Made:
        """Return a report for each object that goes on or off in a step: that has a first item then, or no item any more."""
        made, items = _Made(), dict[Item, int]()
        for step in _steps(events):
            before: dict[Item, int] = {}
            last: dict[Item, _Event] = {}
            for e in step:
                name = self._objects[e.row]
                if None in name:
                    continue
                before.setdefault(name, items.get(name, 0))
                items[name] = items.get(name, 0) + (1 if self._enters[e.row] else -1)
                last[name] = e
            for name, e in sorted(last.items(), key=lambda found: found[1]):
                if (before[name] > 0) != (items[name] > 0):
                    made.add(e.at, e.row)
                    made.on.append(items[name] > 0)
        return made


def _steps(events: Sequence[_Event]) -> Iterator[list[_Event]]:
    step: list[_Event] = []
    for e in events:
        if step and e.step != step[0].step:
            yield step
            step = []
        step.append(e)
    if step:
        yield step


def _same(a: _Values, b: _Values) -> bool:
    return all(x == y or (x != x and y != y) for x, y in zip(a, b, strict=True))


def _columns(node: StreamNode, changes: pa.Table, points: pa.Table) -> pa.Table:
    """Return the columns of rows of the stream for each of the changes, then of the points; null is what they lack."""
    intake, of = node.plan.intake, node.of
    origin = {new: old for old, new in node.columns} | {cause(of): "cause"}
    made = {}
    for f in intake.fields:
        kind = arrow_type(f.type)
        if f.name == sign(of):
            parts = [pa.repeat("+", t.num_rows) for t in (changes, points)]
        else:
            name = origin.get(f.name, "")
            parts = [t[name].cast(kind) if name in t.column_names else pa.nulls(t.num_rows, kind) for t in (changes, points)]
        made[f.name] = pa.chunked_array([c for p in parts for c in (p.chunks if isinstance(p, pa.ChunkedArray) else [p])], kind)
    return pa.table(made)
