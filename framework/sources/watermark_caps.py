"""A drop, the files that lie there when a run starts, is a unit: how far each of them may move Spark's watermark.

Spark reads files in the order of modification, equal times in any order, and after each batch puts its watermark at the latest event
time less the delay. A drop that takes more than one batch would so make its own rows late. So a row counts for the watermark with its event
time or its file's *cap*, whichever is less: the least event time of all files that may come after it, and the delay. Standard library only.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Final

from skyband.framework.base.errors import SkybandError
from skyband.framework.sources.logs import AGAIN
from skyband.framework.storage import durable

DROP: Final = "drop.json"
NEVER: Final = 1 << 62
"""Later than all instants: the least event time of a file without rows."""
Span = tuple[int, int]
"""The least and the greatest event time, in microseconds, of a file's rows that are accepted so far."""
NO_ROWS: Final[Span] = (NEVER, -NEVER)
UNKNOWN: Final[Span] = (0, NEVER)
"""Of a file that cannot be read now and will be later: it may hold anything."""


@dataclass(frozen=True, slots=True)
class UnreadFile:
    """A file Spark has not read. ``modified_ms``: -1 if the next batch has it anyway. ``size`` in bytes: None if it is not known."""

    url: str
    modified_ms: int
    size: int | None


@dataclass(slots=True)
class WatermarkCaps:
    """``<sink>/_skyband/drop.json``: what a query, and a batch of it that is repeated, has to count with.

    ``caps``: URL -> cap in microseconds, None for a file that has none; ``others``: that of all files it does not name. ``greatest``: the
    greatest event time of the rows read under caps and not given to the watermark since. ``released``: F of the last time that was done.
    """

    path: Path
    caps: dict[str, int | None] = field(default_factory=dict)
    others: int | None = None
    greatest: int | None = None
    released: int | None = None

    @classmethod
    def load(cls, home: Path) -> WatermarkCaps:
        """The drop of a job, empty if there is none. SkybandError SKY-E303 if it cannot be read."""
        # Tasks' workers import this module, and need no models.
        from skyband.framework.storage import records

        path = home / DROP
        try:
            kept = records.read_record(path, records.backlog_model())
        except records.InvalidRecord as e:
            said = f"{path} cannot be read: {e}. It says how far source files move the watermark"
            raise SkybandError("SKY-E303", said, hint=f"restore it from a backup, or {AGAIN}") from e
        return cls(path) if kept is None else cls(path, **kept)

    def save(self) -> None:
        """Replaces the file in one step; it is on the disk when this returns."""
        said = {"caps": self.caps, "others": self.others, "greatest": self.greatest, "released": self.released}
        durable.replace(self.path, json.dumps(said, indent=1, sort_keys=True))

    @property
    def capped(self) -> bool:
        """Whether any file has a cap."""
        return self.others is not None or any(cap is not None for cap in self.caps.values())

    def cap(self, url: str) -> int | None:
        """The cap of a file."""
        return self.caps.get(url, self.others)

    def plan(self, begun: Sequence[str], caps: Mapping[str, int | None], others: int | None) -> bool:
        """Takes up ``caps`` and ``others`` for files that are to be read, and keeps those of a batch that has ``begun``: it is repeated

        as it was. Whether anything has changed.
        """
        before = self.caps, self.others
        kept = {u: cap for u in begun if (cap := self.cap(u)) is not None or others is not None}
        self.caps, self.others = {**caps, **kept}, others
        return (self.caps, self.others) != before


def fits(pieces: Sequence[UnreadFile], files: int | None, size: int) -> bool:
    """Whether one batch takes all of ``pieces``. It takes at most ``files`` files or, if that is None, ``size`` bytes, and one at least."""
    if files is not None or len(pieces) < 2:
        return len(pieces) <= (files or 1)
    return all(p.size is not None for p in pieces) and sum(p.size or 0 for p in pieces) <= size


def caps(pieces: Sequence[UnreadFile], spans: Mapping[str, Span], delay: int) -> dict[str, int | None]:
    """The cap of every piece that may move the watermark too far, None for those that cannot. O(n log n).

    ``spans``: of every piece; ``delay`` in microseconds. Pieces of one time of modification may come in any order.
    """
    found: dict[str, int | None] = {}
    later = NEVER
    ordered = sorted(pieces, key=lambda p: p.modified_ms, reverse=True)
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
    """The cap of a file that is in no span, and comes at any time."""
    return min((a for a, _ in spans.values()), default=NEVER) + delay
