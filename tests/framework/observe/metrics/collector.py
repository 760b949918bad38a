"""An OTLP collector for tests: a server on loopback that decodes what it gets, or misbehaves."""

from __future__ import annotations

import gzip
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


class Collector:
    """``code``: of its answers. ``hangs``: it never answers. ``trickles``: it answers a byte now and then, without an end."""

    def __init__(self, code: int = 200, hangs: bool = False, trickles: bool = False) -> None:
        self.metrics: list[Any] = []
        self.traces: list[Any] = []
        self.headers: list[dict[str, str]] = []
        self.code, self.hangs, self.trickles = code, hangs, trickles
        self.over = threading.Event()
        self.url = ""

    def handle(self, handler: BaseHTTPRequestHandler) -> None:
        body = handler.rfile.read(int(handler.headers["Content-Length"]))
        self.headers.append({k.lower(): v for k, v in handler.headers.items()})
        if handler.headers.get("Content-Encoding") == "gzip":
            body = gzip.decompress(body)
        if handler.path == "/v1/metrics":
            self.metrics.append(ExportMetricsServiceRequest.FromString(body))
        elif handler.path == "/v1/traces":
            self.traces.append(ExportTraceServiceRequest.FromString(body))
        if self.hangs:
            self.over.wait(120)
            return
        if self.trickles:
            while not self.over.wait(0.05):
                handler.wfile.write(b"H")
                handler.wfile.flush()
            return
        handler.send_response(self.code)
        handler.send_header("Content-Length", "0")
        handler.end_headers()

    def points(self) -> dict[str, dict[tuple[tuple[str, str], ...], Any]]:
        """The data points of the last export by the metric's name and the attributes."""
        found: dict[str, dict[tuple[tuple[str, str], ...], Any]] = {}
        for resource in self.metrics[-1].resource_metrics:
            for scope in resource.scope_metrics:
                for metric in scope.metrics:
                    data = getattr(metric, metric.WhichOneof("data"))
                    found[metric.name] = {
                        tuple(sorted((a.key, a.value.string_value) for a in point.attributes)): point for point in data.data_points
                    }
        return found

    def spans(self) -> list[Any]:
        """All spans, as they came."""
        return [s for export in self.traces for r in export.resource_spans for scope in r.scope_spans for s in scope.spans]


@contextmanager
def collecting(**how: Any) -> Iterator[Collector]:
    """A collector that listens for the time of the block."""
    collector = Collector(**how)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            with suppress(OSError):
                collector.handle(self)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    server.block_on_close = False
    collector.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield collector
    finally:
        collector.over.set()
        server.shutdown()
        server.server_close()


def wait_for(condition: Any, seconds: float = 60) -> None:
    """Wait until ``condition()`` is true."""
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.02)
