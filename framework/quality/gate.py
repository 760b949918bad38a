"""The gate at the end of a run: checks of tables, rules over runs, invariants. Results that pass are published.

Every outcome is one row of table ``checks``. If the gate runs again for the same batch, it reports the recorded outcomes and adds none,
unless a rule has failed since by time alone. If nothing critical failed, ``published`` gets the new versions.
"""

from __future__ import annotations

import hashlib
import time as clock
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from skyband.framework.base.counts import counted
from skyband.framework.base.failpoints import failpoint
from skyband.framework.console.lines import Lines
from skyband.framework.plan.model import Plan, QueryNode
from skyband.framework.quality import checks, run_rules
from skyband.framework.quality.checks import Span
from skyband.framework.storage.delta_read import dataset
from skyband.framework.tables.iceberg.publishing import export_published
from skyband.framework.tables.outcome import BROKEN, error_of, failed
from skyband.framework.tables.results import invariants
from skyband.framework.tables.schemas import changes_name, fixed_schema
from skyband.framework.tables.writing.published import PUBLISHED, publish

if TYPE_CHECKING:
    from skyband.framework.quality.rejections import RunRows
    from skyband.framework.tables.writing.sink import Sink

FAILED: Final = 1
"""The exit code of a run with a critical failure."""

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
MOST_RECORDED: Final = 20
"""The most rows of ``checks`` recorded at a time about violated invariants of a query."""

Row = Mapping[str, Any]


class Gate:
    """The gate of one run. ``code``: the exit code so far, 0 or ``FAILED``; the worst one if the gate is passed several times."""

    def __init__(self, plan: Plan, lines: Lines) -> None:
        self.plan = plan
        self.lines = lines
        self.code = 0

    def look(self, sink: Sink, run: RunRows | None) -> int:
        """Check the tables up to the last complete batch, report failures, and publish if nothing critical failed. Return ``code``.

        ``run``: what this run has read, None if it had no batch. The gate reads the columns that checks name, and only new rows of
        append-only tables. O(these rows).
        """
        last = sink.last_run()
        if last is None:
            return self.code
        began = clock.perf_counter()
        batch_id = int(last["batch_id"])
        rows = self._rows(sink, batch_id, run)
        rows += broken(sink, batch_id)
        # The run reports rejected and unusable rows itself, with the reasons.
        failures = [r for r in failed(rows) if r["expectation"] not in run_rules.REPORTED]
        if failures:
            self.lines.errors([error_of(r) for r in failures])
        critical = failed(rows, "critical")
        if any(r["expectation"] not in run_rules.REPORTED for r in critical):
            self.code = FAILED
        failpoint("gate.checked")
        if not critical:
            publish(self.plan, sink.writer, sink.app_id(PUBLISHED), batch_id)
            export_published(self.plan, self.lines)
        self._tell(rows, critical, batch_id, clock.perf_counter() - began)
        return self.code

    def _rows(self, sink: Sink, batch_id: int, run: RunRows | None) -> list[Row]:
        """Return the rows of ``checks`` for this gate: the recorded ones if it ran before."""
        digest = _digest(self.plan, sink.generation)
        run_id = f"{sink.generation}-{batch_id}-{digest}"
        app_id = sink.app_id(f"checks/{digest}")
        done = sink.writer.version("checks", app_id)
        if done is not None and done >= batch_id:
            mine = (pc.field("run_id") == run_id) & (pc.field("batch_id") == batch_id)
            recorded = sink.writer.read("checks", where=mine).sort_by("checked_at").to_pylist()
            return self._as_of_now(sink, recorded, run_id, batch_id)
        span = unchecked(sink, batch_id)
        for query in (q for q in self.plan.every_query if not q.item.lasting):
            _check_reports(sink, query, span)
        found = [o for o, _ in checks.evaluate(self.plan, sink.writer, span)]
        found += run_rules.evaluate(self.plan, sink.writer, span, run, _now())
        rows: list[Row] = [o.row(run_id, batch_id) for o in found]
        if rows:
            sink.writer.append("checks", pa.Table.from_pylist(rows, fixed_schema("checks")), app_id, batch_id)
        return rows

    def _as_of_now(self, sink: Sink, recorded: list[Row], run_id: str, batch_id: int) -> list[Row]:
        """Return the recorded rows, with the rules that can fail by time alone, without a new batch, evaluated again.

        A changed outcome is recorded.
        """
        now = _now()
        fresh = [o.row(run_id, batch_id) for o in run_rules.evaluate(self.plan, sink.writer, Span(batch_id, batch_id), None, now)]
        fresh = [r for r in fresh if r["expectation"] == run_rules.MIN_ROWS]
        last = {r["arguments"]: r["success"] for r in recorded if r["expectation"] == run_rules.MIN_ROWS}
        changed = [r for r in fresh if r["success"] != last.get(r["arguments"])]
        if changed:
            version = (now - EPOCH) // timedelta(microseconds=1)
            sink.writer.append("checks", pa.Table.from_pylist(changed, fixed_schema("checks")), sink.app_id("checks/now"), version)
        return [*(r for r in recorded if r["expectation"] != run_rules.MIN_ROWS), *fresh]

    def _tell(self, rows: list[Row], critical: list[Row], batch_id: int, seconds: float) -> None:
        if not (self.plan.checks or self.plan.run_rules or critical):
            return
        evaluated = [r for r in rows if r["expectation"] not in run_rules.REPORTED]
        text = f"quality: {counted(len(evaluated), 'check')} in {seconds:.1f} s, {len(failed(evaluated))} failed"
        names = ", ".join(dict.fromkeys(str(r["expectation"]) for r in critical))
        text += f"; not published: critical {names}" if critical else f"; the results up to batch {batch_id} are published"
        self.lines.tell(
            "info", "quality", text, checks=len(evaluated), failed=len(failed(evaluated)), critical=len(critical),
            seconds=round(seconds, 3), published=not critical,
        )  # fmt: skip


