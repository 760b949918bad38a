"""Evaluate the rules over runs (``quality.runs``, ``max_rejected``, ``max_unusable``) on table ``runs`` and the run's sums."""

from __future__ import annotations

import json
import time as clock
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from skyband.framework.base.types import STAMP
from skyband.framework.base.units import format_duration
from skyband.framework.plan.model import Plan
from skyband.framework.plan.nodes import RunRule
from skyband.framework.quality.checks import Span
from skyband.framework.quality.rejections import RunRows
from skyband.framework.quality.unusable import too_many
from skyband.framework.storage.delta_read import dataset
from skyband.framework.tables.outcome import Outcome

if TYPE_CHECKING:
    from skyband.framework.tables.writing.writer import Writer

MAX_DELAY: Final = "skyband_max_delay"
MIN_ROWS: Final = "skyband_min_rows"
MAX_REJECTED: Final = "skyband_max_rejected"
MAX_UNUSABLE: Final = "skyband_max_unusable"
REPORTED: Final = frozenset({MAX_REJECTED, MAX_UNUSABLE})
"""Rules that a run reports itself, with another exit code."""


def evaluate(plan: Plan, writer: Writer, span: Span, run: RunRows | None, now: datetime | None = None) -> Iterator[Outcome]:
    """Yield the outcome of every rule, ``max_rejected`` and ``max_unusable`` last (only of a run that had batches).

    The default of ``max_unusable`` gives an outcome only if it fails. O(rows of ``runs`` in ``span``, or within ``per``).
    """
    for rule in plan.run_rules:
        began = clock.perf_counter()
        found = _max_delay(rule, writer, span) if rule.max_delay_micros is not None else _min_rows(rule, writer, now or datetime.now(UTC))
        yield Outcome(**found, severity=rule.severity, ms=1000 * (clock.perf_counter() - began))
    if run is not None:
        share = 100 * run.rejected / run.rows if run.rows else 0.0
        yield Outcome(
            "rejected", writer.opened("rejected").version(), run.first, MAX_REJECTED, json.dumps({"percent": plan.max_rejected}),
            "critical", not run.too_many(plan.max_rejected), round(share, 6), run.rows, run.rejected, share,
        )  # fmt: skip
        for query in plan.queries:
            unusable, rows = run.use.of(query.name)
            bad = too_many(plan, unusable, rows)
            if bad or plan.max_unusable is not None:
                share = 100 * unusable / rows if rows else 0.0
                yield Outcome(
                    "runs", writer.opened("runs").version(), run.first, MAX_UNUSABLE,
                    json.dumps({"query": query.name, "percent": plan.max_unusable}), "critical", not bad, round(share, 6), rows, unusable,
                    share,
                )  # fmt: skip


def _max_delay(rule: RunRule, writer: Writer, span: Span) -> dict[str, Any]:
    """Return the longest ``batch_time - newest`` of batches that read rows."""
    assert rule.max_delay_micros is not None
    opened = writer.opened("runs")
    where = (pc.field("batch_id") >= span.first) & (pc.field("batch_id") <= span.last) & (pc.field("rows_in") > 0)
    rows = writer.read("runs", ["batch_id", "batch_time", "newest"], where)
    delays = pc.subtract(rows["batch_time"].cast(pa.int64()), rows["newest"].cast(pa.int64()))
    over = pc.greater(delays, rule.max_delay_micros)
    longest = pc.max(delays).as_py()
    return {
        "table": "runs", "version": opened.version(), "first": span.first, "expectation": MAX_DELAY,
        "arguments": json.dumps({"max_delay": format_duration(rule.max_delay_micros)}), "success": not pc.any(over).as_py(),
        "observed": None if longest is None else format_duration(max(0, longest)), "rows": rows.num_rows,
        "unexpected": pc.sum(over).as_py() or 0,
        "examples": [f"batch {b}" for b in rows.filter(over)["batch_id"].to_pylist()[:5]],
    }  # fmt: skip


def _min_rows(rule: RunRule, writer: Writer, now: datetime) -> dict[str, Any]:
    """The sum of ``rows_in`` of the batches written in the last ``per``. A job that is younger than that is not judged yet."""
    assert rule.min_rows is not None and rule.per_micros is not None
    opened = writer.opened("runs")
    since = pa.scalar(now - timedelta(microseconds=rule.per_micros), STAMP)
    rows = writer.read("runs", ["batch_time", "rows_in"], pc.field("batch_time") > since)
    total = pc.sum(rows["rows_in"]).as_py() or 0
    earlier = dataset(opened).scanner(columns=["batch_time"], filter=pc.field("batch_time") <= since).head(1).num_rows
    return {
        "table": "runs", "version": opened.version(), "first": None, "expectation": MIN_ROWS,
        "arguments": json.dumps({"min_rows": rule.min_rows, "per": format_duration(rule.per_micros)}),
        "success": total >= rule.min_rows or not earlier, "observed": total, "rows": rows.num_rows,
    }  # fmt: skip
