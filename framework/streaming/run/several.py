"""The driver's part of a watermark of several sources: how far each has come, batch by batch, and what the watermark still lacks.

Tasks of a batch know the sources as they were after the batch before. So the watermark may lag by the rows of one batch; a row of the
control source moves it on when no batch does.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pyspark import SparkContext, TaskContext

from skyband.framework.base.messages import GREATEST_OF, NEWEST_OF, Tally
from skyband.framework.base.plain_json import mapping, whole
from skyband.framework.plan.source_nodes import SourceClock
from skyband.framework.streaming.rows.instants.source_clocks import frontier

_PROPERTY = "skyband.newest"


class SourceTimes:
    """The newest event time of each source after each of the last batches. ``last_runs``: rows of table ``runs``."""

    def __init__(self, clocks: tuple[SourceClock, ...], last_runs: list[dict[str, Any]]) -> None:
        self._clocks = clocks
        self._after = {int(row["batch_id"]): _reached(row["counters"]) for row in last_runs} if clocks else {}

    def before(self, batch: int, capped: bool) -> Mapping[str, int]:
        """Return the newest times as of the batch before ``batch``; ``capped``: as far as the caps of files let them count."""
        earlier = [b for b in self._after if b < batch]
        return self._newest(self._after[max(earlier)], capped) if earlier else {}

    def add(self, batch: int, counts: Tally) -> None:
        """Add what ``batch`` has read; ``counts`` then say how far the sources have come. A repeated batch gets the same."""
        if not self._clocks:
            return
        earlier = [b for b in self._after if b < batch]
        reached = dict(self._after[max(earlier)]) if earlier else {}
        for clock in self._clocks:
            for name in (NEWEST_OF + clock.name, GREATEST_OF + clock.name):
                if name in counts:
                    reached[name] = max(reached.get(name, counts[name]), counts[name])
        counts.update(reached)
        self._after[batch] = reached
        self._after = {b: r for b, r in self._after.items() if b >= batch - 2}

    def due(self) -> int | None:
        """Return the frontier to which the rows so far move the watermark, in microseconds; None if there is none."""
        return frontier(self._clocks, self._newest(self._after[max(self._after)], capped=False)) if self._after else None

    def _newest(self, reached: Mapping[str, int], capped: bool) -> dict[str, int]:
        found = {}
        for clock in self._clocks:
            times = [
                reached[name + clock.name]
                for name in ((NEWEST_OF,) if capped else (NEWEST_OF, GREATEST_OF))
                if name + clock.name in reached
            ]
            if times:
                found[clock.name] = max(times)
        return found


def pass_newest(context: SparkContext, newest: Mapping[str, int]) -> None:
    """Pass the newest times of sources to the tasks of this thread's jobs from now on."""
    context.setLocalProperty(_PROPERTY, json.dumps(dict(newest), sort_keys=True))


def passed_newest() -> Mapping[str, int]:
    """Return what ``pass_newest`` passed, in a task."""
    task = TaskContext.get()
    text = None if task is None else task.getLocalProperty(_PROPERTY)
    return {str(name): whole(at) for name, at in mapping(text or "{}").items()}


def _reached(counters: str) -> dict[str, int]:
    return {name: whole(at) for name, at in mapping(counters).items() if name.startswith((NEWEST_OF, GREATEST_OF))}
