"""Make the messages of an alert from the committed tables, read with delta-rs. The same rows give the same messages, in the same order."""

from __future__ import annotations

import hashlib
import heapq
import json
import math
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from heapq import merge
from itertools import groupby
from math import ceil, floor
from typing import Any, Final, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skyband.framework.alerts.positions import Position
from skyband.framework.alerts.template import cut, instant_text, render, value_text
from skyband.framework.base.columns import BATCH
from skyband.framework.base.counts import counted
from skyband.framework.base.items import SCORE
from skyband.framework.base.units import WrittenFloat
from skyband.framework.plan.model import Plan, QueryNode
from skyband.framework.plan.nodes import AlertNode
from skyband.framework.storage import delta_read
from skyband.framework.storage.location import Location
from skyband.framework.tables.results.timeline import Timeline
from skyband.framework.tables.schemas import changes_name, trajectory_name

# Find the instants at which values of items pass a bound, from the points of their trajectories.
#
# A value passes ``above`` at the first instant at which it is greater, having been absent or not greater just before; ``below`` likewise.
# A bound is the number that a person wrote, and a value the number that a table shows, its shortest text: of decimals the exact one, if it
# has at most 15 digits. Which instants these are does not depend on how the points are divided into batches: an instant between two points
# counts once a later event of its item is known, or once everything before it has been processed. Buckets are not equally far, so events of
# other items say nothing.

Side = Literal["above", "below"]
_MICROS: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class Event:
    """Describes what happens to ``item`` at the instant ``at``, in microseconds.

    With a ``sign`` it enters (+) or leaves (-) the result, else its value is ``value`` from now on, and grows by ``slope`` per second.
    """

    item: Hashable
    at: int
    sign: str = ""
    value: float | None = None
    slope: int = 0
    row: Any = None


@dataclass(frozen=True, slots=True)
class Crossing:
    """``item`` passes a bound at ``at``, where its value is ``value``. ``row``: that of the point from which this follows."""

    item: Hashable
    at: int
    side: Side
    value: float
    row: Any


@dataclass(slots=True)
class _Known:
    """The last point of an item, which bounds its value has passed, and when it will pass them, or return, unless something happens."""

    point: Event | None = None
    passed: set[Side] = field(default_factory=set)
    planned: dict[Side, int] = field(default_factory=dict)


def is_beyond(value: float, side: Side, bound: float) -> bool:
    """Return True if a value, as tables show it, is greater or smaller than a bound as a person wrote it, which is its ``repr``."""
    if value == bound:  # one double stands for both: their digits decide
        shown, written = Fraction(repr(value)), Fraction(repr(bound))
        return shown > written if side == "above" else shown < written
    return value > bound if side == "above" else value < bound


