"""Find when an item was in the result, and at which ranks, by replaying the table of changes step by step."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import pyarrow as pa

from skyband.framework.plan.model import Plan, QueryNode
from skyband.framework.spec_tests.tables import plain_value
from skyband.framework.verify.replay.replay import Stream
from skyband.framework.verify.stored import Key
from skyband.framework.why.item import Item


@dataclass(slots=True)
class Stay:
    """A stay in the result, from row ``enters`` of the changes to row ``leaves`` (None: it is still in).

    ``first``, ``best`` and ``last``: the rank at which it entered, the best one, and the last one; None for time-varying values.
    ``instead``: the rows of the changes that entered at the step at which it left.
    """

    stream: Key
    enters: int
    leaves: int | None = None
    first: int | None = None
    best: int | None = None
    last: int | None = None
    instead: tuple[int, ...] = ()


def matching(plan: Plan, query: QueryNode, rows: pa.Table, item: Item) -> list[bool]:
    """Return which rows of a table of the query are about ``item``. O(rows)."""
    parts = [_part(plan, query, rows, p.prefix, item) for p in query.item.parts]
    found = []
    for of_row in zip(*parts, strict=True) if parts else ():
        # Each name must belong to a different part, in any order.
        found.append(_all_named(of_row, len(item.names)))
    return found


def _part(plan: Plan, query: QueryNode, rows: pa.Table, prefix: str, item: Item) -> list[set[int]]:
    """Return for every row the indexes of the names that its part with ``prefix`` has."""
    keys = plan.intake.partition_by
    values: dict[str, list[Any]] = {}
    for column in item.names[0]:
        name = prefix + column if prefix + column in rows.column_names else column
        assert name in rows.column_names or column in keys
        type_ = rows.schema.field(name).type
        values[column] = [plain_value(v, type_) for v in rows[name].to_pylist()]
    names = [tuple(name.values()) for name in item.names]
    return [{n for n, w in enumerate(names) if w == mine} for mine in zip(*values.values(), strict=True)]


def _all_named(of_row: Sequence[set[int]], names: int) -> bool:
    if names == 1:
        return any(of_row)
    return (0 in of_row[0] and 1 in of_row[1]) or (1 in of_row[0] and 0 in of_row[1])


def stays(plan: Plan, stream: Stream, item: Item) -> list[Stay]:
    """Return every stay of ``item`` (of all its pairs), in the order of time. O(changes * log of the result)."""
    mine = matching(plan, stream.query, stream.rows, item)
    found = [s for key, rows in stream.streams() if any(mine[i] for i in rows) for s in _of_stream(stream, key, rows, mine)]
    return sorted(found, key=lambda s: (stream.at[s.enters], stream.step[s.enters], s.enters))


def _of_stream(stream: Stream, key: Key, rows: Sequence[int], mine: Sequence[bool]) -> Iterator[Stay]:
    ranked = not stream.query.item.varies and stream.query.item.lasting
    inside: list[Any] = []
    members: dict[Any, Any] = {}
    open_: dict[Any, Stay] = {}
    for _, group in groupby(rows, key=lambda i: stream.step[i]):
        step = list(group)
        for i in step:
            name = stream.items[i]
            if stream.change[i] == "-":
                if ranked:
                    del inside[bisect_left(inside, members.pop(name))]
                stay = open_.pop(name, None)
                if stay is not None:
                    stay.leaves = i
                    stay.instead = tuple(j for j in step if stream.change[j] == "+")
                continue
            if ranked:
                members[name] = stream.ranks[i]
                insort(inside, stream.ranks[i])
            if mine[i]:
                stay = Stay(key, i)
                yield stay
                if stream.query.item.lasting:
                    open_[name] = stay
        for name, stay in open_.items() if ranked else ():
            rank = bisect_left(inside, members[name]) + 1
            stay.first = stay.first or rank
            stay.best, stay.last = min(stay.best or rank, rank), rank
