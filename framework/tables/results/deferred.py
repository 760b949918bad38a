"""How far ``heads`` and skybands, which buckets may write later than other tables, are behind. Does not import Spark."""

from __future__ import annotations

import pyarrow.compute as pc

from skyband.framework.base.messages import behind
from skyband.framework.storage.location import Location
from skyband.framework.tables.delta import delta_read
from skyband.framework.tables.delta.expected_columns import need_columns
from skyband.framework.tables.schemas import fixed_schema


def batches_behind(root: str | Location) -> int:
    """Return the batches by which ``heads`` and skybands below ``root`` are behind ``runs``; 0 before the first. O(rows of ``runs``).

    A run that has ended leaves none behind. Until then, state that depends on these tables cannot be changed.
    """
    if not delta_read.exists(root, "runs"):
        return 0
    table = delta_read.open_table(root, "runs")
    need_columns(table, "runs", fixed_schema("runs"), ["batch_id", "counters"])
    last = pc.max(delta_read.read(table, ["batch_id"])["batch_id"]).as_py()
    return 0 if last is None else behind(delta_read.read(table, ["counters"], pc.field("batch_id") == last)["counters"][0].as_py())
