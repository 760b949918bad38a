"""All changes of top-k queries by definition, for streams of some 10,000 rows: what is alive is kept in rank order (docs/semantics 1-13).

Plain Python that shares no code with the project: after every event, the first k items are compared with those before it.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

Values = Mapping[str, Any]


class Row(NamedTuple):
    """A row in its key's order that makes object ``seq``, or deletes it; ``time`` in microseconds."""

    time: int
    seq: int
    values: Values
    deletes: bool = False


class Event(NamedTuple):
    """``rows``: the one that arrives or is deleted, or all that expire at an instant."""

    at: int
    kind: str
    rows: Sequence[Row]


class Item(NamedTuple):
    """A possible member of a result, the first in rank order being the least; ``objects``: seqs, or a group's name."""

    rank: tuple[Any, ...]
    objects: tuple[Any, ...]
    score: float


class Change(NamedTuple):
    at: int
    step: int
    pos: int
    sign: str
    objects: tuple[Any, ...]
    score: float
    cause: str


def numbered(rows: Iterable[tuple[int, Values]]) -> list[Row]:
    """Rows that all insert, in order, as objects."""
    return [Row(time, seq, values) for seq, (time, values) in enumerate(rows)]


def events(rows: Iterable[Row], window: int, until: int) -> Iterator[Event]:
    """Yield all events of a key up to instant ``until`` for a window of ``window`` microseconds."""
    objects: dict[int, Row] = {}
    ends: deque[Row] = deque()

    def expired(at: int) -> Iterator[Event]:
        while ends and ends[0].time + window <= at:
            end, together = ends[0].time + window, []
            while ends and ends[0].time + window == end:
                row = ends.popleft()
                if objects.pop(row.seq, None) is not None:
                    together.append(row)
            if together:
                yield Event(end, "expiry", together)

    for row in rows:
        yield from expired(row.time)
        if not row.deletes:
            objects[row.seq] = row
            ends.append(row)
            yield Event(row.time, "arrival", [row])
        elif row.seq in objects:
            yield Event(row.time, "delete", [objects.pop(row.seq)])
    yield from expired(until)


def first(found: Iterable[Event], k: int, candidates: Callable[[Row, Mapping[int, Row]], Iterable[Item]]) -> Iterator[Change]:
    """Yield the changes of the first ``k`` items; ``candidates`` are the items that a row makes alone or with the objects alive before."""
    alive: dict[int, Row] = {}
    order: list[Item] = []
    made: defaultdict[int, list[Item]] = defaultdict(list)
    shown: list[Item] = []
    step = 0
    for event in found:
        seqs = {r.seq for r in event.rows}
        if event.kind == "arrival":
            for item in candidates(event.rows[0], alive):
                insort(order, item)
                for seq in item.objects:
                    made[seq].append(item)
            alive[event.rows[0].seq] = event.rows[0]
        else:
            for seq in seqs:
                del alive[seq]
                for item in made.pop(seq, ()):
                    at = bisect_left(order, item)
                    if at < len(order) and order[at] == item:
                        del order[at]
        now = order[:k]
        if now == shown:
            continue
        step += 1
        out = [(i, "-", event.kind if seqs & set(i.objects) and event.kind != "arrival" else "displaced") for i in shown if i not in now]
        out += [(i, "+", "arrival" if seqs & set(i.objects) else "promoted") for i in now if i not in shown]
        for pos, (item, sign, cause) in enumerate(out):
            yield Change(event.at, step, pos, sign, item.objects, item.score, cause)
        shown = now


def rows_by(score: Callable[[Values], float | None]) -> Callable[[Row, Mapping[int, Row]], Iterable[Item]]:
    """Candidates of a top-k of rows by the greatest score, the newer first; None: the row takes no part."""

    def candidates(row: Row, alive: Mapping[int, Row]) -> Iterable[Item]:
        found = score(row.values)
        return [] if found is None else [Item((-found, -row.seq), (row.seq,), found)]

    return candidates


def pairs_by(score: Callable[[Values, Values], float | None], sign: int = -1) -> Callable[[Row, Mapping[int, Row]], Iterable[Item]]:
    """Candidates of a top-k of pairs (older, newer) by the greatest score, with ``sign`` 1 by the least; None: they are no pair."""

    def candidates(row: Row, alive: Mapping[int, Row]) -> Iterable[Item]:
        for other in alive.values():
            found = score(other.values, row.values)
            if found is not None:
                yield Item((sign * found, -other.seq, -row.seq), (other.seq, row.seq), found)

    return candidates


class Totals:
    """The rows of a group in the window: their number, and number and exact sum of the values that are not null."""

    def __init__(self) -> None:
        self.rows = self.values = 0
        self.sum = Fraction(0)

    def count(self, value: float | int | None, sign: int) -> None:
        self.rows += sign
        if value is not None:
            self.values += sign
            self.sum += sign * Fraction(value)


def groups(
    found: Iterable[Event], k: int, group: Callable[[Values], str | None], value: Callable[[Values], float | int | None],
    score: Callable[[Totals], Fraction | int | None],
) -> Iterator[Change]:  # fmt: skip
    """Yield the changes of the first ``k`` groups by the greatest score, rounded once; a ``group`` that is null is none."""
    totals: defaultdict[str, Totals] = defaultdict(Totals)
    items: dict[str, Item] = {}
    order: list[Item] = []
    shown: dict[str, Item] = {}
    step = 0
    for event in found:
        touched = set()
        for row in event.rows:
            name = group(row.values)
            if name is not None:
                totals[name].count(value(row.values), 1 if event.kind == "arrival" else -1)
                touched.add(name)
        for name in touched:
            if name in items:
                del order[bisect_left(order, items.pop(name))]
            result = score(totals[name]) if totals[name].rows else None
            if result is not None:
                items[name] = Item((-float(result), name), (name,), float(result))
                insort(order, items[name])
        now = {i.objects[0]: i for i in order[:k]}
        gone = sorted(i for name, i in shown.items() if name not in now)
        come = [i for name, i in now.items() if name not in shown]
        step += bool(gone or come)
        out = [(i, "-", "displaced" if totals[i.objects[0]].rows else event.kind) for i in gone]
        out += [(i, "+", "arrival" if event.kind == "arrival" and i.objects[0] in touched else "promoted") for i in come]
        for pos, (item, sign, cause) in enumerate(out):
            yield Change(event.at, step, pos, sign, item.objects, item.score, cause)
        shown = now
