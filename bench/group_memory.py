"""Memory of the state of groups: bytes a row of the window, and a group. Arrays as they are allocated, with their room to grow.

A row costs what a window of a million rows in a hundred groups takes, a group what is more with a million groups.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from skyband.operators.base import Arrivals, Kind, Named, Ragged, Window
from skyband.operators.expressions.aggregates import parse_aggregates
from skyband.operators.groups import Groups, GroupsQuery

WINDOW = 1_000_000
BATCH = 50_000
FEW, MANY = 100, 1_000_000
KINDS: dict[str, Kind] = {"x": "float", "n": "int", "p": "float"}
SCORES = (
    "count()", "sum(x)", "sum(n)", "sum(p)", "mean(x)", "variance(x)", "max(x)", "last(x)", "quantile(x, 0.5)", "distinct(n)",
    "sum(x) / count() + max(n)",
)  # fmt: skip


def state_bytes(thing: Any, seen: set[int]) -> int:
    """The bytes of all arrays that an object holds, each piece of memory once."""
    if isinstance(thing, np.ndarray):
        while isinstance(thing.base, np.ndarray):
            thing = thing.base
        if id(thing) in seen:
            return 0
        seen.add(id(thing))
        return int(thing.nbytes)
    if isinstance(thing, list | tuple):
        return sum(state_bytes(part, seen) for part in thing)
    fields = getattr(thing, "__dict__", None)
    return sum(state_bytes(part, seen) for part in fields.values()) if fields else 0


def filled(score: str, groups: int) -> tuple[int, int]:
    """The bytes of a state whose window is full twice over, and its groups."""
    operator = Groups(
        group=("g",), score=parse_aggregates(score, KINDS, "score", {"p": 2}), window=Window(count=WINDOW), queries=(GroupsQuery(k=10),)
    )
    logic, rng, known = operator.build(None), np.random.default_rng(1), np.zeros(groups, bool)
    for first in range(0, 2 * WINDOW, BATCH):
        number = rng.integers(0, groups, BATCH)
        new = np.unique(number)
        new = new[~known[new]]
        known[new] = True
        seq, cents = np.arange(first, first + BATCH), rng.integers(1, 10_000, BATCH)
        columns = {"$g": number, "x": np.exp(rng.normal(size=BATCH)), "n": cents, "%p": cents}
        named = {"$g": Named(new, Ragged(np.arange(len(new) + 1), new))}
        logic.advance(Arrivals(np.zeros(BATCH, np.int64), seq, seq, columns, {}, named), first + BATCH)
    return state_bytes([v for n, v in vars(logic).items() if n not in ("configuration", "expressions")], set()), logic.n


def run() -> Iterator[dict[str, Any]]:
    """Measure every score."""
    for score in SCORES:
        (few, _), (many, groups) = filled(score, FEW), filled(score, MANY)
        params = {"score": score, "window": WINDOW}
        yield {"operator": "groups", "params": params, "bytes_per_row": few / WINDOW, "bytes_per_group": (many - few) / groups}
