"""Find the rows that cause a difference: changed rows of its key that may be in the window."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Final

import pyarrow as pa

from skyband.framework.base.types import STAMP
from skyband.framework.plan.model import Plan, QueryNode
from skyband.framework.spec_tests.tables import plain_value
from skyband.framework.verify.stored import Key, keys_of, window_for
from skyband.framework.whatif.compare import Difference, same_values
from skyband.framework.whatif.rows import ACCEPTED, Fates, Judged

MOST: Final = 20
"""The most rows that are listed for one difference."""


@dataclass(frozen=True, slots=True)
class ChangedRow:
    """A row that only one of the runs accepts: its id, event time in microseconds, values by column (``plain_value``), and both fates."""

    id: Mapping[str, Any]
    at: int
    values: Mapping[str, Any]
    was: str
    would_be: str


@dataclass(frozen=True, slots=True)
class Because:
    """The rows of a difference, the newest ``MOST`` of ``total``. ``own``: they make up the item; else they are others of its key.

    Without any row the edited spec is the cause.
    """

    rows: Sequence[ChangedRow]
    total: int
    own: bool


class Causes:
    """The changed rows by key, in the order of their times."""

    def __init__(self, plan: Plan, judged: Judged, fates: Fates) -> None:
        self.plan = plan
        self._types = {f.name: judged.as_is.rows.schema.field(f.name).type for f in plan.intake.fields}
        objects = (c for q in plan.queries for part in q.item.parts for c in part.columns)
        names = list(dict.fromkeys([*plan.intake.partition_by, *plan.intake.id, *objects]))
        self._of: dict[Key, list[ChangedRow]] = defaultdict(list)
        for row in sorted(_changed(plan, names, judged, fates), key=lambda r: r.at):
            self._of[tuple(row.values[c] for c in plan.intake.partition_by)].append(row)
        self._times = {key: [r.at for r in rows] for key, rows in self._of.items()}
        self._indexes: dict[tuple[str, ...], dict[tuple[Any, ...], list[ChangedRow]]] = {}

    def of(self, query: QueryNode, other: QueryNode, found: Sequence[Difference]) -> list[Because]:
        """Return the rows that cause each difference of a stream, in the order of ``found``. ``other``: the query of the edited spec.

        They are the rows that make up the item; else those that make up the items which enter or leave in its place; else all that may
        be in the window as the difference begins. O(differences, times those at one instant).
        """
        made: dict[int, Because] = {}
        active: list[tuple[Difference, list[ChangedRow]]] = []
        order = sorted(range(len(found)), key=lambda i: found[i].since)
        for since, group in groupby(order, key=lambda i: found[i].since):
            mine = {i: self._own(query, found[i], self._alive(query, other, found[i])) for i in group}
            active = [(d, rows) for d, rows in active if d.until is None or d.until > since]
            active += [(found[i], rows) for i, rows in mine.items() if rows]
            beside = {id(r): r for _, rows in active for r in rows}
            for i, rows in mine.items():
                if rows:
                    made[i] = _because(rows, len(rows), True)
                    continue
                every, first, end = self._alive(query, other, found[i])
                near = [r for r in sorted(beside.values(), key=lambda r: r.at) if first < end and every[first].at <= r.at]
                made[i] = _because(near, len(near), False) if near else _because(every[max(first, end - MOST) : end], end - first, False)
        return [made[i] for i in range(len(found))]

    def _alive(self, query: QueryNode, other: QueryNode, d: Difference) -> tuple[list[ChangedRow], int, int]:
        """Return the changed rows of the key, and which of them the window may hold as the difference begins: first and end."""
        key = self._key(d.key)
        times = self._times.get(key)
        if times is None:
            return [], 0, 0
        spans = [window_for(q, d.key).micros or 0 for q in (query, other)]
        first = 0
        if min(spans) and not query.item.closes and not other.item.closes:
            # Results with ``every`` are as of the last boundary.
            first = bisect_right(times, d.since - max(spans) - max(query.every_micros or 0, other.every_micros or 0))
        return self._of[key], first, bisect_right(times, d.since)

    def _own(self, query: QueryNode, d: Difference, alive: tuple[list[ChangedRow], int, int]) -> list[ChangedRow]:
        """Return the rows among ``alive`` that make up an item that enters, leaves or has other values; a rank is due to other items."""
        rows, first, end = alive
        ranked = d.before is not None and d.after is not None and same_values(d.before, d.after, d.since)
        if ranked or first >= end:
            return []
        found: dict[int, ChangedRow] = {}
        for names, values, at in self._parts(query, d):
            mine = self._index(names).get((*self._key(d.key), *values), [])
            found |= {id(r): r for r in mine if rows[first].at <= r.at <= d.since and at in (None, r.at)}
        return sorted(found.values(), key=lambda r: r.at)

    def _parts(self, query: QueryNode, d: Difference) -> Iterator[tuple[tuple[str, ...], tuple[Any, ...], int | None]]:
        """Yield of each part of an item the columns that name its rows, their values, and the event time of a part that is one row."""
        ids, keys = self.plan.intake.id, self.plan.intake.partition_by
        items = [c for c in query.item.columns(ids, (), keys) if c.what in ("id", "time", "object")]
        named = list(zip(items, d.name, strict=True))
        for n in range(len(query.item.parts)):
            mine = {c.source: plain_value(v, self._types[c.source]) for c, v in named if c.part == n and c.what != "time"}
            times = [plain_value(v, STAMP) for c, v in named if c.part == n and c.what == "time"]
            yield tuple(mine), tuple(mine.values()), times[0] if times else None

    def _index(self, names: tuple[str, ...]) -> Mapping[tuple[Any, ...], list[ChangedRow]]:
        """Return the changed rows by key and the values of ``names``."""
        if names not in self._indexes:
            made: dict[tuple[Any, ...], list[ChangedRow]] = defaultdict(list)
            for key, rows in self._of.items():
                for row in rows:
                    made[(*key, *(row.values[c] for c in names))].append(row)
            self._indexes[names] = dict(made)
        return self._indexes[names]

    def _key(self, stream: Key) -> Key:
        names = self.plan.intake.partition_by
        values = stream[len(stream) - len(names) :]
        return tuple(plain_value(v, self._types[c]) for c, v in zip(names, values, strict=True))


def _because(rows: Sequence[ChangedRow], total: int, own: bool) -> Because:
    return Because(rows[-MOST:], total, own)


def _changed(plan: Plan, names: list[str], judged: Judged, fates: Fates) -> Iterator[ChangedRow]:
    """Yield the changed rows with the columns ``names``, each as the run has it that accepts it."""
    numbers = fates.changed
    for accepted, rows in ((fates.was, judged.as_is.rows), (fates.would_be, judged.changed.rows)):
        mine = [i for i in numbers if accepted[i] is None]
        taken = rows.take(pa.array(mine, pa.int64()))
        types = [taken.schema.field(n).type for n in names]
        times = taken[plan.intake.event_time].cast(pa.int64()).to_pylist()
        for i, at, values in zip(mine, times, keys_of(taken, names), strict=True):
            plain = {n: plain_value(v, t) for n, v, t in zip(names, values, types, strict=True)}
            native = dict(zip(names, values, strict=True))
            yield ChangedRow({c: native[c] for c in plan.intake.id}, at, plain, fates.was[i] or ACCEPTED, fates.would_be[i] or ACCEPTED)
