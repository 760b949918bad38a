"""Run a job in memory over all of its rows, up to one instant."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skyband.framework.rehearsal.rehearsal import Rehearsal
from skyband.framework.sources.protocol import ORIGIN
from skyband.framework.verify.progress import Done
from skyband.framework.whatif.rows import LATER, JudgedRows, Reasons

_ROWS: Final = 200_000
"""About how many rows are processed at a time."""


@dataclass(frozen=True, slots=True)
class Ran:
    """The tables of a run, without those derived from changes. ``fates``: of every row of the source, None or why it was rejected.

    Rows after the end of the run are ``LATER``, unless it is known without the run that they are rejected.
    """

    tables: Mapping[str, pa.Table]
    fates: Reasons


def run_rows(judged: JudgedRows, end: int, began: Callable[[Done], None] = lambda _: None) -> Ran:
    """Process the rows before ``end`` (microseconds) in the order of their times, and all that is due before ``end``.

    ``began``: takes, before the first row, a function that returns how many of how many rows are done.

    The state in memory is that of one bucket. O(rows log rows) for the order, and the cost of the operators.
    """
    rows = judged.candidates()
    times = rows[judged.plan.intake.event_time].cast(pa.int64()).to_numpy()
    order = np.argsort(times, kind="stable")
    many = int(np.searchsorted(times[order], end))
    order, later = order[:many], order[many:]
    fates = list(judged.reasons)
    for number in rows[ORIGIN].take(pa.array(later)).to_pylist():
        fates[int(number)] = LATER
    rows, times = rows.take(pa.array(order)), times[order]
    job = Rehearsal(judged.plan)
    start = 0
    began(lambda: (start, len(times)))
    while start < len(times):
        stop = min(start + _ROWS, len(times))
        # Rows of one instant stay together.
        stop = len(times) if stop == len(times) else int(np.searchsorted(times, times[stop - 1], side="right"))
        job.advance(rows.slice(start, stop - start), end if stop == len(times) else int(times[stop - 1]) + 1)
        start = stop
    if not len(times):
        job.advance(rows, end)
    tables = job.tables(results=False)
    rejected = tables["rejected"]
    known = rejected.filter(pc.is_valid(rejected["origin"]))
    for number, reason in zip(known["origin"].to_pylist(), known["reason"].to_pylist(), strict=True):
        fates[int(number)] = reason
    return Ran(tables, fates)
