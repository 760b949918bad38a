"""Reject rows whose event time is too far ahead of the clock at which their batch was planned (docs/semantics 1).

The clock is that of Spark's plan of the batch, so a repeated batch decides alike. A rebuilt generation also rejects what the one before it
rejected, by the clocks of that time (``job.clocks``).
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import lru_cache
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import feather

from skyband.framework.base.messages import CLOCK
from skyband.framework.base.reasons import INT_RANGE, NULL_KEY, REASON, TOO_FAR_AHEAD, YEAR_RANGE
from skyband.framework.plan.model import IntakeNode
from skyband.framework.sources.protocol import ORIGIN

Clock = Callable[[], int | None]
"""Returns the clock at which the batch was planned, in microseconds; None if no time is too far ahead."""

RECORDED: Final = pa.schema([("origin", pa.string()), ("event_time", pa.int64()), ("clock", pa.int64())])
"""Rows that an earlier generation rejected: where they came from, their event times and the clocks of their batches in microseconds."""

_LATER: Final = (NULL_KEY, INT_RANGE)
"""The reasons of the intake that stand after this one, beside those of ``YEAR_RANGE``."""


def task_clock() -> int | None:
    """Return the clock of the task's batch; None outside of the tasks of a batch."""
    # Rehearsals import this module, and need no Spark.
    from pyspark import TaskContext

    task = TaskContext.get()
    clock = None if task is None else task.getLocalProperty(CLOCK)
    return int(clock) if clock else None


def judged(rows: pa.Table, node: IntakeNode, clock: int | None, recorded: str | None = None) -> pa.Table:
    """Return ``rows`` (as ``intake`` gives them) with the reason of those that are too far ahead of ``clock``, in microseconds.

    ``recorded``: the file with the rows (``RECORDED``) that are judged by the clock of an earlier generation. O(rows).
    """
    ahead = node.ahead_micros
    if ahead is None or clock is None or not rows.num_rows:
        return rows
    times = rows[node.event_time].cast(pa.int64())
    latest = pc.max(times).as_py()
    earlier = None if recorded is None else _read(recorded, os.stat(recorded).st_mtime_ns)
    earliest = clock if earlier is None else min(clock, earlier.earliest)
    if latest is None or latest <= earliest + ahead:
        return rows
    reason = rows[REASON]
    far = pc.greater(times, clock + ahead)
    if earlier is not None:
        far = pc.or_kleene(far, pc.greater(times, pc.add(earlier.clocks_of(rows[ORIGIN], times), ahead)))
    far = pc.and_(pc.fill_null(far, False), pc.or_(pc.is_null(reason), _stands_after(reason)))
    return rows.set_column(rows.column_names.index(REASON), REASON, pc.if_else(far, TOO_FAR_AHEAD, reason))


def _stands_after(reason: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return True for the reasons of the intake that this one precedes."""
    return pc.fill_null(pc.or_(pc.is_in(reason, pa.array(_LATER)), pc.starts_with(reason, YEAR_RANGE)), False)


class _Earlier(NamedTuple):
    """Rows that an earlier generation rejected: their names, their clocks, and the earliest of these, in microseconds."""

    names: pa.Array
    clocks: pa.ChunkedArray
    earliest: int

    def clocks_of(self, origins: pa.ChunkedArray, times: pa.ChunkedArray) -> pa.ChunkedArray:
        """Return the recorded clock of each row, null for a row that was not rejected."""
        return self.clocks.take(pc.index_in(_names(origins, times), value_set=self.names))


@lru_cache(1)
def _read(path: str, modified: int) -> _Earlier:
    """Return the recorded rows. ``modified``: when the file was written, so that another one is read again."""
    rows = feather.read_table(path)
    return _Earlier(_names(rows["origin"], rows["event_time"]), rows["clock"], pc.min(rows["clock"]).as_py())


def _names(origins: pa.ChunkedArray, times: pa.ChunkedArray) -> pa.Array:
    """Return a text for each row, by which it is found again."""
    names = pc.binary_join_element_wise(times.cast(pa.string()), pc.fill_null(origins, ""), "\n")
    return names.combine_chunks() if isinstance(names, pa.ChunkedArray) else names
