"""The gate at the end of a run: checks of tables, rules over runs, what always holds. What passes is published.

Everything found is rows of table ``checks``, once: asked again for the same batch, the gate reports what it found the first time, and
adds nothing (unless time alone has broken a rule since). ``published`` moves on if nothing critical failed.
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
from skyband.framework.quality.outcome import BROKEN, error_of, failed
from skyband.framework.tables.delta.delta_read import dataset
from skyband.framework.tables.results import invariants
from skyband.framework.tables.schemas import changes_name, fixed_schema
from skyband.framework.tables.writing.published import PUBLISHED, publish

if TYPE_CHECKING:
    from skyband.framework.quality.rejections import RunRows
    from skyband.framework.tables.writing.sink import Sink

FAILED: Final = 1
"""Exit code of a run after which something critical failed."""

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
MOST_TOLD: Final = 20
"""Rows of ``checks`` about broken results of a query that are recorded at a time."""

Row = Mapping[str, Any]


class Gate:
    """Of one run. ``code``: the exit code so far, 0 or ``FAILED``; of a continuous run that passes the gate more than once the worst."""

    def __init__(self, plan: Plan, lines: Lines) -> None:
        self.plan = plan
        self.lines = lines
        self.code = 0

    def look(self, sink: Sink, run: RunRows | None) -> int:
        """Looks at what the tables hold up to the last complete batch, tells of what failed, and publishes or not. Returns ``code``.

        ``run``: what this run has read, None if it had no batch. Reads the columns that checks name, of tables that are only added to only
        the rows since the last look; O(that).
        """
        last = sink.last_run()
        if last is None:
            return self.code
        began = clock.perf_counter()
        batch_id = int(last["batch_id"])
        rows = self._rows(sink, batch_id, run)
        rows += broken(sink, batch_id)
        # The run reports rejected and unusable rows itself, with the reasons.
        wrong = [r for r in failed(rows) if r["expectation"] not in run_rules.REPORTED]
        if wrong:
            self.lines.errors([error_of(r) for r in wrong])
        critical = failed(rows, "critical")
        if any(r["expectation"] not in run_rules.REPORTED for r in critical):
            self.code = FAILED
        failpoint("gate.checked")
        if not critical:
            publish(self.plan, sink.writer, sink.app_id(PUBLISHED), batch_id)
        self._tell(rows, critical, batch_id, clock.perf_counter() - began)
        return self.code

    def _rows(self, sink: Sink, batch_id: int, run: RunRows | None) -> list[Row]:
        """The rows of this look: those of the first time, if there was one."""
        asked = _asked(self.plan, sink.generation)
        run_id = f"{sink.generation}-{batch_id}-{asked}"
        app_id = sink.app_id(f"checks/{asked}")
        done = sink.writer.version("checks", app_id)
        if done is not None and done >= batch_id:
            mine = (pc.field("run_id") == run_id) & (pc.field("batch_id") == batch_id)
            recorded = sink.writer.read("checks", where=mine).sort_by("checked_at").to_pylist()
            return self._as_of_now(sink, recorded, run_id, batch_id)
        span = unseen(sink, batch_id)
        for query in (q for q in self.plan.queries if not q.item.lasting):
            _check_reports(sink, query, span)
        found = [o for o, _ in checks.evaluate(self.plan, sink.writer, span)]
        found += run_rules.evaluate(self.plan, sink.writer, span, run, _now())
        rows: list[Row] = [o.row(run_id, batch_id) for o in found]
        if rows:
            sink.writer.append("checks", pa.Table.from_pylist(rows, fixed_schema("checks")), app_id, batch_id)
        return rows

    def _as_of_now(self, sink: Sink, recorded: list[Row], run_id: str, batch_id: int) -> list[Row]:
        """What was recorded, but of the rules that time alone may break, as they are now: without a batch they are broken, too.

        An outcome that is another one than the last is recorded.
        """
        now = _now()
        fresh = [o.row(run_id, batch_id) for o in run_rules.evaluate(self.plan, sink.writer, Span(batch_id, batch_id), None, now)]
        fresh = [r for r in fresh if r["expectation"] == run_rules.MIN_ROWS]
        last = {r["arguments"]: r["success"] for r in recorded if r["expectation"] == run_rules.MIN_ROWS}
        turned = [r for r in fresh if r["success"] != last.get(r["arguments"])]
        if turned:
            version = (now - EPOCH) // timedelta(microseconds=1)
            sink.writer.append("checks", pa.Table.from_pylist(turned, fixed_schema("checks")), sink.app_id("checks/now"), version)
        return [*(r for r in recorded if r["expectation"] != run_rules.MIN_ROWS), *fresh]

    def _tell(self, rows: list[Row], critical: list[Row], batch_id: int, seconds: float) -> None:
        if not (self.plan.checks or self.plan.run_rules or critical):
            return
        looked = [r for r in rows if r["expectation"] not in run_rules.REPORTED]
        said = f"quality: {counted(len(looked), 'check')} in {seconds:.1f} s, {len(failed(looked))} failed"
        names = ", ".join(dict.fromkeys(str(r["expectation"]) for r in critical))
        said += f"; not published: critical {names}" if critical else f"; the results up to batch {batch_id} are published"
        self.lines.tell(
            "info", "quality", said, checks=len(looked), failed=len(failed(looked)), critical=len(critical), seconds=round(seconds, 3),
            published=not critical,
        )  # fmt: skip


def _now() -> datetime:
    return datetime.now(UTC)


def unseen(sink: Sink, batch_id: int) -> Span:
    """The batches up to ``batch_id`` whose rows no look has seen; those that the look at that batch saw, if there was one."""
    before = pc.max(sink.writer.read("checks", ["batch_id"], (pc.field("batch_id") < batch_id) & ~_of_results())["batch_id"]).as_py()
    return Span(0 if before is None else before + 1, batch_id)


def _of_results() -> pc.Expression:
    """Rows that are told when results are derived, which may be before the tables are looked at."""
    return pc.starts_with(pc.field("expectation"), BROKEN)


def broken(sink: Sink, batch_id: int) -> list[Row]:
    """Rows of ``checks``: what results have broken since the last batch that was published. It is in the tables still."""
    last = sink.writer.version(PUBLISHED, sink.app_id(PUBLISHED))
    since = pc.field("batch_id") > (-1 if last is None else last)
    rows = sink.writer.read("checks", where=since & _of_results() & (pc.field("batch_id") <= batch_id))
    found = failed(rows.to_pylist())
    made = {t: invariants.identity(sink, t) for t in {str(r["table_name"]) for r in found} if t in sink.specs}
    return [r for r in found if str(r["run_id"]).rsplit("-", 1)[-1] == made.get(str(r["table_name"]))]


def _check_reports(sink: Sink, query: QueryNode, span: Span) -> None:
    """Records what the rows of a query whose items are told once, of which nothing is derived, break."""
    table = changes_name(query.name)
    where = (pc.field("batch_id") >= span.first) & (pc.field("batch_id") <= span.last)
    read = dataset(sink.writer.opened(table)).to_batches(columns=invariants.columns(sink.plan, query), filter=where)
    found = [o for piece in read for o in invariants.broken_by_reports(sink.plan, query, pa.Table.from_batches([piece]))]
    invariants.record(sink, table, found[:MOST_TOLD], span.first, span.last)


def _asked(plan: Plan, salt: str) -> str:
    """A name for what is asked, from which nothing that came from the environment can be looked up."""
    hidden = any(path[:2] == ("quality", "tables") for path, _ in plan.variables)
    asked = (plan.checks, plan.run_rules, plan.max_rejected, *(() if plan.max_unusable is None else (plan.max_unusable,)))
    return hashlib.sha256(((salt if hidden else "") + repr(asked)).encode()).hexdigest()[:8]