class Crossings:
    """Takes the events of one query batch by batch. ``moving``: values have slopes, in seconds per second."""

    def __init__(self, above: float | None, below: float | None, moving: bool = False) -> None:
        self._bounds: dict[Side, float] = {}
        if above is not None:
            self._bounds["above"] = above
        if below is not None:
            self._bounds["below"] = below
        self._moving = moving
        self._known: dict[Hashable, _Known] = {}
        self._planned: list[tuple[int, int, Side, Hashable]] = []
        self._count = 0

    def take(self, events: Iterable[Event], frontier: int | None) -> Iterator[Crossing]:
        """Yield the crossings of a batch, whose ``events`` are in order of time. ``frontier``: all before it are known; None: unknown.

        O(events log events) for a batch.
        """
        for at, together in groupby(events, key=lambda e: e.at):
            by_item: dict[Hashable, list[Event]] = {}
            for event in together:
                by_item.setdefault(event.item, []).append(event)
            for item, some in by_item.items():
                yield from self._at(item, at, some)
        while frontier is not None and self._planned and self._planned[0][0] < frontier:
            at, _, side, item = heapq.heappop(self._planned)
            known = self._known.get(item)
            if known is not None and known.planned.get(side) == at:
                yield from self._fire(item, known, side)

    def _at(self, item: Hashable, at: int, events: list[Event]) -> Iterator[Crossing]:
        """Yield the crossings of one item up to ``at``: what it is after all of ``events``, which happen at once, counts."""
        known = self._known.get(item)
        for side, planned in sorted(known.planned.items(), key=lambda p: p[1]) if known is not None else ():
            if known is not None and planned < at:
                yield from self._fire(item, known, side)
        signs = [e.sign for e in events if e.sign]
        points = [e for e in events if not e.sign]
        if "-" in signs:
            self._known.pop(item, None)
        if not points or signs[-1:] == ["-"]:
            return
        known, point = self._known.setdefault(item, _Known()), points[-1]
        known.point = point if self._moving else None
        known.planned.clear()
        for side, bound in self._bounds.items():
            beyond = point.value is not None and is_beyond(point.value, side, bound)
            if not beyond:
                known.passed.discard(side)
            elif side not in known.passed:
                known.passed.add(side)
                assert point.value is not None
                yield Crossing(item, at, side, point.value, point.row)
            if self._moving:
                self._plan(item, known, side, bound)

    def _plan(self, item: Hashable, known: _Known, side: Side, bound: float) -> None:
        """Plan the next crossing of a value that moves towards ``bound``, or its return behind it."""
        point = known.point
        if point is None or point.value is None or not point.slope:
            return
        toward = (point.slope > 0) == (side == "above")
        if toward == (side in known.passed):
            return
        # Exact: values with a slope are whole microseconds, and the bound is as the spec writes it.
        steps = (Fraction(repr(bound)) * _MICROS - round(point.value * _MICROS)) / point.slope
        # Towards it: the first instant at which it is beyond. Back: the first at which it is not beyond any more.
        known.planned[side] = point.at + max(floor(steps) + 1 if toward else ceil(steps), 1)
        self._count += 1
        heapq.heappush(self._planned, (known.planned[side], self._count, side, item))

    def _fire(self, item: Hashable, known: _Known, side: Side) -> Iterator[Crossing]:
        """Let what is planned for ``side`` happen; yield it if it is a crossing and not a return."""
        at, point = known.planned.pop(side), known.point
        assert point is not None and point.value is not None
        if side in known.passed:
            known.passed.discard(side)
            return
        known.passed.add(side)
        yield Crossing(item, at, side, (round(point.value * _MICROS) + point.slope * (at - point.at)) / _MICROS, point.row)


ROWS: Final = 20_000
"""About the most rows that are read at once: further batches wait."""
_AT_ONCE: Final = 4_096
_LONGEST: Final = 1_000
"""The most characters of a value in a message's fields."""
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_CHANGES: Final = "changed_at"
_POINTS: Final = "valid_from"
_DID: Final = {"enter": "entered", "leave": "left", "above": "rose above {bound} in", "below": "fell below {bound} in"}
Message = dict[str, Any]


def shape_of(alert: AlertNode) -> str:
    """Return a hash of what an alert watches: its messages are others if it changes."""
    said = [alert.queries, sorted(alert.when), _digits(alert.above), _digits(alert.below)]
    return hashlib.sha256(json.dumps(said).encode()).hexdigest()[:16]


def latest(before: int | None, frontiers: Mapping[int, int]) -> int | None:
    """Return the frontier after the last of ``frontiers``, of batches that follow ``before``; None if it is not known."""
    return max([*([] if before is None else [before]), *frontiers.values()], default=None)


@dataclass(frozen=True, slots=True)
class Identity:
    """What makes the ids of messages unique: the job's random id, its name and its generation."""

    owner: str
    job: str
    generation: str


