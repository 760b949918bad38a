"""Loyalty by the definition alone (docs/semantics 12), in plain Python, for one key: slow and plain.

An object is on from a report that says so until the next report, or until the report is stale or deleted. Its loyalty at t is the length
of the time within (t - T, t] that it was on. Nothing here is kept from one instant to the next but what was emitted.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

Spans = dict[Any, list[tuple[int, int]]]
"""Per object when it is on: disjoint [begin, end), in order, none touching the next."""

FOREVER = 2**62


class Report(NamedTuple):
    """A usable report, in the order of arrival; ``deleted``: when it was deleted."""

    time: int
    object: Hashable
    on: bool
    deleted: int = FOREVER


@dataclass(frozen=True)
class Query:
    """The ``k`` best, or all with ``at_least``; ``every``: emitted at boundaries only; ``trace_all``: trajectories of all objects."""

    k: int | None = None
    at_least: int | None = None
    every: int | None = None
    trace_all: bool = False


class Change(NamedTuple):
    at: int
    step: int
    pos: int
    sign: int
    cause: str
    object: Any
    loyalty: int
    slope: int


class Point(NamedTuple):
    at: int
    object: Any
    loyalty: int
    slope: int


def spans(reports: Sequence[Report], stale_after: int | None) -> Spans:
    """Return the spans in which every object is on."""
    found: Spans = {}
    for name in {r.object for r in reports}:
        states = {r.time: r for r in reports if r.object == name}  # of one instant the last one counts
        times = sorted(states)
        mine: list[tuple[int, int]] = []
        for t, following in zip(times, [*times[1:], FOREVER], strict=True):
            end = min(following, states[t].deleted, FOREVER if stale_after is None else t + stale_after)
            if not states[t].on or end == t:
                continue
            if mine and mine[-1][1] == t:
                mine[-1] = (mine[-1][0], end)
            else:
                mine.append((t, end))
        found[name] = mine
    return found


def loyalty(mine: Sequence[tuple[int, int]], window: int, t: int) -> int:
    """The length of the time within (t - window, t] that an object with the spans ``mine`` was on."""
    return sum(max(0, min(end, t) - max(begin, t - window)) for begin, end in mine)


def is_on(mine: Sequence[tuple[int, int]], t: int) -> bool:
    """Whether an object is on from t on."""
    return any(begin <= t < end for begin, end in mine)


def slope(mine: Sequence[tuple[int, int]], window: int, t: int) -> int:
    """How loyalty moves from t on."""
    return int(is_on(mine, t)) - int(is_on(mine, t - window))


def ranked(spans_: Spans, window: int, t: int, names: Iterable[Any]) -> list[Any]:
    """``names`` in rank order: loyalty, then slope, the largest first, then name."""
    return sorted(names, key=lambda o: (-loyalty(spans_[o], window, t), -slope(spans_[o], window, t), o))


def eligible(mine: Sequence[tuple[int, int]], window: int, t: int) -> bool:
    return loyalty(mine, window, t) > 0 or slope(mine, window, t) > 0


def result(spans_: Spans, window: int, query: Query, t: int) -> list[Any]:
    """The result at instant t, in rank order."""
    if query.k is not None:
        return ranked(spans_, window, t, [o for o, mine in spans_.items() if eligible(mine, window, t)])[: query.k]
    least = query.at_least
    assert least is not None
    good = []
    for o, mine in spans_.items():
        value = loyalty(mine, window, t)
        if value > least or (value == least and slope(mine, window, t) >= 0):
            good.append(o)
    return ranked(spans_, window, t, good)


def updates(spans_: Spans, window: int) -> set[int]:
    """The instants at which an object is switched, by a report or because it is stale, and those of their echoes."""
    ends = {t for mine in spans_.values() for span in mine for t in span}
    return {t for t in ends if t < FOREVER} | {t + window for t in ends if t < FOREVER}


def instants(spans_: Spans, window: int, queries: Sequence[Query], end: int) -> list[int]:
    """All instants before ``end`` at which a result may change: updates, and the whole instants around crossings between two of them."""
    edges = sorted(t for t in updates(spans_, window) if t < end)
    found = set(edges)
    for first, last in pairwise([*edges, end]):
        lines = {(loyalty(mine, window, first), slope(mine, window, first)) for mine in spans_.values()}
        levels = {(q.at_least, 0) for q in queries if q.at_least is not None}
        for a, s in lines | levels:
            for b, r in lines | levels:
                if s > r and b > a:
                    for t in range(first + (b - a) // (s - r) - 1, first + (b - a) // (s - r) + 3):
                        if first < t < last:
                            found.add(t)
    for q in queries:
        if q.every is not None and edges:
            found |= set(range(-(-edges[0] // q.every) * q.every, end, q.every))
    return sorted(found)


def changes(reports: Sequence[Report], stale_after: int | None, window: int, query: Query, at: Iterable[int]) -> list[Change]:
    """Return the changes at the instants ``at``, emitted for the reports of one key; with ``every`` only boundaries count."""
    spans_ = spans(reports, stale_after)
    updated, reported = updates(spans_, window), {(r.time, r.object) for r in reports}
    emitted: list[Any] = []
    found: list[Change] = []
    step = 0
    for t in at:
        if query.every is not None and t % query.every:
            continue
        now = result(spans_, window, query, t)
        gone = ranked(spans_, window, t, [o for o in emitted if o not in now])
        came = [o for o in now if o not in emitted]
        step += bool(gone or came)
        for pos, o in enumerate([*gone, *came]):
            sign = -1 if pos < len(gone) else 1
            if query.every is not None:
                cause = "boundary" if sign > 0 else "displaced" if eligible(spans_[o], window, t) else "expiry"
            elif sign < 0:
                cause = "displaced" if t in updated else "crossing"
                cause = cause if eligible(spans_[o], window, t) else "expiry"
            else:
                cause = "arrival" if (t, o) in reported else "promoted" if t in updated else "crossing"
            found.append(Change(t, step, pos, sign, cause, o, loyalty(spans_[o], window, t), slope(spans_[o], window, t)))
        emitted = now
    return found


def points(reports: Sequence[Report], stale_after: int | None, window: int, query: Query, at: Sequence[int]) -> list[Point]:
    """Return the points of trajectories at the instants ``at`` (all updates among them), by instant and name."""
    spans_ = spans(reports, stale_after)
    emitted: list[Any] = []
    found = []
    for t in at:
        boundary = query.every is None or t % query.every == 0
        now = result(spans_, window, query, t) if boundary else emitted
        for o in sorted(spans_):
            here = slope(spans_[o], window, t)
            bends = here != slope(spans_[o], window, t - 1)
            if bends if query.trace_all else o in now and (bends or o not in emitted):
                found.append(Point(t, o, loyalty(spans_[o], window, t), here))
        emitted = now
    return found
