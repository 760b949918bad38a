"""What one call of a bucket sends to the driver."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import pyarrow as pa

from skyband.framework.messages import COUNTS, Tally
from skyband.framework.streaming.blocks import table_bytes

Block = tuple[str, bytes]
"""Kind and data of a message (see ``messages``)."""
Deliver = Callable[[str, bytes], Block]
"""What becomes of a block on its way to the driver."""


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
