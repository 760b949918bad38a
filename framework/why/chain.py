"""Name the changes of a result that caused the changes of the queries that take it, down to the rows of the source."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa

from skyband.framework.base.columns import cause
from skyband.framework.base.units import format_duration
from skyband.framework.plan.model import Plan, QueryNode, StreamNode
from skyband.framework.tables.render import cell_text
from skyband.framework.tables.schemas import identity_columns
from skyband.framework.verify.differences import instant
from skyband.framework.verify.replay.replay import Stream, Trajectories, stream_of
from skyband.framework.verify.stored import Key, Stored, key_of, keys_of

MOST: Final = 3
"""The most causes of one change that are named, and the most rows of the source."""
_SIGNS: Final = {"arrival": "+", "delete": "-"}
"""The change of the taken query that a cause stands for, if it is about the item itself."""


@dataclass(frozen=True, slots=True)
class Cause:
    """A change of the result of ``query`` at ``at`` that caused another one, and ``because`` of what it came about.

    ``same``: it is about the item, or object, of the other change. ``rows``: ids of the source's rows that arrived at this instant.
    """

    query: str
    at: int
    change: str
    cause: str
    item: Mapping[str, Any]
    same: bool
    because: tuple[Cause, ...] = ()
    rows: tuple[Mapping[str, Any], ...] = ()

    def plain(self) -> dict[str, Any]:
        """Return the fields for JSON."""
        return {
            "query": self.query, "at": instant(self.at), "change": self.change, "cause": self.cause,
            "item": {n: None if v is None else _plain(v) for n, v in self.item.items()}, "same": self.same,
            "because": [c.plain() for c in self.because],
            "rows": [{n: _plain(v) for n, v in row.items()} for row in self.rows],
        }  # fmt: skip

    def lines(self, at: int, indent: str) -> Iterator[str]:
        """Yield the text for a change at ``at``."""
        who = "it" if self.same else ", ".join(f"{n} {cell_text(v)}" for n, v in self.item.items())
        did = "entered" if self.change == "+" else "left"
        if self.at == at:
            yield f"{indent}because {who} {did} {self.query} ({self.cause}) at this instant"
        else:
            yield f"{indent}{who} {did} {self.query} ({self.cause}) at {instant(self.at)}"
        for one in self.because:
            yield from one.lines(self.at, indent + "    ")
        for row in self.rows:
            yield f"{indent}    when the row arrived with {', '.join(f'{n} {cell_text(v)}' for n, v in row.items())}"


class _Changes:
    """The changes of one query, by key and instant."""

    def __init__(self, stored: Stored, query: QueryNode) -> None:
        self.plan, self.query = stored.plan, query
        self.stream: Stream = stream_of(stored, query)
        self.of_key: dict[Key, list[int]] = {}
        for key, rows in self.stream.streams():
            self.of_key.setdefault(key_of(self.plan, query, key), []).extend(rows)
        self._at = {key: [self.stream.at[i] for i in rows] for key, rows in self.of_key.items()}
        self._named: dict[tuple[str, ...], list[Key]] = {}

    def at(self, key: Key, at: int) -> list[int]:
        """Return the changes of a key at an instant, in order."""
        found = self.before(key, at)
        first = bisect_right(self._at.get(key, []), at - 1)
        return found[first:]

    def before(self, key: Key, at: int) -> list[int]:
        """Return the changes of a key up to an instant, in order."""
        return self.of_key.get(key, [])[: bisect_right(self._at.get(key, []), at)]

    def named(self, columns: tuple[str, ...]) -> list[Key]:
        """Return the values of columns in every change."""
        if columns not in self._named:
            self._named[columns] = keys_of(self.stream.rows, columns)
        return self._named[columns]

    def item(self, i: int) -> dict[str, Any]:
        """Return the columns that name the item of a change: ids of its rows, or the columns of its object."""
        columns = self.query.item.columns(self.plan.intake.id, (), self.plan.intake.partition_by)
        return {c.name: self.stream.rows[c.name][i].as_py() for c in columns if c.what in ("id", "object")}


class Chain:
    """The causes of changes of queries over results. ``source``: rows of the source, None if they cannot be read."""

    def __init__(self, stored: Stored, source: pa.Table | None) -> None:
        self.job_plan: Plan = stored.job_plan
        self._stored, self._source = stored, source
        self._changes: dict[str, _Changes] = {}
        self._arrivals: dict[tuple[Key, int], list[int]] | None = None
        self._points: dict[str, set[tuple[Any, ...]]] = {}

    def node(self, query: str) -> StreamNode | None:
        """Return the stream that a query takes; None for the source's rows."""
        return next((s for s in self.job_plan.streams if any(q.name == query for q in s.plan.queries)), None)

    def causes(self, query: str, i: int) -> tuple[Cause, ...]:
        """Return what caused row ``i`` of the changes of ``query``, in the result that it takes. O(changes of the key)."""
        node, mine = self.node(query), self._of(query)
        if node is None:
            return ()
        taken, at = self._of(node.of), mine.stream.at[i]
        key = key_of(mine.plan, mine.query, mine.stream.keys[i])
        same = self._same(node, mine, taken, i, taken.before(key, at))
        if mine.query.item.moves or mine.query.every_micros:
            chosen = same[-1:]
        else:
            here = taken.at(key, at)
            sign = _SIGNS.get(mine.stream.cause[i]) if mine.query.item.rows else None
            chosen = [j for j in same if taken.stream.at[j] == at and sign in (None, taken.stream.change[j])]
            others = not chosen and sign is None and mine.stream.cause[i] != "expiry"
            chosen = (here if others else chosen)[-MOST:]
        about = set(same)
        return tuple(self._cause(node.of, taken, key, j, j in about) for j in chosen)

    def replaced(self, query: str, i: int) -> str | None:
        """Return in words why the row of an item came or went at row ``i`` of the changes although the item stayed; None otherwise."""
        node, mine = self.node(query), self._of(query)
        if node is None or not mine.query.item.rows or mine.stream.cause[i] not in ("arrival", "delete", "expiry") or self.causes(query, i):
            return None
        if self._has_point(node, mine, i):
            return f"its score in {node.of} changed at this instant"
        return None if node.renewed is None else f"its row was entered again: it has been in {node.of} for {format_duration(node.renewed)}"

    def _has_point(self, node: StreamNode, mine: _Changes, i: int) -> bool:
        """Return True if the value of the item, or of one of its parts, changed in the taken result at the instant of row ``i``."""
        of = self._of(node.of)
        if not of.query.item.varies or of.query.item.moves:
            return False
        if node.of not in self._points:
            lines = Trajectories(of.stream.stored, of.query)
            self._points[node.of] = {(*name, p.at) for name, line in lines.points.items() for p in line}
        key = key_of(mine.plan, mine.query, mine.stream.keys[i])
        columns = identity_columns(of.plan, of.query)
        items = [tuple(mine.stream.rows[part.prefix + c][i].as_py() for c in columns) for part in mine.query.item.parts]
        return any((key, item, mine.stream.at[i]) in self._points[node.of] for item in items)

    def _cause(self, query: str, of: _Changes, key: Key, i: int, same: bool) -> Cause:
        rows = () if self.node(query) is not None else tuple(self._arrived(key, of.stream.at[i]))
        stream = of.stream
        return Cause(query, stream.at[i], stream.change[i], stream.cause[i], of.item(i), same, self.causes(query, i), rows)

    def _of(self, query: str) -> _Changes:
        if query not in self._changes:
            part = self._stored.part(self.job_plan.of(query))
            self._changes[query] = _Changes(part, next(q for q in part.plan.queries if q.name == query))
        return self._changes[query]

    def _same(self, node: StreamNode, mine: _Changes, taken: _Changes, i: int, rows: Sequence[int]) -> list[int]:
        """Return which of ``rows``, changes of the taken query, are about the item of row ``i``, or about one of its parts."""
        origin = {new: old for old, new in node.columns} | {cause(node.of): "cause"}
        found = set()
        for part in mine.query.item.parts:
            columns = mine.plan.intake.id if part.is_row else part.columns
            keys = mine.plan.intake.partition_by
            names = tuple(c for c in columns if part.prefix + c in mine.stream.rows.column_names and c not in keys)
            olds = tuple(origin.get(c, c) for c in names)
            if any(old not in taken.stream.rows.column_names for old in olds):
                continue
            value = tuple(mine.stream.rows[part.prefix + c][i].as_py() for c in names)
            named = taken.named(olds)
            found |= {j for j in rows if named[j] == value}
        return [j for j in rows if j in found]

    def _arrived(self, key: Key, at: int) -> Iterator[Mapping[str, Any]]:
        """Yield the ids of the first rows of the source that arrived at an instant."""
        if self._source is None:
            return
        intake = self.job_plan.intake
        if self._arrivals is None:
            self._arrivals = {}
            times = self._source[intake.event_time].cast(pa.int64()).to_pylist()
            for i, name in enumerate(zip(keys_of(self._source, intake.partition_by), times, strict=True)):
                self._arrivals.setdefault(name, []).append(i)
        for i in self._arrivals.get((key, at), [])[:MOST]:
            yield {c: self._source[c][i].as_py() for c in intake.id}


def _plain(value: Any) -> str:
    """Return a value as text for programs: as for people, but numbers without separators."""
    text = cell_text(value)
    return text.replace(",", "") if isinstance(value, float | Decimal) else text
