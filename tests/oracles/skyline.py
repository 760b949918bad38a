"""K-skybands by their definition: the result set of every query after every event, from nothing but the list of objects."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from skyband.operators.base import CAUSES, AnyArray
from tests.oracles.events import changes, instants

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


def prioritised(values: AnyArray, directions: Sequence[str], usable: AnyArray, distinct: bool, levels: Sequence[int]) -> AnyArray:
    """``dominance`` with levels: of the ordered dimensions, in order, so many each; dominance in the first level in which rows differ."""
    every, ordered = list(directions), [j for j, d in enumerate(directions) if d != "equal"]
    same = [j for j, d in enumerate(every) if d == "equal"]
    n = len(values)
    everywhere = np.ones(n, bool)
    dom, equal = np.zeros((n, n), bool), np.ones((n, n), bool)
    for j in same:
        equal &= (values[:, j][:, None] == values[:, j][None, :]).astype(bool)
    at = 0
    for size in levels:
        mine = ordered[at : at + size]
        at += size
        dom |= equal & dominance(values[:, mine], [every[j] for j in mine], everywhere, False)
        for j in mine:
            equal &= (values[:, j][:, None] == values[:, j][None, :]).astype(bool)
    if distinct:
        dom |= equal & (np.arange(n)[:, None] > np.arange(n)[None, :])
    return dom & usable[:, None] & usable[None, :]


def members(dom: AnyArray, usable: AnyArray, alive: AnyArray, band: int) -> set[int]:
    """Usable alive objects with fewer than ``band`` alive dominators."""
    return set(np.flatnonzero(alive & usable & (dom[alive].sum(0) < band)).tolist())


class Watched:
    """A query over one key's stream."""

    def __init__(self, times: Sequence[int], dom: AnyArray, usable: AnyArray, band: int, query: LogicalQuery) -> None:
        self.times, self.dom, self.usable, self.band = np.array(times, np.int64).reshape(-1), dom, usable, band
        self.count, self.micros = query.count or FAR, query.micros or FAR
        self.arrived = 0

    def enter(self, row: int) -> None:
        self.arrived = row + 1

    def alive(self, t: int) -> AnyArray:
        index = np.arange(len(self.times))
        return (index < self.arrived) & (index >= self.arrived - self.count) & (self.times + self.micros > t)

    def result(self, t: int) -> list[int]:
        return sorted(members(self.dom, self.usable, self.alive(t), self.band), reverse=True)

    def left(self, item: int, t: int) -> str:
        return "displaced" if self.alive(t)[item] else "expiry"

    def brought(self, item: int, row: int) -> bool:
        return item == row


def stream(times: Sequence[int], dom: AnyArray, usable: AnyArray, band: int, query: LogicalQuery, until: int) -> list[tuple[int, ...]]:
    """Changes (at, step, pos, sign, cause, seq) of one key by definition: all events before ``until``, seqs 0, 1, 2, ..."""
    watched = Watched(times, dom, usable, band, query)
    found = changes(instants(times, times, query.micros, query.every, until), query.every, watched)
    return [(at, step, pos, sign, CAUSES.index(cause), seq) for at, step, pos, sign, cause, seq in found]
