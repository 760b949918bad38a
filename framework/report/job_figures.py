"""Figures about the job: its batches, rejected rows, outcomes of checks, and the plan as a graph."""

from __future__ import annotations

from typing import Final

from skyband.framework.base.counts import agree, counted
from skyband.framework.base.errors import redacted
from skyband.framework.base.reasons import REASONS
from skyband.framework.base.units import format_duration
from skyband.framework.plan.explain import explain
from skyband.framework.plan.model import Plan
from skyband.framework.report import charts
from skyband.framework.report.figures import Figure, Section, cells, few_of, text
from skyband.framework.tables.sql.statements import Statements

BATCHES: Final = 120
"""The number of newest batches that are shown."""
CHECKS: Final = 200
"""The number of newest outcomes of checks that are shown."""
EXAMPLES: Final = 30
"""The number of reasons that are shown, the most frequent."""


def runs(statements: Statements) -> Section:
    """Return figures about throughput and rejected rows."""
    found = statements.ask(f"select *, count(*) over () as of_all from runs order by batch_id desc limit {BATCHES}").to_pylist()[::-1]
    total = found[0]["of_all"] if found else 0
    left = few_of(len(found), total, "batches, the newest")
    speed = [{"batch": r["batch_id"], "value": round(1000 * r["rows_in"] / r["batch_ms"]) if r["batch_ms"] else 0} for r in found]
    columns = ("batch_id", "batch_time", "rows_in", "filtered", "rejected", "accepted", "pending", "changes", "batch_ms", "frontier")
    table = tuple(tuple(text(r[c]) for c in columns) for r in found[::-1])
    chart = charts.bars(speed, "rows a second") if found else None
    throughput = Figure("Throughput", "Rows read per second in each batch.", columns, table, chart, left)
    said = f"{counted(total, 'batch', 'batches')} {agree(total, 'was', 'were')} run."
    return Section("Runs", said, [throughput, _rejected_by_batch(found, left), _reasons(statements)])


def _rejected_by_batch(found: list[dict[str, object]], left: str) -> Figure:
    names = [(c.name, f"rejected_{c.name}") for c in REASONS]
    values = [{"batch": r["batch_id"], "value": r[column], "reason": name} for r in found for name, column in names if r[column]]
    rows = tuple((text(v["batch"]), str(v["reason"]), text(v["value"])) for v in values[::-1])
    said = "Rows that were late, or rejected for another reason." if values else "No row of these batches was rejected."
    return Figure(
        "Rejected and late rows", said, ("batch", "reason", "rows"), rows, charts.bars(values, "rows", "reason") if values else None, left
    )


def _reasons(statements: Statements) -> Figure:
    found = statements.ask('select reason, count(*) as "rows" from rejected group by reason order by 2 desc, 1')
    shown = found.slice(0, EXAMPLES)
    left = few_of(shown.num_rows, found.num_rows, "reasons, the most frequent")
    return Figure("Reasons", "Why rows were rejected, since the first run.", ("reason", "rows"), cells(shown), left_out=left)


def quality(statements: Statements) -> Section:
    """Return the outcomes of the checks of ``quality.tables``."""
    found = statements.ask(
        "select checked_at, table_name, expectation, severity, success, unexpected, rows_checked, error, count(*) over () as of_all "
        f"from checks order by checked_at desc, success, table_name, expectation limit {CHECKS}"
    )
    total = found["of_all"][0].as_py() if found.num_rows else 0
    shown = found.drop_columns(["of_all"])
    failed = sum(not ok for ok in shown["success"].to_pylist())
    said = f"{failed:,} of the {counted(shown.num_rows, 'outcome')} shown failed."
    said = said if total else "The spec has no checks, or none has run."
    left = few_of(shown.num_rows, total, "outcomes, the newest")
    return Section(
        "Quality", "Outcomes of the checks of the tables.", [Figure("Checks", said, tuple(shown.column_names), cells(shown), left_out=left)]
    )


def plan_section(plan: Plan) -> Section:
    """Return the plan as a graph, and as the output of ``skyband explain``."""
    stages = ["source", "intake", "window", "state", "queries"]
    bounds = [f"{counted(plan.window.count, 'row')}" if plan.window.count is not None else ""]
    bounds += [format_duration(plan.window.micros) if plan.window.micros is not None else ""]
    steps = [f"{counted(len(plan.intake.transforms), 'transform')}", f"{counted(len(plan.intake.rules), 'rule')}"]
    nodes: charts.Values = [
        {"stage": "source", "name": plan.source.shown, "said": f"{counted(len(plan.source.fields), 'column')}"},
        {"stage": "intake", "name": "parse, check, order", "said": ", ".join(steps)},
        {
            "stage": "window",
            "name": " and ".join(b for b in bounds if b),
            "said": "of each key" if plan.intake.partition_by else "of the stream",
        },
    ]
    nodes = [n | {"row": 0.0} for n in nodes]
    edges: charts.Values = [{"stage": a, "row": 0.0, "stage2": b, "row2": 0.0} for a, b in (("source", "intake"), ("intake", "window"))]
    row, places = 0, dict[str, float]()
    for part, taken in [(plan, ""), *((one.plan, one.of) for one in plan.streams)]:
        # A query over a result is a stage to the right of the query that it takes.
        state, result = _stages(plan, taken)
        stages += [stage for stage in (state, result) if stage not in stages]
        begin = ("window", 0.0) if not taken else (_stages(plan, taken, -1)[1], places[taken])
        for operator in part.operators:
            mine = [q for q in part.queries if part.operators[q.operator].name == operator.name]
            middle = row + (len(mine) - 1) / 2
            nodes.append({"stage": state, "name": operator.name, "said": type(operator.operator).__name__, "row": middle})
            edges.append({"stage": begin[0], "row": begin[1], "stage2": state, "row2": middle})
            for q in mine:
                places[q.name] = float(row)
                nodes.append({"stage": result, "name": q.name, "said": q.type, "row": float(row)})
                edges.append({"stage": state, "row": middle, "stage2": result, "row2": float(row)})
                row += 1
    table = tuple((str(n["stage"]), text(redacted(str(n["name"]))), text(redacted(str(n["said"])))) for n in nodes)
    said = "Rows flow from left to right. Each state is kept once and answers the queries to its right."
    said += " The results of queries flow on to the queries that take them." if plan.streams else ""
    shown = Figure("Graph", said, ("stage", "name", "what"), table, charts.graph(nodes, edges, stages, max(1, row)))
    return Section(
        "Plan", "What the job does.", [shown, Figure("In words", "The output of skyband explain.", text=redacted(explain(plan)))]
    )


def _stages(plan: Plan, taken: str, further: int = 0) -> tuple[str, str]:
    """Return the stages of the state and of the queries over the result ``taken``, or of its own (``further`` -1)."""
    depth = further
    while taken:
        depth += 1
        taken = next((s.of for s in plan.streams if any(q.name == taken for q in s.plan.queries)), "")
    return ("state", "queries") if depth == 0 else (f"state {depth + 1}", f"queries {depth + 1}")
