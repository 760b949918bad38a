"""Read the outcomes of the last gate: the rows of table ``checks`` for the last complete batch."""

from __future__ import annotations

from typing import Any

import pyarrow.compute as pc

from skyband.framework.storage.location import Location
from skyband.framework.tables.delta.delta_read import open_table, read
from skyband.framework.tables.delta.expected_columns import need_columns
from skyband.framework.tables.schemas import fixed_schema


def newest_checks(root: Location) -> list[dict[str, Any]]:
    """Return what the last gate wrote for the last batch; none if it has not run. SKY-E400 if a table is unreadable."""
    runs, checks = open_table(root, "runs"), open_table(root, "checks")
    need_columns(runs, "runs", fixed_schema("runs"), ["batch_id"])
    need_columns(checks, "checks", fixed_schema("checks"), ["batch_id", "run_id", "checked_at"])
    last = pc.max(read(runs, ["batch_id"])["batch_id"]).as_py()
    if last is None:
        return []
    rows = read(checks, where=pc.field("batch_id") == last).sort_by("checked_at").to_pylist()
    return [r for r in rows if r["run_id"] == rows[-1]["run_id"]]
