"""The clocks by which a new generation judges the rows that the present one rejected as too far ahead: a file in ``_skyband``.

A rebuild reads these rows again, later: by its own clock some of them would no longer be too far ahead.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import feather

from skyband.framework.base.errors import SkybandError
from skyband.framework.base.messages import MAX_AHEAD, PLANNED
from skyband.framework.base.plain_json import mapping, whole
from skyband.framework.base.reasons import TOO_FAR_AHEAD
from skyband.framework.base.system_failures import raising_system_failures
from skyband.framework.storage import delta_read, durable
from skyband.framework.storage.location import Location
from skyband.framework.storage.sinks import HOME
from skyband.framework.streaming.job.layout import NEXT, Layout
from skyband.framework.streaming.rows.instants.ahead import RECORDED

FILE: Final = "clocks.arrow"
_TOO_FAR: Final = pc.field("reason") == TOO_FAR_AHEAD


class BatchClock(NamedTuple):
    """The clock at which a batch was planned, and how far event times might be ahead of it, both in microseconds."""

    clock: int
    ahead: int

    @property
    def latest(self) -> int:
        """Return the latest event time that was accepted, in microseconds."""
        return self.clock + self.ahead

    def counts(self) -> dict[str, int]:
        """Return the counts of ``runs`` that record it; ``batch_clocks`` reads them."""
        return {PLANNED: self.clock // 1000, MAX_AHEAD: self.ahead}


def recorded(layout: Layout) -> str | None:
    """Return the file of the rows to judge by earlier clocks; None for a generation that is in use: rows that come now are new.

    Raises SkybandError SKY-E303 if it is damaged.
    """
    is_built = layout.root.name == NEXT and layout.root.parent.name == HOME
    return str(layout.home / FILE) if is_built and recorded_rows(layout.home).num_rows else None


def recorded_rows(home: Location) -> pa.Table:
    """Return the recorded rows (``RECORDED``) of the generation whose ``_skyband`` is ``home``; none if there is no file.

    Raises SkybandError SKY-E303 if it is damaged.
    """
    path = home / FILE
    if not path.exists():
        return RECORDED.empty_table()
    try:
        rows = feather.read_table(path)
        rows.validate(full=True)
        if not rows.schema.equals(RECORDED) or rows["event_time"].null_count or rows["clock"].null_count:
            raise ValueError("it has other columns")
    except (pa.ArrowException, OSError, ValueError) as e:
        hint = "restore it from a backup, or remove it: a rebuild then judges all rows by its own clock"
        raise SkybandError("SKY-E303", f"{path} cannot be read: {e}", hint=hint) from e
    return rows


def record(layout: Layout, built: Layout) -> None:
    """Write for the generation ``built`` the rows that the present one rejected as too far ahead, with the clocks of their batches.

    Rows of a table that is damaged or gone are left out. Raises SkybandError SKY-E203 if the file cannot be written, SKY-E303 if that of
    the present generation is damaged. O(rejected rows).
    """
    rows = _rejected(layout)
    if rows.num_rows:
        sink = pa.BufferOutputStream()
        feather.write_feather(rows, sink, compression="zstd")
        with raising_system_failures(built.home):
            durable.replace(built.home / FILE, sink.getvalue().to_pybytes())


def _rejected(layout: Layout) -> pa.Table:
    before = recorded_rows(layout.home)
    with suppress(SkybandError, OSError):
        found = delta_read.read(delta_read.open_table(layout.root, "rejected"), ["origin", "event_time", "batch_id"], _TOO_FAR)
        clocks = batch_clocks(delta_read.read(delta_read.open_table(layout.root, "runs"), ["batch_id", "counters"]))
        # A batch that ``runs`` no longer has: whatever its clock was, these rows were too far ahead of it.
        planned = pa.array([clocks[b].clock if b in clocks else 0 for b in found["batch_id"].to_pylist()], pa.int64())
        rows = pa.table([found["origin"], found["event_time"].cast(pa.int64()), planned], schema=RECORDED)
        both = pa.concat_tables([before, rows])
        # A row that an earlier generation rejected keeps its clock, which is the earliest.
        return both.group_by(["origin", "event_time"]).aggregate([("clock", "min")]).rename_columns(RECORDED.names).cast(RECORDED)
    return before


def batch_clocks(runs: pa.Table) -> dict[int, BatchClock]:
    """Return the clock of each batch, without batches for which ``runs`` has recorded none."""
    found = {}
    for batch, text in zip(runs["batch_id"].to_pylist(), runs["counters"].to_pylist(), strict=True):
        try:
            counters = mapping(text or "{}")
            found[batch] = BatchClock(1000 * whole(counters[PLANNED]), whole(counters[MAX_AHEAD]))
        except (ValueError, KeyError):
            continue
    return found
