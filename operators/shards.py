"""One operator on several cores or machines: shards search for the pairs of their share of the arrivals, one logic takes what they found.

Every shard has the whole window, sees every arrival, and searches for the older partners of its own arrivals only. Any division of the
pairs is exact: a pair that enough pairs of its own shard dominate is dominated by them among all pairs, too, so what the shards find
together contains every pair that a result or a skyband needs (docs/algorithms D6). Where the same rows are given in other cuts, shards may
find more or fewer pairs that no result needs; the changes are the same bytes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Protocol, runtime_checkable

from skyband.operators.base import AnyArray, Arrivals, Instant, Logic, Operator, State
from skyband.operators.found_pairs import FoundPairs

BLOCK: Final = 64
"""Arrivals of a key in a row that one shard searches for: kernels take arrivals of a key together."""


@dataclass(frozen=True, slots=True)
class Share:
    """The arrivals of shard ``number`` of ``of``: those of every ``of``-th block of a key. Keys start with different shards."""

    number: int
    of: int

    def mine(self, key: AnyArray, seq: AnyArray) -> AnyArray:
        """Return a mask (n,) of the arrivals that this shard searches for."""
        found: AnyArray = (key + seq // BLOCK) % self.of == self.number
        return found


class ShardLogic(Protocol):
    """The state of one shard of one bucket. Not thread-safe."""

    def find(self, arrivals: Arrivals, until: Instant) -> FoundPairs:
        """Take arrivals as ``Logic.advance`` does; return the pairs found of those of its share, with older objects of the window."""
        ...

    def checkpoint(self) -> dict[str, AnyArray]:
        """Return the state as arrays, as ``Logic.checkpoint``."""
        ...

    def counters(self) -> dict[str, int]:
        """Return and reset the counters of the search: the work done for its share of the arrivals."""
        ...


@runtime_checkable
class Shardable(Protocol):
    """An operator whose search can be divided among shards."""

    @property
    def can_be_sharded(self) -> bool:
        """Return whether this configuration can."""
        ...

    @property
    def partner_nanos(self) -> float:
        """Return about how many nanoseconds an object of the window adds to the search for an arrival's partners (``bench/shards``)."""
        ...

    def build_shard(self, share: Share, state: State | None) -> ShardLogic:
        """Return the logic of one shard.

        ``state`` is None, what a shard's checkpoint gave, or what the operator's own logic gave: that of any shards or of none. The rows
        are those of ``Operator.build``.
        """
        ...

    def build_merge(self, state: State | None) -> Logic:
        """Return a logic with the state, the changes and the skyband of ``build``, byte for byte, which takes the pairs of its arrivals
        from ``Arrivals.found`` instead of searching for them. Its state is that of ``build``: each continues the other's."""
        ...


def can_be_sharded(operator: Operator) -> bool:
    """Return whether the search of ``operator`` can be divided among shards."""
    return isinstance(operator, Shardable) and operator.can_be_sharded
