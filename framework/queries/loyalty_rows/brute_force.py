"""Compute the result by definition: add up the time for which an object's reports had it on within the window."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from skyband.framework.queries.protocol import Question, TimeVaryingValues
from skyband.framework.verify.brute_force.expressions import holds, meaning
from skyband.framework.verify.brute_force.objects import Found
from skyband.operators.base import NEVER

I64 = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Item = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class _Spans:
    """The spans in which objects are on: object ``of`` from ``since`` up to ``until``; spans of one object do not touch.

    ``switches``: the instants, in order, at which an object goes on or off, or did one window ago: between them loyalties move in straight
    lines. ``reports``: (instants in order, object of each).
    """

    of: I64
    since: I64
    until: I64
    switches: I64
    reports: tuple[I64, I64]


def most_loyal(question: Question, every: bool = False) -> Found:
    """Return the members of the result as (values of the identity columns, loyalty in seconds), in rank order. O(n log n) in the objects.

    With ``every`` of the query, the members are those as of the last boundary; their values, and so their order, are as of the instant.
    ``every``: all that have loyalty or slope, whatever ``k`` and ``at_least``.
    """
    members = _members(question, every)
    if question.query.every_micros:
        members = _ranked(question, question.at, (o for *_, o in members))
    items = _items(question)
    return [(items[o], -loyalty / 1e6) for loyalty, _, _, o in members]


def time_varying_values(question: Question) -> TimeVaryingValues:
    """See ``protocol.QueryType``."""
    spans, items = _spans(question), _items(question)
    values = {items[o]: (-loyalty / 1e6, -slope) for loyalty, slope, _, o in _ranked(question, question.at, range(len(items)))}
    times, of = spans.reports
    first, end = np.searchsorted(times, question.at, side="left"), np.searchsorted(times, question.at, side="right")
    reported = frozenset(items[o] for o in of[first:end].tolist())
    after = int(np.searchsorted(spans.switches, question.at, side="left"))
    updated = after < len(spans.switches) and int(spans.switches[after]) == question.at
    return TimeVaryingValues(values, reported, updated and _operator(question).held is None)


def next_instants(question: Question) -> list[int]:
    """Return the next switch, and the next crossing if it comes before that; with ``every`` the boundaries that show them.

    Up to the next switch loyalties move in straight lines: a member is overtaken, or the bound is reached, where two lines meet.
    """
    operator = _operator(question)
    query, spans, at = operator.queries[question.query.index], _spans(question), question.at
    after = int(np.searchsorted(spans.switches, at, side="right"))
    switch = int(spans.switches[after]) if after < len(spans.switches) else NEVER
    loyalty, slope = loyalties(question, at)
    if query.k is not None:
        inside = np.zeros(len(loyalty), bool)
        inside[[o for *_, o in _members(question, at=at)]] = True
        gap = loyalty[inside][:, None] - loyalty[~inside][None, :]
        nearing = slope[~inside][None, :] - slope[inside][:, None]
        meets = (nearing > 0) & (gap > 0)
        crossings = at - (-gap[meets] // nearing[meets])
    else:
        gap = query.at_least - loyalty
        crossings = at + np.abs(gap)[(gap * slope > 0)]
    found = [switch] if switch < NEVER else []
    if len(crossings) and int(crossings.min()) < switch:
        found.append(int(crossings.min()))
    every = question.query.every_micros
    return sorted({-(-t // every) * every if every else t for t in found})


def loyalties(question: Question, at: int) -> tuple[I64, I64]:
    """Return (loyalty in microseconds, slope) of each object as of ``at``."""
    operator = _operator(question)
    spans, objects = _spans(question), len(_items(question))
    of, since, until = spans.of, spans.since, spans.until
    begin = at - operator.window.micros
    loyalty, slope = np.zeros(objects, np.int64), np.zeros(objects, np.int64)
    np.add.at(loyalty, of, np.maximum(np.minimum(until, at) - np.maximum(since, begin), 0))
    np.add.at(slope, of, (since <= at) & (at < until))
    np.subtract.at(slope, of, (since <= begin) & (begin < until))
    return loyalty, slope


def values_at(question: Question, items: Sequence[tuple[Item, int]]) -> list[tuple[float, int]]:
    """Return loyalty in seconds and slope of each (item, instant), NaN for an item that no row names. O(n log n)."""
    window, spans = _operator(question).window.micros, _spans(question)
    number = {item: o for o, item in enumerate(_items(question))}
    of = np.array([number.get(item, -1) for item, _ in items], np.int64)
    at = np.array([t for _, t in items], np.int64)
    found = np.full(len(items), math.nan)
    slopes = np.zeros(len(items), np.int64)
    order, mine = np.argsort(spans.of, kind="stable"), np.argsort(of, kind="stable")
    for o in np.unique(of[of >= 0]).tolist():
        spans_of = order[np.searchsorted(spans.of[order], o) : np.searchsorted(spans.of[order], o, "right")]
        rows = mine[np.searchsorted(of[mine], o) : np.searchsorted(of[mine], o, "right")]
        since, until = np.sort(spans.since[spans_of]), np.sort(spans.until[spans_of])
        ends = [_on(since, until, at[rows] - back) for back in (0, window)]
        found[rows] = (ends[0][0] - ends[1][0]) / 1e6
        slopes[rows] = ends[0][1] - ends[1][1]
    return list(zip(found.tolist(), slopes.tolist(), strict=True))


def _on(since: I64, until: I64, at: I64) -> tuple[I64, I64]:
    """Return for how long an object has been on by each instant, and 1 where it is; its spans are in order and do not touch."""
    begun = np.searchsorted(since, at, side="right")
    lengths = np.concatenate([[0], np.cumsum(np.minimum(until, at.max(initial=0)) - since)])
    last = np.maximum(begun - 1, 0)
    inside = (begun > 0) & (at < (until[last] if len(until) else at))
    before = np.where(inside, begun - 1, begun)
    partly = np.where(inside, at - since[last], 0) if len(since) else np.zeros(len(at), np.int64)
    return lengths[before] + partly, inside.astype(np.int64)


def _members(question: Question, every: bool = False, at: int | None = None) -> list[tuple[int, int, Any, int]]:
    """Return (loyalty and slope, both negated, name, number) of the members, in rank order; as of ``at``, or the last boundary."""
    operator = _operator(question)
    query, boundaries = operator.queries[question.query.index], question.query.every_micros
    if at is None:
        at = question.at // boundaries * boundaries if boundaries else question.at
    objects = _ranked(question, at, range(len(_items(question))))
    if query.k is not None or every:
        return [r for r in objects if r[0] < 0 or r[1] < 0][: None if every else query.k]
    least = query.at_least
    return [r for r in objects if -r[0] > least or (-r[0] == least and -r[1] >= 0)]


def _ranked(question: Question, at: int, among: Iterable[int]) -> list[tuple[int, int, Any, int]]:
    names, _ = _named(question)
    loyalty, slope = loyalties(question, at)
    # A row of a result may name no object: it reports on none.
    return sorted((-int(loyalty[o]), -int(slope[o]), _in_order(names[o]), o) for o in among if None not in names[o])


def _operator(question: Question) -> Any:
    """Return the operator of the question's query."""
    return question.plan.operators[question.query.operator].inner


