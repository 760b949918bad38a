"""Record what each receiver's last COMPLETE event covered: ``<sink>/_skyband/announced.json``.

The next event covers what is new since then, whoever has committed it: runs that failed, were killed, or had no receiver. A record that is
lost or damaged makes the next event cover all tables.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Final

from pydantic import ConfigDict, Field, TypeAdapter

from skyband.framework.storage import durable
from skyband.framework.storage.location import Location
from skyband.framework.storage.records import STRICT, Count, InvalidRecord, Whole, read_record

FILE: Final = "announced.json"
MOST_RECEIVERS: Final = 20
"""The most receivers that are remembered; those without a recent event are forgotten."""


@dataclass(frozen=True, slots=True)
class Version:
    """A version of a table, and the table's id in Delta, which another table of the same name does not have."""

    version: Count
    id: Annotated[str, Field(max_length=200)]
    __pydantic_config__: ClassVar[ConfigDict] = STRICT


@dataclass(frozen=True, slots=True)
class Announced:
    """What an event covered: the tables' versions, and the job's last batch (None: it had none)."""

    tables: Annotated[dict[Annotated[str, Field(max_length=300)], Version], Field(max_length=100_000)]
    batch: Whole | None
    __pydantic_config__: ClassVar[ConfigDict] = STRICT

    @classmethod
    def of(cls, outcome: Mapping[str, Any]) -> Announced:
        """Return what an event at the end of a run covers."""
        spans = outcome["tables"].items()
        return cls({name: Version(span["to"], span["id"]) for name, span in spans if span["to"] is not None}, outcome["last_batch"])


@dataclass(frozen=True, slots=True)
class _AnnouncedFile:
    receivers: Annotated[dict[Annotated[str, Field(pattern="^[0-9a-f]{32}$")], Announced], Field(max_length=MOST_RECEIVERS)]
    __pydantic_config__: ClassVar[ConfigDict] = STRICT


_MODEL: Final = TypeAdapter(_AnnouncedFile)


def announced_to(home: Location, receiver: str) -> Announced | None:
    """Return what the last event that ``receiver`` has taken covered, None if none is known. Raises OSError."""
    return _read(home).get(receiver)


def record_announced(home: Location, receiver: str, covered: Announced) -> None:
    """Record that ``receiver`` has taken an event; durable when this returns. Raises OSError."""
    known = {name: found for name, found in _read(home).items() if name != receiver}
    kept = dict([*known.items()][1 - MOST_RECEIVERS :])
    durable.replace(home / FILE, _MODEL.dump_json(_AnnouncedFile({**kept, receiver: covered}), indent=1))


def _read(home: Location) -> dict[str, Announced]:
    with suppress(InvalidRecord):
        found = read_record(home / FILE, _MODEL)
        return {} if found is None else found.receivers
    return {}
