"""Send metrics and traces of a run to an OpenTelemetry collector, by OTLP over HTTP. Needs the extra ``telemetry``.

The SDK sends on threads of its own. What it logs is counted here and reported once, at the end of the run.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, ClassVar, Final
from urllib.parse import parse_qsl, unquote, urlsplit

from skyband.framework.base.counts import counted
from skyband.framework.base.extras import extra
from skyband.framework.base.messages import ACCEPTED, CHANGED, ROWS_IN, TIMES, time_count
from skyband.framework.base.reasons import FILTERED
from skyband.framework.base.redaction import conceal, redact_values
from skyband.framework.observe.metrics.all_metrics import JOB, METRICS, Labels, Metric, version
from skyband.framework.observe.metrics.environment import ENDPOINT
from skyband.framework.observe.metrics.registry import Distribution, Registry
from skyband.framework.observe.observers import Observer, StartedRun

# The spans of one run: one for the run, one per batch, and one per stage of a batch. Imported only with the extra ``telemetry``.

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


with extra("telemetry", "OpenTelemetry (OTEL_EXPORTER_OTLP_ENDPOINT)"):
    from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.metrics import CallbackOptions, Histogram, Meter, Observation
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import MetricReader, PeriodicExportingMetricReader
    from opentelemetry.sdk.resources import SERVICE_INSTANCE_ID, SERVICE_NAME, SERVICE_VERSION, Resource
    from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

if TYPE_CHECKING:
    from skyband.framework.streaming.run.batch import Batch

SCOPE: Final = "skyband"
MOST_SECONDS: Final = 4.0
"""The most seconds that an export may take: less than a run waits for its end."""


def resource(env: Mapping[str, str], run: StartedRun) -> Resource:
    """Return what describes the run in every export; the variables of OpenTelemetry take precedence."""
    own = {JOB: run.plan.job, SERVICE_VERSION: version(), SERVICE_INSTANCE_ID: str(run.run)}
    named = {pair.partition("=")[0].strip() for pair in env.get("OTEL_RESOURCE_ATTRIBUTES", "").split(",")}
    if not env.get("OTEL_SERVICE_NAME") and SERVICE_NAME not in named:
        own[SERVICE_NAME] = "skyband"
    return Resource.create({name: value for name, value in own.items() if name not in named})


def seconds_of(env: Mapping[str, str], signal: str) -> float:
    """Return how long an export may take: what the variables of OpenTelemetry say, but at most ``MOST_SECONDS``."""
    try:
        said = float(env.get(f"OTEL_EXPORTER_OTLP_{signal}_TIMEOUT") or env.get("OTEL_EXPORTER_OTLP_TIMEOUT") or MOST_SECONDS)
    except ValueError:
        return MOST_SECONDS
    return min(said, MOST_SECONDS) if said > 0 else MOST_SECONDS


def conceal_keys(env: Mapping[str, str]) -> None:
    """Have the keys in headers and addresses of ``env`` redacted wherever a text may contain them."""
    for name in env:
        if name.startswith("OTEL_EXPORTER_OTLP_") and name.endswith("HEADERS"):
            for pair in env[name].split(","):
                value = pair.partition("=")[2].strip()
                for part in {value, unquote(value), *unquote(value).split()}:
                    # A word such as Bearer is no key, and would make other messages unreadable.
                    if len(part) > 7:
                        conceal(name, part)
        elif name.endswith("_ENDPOINT") and name.startswith(ENDPOINT.removesuffix("ENDPOINT")):
            found = urlsplit(env[name])
            # A name of a user beside a password is no key; alone it may be one.
            keys = [found.password or found.username, *(value for _, value in parse_qsl(found.query))]
            for part in filter(None, keys):
                conceal(name, part)


class _Failures(logging.Handler):
    """Counts what the SDK logs of failed exports. Added while a run goes on, so that it is not printed as Python's last resort."""

    LOGGER: ClassVar[str] = "opentelemetry"

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.count = 0
        self.last = ""

    def open(self) -> None:
        logging.getLogger(self.LOGGER).addHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        """Count a record."""
        self.count += 1
        self.last = redact_values(record.getMessage().partition("\n")[0])[:200]

    def remove(self) -> None:
        logging.getLogger(self.LOGGER).removeHandler(self)

    def check(self, what: str) -> None:
        """Raise ConnectionError if an export failed."""
        if self.count:
            raise ConnectionError(f"{what} could not be sent ({counted(self.count, 'failure')}); last: {self.last}")


