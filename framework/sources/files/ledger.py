"""What a job records about single source files beyond Spark's log: ``<sink>/_skyband/files.json``.

The file is replaced in one step and durable before anything depends on it, so that files set aside stay so after a kill.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from skyband.framework.sources.logs import AGAIN
from skyband.framework.storage.location import Location

if TYPE_CHECKING:
    from skyband.framework.storage.records import Record

LEDGER: Final = "files.json"


def ledger_name(number: int) -> str:
    """Return the name of the ledger of the job's source ``number``: ``files.json``, ``files-2.json``."""
    return f"files-{number}.json" if number else LEDGER


@dataclass(frozen=True, slots=True)
class SetAside:
    """A file that cannot be read: the batch that leaves it out, its size in bytes, the reason."""

    batch: int
    bytes: int
    said: str


@dataclass(slots=True)
class Ledger:
    """``aside``: by URL. ``read_as``: URL -> time of modification (ms) of what was read, where it is not the one in Spark's log."""

    path: Location
    aside: dict[str, SetAside] = field(default_factory=dict)
    read_as: dict[str, int] = field(default_factory=dict)

    @classmethod
    def load(cls, home: Location, number: int = 0) -> Ledger:
        """Return the ledger of a job's source ``number``, empty if it has none. Raises SkybandError SKY-E303 if it cannot be read."""
        path = home / ledger_name(number)
        kept = _record().need(path)
        return cls(path) if kept is None else cls(path, {u: SetAside(**a) for u, a in kept["aside"].items()}, dict(kept["read_as"]))

    def save(self) -> None:
        """Replace the file in one step; it is on disk when this returns."""
        _record().write(self.path, {"aside": {u: asdict(a) for u, a in self.aside.items()}, "read_as": self.read_as})


@cache
def _record() -> Record[Any]:
    # Tasks' workers import this module, and need no models.
    from skyband.framework.storage.records import LedgerFile, Record

    said = "{path} cannot be read: {why}. It says which source files are set aside"
    return Record(LedgerFile, said, f"restore it from a backup, or {AGAIN}", sort=True)
