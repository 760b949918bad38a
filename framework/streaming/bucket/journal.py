"""The inputs of a bucket since its last whole state. A restore reads that state and runs them again. Does not import Spark.

A whole state takes time and space in proportion to all keys of a bucket. A bucket with many keys that gets few rows saves its inputs only,
until they add up to a share of the state, or are many. So what a row costs, of state as of time, hardly depends on the number of keys.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from skyband.framework.streaming.bucket.state_names import JOURNAL
from skyband.framework.streaming.rows.blocks import bytes_table

LEAST: Final = 1 << 20
"""Bytes that a whole state writes, without the window's rows, from which a bucket keeps a journal."""
SHARE: Final = 2
"""A whole state is saved when the journal would take this fraction, 1/2, of its bytes."""
BATCH: Final = 1 << 17
"""Bytes that an entry counts for at the least: a restore takes time for a batch, however few rows it has."""
ENTRIES: Final = 1024
"""The greatest number of batches in a journal: a restore runs them all again."""

_OFFSET: Final = 4
"""Bytes that Arrow takes for a text or a list, besides its content."""


@dataclass(frozen=True)
class Entry:
    """The input of one batch: its blocks of rows, the frontiers before and after it, and what shards have found.

    In microseconds: rows before ``late`` are late (None: none is), what is before ``frontier`` is due (None: what its rows make due).
    """

    data: Sequence[bytes | pa.Buffer]
    late: int | None
    frontier: int | None
    found: Sequence[bytes | pa.Buffer] = ()

    @cached_property
    def size(self) -> int:
        """Return the bytes that it counts for: those of its values, however the rows are cut into blocks.

        A batch may be repeated by other tasks, when tables have what it sent first. So it has to be saved in the same way again.
        """
        return max(BATCH, sum(_bytes(column) for block in self.data for column in bytes_table(block).columns))

    def value(self) -> bytes:
        """Return the value in state: a JSON header with its length before it, then the blocks."""
        both = [*self.data, *self.found]
        said: dict[str, Any] = {"late": self.late, "frontier": self.frontier, "sizes": [len(block) for block in both]}
        said |= {"found": len(self.found)} if self.found else {}
        header = json.dumps(said).encode()
        return b"".join([len(header).to_bytes(8, "little"), header, *(bytes(block) for block in both)])

    @classmethod
    def of(cls, value: bytes) -> Entry:
        """Return the entry of a ``value``. Its blocks point into it."""
        at = 8 + int.from_bytes(value[:8], "little")
        header = json.loads(value[8:at])
        data = []
        for size in header["sizes"]:
            data.append(pa.py_buffer(value).slice(at, size))
            at += size
        rows = len(data) - header.get("found", 0)
        # Entries of earlier versions have the frontier before the batch alone.
        late, frontier = (header["late"], header["frontier"]) if "late" in header else (header["frontier"], None)
        return cls(data[:rows], late, frontier, tuple(data[rows:]))


def _bytes(column: pa.ChunkedArray) -> int:
    """Return the bytes of the values of a column, without what every block adds. O(rows) for texts and lists."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        return _bytes(column.cast(kind.value_type))
    if pa.types.is_nested(kind):
        return _OFFSET * len(column) + _bytes(pc.list_flatten(column))
    if pa.types.is_binary(kind) or pa.types.is_string(kind):
        return _OFFSET * len(column) + int(pc.sum(pc.binary_length(column)).as_py() or 0)
    return 0 if pa.types.is_null(kind) else len(column) * -(-kind.bit_width // 8)


class Journal:
    """The journal since a whole state of so many bytes (0: none). What it decides follows from state and input alone."""

    def __init__(self, state_bytes: int = 0) -> None:
        self._state_bytes = state_bytes
        self._size = 0
        self.entries = 0
        self._unsaved: list[Entry] = []

    def takes(self, entry: Entry) -> bool:
        """Return True if a batch is to be saved as an entry, False if with the whole state."""
        return self._state_bytes >= LEAST and self.entries < ENTRIES and SHARE * (self._size + entry.size) < self._state_bytes

    def note(self, entry: Entry, saved: bool = False) -> None:
        """Add an entry, which ``unsaved`` then returns unless it is ``saved`` already."""
        self._size += entry.size
        self.entries += 1
        if not saved:
            self._unsaved.append(entry)

    def unsaved(self) -> dict[str, bytes]:
        """Return the values of entries that have not been saved, by name."""
        first = self.entries - len(self._unsaved)
        values = {f"{JOURNAL}/{first + i}": entry.value() for i, entry in enumerate(self._unsaved)}
        self._unsaved = []
        return values

    def names(self) -> list[str]:
        """Return the names of the values that have been saved."""
        return [f"{JOURNAL}/{i}" for i in range(self.entries - len(self._unsaved))]


def entries(read: Callable[[str], bytes | None]) -> Iterator[Entry]:
    """Yield the entries whose values ``read`` returns by name (None: no such value)."""
    number = 0
    while (value := read(f"{JOURNAL}/{number}")) is not None:
        yield Entry.of(value)
        number += 1
