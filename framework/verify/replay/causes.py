"""Check that the cause of a change is possible (docs/semantics 3), given the positions and instants of the known objects.

The tables hold some of a key's objects, its source holds all of them. A change is only reported if the known objects rule out its cause.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

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
    for place, change in enumerate(step.changes):
        why = _wrong(step, change, rules, clock, least, most)
        if why is not None:
            found.append((place, f"cause {change.cause}: {why}"))
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
    life = min(change.times) + (rules.window.micros or FAR)
    if life <= step.at and (change.enters or (life < step.at and not rules.every)):
        return "one of its objects was no longer in the window"
    if rules.time_varying or (rules.every and change.enters):
        return None
    return _arrival(step, change, rules, clock, least) if change.enters else _departure(step, change, rules, clock, least, most)


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
    gone: Collection[int] | None = None if clock.deleted is None else [s for s in change.seqs if clock.deleted.get(s, FAR) <= step.at]
    if change.cause == "delete":
        return "none of its objects was deleted" if gone is not None and not gone else None
    if gone and any((clock.deleted or {}).get(s, FAR) < step.at for s in gone):
        return "one of its objects was deleted"
    count, life = rules.window.count or FAR, rules.window.micros or FAR
    timed_out = min(change.times) + life <= step.at
    if change.cause == "expiry":
        return None if timed_out or min(change.seqs) <= most - count else "all its objects are in the window"
    if not rules.every and not rules.capped:  # an object has arrived that displaces it
        least = max(least, clock.newest(step.at, False)[0] + 1)
        if least > most:
            return "no object arrived at this instant"
    return "one of its objects is no longer in the window" if timed_out or min(change.seqs) <= least - count else None
