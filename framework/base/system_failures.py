"""Classify operating-system failures: a full disk, a quota, a read-only file system, too many open files, no memory, a broken device.

They are no fault of the job, which continues once they are fixed. Libraries and the JVM have no exception of their own for most of them.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from skyband.framework.base.errors import SkybandError

SYSTEM_FAILURES: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EMFILE, errno.ENFILE, errno.EIO)
"""No space left, quota exceeded, file too large, read-only file system, too many open files (of the process, of the system), I/O error."""

SYSTEM_FAILURE_HINT: Final = "free space, raise the limit (ulimit) or fix the device, then run again: committed data is safe"

NO_MEMORY_HINT: Final = "raise the limit (ulimit -v, ulimit -u, or that of the container), or use a larger machine: committed data is safe"

NOT_WRITABLE_HINT: Final = "check that this user may write to the sink and that nothing else does, then run again: committed data is safe"
"""The hint for a table that cannot be written for another reason."""

# delta-rs and Arrow report these only in the text of an error, by number or by words.
_NUMBER: Final = re.compile(r"(?:os error|errno) (\d+)")
# In a stack trace the words count only after the name of an exception, as other lines may quote the spec.
_WORDS: Final = "|".join(re.escape(os.strerror(n)) for n in SYSTEM_FAILURES)
_RAISED: Final = re.compile(rf"(?:exception|error)\b[^\n]*?\b({_WORDS})\b", re.IGNORECASE)
_QUOTA: Final = re.compile(r"QuotaExceededException", re.IGNORECASE)
"""What HDFS raises."""
_DECORATION: Final = re.compile("\x1b\\[[0-9;]*m|\u21b3")


def system_failure(e: BaseException) -> str | None:
    """Return the system's words for the failure, or None if ``e`` (an OSError, or a library's error that quotes one) is not one."""
    said = str(e).lower()
    numbers = {int(n) for n in _NUMBER.findall(said)} | ({e.errno} if isinstance(e, OSError) and e.errno else set())
    return next((os.strerror(n).lower() for n in SYSTEM_FAILURES if n in numbers or os.strerror(n).lower() in said), None)


_NO_MEMORY: Final = ("failed to map segment", "cannot allocate memory", "can't start new thread", "unable to allocate")
"""What the dynamic loader, the system, Python and NumPy say where a limit leaves too little memory or too few threads."""


def no_memory(e: BaseException) -> bool:
    """Return True if ``e`` or one of its causes says that there is too little memory, or no room for another thread. O(causes)."""
    cause: BaseException | None = e
    for _ in range(20):
        if cause is None:
            return False
        if isinstance(cause, MemoryError) or (isinstance(cause, OSError) and cause.errno == errno.ENOMEM):
            return True
        if isinstance(cause, (ImportError, OSError, RuntimeError)) and any(words in str(cause).lower() for words in _NO_MEMORY):
            return True
        cause = cause.__cause__ or cause.__context__
    return False


def system_failure_of_jvm(text: str) -> str | None:
    """Return the system's words if ``text``, the failure of a JVM or a worker, names such a failure as a cause, or None."""
    found = _RAISED.search(text)
    if found is not None:
        return found[1].lower()
    return os.strerror(errno.EDQUOT).lower() if _QUOTA.search(text) else None


def one_line(e: BaseException) -> str:
    """Return a library's message of several lines, with colours and arrows, as one plain line."""
    return ": ".join(line.strip() for line in _DECORATION.sub("", str(e)).splitlines() if line.strip())


@contextmanager
def raising_system_failures(path: object) -> Iterator[None]:
    """Raise SkybandError SKY-E306, which names ``path``, for an operating-system failure inside; other errors pass."""
    try:
        yield
    except OSError as e:
        what = system_failure(e)
        if what is None:
            raise
        raise SkybandError("SKY-E306", f"{path} cannot be written: {what}", hint=SYSTEM_FAILURE_HINT) from e
