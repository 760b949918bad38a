"""The backlog of a job while it runs: the files of its local sources that no batch has taken."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from skyband.framework.sources.files.ledger import Ledger
from skyband.framework.sources.files.listing import listing
from skyband.framework.sources.logs import local_path, taken
from skyband.framework.sources.registry import source_format

if TYPE_CHECKING:
    from skyband.framework.plan.model import Plan, SourceNode

INTERVAL: Final = 15.0
"""The least seconds between two looks at a source's directory."""
_SHARE: Final = 50
"""A look that takes a second is followed by so many without one."""
_MOST: Final = 200_000
"""Most files of a directory that is looked at again."""


class SourceBacklog:
    """What waits at the local sources of a job. ``home``: the job's directory beside its tables. ``clock``: seconds, for tests."""

    def __init__(self, plan: Plan, home: Path, clock: Callable[[], float] = time.monotonic) -> None:
        parts = [part for _, part in plan.source.each if source_format(part.format).of_files and part.path is not None]
        self._parts = [_Part(part, home) for part in parts]
        self._clock = clock
        self._next = float("-inf")
        self._last: tuple[int, int] | None = None
        self._looking = threading.Lock()

    def look(self) -> tuple[int, int] | None:
        """Return (files, bytes) that wait, at most ``INTERVAL`` old; None if that cannot be known. O(files of the directories).

        Thread safe: while one thread looks, others get what was known before.
        """
        began = self._clock()
        if self._parts and began >= self._next and self._looking.acquire(blocking=False):
            try:
                found = [part.waiting() for part in self._parts]
                known = [f for f in found if f is not None]
                self._last = (sum(n for n, _ in known), sum(size for _, size in known)) if len(known) == len(found) else None
                now = self._clock()
                self._next = now + max(INTERVAL, _SHARE * (now - began))
            finally:
                self._looking.release()
        return self._last


class _Part:
    """One source of files. Reads of Spark's log of its files only what is new."""

    def __init__(self, source: SourceNode, home: Path) -> None:
        self._source = source
        self._home = home
        self._log = home / "checkpoint" / "sources" / str(source.number)
        self._seen = -1
        self._taken: set[str | None] = set()
        self._too_many = False

    def waiting(self) -> tuple[int, int] | None:
        """Return the number and the size of the files that wait; None for a remote or very large directory."""
        # Before the listing: what a batch takes in between is forgotten below, as the listing may not have it, and never read again.
        new = [] if self._too_many else taken(self._log, self._seen)
        found = None if self._too_many else listing(self._source)
        if found is None or len(found.files) > _MOST:
            self._too_many = found is not None
            return None
        self._seen = max([self._seen, *(t.number for t in new)])
        self._taken.update(local_path(t.url) for t in new)
        aside = {local_path(url) for url in Ledger.load(self._home, self._source.number).aside}
        waiting = [f for f in found.files if f not in self._taken and f not in aside]
        # What is no longer there need not be remembered.
        self._taken.intersection_update(found.files)
        return len(waiting), sum(map(_size, waiting))


def _size(path: str) -> int:
    with suppress(OSError):
        return os.path.getsize(path)
    return 0
