"""Check that the cause of a change is possible (docs/semantics 3), given the positions and instants of the known objects.

The tables hold some of a key's objects, its source holds all of them. A change is only reported if the known objects rule out its cause.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from skyband.framework.plan.model import Plan, QueryNode
from skyband.framework.tables.schemas import changes_name, stream_columns
from skyband.framework.verify.brute_force.calendars import window_around
from skyband.framework.verify.differences import Difference, place
from skyband.framework.verify.stored import Key, Stored, exact, key_of, keys_of, micros
from skyband.operators.base import CAUSES, Window

FAR = 2**62
ENTERS, LEAVES = frozenset({"arrival", "promoted", "boundary", "crossing"}), frozenset({"expiry", "delete", "displaced", "crossing"})
assert frozenset(CAUSES) == ENTERS | LEAVES


@dataclass(frozen=True, slots=True)
class Clock:
    """The known objects of a key in order: ``seq`` and ``time``.

    ``deleted``: seq -> instant of its deletion, None if that is not known. ``deleting``: the instants of deletions.
    """

    seq: Sequence[int]
    time: Sequence[int]
    deleted: Mapping[int, int] | None = None
    deleting: frozenset[int] = frozenset()

    def newest(self, at: int, after: bool) -> tuple[int, int]:
        """Return the (least, largest) seq of the newest object before (``after``: after) all rows of instant ``at``."""
        i = (bisect_right if after else bisect_left)(self.time, at)
        return (self.seq[i - 1] if i else -1), (self.seq[i] - 1 if i < len(self.seq) else FAR)


@dataclass(frozen=True, slots=True)
class Rules:
    """The properties of a query that limit which causes are possible.

    ``deletes``: rows can be deleted. ``time_varying``: values change with time alone. ``capped``: a row may only be in so many items of a
    result, so an item that is promoted keeps others out.
    """

    window: Window
    every: bool
    deletes: bool
    time_varying: bool
    capped: bool = False


@dataclass(frozen=True, slots=True)
class Change:
    """A row of a change stream, with ``seqs`` and ``times`` of the item's rows (empty for items that are not rows)."""

    enters: bool
    cause: str
    seqs: tuple[int, ...]
    times: tuple[int, ...]


@dataclass(slots=True)
class Step:
    """The changes of one step, at one instant."""

    at: int
    changes: list[Change] = field(default_factory=list)


def impossible(step: Step, rules: Rules, clock: Clock) -> list[tuple[int, str]]:
    """Return (position in the step, reason) of every change whose cause is impossible."""
    least, most = _newest(step, rules, clock)
    found = []
    for index, change in enumerate(step.changes):
        why = _wrong(step, change, rules, clock, least, most)
        if why is not None:
            found.append((index, f"cause {change.cause}: {why}"))
    return found


def _newest(step: Step, rules: Rules, clock: Clock) -> tuple[int, int]:
    """Return the (least, largest) seq of the key's newest object at the step's event."""
    seqs = [max(c.seqs) for c in step.changes if c.seqs]
    least, most = clock.newest(step.at, True)
    if not rules.every:
        least = clock.newest(step.at, False)[0]
        arrived = [max(c.seqs) for c in step.changes if c.seqs and c.cause == "arrival"]
        if arrived:
            return max(arrived), max(arrived)
    return max([least, *seqs]), most


def _wrong(step: Step, change: Change, rules: Rules, clock: Clock, least: int, most: int) -> str | None:
    if change.cause not in (ENTERS if change.enters else LEAVES):
        return f"not a cause of an item that {'enters' if change.enters else 'leaves'}"
    if change.enters and (change.cause == "boundary") != rules.every:
        return f"not a cause in a query {'with' if rules.every else 'without'} 'every'"
    if change.cause == "crossing" and not rules.time_varying:
        return "no value of this query changes with time alone"
    if change.cause == "delete" and not rules.deletes:
        return "the job has no deletions"
    if not change.seqs:
        return None
    life = _life(change, rules)
    if life <= step.at and (change.enters or (life < step.at and not rules.every)):
        return "one of its objects was no longer in the window"
    if rules.time_varying or (rules.every and change.enters):
        return None
    return _arrival(step, change, rules, clock, least) if change.enters else _departure(step, change, rules, clock, least, most)


def _life(change: Change, rules: Rules) -> int:
    """Return the instant at which an item leaves at the latest, with the oldest of its rows. Where sessions end only the source knows."""
    oldest, window = min(change.times), rules.window
    end = FAR if window.tumbling is None else window_around(window.tumbling, oldest)[1]
    return min(end, oldest + (window.micros or FAR) + window.hopping)


def _silent(rules: Rules, clock: Clock, at: int) -> bool:
    """Return True if a session may end at an instant: no row is known to have come for so long."""
    if rules.window.session is None:
        return False
    before = bisect_left(clock.time, at)
    return before == 0 or clock.time[before - 1] + rules.window.session <= at


def _arrival(step: Step, change: Change, rules: Rules, clock: Clock, newest: int) -> str | None:
    if change.cause == "arrival":
        if max(change.times) != step.at:
            return "none of its objects arrived at this instant"
        return "another object arrived at this step" if max(change.seqs) < newest else None
    before, least, most = clock.newest(step.at, False)[0], *clock.newest(step.at, True)
    no_deletion = not rules.deletes or (clock.deleted is not None and step.at not in clock.deleting)
    alone = before + 1 == least == most and no_deletion
    return "its object arrived at this step" if alone and max(change.seqs) == most else None


def _departure(step: Step, change: Change, rules: Rules, clock: Clock, least: int, most: int) -> str | None:
    ended: Collection[int] | None = None if clock.deleted is None else [s for s in change.seqs if clock.deleted.get(s, FAR) <= step.at]
    if change.cause == "delete":
        return "none of its objects was deleted" if ended is not None and not ended else None
    if ended and any((clock.deleted or {}).get(s, FAR) < step.at for s in ended):
        return "one of its objects was deleted"
    count = rules.window.count or FAR
    timed_out = _life(change, rules) <= step.at
    if change.cause == "expiry":
        return (
            None if timed_out or _silent(rules, clock, step.at) or min(change.seqs) <= most - count else "all its objects are in the window"
        )
    if not rules.every and not rules.capped:  # an object has arrived that displaces it
        least = max(least, clock.newest(step.at, False)[0] + 1)
        if least > most:
            return "no object arrived at this instant"
    return "one of its objects is no longer in the window" if timed_out or min(change.seqs) <= least - count else None


# Collect seq and instant of every object from the change streams: they must agree, and instants never decrease.

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
