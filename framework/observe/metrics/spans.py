"""The spans of one run: one for the run, one per batch, and one per stage of a batch. Imported only with the extra ``telemetry``."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from skyband.framework.base.extras import extra
from skyband.framework.base.messages import ACCEPTED, CHANGED, ROWS_IN, TIMES, time_count
from skyband.framework.base.reasons import FILTERED
from skyband.framework.base.redaction import redact_values
from skyband.framework.observe.metrics.metric import JOB, version
from skyband.framework.observe.observers import StartedRun

with extra("telemetry", "OpenTelemetry (OTEL_EXPORTER_OTLP_ENDPOINT)"):
    from opentelemetry.context import Context
    from opentelemetry.trace import Link, SpanKind, Status, StatusCode, Tracer, set_span_in_context
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

if TYPE_CHECKING:
    from opentelemetry.util.types import AnyValue

    from skyband.framework.streaming.run.batch import Batch

FAILURES: Final = ("failed", "refused", "checks_failed", "too_many_rejected")
"""The statuses of an outcome with which the span of the run has an error."""


class RunSpans:
    """Makes spans of what happens. The batches of a run that ends by itself are in its trace.

    A continuous run may last for months: each of its batches is a trace of its own, with a link to the run's span. The run's parent is
    the span that ``TRACEPARENT`` of ``env`` names, if it does.
    """

    def __init__(self, tracer: Tracer, run: StartedRun, env: Mapping[str, str]) -> None:
        self._tracer = tracer
        self._job = {JOB: run.plan.job}
        carrier = {name.lower(): env[name] for name in ("TRACEPARENT", "TRACESTATE") if env.get(name)}
        parent = TraceContextTextMapPropagator().extract(carrier, Context())
        attributes: dict[str, AnyValue] = {
            **self._job, "skyband.command": run.command, "skyband.run": str(run.run), "skyband.continuous": run.continuous,
            "skyband.version": version(),
        }  # fmt: skip
        self._span = tracer.start_span(
            f"{run.command} {run.plan.job}", parent, SpanKind.INTERNAL, attributes, start_time=_nanos(run.began.timestamp())
        )
        self._apart = run.continuous

    def phase(self, text: str, at: datetime) -> None:
        """Add an event to the run's span."""
        self._span.add_event(redact_values(text), timestamp=_nanos(at.timestamp()))

    def batch(self, batch: Batch) -> None:
        """Add the span of a batch; those of its stages follow each other in it."""
        attributes: dict[str, AnyValue] = {
            **self._job, "skyband.batch": batch.number, "skyband.rows": batch.get(ROWS_IN), "skyband.rows.filtered": batch.get(FILTERED),
            "skyband.rows.accepted": batch.get(ACCEPTED), "skyband.rows.rejected": sum(batch.reasons.values()),
            "skyband.rows.pending": batch.pending, "skyband.changes": batch.get(CHANGED),
        }  # fmt: skip
        context = Context() if self._apart else set_span_in_context(self._span, Context())
        links = [Link(self._span.get_span_context())] if self._apart else []
        began = _nanos(batch.began)
        span = self._tracer.start_span("batch", context, SpanKind.INTERNAL, attributes, links, began)
        inside, at = set_span_in_context(span, Context()), began
        for stage, seconds in batch.stages.items():
            # Tasks run beside each other: their times are sums, which a span cannot show.
            more: dict[str, AnyValue] = (
                {f"skyband.task.{phase}": batch.get(time_count(phase)) / 1e6 for phase in TIMES} if stage == "tasks" else {}
            )
            child = self._tracer.start_span(stage, inside, SpanKind.INTERNAL, {**self._job, **more}, start_time=at)
            at += _nanos(seconds)
            child.end(at)
        span.end(max(at, began + _nanos(batch.seconds)))

    def end(self, outcome: Mapping[str, Any]) -> None:
        """End the run's span, with its errors."""
        self._span.set_attribute("skyband.status", outcome["status"])
        self._span.set_attribute("skyband.exit_code", outcome["exit_code"])
        errors = [(str(e.get("code", "")), redact_values(str(e.get("message", "")))) for e in outcome["errors"]]
        for code, message in errors:
            self._span.add_event("exception", {"exception.type": code, "exception.message": message})
        if outcome["status"] in FAILURES:
            code, message = next(iter(errors), ("", outcome["status"]))
            self._span.set_status(Status(StatusCode.ERROR, f"{code} {message}".strip()))
        self._span.end(_nanos(datetime.now(UTC).timestamp()))


def _nanos(seconds: float) -> int:
    # A float of today's Unix time is exact to about a microsecond.
    return 1000 * round(1e6 * seconds)