class AlertMessages:
    """The messages of one alert, read in the order of the batches.

    ``position``: messages of instants before its ``since`` are left out, and in batches of the job's first run those before ``history``.
    A batch has the changes by query, key, step and ``pos``, then the values that pass bounds by query and time.
    """

    def __init__(self, root: Location, plan: Plan, alert: AlertNode, identity: Identity, position: Position) -> None:
        self._root, self._alert, self._identity = root, alert, identity
        self._since, self._history, self._history_upto = position.since, position.history, position.history_upto
        nodes = {q.name: q for q in plan.every_query}
        self._queries = [_Query(plan.of(name), nodes[name], alert, identity) for name in alert.queries if name in nodes]
        self._at: int | None = None
        """The batch up to which the values of items are known."""

    def upto(self, after: int, last: int) -> int:
        """Return the batch up to which to read after ``after``: not much more than ``ROWS`` rows, at least one batch."""
        rows: Counter[int] = Counter()
        for query in self._queries:
            for table in query.tables:
                rows.update(dict(delta_read.batches(delta_read.open_table(self._root, table), after, last)))
        total = 0
        for batch in sorted(rows):
            total += rows[batch]
            if total > ROWS and batch < last:
                return batch
        return last

    def frontiers(self, after: int, upto: int) -> dict[int, int]:
        """Return the frontier after each of these batches, in microseconds, as far as table ``runs`` has it."""
        where = (pc.field(BATCH) > after) & (pc.field(BATCH) <= upto)
        rows = delta_read.read(delta_read.open_table(self._root, "runs"), [BATCH, "frontier"], where)
        known = zip(rows[BATCH].to_pylist(), pc.cast(rows["frontier"], pa.int64()).to_pylist(), strict=True)
        return {batch: frontier for batch, frontier in known if frontier is not None}

    def read(self, after: int, upto: int, frontiers: Mapping[int, int], before: int | None) -> Iterator[Message]:
        """Yield the messages of the batches after ``after`` up to ``upto``.

        ``frontiers``: those of these batches; ``before``: that after batch ``after``. What the values of items were then is read from the
        tables, unless the last call ended there: O(rows of the trajectories) once.
        """
        valued = [q for q in self._queries if q.crossings is not None]
        if valued and self._at != after:
            for query in valued:
                query.restart()
                query.learn(self._root, after, before)
        changes = {q: _by_batch(q.changes(self._root, after, upto), q.order) for q in self._queries}
        points = {q: _by_batch(q.points(self._root, after, upto), q.order_of_points) for q in valued}
        batches = {b for parts in (changes, points) for found in parts.values() for b in found}
        if valued:
            batches |= set(frontiers)
        self._at, frontier = None, before
        for batch in sorted(batches):
            if batch in frontiers:
                frontier = max(frontiers[batch], frontier if frontier is not None else frontiers[batch])
            for query in self._queries:
                yield from self._since_then(batch, query.of_changes(changes[query].get(batch)))
            for query in valued:
                yield from self._since_then(batch, query.of_values(changes[query].get(batch), points[query].get(batch), frontier))
        self._at = upto

    def _since_then(self, batch: int, found: Iterator[tuple[int, Message]]) -> Iterator[Message]:
        bounds = [] if self._since is None else [self._since]
        if self._history is not None and (self._history_upto is None or batch <= self._history_upto):
            bounds.append(self._history)
        return (message for at, message in found if all(at >= bound for bound in bounds))

    def summary(self) -> Summary:
        """Return an empty summary of messages of this alert."""
        return Summary(self._alert.name, self._identity.job)


class Summary:
    """Counts messages, in constant memory, and makes the one message that stands for them."""

    def __init__(self, alert: str, job: str) -> None:
        self._alert, self._job = alert, job
        self._kinds: Counter[str] = Counter()
        self._ids: list[str] = []
        self._times: list[str] = []

    @property
    def count(self) -> int:
        """Return the number of messages."""
        return self._kinds.total()

    def add(self, message: Message) -> None:
        """Count a message."""
        self._kinds[message["on"]] += 1
        self._ids = [*self._ids[:1], message["id"]]
        # Without the Z, an instant with fractions of a second is greater than the second.
        self._times = sorted((*self._times[:1], *self._times[-1:], message["time"]), key=lambda time: time.removesuffix("Z"))

    def message(self) -> Message:
        """Return the message for all that have been counted, of which there is at least one."""
        said = ", ".join(f"{n:,} {on}" for on, n in sorted(self._kinds.items()))
        text = f"{counted(self.count, 'message')} of alert {self._alert} of {self._job}: {said}"
        made = {"count": self.count, "counts": dict(sorted(self._kinds.items())), "first": self._ids[0], "last": self._ids[-1]}
        return {
            "id": _id("combined", *made.values()),
            "on": "combined",
            "text": text,
            **made,
            "from": self._times[0],
            "to": self._times[-1],
        }


