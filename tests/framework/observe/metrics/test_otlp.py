"""What a collector gets is what the registry has; a collector that does not work costs a bounded time and one warning."""

from __future__ import annotations

import logging
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from skyband.framework.base import extras
from skyband.framework.base.redaction import redact_values
from skyband.framework.observe.chosen import chosen
from skyband.framework.observe.metrics.environment import Wanted
from skyband.framework.observe.metrics.otlp import conceal_keys, seconds_of
from skyband.framework.observe.observers import Observers
from tests.framework.observe.metrics.batches import T0, batch, outcome, run
from tests.framework.observe.metrics.collector import collecting

KEY = "s3cr3t-api-key"


@pytest.fixture(autouse=True)
def no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_SERVICE_NAME", "OTEL_RESOURCE_ATTRIBUTES", "TRACEPARENT", "OTEL_SDK_DISABLED"):
        monkeypatch.delenv(name, raising=False)


def observe(
    monkeypatch: pytest.MonkeyPatch, env: dict[str, str], batches: int = 3, result: Any = None, continuous: bool = False
) -> list[str]:
    """Tell the observers of ``env`` of a run, and return what they warn of. Patience as in a run."""
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    observers = chosen(env)
    assert observers
    observers.started(run(continuous=continuous))
    observers.phase("reading")
    for number in range(batches):
        observers.committed(batch(number))
    return observers.ended(lambda: result or outcome())


def test_a_collector_gets_the_figures_of_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    with collecting() as collector:
        env = {"OTEL_EXPORTER_OTLP_ENDPOINT": collector.url, "OTEL_EXPORTER_OTLP_HEADERS": f"api-key={KEY}"}
        assert observe(monkeypatch, env, result=outcome("failed", 3)) == []
    points = collector.points()
    job = ("skyband.job", "flights")
    assert points["skyband.rows"][(job,)].as_double == 300 or points["skyband.rows"][(job,)].as_int == 300
    assert points["skyband.rows.rejected"][(("reason", "late"), job)].as_int == 15
    assert {k[0][1]: p.as_int for k, p in points["skyband.changes"].items()} == {"near": 12, "far": 9}
    histogram = points["skyband.batch.stage.duration"][(job, ("stage", "tasks"))]
    assert histogram.count == 3 and histogram.sum == 3.75 and len(histogram.bucket_counts) == len(histogram.explicit_bounds) + 1 == 13
    assert points["skyband.run.exit_code"][(job,)].as_int == 3 and points["skyband.run.active"][(job,)].as_int == 0
    (resource,) = {r.resource.SerializeToString(deterministic=True) for m in collector.metrics for r in m.resource_metrics}
    named = {a.key: a.value.string_value for a in collector.metrics[-1].resource_metrics[0].resource.attributes}
    assert resource and named["service.name"] == "skyband" and named["skyband.job"] == "flights" and named["service.instance.id"]
    kinds = {m.name: m for r in collector.metrics[-1].resource_metrics for s in r.scope_metrics for m in s.metrics}
    assert kinds["skyband.rows"].sum.is_monotonic and kinds["skyband.rows"].unit == "{row}"
    assert kinds["skyband.rows"].description == "rows read from the source"
    assert all(h["api-key"] == KEY and h["content-type"] == "application/x-protobuf" for h in collector.headers)