def _named(question: Question) -> tuple[list[Item], I64]:
    """Return (the names of all objects, the number of the object that each row reports on)."""
    return question.data.named[_operator(question).object]


def _items(question: Question) -> list[Item]:
    """Return the identity columns of every object."""
    operator = _operator(question)
    shown = [operator.object.index(c) for c in question.query.item.identity(question.plan.intake.partition_by)]
    return [tuple(name[i] for i in shown) for name in _named(question)[0]]


def _spans(question: Question) -> _Spans:
    return question.data.once(("spans", question.query.operator), lambda: _spans_of(question))


def _spans_of(question: Question) -> _Spans:
    operator = _operator(question)
    _, of_row = _named(question)
    time = question.data.every.time
    on, usable = _reports(question, len(time))
    held = [()] * len(time) if operator.held is None else _held(question.data.every.rows[operator.held].to_pylist(), time)
    usable = usable & np.array([switches is not None for switches in held], bool)
    row = np.nonzero(usable)[0]
    reports = time[row], of_row[row]
    # By object, within one in order of the stream: a report counts until the next, or until it is stale or deleted.
    row = row[np.argsort(of_row[row], kind="stable")]
    of, since = of_row[row], time[row]
    until = np.full(len(row), NEVER)
    until[:-1] = np.where(of[1:] == of[:-1], since[1:], NEVER)
    if operator.stale_after is not None:
        until = np.minimum(until, since + operator.stale_after)
    until = np.minimum(until, question.data.every.deleted[row])
    lasting = on[row] & (since < until)
    of, since, until = of[lasting], since[lasting], until[lasting]
    if any(held):
        of, since, until = _switched(of_row, time, on, np.nonzero(usable)[0], held, operator.window.micros)
    first = np.ones(len(of), bool)
    first[1:] = (of[1:] != of[:-1]) | (since[1:] != until[:-1])
    of, since, until = of[first], since[first], until[np.append(first[1:], True)[: len(of)]]
    ends = np.concatenate([since, until[until < NEVER]])
    return _Spans(of, since, until, np.unique(np.concatenate([ends, ends + operator.window.micros])), reports)


