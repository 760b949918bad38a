"""Private parts of PySpark in its Python workers: the modules they run."""

from __future__ import annotations

from typing import Final

WORKER_MODULES: Final = ("pyspark.worker", "pyspark.sql.pandas.serializers")
"""Modules that every Python worker imports."""


def run_daemon() -> None:
    """Run PySpark's daemon, which forks a worker whenever the JVM asks for one. Does not return before the JVM ends."""
    from pyspark import daemon

    daemon.manager()
