"""The observer of metrics and traces that the command line and the standard variables of OpenTelemetry choose."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from skyband.framework.base.errors import SkybandError
from skyband.framework.observe.metrics.environment import Wanted
from skyband.framework.observe.observers import Observer, StartedRun

if TYPE_CHECKING:
    from skyband.framework.streaming.run.batch import Batch


class Telemetry(Observer):
    """Passes what happens to its ``members`` in their order, and closes them at the same time."""

    name = "metrics and traces"

    def __init__(self, members: Sequence[Observer]) -> None:
        self.members = tuple(members)

    def started(self, run: StartedRun) -> None:
        """See ``Observer``."""
        self._each(lambda member: member.started(run))

    def phase(self, text: str, at: datetime) -> None:
        """See ``Observer``."""
        self._each(lambda member: member.phase(text, at))

    def committed(self, batch: Batch, at: datetime) -> None:
        """See ``Observer``."""
        self._each(lambda member: member.committed(batch, at))

    def ended(self, outcome: Mapping[str, Any]) -> None:
        """See ``Observer``."""
        self._each(lambda member: member.ended(outcome))

    def close(self, seconds: float) -> None:
        """See ``Observer``. A receiver that hangs costs ``seconds`` once; what it has not taken by then is lost."""
        failures: list[Exception] = []
        closing = [threading.Thread(target=_attempt, args=(m, seconds, failures), name="close", daemon=True) for m in self.members]
        for thread in closing:
            thread.start()
        until = time.monotonic() + seconds
        for thread in closing:
            thread.join(max(0.0, until - time.monotonic()))
        if any(thread.is_alive() for thread in closing):
            raise TimeoutError("a receiver did not take the last figures in time")
        if failures:
            raise failures[0]

    def _each(self, event: Callable[[Observer], None]) -> None:
        failures: list[Exception] = []
        for member in self.members:
            try:
                event(member)
            except Exception as e:  # the other members shall hear of the event, too
                failures.append(e)
        if failures:
            raise failures[0]


def telemetry(env: Mapping[str, str], port: int | None, notes: list[str]) -> list[Observer]:
    """Return the observer, if one is wanted; ``notes`` gets what to warn of at the end of the run.

    ``port``: of the metrics for Prometheus. Raises SkybandError SKY-E675 if it cannot be had, SKY-E200 if its library is missing.
    """
    wanted = Wanted.of(env)
    notes += wanted.notes
    if port is None and not wanted:
        return []
    from skyband.framework.observe.metrics.observer import MetricsObserver
    from skyband.framework.observe.metrics.registry import Registry

    registry, members = Registry(), list[Observer]()
    if wanted:
        try:
            from skyband.framework.observe.metrics.otlp import OtlpMetrics, OtlpTraces
        except SkybandError as e:
            # The variables are often those of a whole machine: a run does not fail for them.
            notes.append(f"{e.message}: nothing is sent ({e.hint})")
        else:
            members += [OtlpMetrics(registry, env)] if wanted.metrics else []
            members += [OtlpTraces(env)] if wanted.traces else []
    if port is not None:
        from skyband.framework.observe.metrics.prometheus import PrometheusServer

        members.append(PrometheusServer(registry, port))
    return [Telemetry([MetricsObserver(registry), *members])] if members else []


def _attempt(member: Observer, seconds: float, failures: list[Exception]) -> None:
    try:
        member.close(seconds)
    except Exception as e:  # reported by the observers
        failures.append(e)
