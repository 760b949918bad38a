"""Find the instants at which values of items pass a bound, from the points of their trajectories.

A value passes ``above`` at the first instant at which it is greater, having been absent or not greater just before; ``below`` likewise.
A bound is the number that a person wrote, and a value the number that a table shows, its shortest text: of decimals the exact one, if it
has at most 15 digits. Which instants these are does not depend on how the points are divided into batches: an instant between two points
counts once a later event of its item is known, or once everything before it has been processed. Buckets are not equally far, so events of
other items say nothing.
"""

from __future__ import annotations

import heapq
from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import groupby
from math import ceil, floor
from typing import Any, Final, Literal

Side = Literal["above", "below"]
_MICROS: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class Event:
    """What happens to ``item`` at ``at`` (microseconds).

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
