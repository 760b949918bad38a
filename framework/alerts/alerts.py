"""The alerts of a run: a sender each, from the start of the run to its end."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import Final, Protocol

from skyband.framework.alerts.channels import MOST_MESSAGES, Channel, bodies
from skyband.framework.alerts.messages import AlertMessages, Identity, Message, envelope, latest, record, shape_of
from skyband.framework.alerts.positions import Position, Positions, Request
from skyband.framework.base.counts import counted
from skyband.framework.base.errors import SkybandError
from skyband.framework.base.failpoints import failpoint
from skyband.framework.base.redaction import redact_values
from skyband.framework.console.receivers import JSON_HEADERS, NotDelivered, post, start, stop_commands
from skyband.framework.plan.model import Plan
from skyband.framework.plan.nodes import AlertNode
from skyband.framework.storage.location import Location
from skyband.framework.tables.delta.ownership import Owner
from skyband.framework.tables.writing.sink import FILLED_BATCH

# Send the messages of one alert on a thread of its own: with a rate limit, and again and again while its receiver does not take them.
#
# The thread reads committed tables only. It delays no batch and fails no run; what it could not send, the next run sends.

Deliver = Callable[[Sequence[Message], float], None]
"""Delivers messages in at most so many seconds. Raises NotDelivered."""
_MINUTE: Final = 60.0
_WINDOW: Final = 10_001
"""How many messages are kept in memory: one more than any rate allows."""
_BETWEEN_LOOKS: Final = 1.0
"""Seconds that pass at least between two looks at the tables."""
_FIRST_WAIT: Final = 1.0
_LONGEST_WAIT: Final = 60.0
"""Seconds before a request is repeated: at first, and at most. They double in between."""
_AFTER_REFUSAL: Final = 3600.0
"""Seconds before a request that the receiver has refused for good is sent again: the operator may have fixed the receiver."""


class SinkPlace(Protocol):
    """Say where a job's tables are (``root``), and its own files (``home``)."""

    root: Location
    home: Location


class JobIdentity(Protocol):
    """Name the run of batches that wrote the tables: a rebuilt job has another ``generation``."""

    generation: str


