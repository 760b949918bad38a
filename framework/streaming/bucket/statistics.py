"""Statistics of the rows before each accepted row, as further columns of it (``stats:`` of a spec).

A stage between the sequencer and the operators. What it computes stays with the row: the window's rows are stored with these columns.
Its own state follows from the window's rows, as sums are exact whatever their order. So nothing of it is saved: a restore adds up again.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from skyband.framework.streaming.bucket.sequencer import Sequenced, Sequencer
from skyband.framework.streaming.bucket.store import WindowStore
from skyband.framework.streaming.rows.config import HostConfig

if TYPE_CHECKING:
    from skyband.framework.streaming.bucket.statistics_part import StatisticsPart

_SPARE: Final = 1 << 16
"""Rows and groups that may be kept in vain before the state is made again from the window's rows."""


class RowStatistics:
    """The statistics of one bucket. Without ``stats:`` in the spec every method does nothing."""

    def __init__(self, config: HostConfig) -> None:
        self._parts: list[StatisticsPart] = []
        if config.statistics:  # other jobs need not load the kernels
            from skyband.framework.streaming.bucket.statistics_part import StatisticsPart

            self._parts = [StatisticsPart(node, config) for node in config.statistics]

    def added(self, taken: Sequenced) -> Sequenced:
        """Return ``taken`` with the columns of the statistics, null in deletions. The rows continue those before."""
        if not self._parts:
            return taken
        rows = taken.rows
        for part in self._parts:
            for name, column in zip(part.node.columns, part.take(taken), strict=True):
                rows = rows.append_column(name, pa.array(column, from_pandas=True))
        return replace(taken, rows=rows)

    def load(self, store: WindowStore, sequencer: Sequencer) -> None:
        """Begin with the window's rows that have not been deleted. O(rows)."""
        for part in self._parts:
            part.load(store, sequencer)

    def tidy(self, store: WindowStore, sequencer: Sequencer) -> None:
        """Begin again where rows and groups that are not needed have become many: those of keys that get no more rows."""
        kept = sum(len(s.at) for s in store.segments) if self._parts else 0
        for part in self._parts:
            if part.size > 2 * kept + _SPARE:
                part.load(store, sequencer)
