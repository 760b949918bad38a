"""Limits how far each file of the backlog may move Spark's watermark.

Spark reads files in the order of modification, files with equal times in any order. After each batch it sets its watermark to the latest
event time minus the delay. A backlog of more than one batch could so make its own rows late. So a row advances the watermark by its event
time or by the *cap* of its file, whichever is less. The cap is the least event time of all files that may follow, plus the delay. Uses the
standard library only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final

from skyband.framework.sources.logs import AGAIN
from skyband.framework.storage.location import Location

if TYPE_CHECKING:
    from skyband.framework.storage.records import Record

DROP: Final = "drop.json"
NEVER: Final = 1 << 62
"""An instant after all others: the least event time of a file without rows."""
Span = tuple[int, int]
"""The least and the greatest event time, in microseconds, of a file's accepted rows."""
NO_ROWS: Final[Span] = (NEVER, -NEVER)
UNKNOWN: Final[Span] = (0, NEVER)
"""The span of a file that cannot be read yet: it may hold any event time."""


@dataclass(frozen=True, slots=True)
class UnreadFile:
    """A file that Spark has not read. ``modified_ms``: -1 if the next batch takes it anyway. ``size`` in bytes, None if unknown."""

    url: str
    modified_ms: int
    size: int | None


@dataclass(slots=True)
class WatermarkCaps:
    """The caps of a query, and of a batch that it repeats: ``<sink>/_skyband/drop.json``.

    ``caps``: URL -> cap in microseconds, None for a file without a cap; ``others``: the cap of all other files. ``greatest``: the
    greatest event time of the rows read under caps and not given to the watermark since. ``released``: F of the last time that was done.
    """

    path: Location
    caps: dict[str, int | None] = field(default_factory=dict)
    others: int | None = None
    greatest: int | None = None
    released: int | None = None

    @classmethod
    def load(cls, home: Location) -> WatermarkCaps:
        """Return the caps of a job, empty if there are none. Raises SkybandError SKY-E303 if the file cannot be read."""
        path = home / DROP
        kept = _record().need(path)
        return cls(path) if kept is None else cls(path, **kept)

    def save(self) -> None:
        """Replace the file in one step; it is on disk when this returns."""
        said = {"caps": self.caps, "others": self.others, "greatest": self.greatest, "released": self.released}
        _record().write(self.path, said)

    @property
    def capped(self) -> bool:
        """Return True if any file has a cap."""
        return self.others is not None or any(cap is not None for cap in self.caps.values())

    def cap(self, url: str) -> int | None:
        """Return the cap of a file."""
        return self.caps.get(url, self.others)

    def plan(self, begun: Sequence[str], caps: Mapping[str, int | None], others: int | None) -> bool:
        """Set ``caps`` and ``others``, and keep those of the files ``begun``, whose batch is repeated. Return True if any changed."""
        before = self.caps, self.others
        kept = {u: cap for u in begun if (cap := self.cap(u)) is not None or others is not None}
        self.caps, self.others = {**caps, **kept}, others
        return (self.caps, self.others) != before


@cache
def _record() -> Record[Any]:
    # Tasks' workers import this module, and need no models.
    from skyband.framework.storage.records import BacklogFile, Record

    said = "{path} cannot be read: {why}. It says how far source files move the watermark"
    return Record(BacklogFile, said, f"restore it from a backup, or {AGAIN}", sort=True)


def fits(unread: Sequence[UnreadFile], files: int | None, size: int) -> bool:
    """Return True if one batch takes all ``unread``: at most ``files`` files or, if that is None, ``size`` bytes, and at least one file."""
    if files is not None or len(unread) < 2:
        return len(unread) <= (files or 1)
    return all(p.size is not None for p in unread) and sum(p.size or 0 for p in unread) <= size


def caps(unread: Sequence[UnreadFile], spans: Mapping[str, Span], delay: int) -> dict[str, int | None]:
    """Return the cap of every file that may move the watermark too far, None for the others. O(n log n).

    ``spans``: of every file; ``delay`` in microseconds. Spark reads files with equal times of modification in any order.
    """
    found: dict[str, int | None] = {}
    later = NEVER
    ordered = sorted(unread, key=lambda p: p.modified_ms, reverse=True)
    for _, group in groupby(ordered, key=lambda p: p.modified_ms):
        together = list(group)
        first, second = sorted([*(spans[p.url][0] for p in together), NEVER, NEVER])[:2]
        for p in together:
            least, greatest = spans[p.url]
            cap = min(later, second if least == first else first) + delay
            found[p.url] = cap if greatest > cap else None
        later = min(later, first)
    return found


def least(spans: Mapping[str, Span], delay: int) -> int:
    """Return the cap of a file without a span, which may come at any time."""
    return min((a for a, _ in spans.values()), default=NEVER) + delay
