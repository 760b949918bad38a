"""Spark's failures as operating-system failures, where one of them is the cause. The adapter to how PySpark keeps causes."""

from __future__ import annotations

from pathlib import Path

from skyband.framework.base.errors import SkybandError
from skyband.framework.base.machine import HINT, engine_gave_out


def whole_story(e: BaseException) -> str:
    """What ``e`` and all its causes say, a line or more each: Spark's own message often ends before the cause that counts."""
    said: list[str] = []
    cause: BaseException | None = e
    while cause is not None and len(said) < 50:
        said.append(f"{type(cause).__name__}: {cause}")
        # PySpark converts the causes of a Java exception, and keeps them here.
        cause = getattr(cause, "_cause", None) or cause.__cause__
    return "\n".join(said)


def machine_refused(e: BaseException, place: Path | str, log: Path | None) -> SkybandError | None:
    """SKY-E306 if the operating system's refusal is a cause of ``e``, else None. O(text)."""
    what = engine_gave_out(whole_story(e))
    if what is None:
        return None
    said = f"Spark could not write {place}, or its scratch directory: {what}"
    return SkybandError("SKY-E306", said, hint=f"{HINT}. The engine's log is {log}")
