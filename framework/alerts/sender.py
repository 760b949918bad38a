"""Send the messages of one alert on a thread of its own: with a rate limit, and again and again while its receiver does not take them.

The thread reads committed tables only. It delays no batch and fails no run; what it could not send, the next run sends.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import islice
from typing import Final

from skyband.framework.alerts.messages import AlertMessages, Message, latest
from skyband.framework.alerts.positions import Position, Positions, Request
from skyband.framework.base.counts import counted
from skyband.framework.base.errors import SkybandError
from skyband.framework.base.failpoints import failpoint
from skyband.framework.base.redaction import redact_values
from skyband.framework.console.receivers import NotDelivered
from skyband.framework.plan.output_nodes import AlertNode

Deliver = Callable[[Sequence[Message], float], None]
"""Delivers messages in at most so many seconds. Raises NotDelivered."""
_MINUTE: Final = 60.0
_WINDOW: Final = 10_001
"""How many messages are kept in memory: one more than any rate allows."""
_BETWEEN_LOOKS: Final = 1.0
"""The least seconds between two looks at the tables."""
_FIRST_WAIT: Final = 1.0
_LONGEST_WAIT: Final = 60.0
"""The first and the longest wait in seconds before a request is repeated; it doubles in between."""
_AFTER_REFUSAL: Final = 3600.0
"""The seconds before a request is repeated that the receiver has refused for good: the operator may have fixed the receiver."""


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
        """The messages after ``_pending``, up to ``_upto``."""
        self._more = False
        """Whether ``_stream`` may have any."""
        self._summary: Message | None = None
        """The message that stands for those of the request that is being sent, which have been taken out of ``_pending``."""
        self._upto = position.batch
        """The batch up to which ``_pending`` has messages."""
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