class Sender:
    """Sends the messages of ``alert`` that follow ``position``, until ``close``.

    ``last``: the last complete batch of the job. ``seconds``: how long a request may take. ``at_most``: messages a minute.
    """

    def __init__(
        self,
        alert: AlertNode,
        messages: AlertMessages,
        positions: Positions,
        position: Position,
        last: int,
        deliver: Deliver,
        seconds: float,
        at_most: int,
    ) -> None:
        self._alert, self._messages, self._positions, self._position = alert, messages, positions, position
        self._deliver, self._seconds, self._at_most = deliver, seconds, at_most
        self._pending: deque[Message] = deque()
        self._stream: Iterator[Message] = iter(())
        """Yields the messages that follow those of ``_pending``, up to batch ``_upto``."""
        self._more = False
        """Is True if ``_stream`` may still yield messages."""
        self._summary: Message | None = None
        """Stands for the messages of the request that is being sent, which are no longer in ``_pending``."""
        self._upto = position.batch
        """Numbers the batch up to which ``_pending`` has messages."""
        self._sent: deque[tuple[float, int]] = deque()
        self._frontier = position.frontier
        self._begun: float | None = None
        """When the last request began."""
        self._looked: float | None = None
        """When the tables were last read."""
        self._failures, self._failed_at, self._retry_after = 0, 0.0, 0.0
        self._why: str | None = None
        self._gave_up = self._abandoned = False
        self._news: list[str] = []
        self._changed, self._saving = threading.Condition(), threading.Lock()
        self._last = last
        self._deadline: float | None = None
        self._thread = threading.Thread(target=self._work, name=f"alert {alert.name}", daemon=True)
        self._thread.start()

    def committed(self, batch: int) -> list[str]:
        """Send the messages up to ``batch``, too. Return new warnings."""
        with self._changed:
            self._last = max(self._last, batch)
            self._changed.notify_all()
            news, self._news = self._news, []
            return news

    def close(self, deadline: float) -> None:
        """Send what waits at once, and stop trying at ``deadline`` (of the monotonic clock). Returns at once; see ``ended``."""
        with self._changed:
            self._deadline = deadline
            self._changed.notify_all()

    def ended(self) -> list[str]:
        """Wait for the thread until the deadline of ``close``, and note what has been sent. Return what to warn of."""
        if self._deadline is not None:
            self._thread.join(max(0.0, self._deadline - time.monotonic()))
        with self._changed:
            news, self._news = self._news, []
            waiting, behind = self._waits, self._last > self._upto or self._more
        if not self._thread.is_alive():
            try:
                self._save()
            except (SkybandError, OSError) as e:
                news.append(f"alert {self._alert.name}: what has been sent could not be recorded, and is repeated: {in_one_line(e)}")
        with self._saving:
            self._abandoned = True
        if not waiting and not behind:
            return news
        many = "messages" if not waiting else f"{'at least ' if behind else ''}{counted(waiting, 'message')}"
        why = f": {self._why}" if self._why is not None else ""
        return [f"alert {self._alert.name}: {many} could not be sent to channel {self._alert.channel}{why}; the next run sends what waits"]

    def _work(self) -> None:
        try:
            while self._step():
                pass
        except Exception as e:  # nothing that happens here ends the run
            self._why = in_one_line(e)
            with self._changed:
                self._news.append(f"alert {self._alert.name}: nothing more is sent in this run: {self._why}")

    def _step(self) -> bool:
        """Do one thing that is due, or wait for one. Return False at the end."""
        with self._changed:
            now, closing = time.monotonic(), self._deadline is not None
            if self._deadline is not None and (now >= self._deadline or self._gave_up):
                return False
            if not self._waits and self._last <= self._upto:
                if closing:
                    return False
                self._changed.wait()
                return True
            due = self._due(now)
            if closing and due > 0 and self._failures and self._retry_after:
                # The receiver has asked to be left alone, or has refused for good: the next run tries again.
                return False
            if due > 0 and not closing:
                self._changed.wait(due)
                return True
            last = self._last
        try:
            if self._waits:
                self._request()
            else:
                self._gather(last)
        except NotDelivered as e:
            self._refused(e)
            self._failed(in_one_line(e), closing)
        except (SkybandError, OSError) as e:
            # A table may be rewritten at this moment. The receiver has not asked for a wait.
            self._retry_after = 0.0
            self._reset()
            self._failed(in_one_line(e), closing)
        return True

    def _due(self, now: float) -> float:
        """Return the seconds until messages are to be read or sent, 0 if that is now."""
        if self._failures:
            wait = max(self._retry_after, min(_FIRST_WAIT * 2.0 ** min(self._failures - 1, 10), _LONGEST_WAIT))
            return max(0.0, self._failed_at + wait - now)
        if self._waits and self._position.sending is None and self._allowed(now) < 1:
            return max(0.0, self._sent[0][0] + _MINUTE - now)
        if not self._waits and self._looked is not None and now < self._looked + _BETWEEN_LOOKS:
            return self._looked + _BETWEEN_LOOKS - now
        return self._rest(now)

    @property
    def _waits(self) -> int:
        """Return how many messages have been read and not sent: at most, if there are more, what a plan needs to know of."""
        sending = self._position.sending
        return len(self._pending) + (sending.messages if self._summary is not None and sending is not None else 0)

    def _rest(self, now: float) -> float:
        """Return the seconds until the next request may begin, for ``every``."""
        return 0 if self._begun is None else max(0.0, self._begun + self._alert.every_micros / 1e6 - now)

    def _allowed(self, now: float) -> int:
        """Return how many messages may be sent now."""
        while self._sent and self._sent[0][0] <= now - _MINUTE:
            self._sent.popleft()
        return self._at_most - sum(count for _, count in self._sent)

    def _gather(self, last: int) -> None:
        """Read the messages of further batches."""
        self._looked = time.monotonic()
        position = self._position
        upto = self._messages.upto(position.batch, last)
        frontiers = self._messages.frontiers(position.batch, upto)
        self._frontier = latest(position.frontier, frontiers)
        self._stream = self._messages.read(position.batch, upto, frontiers, position.frontier)
        for _ in islice(self._stream, position.messages):
            pass
        self._fill()
        with self._changed:
            self._upto = upto
        self._failures, self._why = 0, None
        if not self._pending:
            self._position = self._after()

    def _reset(self) -> None:
        """Forget what has been read, after an error: it is read again from the position on."""
        with self._changed:
            self._pending.clear()
            self._stream, self._more, self._summary, self._upto = iter(()), False, None, self._position.batch

    def _fill(self) -> None:
        """Take messages out of the stream, as many as a plan needs to know of."""
        taken = list(islice(self._stream, _WINDOW - len(self._pending)))
        self._more = len(self._pending) + len(taken) == _WINDOW
        with self._changed:
            self._pending.extend(taken)

    def _after(self) -> Position:
        """Return the position at which everything gathered has been sent."""
        return replace(self._position, batch=self._upto, messages=0, frontier=self._frontier, sending=None)

    def _request(self) -> None:
        """Send the next request, one that was begun before as it was."""
        planned = self._position.sending
        if self._summary is None:
            planned = self._planned() if planned is None else planned
            if planned.combined:
                planned, self._summary = self._combined(None if self._position.sending is None else planned.messages)
            elif planned.messages > len(self._pending):
                planned = self._planned()
        assert planned is not None
        chosen = list(islice(self._pending, planned.messages)) if self._summary is None else [self._summary]
        self._keep(replace(self._position, sending=planned))
        failpoint("alerts.before")
        now = self._begun = time.monotonic()
        left = self._seconds if self._deadline is None else max(0.1, min(self._seconds, self._deadline - now))
        self._deliver(chosen, left)
        failpoint("alerts.sent")
        self._failures, self._why, self._retry_after = 0, None, 0.0
        self._position = replace(self._position, refusal=None)
        self._sent.append((now, len(chosen)))
        if self._summary is None:
            with self._changed:
                for _ in chosen:
                    self._pending.popleft()
        self._summary = None
        if self._more:
            self._fill()
        sent = self._position.messages + planned.messages
        self._keep(replace(self._position, messages=sent, sending=None) if self._pending else self._after())

    def _combined(self, most: int | None) -> tuple[Request, Message]:
        """Take all that waits, or so many messages, and return the request and the message that stand for them."""
        found = self._messages.summary()
        while self._pending and (most is None or found.count < most):
            for _ in range(len(self._pending) if most is None else min(len(self._pending), most - found.count)):
                found.add(self._pending.popleft())
            if self._more:
                self._fill()
        return Request(found.count, True), found.message()

    def _planned(self) -> Request:
        """Return the next request: as many messages as the rate allows, or all in one, of which the last allowed message is kept."""
        waiting, allowed = len(self._pending), self._allowed(time.monotonic())
        if waiting <= allowed:
            return Request(min(waiting, self._alert.batch), False)
        if allowed >= 2:
            return Request(min(allowed - 1, self._alert.batch), False)
        return Request(waiting, True)

    def _refused(self, e: NotDelivered) -> None:
        """Note for how long the receiver is to be left alone, and in the file if it refuses the request for good."""
        self._retry_after = max(e.retry_after, _AFTER_REFUSAL if e.final else 0.0)
        refusal = e.status if e.final else None
        if refusal != self._position.refusal:
            # Only for ``skyband status``: a full disk is reported where it matters.
            with suppress(SkybandError, OSError):
                self._keep(replace(self._position, refusal=refusal))

    def _failed(self, why: str, closing: bool) -> None:
        self._failures, self._why, self._failed_at = self._failures + 1, why, time.monotonic()
        self._gave_up = closing
        if self._failures == 1 and not closing:
            many = counted(self._waits, "message") if self._waits and not self._more else "messages"
            with self._changed:
                self._news.append(f"alert {self._alert.name}: {many} could not be sent yet to channel {self._alert.channel}: {why}")

    def _keep(self, position: Position) -> None:
        self._position = position
        self._save()

    def _save(self) -> None:
        with self._saving:
            # Another run may own the file by now.
            if not self._abandoned:
                self._positions.save(self._alert.name, self._position)


