"""Turn the exception that ended a command into the user's error and an exit code. Does not import Spark."""

from __future__ import annotations

import errno
from typing import Final

from skyband.framework.base.errors import SkybandError, SpecErrors
from skyband.framework.base.system_failures import NO_MEMORY_HINT, SYSTEM_FAILURE_HINT, no_memory, system_failure
from skyband.framework.streaming.spark.jvm import SPARK_JVM
from skyband.framework.streaming.spark.stop_signal import STOP

DEFECT: Final = "SKY-E900"
_OF_A_NAME: Final = (errno.ENAMETOOLONG, errno.ELOOP, errno.EACCES, errno.EPERM, errno.ENOTDIR, errno.EISDIR, errno.EROFS)
"""Errors of the operating system about a file's name or permissions."""
_DURING_A_RUN: Final = (
    "SKY-E502", "SKY-E506", "SKY-E612", "SKY-E613", "SKY-E614", "SKY-E620", "SKY-E630", "SKY-E631", "SKY-E640",
)  # fmt: skip


def failure(e: Exception) -> SkybandError | None:
    """Return the error to show for ``e``: the death of the JVM, its own error, or a defect. None if a signal stopped the command.

    This may wait for a JVM that is about to end (``SparkJvm.death``).
    """
    if isinstance(e, SpecErrors):
        return e.errors[0]
    died = None if isinstance(e, SkybandError) and not e.code.startswith("SKY-E3") else SPARK_JVM.death(e)
    if died and STOP.signal is not None:
        return None
    return died or (e if isinstance(e, SkybandError) else _refused(e) or _unusable_name(e) or _defect(e))


def _refused(e: Exception) -> SkybandError | None:
    """Return SKY-E306 for a full disk, a quota, an I/O error, too many open files or too little memory; else None."""
    if no_memory(e):
        return SkybandError("SKY-E306", "the operating system gave no more memory or threads", hint=NO_MEMORY_HINT)
    what = system_failure(e) if isinstance(e, (OSError, ImportError)) else None
    subject = f"{e.filename} cannot be written" if isinstance(e, OSError) and e.filename else "the operating system failed"
    return None if what is None else SkybandError("SKY-E306", f"{subject}: {what}", hint=SYSTEM_FAILURE_HINT)


def _unusable_name(e: Exception) -> SkybandError | None:
    """Return SKY-E203 if the operating system does not accept a file's name or denies access; else None."""
    if isinstance(e, OSError) and e.errno in _OF_A_NAME and e.filename is not None:
        return SkybandError("SKY-E203", f"{e.filename} cannot be used: {(e.strerror or 'unknown error').lower()}")
    return None


def _defect(e: Exception) -> SkybandError:
    said = f"a defect of Skyband itself: {type(e).__name__}: {e}"
    return SkybandError(DEFECT, said, hint="set SKYBAND_DEBUG=1 to see the traceback, and report it")


def exit_code(shown: SkybandError) -> int:
    """Return 2 for a mistake of the user's, 3 if the run failed."""
    return 3 if shown.code.startswith(("SKY-E3", "SKY-E9")) or shown.code in _DURING_A_RUN else 2
