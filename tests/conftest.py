"""Fixtures and settings that every test shares."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

from tests.seeds import cases

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).resolve().parent.parent

# Spark's workers find operators that tests define.
os.environ["PYTHONPATH"] = os.pathsep.join([str(ROOT), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]).rstrip(os.pathsep)

# PySpark takes a process whose main module has no file (one of xdist's) for one of its own doctests.
if not hasattr(sys.modules["__main__"], "__file__"):
    sys.modules["__main__"].__file__ = __file__

# What a command's lines are held to does not depend on how busy the machine is; processes that tests start are told, too.
os.environ["SKYBAND_SILENCE"] = "3600"

_relaxed = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]
settings.register_profile("ci", deadline=None, max_examples=100, derandomize=True, suppress_health_check=_relaxed)
settings.register_profile("quick", deadline=None, max_examples=cases(100), derandomize=True, suppress_health_check=_relaxed)
settings.register_profile("dev", deadline=None, max_examples=100, suppress_health_check=_relaxed)
settings.register_profile("deep", deadline=None, max_examples=2000, suppress_health_check=_relaxed)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files with tests of Spark come first: they take longest, and of two processes neither shall wait for the other's last one."""
    engine = {item.path for item in items if item.get_closest_marker("spark")}
    items.sort(key=lambda item: item.path not in engine)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """A run of all tests says which groups of slow tests have not passed lately."""
    from tests.slow_groups import read, report

    if config.args_source is pytest.Config.ArgsSource.TESTPATHS and (text := report(read())):
        terminalreporter.write_line(text)


@pytest.fixture(autouse=True)
def nothing_concealed() -> Iterator[None]:
    """What one test's spec took from the environment does not change the messages of the next."""
    from skyband.framework.base.redaction import reveal_all

    yield
    reveal_all()


@pytest.fixture(scope="session")
def root() -> Path:
    """The checkout's directory."""
    return ROOT


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """One Spark session for the whole test process: two cores, two shuffle partitions."""
    from skyband.framework.streaming.spark.session import get_session

    session = get_session(app_name="skyband-tests", shuffle_partitions=2, master="local[2]")
    yield session
    session.stop()


@pytest.fixture(scope="session")
def shared_data() -> Callable[[str], Path]:
    """``shared_data(name)``: a path below the shared directory (``SKYBAND_SHARED``); skips the test where it is not there."""
    directory = (ROOT / os.environ.get("SKYBAND_SHARED", "../shared")).resolve()

    def find(name: str) -> Path:
        path = directory / name
        if not path.exists():
            pytest.skip(f"needs the shared data {name} (directory SKYBAND_SHARED, by default ../shared)")
        return path

    return find
