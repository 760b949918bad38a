"""How far several sources have come, batch by batch, and the frontier that follows.

Tasks of a batch know the sources as they were after the batch before. So the watermark may lag by the rows of one batch; a row of the
control source moves it on when no batch does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from skyband.framework.base.messages import GREATEST_OF, NEWEST_OF, SOURCES_NEWEST, Tally
from skyband.framework.base.plain_json import mapping, whole
from skyband.framework.plan.nodes import SourceClock
from skyband.framework.streaming.rows.instants.source_clocks import frontier


class SourceTimes:
    """The newest event time of each source after each of the last batches. ``last_runs``: rows of table ``runs``."""

    def __init__(self, clocks: tuple[SourceClock, ...], last_runs: Sequence[Mapping[str, Any]] = ()) -> None:
        self._clocks = clocks
        self._after = {int(row["batch_id"]): _reached(mapping(row["counters"])) for row in last_runs} if clocks else {}

    def before(self, batch: int, capped: bool) -> Mapping[str, int]:
        """Return the newest times as of the batch before ``batch``; ``capped``: as far as the caps of files let them count."""
        return self._newest(self._before(batch), capped)

    def add(self, batch: int, counts: Tally) -> None:
        """Add what ``batch`` has read; ``counts`` then say how far the sources have come. A repeated batch gets the same."""
        if not self._clocks:
            return
        for name, at in self._before(batch).items():
            counts.include(name, at)
        self._after[batch] = _reached(counts)
        self._after = {b: r for b, r in self._after.items() if b >= batch - 2}

    def due(self) -> int | None:
        """Return the frontier to which the rows so far move the watermark, in microseconds; None if there is none."""
        return frontier(self._clocks, self._newest(self._after[max(self._after)], capped=False)) if self._after else None

    def _before(self, batch: int) -> Mapping[str, int]:
        earlier = [b for b in self._after if b < batch]
        return self._after[max(earlier)] if earlier else {}

    def _newest(self, reached: Mapping[str, int], capped: bool) -> dict[str, int]:
        return newest_by_source(self._clocks, reached, capped)


def newest_by_source(clocks: tuple[SourceClock, ...], counts: Mapping[str, int], capped: bool = False) -> dict[str, int]:
    """Return the newest event times by source that the ``counts`` of a batch hold, in microseconds; none for a source without rows.

    ``capped``: as far as the caps of files let them count.
    """
    prefixes = (NEWEST_OF,) if capped else (NEWEST_OF, GREATEST_OF)
    times = {clock.name: [counts[p + clock.name] for p in prefixes if p + clock.name in counts] for clock in clocks}
    return {name: max(found) for name, found in times.items() if found}


def task_newest() -> Mapping[str, int]:
    """Return how far each source had come after the batch before that of the task; nothing outside of the tasks of a batch."""
    # Rehearsals import this module, and need no Spark.
    from pyspark import TaskContext

    task = TaskContext.get()
    text = None if task is None else task.getLocalProperty(SOURCES_NEWEST)
    return {str(name): whole(at) for name, at in mapping(text or "{}").items()}


def _reached(counts: Mapping[str, Any]) -> dict[str, int]:
    return {name: whole(at) for name, at in counts.items() if name.startswith((NEWEST_OF, GREATEST_OF))}
