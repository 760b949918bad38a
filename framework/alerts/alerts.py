"""The alerts of a run: a sender each, from the start of the run to its end."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from skyband.framework.alerts.bodies import MOST_MESSAGES, bodies
from skyband.framework.alerts.channels import Channel
from skyband.framework.alerts.messages import AlertMessages, Identity, Message, envelope, latest, record, shape_of
from skyband.framework.alerts.positions import Position, Positions
from skyband.framework.alerts.sender import Deliver, Sender, in_one_line
from skyband.framework.base.errors import SkybandError
from skyband.framework.console.receivers import JSON_HEADERS, post, start, stop_commands
from skyband.framework.plan.model import Plan
from skyband.framework.plan.output_nodes import AlertNode
from skyband.framework.streaming.job.layout import JobFile, Layout
from skyband.framework.tables.delta.ownership import Owner
from skyband.framework.tables.writing.sink import FILLED_BATCH

PATIENCE: Final = 10.0
"""The most seconds that the end of a run waits for its alerts."""
Records = Callable[[Channel, Sequence[tuple[str, str]], float], None]
"""Writes records (key, value) to the topic of a channel in at most so many seconds. Raises NotDelivered."""


class Alerts:
    """Starts a sender for each alert of ``plan``. Only for a caller that holds the job's lock.

    ``last``: the last complete batch of the job. ``channels``: see ``channels_of``. ``records``: needed for channels of Kafka.
    """

    def __init__(
        self, plan: Plan, layout: Layout, job: JobFile, last: int, channels: Mapping[str, Channel], records: Records | None = None
    ) -> None:
        positions = Positions(layout.home, [a.name for a in plan.alerts])
        self._news = []
        if positions.damaged is not None:
            said = f"{layout.home / 'alerts.json'} cannot be used ({positions.damaged}): alerts begin with the next changes"
            self._news.append(said)
        identity = Identity(Owner(layout.root).id or "", plan.job, job.generation)
        self._senders: list[Sender] = []
        self._positions, self._plan, self._last = positions, plan, last
        for alert in plan.alerts:
            known = positions.get(alert.name)
            position = begin_at(known, alert, job.generation, last)
            if alert.history:
                position = replace(position, history=None, history_upto=None)
            elif known is None and last == FILLED_BATCH:
                position = replace(position, history=now_micros())
            messages = AlertMessages(layout.root, plan, alert, identity, position)
            if position.batch == last != FILLED_BATCH and position.frontier is None:
                # What happened before it is neither sent later, nor by a generation that follows.
                position = replace(position, frontier=latest(None, messages.frontiers(FILLED_BATCH - 1, last)))
            # Durable before the next batch: a run that is killed then does not begin later.
            positions.save(alert.name, position)
            if known is not None and _ahead(known, job.generation, last):
                said = f"{layout.home / 'alerts.json'} is ahead of the job's last batch"
                self._news.append(f"alert {alert.name}: {said}: it begins with the next changes")
            channel = channels[alert.channel]
            at_most = min(alert.at_most, channel.at_most or alert.at_most)
            deliver = _deliver(channel, plan.job, alert, records)
            fitting = replace(alert, batch=min(alert.batch, MOST_MESSAGES.get(channel.form, alert.batch)))
            self._senders.append(Sender(fitting, messages, positions, position, last, deliver, channel.seconds, at_most))

    def committed(self, batch: int) -> list[str]:
        """Send the messages of ``batch``, which has just been committed. Return at once, with what to warn of."""
        self._last = max(self._last, batch)
        news, self._news = self._news, []
        return [*news, *(text for sender in self._senders for text in sender.committed(batch))]

    def close(self, seconds: float = PATIENCE, complete: bool = False) -> list[str]:
        """Send what waits, for at most so many seconds. Return what to warn of.

        ``complete``: the run has read all that there was to read: what later ones commit is no history of the source, whatever its time.
        """
        deadline = time.monotonic() + seconds
        for sender in self._senders:
            sender.close(deadline)
        said = [*self._news, *(text for sender in self._senders for text in sender.ended())]
        stop_commands()
        if complete:
            for alert in self._plan.alerts:
                position = self._positions.get(alert.name)
                if position is not None and _in_first_run(position):
                    try:
                        self._positions.save(alert.name, replace(position, history_upto=self._last))
                    except (SkybandError, OSError) as e:
                        said.append(f"alert {alert.name}: the end of the job's first run could not be recorded: {in_one_line(e)}")
        return said


def now_micros() -> int:
    """Return the present instant in microseconds since 1970."""
    return time.time_ns() // 1000


def begin_at(known: Position | None, alert: AlertNode, generation: str, last: int) -> Position:
    """Return the position at which a run begins, whose last complete batch is ``last``.

    A new alert begins with the changes after it, and so does one whose position the job has never had. After a rebuild, the changes from
    the instant on up to which the former generation had been sent are those of the new one.
    """
    shape = shape_of(alert)
    if known is None or _ahead(known, generation, last):
        return Position(generation, last, shape)
    if known.generation != generation:
        found = Position(generation, FILLED_BATCH - 1, shape, since=known.history if known.frontier is None else known.frontier)
        # The source still has history that the job's first run has not read.
        return replace(found, history=known.history) if _in_first_run(known) else found
    if known.shape != shape:
        # Other messages now: those of a batch of which only some were sent are sent from the first one on.
        return replace(known, shape=shape, messages=0, sending=None)
    return known


def _in_first_run(known: Position) -> bool:
    """Return True if the job's first run, whose history is not sent, has not come to its end."""
    return known.history is not None and known.history_upto is None


