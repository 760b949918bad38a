"""Errors of the JVM: the texts of their causes, refusals of the operating system, and the log with the rest. Does not import Spark."""

from __future__ import annotations

from pathlib import Path

from skyband.framework.base.errors import SkybandError
from skyband.framework.base.system_failures import SYSTEM_FAILURE_HINT, system_failure_of_jvm
from skyband.framework.spark_adapter.driver import java_cause
from skyband.framework.storage.location import Location

_log_file: Path | None = None
"""The log of this process's JVM."""


def log_file() -> Path | None:
    """Return the path of Spark's log, or None before a JVM has been started."""
    return _log_file


def set_log_file(path: Path) -> None:
    """Note where the log of this process's JVM is."""
    global _log_file
    _log_file = path


def error_texts(e: BaseException) -> str:
    """Return the texts of ``e`` and all its causes, one per line: Spark's own message often omits the root cause."""
    said: list[str] = []
    cause: BaseException | None = e
    while cause is not None and len(said) < 50:
        said.append(f"{type(cause).__name__}: {cause}")
        cause = java_cause(cause) or cause.__cause__
    return "\n".join(said)


def system_failure_error(e: BaseException, place: Location | str, log: Path | None) -> SkybandError | None:
    """SKY-E306 if the operating system's refusal is a cause of ``e``, else None. O(text)."""
    what = system_failure_of_jvm(error_texts(e))
    if what is None:
        return None
    said = f"Spark could not write {place}, or its scratch directory: {what}"
    return SkybandError("SKY-E306", said, hint=f"{SYSTEM_FAILURE_HINT}. Spark's log is {log}")
