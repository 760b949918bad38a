"""Whether buckets of a job still have to send rows of ``heads`` and skybands. Does not import Spark."""

from __future__ import annotations

import pyarrow.compute as pc

from skyband.framework.base.messages import behind
from skyband.framework.streaming.job.layout import Layout
from skyband.framework.tables.delta import delta_read


def batches_behind(layout: Layout) -> int:
    """Return the batches by which ``heads`` and skybands are behind ``runs``: a run that did not end leaves some. O(rows of ``runs``).

    Until a run has ended, state that depends on these tables cannot be changed: its buckets have not sent all rows.
    """
    if not delta_read.exists(layout.root, "runs"):
        return 0
    table = delta_read.open_table(layout.root, "runs")
    last = pc.max(delta_read.read(table, ["batch_id"])["batch_id"]).as_py()
    return 0 if last is None else behind(delta_read.read(table, ["counters"], pc.field("batch_id") == last)["counters"][0].as_py())
