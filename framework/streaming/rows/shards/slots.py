"""The numbers under which Spark runs shards, chosen so that they spread over the tasks."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Final

from skyband.framework.base.messages import SHARD

_SEED: Final = 42
_LOW: Final = 0xFFFFFFFF
_LARGEST: Final = (1 << 31) - 1
"""The largest number that a grouping key can have."""


@dataclass(frozen=True, slots=True)
class Shards:
    """``of`` shards of each of ``buckets``, in a stateful step with ``tasks`` tasks."""

    of: int
    buckets: int
    tasks: int

    def slot(self, bucket: int, shard: int) -> int:
        """Return the number of a shard's grouping key. Spark's hash of it gives consecutive shards to different tasks."""
        return _slot(bucket * self.of + shard, self.of * self.buckets, self.tasks)

    def place(self, slot: int) -> tuple[int, int]:
        """Return (bucket, shard) of a slot."""
        return divmod(slot % (self.of * self.buckets), self.of)


@cache
def _slot(place: int, places: int, tasks: int) -> int:
    slot = place
    while task_of(SHARD, slot, tasks) != place % tasks:
        slot += places
        if slot > _LARGEST:
            # Of so many shards, every task has some anyway.
            return place
    return slot


def task_of(node: int, number: int, tasks: int) -> int:
    """Return the task to which Spark gives the grouping key (node, number): its Murmur3 hash of two ints, modulo ``tasks``."""
    hashed = _hashed(number, _hashed(node, _SEED))
    return (hashed - (1 << 32) if hashed >> 31 else hashed) % tasks


def _hashed(value: int, seed: int) -> int:
    """Return Murmur3 (x86, 32 bit) of one int, as unsigned."""
    mixed = value * 0xCC9E2D51 & _LOW
    mixed = _rotated(mixed, 15) * 0x1B873593 & _LOW
    found = (_rotated(seed ^ mixed, 13) * 5 + 0xE6546B64) & _LOW ^ 4
    found = (found ^ found >> 16) * 0x85EBCA6B & _LOW
    found = (found ^ found >> 13) * 0xC2B2AE35 & _LOW
    return found ^ found >> 16


def _rotated(value: int, bits: int) -> int:
    return (value << bits | value >> 32 - bits) & _LOW