def in_one_line(e: Exception) -> str:
    """Return why something failed, in one line without secrets."""
    said = e.message if isinstance(e, SkybandError) else str(e) if isinstance(e, NotDelivered) else f"{type(e).__name__}: {e}"
    return redact_values(said.partition("\n")[0][:300])


PATIENCE: Final = 10.0
"""The most seconds that the end of a run waits for its alerts."""
Records = Callable[[Channel, Sequence[tuple[str, str]], float], None]
"""Writes records (key, value) to the topic of a channel in at most so many seconds. Raises NotDelivered."""


class Alerts:
    """Starts a sender for each alert of ``plan``. Only for a caller that holds the job's lock.

    ``last``: the last complete batch of the job. ``channels``: see ``channels_of``. ``records``: needed for channels of Kafka.
    """

    def __init__(
        self, plan: Plan, sink: SinkPlace, job: JobIdentity, last: int, channels: Mapping[str, Channel], records: Records | None = None
    ) -> None:
        positions = Positions(sink.home, [a.name for a in plan.alerts])
        self._news = []
        if positions.damaged is not None:
            said = f"{sink.home / 'alerts.json'} cannot be used ({positions.damaged}): alerts begin with the next changes"
            self._news.append(said)
        identity = Identity(Owner(sink.root).id or "", plan.job, job.generation)
        self._senders: list[Sender] = []
        self._positions, self._plan, self._last = positions, plan, last
        for alert in plan.alerts:
            known = positions.get(alert.name)
            position = begin_at(known, alert, job.generation, last)
            if alert.history:
                position = replace(position, history=None, history_upto=None)
            elif known is None and last == FILLED_BATCH:
                position = replace(position, history=now_micros())
            messages = AlertMessages(sink.root, plan, alert, identity, position)
            if position.batch == last != FILLED_BATCH and position.frontier is None:
                # What happened before it is neither sent later, nor by a generation that follows.
                position = replace(position, frontier=latest(None, messages.frontiers(FILLED_BATCH - 1, last)))
            # Durable before the next batch: a run that is killed then does not begin later.
            positions.save(alert.name, position)
            if known is not None and _ahead(known, job.generation, last):
                said = f"{sink.home / 'alerts.json'} is ahead of the job's last batch"
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


