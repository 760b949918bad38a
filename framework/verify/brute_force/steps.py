"""Derive the steps of a change stream at one instant, event by event, from results by definition (docs/semantics 2, 3)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from skyband.framework.queries.protocol import QueryType, Question, TimeVaryingValues
from skyband.framework.verify.brute_force.calendars import leaves_at
from skyband.framework.verify.brute_force.history import ChangeRow
from skyband.framework.verify.brute_force.objects import Accepted, Found, window_of

MOST_EVENTS = 12
"""The most events of one instant that are recomputed one by one."""


@dataclass(frozen=True, slots=True)
class _Event:
    """The state after an event: number of objects, deleted objects. ``arriving``: the seq of the object that arrived."""

    count: int
    deleted: frozenset[int]
    arriving: int | None


def steps_at(kind: QueryType, question: Question, mine: Accepted, shown: Found, result: Found) -> list[list[ChangeRow]] | None:
    """Return the steps at the question's instant, each with ``-`` first, in rank order; None if that is too much work.

    ``shown``: the result before the instant. ``result``: the result after its events.
    """
    query, at = question.query, question.at
    if query.item.moves:
        step = _time_varying_step(kind, question, shown, result)
        return None if step is None else [step] if step else []
    if query.every_micros:
        if at % query.every_micros:
            return []
        events = [_after(mine, at)]
    else:
        events = list(_events(question, mine))
    if len(events) > MOST_EVENTS:
        return None
    steps, earlier = [], replace(question, at=at - 1)
    for n, event in enumerate(events, 1):
        then = replace(question, data=question.data.as_of(event.count, set(event.deleted)))
        now = result if n == len(events) else kind.brute_force(then)
        if now is None:
            return None
        step = _step(kind, earlier, then, shown, now, event)
        steps += [step] if step else []
        shown, earlier = now, then
    return steps


def _time_varying_step(kind: QueryType, question: Question, shown: Found, now: Found) -> list[ChangeRow] | None:
    """Return the only step of an instant of a query with time-varying values: an instant is one event (docs/semantics 12)."""
    every, at = question.query.every_micros, question.at
    if every and at % every:
        return []
    computed = kind.time_varying_values(question)
    if computed is None:
        return None
    before, after = {item for item, _ in shown}, {item for item, _ in now}
    step = []
    for change, among, others in (("-", before, after), ("+", after, before)):
        for item, (value, slope) in computed.values.items():
            if item in among and item not in others:
                step.append(ChangeRow(change, _time_varying_cause(change, item, computed, bool(every)), item, value, slope))
    return step


def _time_varying_cause(change: str, item: tuple[Any, ...], computed: TimeVaryingValues, boundary: bool) -> str:
    value, slope = computed.values[item]
    if change == "-":
        return "expiry" if value <= 0 and slope <= 0 else "displaced" if computed.switched or boundary else "crossing"
    if boundary:
        return "boundary"
    return "arrival" if item in computed.reported else "promoted" if computed.switched else "crossing"


def _after(mine: Accepted, at: int) -> _Event:
    """Return the state after all events at ``at`` or before."""
    return _Event(int(np.searchsorted(mine.time, at, "right")), frozenset(s for t, _, s in mine.deletions if t <= at), None)


def _events(question: Question, mine: Accepted) -> Iterator[_Event]:
    """Yield the states after the expiries of an instant, then after each of its rows."""
    at = question.at
    before = _after(mine, at - 1)
    window = question.logical_query.window if question.logical_query is not None else question.query.window
    if leaves_at(window, mine.time, at):
        yield before
    count, deleted = before.count, set(before.deleted)
    last = int(np.searchsorted(mine.time, at, "right"))
    gone = [(position, seq) for t, position, seq in mine.deletions if t == at]
    while count < last or gone:
        if gone and gone[0][0] <= count:
            deleted.add(gone.pop(0)[1])
            yield _Event(count, frozenset(deleted), None)
        else:
            count += 1
            yield _Event(count, frozenset(deleted), count - 1)


def _step(kind: QueryType, earlier: Question, then: Question, shown: Found, now: Found, event: _Event) -> list[ChangeRow]:
    before, after = {item for item, _ in shown}, {item for item, _ in now}
    left = [ChangeRow("-", _left(kind, then, item, event), item, score) for item, score in shown if item not in after]
    entered = [ChangeRow("+", _entered(kind, then, item, event), item, score) for item, score in now if item not in before]
    if not then.query.item.carried:
        return left + entered
    # What leaves has the values with which it was last in the result, as its score.
    left = [replace(change, carried=kind.carried(earlier, change.item)) for change in left]
    return left + [replace(change, carried=kind.carried(then, change.item)) for change in entered]


def _seqs(then: Question, item: tuple[Any, ...]) -> list[int]:
    """Return the seqs of the item's rows."""
    parts = then.query.item.parts
    return [int(v) for v in item] if all(p.is_row for p in parts) else []


def _left(kind: QueryType, then: Question, item: tuple[Any, ...], event: _Event) -> str | None:
    seqs = _seqs(then, item)
    if not seqs:
        return kind.cause(then, "-", item, event.arriving)
    if any(s in event.deleted for s in seqs):
        return "delete"
    window = then.logical_query.window if then.logical_query is not None else then.query.window
    first, _, _ = window_of(then.query, window, then.data, then.at)
    return "displaced" if min(seqs) >= first else "expiry"


def _entered(kind: QueryType, then: Question, item: tuple[Any, ...], event: _Event) -> str | None:
    if then.query.every_micros:
        return "boundary"
    seqs = _seqs(then, item)
    if not seqs:
        return kind.cause(then, "+", item, event.arriving)
    return "arrival" if event.arriving in seqs else "promoted"
