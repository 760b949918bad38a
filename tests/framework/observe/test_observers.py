"""Observers hear of all that happens, in its order, and can neither delay nor fail a run."""

from __future__ import annotations

import threading
import time
from types import SimpleNamespace
from typing import Any

from skyband.framework.observe.observers import Observer, Observers, StartedRun
from skyband.framework.streaming.run.batch import Batch

RUN = StartedRun("run", SimpleNamespace(job="flights"), "/tables", "flights.yaml", False)  # type: ignore[arg-type]


class Listener(Observer):
    name = "listener"

    def __init__(self) -> None:
        self.heard: list[Any] = []

    def started(self, run):
        self.heard.append(("started", run.command))

    def phase(self, text, at):
        self.heard.append(("phase", text))

    def committed(self, batch, at):
        self.heard.append(("committed", batch.number))

    def ended(self, outcome):
        self.heard.append(("ended", outcome["status"]))

    def close(self, seconds):
        self.heard.append(("closed",))


class Broken(Listener):
    name = "broken"

    def committed(self, batch, at):
        raise ConnectionRefusedError("nobody listens\nat all")


def _run(observers: Observers, batches: int = 3) -> list[str]:
    observers.started(RUN)
    observers.phase("reading")
    for number in range(batches):
        observers.committed(Batch(number))
    return observers.ended(lambda: {"status": "done"})


def test_all_events_arrive_in_their_order():
    listener = Listener()
    assert _run(Observers([listener])) == []
    batches = [("committed", n) for n in range(3)]
    assert listener.heard == [("started", "run"), ("phase", "reading"), *batches, ("ended", "done"), ("closed",)]


def test_a_broken_observer_is_reported_and_disturbs_no_other():
    listener = Listener()
    said = _run(Observers([Broken(), listener]))
    assert said == ["broken: 3 events were not delivered, the last one for ConnectionRefusedError: nobody listens"]
    assert [h for h in listener.heard if h[0] == "committed"] == [("committed", n) for n in range(3)]


def test_a_stuck_observer_delays_the_end_by_its_patience_and_no_batch():
    release = threading.Event()

    class Stuck(Listener):
        name = "stuck"

        def committed(self, batch, at):
            release.wait(60)

    observers = Observers([Stuck()], patience=0.2)
    observers.started(RUN)
    for number in range(20_000):
        observers.committed(Batch(number))
    began = time.monotonic()
    said = observers.ended(lambda: {"status": "done"})
    release.set()
    assert time.monotonic() - began < 30
    assert len(said) == 1 and said[0].startswith("stuck: ") and said[0].endswith("events were not delivered in time")


def test_without_observers_nothing_is_started():
    before = threading.active_count()
    observers = Observers()
    observers.started(RUN)
    observers.committed(Batch(0))
    assert not observers and threading.active_count() == before
    assert observers.ended(lambda: 1 / 0) == []  # type: ignore[arg-type, return-value]


def test_a_run_that_never_began_closes_its_observers():
    listener = Listener()
    assert Observers([listener]).ended(lambda: {"status": "refused"}) == []
    assert listener.heard == [("closed",)]


def test_it_ends_once():
    listener = Listener()
    observers = Observers([listener])
    _run(observers)
    heard = list(listener.heard)
    observers.started(RUN)
    observers.committed(Batch(9))
    assert observers.ended(lambda: {"status": "failed"}) == [] and listener.heard == heard