class _Otlp(Observer):
    """What both signals share. Of a provider that still hangs when the run is over, the failures stay caught."""

    logger: ClassVar[str]
    what: ClassVar[str]

    def __init__(self, env: Mapping[str, str]) -> None:
        self._env = env
        self._shutdown: Callable[[], object] | None = None
        self._failures = _Failures()

    def _open(self) -> None:
        conceal_keys(self._env)
        self._failures.open()

    def close(self, seconds: float) -> None:
        """See ``Observer``. Sends what waits."""
        if self._shutdown is None:
            return
        thread = threading.Thread(target=self._shutdown, name="send the last", daemon=True)
        thread.start()
        thread.join(seconds)
        if thread.is_alive():
            raise TimeoutError(f"{self.what}: the collector did not answer in time")
        self._failures.remove()
        self._failures.check(self.what)


class OtlpMetrics(_Otlp):
    """Sends the metrics of ``registry`` every ``OTEL_METRIC_EXPORT_INTERVAL`` and at the end. ``reader``: for tests."""

    name = "metrics"
    what = "metrics"

    def __init__(self, registry: Registry, env: Mapping[str, str], reader: MetricReader | None = None) -> None:
        super().__init__(env)
        self._registry = registry
        self._reader = reader
        self._histograms: dict[Metric, Histogram] = {}

    def started(self, run: StartedRun) -> None:
        """Begin to send."""
        self._open()
        reader = self._reader
        if reader is None:
            exporter = OTLPMetricExporter(timeout=seconds_of(self._env, "METRICS"))
            reader = PeriodicExportingMetricReader(exporter, export_timeout_millis=1000 * MOST_SECONDS)
        provider = MeterProvider([reader], resource(self._env, run), shutdown_on_exit=False)
        meter = provider.get_meter(SCOPE, version())
        for metric in METRICS:
            self._create(meter, metric)
        self._registry.listen(self._observed)
        self._shutdown = provider.shutdown

    def _create(self, meter: Meter, metric: Metric) -> None:
        if metric.kind == "histogram":
            self._histograms[metric] = meter.create_histogram(
                metric.name, metric.unit, metric.description, explicit_bucket_boundaries_advisory=metric.bounds
            )
            return
        create = meter.create_observable_counter if metric.kind == "counter" else meter.create_observable_gauge
        create(metric.name, [self._samples_of(metric)], metric.unit, metric.description)

    def _samples_of(self, metric: Metric) -> Callable[[CallbackOptions], Iterable[Observation]]:
        def samples(options: CallbackOptions) -> Iterable[Observation]:
            for labels, value in self._registry.read_one(metric):
                assert not isinstance(value, Distribution)
                yield Observation(value, _attributes(metric, labels))

        return samples

    def _observed(self, metric: Metric, labels: Labels, value: float) -> None:
        self._histograms[metric].record(value, _attributes(metric, labels))


class OtlpTraces(_Otlp):
    """Sends spans of a run, its batches and their stages. ``processor``: for tests."""

    name = "traces"
    what = "spans"

    def __init__(self, env: Mapping[str, str], processor: SpanProcessor | None = None) -> None:
        super().__init__(env)
        self._processor = processor
        self._spans: RunSpans | None = None

    def started(self, run: StartedRun) -> None:
        """Begin the span of the run."""
        self._open()
        provider = TracerProvider(resource=resource(self._env, run), shutdown_on_exit=False)
        provider.add_span_processor(self._processor or BatchSpanProcessor(OTLPSpanExporter(timeout=seconds_of(self._env, "TRACES"))))
        self._spans = RunSpans(provider.get_tracer(SCOPE, version()), run, self._env)
        self._shutdown = provider.shutdown

    def phase(self, text: str, at: datetime) -> None:
        """Note what the run does as an event of its span."""
        if self._spans is not None:
            self._spans.phase(text, at)

    def committed(self, batch: Batch, at: datetime) -> None:
        """Add the spans of the batch."""
        if self._spans is not None:
            self._spans.batch(batch)

    def ended(self, outcome: Mapping[str, Any]) -> None:
        """End the span of the run."""
        if self._spans is not None:
            self._spans.end(outcome)


def _attributes(metric: Metric, labels: Labels) -> dict[str, str]:
    return dict(zip((JOB, *metric.labels), labels, strict=True))
