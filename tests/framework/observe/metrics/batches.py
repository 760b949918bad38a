"""Made-up runs and batches for tests of metrics and traces."""

from __future__ import annotations

from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

from skyband.framework.base.messages import ACCEPTED, CHANGED, ROWS_IN, Tally, kept_count, time_count, unusable_count, warned_count
from skyband.framework.base.reasons import FILTERED
from skyband.framework.observe.observers import StartedRun
from skyband.framework.streaming.run.batch import Batch

T0 = 1_700_000_000
"""A Unix time."""


def plan(job: str = "flights", queries: tuple[str, ...] = ("near", "far")) -> Any:
    return SimpleNamespace(job=job, every_query=[SimpleNamespace(name=q) for q in queries], source=SimpleNamespace(each=()))


def run(job: str = "flights", continuous: bool = False, root: str = "/tables") -> StartedRun:
    return StartedRun("run", plan(job), root, "flights.yaml", continuous, began=datetime.fromtimestamp(T0, UTC))


def batch(number: int, rows: int = 100) -> Batch:
    counts = Tally({ROWS_IN: rows, FILTERED: 3, ACCEPTED: rows - 10, CHANGED: 7, kept_count(number % 2): 50 + number})
    counts |= {time_count("operator"): 250_000, time_count("load"): 1_500_000, unusable_count("near"): 2, warned_count("odd"): 4}
    made = Batch(number, counts, 2.0, pending=5, newest=(T0 - 10) * 1_000_000, frontier=(T0 - 60) * 1_000_000)
    made.reasons, made.changes = {"late": 5, "rule:positive": 2}, {"near": 4, "far": 3}
    made.began, made.stages = T0 + 10.0 * number, {"tasks": 1.25, "check": 0.25, "write": 0.5}
    made.state_bytes = lambda: {"memory": 1000, "disk": 500}
    return made


def outcome(status: str = "done", code: int = 0, errors: tuple[dict[str, str], ...] = ()) -> dict[str, Any]:
    return {"status": status, "exit_code": code, "errors": list(errors)}
