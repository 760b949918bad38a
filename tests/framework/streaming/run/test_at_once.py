"""A program starts several jobs at once, in one engine: each with its own settings and pools of workers."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from typing import Any

import pytest

from skyband.framework.streaming.run.query import _set_for_a_query
from skyband.framework.streaming.spark.worker_pools import pool

JOBS = 4


class Conf(dict[str, str]):
    def set(self, name: str, value: str) -> None:
        self[name] = value


class FakeSpark:
    """A session or a context, as far as a start changes it."""

    def __init__(self) -> None:
        self.conf, self.environment = Conf(name="before"), {"other": "stays"}


def settings(engine: Any, job: str) -> tuple[AbstractContextManager[None], Callable[[], object]]:
    return _set_for_a_query(engine, {"name": job}), lambda: engine.conf["name"]


def pools(engine: Any, job: str) -> tuple[AbstractContextManager[None], Callable[[], object]]:
    return pool(engine, {"name": job}), lambda: engine.environment["name"]


@pytest.mark.parametrize("what", [settings, pools])
def test_each_is_started_with_its_own(what: Callable[..., tuple[AbstractContextManager[None], Callable[[], object]]]) -> None:
    engine, inside, together = FakeSpark(), threading.Event(), threading.Barrier(JOBS)

    def start(job: str) -> bool:
        entered, found = what(engine, job)
        together.wait(10)
        with entered:
            # Whoever is in waits for another one to come, which must not happen.
            met = inside.is_set()
            inside.set()
            first = found()
            threading.Event().wait(0.02)
            second = found()
            inside.clear()
        return not met and first == second == job

    with ThreadPoolExecutor(JOBS) as threads:
        assert list(threads.map(start, [f"job {n}" for n in range(JOBS)])) == [True] * JOBS
    assert engine.conf == {"name": "before"} and engine.environment == {"other": "stays"}