def test_spans_are_a_tree_and_have_the_times_of_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    failure = {"code": "SKY-E300", "message": "the run failed: boom"}
    with collecting() as collector:
        env = {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": f"{collector.url}/v1/traces", "TRACEPARENT": parent}
        assert observe(monkeypatch, env, result=outcome("failed", 3, (failure,))) == []
    assert not collector.metrics
    spans = collector.spans()
    by_id = {s.span_id: s for s in spans}
    (root,) = (s for s in spans if s.span_id and s.parent_span_id.hex() == "b7ad6b7169203331")
    assert root.name == "run flights" and {s.trace_id.hex() for s in spans} == {"0af7651916cd43dd8448eb211c80319c"}
    assert root.start_time_unix_nano == T0 * 10**9 and root.status.code == 2 and root.status.message == "SKY-E300 the run failed: boom"
    assert [e.name for e in root.events] == ["reading", "exception"]
    batches = [s for s in spans if s.parent_span_id == root.span_id]
    assert [s.name for s in batches] == ["batch"] * 3
    for number, span in enumerate(batches):
        assert span.start_time_unix_nano == (T0 + 10 * number) * 10**9 and span.end_time_unix_nano - span.start_time_unix_nano == 2 * 10**9
        attributes = {a.key: a.value for a in span.attributes}
        assert attributes["skyband.batch"].int_value == number and attributes["skyband.rows.rejected"].int_value == 7
        stages = [s for s in spans if s.parent_span_id == span.span_id]
        assert [(s.name, s.end_time_unix_nano - s.start_time_unix_nano) for s in stages] == [
            ("tasks", 1_250_000_000), ("check", 250_000_000), ("write", 500_000_000),
        ]  # fmt: skip
        assert [s.start_time_unix_nano for s in stages[1:]] == [s.end_time_unix_nano for s in stages[:-1]]
        (operator,) = (a.value.double_value for a in stages[0].attributes if a.key == "skyband.task.operator")
        assert operator == 0.25
    assert len(by_id) == len(spans) == 1 + 3 * 4


def test_each_batch_of_a_continuous_run_is_a_trace_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    with collecting() as collector:
        assert observe(monkeypatch, {"OTEL_EXPORTER_OTLP_ENDPOINT": collector.url}, continuous=True, result=outcome("stopped", 143)) == []
    spans = collector.spans()
    (root,) = (s for s in spans if s.name == "run flights")
    batches = [s for s in spans if s.name == "batch"]
    assert len({s.trace_id for s in [root, *batches]}) == 4 and root.status.code == 0
    assert all([link.span_id for link in s.links] == [root.span_id] and not s.parent_span_id for s in batches)


def closed_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])


@pytest.mark.parametrize("how", ["down", "500", "hangs", "trickles"])
def test_a_collector_that_does_not_work_costs_a_bounded_time_and_one_warning(
    how: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(Observers.__init__, "__defaults__", ((), 2.0, ()))
    more = {"500": {"code": 500}, "hangs": {"hangs": True}, "trickles": {"trickles": True}}.get(how, {})
    with collecting(**more) as collector:
        url = f"http://127.0.0.1:{closed_port()}" if how == "down" else collector.url
        env = {"OTEL_EXPORTER_OTLP_ENDPOINT": url, "OTEL_EXPORTER_OTLP_HEADERS": f"authorization=Bearer%20{KEY}"}
        began = time.monotonic()
        said = observe(monkeypatch, env)
        took = time.monotonic() - began
        assert took < 30
    assert len(said) == 1 and said[0].startswith("metrics and traces: ") and KEY not in said[0], said
    # Nothing of the libraries reaches the terminal.
    assert capfd.readouterr() == ("", "")


def test_the_handler_of_logs_goes_with_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    before = list(logging.getLogger("opentelemetry").handlers)
    with collecting(code=400) as collector:
        said = observe(monkeypatch, {"OTEL_EXPORTER_OTLP_ENDPOINT": collector.url})
    assert "could not be sent" in said[0] and "400" in said[0]
    assert [h for h in logging.getLogger("opentelemetry").handlers if h not in before and "hang" not in str(h)] == []


def test_keys_are_redacted_everywhere() -> None:
    conceal_keys({
        "OTEL_EXPORTER_OTLP_HEADERS": f"authorization=Bearer%20{KEY},x=1",
        "OTEL_EXPORTER_OTLP_TRACES_HEADERS": "dd-api-key=0123456789abcdef",
        "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": "https://user:passw0rd@collector/v1/metrics?token=t0ken123",
    })  # fmt: skip
    text = f"Bearer {KEY} 0123456789abcdef https://user:passw0rd@collector/v1/metrics?token=t0ken123 Bearer x=1"
    shown = redact_values(text)
    assert not any(key in shown for key in (KEY, "0123456789abcdef", "passw0rd", "t0ken123")) and shown.endswith("Bearer x=1")


@pytest.mark.parametrize(
    ("env", "expected"),
    [
        ({}, (False, False)),
        ({"OTEL_SERVICE_NAME": "x", "OTEL_RESOURCE_ATTRIBUTES": "a=b"}, (False, False)),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c"}, (True, True)),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": ""}, (False, False)),
        ({"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": "http://c"}, (True, False)),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://c"}, (False, True)),
        ({"OTEL_METRICS_EXPORTER": "otlp"}, (True, False)),
        ({"OTEL_METRICS_EXPORTER": "none", "OTEL_TRACES_EXPORTER": "none"}, (False, False)),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c", "OTEL_METRICS_EXPORTER": "none"}, (False, True)),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c", "OTEL_SDK_DISABLED": "TRUE"}, (False, False)),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c", "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf"}, (True, True)),
    ],
)
def test_the_standard_variables_switch_signals_on(env: dict[str, str], expected: tuple[bool, bool]) -> None:
    found = Wanted.of(env)
    assert (found.metrics, found.traces, found.notes) == (*expected, ())