def _held(texts: list[str | None], time: I64) -> list[tuple[int, ...] | None]:
    """Return the switches that each row carries; None where the text lists no ascending instants before the row's time."""
    found: list[tuple[int, ...] | None] = []
    for text, t in zip(texts, time.tolist(), strict=True):
        words = (text or "").split()
        plain = all(len(w) <= 20 and w.isascii() and w.removeprefix("-").isdecimal() for w in words)
        instants = [int(w) for w in words] if plain else [t]
        found.append(tuple(instants) if instants == sorted({*instants}) and all(-(2**62) < h < t for h in instants) else None)
    return found


def _switched(of_row: I64, time: I64, on: Bools, rows: I64, held: Sequence[tuple[int, ...] | None], window: int) -> tuple[I64, I64, I64]:
    """Return the spans (object, since, until) in which objects are on, by the reports ``rows`` and the switches that these carry.

    A switch at or before the object's last report does not count, or counts as of the window's begin if that report is not in it.
    """
    states: dict[int, dict[int, bool]] = {}
    last: dict[int, int] = {}
    for row in rows.tolist():
        mine, t, o = states.setdefault(int(of_row[row]), {}), int(time[row]), int(of_row[row])
        state = mine[next(reversed(mine))] if mine else False
        for switch in held[row] or ():
            new = switch > last.get(o, -(2**62))
            if new or last[o] <= t - window:
                state = not state
                mine[switch if new else t - window] = state
        mine[t] = bool(on[row])
        last[o] = t
    found = []
    for o, mine in states.items():
        times = sorted(mine)
        found += [(o, t, until) for t, until in zip(times, [*times[1:], NEVER], strict=True) if mine[t]]
    columns = np.array(found, np.int64).reshape(-1, 3)
    return columns[:, 0].copy(), columns[:, 1].copy(), columns[:, 2].copy()


def _reports(question: Question, end: int) -> tuple[Bools, Bools]:
    """Return (whether on, whether a usable report at all) of the first ``end`` rows."""
    operator = _operator(question)
    rows = question.data.values(0, end)
    report = meaning(operator.criteria)(rows, rows) if operator.criteria is not None else rows[operator.updates.name]
    on, off = report.valid & (report.value == 1), report.valid & (report.value == 0)
    return np.broadcast_to(on, end), np.broadcast_to((on | off) & holds(operator.where)(rows, rows), end)


def _in_order(name: Item) -> Item:
    """Return the name as the rank compares it: texts by their UTF-8 bytes."""
    return tuple(v.encode() if isinstance(v, str) else v for v in name)
