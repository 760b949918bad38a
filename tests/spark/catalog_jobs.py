"""A Delta table of flows, and jobs over it that name a catalog."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
from deltalake import write_deltalake

START = datetime(2024, 1, 1, tzinfo=UTC)


def flows(path: Path, ids: Iterable[int]) -> None:
    """Append rows with these ids; row i comes i seconds after the start, and has the value -i."""
    listed = list(ids)
    times = pa.array([START + timedelta(seconds=i) for i in listed], pa.timestamp("us", "UTC"))
    write_deltalake(str(path), pa.table({"id": listed, "ts": times, "x": [-float(i) for i in listed]}), mode="append")


def write_spec(directory: Path, source: str, catalog: str | None, queries: Sequence[str]) -> Path:
    """Write a spec of top-k queries over the flows; return its file."""
    lines = [
        "job: flights", "source:", "  format: delta", f"  {source}", "  schema: {id: bigint, ts: timestamp, x: double}", "  id: [id]",
        "  event_time: {column: ts}", "window: {count: 10}", 'scoring: {high: {expression: "x", direction: max}}', "queries:",
        *(f"  {name}: {{type: topk, scoring: high, k: 3}}" for name in queries),
        f"sink: {{path: out{'' if catalog is None else f', catalog: {catalog}'}}}", "",
    ]  # fmt: skip
    path = directory / "flights.yaml"
    path.write_text("\n".join(lines), encoding="utf-8")
    return path
