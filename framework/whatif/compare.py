"""Compare the results of a query in two runs: for each item the intervals of time in which its part in the result differs."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any, Final, Literal

import pyarrow as pa

from skyband.framework.base.types import STAMP
from skyband.framework.plan.model import Plan, QueryNode
from skyband.framework.spec_tests.tables import plain_value
from skyband.framework.verify.stored import Key, keys_of, window_for
from skyband.framework.whatif.rows import ACCEPTED, Fates, Judged
from skyband.framework.whatif.sides import Item, Name, Point, Side

Kind = Literal["entered", "left", "other", "reported", "not_reported"]
_FAR: Final = 2**62


@dataclass(frozen=True, slots=True)
class State:
    """The part of an item in a result. ``rank``: None without ranks; ``values``: of its columns, or the point of its trajectory."""

    rank: int | None
    values: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Difference:
    """The part of an item in a result differs from ``since`` until before ``until`` (microseconds; None: to the end of the range).

    ``before``: as it was, ``after``: with the change; None: not in the result. An item that is reported once differs at ``since``.
    """

    key: Key
    name: Name
    since: int
    until: int | None
    before: State | None
    after: State | None
    lasting: bool = True

    @property
    def kind(self) -> Kind:
        """Return whether the item is in the result only with the change, only without it, or in both with another rank or value."""
        if self.before is None:
            return "entered" if self.lasting else "reported"
        if self.after is None:
            return "left" if self.lasting else "not_reported"
        return "other"


def compare(key: Key, query: QueryNode, was: Side, now: Side, ranked: bool) -> list[Difference]:
    """Return the differences of one stream, in the order of time. O(changes, times the size of the result where it is ranked)."""
    if not query.item.lasting:
        return list(_reports(key, was, now))
    if not was.points and not now.points and _same(was, now):
        return []
    return list(_intervals(key, was, now, ranked and not query.item.moves))


def _same(was: Side, now: Side) -> bool:
    """Return True if the same items enter and leave in both, so that there is nothing to follow."""
    if len(was.changes) != len(now.changes):
        return False
    pairs = zip(was.changes, now.changes, strict=True)
    return all((a.at, a.enters, a.name) == (b.at, b.enters, b.name) and same(a.item.values, b.item.values) for a, b in pairs)


def same(a: Sequence[Any], b: Sequence[Any]) -> bool:
    """Return True if values are equal; a NaN equals a NaN."""
    return len(a) == len(b) and all(x == y or (x != x and y != y) for x, y in zip(a, b, strict=True))


def _intervals(key: Key, was: Side, now: Side, ranked: bool) -> Iterator[Difference]:
    differing: set[Item] = set()
    open_: dict[Item, Difference] = {}
    while (at := min((t for t in (was.next(), now.next()) if t is not None), default=None)) is not None:
        for item in was.take(at) | now.take(at):
            differing.discard(item)
            if _differs(item, was, now, at):
                differing.add(item)
        found = dict(_states(differing, was, now, ranked))
        for item in [i for i, d in open_.items() if i not in found or not _equal((d.before, d.after), found[i], at)]:
            yield replace(open_.pop(item), until=at)
        for item in sorted(found.keys() - open_.keys(), key=repr):
            open_[item] = Difference(key, item[0], at, None, *found[item])
    yield from open_.values()


def _states(differing: set[Item], was: Side, now: Side, ranked: bool) -> Iterator[tuple[Item, tuple[State | None, State | None]]]:
    """Yield the items whose part differs, with both parts. Items of other rank differ only where some item does."""
    if not differing:
        return
    ranks: tuple[Callable[[Item], int | None], ...] = (lambda i: None, lambda i: None)
    items: set[Item] = differing
    if ranked:
        a, b = was.ranks(), now.ranks()
        ranks = a.get, b.get
        items = differing | {i for i, n in a.items() if b.get(i, n) != n}
    for item in items:
        before, after = (
            State(ranks[n](item), side.value(item)) if item in side.present else None for n, side in enumerate((was, now))
        )  # fmt: skip
        yield item, (before, after)


def _differs(item: Item, was: Side, now: Side, at: int) -> bool:
    a, b = was.present.get(item), now.present.get(item)
    if a is None or b is None:
        return a is not b
    return not same(a.values, b.values) or not _together(was.moving.get(item[0]), now.moving.get(item[0]), at)


def _together(a: Point | None, b: Point | None, at: int) -> bool:
    """Return True if two values are equal from ``at`` on, until one of them has its next point."""
    if a is None or b is None:
        return a is b
    return a.slope == b.slope and same((a.as_of(at), *a.carried), (b.as_of(at), *b.carried))


def _equal(a: tuple[State | None, State | None], b: tuple[State | None, State | None], at: int) -> bool:
    """Return True if both parts are the same states from ``at`` on."""
    return all(
        (x is y) or (x is not None and y is not None and x.rank == y.rank and same_values(x, y, at)) for x, y in zip(a, b, strict=True)
    )


def same_values(a: State, b: State, at: int) -> bool:
    """Return True if the values of two states are equal at ``at``: a point that repeats the value of another is no difference."""
    if a.values and b.values and isinstance(a.values[-1], Point) and isinstance(b.values[-1], Point):
        return same(a.values[:-1], b.values[:-1]) and _together(a.values[-1], b.values[-1], at)
    return same(a.values, b.values)


def _reports(key: Key, was: Side, now: Side) -> Iterator[Difference]:
    """Yield the items that only one of the runs reports, at the instants at which it does."""
    counts: dict[Any, int] = {}
    first: dict[Any, Any] = {}
    for side, sign in ((was, -1), (now, 1)):
        for c in side.changes:
            what = (c.at, c.name, tuple("nan" if v != v else v for v in c.item.values))
            counts[what] = counts.get(what, 0) + sign
            first.setdefault(what, c)
    for what, n in sorted(((w, n) for w, n in counts.items() if n), key=lambda x: (x[0][0], repr(x[0]))):
        c = first[what]
        state = State(None, c.item.values)
        for _ in range(abs(n)):
            yield Difference(key, c.name, c.at, c.at, None if n > 0 else state, state if n > 0 else None, False)


def clipped(found: Sequence[Difference], begin: int | None, end: int | None) -> list[Difference]:
    """Return the differences at instants from ``begin`` to ``end``, both included, cut to them."""
    first, last = -_FAR if begin is None else begin, _FAR if end is None else end
    kept = []
    for d in found:
        over = d.until is not None and (d.until <= first if d.lasting else d.until < first)
        if not over and d.since <= last:
            until = d.until if d.until is not None and d.until <= last else None
            kept.append(replace(d, since=max(d.since, first), until=until if d.lasting else d.until))
    return kept


# Find the rows that cause a difference: changed rows of its key that may be in the window.

MOST: Final = 20
"""The most rows that are listed for one difference."""


@dataclass(frozen=True, slots=True)
class ChangedRow:
    """A row that only one of the runs accepts: its id, event time in microseconds, values by column (``plain_value``), and both fates."""

    id: Mapping[str, Any]
    at: int
    values: Mapping[str, Any]
    was: str
    would_be: str


@dataclass(frozen=True, slots=True)
class Because:
    """The rows of a difference, the newest ``MOST`` of ``total``. ``own``: they make up the item; else they are others of its key.

    Without any row the edited spec is the cause.
    """

    rows: Sequence[ChangedRow]
    total: int
    own: bool


class Causes:
    """The changed rows by key, in the order of their times."""

    def __init__(self, plan: Plan, judged: Judged, fates: Fates) -> None:
        self.plan = plan
        self._types = {f.name: judged.as_is.rows.schema.field(f.name).type for f in plan.intake.fields}
        objects = (c for q in plan.queries for part in q.item.parts for c in part.columns)
        names = list(dict.fromkeys([*plan.intake.partition_by, *plan.intake.id, *objects]))
        self._of: dict[Key, list[ChangedRow]] = defaultdict(list)
        for row in sorted(_changed(plan, names, judged, fates), key=lambda r: r.at):
            self._of[tuple(row.values[c] for c in plan.intake.partition_by)].append(row)
        self._times = {key: [r.at for r in rows] for key, rows in self._of.items()}
        self._indexes: dict[tuple[str, ...], dict[tuple[Any, ...], list[ChangedRow]]] = {}

    def of(self, query: QueryNode, other: QueryNode, found: Sequence[Difference]) -> list[Because]:
        """Return the rows that cause each difference of a stream, in the order of ``found``. ``other``: the query of the edited spec.

        They are the rows that make up the item; else those that make up the items which enter or leave in its place; else all that may
        be in the window as the difference begins. O(differences, times those at one instant).
        """
        made: dict[int, Because] = {}
        active: list[tuple[Difference, list[ChangedRow]]] = []
        order = sorted(range(len(found)), key=lambda i: found[i].since)
        for since, group in groupby(order, key=lambda i: found[i].since):
            mine = {i: self._own(query, found[i], self._alive(query, other, found[i])) for i in group}
            active = [(d, rows) for d, rows in active if d.until is None or d.until > since]
            active += [(found[i], rows) for i, rows in mine.items() if rows]
            beside = {id(r): r for _, rows in active for r in rows}
            for i, rows in mine.items():
                if rows:
                    made[i] = _because(rows, len(rows), True)
                    continue
                every, first, end = self._alive(query, other, found[i])
                near = [r for r in sorted(beside.values(), key=lambda r: r.at) if first < end and every[first].at <= r.at]
                made[i] = _because(near, len(near), False) if near else _because(every[max(first, end - MOST) : end], end - first, False)
        return [made[i] for i in range(len(found))]

    def _alive(self, query: QueryNode, other: QueryNode, d: Difference) -> tuple[list[ChangedRow], int, int]:
        """Return the changed rows of the key, and which of them the window may hold as the difference begins: first and end."""
        key = self._key(d.key)
        times = self._times.get(key)
        if times is None:
            return [], 0, 0
        spans = [window_for(q, d.key).micros or 0 for q in (query, other)]
        first = 0
        if min(spans) and not query.item.closes and not other.item.closes:
            # Results with ``every`` are as of the last boundary.
            first = bisect_right(times, d.since - max(spans) - max(query.every_micros or 0, other.every_micros or 0))
        return self._of[key], first, bisect_right(times, d.since)

    def _own(self, query: QueryNode, d: Difference, alive: tuple[list[ChangedRow], int, int]) -> list[ChangedRow]:
        """Return the rows among ``alive`` that make up an item that enters, leaves or has other values; a rank is due to other items."""
        rows, first, end = alive
        ranked = d.before is not None and d.after is not None and same_values(d.before, d.after, d.since)
        if ranked or first >= end:
            return []
        found: dict[int, ChangedRow] = {}
        for names, values, at in self._parts(query, d):
            mine = self._index(names).get((*self._key(d.key), *values), [])
            found |= {id(r): r for r in mine if rows[first].at <= r.at <= d.since and at in (None, r.at)}
        return sorted(found.values(), key=lambda r: r.at)

    def _parts(self, query: QueryNode, d: Difference) -> Iterator[tuple[tuple[str, ...], tuple[Any, ...], int | None]]:
        """Yield of each part of an item the columns that name its rows, their values, and the event time of a part that is one row."""
        ids, keys = self.plan.intake.id, self.plan.intake.partition_by
        items = [c for c in query.item.columns(ids, (), keys) if c.what in ("id", "time", "object")]
        named = list(zip(items, d.name, strict=True))
        for n in range(len(query.item.parts)):
            mine = {c.source: plain_value(v, self._types[c.source]) for c, v in named if c.part == n and c.what != "time"}
            times = [plain_value(v, STAMP) for c, v in named if c.part == n and c.what == "time"]
            yield tuple(mine), tuple(mine.values()), times[0] if times else None

    def _index(self, names: tuple[str, ...]) -> Mapping[tuple[Any, ...], list[ChangedRow]]:
        """Return the changed rows by key and the values of ``names``."""
        if names not in self._indexes:
            made: dict[tuple[Any, ...], list[ChangedRow]] = defaultdict(list)
            for key, rows in self._of.items():
                for row in rows:
                    made[(*key, *(row.values[c] for c in names))].append(row)
            self._indexes[names] = dict(made)
        return self._indexes[names]

    def _key(self, stream: Key) -> Key:
        names = self.plan.intake.partition_by
        values = stream[len(stream) - len(names) :]
        return tuple(plain_value(v, self._types[c]) for c, v in zip(names, values, strict=True))


def _because(rows: Sequence[ChangedRow], total: int, own: bool) -> Because:
    return Because(rows[-MOST:], total, own)


def _changed(plan: Plan, names: list[str], judged: Judged, fates: Fates) -> Iterator[ChangedRow]:
    """Yield the changed rows with the columns ``names``, each as the run has it that accepts it."""
    numbers = fates.changed
    for accepted, rows in ((fates.was, judged.as_is.rows), (fates.would_be, judged.changed.rows)):
        mine = [i for i in numbers if accepted[i] is None]
        taken = rows.take(pa.array(mine, pa.int64()))
        types = [taken.schema.field(n).type for n in names]
        times = taken[plan.intake.event_time].cast(pa.int64()).to_pylist()
        for i, at, values in zip(mine, times, keys_of(taken, names), strict=True):
            plain = {n: plain_value(v, t) for n, v, t in zip(names, values, types, strict=True)}
            native = dict(zip(names, values, strict=True))
            yield ChangedRow({c: native[c] for c in plan.intake.id}, at, plain, fates.was[i] or ACCEPTED, fates.would_be[i] or ACCEPTED)
