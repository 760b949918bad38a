"""Split the derivation of many keys into parts: spans of a key column's values, each small enough for the memory of a task."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skyband.framework.base.messages import behind
from skyband.framework.storage import delta_read
from skyband.framework.storage.location import Location
from skyband.framework.tables.delta.data_files import DataFile
from skyband.framework.tables.delta.expected_columns import need_columns
from skyband.framework.tables.outcome import Outcome
from skyband.framework.tables.schemas import fixed_schema
from skyband.framework.tables.writing.sink import Sink

PART_ROWS: Final = 1_000_000
"""The approximate number of input rows of a part."""


@dataclass(frozen=True, slots=True)
class Part:
    """Keys with ``first`` <= ``column`` < ``end`` (None: no such bound)."""

    column: str = ""
    first: Any = None
    end: Any = None

    def of(self, sink: Sink, where: pc.Expression | None = None) -> pc.Expression | None:
        """Return the condition for the rows of this part in any table with the key, and ``where``."""
        for bound, kept in ((self.first, False), (self.end, True)):
            if bound is not None:
                below = pc.field(self.column) < pa.scalar(bound, sink.specs["heads"].schema.field(self.column).type)
                # NaN is below nothing: it is in the part without an end.
                mine = below if kept else ~below
                where = mine if where is None else where & mine
        return where


@dataclass(frozen=True, slots=True)
class Made:
    """The outcome of a part: files of its rows, and the violations found."""

    files: list[DataFile]
    broken: list[Outcome] = field(default_factory=list)


Make = Callable[[Sink, Part], Made]
Spread = Callable[[Sink, Make, Sequence[Part]], list[Made]]
"""Derives the parts of a table, here or in tasks."""


def in_process(sink: Sink, make: Make, parts: Sequence[Part]) -> list[Made]:
    """Derive the parts in this process, one after the other."""
    return [make(sink, part) for part in parts]


def cut(sink: Sink, rows: int) -> list[Part]:
    """Return parts of about ``PART_ROWS`` of ``rows``, if all keys have equally many. O(keys log keys), O(1) if one is enough."""
    keys = sink.plan.intake.partition_by
    count = -(-rows // PART_ROWS)
    if count <= 1 or not keys or sink.writer.task_root is None:
        return [Part()]
    heads = sink.writer.read("heads", list(keys))
    column = max(keys, key=lambda name: int(pc.count_distinct(heads[name]).as_py()))
    values = heads[column].take(pc.sort_indices(heads[column]))
    if pa.types.is_floating(values.type):
        values = values.filter(pc.invert(pc.is_nan(values)))
    if not len(values):
        return [Part()]
    picked = values.take(pa.array(np.arange(1, count) * len(values) // count))
    bounds = pc.unique(picked.filter(pc.greater(picked, values[0]))).to_pylist()
    if not bounds:
        return [Part()]
    return [Part(column, first, end) for first, end in zip([None, *bounds], [*bounds, None], strict=True)]


# How far ``heads`` and skybands, which buckets may write later than other tables, are behind. Does not import Spark.


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
