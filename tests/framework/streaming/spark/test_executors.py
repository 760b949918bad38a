"""Executors that are not as the driver, and none at all, without a cluster (with one: tests/spark/test_cluster.py)."""

from __future__ import annotations

import json
import platform
from types import SimpleNamespace
from typing import Any

import pytest

from skyband.framework.base.errors import SkybandError
from skyband.framework.streaming.spark import executors


@pytest.fixture(autouse=True)
def asked_anew() -> None:
    executors.require_driver_versions.cache_clear()


def test_versions_name_python_the_code_and_what_results_depend_on() -> None:
    found = executors.versions()
    assert set(found) == {"Python", "skyband", "pyarrow", "numpy", "numba"} and "none" not in found.values()
    assert found["Python"] == ".".join(platform.python_version_tuple()[:2]) and len(found["skyband"]) == 12
    assert executors.versions() == found


def test_on_one_machine_nothing_is_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(executors.DRIVER, raising=False)
    monkeypatch.setattr(executors, "versions", lambda: pytest.fail("looked at"))
    executors.require_driver_versions()


def test_an_executor_that_is_as_the_driver_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(executors.DRIVER, json.dumps(executors.versions()))
    executors.require_driver_versions()


def test_an_executor_that_is_not_says_so_and_the_driver_hears_it(monkeypatch: pytest.MonkeyPatch) -> None:
    theirs = executors.versions()
    monkeypatch.setenv(executors.DRIVER, json.dumps({**theirs, "numpy": "0.1", "skyband": "abc"}))
    with pytest.raises(SkybandError) as e:
        executors.require_driver_versions()
    assert e.value.code == "SKY-E612"
    for said in ("numpy " + theirs["numpy"] + " (here 0.1)", f"skyband {theirs['skyband']} (here abc)", f"on {platform.node()} differs"):
        assert said in e.value.message
    # As it comes back: in the middle of a task's traceback.
    heard = executors.error_from_executor(
        f"Job aborted: Traceback:\n  File x\nskyband.framework.errors.SkybandError: {e.value.render()}\n\tat a.b"
    )
    assert heard is not None and heard.render() == e.value.render()
    assert executors.error_from_executor("Job aborted: Traceback:\nValueError: SKY-E612") is None


@pytest.mark.parametrize(
    "said, told",
    [
        ('java.io.IOException: Cannot run program "/gone/python": error=2', "executors have no Python /gone/python"),
        (
            "pyspark.errors.PySparkRuntimeError: [PYTHON_VERSION_MISMATCH] Python in worker has different version: 3.12 than that in "
            "driver: 3.11, PySpark cannot run",
            "the Python of executors is 3.12, the driver's 3.11",
        ),
    ],
)
def test_sparks_errors_about_another_python(said: str, told: str) -> None:
    found = executors._python_error(f"Job aborted due to stage failure:\n{said}\n\tat x")
    assert found is not None and found.code == "SKY-E612" and found.message == told
    assert executors._python_error("Job aborted: disk full") is None


def session(master: str, there: list[int], stopped: bool = False) -> Any:
    """A session of which ``there`` says how many executors it has, the driver among them, look by look."""
    status = SimpleNamespace(size=lambda: there.pop(0) if len(there) > 1 else there[0])
    context = SimpleNamespace(getExecutorMemoryStatus=lambda: status, isStopped=lambda: stopped)
    return SimpleNamespace(sparkContext=SimpleNamespace(master=master, _jsc=SimpleNamespace(sc=lambda: context)))


def test_no_executor_for_too_long_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(executors.clock, "monotonic", lambda: now[0])
    monkeypatch.setenv(executors.WAIT, "10")
    watch = executors.Watch(session("spark://head:7077", [1, 2, 1, 1, 1]))
    looked = []
    for seconds in (5, 5, 9, 1, 1):
        now[0] += seconds
        if seconds == 1 and len(looked) == 4:
            with pytest.raises(SkybandError) as e:
                watch.look()
            assert e.value.code == "SKY-E614" and "no executor for 10 s" in e.value.message
        else:
            looked.append(watch.look())
    assert looked == [False, True, False, False]
    with pytest.raises(SkybandError):
        executors.Watch(session("spark://head:7077", [1], stopped=True)).look()


def test_a_local_master_needs_no_executors() -> None:
    assert executors.Watch(session("local[2]", [])).look()


def test_a_wait_that_is_no_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(executors.WAIT, "long")
    with pytest.raises(SkybandError) as e:
        executors.Watch(session("spark://head:7077", [1]))
    assert e.value.code == "SKY-E201"
