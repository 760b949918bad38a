"""The figures of runs in memory, which Prometheus and OpenTelemetry read. Thread safe; knows nothing of either."""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import accumulate
from typing import TYPE_CHECKING, Final

from skyband.framework.observe.metrics.all_metrics import METRICS, Labels, Metric

if TYPE_CHECKING:
    from skyband.framework.streaming.run.batch import Batch

MOST: Final = 500
"""The most combinations of labels that a metric keeps, so that a job of very many queries does not fill a monitoring system."""
OTHERS: Final = "(others)"
"""The value of the last label of what is beyond ``MOST``."""


@dataclass(slots=True)
class Distribution:
    """What a histogram has observed. ``counts``: by bucket, not summed up; the last one is of values beyond all bounds."""

    bounds: tuple[float, ...]
    counts: list[int] = field(default_factory=list)
    total: float = 0.0

    def __post_init__(self) -> None:
        self.counts = self.counts or [0] * (len(self.bounds) + 1)

    def observe(self, value: float) -> None:
        """Count a value in the first bucket whose bound is not below it."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value

    def cumulated(self) -> list[tuple[str, int]]:
        """Return (upper bound, values up to it) of every bucket, as Prometheus has them."""
        return list(zip([*map(str, self.bounds), "+Inf"], accumulate(self.counts), strict=True))

    def copy(self) -> Distribution:
        """Return a copy that does not change."""
        return Distribution(self.bounds, list(self.counts), self.total)


Sample = tuple[Labels, float | Distribution]
"""Values of all labels, the job's first, and what was measured."""
OnRead = Callable[[], Mapping[Metric, Mapping[Labels, float]]]
"""Gives gauges at the moment at which they are read."""


class Registry:
    """Values by metric and labels; the first label is the job."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._values: dict[Metric, dict[Labels, float | Distribution]] = {m: {} for m in METRICS}
        self._on_read: dict[str, OnRead] = {}
        self._listeners: list[Callable[[Metric, Labels, float], None]] = []

    def update(self, metric: Metric, job: str, values: Mapping[Labels, float]) -> None:
        """Add ``values`` to a counter, set a gauge to them, or let a histogram observe them."""
        for labels, value in values.items():
            with self._lock:
                key = self._key(metric, (job, *labels))
                kept = self._values[metric]
                if metric.kind == "counter":
                    kept[key] = kept.get(key, 0) + value  # type: ignore[operator]
                elif metric.kind == "gauge":
                    kept[key] = value
                else:
                    found = kept.setdefault(key, Distribution(metric.bounds))
                    assert isinstance(found, Distribution)
                    found.observe(value)
            if metric.kind == "histogram":
                for listener in self._listeners:
                    listener(metric, key, value)

    def batch(self, job: str, batch: Batch) -> None:
        """Update all metrics that are read from batches."""
        for metric in METRICS:
            if metric.read is not None:
                self.update(metric, job, metric.read(batch))

    def on_read(self, job: str, gauges: OnRead) -> None:
        """Have ``gauges`` of the job called whenever the registry is read."""
        self._on_read[job] = gauges

    def listen(self, listener: Callable[[Metric, Labels, float], None]) -> None:
        """Have ``listener`` called with every value that a histogram observes."""
        self._listeners.append(listener)

    def read(self) -> dict[Metric, list[Sample]]:
        """Return all metrics with their samples now."""
        self._look()
        return {metric: self._samples(metric) for metric in METRICS}

    def read_one(self, metric: Metric) -> list[Sample]:
        """Return the samples of one metric now."""
        self._look()
        return self._samples(metric)

    def _look(self) -> None:
        for job, gauges in list(self._on_read.items()):
            for metric, values in gauges().items():
                self.update(metric, job, values)

    def _samples(self, metric: Metric) -> list[Sample]:
        with self._lock:
            return [(k, v.copy() if isinstance(v, Distribution) else v) for k, v in self._values[metric].items()]

    def _key(self, metric: Metric, labels: Labels) -> Labels:
        kept = self._values[metric]
        return labels if labels in kept or len(kept) < MOST or not metric.labels else (*labels[:-1], OTHERS)