def test_what_the_variables_ask_for_and_skyband_lacks_is_one_note() -> None:
    grpc = Wanted.of({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"})
    assert not grpc and grpc.notes == ("OTEL_EXPORTER_OTLP_PROTOCOL names a protocol that Skyband does not use: it sends http/protobuf",)
    console = Wanted.of({"OTEL_TRACES_EXPORTER": "console", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://c"})
    assert console.metrics and not console.traces and len(console.notes) == 1


def test_a_missing_library_is_one_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [
        n
        for n in sys.modules
        if n.startswith(("opentelemetry", "skyband.framework.observe.metrics.otlp", "skyband.framework.observe.metrics.otlp"))
    ]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    observers = chosen({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1"})
    assert not observers
    observers.started(run())
    (said,) = observers.ended(outcome)
    assert "opentelemetry" in said and "pip install 'skyband[telemetry]'" in said and "telemetry" in extras.EXTRAS


def test_an_export_never_takes_longer_than_a_run_waits_for_it() -> None:
    assert seconds_of({}, "METRICS") == 4 and seconds_of({"OTEL_EXPORTER_OTLP_TIMEOUT": "10"}, "METRICS") == 4
    assert seconds_of({"OTEL_EXPORTER_OTLP_TIMEOUT": "10", "OTEL_EXPORTER_OTLP_METRICS_TIMEOUT": "1.5"}, "METRICS") == 1.5
    assert seconds_of({"OTEL_EXPORTER_OTLP_TIMEOUT": "soon"}, "TRACES") == 4


def test_switched_off_nothing_is_imported(root: Path) -> None:
    code = (
        "import sys, threading\n"
        "from skyband.framework.observe.chosen import chosen\n"
        "observers = chosen({'PATH': '/bin'})\n"
        "bad = [m for m in sys.modules if m.startswith(('opentelemetry', 'prometheus_client', 'skyband.framework.observe.metrics'))]\n"
        "assert not observers and not bad and threading.active_count() == 1, bad\n"
        "chosen({'OTEL_SERVICE_NAME': 'x', 'OTEL_SDK_DISABLED': 'true', 'OTEL_EXPORTER_OTLP_ENDPOINT': 'http://c'})\n"
        "bad = [m for m in sys.modules if m.startswith(('opentelemetry', 'prometheus_client'))]\n"
        "assert not bad and threading.active_count() == 1, bad\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=root, timeout=300)
