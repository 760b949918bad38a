"""Classify operating-system failures: a full disk, a quota, a read-only file system, no more open files, a broken device.

They are no fault of the job: it goes on once that is fixed. Libraries and the JVM have no exception of their own for most of them.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from skyband.framework.base.errors import SkybandError

GAVE_OUT: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EMFILE, errno.ENFILE, errno.EIO)
"""No space left, quota exceeded, file too large, read-only file system, too many open files (of the process, of the system), I/O error."""

HINT: Final = "make room, raise the limit (ulimit) or fix the device, then run again: nothing that was committed is lost"

WRITABLE: Final = "may this user write to the sink, and does nothing else? Then run again: nothing that was committed is lost"
"""What to do about a table that cannot be written for another reason."""

# delta-rs and Arrow have no exception of their own for these: the number or the words stand in the text.
_NUMBER: Final = re.compile(r"(?:os error|errno) (\d+)")
# A line of a Java stack trace, or of a Python one within it: the words count only behind an exception's name, for it may quote the spec.
_WORDS: Final = "|".join(re.escape(os.strerror(n)) for n in GAVE_OUT)
_RAISED: Final = re.compile(rf"(?:exception|error)\b[^\n]*?\b({_WORDS})\b", re.IGNORECASE)
_QUOTA: Final = re.compile(r"QuotaExceededException", re.IGNORECASE)
"""What HDFS raises."""
_ARROWS: Final = re.compile("\x1b\\[[0-9;]*m|\u21b3")


def gave_out(e: BaseException) -> str | None:
    """The system's words for what the machine refused, if that is what ``e`` (an OSError, or a library's error that quotes one) says."""
    said = str(e).lower()
    numbers = {int(n) for n in _NUMBER.findall(said)} | ({e.errno} if isinstance(e, OSError) and e.errno else set())
    return next((os.strerror(n).lower() for n in GAVE_OUT if n in numbers or os.strerror(n).lower() in said), None)


def engine_gave_out(said: str) -> str | None:
    """The system's words, if a JVM's or a worker's failure ``said`` names one of these as its cause, however deep."""
    found = _RAISED.search(said)
    if found is not None:
        return found[1].lower()
    return os.strerror(errno.EDQUOT).lower() if _QUOTA.search(said) else None


def one_line(e: BaseException) -> str:
    """A library's message of many lines, with colours and arrows, as one."""
    return ": ".join(line.strip() for line in _ARROWS.sub("", str(e)).splitlines() if line.strip())


@contextmanager
def told(place: object) -> Iterator[None]:
    """An OSError of the machine's inside as SkybandError SKY-E306 that names ``place``; anything else as it is."""
    try:
        yield
    except OSError as e:
        what = gave_out(e)
        if what is None:
            raise
        raise SkybandError("SKY-E306", f"{place} cannot be written: {what}", hint=HINT) from e
