"""What Prometheus reads is what the registry has; other requests are refused, and no client disturbs the server."""

from __future__ import annotations

import http.client
import socket
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from skyband.framework.base.errors import SkybandError
from skyband.framework.observe.chosen import chosen
from skyband.framework.observe.metrics import all_metrics as m
from skyband.framework.observe.metrics.prometheus import ADDRESS, PrometheusServer, exposition
from skyband.framework.observe.metrics.registry import Distribution, Registry
from skyband.jobs.cli import main
from tests.framework.observe.metrics.batches import outcome, run
from tests.framework.observe.metrics.test_registry import observed
from tests.spark.jobs import write_spec


@pytest.fixture
def server() -> Iterator[PrometheusServer]:
    registry = Registry()
    observed(registry)
    made = PrometheusServer(registry, 0)
    made.started(run())
    yield made
    made.close(5)


def get(port: int, path: str = "/metrics", method: str = "GET", host: str | None = None) -> tuple[int, str]:
    with closing(http.client.HTTPConnection(ADDRESS, port, timeout=30)) as connection:
        connection.request(method, path, headers={} if host is None else {"Host": host})
        response = connection.getresponse()
        return response.status, response.read().decode()


def test_the_text_has_every_figure_of_the_registry() -> None:
    registry = Registry()
    observed(registry, "a")
    observed(registry, 'b "quoted" \\ \n', 2).ended(outcome("failed", 3))
    families = {f.name: f for f in text_string_to_metric_families(exposition(registry).decode())}
    shown = 0
    for metric, samples in registry.read().items():
        if not samples:
            continue
        family = families[metric.prometheus.removesuffix("_total") if metric.kind == "counter" else metric.prometheus]
        assert (family.type, family.documentation) == (metric.kind, metric.description)
        found = {(s.name, tuple(sorted(s.labels.items()))): s.value for s in family.samples}
        for labels, value in samples:
            named = dict(zip(metric.prometheus_labels, labels, strict=True))
            parts = {"": value}
            if isinstance(value, Distribution):
                parts = {"_sum": value.total, "_count": sum(value.counts)}
                for bound, n in value.cumulated():
                    assert found[(f"{metric.prometheus}_bucket", tuple(sorted({**named, "le": bound}.items())))] == n
            for suffix, part in parts.items():
                assert found[(metric.prometheus + suffix, tuple(sorted(named.items())))] == part
                shown += 1
    assert shown > 60 and set(families) <= {f.prometheus.removesuffix("_total") for f in m.METRICS}


def test_only_get_metrics_is_answered(server: PrometheusServer) -> None:
    code, text = get(server.port)
    assert code == 200 and 'skyband_rows_total{skyband_job="flights"} 300.0' in text
    assert get(server.port, "/metrics?x=1")[0] == 200
    assert [get(server.port, path)[0] for path in ("/", "/metrics/", "/../metrics", "/favicon.ico")] == [404] * 4
    assert [get(server.port, method=method)[0] for method in ("POST", "PUT", "DELETE", "HEAD", "OPTIONS")] == [501] * 5
    assert [get(server.port, host=host)[0] for host in ("evil.example", f"evil.example:{server.port}", "localhost:1", "")] == [
        403, 403, 200, 403,
    ]  # fmt: skip


def test_it_listens_on_loopback_only(server: PrometheusServer) -> None:
    assert server._server.server_address[0] == "127.0.0.1"
    with socket.socket() as other, pytest.raises(OSError):
        # Another address of the same machine.
        other.settimeout(5)
        other.connect(("127.0.0.2", server.port))


def test_clients_that_hang_or_send_rubbish_disturb_nothing(server: PrometheusServer, capfd: pytest.CaptureFixture[str]) -> None:
    hanging = [socket.create_connection((ADDRESS, server.port), timeout=30) for _ in range(40)]
    for i, client in enumerate(hanging):
        client.sendall([b"", b"GET /met", b"\x16\x03\x01\x02\x00\x01", b"GET " + b"x" * 70_000][i % 4])
    assert get(server.port)[0] == 200
    for client in hanging:
        client.close()
    assert get(server.port)[0] == 200
    assert capfd.readouterr() == ("", "")


def test_a_port_in_use_is_a_mistake_before_anything_starts() -> None:
    with socket.socket() as taken:
        taken.bind((ADDRESS, 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(SkybandError) as e:
            chosen({}, port)
    assert e.value.code == "SKY-E675" and str(port) in e.value.message and "in use" in e.value.message


def test_the_port_is_free_after_the_run() -> None:
    before = threading.active_count()
    for _ in range(2):
        observers = chosen({}, free_port())
        observers.started(run())
        assert observers.ended(outcome) == []
    # A run that never began has taken the port, too.
    port = free_port()
    assert chosen({}, port).ended(outcome) == []
    with socket.socket() as again:
        again.bind((ADDRESS, port))
    assert threading.active_count() <= before


def free_port() -> int:
    with socket.socket() as s:
        s.bind((ADDRESS, 0))
        return int(s.getsockname()[1])


def test_the_command_says_so_before_spark_starts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as taken:
        taken.bind((ADDRESS, 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert main(["run", str(write_spec(tmp_path)), "--metrics-port", str(port)]) == 2
    error = capsys.readouterr().err
    assert f"SKY-E675 --metrics-port {port}: 127.0.0.1:{port} cannot be listened on" in error and "hint: name a free port" in error
    assert "Spark" not in error and not (tmp_path / "out").exists()