class _Query:
    """One query of an alert: reads its tables and words its messages."""

    def __init__(self, plan: Plan, query: QueryNode, alert: AlertNode, identity: Identity) -> None:
        self.name, self._alert, self._identity = query.name, alert, identity
        self._item = query.item
        self._timeline = Timeline.of(plan, query)
        self._keys, self._named = self._timeline.streams, self._timeline.identity
        columns = query.item.columns(plan.intake.id, query.carry, plan.intake.partition_by)
        shown = [c.name for c in columns if c.what in ("id", "object") and c.name not in self._keys]
        self._shown = shown or [c for c in self._named if c not in self._keys]
        self._varying = query.item.time_varying
        self._watched = tuple(w for w in ("enter", "leave") if w in alert.when)
        self.crossings: Crossings | None = None
        if "value" in alert.when and self._varying is not None:
            self.restart()
        self._template = alert.message or f"{{item}} {{what}} {{query}} of {{job}} at {{time}}{' (key {key})' if self._keys else ''}"

    @property
    def tables(self) -> list[str]:
        """Return the tables with rows that become messages."""
        return [changes_name(self.name), *([trajectory_name(self.name)] if self.crossings is not None else [])]

    def restart(self) -> None:
        """Forget the values of all items."""
        moving = self._varying is not None and self._varying.slope is not None
        self.crossings = Crossings(self._alert.above, self._alert.below, moving)

    def learn(self, root: Location, upto: int, frontier: int | None) -> None:
        """Take the values of all items up to a batch, for which nothing is sent."""
        assert self.crossings is not None
        # What an item is depends on its last point and its last change.
        points = self._timeline.last(_table(root, trajectory_name(self.name), None, upto)).to_pylist()
        lasting = self._varying is not None and not self._varying.all_items
        orders = (_CHANGES, "step", "pos")
        wanted = [*self._timeline.named, *orders, "change"]
        changes = self._timeline.last(_table(root, changes_name(self.name), None, upto, wanted), orders).to_pylist() if lasting else []
        changes.sort(key=lambda row: row[_CHANGES])
        points.sort(key=lambda row: row[_POINTS])
        for _ in self.crossings.take(self._events(changes, points), frontier):
            pass

    @property
    def order(self) -> tuple[str, ...]:
        """Return the columns by which changes of a batch are ordered."""
        return (*self._keys, "step", "pos")

    @property
    def order_of_points(self) -> tuple[str, ...]:
        """Return the columns by which points of a batch are ordered."""
        assert self._varying is not None
        return (_POINTS, *self._timeline.named, self._varying.value)

    def changes(self, root: Location, after: int, upto: int) -> pa.Table:
        """Return the rows of changes of these batches."""
        return _table(root, changes_name(self.name), after, upto)

    def points(self, root: Location, after: int, upto: int) -> pa.Table:
        """Return the points of trajectories of these batches."""
        return _table(root, trajectory_name(self.name), after, upto)

    def of_changes(self, rows: pa.Table | None) -> Iterator[tuple[int, Message]]:
        """Yield the messages of a batch's changes, each with its instant: items that enter or leave, or whose score is beyond a bound."""
        for row in _rows(rows):
            on = "leave" if self._item.lasting and row["change"] == "-" else "enter"
            at, where = _micros(row[_CHANGES]), {"step": row["step"], "pos": row["pos"]}
            if on in self._watched:
                yield at, self._message(on, row, at, where, (row["step"], row["pos"]), row.get(SCORE), None)
            if "value" in self._alert.when and self._varying is None and on == "enter":
                # An item's score stays the same while it is in the result, where it has none before.
                score = row.get(SCORE)
                bounds: tuple[tuple[Side, float | None], ...] = (("above", self._alert.above), ("below", self._alert.below))
                for side, bound in bounds:
                    if bound is not None and score is not None and is_beyond(score, side, bound):
                        yield at, self._message(side, row, at, where, (row["step"], row["pos"]), score, bound)

    def of_values(self, changes: pa.Table | None, points: pa.Table | None, frontier: int | None) -> Iterator[tuple[int, Message]]:
        """Yield the messages of values that pass a bound in a batch, each with its instant."""
        assert self.crossings is not None
        if changes is not None:
            changes = changes.sort_by([(c, "ascending") for c in (_CHANGES, *self.order)])
        found = list(self.crossings.take(self._events(_rows(changes), _rows(points)), frontier))
        for c in sorted(found, key=lambda c: (c.at, self._sort_key(c.row), c.side)):
            yield c.at, self._of_crossing(c)

    def _of_crossing(self, c: Crossing) -> Message:
        bound = self._alert.above if c.side == "above" else self._alert.below
        named = [_exact(c.row[n]) for n in self._named]
        return self._message(c.side, c.row, c.at, {}, (named, c.at), c.value, bound)

    def _events(self, changes: Iterable[dict[str, Any]], points: Iterable[dict[str, Any]]) -> Iterator[Event]:
        """Yield what happens to items in order of time; so are ``changes`` and ``points``."""
        signs = () if self._varying is None or self._varying.all_items else (self._sign(row) for row in changes)
        return merge(signs, (self._point(row) for row in points), key=lambda e: e.at)

    def _sign(self, row: dict[str, Any]) -> Event:
        return Event(self._identity_of(row), _micros(row[_CHANGES]), row["change"])

    def _point(self, row: dict[str, Any]) -> Event:
        assert self._varying is not None
        slope, given = self._varying.slope, row[self._varying.value]
        grows = 0 if slope is None else int(row[slope] or 0)
        return Event(self._identity_of(row), _micros(row[_POINTS]), "", None if given is None else float(given), grows, row)

    def _identity_of(self, row: Mapping[str, Any]) -> tuple[Any, ...]:
        # NaN is a key like any other, but not equal to itself.
        return tuple("NaN" if isinstance(v := row[c], float) and math.isnan(v) else v for c in (*self._keys, *self._named))

    def _sort_key(self, row: Mapping[str, Any]) -> str:
        return _text([_exact(row[c]) for c in (*self._keys, *self._named)])

    def _message(
        self, on: str, row: Mapping[str, Any], at: int, where: Mapping[str, Any], place: Sequence[Any], value: Any, bound: float | None
    ) -> Message:
        """Return a message. ``place``: what, with query, key and kind, distinguishes it from all others."""
        time, identity = _EPOCH + timedelta(microseconds=at), self._identity
        key = {c: _plain(row[c]) for c in self._keys}
        item = {c: _plain(row[c]) for c in dict.fromkeys((*self._shown, *self._named)) if c not in key}
        values: dict[str, Any] = {
            **row,
            "job": identity.job,
            "alert": self._alert.name,
            "query": self.name,
            "what": _DID[on].format(bound=value_text(bound)),
            "item": ", ".join(value_text(row[c]) for c in self._shown) or self.name,
            "key": ", ".join(value_text(row[c]) for c in self._keys),
            "time": time,
            "value": value,
            "bound": bound,
        }
        whose = (identity.owner, identity.job, identity.generation, self._alert.name, self.name, on, _digits(bound))
        return {
            "id": _id(*whose, [_exact(row[c]) for c in self._keys], *place),
            "on": on,
            "text": render(self._template, values),
            "query": self.name,
            "key": key,
            "item": item,
            "time": instant_text(time),
            **where,
            "value": _plain(value),
            **({} if bound is None else {"bound": bound}),
            "generation": identity.generation,
        }


