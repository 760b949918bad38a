"""Jobs for tests of alerts: a spec, its tables as a rehearsal makes them, written to disk by delta-rs, and a receiver on loopback."""

from __future__ import annotations

import json
import random
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import write_deltalake

from skyband.framework.plan.model import Plan
from skyband.framework.rehearsal.rehearsal import Rehearsal
from skyband.framework.streaming.job.layout import JobFile, Layout
from tests.specs import plan_of_text, spec_text

QUERIES = {
    "best": "{type: topk, scoring: load, k: 3, where: load > 0}",
    "groups": "{type: topk_groups, group: machine, score: sum(load), k: 2}",
    "busy": "{type: threshold_loyalty, object: machine, criteria: load > 0.5, at_least: 10 seconds}",
    "traced": "{type: threshold_loyalty, object: machine, criteria: load > 0.5, at_least: 20 seconds, trace: all}",
    "flat": "{type: skyline, dimensions: {load: max, heat: max}, carry: [load]}",
}
START = 1_709_251_200_000_000
"""2024-03-01 UTC in microseconds."""
VALUED = ("best", "groups", "busy", "traced")


def text_of(alerts: str, sink: str = "out", partition_by: str | None = "[site]") -> str:
    return spec_text(
        "machines", "{id: bigint, ts: timestamp, site: string, machine: string, load: double, heat: double}",
        event_time="{column: ts, watermark: 5 seconds}", partition_by=partition_by, options="{header: true}",
        window="{time: 1 minute}", scoring="{load: {expression: load, direction: max}}", queries=QUERIES, sink=f"{{path: {sink}}}",
        alerts=alerts,
    )  # fmt: skip


def plan_of(alerts: str, root: Path, partition_by: str | None = "[site]") -> Plan:
    return plan_of_text(text_of(alerts, str(root), partition_by))


def rows_of(seed: int, count: int, start: int = 0) -> list[dict[str, Any]]:
    """Rows with many ties of time, load and key."""
    rng, at, rows = random.Random(seed), START + 1_000_000 * start, []
    for n in range(count):
        at += 1_000_000 * rng.choice([0, 0, 1, 2, 7])
        rows.append({
            "id": 1_000_000 * seed + n, "ts": at, "site": rng.choice("AB"), "machine": rng.choice(["m1", "m2", "m\u00fc {id}"]),
            "load": rng.choice([0.1, 0.2, 0.6, 0.9, 1.5]), "heat": rng.choice([1.0, 2.0, 3.0]),
        })  # fmt: skip
    return rows


def tables_of(plan: Plan, rows: Sequence[dict[str, Any]], per_batch: int, finish: bool = True) -> dict[str, pa.Table]:
    """The tables of a job that reads so many rows a batch."""
    job = Rehearsal(plan)
    for start in range(0, len(rows), per_batch):
        job.drop(rows[start : start + per_batch])
    if finish:
        job.finish()
    return dict(job.tables(results=False))


def last_of(tables: dict[str, pa.Table]) -> int:
    return int(pc.max(tables["runs"]["batch_id"]).as_py())


def put(root: Path, tables: dict[str, pa.Table], after: int, upto: int) -> None:
    """Append the rows of these batches to the tables on disk, as a sink does; a table is made if it is not there."""
    for name, rows in tables.items():
        if name.endswith(("_changes", "_trajectory")) or name == "runs":
            some = rows.filter((pc.field("batch_id") > after) & (pc.field("batch_id") <= upto))
            plain = some.cast(pa.schema([f.remove_metadata() for f in some.schema]))
            if some.num_rows or not (root / name).exists():
                write_deltalake(str(root / name), plain, mode="append")


def job_of(root: Path, generation: str = "gen1") -> tuple[Layout, JobFile]:
    layout = Layout(str(root))
    layout.home.mkdir(parents=True, exist_ok=True)
    return layout, JobFile("machines", generation, {}, 2, None)


class Receiver:
    """Takes POSTs. ``status``: what it answers; ``hang``: it answers only when this is set. It keeps what it has answered with 200."""

    def __init__(self) -> None:
        self.status, self.hang = 200, threading.Event()
        self.retry_after: str | None = None
        self.requests = 0
        self.hang.set()
        self.bodies: list[bytes] = []
        self.headers: list[dict[str, str]] = []
        self.asked = threading.Semaphore(0)
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                outer.requests += 1
                outer.asked.release()
                outer.hang.wait(30)
                if outer.status == 200:
                    outer.bodies.append(body)
                    outer.headers.append(dict(self.headers))
                self.send_response(outer.status)
                if outer.retry_after is not None:
                    self.send_header("Retry-After", outer.retry_after)
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/hook"

    @property
    def messages(self) -> list[dict[str, Any]]:
        return [m for body in self.bodies for m in json.loads(body)["messages"]]


@contextmanager
def receiver() -> Iterator[Receiver]:
    made = Receiver()
    thread = threading.Thread(target=made.server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield made
    finally:
        made.hang.set()
        made.server.shutdown()
        made.server.server_close()
        thread.join()
