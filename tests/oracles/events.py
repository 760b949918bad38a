"""The event loop that every definition of a result shares: which events there are, and what changes from one to the next."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import Protocol, TypeVar

Item = TypeVar("Item", bound=Hashable)

EXPIRY, ROW, BOUNDARY = range(3)
"""Phases of an instant, in their order."""


class Watched(Protocol[Item]):
    """One query over one key's stream, by definition."""

    def enter(self, row: int) -> None:
        """Row number ``row`` happens."""
        ...

    def result(self, t: int) -> Sequence[Item]:
        """The result at instant t, in rank order."""
        ...

    def left(self, item: Item, t: int) -> str:
        """Why the item has left."""
        ...

    def brought(self, item: Item, row: int) -> bool:
        """Whether row number ``row`` brought the item."""
        ...


def instants(rows: Sequence[int], objects: Iterable[int], micros: int | None, every: int | None, until: int) -> list[tuple[int, int, int]]:
    """(instant, phase, row number or -1) of all events before ``until``, in order, from the times of rows and of objects."""
    found = [(t, ROW, i) for i, t in enumerate(rows) if t < until]
    if micros is not None:
        found += [(t, EXPIRY, -1) for t in {t + micros for t in objects} if t < until]
    if every is not None and rows:
        found += [(b, BOUNDARY, -1) for b in range(-(-rows[0] // every) * every, until, every)]
    return sorted(found)


def changes(
    events: Iterable[tuple[int, int, int]], every: int | None, watched: Watched[Item]
) -> Iterator[tuple[int, int, int, int, str, Item]]:
    """(at, step, pos, sign, cause, item): net differences after every event, or at boundaries only with ``every``."""
    shown: Sequence[Item] = ()
    step = 0
    for t, phase, row in events:
        if phase == ROW:
            watched.enter(row)
        if (every is not None) != (phase == BOUNDARY):
            continue
        now = watched.result(t)
        before, after = set(shown), set(now)
        rows = [(-1, watched.left(x, t), x) for x in shown if x not in after]
        for x in now:
            if x not in before:
                came = phase == ROW and watched.brought(x, row)
                rows.append((1, "boundary" if phase == BOUNDARY else "arrival" if came else "promoted", x))
        step += bool(rows)
        for pos, (sign, cause, x) in enumerate(rows):
            yield t, step, pos, sign, cause, x
        shown = now