def caught_up(plan: Plan, sink: SinkPlace, job: JobIdentity, last: int) -> bool:
    """Return True if nothing waits to be sent up to batch ``last``."""
    if not plan.alerts:
        return True
    positions = Positions(sink.home, [a.name for a in plan.alerts])
    for alert in plan.alerts:
        known = positions.get(alert.name)
        if known is None or known != begin_at(known, alert, job.generation, last) or known.batch < last or _in_first_run(known):
            return False
    return True


def waiting(plan: Plan, sink: SinkPlace, job: JobIdentity, last: int) -> dict[str, int]:
    """Return how many messages each alert has not sent up to batch ``last``, of those that have any. Reads what waits, and nothing more.

    An alert that is new has none: it begins with the next run.
    """
    found = {}
    positions = Positions(sink.home, [a.name for a in plan.alerts])
    identity = Identity("", plan.job, job.generation)
    for alert in plan.alerts:
        known = positions.get(alert.name)
        if known is None:
            continue
        position = begin_at(known, alert, job.generation, last)
        if position.batch >= last:
            continue
        messages = AlertMessages(sink.root, plan, alert, identity, position)
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


def refused(plan: Plan, sink: SinkPlace) -> dict[str, int]:
    """Return the status with which a receiver has refused the last request of an alert for good, of those alerts that have one."""
    positions = Positions(sink.home, [a.name for a in plan.alerts])
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
