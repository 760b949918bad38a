"""Compare the results of a query in two runs: for each item the intervals of time in which its part in the result differs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from skyband.framework.plan.model import QueryNode
from skyband.framework.verify.stored import Key
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
