"""The figures of one micro-batch, and the totals that a job carries from batch to batch."""

from __future__ import annotations

import json
from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from skyband.framework.base.errors import SkybandError
from skyband.framework.base.messages import (
    ACCEPTED,
    BEHIND,
    CHANGED,
    DEFERRED,
    FLUSH,
    FRONTIER,
    NEWEST,
    PENDING,
    ROWS_IN,
    TIMES,
    Tally,
    behind,
    time_count,
)
from skyband.framework.base.plain_json import mapping
from skyband.framework.base.reasons import FILTERED, REASONS
from skyband.framework.streaming.bucket.bucket_states import NO_STATES, NewStates, States, states_of, text_of
from skyband.framework.streaming.job.jumps import Jump

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(slots=True)
class Batch:
    """What one micro-batch did: the figures of its ``runs`` row; ``newest`` and ``frontier`` in microseconds.

    ``reasons`` counts rejected rows by the reason in table ``rejected``; ``changes`` counts changes by query, if there are any. ``jump``:
    the jump of the watermark to warn about. ``began``: Unix time. ``stages``: seconds by stage, in their order: ``tasks`` (the engine runs
    its tasks), ``check`` (the driver checks what they send), ``write`` (the tables), ``send`` (Kafka, if the spec has it). ``states``:
    where the states of buckets are after it. ``state_bytes``: returns the bytes of their files by place.
    """

    number: int
    counts: Tally = field(default_factory=Tally)
    seconds: float = 0.0
    pending: int = 0
    newest: int | None = None
    frontier: int | None = None
    reasons: Mapping[str, int] = field(default_factory=dict)
    changes: Mapping[str, int] = field(default_factory=dict)
    jump: Jump | None = None
    began: float = 0.0
    stages: dict[str, float] = field(default_factory=dict)
    states: States | None = None
    state_bytes: Callable[[], Mapping[str, int]] = dict

    def get(self, name: str) -> int:
        """Return a count, 0 if nothing was counted under that name."""
        return self.counts[name]

    def rejected(self) -> dict[str, int]:
        """Return the number of rejected rows by class of reason: the classes that ``runs`` has columns for."""
        return {c.name: sum(self.counts[n] for n in c.counts) for c in REASONS}

    def runs_row(self, seconds: float, drift: list[str]) -> dict[str, Any]:
        """Return the batch's row of table ``runs``. ``seconds``: what Spark took for its tasks."""
        counts, rejected = self.counts, self.rejected()
        row: dict[str, Any] = {
            "batch_id": self.number, "batch_time": datetime.now(UTC), "rows_in": counts[ROWS_IN], "filtered": counts[FILTERED],
            "rejected": sum(rejected.values()), "accepted": counts[ACCEPTED], "pending": self.pending,
            "pending_change": counts[PENDING], "changes": counts[CHANGED],
            "frontier": _instant(self.frontier), "newest": _instant(self.newest),
            "unusable": json.dumps(counts.unusable(), sort_keys=True), "warned": json.dumps(counts.warned(), sort_keys=True),
            "drift": json.dumps(drift), "state": None if self.states is None else text_of(self.states),
            "counters": json.dumps(counts.counters(), sort_keys=True), "engine_ms": 1000 * seconds,
        }  # fmt: skip
        row |= {f"rejected_{name}": n for name, n in rejected.items()}
        return row | {f"{name}_ms": counts[time_count(name)] / 1000 for name in TIMES}


Report = Callable[[Batch], None]


class Total(NamedTuple):
    """The totals after a batch; ``newest`` and ``frontier`` in microseconds."""

    pending: int = 0
    newest: int | None = None
    frontier: int | None = None
    behind: int = 0
    """The batches by which ``heads`` and skybands are behind."""
    states: States | None = None
    """Where the states of buckets are; None if an earlier version kept them in Spark's checkpoint."""


class Totals:
    """The rows pending, the newest event time and the frontier after each of the last batches.

    ``last_runs``: rows of table ``runs``. Two are enough: the last batch is repeated if it was not marked done. ``numbers``: of the buckets
    and shards that there are; None: of all that rows name. States of others are forgotten. ``new``: see ``bucket_states.states_of``.
    """

    def __init__(self, last_runs: list[dict[str, Any]], numbers: Container[int] | None = None, new: NewStates | None = None) -> None:
        self._after = {int(row["batch_id"]): _total(row, numbers, new) for row in last_runs}
        self.last_batch = int(last_runs[-1]["batch_id"]) if last_runs else -1
        self.newest = self._after[self.last_batch].newest if last_runs else None

    def add(self, batch: Batch) -> None:
        """Set the totals of ``batch`` from those of the batch before: a repeated batch gets the same figures."""
        pending, newest, frontier, lag, states = self.before(batch.number)
        pending += batch.counts[PENDING]
        if NEWEST in batch.counts:
            newest = max(newest or batch.counts[NEWEST], batch.counts[NEWEST])
        if FRONTIER in batch.counts:
            frontier = max(frontier or batch.counts[FRONTIER], batch.counts[FRONTIER])
        lag = 0 if FLUSH in batch.counts or not (lag or DEFERRED in batch.counts) else lag + 1
        if lag:
            batch.counts[BEHIND] = lag
        self.newest = newest
        batch.pending, batch.newest, batch.frontier = pending, newest, frontier
        if batch.states is not None:
            batch.states = {**(states or NO_STATES), **batch.states}
        self._after[batch.number] = Total(pending, newest, frontier, lag, batch.states)
        self._after = {b: t for b, t in self._after.items() if b >= batch.number - 2}

    def before(self, batch_id: int) -> Total:
        """Return the totals after the batch before ``batch_id``."""
        earlier = [b for b in self._after if b < batch_id]
        return self._after[max(earlier)] if earlier else Total()

    @property
    def behind(self) -> int:
        """Return the number of batches by which ``heads`` and skybands are behind the last committed one."""
        return self._after.get(self.last_batch, Total()).behind

    def committed(self, batch_id: int) -> None:
        """Note that the tables have the rows of ``batch_id``."""
        self.last_batch = max(self.last_batch, batch_id)


def _total(row: Mapping[str, Any], numbers: Container[int] | None, new: NewStates | None) -> Total:
    """Return the totals of a row of ``runs``. Raises SkybandError SKY-E304 for counters that Skyband has not written."""
    try:
        mapping(row["counters"])
    except ValueError as e:
        said = f"table runs has counters of batch {row['batch_id']} that Skyband has not written"
        raise SkybandError("SKY-E304", said, hint="restore the table from a backup, or to its version before that") from e
    lag = behind(row["counters"])
    states = states_of(row, new)
    if states is not None and numbers is not None:
        states = {number: state for number, state in states.items() if number in numbers}
    return Total(int(row["pending"]), _micros(row["newest"]), _micros(row["frontier"]), lag, states)


def _instant(micros: int | None) -> datetime | None:
    return None if micros is None else EPOCH + timedelta(microseconds=micros)


def _micros(instant: datetime | None) -> int | None:
    return None if instant is None else (instant - EPOCH) // timedelta(microseconds=1)
