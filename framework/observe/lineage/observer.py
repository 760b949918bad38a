"""Send the events of a run, on a thread of its own: a receiver that does not answer holds up no other observer."""

from __future__ import annotations

import queue
import threading
import time as clock
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from skyband.framework.base.extras import extra
from skyband.framework.base.messages import ACCEPTED, ROWS_IN
from skyband.framework.base.reasons import FILTERED
from skyband.framework.console.receivers import NotDelivered
from skyband.framework.observe.lineage.announced import Announced, announced_to, record_announced
from skyband.framework.observe.lineage.client import reason, receiver_id
from skyband.framework.observe.lineage.events import Counts, RunEvents
from skyband.framework.observe.observers import Observer, StartedRun
from skyband.framework.storage.location import Location
from skyband.framework.storage.locations import location
from skyband.framework.storage.sinks import HOME

with extra("lineage", "OpenLineage"):
    from openlineage.client.client import OpenLineageClient
    from openlineage.client.event_v2 import RunEvent, RunState
    from openlineage.client.facet_v2 import parent_run

if TYPE_CHECKING:
    from skyband.framework.streaming.run.batch import Batch

BETWEEN: Final = timedelta(minutes=1)
"""The least time between two events of the progress."""


class Lineage(Observer):
    """Sends START, RUNNING after the first batch and then at most once in ``between``, and COMPLETE, FAIL or ABORT."""

    name = "OpenLineage"

    def __init__(
        self, client: OpenLineageClient, namespace: str, parent: parent_run.ParentRunFacet | None, between: timedelta = BETWEEN
    ) -> None:
        self._client = client
        self._namespace = namespace
        self._parent = parent
        self._between = between
        self._events: RunEvents | None = None
        self._counts = Counts()
        self._reported: datetime | None = None
        self._receiver = receiver_id(client)
        self._home: Location | None = None
        self._waiting: queue.SimpleQueue[tuple[RunEvent, Announced | None] | None] = queue.SimpleQueue()
        self._sender = threading.Thread(target=self._send, name="lineage", daemon=True)
        self._queued = self._sent = 0
        self._why = ""

    def started(self, run: StartedRun) -> None:
        """See ``Observer``."""
        self._home = location(run.root) / HOME
        announced = None
        with suppress(OSError):
            announced = announced_to(self._home, self._receiver)
        self._events = RunEvents(run, self._namespace, self._parent, announced)
        self._sender.start()
        self._put(self._events.start())

    def committed(self, batch: Batch, at: datetime) -> None:
        """See ``Observer``."""
        counts = self._counts
        counts.batches += 1
        counts.rows_in += batch.get(ROWS_IN)
        counts.filtered += batch.get(FILTERED)
        counts.accepted += batch.get(ACCEPTED)
        for why, rows in batch.reasons.items():
            counts.rejected[why] = counts.rejected.get(why, 0) + rows
        if self._events is not None and (self._reported is None or at - self._reported >= self._between):
            self._reported = at
            self._put(self._events.running(counts, at))

    def ended(self, outcome: Mapping[str, Any]) -> None:
        """See ``Observer``."""
        if self._events is not None:
            event = self._events.end(outcome)
            self._put(event, Announced.of(outcome) if event.eventType is RunState.COMPLETE else None)

    def close(self, seconds: float) -> None:
        """See ``Observer``. Raises NotDelivered with the number of events that the receiver did not take."""
        until = clock.monotonic() + seconds
        if self._events is not None:
            self._waiting.put(None)
            self._sender.join(seconds)
        if not self._sender.is_alive():
            self._client.close(max(0.0, until - clock.monotonic()))
        lost = self._queued - self._sent
        if lost:
            raise NotDelivered(self._why or "the receiver did not answer in time", lost)

    def _put(self, event: RunEvent, covered: Announced | None = None) -> None:
        self._queued += 1
        self._waiting.put((event, covered))

    def _send(self) -> None:
        while (waiting := self._waiting.get()) is not None:
            event, covered = waiting
            try:
                self._client.emit(event)
                self._sent += 1
            except Exception as e:  # whatever a transport or its library raises
                self._why = reason(e)
                continue
            if covered is not None and covered.tables and self._home is not None:
                # If it cannot be recorded, the next event covers all of this again.
                with suppress(OSError):
                    record_announced(self._home, self._receiver, covered)
