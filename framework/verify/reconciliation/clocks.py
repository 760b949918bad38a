"""Compare the rows that were too far ahead, and the newest event times, with the clocks that ``runs`` has recorded."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow.compute as pc

from skyband.framework.base.counts import agree, counted
from skyband.framework.base.reasons import TOO_FAR_AHEAD
from skyband.framework.storage.sinks import HOME
from skyband.framework.streaming.job.clocks import batch_clocks, recorded_rows
from skyband.framework.verify.differences import Difference
from skyband.framework.verify.stored import Stored, micros


def compare_clocks(stored: Stored) -> Iterator[Difference]:
    """Yield the batches that rejected rows which were not too far ahead, or took rows which were. O(rejected rows)."""
    runs = stored.table("runs")
    latest = {batch: found.latest for batch, found in batch_clocks(runs).items()}
    table = stored.table("rejected")
    far = table.filter(pc.equal(table["reason"], TOO_FAR_AHEAD))
    earlier = {(r["origin"], r["event_time"]) for r in recorded_rows(Path(stored.root, HOME)).to_pylist()} if far.num_rows else set()
    wrong: dict[int, int] = {}
    for batch, origin, at in zip(far["batch_id"].to_pylist(), far["origin"].to_pylist(), micros(far, "event_time"), strict=True):
        # A rebuilt generation judges some rows by earlier clocks.
        if batch in latest and at is not None and at <= latest[batch] and (origin, at) not in earlier:
            wrong[batch] = wrong.get(batch, 0) + 1
    for batch, n in sorted(wrong.items()):
        yield Difference("table rejected", f"{counted(n, 'row')} of batch {batch} {agree(n, 'is', 'are')} not too far ahead of its clock")
    before: int | None = None
    for batch, newest in sorted(zip(runs["batch_id"].to_pylist(), micros(runs, "newest"), strict=True), key=lambda r: r[0]):
        if newest is not None and newest != before and newest > latest.get(batch, newest):
            yield Difference(f"table runs, batch {batch}", "newest is further ahead of the batch's clock than it allowed")
        before = newest
