"""Count what a range of batches has written: rows of changes by query, rejected rows by reason.

Receivers of announcements ask for the batches since the last announcement that they have got, which may be those of several runs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import pyarrow.compute as pc

from skyband.framework.plan.model import Plan
from skyband.framework.storage.delta_read import batches, open_table, read
from skyband.framework.storage.location import Location
from skyband.framework.tables.delta.expected_columns import need_columns
from skyband.framework.tables.schemas import changes_name, fixed_schema
from skyband.framework.tables.writing.sink import FILLED_BATCH

BEGINNING: Final = FILLED_BATCH - 1
"""The position before all batches, and before the backfilled rows of added queries."""


@dataclass(frozen=True, slots=True)
class BatchFigures:
    """What the batches after a position have written: the batches' ``count``, ``first`` and ``last``, and rows by query and by reason."""

    count: int
    first: int | None
    last: int | None
    changes: dict[str, int]
    rejected: dict[str, int]

    def document(self) -> dict[str, Any]:
        """Return them as in the outcome of a run."""
        return {
            "batches": {"count": self.count, "first": self.first, "last": self.last},
            "changes": self.changes,
            "rejected": self.rejected,
        }


def newest_batch(root: Location) -> int | None:
    """Return the last complete batch, None before the first one. Raises SkybandError SKY-E400 if table ``runs`` cannot be read."""
    runs = open_table(root, "runs")
    need_columns(runs, "runs", fixed_schema("runs"), ["batch_id"])
    found: int | None = pc.max(read(runs, ["batch_id"])["batch_id"]).as_py()
    return found


def batch_figures(root: Location, plan: Plan, after: int, upto: int) -> BatchFigures:
    """Count the rows of the batches after ``after`` up to ``upto``; ``BEGINNING``: from the first one on. O(rows of these batches).

    Batches whose rows of table ``runs`` have been removed (``run.keep``) are not in ``count``; their changes and rejected rows are counted.
    Raises SkybandError SKY-E400 for a table that cannot be read.
    """
    for table in ("runs", "rejected"):
        need_columns(open_table(root, table), table, fixed_schema(table), ["batch_id"])
    numbers = [batch for batch, _ in batches(open_table(root, "runs"), after, upto)]
    changes = {q.name: sum(n for _, n in batches(open_table(root, changes_name(q.name)), after, upto)) for q in plan.every_query}
    where = (pc.field("batch_id") > after) & (pc.field("batch_id") <= upto)
    reasons = pc.value_counts(read(open_table(root, "rejected"), ["reason"], where)["reason"]).to_pylist()
    return BatchFigures(
        len(numbers), numbers[0] if numbers else None, numbers[-1] if numbers else None, changes,
        {str(x["values"]): int(x["counts"]) for x in sorted(reasons, key=lambda x: str(x["values"]))},
    )  # fmt: skip
