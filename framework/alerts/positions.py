"""Track up to where the messages of each alert have been sent: ``<sink>/_skyband/alerts.json``. Does not import Spark.

The file is the job's, whatever its generation. An alert that it does not name begins with the changes after the present batch.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar, Final

from pydantic import ConfigDict, Field

from skyband.framework.base.errors import SkybandError
from skyband.framework.base.system_failures import raising_system_failures
from skyband.framework.storage.location import Location
from skyband.framework.storage.records import STRICT, Count, InvalidRecord, Name, Record, Whole

FILE: Final = "alerts.json"


@dataclass(frozen=True, slots=True)
class Request:
    """A request that is being sent: the next ``messages``, one by one or ``combined`` into one. A run that is repeated repeats it."""

    messages: Annotated[int, Field(ge=1, le=100_000_000)]
    combined: bool
    __pydantic_config__: ClassVar[ConfigDict] = STRICT


@dataclass(frozen=True, slots=True)
class Position:
    """All messages up to ``batch`` of ``generation`` have been sent, and ``messages`` after them.

    ``history``: changes before this instant are not sent, as they were in the source before the job's first run; those up to batch
    ``history_upto``, or of all batches until that run has come to its end. ``refusal``: the status with which the receiver has refused a
    request for good, None since it has taken one.

    ``frontier``: the instant in microseconds before which all events had been processed by then (None: unknown). ``since``: only changes
    from this instant on are sent, as those before were in an earlier generation. ``shape``: a hash of what is watched.
    """

    generation: Name
    batch: Whole
    shape: Annotated[str, Field(pattern="^[0-9a-f]{16}$")]
    messages: Count = 0
    frontier: Whole | None = None
    since: Whole | None = None
    sending: Request | None = None
    history: Whole | None = None
    history_upto: Whole | None = None
    refusal: Annotated[int, Field(ge=400, le=499)] | None = None
    __pydantic_config__: ClassVar[ConfigDict] = STRICT


@dataclass(frozen=True, slots=True)
class _PositionsFile:
    alerts: dict[str, Position]
    __pydantic_config__: ClassVar[ConfigDict] = STRICT


_POSITIONS: Final = Record[_PositionsFile](_PositionsFile)


class Positions:
    """The positions of the alerts ``names``; others are dropped when the file is written. ``damaged``: why its file was not used."""

    def __init__(self, home: Location, names: Collection[str]) -> None:
        self._file = home / FILE
        self._lock = threading.Lock()
        self.damaged: str | None = None
        found: Mapping[str, Position] = {}
        try:
            read = _POSITIONS.read(self._file)
            found = {} if read is None else read.alerts
        except InvalidRecord as e:
            self.damaged = str(e)
        self._known = {name: found[name] for name in names if name in found}

    def get(self, name: str) -> Position | None:
        """Return the position of an alert, None if the file has none."""
        return self._known.get(name)

    def save(self, name: str, position: Position) -> None:
        """Note a position; durable when this returns. Raises SkybandError if it cannot be written."""
        with self._lock:
            if self._known.get(name) != position:
                known = {**self._known, name: position}
                try:
                    with raising_system_failures(self._file):
                        _POSITIONS.write(self._file, _PositionsFile(known))
                except IsADirectoryError as e:
                    raise SkybandError("SKY-E518", f"{self._file} is a directory", "remove it") from e
                # Only now: what could not be written is written by the next call.
                self._known = known