def _now() -> datetime:
    return datetime.now(UTC)


def unchecked(sink: Sink, batch_id: int) -> Span:
    """Return the batches up to ``batch_id`` that no earlier gate has checked."""
    before = pc.max(sink.writer.read("checks", ["batch_id"], (pc.field("batch_id") < batch_id) & ~_invariant_rows())["batch_id"]).as_py()
    return Span(0 if before is None else before + 1, batch_id)


def _invariant_rows() -> pc.Expression:
    """Return a filter for the rows about invariants, which are recorded when results are derived."""
    return pc.starts_with(pc.field("expectation"), BROKEN)


def broken(sink: Sink, batch_id: int) -> list[Row]:
    """Return the rows of ``checks`` about invariants violated since the last published batch: the tables still have these results."""
    last = sink.writer.version(PUBLISHED, sink.app_id(PUBLISHED))
    since = pc.field("batch_id") > (-1 if last is None else last)
    rows = sink.writer.read("checks", where=since & _invariant_rows() & (pc.field("batch_id") <= batch_id))
    found = failed(rows.to_pylist())
    incarnations = {t: invariants.identity(sink, t) for t in {str(r["table_name"]) for r in found} if t in sink.specs}
    return [r for r in found if str(r["run_id"]).rsplit("-", 1)[-1] == incarnations.get(str(r["table_name"]))]


def _check_reports(sink: Sink, query: QueryNode, span: Span) -> None:
    """Check and record the invariants of a query whose items are reported once, since nothing is derived from them."""
    table = changes_name(query.name)
    where = (pc.field("batch_id") >= span.first) & (pc.field("batch_id") <= span.last)
    read = dataset(sink.writer.opened(table)).to_batches(columns=invariants.columns(sink.plan, query), filter=where)
    found = [o for piece in read for o in invariants.broken_by_reports(sink.plan, query, pa.Table.from_batches([piece]))]
    invariants.record(sink, table, found[:MOST_RECORDED], span.first, span.last)


def _digest(plan: Plan, salt: str) -> str:
    """Return a digest of the checks. With ``salt``, values from the environment cannot be guessed from it."""
    hidden = any(path[:2] == ("quality", "tables") for path, _ in plan.variables)
    content = (plan.checks, plan.run_rules, plan.max_rejected, *(() if plan.max_unusable is None else (plan.max_unusable,)))
    return hashlib.sha256(((salt if hidden else "") + repr(content)).encode()).hexdigest()[:8]
