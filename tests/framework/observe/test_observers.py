"""Observers hear of all that happens, in its order, and can neither delay nor fail a run."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from types import SimpleNamespace
from typing import Any

import pytest

from skyband.framework.console.receivers import NotDelivered
from skyband.framework.observe import observers as module
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


class Refused(Listener):
    name = "refused"

    def close(self, seconds):
        raise NotDelivered("the receiver is full", 7)


def test_an_observer_counts_its_events_itself():
    assert _run(Observers([Refused()])) == ["refused: 7 events were not delivered, the last one for this reason: the receiver is full"]


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


@pytest.mark.parametrize("method", ["started", "phase", "committed", "ended", "close"])
def test_an_observer_that_is_stuck_anywhere_delays_no_other_and_the_end_by_its_patience(method: str) -> None:
    release, listener = threading.Event(), Listener()
    stuck = type("Stuck", (Observer,), {"name": "stuck", method: lambda *_: release.wait(60)})()
    observers = Observers([stuck, listener], patience=0.5)
    began = time.monotonic()
    said = _run(observers)
    assert time.monotonic() - began < 30 and not release.is_set()
    assert listener.heard[0] == ("started", "run") and listener.heard[-2:] == [("ended", "done"), ("closed",)] and len(listener.heard) == 7
    missed = {"started": "6 events were", "phase": "5 events were", "committed": "4 events were", "ended": "1 event was"}
    assert said == [f"stuck: {missed[method]} not delivered in time" if method in missed else "stuck: it was not closed in time"]
    release.set()


def test_a_run_that_never_began_does_not_wait_for_a_stuck_observer() -> None:
    release = threading.Event()
    stuck = type("Stuck", (Observer,), {"name": "stuck", "close": lambda *_: release.wait(60)})()
    began = time.monotonic()
    assert Observers([stuck], patience=0.2).ended(lambda: 1 / 0) == ["stuck: it was not closed in time"]  # type: ignore[arg-type, return-value]
    assert time.monotonic() - began < 30 and not release.is_set()
    release.set()


def test_a_released_observer_takes_nothing_of_a_run_that_is_over_and_its_thread_ends() -> None:
    release, heard = threading.Event(), []

    class Stuck(Observer):
        name = "stuck"

        def committed(self, batch, at):
            heard.append(batch.number)
            release.wait(60)

        def close(self, seconds):
            heard.append("closed")

    before = set(threading.enumerate())
    observers = Observers([Stuck()], patience=0.2)
    _run(observers)
    release.set()
    for thread in set(threading.enumerate()) - before:
        thread.join(30)
        assert not thread.is_alive()
    assert heard == [0, "closed"]


@pytest.mark.parametrize(
    "raised", [SystemExit(3), KeyboardInterrupt(), GeneratorExit(), type("Mute", (Exception,), {"__str__": lambda self: 1 / 0})()]
)
def test_whatever_an_observer_raises_it_hears_the_rest(raised: BaseException) -> None:
    class Raises(Listener):
        name = "raises"

        def started(self, run):
            raise raised

    observer = Raises()
    (said,) = _run(Observers([observer]))
    assert said.startswith(f"raises: 1 event was not delivered, the last one for {type(raised).__name__}: ")
    assert [h[0] for h in observer.heard] == ["phase", "committed", "committed", "committed", "ended", "closed"]


def test_a_slow_observer_that_lost_events_is_reported_although_it_closed_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ROOM", 5)
    release = threading.Event()

    class Slow(Listener):
        name = "slow"

        def started(self, run):
            release.wait(60)

    slow = Slow()
    observers = Observers([slow])
    observers.started(RUN)
    for number in range(50):
        observers.committed(Batch(number))
    release.set()
    (said,) = observers.ended(lambda: {"status": "done"})
    taken = [h for h in slow.heard if h[0] == "committed"]
    assert said == f"slow: {50 - len(taken)} events were not delivered in time" and 4 <= len(taken) <= 5
    assert slow.heard[-2:] == [("ended", "done"), ("closed",)]


def test_what_happens_after_the_end_is_not_kept() -> None:
    observers = Observers([Listener()])
    _run(observers)
    observers.phase("late")
    observers.committed(Batch(7))
    assert observers._each[0]._events.empty()


HANDLED = """
import signal, sys, threading
from types import SimpleNamespace
from skyband.framework.observe.observers import Observer, Observers, StartedRun
from skyband.framework.streaming.run.batch import Batch

taken = []

class Counts(Observer):
    def committed(self, batch, at):
        taken.append(batch.number)

observers = Observers([Counts()])
observers.started(StartedRun("run", SimpleNamespace(job="j"), "/t", "s.yaml", False))
handled = []

def handler(number, frame):
    handled.append(1)
    observers.phase("stopping")
    observers.committed(Batch(-1))
    if len(handled) == 2000:
        observers.ended(lambda: {"status": "stopped"})

signal.signal(signal.SIGALRM, handler)
signal.setitimer(signal.ITIMER_REAL, 0.0005, 0.0005)
sent = 0
while len(handled) < 2000:
    observers.committed(Batch(sent))
    sent += 1
signal.setitimer(signal.ITIMER_REAL, 0)
print("over", len(handled), bool(taken))
"""


def test_a_signal_handler_can_report_and_end_while_the_main_thread_reports() -> None:
    """With ``queue.Queue`` the handler waited for ever for the lock that the main thread held."""
    done = subprocess.run([sys.executable, "-c", HANDLED], capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0 and done.stdout.split()[0::2] == ["over", "True"], done.stderr
