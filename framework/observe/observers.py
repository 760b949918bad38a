"""Tell observers of a run what happens, each on a thread of its own: none can delay the run or another observer, or fail the run.

An event that an observer fails to take is counted and lost for it; the tables have all of it. Standard library only, as every run
imports this module. A signal handler may end a run between any two steps of the main thread: nothing that the main thread calls here takes
a lock or starts a thread, except for ``Observers`` itself when it is made.
"""

from __future__ import annotations

import queue
import threading
import time as clock
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from skyband.framework.base.redaction import redact_values
from skyband.framework.console.receivers import NotDelivered

if TYPE_CHECKING:
    from skyband.framework.plan.model import Plan
    from skyband.framework.streaming.run.batch import Batch

PATIENCE: Final = 10.0
"""The most seconds that the end of a run waits for its observers."""
SLICE: Final = 0.2
"""The most seconds that a signal waits for the end of this wait."""
ROOM: Final = 2_000
"""The most events that wait for a slow observer; later ones are lost for it."""


@dataclass(frozen=True, slots=True)
class StartedRun:
    """A run that holds the job's lock and has passed the checks before Spark starts.

    ``command``: ``run`` or ``rebuild``. ``root``: the directory of its tables. ``spec``: the file, as the command line names it.
    ``continuous``: it runs until it is stopped. ``run``: an id of its own.
    """

    command: str
    plan: Plan
    root: str
    spec: str
    continuous: bool
    began: datetime = field(default_factory=lambda: datetime.now(UTC))
    run: uuid.UUID = field(default_factory=uuid.uuid4)


class Observer:
    """Hears of one run, from one thread, in the order of what happens. What it raises is counted and reported at the end of the run."""

    name: str = "observer"
    """For messages."""

    def started(self, run: StartedRun) -> None:
        """The run has begun: called once, and not if a mistake was found before."""

    def phase(self, text: str, at: datetime) -> None:
        """The run does now what ``text`` says in a few words, such as ``starting Spark``."""

    def committed(self, batch: Batch, at: datetime) -> None:
        """The batch is in the tables."""

    def ended(self, outcome: Mapping[str, Any]) -> None:
        """The run is over; ``outcome``: its document (docs/reference/run-output.md). Called only after ``started``."""

    def close(self, seconds: float) -> None:
        """Send what waits and free everything, in at most so many seconds."""


Event = Callable[[Observer], None]


class _Listener:
    """One observer with its thread and the events that wait for it.

    ``SimpleQueue``, as its ``put`` is reentrant: a signal handler may interrupt one with another.
    """

    def __init__(self, observer: Observer) -> None:
        self._observer = observer
        self._events: queue.SimpleQueue[Event | None] = queue.SimpleQueue()
        self._seconds = 0.0
        self._takes = False
        self._lost = self._failed = 0
        self._why = ""
        self._thread = threading.Thread(target=self._work, name=f"observer {observer.name}", daemon=True)
        self._thread.start()

    def tell(self, event: Event) -> None:
        """Have the observer take an event, unless too many wait."""
        if self._events.qsize() < ROOM:
            self._events.put(event)
        else:
            self._lost += 1

    def close(self, events: Sequence[Event], seconds: float) -> None:
        """Have the observer take its last events, however many wait, and then close it."""
        self._seconds = seconds
        for event in (*events, None):
            self._events.put(event)

    def wait(self, until: float) -> list[str]:
        """Wait up to an instant of the monotonic clock until it is closed. Return what to warn of."""
        # In slices: a signal that arrives just before Python waits for a lock is handled only after the wait.
        while self._thread.is_alive() and (left := until - clock.monotonic()) > 0:
            self._thread.join(min(left, SLICE))
        found = [f"{_counted(self._failed)} not delivered, the last one for {self._why}"] if self._failed else []
        late = self._thread.is_alive()
        missed = self._lost + (self._takes + self._forget() if late else 0)
        if missed:
            found.append(f"{_counted(missed)} not delivered in time")
        elif late:
            found.append("it was not closed in time")
        return [f"{self._observer.name}: {text}" for text in found]

    def _forget(self) -> int:
        """Drop the events that wait, as the observer may be stuck for as long as the process lives. Return how many."""
        dropped = 0
        with suppress(queue.Empty):  # the thread may take one meanwhile
            while not self._events.empty():
                dropped += self._events.get_nowait() is not None
        self._events.put(None)
        return dropped

    def _work(self) -> None:
        while (event := self._events.get()) is not None:
            self._takes = True
            self._try(event)
            self._takes = False
        self._try(lambda observer: observer.close(self._seconds))

    def _try(self, event: Event) -> None:
        try:
            event(self._observer)
        except NotDelivered as e:
            self._why = f"this reason: {redact_values(str(e))}"
            self._failed += e.events
        except BaseException as e:  # whatever a client's library raises, SystemExit too: the thread goes on
            self._why = _why(e)
            self._failed += 1


class Observers:
    """The observers of one run. ``bool`` is False if there is none; then nothing is made, started or kept.

    ``notes``: what to warn of at the end in any case.
    """

    def __init__(self, each: Sequence[Observer] = (), patience: float = PATIENCE, notes: Sequence[str] = ()) -> None:
        self._notes = tuple(notes)
        self._each = tuple(_Listener(observer) for observer in each)
        self._patience = patience
        self._started = self._closed = False

    def __bool__(self) -> bool:
        return bool(self._each)

    def started(self, run: StartedRun) -> None:
        """See ``Observer``."""
        if self._each and not self._started and not self._closed:
            self._started = True
            self._tell(lambda observer: observer.started(run))

    def phase(self, text: str) -> None:
        """See ``Observer``."""
        if self._started and not self._closed:
            at = datetime.now(UTC)
            self._tell(lambda observer: observer.phase(text, at))

    def committed(self, batch: Batch) -> None:
        """See ``Observer``."""
        if self._started and not self._closed:
            at = datetime.now(UTC)
            self._tell(lambda observer: observer.committed(batch, at))

    def ended(self, outcome: Callable[[], Mapping[str, Any]]) -> list[str]:
        """End what ``started`` began, and wait for the observers as long as they may take. Return what to warn of: lost events.

        ``outcome``: makes the document of the outcome, if it is needed. Only the first call does anything.
        """
        if self._closed or not (self._each or self._notes):
            return []
        self._closed = True
        events: list[Event] = []
        if self._started:
            document = outcome()
            events.append(lambda observer: observer.ended(document))
        for listener in self._each:
            listener.close(events, self._patience / 2)
        until = clock.monotonic() + self._patience
        return [*self._notes, *(text for listener in self._each for text in listener.wait(until))]

    def _tell(self, event: Event) -> None:
        for listener in self._each:
            listener.tell(event)


def _counted(events: int) -> str:
    return f"{events:,} {'event was' if events == 1 else 'events were'}"


def _why(e: BaseException) -> str:
    """Return an exception as one line, redacted."""
    try:
        said = str(e)
    except Exception:
        said = "(no text)"
    return redact_values(f"{type(e).__name__}: {said}".partition("\n")[0][:300])
