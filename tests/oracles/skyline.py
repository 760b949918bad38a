"""K-skybands by their definition: the result set of every query after every event, from nothing but the list of objects."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from skyband.operators.base import ARRIVAL, BOUNDARY, DISPLACED, EXPIRY, PROMOTED, AnyArray

FAR = 2**62


@dataclass(frozen=True)
class LogicalQuery:
    """One query: count window (None: none), time window (None: none), boundary length (None: every event)."""

    count: int | None
    micros: int | None
    every: int | None = None


def dominance(values: AnyArray, directions: Sequence[str], usable: AnyArray, distinct: bool) -> AnyArray:
    """(n, n) truth: row dominates column. ``values`` (n, d) of any comparable dtype per column (object arrays too)."""
    n = len(values)
    weak, strict = np.ones((n, n), bool), np.zeros((n, n), bool)
    for j, direction in enumerate(directions):
        a, b = values[:, j][:, None], values[:, j][None, :]
        if direction == "equal":
            weak &= (a == b).astype(bool)
            continue
        with np.errstate(invalid="ignore"):
            better, no_worse = ((a < b), (a <= b)) if direction == "min" else ((a > b), (a >= b))
        weak &= no_worse.astype(bool)
        strict |= better.astype(bool)
    dom = weak & strict
    if distinct:
        equal = weak & ~strict
        dom |= equal & (np.arange(n)[:, None] > np.arange(n)[None, :])
    return dom & usable[:, None] & usable[None, :]


def members(dom: AnyArray, usable: AnyArray, alive: AnyArray, band: int) -> set[int]:
    """Usable alive objects with fewer than ``band`` alive dominators."""
    return set(np.flatnonzero(alive & usable & (dom[alive].sum(0) < band)).tolist())


def stream(times: Sequence[int], dom: AnyArray, usable: AnyArray, band: int, asked: LogicalQuery, until: int) -> list[tuple[int, ...]]:
    """Changes (at, step, pos, sign, cause, seq) of one key by definition: all events before ``until``, seqs 0, 1, 2, ..."""
    n = len(times)
    t = np.array(times, np.int64).reshape(-1)
    index = np.arange(n)
    count, micros = asked.count or FAR, asked.micros or FAR
    events: list[tuple[int, int, int]] = [(x, 1, i) for i, x in enumerate(times)]
    if asked.micros is not None:
        events += [(x, 0, -1) for x in {x + micros for x in times}]
    if asked.every is not None and n:
        last = max(e[0] for e in events)
        first = -(-times[0] // asked.every)
        events += [(b * asked.every, 2, -1) for b in range(first, last // asked.every + 2)]
    arrived, step = 0, 0
    shown: set[int] = set()
    changes: list[tuple[int, ...]] = []
    for at, phase, seq in sorted(events):
        if at >= until:
            break
        if phase == 1:
            arrived = seq + 1
        alive = (index < arrived) & (index >= arrived - count) & (t + micros > at)
        if asked.every is not None and phase != 2:
            continue
        now = members(dom, usable, alive, band)
        gone, come = sorted(shown - now, reverse=True), sorted(now - shown, reverse=True)
        if gone or come:
            step += 1
        for pos, i in enumerate(gone):
            changes.append((at, step, pos, -1, DISPLACED if alive[i] else EXPIRY, i))
        for pos, i in enumerate(come):
            cause = BOUNDARY if phase == 2 else ARRIVAL if i == seq else PROMOTED
            changes.append((at, step, len(gone) + pos, 1, cause, i))
        shown = now
    return changes
