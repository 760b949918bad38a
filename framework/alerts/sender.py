"""Send the messages of one alert on a thread of its own: with a rate limit, and again and again while its receiver does not take them.

The thread reads committed tables only. It delays no batch and fails no run; what it could not send, the next run sends.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from skyband.framework.alerts.messages import AlertMessages, Message
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
_BETWEEN_LOOKS: Final = 1.0
"""The least seconds between two looks at the tables."""
_FIRST_WAIT: Final = 1.0
_LONGEST_WAIT: Final = 60.0
"""The first and the longest wait in seconds before a request is repeated; it doubles in between."""


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
        self._upto = position.batch
        """The batch up to which ``_pending`` has messages."""
        self._sent: deque[tuple[float, int]] = deque()
        self._frontier = position.frontier
        self._begun: float | None = None
        """When the last request began."""
        self._looked: float | None = None
        """When the tables were last read."""
        self._failures, self._failed_at = 0, 0.0
        self._why: str | None = None
        self._gave_up = self._abandoned = False
        self._news: list[str] = []
        self._changed = threading.Condition(threading.RLock())
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
            waiting, behind = len(self._pending), self._last > self._upto
            if not self._thread.is_alive():
                self._save()
            self._abandoned = True
            if not waiting and not behind:
                return news
            many = "messages" if not waiting else f"{'at least ' if behind else ''}{counted(waiting, 'message')}"
            why = f": {self._why}" if self._why is not None else ""
            said = (
                f"alert {self._alert.name}: {many} could not be sent to channel {self._alert.channel}{why}; the next run sends what waits"
            )
            return [said]

    def _work(self) -> None:
        try:
            while self._step():
                pass
        except Exception as e:  # nothing that happens here ends the run
            self._why = _in_one_line(e)

    def _step(self) -> bool:
        """Do one thing that is due, or wait for one. Return False at the end."""
        with self._changed:
            now, closing = time.monotonic(), self._deadline is not None
            if self._deadline is not None and (now >= self._deadline or self._gave_up):
                return False
            if not self._pending and self._last <= self._upto:
                if closing:
                    return False
                self._changed.wait()
                return True
            due = self._due(now)
            if due > 0 and not closing:
                self._changed.wait(due)
                return True
            last = self._last
        try:
            if self._pending:
                self._request(closing)
            else:
                self._gather(last)
        except (NotDelivered, SkybandError, OSError) as e:
            # A table may be rewritten at this moment, as a receiver may be restarted.
            self._failed(_in_one_line(e), closing)
        return True

    def _due(self, now: float) -> float:
        """Return the seconds until messages are to be read or sent, 0 if that is now."""
        if self._failures:
            wait = min(_FIRST_WAIT * 2.0 ** min(self._failures - 1, 10), _LONGEST_WAIT)
            return max(0.0, self._failed_at + wait - now)
        if self._pending and self._position.sending is None and self._allowed(now) < 1:
            return max(0.0, self._sent[0][0] + _MINUTE - now)
        if not self._pending and self._looked is not None and now < self._looked + _BETWEEN_LOOKS:
            return self._looked + _BETWEEN_LOOKS - now
        return self._rest(now)

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
        found = deque(self._messages.read(position.batch, upto, frontiers, position.frontier))
        for _ in range(min(position.messages, len(found))):
            found.popleft()
        self._frontier = max([f for f in (position.frontier, *frontiers.values()) if f is not None], default=None)
        with self._changed:
            self._pending, self._upto = found, upto
        self._failures, self._why = 0, None
        if not found:
            self._position = self._after()

    def _after(self) -> Position:
        """Return the position at which everything gathered has been sent."""
        return replace(self._position, batch=self._upto, messages=0, frontier=self._frontier, sending=None)

    def _request(self, closing: bool) -> None:
        """Send the next request, one that was begun before as it was."""
        planned = self._position.sending or self._planned(closing)
        if planned.messages > len(self._pending):
            planned = self._planned(closing)
        chosen = [self._pending[i] for i in range(planned.messages)]
        self._keep(replace(self._position, sending=planned))
        failpoint("alerts.before")
        now = self._begun = time.monotonic()
        left = self._seconds if self._deadline is None else max(0.1, min(self._seconds, self._deadline - now))
        self._deliver([self._messages.combined(chosen)] if planned.combined else chosen, left)
        failpoint("alerts.sent")
        self._failures, self._why = 0, None
        self._sent.append((now, 1 if planned.combined else planned.messages))
        with self._changed:
            for _ in chosen:
                self._pending.popleft()
        sent = self._position.messages + planned.messages
        self._keep(replace(self._position, messages=sent, sending=None) if self._pending else self._after())

    def _planned(self, closing: bool) -> Request:
        """Return the next request: as many messages as the rate allows, or all in one, of which the last allowed message is kept."""
        waiting, allowed = len(self._pending), self._allowed(time.monotonic())
        if waiting <= allowed:
            return Request(min(waiting, self._alert.batch), False)
        if allowed >= 2:
            return Request(min(allowed - 1, self._alert.batch), False)
        return Request(waiting, True)

    def _failed(self, why: str, closing: bool) -> None:
        self._failures, self._why, self._failed_at = self._failures + 1, why, time.monotonic()
        self._gave_up = closing
        if self._failures == 1 and not closing:
            many = counted(len(self._pending), "message") if self._pending else "messages"
            with self._changed:
                self._news.append(f"alert {self._alert.name}: {many} could not be sent yet to channel {self._alert.channel}: {why}")

    def _keep(self, position: Position) -> None:
        self._position = position
        self._save()

    def _save(self) -> None:
        with self._changed:
            # Another run may own the file by now.
            if not self._abandoned:
                self._positions.save(self._alert.name, self._position)


def _in_one_line(e: Exception) -> str:
    said = e.message if isinstance(e, SkybandError) else str(e) if isinstance(e, NotDelivered) else f"{type(e).__name__}: {e}"
    return redact_values(said.partition("\n")[0][:300])
