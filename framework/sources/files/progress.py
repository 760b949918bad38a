"""Counts how many files of the backlog a run has taken, for its progress display."""

from __future__ import annotations

from typing import Final

from skyband.framework.plan.model import SourceNode
from skyband.framework.sources.files.ledger import Ledger
from skyband.framework.sources.files.listing import listing
from skyband.framework.sources.files.preflight import FORMATS
from skyband.framework.sources.logs import local_path, taken
from skyband.framework.storage.location import Location

_MOST: Final = 100_000
"""Most files that are counted; no progress is shown for a larger directory."""


class FileProgress:
    """``of``: the files to take at the start; ``taken``: those taken so far. Both are None if they are unknown."""

    def __init__(self, source: SourceNode, checkpoint: Location) -> None:
        self._log = checkpoint / "sources" / "0"
        self._last = -1
        self.taken: int | None = None
        self.of: int | None = None
        found = listing(source) if source.format in FORMATS else None
        if found is not None and 0 < len(found.files) <= _MOST:
            before = self._new() | {local_path(u) for u in Ledger.load(checkpoint.parent).aside}
            self.taken, self.of = 0, sum(f not in before for f in found.files)

    def look(self) -> None:
        """Count the files taken since the last call. O(files taken since)."""
        if self.of is not None and self.taken is not None:
            self.taken = min(self.of, self.taken + len(self._new()))

    def _new(self) -> set[str | None]:
        found = taken(self._log, self._last)
        self._last = max([self._last, *(t.number for t in found)])
        return {local_path(t.url) for t in found}
