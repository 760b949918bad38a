"""How much of the files that lay there when a run started has been taken: for what is shown while it runs."""

from __future__ import annotations

import os
from collections.abc import Iterator
from glob import iglob
from itertools import islice
from pathlib import Path
from typing import Final

from skyband.framework.plan.model import SourceNode
from skyband.framework.sources.logs import local_path, taken
from skyband.framework.sources.preflight import hidden, local_folder

_MOST: Final = 100_000
"""Files that are counted; of a folder with more no share is shown."""


class Share:
    """``of`` files there were to take at the start, ``taken`` of them are; both None where that cannot be told."""

    def __init__(self, source: SourceNode, checkpoint: Path) -> None:
        self._log = checkpoint / "sources" / "0"
        self._last = -1
        self.taken: int | None = None
        self.of: int | None = None
        root = None if source.path is None or source.format == "delta" else local_folder(source.path)
        if root is None:
            return
        there = list(islice(_files(root), _MOST + 1))
        if 0 < len(there) <= _MOST:
            before = self._new()
            self.taken, self.of = 0, sum(f not in before for f in there)

    def look(self) -> None:
        """Counts what has been taken since the last look. O(files taken since)."""
        if self.of is not None and self.taken is not None:
            self.taken = min(self.of, self.taken + len(self._new()))

    def _new(self) -> set[str | None]:
        found = taken(self._log, self._last)
        self._last = max([self._last, *(t.number for t in found)])
        return {local_path(t.url) for t in found}


def _files(root: str) -> Iterator[str]:
    for start in [root] if os.path.isdir(root) else iglob(root):
        if os.path.isfile(start):
            yield os.path.abspath(start)
        for where, folders, names in os.walk(start):
            folders[:] = [f for f in folders if not hidden(f)]
            yield from (os.path.join(os.path.abspath(where), n) for n in names if not hidden(n))
