"""The numbers of shards among those of buckets: negative, so that they have states of their own."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Shards:
    """``of`` shards of each of ``buckets``."""

    of: int
    buckets: int

    def number(self, bucket: int, shard: int) -> int:
        """Return the number of a shard."""
        return -1 - (bucket * self.of + shard)

    def numbers(self) -> Iterator[int]:
        """Yield the numbers of all shards."""
        yield from (self.number(bucket, shard) for bucket in range(self.buckets) for shard in range(self.of))

    def place(self, number: int) -> tuple[int, int]:
        """Return (bucket, shard) of a number."""
        return divmod(-1 - number, self.of)
