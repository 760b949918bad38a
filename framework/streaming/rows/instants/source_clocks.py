"""How far the rows of several sources move one watermark: each source has its own delay, and none holds the others for ever.

Let w(s) be the newest event time of source s so far, less its delay, and ``lead`` the latest of these. The frontier is the least of
max(w(s), lead - idle_after(s)) over all sources s. So it is a function of the rows alone: a source is idle by event time, not by a clock.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from skyband.framework.base.messages import GREATEST_OF, NEWEST_OF
from skyband.framework.base.reasons import REASON
from skyband.framework.base.types import STAMP
from skyband.framework.plan.nodes import SourceClock
from skyband.framework.sources.protocol import CAP
from skyband.framework.sources.several.format import SOURCE
from skyband.framework.streaming.rows.config import CAPPED

I64 = npt.NDArray[np.int64]

_NONE: Final = -(2**62)
"""Before all instants: of a source without rows."""


def frontier(clocks: Sequence[SourceClock], newest: Mapping[str, int]) -> int | None:
    """Return the frontier, in microseconds, after rows up to the times ``newest``, by source; None if there is none yet."""
    found = int(_least(clocks, [_reached(clock, newest.get(clock.name)) for clock in clocks]))
    return None if found <= _NONE else found


def holding_back(clocks: Sequence[SourceClock], newest: Mapping[str, int]) -> SourceClock | None:
    """Return the source that determines the frontier after rows up to the times ``newest`` while another is further; None if none is."""
    if not clocks or not newest:
        return None
    reached = [int(_reached(clock, newest.get(clock.name))) for clock in clocks]
    lead = max(reached)
    bounds = [w if c.idle_micros is None else max(w, lead - c.idle_micros) for c, w in zip(clocks, reached, strict=True)]
    least = min(range(len(bounds)), key=lambda i: (bounds[i], reached[i]))
    return clocks[least] if bounds[least] < lead else None


def contributions(clocks: Sequence[SourceClock], newest: Mapping[str, int], name: str, times: I64) -> I64:
    """Return the frontier as each row of source ``name`` alone moves it: int64 (rows,), microseconds, _NONE if it has no frontier.

    ``times``: event times (rows,). ``newest``: as of the batch before, so that no task has to know of the others. O(rows x sources).
    """
    before = [_reached(clock, newest.get(clock.name)) for clock in clocks]
    own = [np.maximum(_reached_by(clock, times), w) if clock.name == name else w for clock, w in zip(clocks, before, strict=True)]
    found = _least(clocks, own)
    return np.where(found < 0, _NONE, found)


def _least(clocks: Sequence[SourceClock], reached: Sequence[I64]) -> I64:
    """Return the frontier after the sources have ``reached`` these times less their delays; _NONE where a source holds it back."""
    lead = reduce(np.maximum, reached)
    each = [w if c.idle_micros is None else np.maximum(w, lead - c.idle_micros) for c, w in zip(clocks, reached, strict=True)]
    return reduce(np.minimum, each)


def _reached(clock: SourceClock, newest: int | None) -> I64:
    return np.asarray(_NONE) if newest is None else _reached_by(clock, np.asarray(newest))


def _reached_by(clock: SourceClock, times: I64) -> I64:
    return (times // 1000 - clock.delay_ms) * 1000


def with_contributions(
    table: pa.Table, clocks: Sequence[SourceClock], newest: Mapping[str, int], event_time: str, delay_ms: int
) -> tuple[pa.Table, dict[str, int]]:
    """Return ``table`` with ``CAPPED``, the instant with which each row counts for the watermark, and how far each source has come.

    The latter by the names of counts: ``NEWEST_OF`` and, where files have a ``CAP``, ``GREATEST_OF``. ``delay_ms``: what the watermark
    subtracts. Rows with a reason do not count. A row of a file with a cap counts as one of at most that time.
    """
    times = given = table[event_time].cast(pa.int64())
    capped = CAP in table.column_names
    if capped:
        times = pc.min_element_wise(given, table[CAP])
        table = table.drop_columns([CAP])
    counts = pc.and_(pc.is_null(table[REASON]), pc.is_valid(times)).to_numpy().astype(np.bool_)
    sources = table[SOURCE].to_numpy() if counts.any() else np.empty(0, object)
    values, uncapped = (pc.fill_null(t, 0).to_numpy().astype(np.int64) for t in (times, given))
    instants, found = np.full(table.num_rows, _NONE), {}
    for clock in clocks if counts.any() else ():
        mine = counts & (sources == clock.name)
        if mine.any():
            instants[mine] = contributions(clocks, newest, clock.name, values[mine])
            found[NEWEST_OF + clock.name] = int(values[mine].max())
            if capped:
                found[GREATEST_OF + clock.name] = int(uncapped[mine].max())
    known = instants > _NONE
    counted = pa.array(np.where(known, instants + 1000 * delay_ms, 0), pa.int64(), mask=~known).cast(STAMP)
    return table.append_column(CAPPED, counted), found
