"""The stateful step of shards: each searches for the pairs of its share of a bucket's rows, before the step of the bucket."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pyspark.sql import Row

from skyband.framework.base.messages import ASIDE, COUNTS, FOUND, HOST, SHARD, TIMES, Tally, time_count
from skyband.framework.streaming.bucket.processor import HostProcessor, Inputs, inputs_of
from skyband.framework.streaming.bucket.state_values import StateValues
from skyband.framework.streaming.rows.config import HostConfig


class ShardProcessor(HostProcessor):
    """As ``HostProcessor``, for shards: what is for others passes through. ``deliver`` handles what shards send to their bucket."""

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:
        """Process one batch's blocks of one shard, or pass on those of another node."""
        node, number = int(key[0]), int(key[1])
        if node == SHARD:
            yield from self._sent(number, inputs_of(rows), timerValues.getCurrentWatermarkInMs())
            return
        if node == HOST and self.config.filling is not None:
            self._forget()
        for row in rows:
            yield Row(node=node, bucket=number, kind=row["kind"], data=bytes(row["data"]))

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Row]:
        """Process what became due in this shard when the watermark advanced: rows that have waited."""
        if int(key[0]) == SHARD:
            yield from self._sent(int(key[1]), Inputs(), timerValues.getCurrentWatermarkInMs())

    def _sent(self, slot: int, inputs: Inputs, watermark_ms: int) -> Iterator[Row]:
        bucket, shard = self._place(slot)
        counts = Tally()
        for kind, data in self._run(slot, inputs, watermark_ms):
            if kind == COUNTS:
                counts.add(data)
            elif kind.endswith(FOUND):
                yield Row(node=HOST, bucket=bucket, kind=kind, data=data)
        # Of what the bucket counts, too, only the work is the shard's own.
        own = {name: n for name, n in counts.items() if "." in name or name in map(time_count, TIMES)}
        balance = {f"shard.{shard}.us": counts[time_count("operator")]}
        yield Row(node=ASIDE, bucket=0, kind=COUNTS, data=Tally(own | balance).message())

    def _forget(self) -> None:
        """Remove the state of a bucket, with whose copy this step began (``rebuild.reshard``)."""
        values = StateValues(self.values)
        for name in values.names():
            values.drop(name)
        self.mark.clear()
        for timer in list(self.handle.listTimers()):
            self.handle.deleteTimer(timer)

    def _place(self, slot: int) -> tuple[int, int]:
        shards = self.config.shards
        assert shards is not None
        return shards.place(slot)

    def _config_of(self, number: int) -> HostConfig:
        return self.config.of_shard(self._place(number)[1])

    def _number_of(self, number: int) -> int:
        return self._place(number)[0]

    def _state_of(self, values: dict[str, bytes]) -> dict[str, bytes]:
        from skyband.framework.streaming.bucket.search_host import shard_state

        return shard_state(values)

    def _directory(self, number: int) -> Path | None:
        return None if self.hand_off_root is None else self.hand_off_root / f"shard-{number}"
