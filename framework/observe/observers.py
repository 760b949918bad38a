"""Tell observers of a run what happens, on a thread of their own: none can delay the run, fail it, or lose anything of it.

An event that an observer fails to take is counted and lost for it; the tables have all of it. Standard library only, as every run
imports this module.
"""

from __future__ import annotations

import queue
import threading
import uuid
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from skyband.framework.base.redaction import redact_values

if TYPE_CHECKING:
    from skyband.framework.plan.model import Plan
    from skyband.framework.streaming.run.batch import Batch

PATIENCE: Final = 10.0
"""The most seconds that the end of a run waits for its observers."""
ROOM: Final = 10_000
"""The most events that wait for slow observers; later ones are lost for them."""


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


class Observers:
    """The observers of one run. ``bool`` is False if there is none; then nothing is made, started or kept.

    ``notes``: what to warn of at the end in any case.
    """

    def __init__(self, each: Sequence[Observer] = (), patience: float = PATIENCE, notes: Sequence[str] = ()) -> None:
        self._each = tuple(each)
        self._notes = tuple(notes)
        self._patience = patience
        self._events: queue.Queue[Callable[[Observer], None] | None] = queue.Queue(ROOM)
        self._thread: threading.Thread | None = None
        self._failed: Counter[str] = Counter()
        self._why: dict[str, str] = {}
        self._lost = 0
        self._closed = False

    def __bool__(self) -> bool:
        return bool(self._each)

    def started(self, run: StartedRun) -> None:
        """See ``Observer``."""
        if self._each and self._thread is None and not self._closed:
            self._thread = threading.Thread(target=self._work, name="observers", daemon=True)
            self._thread.start()
            self._put(lambda observer: observer.started(run))

    def phase(self, text: str) -> None:
        """See ``Observer``."""
        if self._thread is not None:
            self._put(partial(_phase, text=text, at=datetime.now(UTC)))

    def committed(self, batch: Batch) -> None:
        """See ``Observer``."""
        if self._thread is not None:
            self._put(partial(_committed, batch=batch, at=datetime.now(UTC)))

    def ended(self, outcome: Callable[[], Mapping[str, Any]]) -> list[str]:
        """End what ``started`` began, and wait for the observers as long as they may take. Return what to warn of: lost events.

        ``outcome``: makes the document of the outcome, if it is needed.
        """
        if self._closed or not (self._each or self._notes):
            return []
        self._closed = True
        if self._thread is not None:
            document = outcome()
            self._put(lambda observer: observer.ended(document))
            self._put(lambda observer: observer.close(self._patience / 2))
            self._put(None)
            self._thread.join(self._patience)
        else:
            self._each_does(lambda observer: observer.close(self._patience / 2))
        return self._warnings()

    def _put(self, event: Callable[[Observer], None] | None) -> None:
        try:
            self._events.put_nowait(event)
        except queue.Full:
            self._lost += 1

    def _work(self) -> None:
        while (event := self._events.get()) is not None:
            self._each_does(event)

    def _each_does(self, event: Callable[[Observer], None]) -> None:
        for observer in self._each:
            try:
                event(observer)
            except Exception as e:  # whatever a client's library raises
                self._failed[observer.name] += 1
                self._why[observer.name] = redact_values(f"{type(e).__name__}: {e}".partition("\n")[0][:300])

    def _warnings(self) -> list[str]:
        found = [*self._notes]
        found += [
            f"{name}: {count:,} {'event was' if count == 1 else 'events were'} not delivered, the last one for {self._why[name]}"
            for name, count in sorted(self._failed.items())
        ]
        waiting = self._lost + self._events.qsize()
        if waiting and self._thread is not None and self._thread.is_alive():
            names = ", ".join(observer.name for observer in self._each)
            found.append(f"{names}: {waiting:,} {'event was' if waiting == 1 else 'events were'} not delivered in time")
        return found


def _phase(observer: Observer, text: str, at: datetime) -> None:
    observer.phase(text, at)


def _committed(observer: Observer, batch: Batch, at: datetime) -> None:
    observer.committed(batch, at)
