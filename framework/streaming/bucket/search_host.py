"""One shard's part of a bucket: it keeps the window like its bucket, and searches for the pairs of its share of the rows.

What it sends is one message a call, to the bucket (``rows.shards.found``). It makes no rows of tables.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, cast

from skyband.framework.base.messages import FOUND
from skyband.framework.plan.model import OperatorNode
from skyband.framework.streaming.bucket.item_rows import KeyValues
from skyband.framework.streaming.bucket.operator_host import NO_PAIRS, OperatorHost
from skyband.framework.streaming.bucket.sequencer import Sequenced
from skyband.framework.streaming.bucket.state_names import CHUNK, JOURNAL
from skyband.framework.streaming.rows.outbox import Outbox
from skyband.framework.streaming.rows.shards import Taken, found_table
from skyband.operators.base import Logic, State
from skyband.operators.found_pairs import FoundPairs
from skyband.operators.shards import Shardable, ShardLogic, Share

_OF_SHARD: Final = ("core", "keys", "key_rows", "pending", "deleted", "texts", "operator", CHUNK, JOURNAL)
"""The values, or the beginnings of their names, of a bucket's state that its shards have too."""


class SearchHost(OperatorHost):
    """Runs the searches of ``config.share``."""

    @property
    def _share(self) -> Share:
        share = self.items.config.share
        assert share is not None
        return share

    def _build(self, node: OperatorNode, state: State | None) -> Logic:
        assert isinstance(node.operator, Shardable)
        # Of a logic the host needs what a shard's has too: the methods below are those that differ.
        return cast(Logic, node.operator.build_shard(self._share, state))

    def run(
        self,
        taken: Sequenced,
        limit: int,
        keys: KeyValues,
        bucket: int,
        out: Outbox,
        whole: bool,
        found: Mapping[str, FoundPairs] = NO_PAIRS,
    ) -> None:
        """Take the accepted rows, and send the pairs found of those of the share."""
        arrivals = self._taken_arrivals(taken)
        pairs = {node.name: logic.find(arrivals, limit) for node, logic in self._searches()}
        if len(taken.seq):
            out.put(FOUND, found_table(self._share, Taken(len(taken.seq), limit), pairs))

    def _searches(self) -> list[tuple[OperatorNode, ShardLogic]]:
        return [(node, cast(ShardLogic, logic)) for node, logic in zip(self.operators, self.logics, strict=True)]

    def count(self, out: Outbox) -> None:
        """The counters of the searches."""
        for node, logic in self._searches():
            for name, n in logic.counters().items():
                out.counts[f"{node.name}.{name}"] = int(n)

    def wakes(self) -> list[int]:
        """Nothing waits here: expiries bring no pairs."""
        return []


def shard_state(bucket: Mapping[str, bytes]) -> dict[str, bytes]:
    """Return the state of a shard, made of the values of its bucket's: what both have."""
    return {name: value for name, value in bucket.items() if name.partition("/")[0] in _OF_SHARD}
