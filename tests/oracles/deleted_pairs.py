"""Results about pairs of a stream with deletions, by definition (docs/semantics 10): deleted objects are in no pair from then on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.oracles.events import changes, instants
from tests.oracles.pairs import Watched, first_alive, taken


@dataclass(frozen=True)
class Rows:
    """One key's rows in order: ``time``, and the seq that each deletes, or None for an object. ``stream``: the objects, with ``times``."""

    time: Sequence[int]
    target: Sequence[int | None]
    stream: Any


@dataclass
class Deletable(Watched):
    """As ``Watched``, with rows that delete."""

    rows: Rows
    query: Any
    pairs: Sequence[Any]
    arrived: int = 0
    deleted: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.stream = self.rows.stream

    def enter(self, row: int) -> None:
        target = self.rows.target[row]
        if target is None:
            self.arrived += 1
        else:
            self.deleted.add(target)

    def result(self, t: int) -> list[Any]:
        first = self.first(t)
        alive = (p for p in self.pairs if p[2] < self.arrived and p[1] >= first and not self.deleted & set(p[1:3]))
        return taken(alive, self.query)

    def left(self, item: Any, t: int) -> str:
        return "delete" if self.deleted & set(item[1:3]) else super().left(item, t)

    def brought(self, item: Any, row: int) -> bool:
        return self.rows.target[row] is None and bool(item[2] == self.arrived - 1)


def replay(rows: Rows, query: Any, pairs: Sequence[Any], until: int) -> Iterator[tuple[Any, ...]]:
    """(at, step, pos, sign, cause, pair): all changes of a query up to ``until``; ``pairs``: all candidates, in rank order."""
    found = instants(rows.time, rows.stream.times, query.micros, query.every, until)
    return changes(found, query.every, Deletable(rows, query, pairs))


def matched(rows: Rows, query: Any, pairs: Sequence[Any]) -> Iterator[tuple[Any, ...]]:
    """(at, step, pos, sign, cause, pair): of every arrival its ``k`` best pairs with objects that are alive then."""
    step, newer, deleted = 0, -1, set[int]()
    for t, target in zip(rows.time, rows.target, strict=True):
        if target is not None:
            deleted.add(target)
            continue
        newer += 1
        first = first_alive(rows.stream, query, t, newer + 1)
        best = [p for p in pairs if p[2] == newer and p[1] >= first and p[1] not in deleted][: query.k]
        step += bool(best)
        for pos, p in enumerate(best):
            yield t, step, pos, 1, "arrival", p


def snapshot(rows: Rows, query: Any, pairs: Sequence[Any], t: int) -> list[Any]:
    """The pairs of a query's result at instant t, when all rows have come, in rank order."""
    end = Deletable(rows, query, pairs)
    for row in range(len(rows.time)):
        end.enter(row)
    return end.result(t)
