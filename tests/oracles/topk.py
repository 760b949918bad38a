"""Top-k and threshold results by definition: the whole window is looked at after every event (architecture 3.1-3.6, 3.10).

Slow and obvious on purpose; shares no code with the operators.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

Row = tuple[Any, ...]
"""A change: (query, key, at, step, pos, sign, cause, seq, score)."""


@dataclass(frozen=True)
class Event:
    """One accepted row of a key in order: an object (``target`` None) or the deletion of seq ``target``."""

    time: int
    score: float = math.nan
    target: int | None = None


@dataclass(frozen=True)
class Query:
    """What is asked: ``accept(score)`` and k (None: all that are accepted)."""

    k: int | None
    count: int | None
    micros: int | None
    largest_first: bool = True
    every: int | None = None
    accept: Callable[[float], bool] = lambda s: True


def replay(query_index: int, key: int, events: Sequence[Event], query: Query, until: int) -> list[Row]:
    """All changes of one query and key up to ``until`` (exclusive)."""
    objects = [(e.time, e.score) for e in events if e.target is None]
    instants: list[tuple[int, int, int]] = [(e.time, 1, i) for i, e in enumerate(events)]
    if query.micros is not None:
        instants += [(t, 0, -1) for t in {o[0] + query.micros for o in objects} if t < until]
    if query.every is not None and events:
        first = -(-events[0].time // query.every) * query.every
        instants += [(b, 2, -1) for b in range(first, until, query.every)]
    instants.sort()
    newest, deleted = -1, set[int]()
    out: list[Row] = []
    shown: list[tuple[float, int]] = []
    step = 0

    def alive(seq: int, t: int) -> bool:
        in_count = query.count is None or seq > newest - query.count
        in_time = query.micros is None or t < objects[seq][0] + query.micros
        return in_count and in_time

    def rank(x: tuple[float, int]) -> tuple[float, int]:
        return (-x[0] if query.largest_first else x[0], -x[1])

    for t, phase, i in instants:
        arriving = None
        if phase == 1:
            target = events[i].target
            if target is None:
                newest += 1
                arriving = newest
            else:
                deleted.add(target)
        if (query.every is not None) != (phase == 2):
            continue
        now = [(objects[s][1] + 0.0, s) for s in range(newest + 1) if s not in deleted and alive(s, t)]
        now = sorted((x for x in now if not math.isnan(x[0]) and query.accept(x[0])), key=rank)[: query.k]
        minus = sorted(set(shown) - set(now), key=rank)
        plus = sorted(set(now) - set(shown), key=rank)
        if minus or plus:
            step += 1
            rows: list[tuple[int, str, tuple[float, int]]] = []
            for x in minus:
                rows.append((-1, "delete" if x[1] in deleted else "displaced" if alive(x[1], t) else "expiry", x))
            for x in plus:
                rows.append((1, "boundary" if phase == 2 else "arrival" if x[1] == arriving else "promoted", x))
            out += [(query_index, key, t, step, pos, sign, cause, x[1], x[0]) for pos, (sign, cause, x) in enumerate(rows)]
        shown = now
    return out
