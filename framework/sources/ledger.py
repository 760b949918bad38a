"""What a job has to remember of single source files beyond the engine's log: ``<sink>/_skyband/files.json``.

Written in one step and made durable before anything depends on it: files set aside stay so whatever is killed.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Final

from skyband.framework import durable
from skyband.framework.errors import SkybandError

LEDGER: Final = "files.json"


@dataclass(frozen=True, slots=True)
class SetAside:
    """A file that cannot be read: the batch that does without it, its size in bytes, why."""

    batch: int
    bytes: int
    said: str


@dataclass(slots=True)
class Ledger:
    """``aside``: by URL. ``read_as``: URL -> time of modification (ms) of what was read, where it is not the one in the engine's log."""

    path: Path
    aside: dict[str, SetAside] = field(default_factory=dict)
    read_as: dict[str, int] = field(default_factory=dict)

    @classmethod
    def load(cls, home: Path) -> Ledger:
        """The ledger of a job, empty if it has none. SkybandError SKY-E303 if it cannot be read."""
        path = home / LEDGER
        try:
            said = json.loads(path.read_text())
            return cls(path, {u: SetAside(**a) for u, a in said["aside"].items()}, {u: int(ms) for u, ms in said["read_as"].items()})
        except FileNotFoundError:
            return cls(path)
        except (ValueError, KeyError, TypeError, AttributeError, OSError) as e:
            raise SkybandError(
                "SKY-E303", f"{path} cannot be read: it says which source files are set aside", hint="restore it from a backup"
            ) from e

    def save(self) -> None:
        """Replaces the file in one step; it is on the disk when this returns."""
        text = json.dumps({"aside": {u: asdict(a) for u, a in self.aside.items()}, "read_as": self.read_as}, indent=1, sort_keys=True)
        durable.replace(self.path, text)
