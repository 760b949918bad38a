"""Signals: heeded while batches run, at once at any other time and the second time."""

from __future__ import annotations

import os
import signal
import threading

import pytest

from skyband.framework.base.failpoints import VARIABLE, failpoint
from skyband.framework.streaming.spark.stop_signal import Stop, handlers_kept


def test_a_signal_ends_a_command_at_once_unless_it_is_heeded() -> None:
    left: list[int] = []
    stop = Stop()
    before = signal.getsignal(signal.SIGTERM)
    with stop.handled(left.append):
        os.kill(os.getpid(), signal.SIGINT)
        assert left == [signal.SIGINT] and stop.signal is None
        with stop.heeded():
            os.kill(os.getpid(), signal.SIGTERM)
            assert stop.signal == signal.SIGTERM and len(left) == 1
            os.kill(os.getpid(), signal.SIGTERM)
            assert left == [signal.SIGINT, signal.SIGTERM]
        os.kill(os.getpid(), signal.SIGINT)
        assert left == [signal.SIGINT, signal.SIGTERM, signal.SIGINT]
    assert signal.getsignal(signal.SIGTERM) is before


def test_a_closed_terminal_ends_a_command_unless_it_ignores_that() -> None:
    left: list[int] = []
    # The tests themselves may run under nohup.
    kept = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    try:
        with Stop().handled(left.append):
            os.kill(os.getpid(), signal.SIGHUP)
            assert left == [signal.SIGHUP]
        signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as nohup does
        with Stop().handled(left.append):
            os.kill(os.getpid(), signal.SIGHUP)
        assert left == [signal.SIGHUP] and signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, kept)


def test_outside_the_main_thread_nothing_is_installed() -> None:
    before = signal.getsignal(signal.SIGTERM)
    seen: list[object] = []

    def use() -> None:
        with Stop().handled(lambda number: None), handlers_kept():
            seen.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=use)
    thread.start()
    thread.join()
    assert seen == [before]


def test_handlers_are_put_back() -> None:
    before = signal.getsignal(signal.SIGINT)
    with handlers_kept():
        signal.signal(signal.SIGINT, lambda number, frame: None)
    assert signal.getsignal(signal.SIGINT) is before


def test_a_fail_point_sends_another_signal(monkeypatch: pytest.MonkeyPatch) -> None:
    left: list[int] = []
    monkeypatch.setenv(VARIABLE, "a.point.of.this.test:2@TERM")
    with Stop().handled(left.append):
        failpoint("a.point.of.this.test")
        assert left == []
        failpoint("a.point.of.this.test")
        failpoint("a.point.of.this.test")
    assert left == [signal.SIGTERM]
