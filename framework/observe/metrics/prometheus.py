"""Serve the metrics of a run to Prometheus, on loopback only. Needs the extra ``metrics``."""

from __future__ import annotations

import socket
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

from skyband.framework.base.errors import SkybandError
from skyband.framework.base.extras import extra
from skyband.framework.observe.metrics.registry import Distribution, Registry
from skyband.framework.observe.observers import Observer, StartedRun

with extra("metrics", "--metrics-port"):
    from prometheus_client import CollectorRegistry
    from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest
    from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
    from prometheus_client.registry import Collector

ADDRESS: Final = "127.0.0.1"
PATH: Final = "/metrics"
_HOSTS: Final = (ADDRESS, "localhost")
"""Names in the header ``Host`` of a request: a web page cannot ask by way of a name of its own."""
_PATIENCE: Final = 5.0
"""Seconds that a client may stay silent."""
_CLIENTS: Final = 16
"""The most clients at once; one more replaces the one that has waited longest."""


class RegistryCollector(Collector):
    """The metrics of ``registry`` as those of the client library."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    def collect(self) -> Iterator[Metric]:
        """Yield every metric that has samples."""
        for metric, samples in self._registry.read().items():
            if not samples:
                continue
            name, labels = metric.prometheus, metric.prometheus_labels
            if metric.kind == "histogram":
                histogram = HistogramMetricFamily(name, metric.description, labels=labels)
                for values, found in samples:
                    assert isinstance(found, Distribution)
                    histogram.add_metric(values, found.cumulated(), found.total)
                yield histogram
                continue
            kind = CounterMetricFamily if metric.kind == "counter" else GaugeMetricFamily
            family = kind(name.removesuffix("_total") if metric.kind == "counter" else name, metric.description, labels=labels)
            for values, found in samples:
                assert not isinstance(found, Distribution)
                family.add_metric(values, found)
            yield family


def exposition(registry: Registry) -> bytes:
    """Return all metrics in Prometheus' text format."""
    collectors = CollectorRegistry(auto_describe=False)
    collectors.register(RegistryCollector(registry))
    return generate_latest(collectors)


class PrometheusServer(Observer):
    """Answers ``GET /metrics`` from ``registry``. The port is taken by the constructor; requests are answered once the run has begun.

    Raises SkybandError SKY-E675 for a port that cannot be had.
    """

    name = "metrics"

    def __init__(self, registry: Registry, port: int) -> None:
        try:
            self._server = _Server(registry, port)
        except OSError as e:
            hint = "name a free port; every run that goes on at the same time needs a port of its own"
            raise SkybandError("SKY-E675", f"--metrics-port {port}: {ADDRESS}:{port} cannot be listened on: {e.strerror}", hint) from e
        self._thread: threading.Thread | None = None

    @property
    def port(self) -> int:
        """Return the port."""
        return int(self._server.server_address[1])

    def started(self, run: StartedRun) -> None:
        """Begin to answer requests."""
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.1,), name="metrics", daemon=True)
        self._thread.start()

    def close(self, seconds: float) -> None:
        """Free the port."""
        if self._thread is not None:
            self._server.shutdown()
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    # Another process must not take over the port of a server that listens.
    allow_reuse_address = True
    allow_reuse_port = False
    request_queue_size = 32

    def __init__(self, registry: Registry, port: int) -> None:
        self.figures = registry
        self._lock = threading.Lock()
        self._clients: deque[socket.socket] = deque()
        super().__init__((ADDRESS, port), _Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer a client on a thread of its own."""
        with self._lock:
            self._clients.append(request)
            oldest = self._clients.popleft() if len(self._clients) > _CLIENTS else None
        if oldest is not None:
            with suppress(OSError):
                oldest.shutdown(socket.SHUT_RDWR)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        """Close the connection of a client."""
        with self._lock, suppress(ValueError):
            self._clients.remove(request)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore what a client does wrong: it has been disconnected."""


class _Handler(BaseHTTPRequestHandler):
    timeout = _PATIENCE
    server: _Server
    server_version = "skyband"
    sys_version = ""

    def do_GET(self) -> None:
        """Answer with the metrics."""
        if self.path.partition("?")[0] != PATH:
            return self._answer(404, b"only /metrics is served\n")
        if self.headers.get("Host", ADDRESS).rpartition(":")[0] not in _HOSTS and self.headers.get("Host", ADDRESS) not in _HOSTS:
            return self._answer(403, b"only requests to localhost are answered\n")
        self._answer(200, exposition(self.server.figures), CONTENT_TYPE_PLAIN_0_0_4)

    def _answer(self, code: int, body: bytes, kind: str = "text/plain; charset=utf-8") -> None:
        self.send_response(code)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing: requests are no news."""