def _ahead(known: Position, generation: str, last: int) -> bool:
    """Return True if a position is of a batch that has not been. The batch after the last complete one may be in the tables already."""
    return known.generation == generation and known.batch > last + 1


def caught_up(plan: Plan, layout: Layout, job: JobFile, last: int) -> bool:
    """Return True if nothing waits to be sent up to batch ``last``."""
    if not plan.alerts:
        return True
    positions = Positions(layout.home, [a.name for a in plan.alerts])
    for alert in plan.alerts:
        known = positions.get(alert.name)
        if known is None or known != begin_at(known, alert, job.generation, last) or known.batch < last or _in_first_run(known):
            return False
    return True


def waiting(plan: Plan, layout: Layout, job: JobFile, last: int) -> dict[str, int]:
    """Return how many messages each alert has not sent up to batch ``last``, of those that have any. Reads what waits, and nothing more.

    An alert that is new has none: it begins with the next run.
    """
    found = {}
    positions = Positions(layout.home, [a.name for a in plan.alerts])
    identity = Identity("", plan.job, job.generation)
    for alert in plan.alerts:
        known = positions.get(alert.name)
        if known is None:
            continue
        position = begin_at(known, alert, job.generation, last)
        if position.batch >= last:
            continue
        messages = AlertMessages(layout.root, plan, alert, identity, position)
        count, after, frontier = -position.messages, position.batch, position.frontier
        # Not at once: much may wait, more than fits in memory.
        while after < last:
            upto = messages.upto(after, last)
            frontiers = messages.frontiers(after, upto)
            count += sum(1 for _ in messages.read(after, upto, frontiers, frontier))
            after, frontier = upto, latest(frontier, frontiers)
        if count > 0:
            found[alert.name] = count
    return found


def refused(plan: Plan, layout: Layout) -> dict[str, int]:
    """Return the status with which a receiver has refused the last request of an alert for good, of those alerts that have one."""
    positions = Positions(layout.home, [a.name for a in plan.alerts])
    found = {a.name: positions.get(a.name) for a in plan.alerts}
    return {name: position.refusal for name, position in found.items() if position is not None and position.refusal is not None}


def _deliver(channel: Channel, job: str, alert: AlertNode, records: Records | None) -> Deliver:
    def to_webhook(messages: Sequence[Message], seconds: float) -> None:
        deadline = time.monotonic() + seconds
        for body in bodies(channel.form, channel.settings, job, alert, messages):
            left = max(0.1, deadline - time.monotonic())
            post(str(channel.webhook), body, left, {**JSON_HEADERS, **dict(channel.headers)})

    def to_command(messages: Sequence[Message], seconds: float) -> None:
        # A line per object, for commands that append their input to a file.
        start(channel.command, envelope(job, alert.name, messages) + b"\n", seconds)

    def to_topic(write: Records, messages: Sequence[Message], seconds: float) -> None:
        write(channel, [record(job, alert.name, message) for message in messages], seconds)

    if channel.webhook is not None:
        return to_webhook
    if channel.command:
        return to_command
    assert records is not None
    return partial(to_topic, records)
