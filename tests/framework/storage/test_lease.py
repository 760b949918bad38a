"""The lock of a sink on object storage, between real processes: one holder at a time, also when one is killed or stands still."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from skyband.framework.base.errors import SkybandError
from skyband.framework.storage.epochs import LEASE_VARIABLE, epoch_of, lock_holder
from skyband.framework.storage.lease import Lease
from skyband.framework.storage.location import location

HOLDER = """
import sys
from skyband.framework.storage.lease import Lease
lease = Lease(sys.argv[1], lambda: print("lost", flush=True))
lease.take()
print("held", lease.epoch, flush=True)
sys.stdin.readline()
lease.give_back()
print("given back", flush=True)
"""


@contextmanager
def holder(directory: str) -> Iterator[subprocess.Popen[str]]:
    """A process that holds the lock until a line comes."""
    process = subprocess.Popen([sys.executable, "-c", HOLDER, directory], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def said(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def test_a_bucket_that_is_not_there_is_told(directory: str) -> None:
    with pytest.raises(SkybandError) as e:
        taken("s3://no-such-bucket/x")
    assert e.value.code == "SKY-E630" and "\n" not in e.value.message


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(LEASE_VARIABLE, "1.2")


def taken(directory: str) -> Lease:
    lease = Lease(directory)
    lease.take()
    return lease


def test_the_lock_goes_from_one_to_the_next(directory: str) -> None:
    for epoch in (1, 2, 3):
        lease = taken(directory)
        assert (lease.epoch, lease.after_crash, epoch_of(directory)) == (epoch, False, epoch)
        assert lock_holder(lease.path) == os.getpid()
        lease.give_back()
        assert lock_holder(lease.path) is None
        assert epoch_of(directory) is None


def test_who_comes_while_it_is_held_is_refused_and_who_was_killed_is_followed(directory: str) -> None:
    with holder(directory) as first:
        assert said(first) == "held 1"
        with pytest.raises(SkybandError) as e:
            taken(directory)
        assert e.value.code == "SKY-E302" and f"process {first.pid} " in e.value.message
        first.kill()
        first.wait()
        notices: list[str] = []
        lease = Lease(directory)
        lease.take(notices.append)
        assert (lease.epoch, lease.after_crash) == (2, True) and f"process {first.pid} " in notices[0]
        lease.give_back()


def test_who_stands_still_for_longer_than_its_lease_loses_it_and_hears_of_it(directory: str) -> None:
    with holder(directory) as first:
        assert said(first) == "held 1"
        os.kill(first.pid, signal.SIGSTOP)
        lease = taken(directory)
        assert (lease.epoch, lease.after_crash) == (2, True)
        os.kill(first.pid, signal.SIGCONT)
        assert said(first) == "lost"
        assert first.stdin is not None
        first.stdin.write("\n")
        first.stdin.flush()
        assert said(first) == "given back"
        # It is not: what is another's stays.
        content = json.loads((location(directory) / "_skyband" / "lock").read_text())
        assert content["epoch"] == 2 and "free" not in content
        lease.give_back()


def test_who_stands_still_for_less_goes_on(directory: str) -> None:
    with holder(directory) as first:
        assert said(first) == "held 1"
        os.kill(first.pid, signal.SIGSTOP)
        time.sleep(1.5)
        os.kill(first.pid, signal.SIGCONT)
        with pytest.raises(SkybandError):
            taken(directory)
        assert first.stdin is not None
        first.stdin.write("\n")
        first.stdin.flush()
        assert said(first) == "given back"


def test_of_many_who_come_at_once_one_gets_it(directory: str) -> None:
    with holder(directory) as a, holder(directory) as b, holder(directory) as c:
        heard = sorted(said(p) for p in (a, b, c))
        assert heard == ["", "", "held 1"]


def test_a_store_that_does_not_answer_is_told(directory: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    monkeypatch.setattr("skyband.framework.storage.paths._SECONDS", 1)
    with pytest.raises(SkybandError) as e:
        taken("s3://bucket/nowhere")
    assert e.value.code == "SKY-E630" and "\n" not in e.value.message
