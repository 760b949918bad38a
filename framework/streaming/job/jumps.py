"""Jumps of event times within a batch: the error of ``event_time.max_jump``, and the jump that a run warns about."""

from __future__ import annotations

from typing import NamedTuple

from skyband.framework.base.errors import SkybandError
from skyband.framework.base.units import format_duration, format_instant, format_span
from skyband.framework.plan.model import Plan
from skyband.framework.streaming.rows.instants.stretches import Stretches


class Jump(NamedTuple):
    """Two consecutive instants, in microseconds, without a row in between."""

    before: int
    after: int

    @property
    def micros(self) -> int:
        """Return its length."""
        return self.after - self.before


def stopped_by_jump(plan: Plan, batch: int, found: Stretches, frontier: int | None) -> SkybandError | None:
    """Return SKY-E506 if the newest rows of a batch stand apart from its others by more than ``max_jump``; rows that are late do not count.

    ``frontier``: F before the batch, in microseconds.
    """
    most = plan.intake.jump_micros
    if most is None:
        return None
    jumps = [j for j in _jumps(found, None, frontier) if j.micros > most]
    if not jumps:
        return None
    jump = jumps[-1]
    last = int(found.last[-1])
    newest = f"at {format_instant(jump.after)}" if last == jump.after else f"from {format_instant(jump.after)} to {format_instant(last)}"
    said = (
        f"the newest rows of batch {batch} are {newest}, {format_span(jump.micros)} after all its others, the last of which is at "
        f"{format_instant(jump.before)}; source.event_time.max_jump allows {format_duration(most)}"
    )
    hint = "nothing of the batch is written. Fix or remove these rows and run again; if they are right, raise max_jump or leave it out"
    return SkybandError("SKY-E506", said, hint=hint)


def longest_jump(plan: Plan, found: Stretches, newest: int | None) -> Jump | None:
    """Return the longest stretch of time without a row that the watermark has passed in a batch, if it is longer than the job's window.

    ``newest``: the latest event time before the batch, in microseconds. Rows before it move no watermark.
    """
    window = plan.window.micros
    if window is None:
        return None
    jumps = [j for j in _jumps(found, newest, newest) if j.micros > window]
    return max(jumps, key=lambda j: j.micros, default=None)


def _jumps(found: Stretches, start: int | None, since: int | None) -> list[Jump]:
    """Return the jumps from ``start`` (None: from the first stretch) on, ascending, among the instants that are not before ``since``."""
    edges = [] if start is None else [start]
    jumps = []
    for first, last in zip(found.first.tolist(), found.last.tolist(), strict=True):
        if since is not None and last < since:
            continue
        if edges and first > edges[-1]:
            jumps.append(Jump(edges[-1], first))
        edges.append(last)
    return jumps
