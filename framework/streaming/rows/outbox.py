"""The messages of one call of a bucket to the driver, and rows for a bucket. Does not import Spark."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa

from skyband.framework.base.messages import COUNTS, ROWS, Tally
from skyband.framework.streaming.rows.blocks import table_bytes

Block = tuple[str, bytes]
"""Kind and data of a message (see ``messages``)."""
Deliver = Callable[[str, bytes], Block]
"""Turns a block into the message for the driver."""


Send = Callable[[pa.Table], Block]
"""The message of a bucket's rows."""

LEAST: Final = "SKYBAND_FILE_BYTES"
"""The size in bytes from which a task writes a block as a file."""
_DEFAULT: Final = 1 << 17


def least_in_file() -> int:
    """Return ``LEAST`` as the environment sets it, or the default."""
    return int(os.environ.get(LEAST, _DEFAULT))


def as_block(rows: pa.Table) -> Block:
    """The rows themselves."""
    return ROWS, table_bytes(rows)


def as_it_is(kind: str, data: bytes) -> Block:
    """Nothing."""
    return kind, data


@dataclass(slots=True)
class Outbox:
    """Collects tables by kind, in the order of ``put``, and counts."""

    blocks: list[Block] = field(default_factory=list)
    counts: Tally = field(default_factory=Tally)

    def put(self, kind: str, table: pa.Table) -> None:
        """Add a table."""
        self.blocks.append((kind, table_bytes(table)))

    def all(self) -> list[Block]:
        """Return all messages, the counts last."""
        return [*self.blocks, (COUNTS, self.counts.message())]
