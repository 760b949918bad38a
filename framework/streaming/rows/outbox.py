"""Messages on their way: what one call of a bucket sends to the driver, and rows to a bucket. Imports no Spark."""

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
"""What becomes of a block on its way to the driver."""


Send = Callable[[pa.Table], Block]
"""The message of a bucket's rows."""

LEAST: Final = "SKYBAND_FILE_BYTES"
"""Bytes of the smallest block that a task writes as a file."""
_DEFAULT: Final = 1 << 17


def least_in_file() -> int:
    """What the environment says of ``LEAST``, or the default."""
    return int(os.environ.get(LEAST, _DEFAULT))


def as_block(rows: pa.Table) -> Block:
    """The rows themselves."""
    return ROWS, table_bytes(rows)


def as_it_is(kind: str, data: bytes) -> Block:
    """Nothing."""
    return kind, data


@dataclass(slots=True)
class Outbox:
    """Tables by kind, in the order of ``put``, and counts."""

    blocks: list[Block] = field(default_factory=list)
    counts: Tally = field(default_factory=Tally)

    def put(self, kind: str, table: pa.Table) -> None:
        """One more table."""
        self.blocks.append((kind, table_bytes(table)))

    def all(self) -> list[Block]:
        """Everything, the counts last."""
        return [*self.blocks, (COUNTS, self.counts.message())]
