"""Collect seq and instant of every object from the change streams: they must agree, and instants never decrease."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

from skyband.framework.plan.model import Plan, QueryNode
from skyband.framework.tables.schemas import changes_name, stream_columns
from skyband.framework.verify.differences import Difference, place
from skyband.framework.verify.replay.causes import Clock
from skyband.framework.verify.stored import Key, Stored, exact, key_of, keys_of, micros

Parts = tuple[list[tuple[int, ...]], list[tuple[int, ...]]]


class Clocks:
    """The known objects of every key, from all change streams. ``differences``: where the streams disagree."""

    def __init__(self, stored: Stored) -> None:
        self.stored = stored
        self.plan: Plan = stored.plan
        self.differences: list[Difference] = []
        self._parts: dict[str, Parts] = {}
        self._known: dict[Key, dict[int, tuple[tuple[object, ...], str]]] = {}
        for query in self.plan.queries:
            self._add(query)
        self._clocks: dict[Key, Clock] = {}
        self._parts_of_job: dict[str, Clocks] = {}

    def part(self, stored: Stored) -> Clocks:
        """Return the known objects of another plan of the job, whose queries have rows of their own; these of its own plan."""
        name = stored.plan.queries[0].name
        if name == self.plan.queries[0].name:
            return self
        if name not in self._parts_of_job:
            self._parts_of_job[name] = Clocks(stored)
        return self._parts_of_job[name]

    def of(self, key: Key) -> Clock:
        """Return the known objects of ``key``."""
        if key not in self._clocks:
            self._clocks[key] = self._of(key)
        return self._clocks[key]

    def complete(self, key: Key, times: Sequence[int], deleted: Mapping[int, int]) -> None:
        """Set all objects of ``key``, as its source gives them."""
        self._clocks[key] = Clock(range(len(times)), times, deleted, frozenset(deleted.values()))

    def parts(self, query: str) -> Parts:
        """Return, for every row of changes that ``replay`` reads, seqs and instants of the item's rows."""
        return self._parts[query]

    def known(self) -> Iterable[Key]:
        """Return the keys that have changes."""
        return self._known

    def _add(self, query: QueryNode) -> None:
        upto = self.stored.changes_upto(query)
        rows = self.stored.changes(query, upto)
        prefixes = [p.prefix for p in query.item.rows]
        seqs = [rows[p + "seq"].to_pylist() for p in prefixes]
        times = [micros(rows, p + "time") for p in prefixes]
        n = rows.num_rows
        by_row: list[Any] = [list(zip(*c, strict=True)) if c else [()] * n for c in (seqs, times)]
        self._parts[query.name] = (by_row[0], by_row[1])
        keys = [key_of(self.plan, query, k) for k in keys_of(rows, stream_columns(self.plan, query))]
        for prefix, seq, time in zip(prefixes, seqs, times, strict=True):
            ids = [prefix + c for c in self.plan.intake.id if prefix + c in rows.column_names]
            for key, s, t, named in zip(keys, seq, time, exact(rows, ids) if ids else [()] * n, strict=True):
                first = self._known.setdefault(key, {}).setdefault(s, ((t, len(named), *named), query.name))
                if first[0][0] != t or (first[0][1] == len(named) and first[0][2:] != named):
                    where = place(f"table {changes_name(query.name)}", self.plan.intake.partition_by, key, t)
                    said = f"the object with seq {s:,} of its key has another id or instant in {changes_name(first[1])}"
                    self.differences.append(Difference(where, said, at=t))

    def _of(self, key: Key) -> Clock:
        known = sorted((s, found[0][0]) for s, found in self._known.get(key, {}).items())
        for (s, t), (s2, t2) in pairwise(known):
            if t2 < t:  # type: ignore[operator]
                where = place("tables of changes", self.plan.intake.partition_by, key)
                self.differences.append(Difference(where, f"the object with seq {s2:,} has an earlier instant than the one with seq {s:,}"))
                return Clock([], [])
        return Clock([s for s, _ in known], [t for _, t in known])  # type: ignore[misc]