def envelope(job: str, alert: str, messages: Sequence[Message]) -> bytes:
    """Return the bytes of a request."""
    return _text({"format": 1, "job": job, "alert": alert, "messages": list(messages)}).encode()


def record(job: str, alert: str, message: Message) -> tuple[str, str]:
    """Return (key, value) of a message as a record of a topic."""
    return message["id"], _text({"format": 1, "job": job, "alert": alert, **message})


def _id(*parts: Any) -> str:
    return hashlib.sha256(_text(parts).encode()).hexdigest()[:32]


def _text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def _table(root: Location, name: str, after: int | None, upto: int, columns: Sequence[str] | None = None) -> pa.Table:
    where = pc.field(BATCH) <= upto
    if after is not None:
        where = where & (pc.field(BATCH) > after)
    return delta_read.read(delta_read.open_table(root, name), columns, where)


def _by_batch(rows: pa.Table, order: Sequence[str]) -> dict[int, pa.Table]:
    """Return the rows of each batch, in order. O(n log n)."""
    rows = rows.sort_by([(c, "ascending") for c in (BATCH, *order)])
    batches = rows[BATCH].to_numpy()
    starts = np.nonzero(np.diff(batches, prepend=batches[:1] - 1))[0]
    ends = [*starts[1:], len(batches)][: len(starts)]
    return {int(batches[a]): rows.slice(a, b - a) for a, b in zip(starts, ends, strict=True)}


def _rows(table: pa.Table | None) -> Iterator[dict[str, Any]]:
    """Yield rows, of which only some are Python's at a time: a batch may have millions."""
    if table is not None:
        for part in table.to_batches(max_chunksize=_AT_ONCE):
            yield from part.to_pylist()


def _micros(value: datetime) -> int:
    at = value if value.tzinfo is not None else value.replace(tzinfo=UTC)
    return (at - _EPOCH) // timedelta(microseconds=1)


def _plain(value: Any) -> Any:
    """Return a value of a table as JSON has it: instants and decimals as text, numbers that are not finite by their names, text cut."""
    if isinstance(value, datetime):
        return instant_text(value)
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, Decimal):
        return str(value)
    if value is None or isinstance(value, (bool, int, float)):
        return value
    if isinstance(value, (list, tuple)):
        return [_plain(v) for v in value[:_LONGEST]]
    return cut(str(value), _LONGEST)


def _digits(bound: float | None) -> float | str | None:
    """Return a bound as a hash takes it: the number, or its text where that has more digits."""
    return repr(bound) if isinstance(bound, WrittenFloat) else bound


def _exact(value: Any) -> Any:
    """Return a value as an id takes it: as ``_plain`` has it, but whole."""
    return value if isinstance(value, str) else _plain(value)
