"""A plan as text: the DAG, which queries share which state and why, predicted sizes, and the tables written."""

from __future__ import annotations

from typing import Final

from skyband.framework.base.counts import counted, number_text
from skyband.framework.base.table_names import JOB_RUNS, JOB_TABLES
from skyband.framework.base.units import format_duration
from skyband.framework.plan.engine import why_not_local
from skyband.framework.plan.explain_parts import (
    format_bytes,
    format_window,
    lookup_text,
    most_entries,
    of_stream,
    stream_window,
    window_rows,
)
from skyband.framework.plan.graph import tables_of_query
from skyband.framework.plan.growth import shard_lines
from skyband.framework.plan.model import Derive, Filter, IntakeNode, OperatorNode, Plan, QueryNode, StreamNode, only_retained
from skyband.framework.plan.nodes import AlertNode
from skyband.framework.plan.reader import why_not_by_arrow, why_spark_reads
from skyband.framework.queries.protocol import QueryType
from skyband.framework.queries.registry import query_type
from skyband.framework.sources.registry import source_format
from skyband.operators.base import Window
from skyband.operators.expressions.canonical import canonical

_ROW_BYTES: Final = 24
"""key, seq and time of a row in the window."""


def explain(plan: Plan, rate: float | None = None) -> str:
    """The plan for a human. ``rate``: assumed rows per second of one key, to turn time windows into rows. Prints no option's value."""
    lines = [f"job {plan.job}", ""]
    lines += _source(plan)
    lines += _intake(plan)
    lines += shard_lines(plan)
    lines += _host(plan, rate)
    for stream in plan.streams:
        lines += _stream(plan, stream)
    lines += _sink(plan)
    return "\n".join(lines)


def _source(plan: Plan) -> list[str]:
    source = plan.source
    options = f", options {', '.join(k for k, _ in source.options)} (values not shown)" if source.options else ""
    lines = [f"source   {source.shown}{options}", f"         columns {', '.join(f'{f.name} {f.type}' for f in source.fields)}"]
    lines += [f"         table {part.table} at {part.path}" for _, part in source.each if part.table is not None]
    format_ = source_format(source.format)
    lines += [f"         {line}" for line in (*format_.explain(source), *_clocks(plan))]
    lines += _reader(plan)
    limits = [f"at most {counted(source.max_files_per_batch, 'file')}"] if source.max_files_per_batch else []
    limits += [f"at most {source.max_bytes_per_batch}"] if source.max_bytes_per_batch else []
    if limits:
        lines.append(f"         {', '.join(limits)} in one batch")
    if source.path is not None and format_.of_files:
        lines.append(
            "         files present when a run starts are one backlog: beyond one batch, rows wait for files that may hold earlier ones"
        )
    return lines


def _clocks(plan: Plan) -> list[str]:
    """Return how each of several sources moves the common watermark."""
    made = []
    for clock in plan.intake.sources:
        waits = "the others wait for it" if clock.idle_micros is None else f"idle if {format_duration(clock.idle_micros)} behind the others"
        made.append(f"{clock.name}: watermark {format_duration(clock.delay_micros)}; {waits}")
    return made


def _reader(plan: Plan) -> list[str]:
    """Who reads files of a format that both can read."""
    local = plan.engine == "local"
    if not local and source_format(plan.source.format).arrow_rules() is None:
        return []
    why = why_not_by_arrow(plan.source, plan.intake, local=True) if local else why_spark_reads(plan.source, plan.intake)
    return ["         read by Arrow" if why is None else f"         read by Spark, not by Arrow: {why}"]


def _intake(plan: Plan) -> list[str]:
    intake = plan.intake
    lines = ["  |", "intake   parse", *(f"         {lookup_text(node, intake.event_time)}" for node in intake.lookups)]
    for t in intake.transforms:
        if isinstance(t, Derive):
            lines.append(f"         derive {t.name} {intake.field(t.name).type} = {t.sql}")
        elif isinstance(t, Filter):
            lines.append(f"         keep rows where {t.sql} (others are counted as filtered)")
    does = {"reject": "reject rows unless", "warn": "count (and use) rows unless", "fail": "stop the run at a row unless"}
    lines += [f"         {does[r.severity]} {r.name}: {r.sql}" for r in intake.rules]
    for n in intake.tokens:
        made = f"separated by {n.separator!r}" if n.separator is not None else f"like {n.words}" if n.words is not None else "its elements"
        together = f", {n.ngrams} together" if n.ngrams > 1 else ""
        lines.append(
            f"         tokens {n.name}: of {n.column}, {made}{together}; reject rows with fewer than {n.least:,} or more than {n.most:,}"
        )
    for v in intake.vectors:
        lines.append(f"         vector {v.column}: reject rows without {counted(v.dimension, 'finite number')} in it, unless it is null")
    for r in intake.reports:
        none = " or ".join(r.objects) + (f" is null, or {r.updates} neither on nor off" if r.updates is not None else " is null")
        where = f" (of rows where {canonical(r.where)})" if r.where is not None else ""
        lines.append(f"         reports on {', '.join(r.objects)}: reject rows where {none}{where}")
    late = f"{format_duration(intake.delay_micros)} of disorder waited for" if intake.delay_micros else "no disorder waited for"
    lines.append(f"         order by {', '.join(dict.fromkeys([intake.event_time, *intake.tie_break, *intake.id]))}; {late}")
    if intake.ahead_micros is not None:
        lines.append(f"         reject rows dated more than {format_duration(intake.ahead_micros)} ahead of the clock")
    if intake.jump_micros is not None:
        lines.append(
            f"         stop the run if the newest rows of a batch are more than {format_duration(intake.jump_micros)} after its others"
        )
    twice = {"reject": "", "replace": "; a later row replaces the one there", "keep_first": "; later rows are counted as filtered"}
    unique = f"checked against the window{twice[intake.on_duplicate]}" if intake.unique == "checked" else "assumed unique"
    if plan.source.position:
        unique = "the position of a row"
    lines.append(f"         id {', '.join(intake.id)} ({unique})")
    lines += [f"         {line}" for line in _corrections(intake)]
    keys = f"one stream per {', '.join(intake.partition_by)}" if intake.partition_by else "one global stream"
    lines += ["  |", f"pack     {keys}, {counted(plan.buckets, 'bucket')}", "  |"]
    return lines


def _corrections(intake: IntakeNode) -> list[str]:
    lines = []
    if intake.deletes is not None:
        lines.append(f"rows where {canonical(intake.deletes)} delete the row with their id")
    if intake.operations is not None:
        op = intake.operations
        does = {
            "insert": op.insert, "replace the row with their id, or insert": op.update, "delete the row with their id": op.delete,
        }  # fmt: skip
        known = "; ".join(f"{', '.join(values)} {what}" for what, values in does.items() if values)
        lines.append(f"rows by {op.column}: {known}; others are rejected")
    return lines


def _host(plan: Plan, rate: float | None) -> list[str]:
    lines = [f"host     window {format_window(plan.window)}{_window_size(plan, rate)}"]
    lines += _statistics(plan)
    for node in plan.operators:
        lines += _state(plan, node, rate)
    return [*lines, "  |"]


def _stream(plan: Plan, stream: StreamNode) -> list[str]:
    """Return what queries take of a result, and their states."""
    of, own = stream.of, stream.plan
    taking = ", ".join(q.name for q in own.queries)
    what = "entries as rows" if stream.takes == "entries" else f"members as reports on {', '.join(stream.objects)}"
    lines = [f"result   {of}: {what}, for {taking}"]
    lines.append(f"         columns {', '.join(f'{f.name} {f.type}' for f in own.intake.fields)}")
    if stream.takes == "entries":
        lines.append(f"         window {_stay(plan, stream)}{most_entries(plan, stream)}")
    for node in own.operators:
        lines += _state(own, node, None, stream, of_stream(plan, stream, node))
    return [*lines, "  |"]


def _stay(plan: Plan, stream: StreamNode) -> str:
    """Return how long rows of a stream of entries stay."""
    window = stream_window(stream)
    lasting = next(q for q in plan.every_query if q.name == stream.of).item.lasting
    if not stream.bounded:
        return window if lasting else f"none: items of {stream.of} never leave"
    return f"{window}, and while in {stream.of}" if lasting else window


def _statistics(plan: Plan) -> list[str]:
    lines = []
    for node in plan.statistics:
        functions = ", ".join(f"{function} of {column}" for function, column in node.functions)
        by = f" with the same {', '.join(node.by)}" if node.by else ""
        least = f"; null before {counted(node.at_least, 'value')}" if node.at_least > 1 else ""
        lines.append(f"  stats {node.name}: {functions}, of the rows before each row{by}, window {format_window(node.window)}{least}")
    return lines


def _state(
    plan: Plan, node: OperatorNode, rate: float | None, stream: StreamNode | None = None, sized: OperatorNode | None = None
) -> list[str]:
    queries = [q for q in plan.queries if q.name in node.queries]
    kind = query_type(queries[0].type)
    kinds = list(dict.fromkeys(q.type for q in queries))
    k = f", K = {node.k:,}" if any(query_type(name).shows_k for name in kinds) else ""
    renewed = stream is not None and stream.renewed is not None
    lasts = f"{stream_window(stream)}" if stream is not None and renewed else f"N = {format_window(node.window)}"
    lines = [f"  state {node.name}: {' and '.join(kinds)}{k}, {lasts}"]
    lines.append(f"    operator  {type(node.inner).__name__}: {node.why}")
    found = kind.facts(node, queries)
    if stream is not None and stream.takes == "members":
        found = [(label, f"while in {stream.of}" if label == "on" else text) for label, text in found]
    lines += [f"    {label:<9} {text}" for label, text in found]
    lines += [f"    answers   {q.name}: {_asked(kind, q, stream)}{'' if stream else _jobs_bound(plan.window, q.window)}" for q in queries]
    if len(queries) > 1:
        same = "same type, " if kind.family is None else "same "
        lines.append(f"    shared by {counted(len(queries), 'query', 'queries')}: {same}{kind.shares}")
    if not node.skyband and node.operator.keeps == "window":
        lines.append(f"    keeps     the {'window' if stream is None else 'stream'}'s rows; no skyband table")
    return lines + kind.size(plan, sized or node, rate)


def _range(values: list[int]) -> str:
    return f"{min(values):,}" if min(values) == max(values) else f"{min(values):,} to {max(values):,}"


def _asked(kind: QueryType, q: QueryNode, stream: StreamNode | None) -> str:
    parts = [f"{counted(len(q.members), 'query', 'queries')} of a table"] if q.members else []
    ks = [a.k for a in q.asked if a.k is not None] if q.members else [q.k] if q.k is not None else []
    parts += [f"k = {_range(ks)}"] if ks else []
    parts += kind.asks(q)
    own = len({a.window for a in q.asked}) > 1
    if stream is not None and stream.renewed is not None:
        parts.append(stream_window(stream))
    else:
        parts.append(f"windows of their own up to {format_window(q.window)}" if own else f"window {format_window(q.window)}")
    if q.members:
        constrained = sum(a.where is not None for a in q.asked)
        parts += [f"{constrained:,} of them with constraints"] if constrained else []
        bounded = sum(any(b is not None for b in a.bounds) for a in q.asked)
        parts += [f"{bounded:,} with bounds of the score"] if bounded else []
    if q.min_score is not None and not q.members:
        parts.append(f"score >= {number_text(q.min_score)}")
    if q.max_score is not None and not q.members:
        parts.append(f"score <= {number_text(q.max_score)}")
    often = f"changes every {format_duration(q.every_micros)}" if q.every_micros else "changes after every event"
    parts.append(often if q.item.lasting else "reported once, at an arrival")
    return ", ".join(parts)


def _jobs_bound(job: Window, own: Window) -> str:
    """Said of a window with both ends of which one is the job's: a query that names one kind takes the other from the job."""
    if own == job or job.count is None or job.micros is None:
        return ""
    if own.count == job.count:
        return f" (the job's {counted(job.count, 'row')} bound it too)"
    return f" (the job's {format_duration(job.micros)} bound it too)" if own.micros == job.micros else ""


def _window_size(plan: Plan, rate: float | None) -> str:
    """Bytes of the rows that are kept, once for all states: ids, carried columns, what operators need, two hashes of a checked id.

    If no operator needs the whole window, only the hashes are kept of the rows that results cannot show any more.
    """
    checked = plan.intake.unique == "checked"
    lean = only_retained(plan.operators, plan.statistics)
    what = "of ids" if lean else "a row (text as codes)"
    if lean and not checked:
        return "; of its rows only those that results can still show are kept"
    shown = [
        *plan.intake.id,
        *(c for q in plan.queries for c in q.carry),
        *(c for o in plan.operators for c in o.reads),
        *(c for s in plan.statistics for c in s.reads),
    ]
    vectors = {v.column: v.dimension * (4 if plan.intake.field(v.column).type == "array<float>" else 8) for v in plan.intake.vectors}
    row = _ROW_BYTES + 16 * checked + (0 if lean else sum(vectors.get(c, 8) for c in set(shown)))
    rows = window_rows(plan.window, rate)
    if rows is None:
        return f"; {row} B {what}, the number of rows depends on the rate (--rate assumes one)"
    per = " per key" if plan.intake.partition_by else ""
    return f"; about {format_bytes(rows * row)}{per}: {counted(round(rows), 'row')} x {row} B {what}"


def tables_of(plan: Plan) -> list[str]:
    """Return the names of the tables of the job: those of queries in the order of the plan, then its own."""
    skybands = {o.name for o in plan.operators if o.skyband}
    tables: list[str] = []
    for q in plan.every_query:
        tables += tables_of_query(q)
        if q.name in skybands:
            tables.append(f"{q.name}_skyband")
    return [*tables, *JOB_TABLES, JOB_RUNS]


def _sink(plan: Plan) -> list[str]:
    how = "once over the present input" if plan.trigger_micros is None else f"continuously, every {format_duration(plan.trigger_micros)}"
    lines = [f"sink     {how}" + (f"; Airflow: {plan.schedule}" if plan.schedule else ""), _engine(plan), "  tables"]
    lines += [f"    {t}" for t in tables_of(plan)]
    if plan.kafka is not None:
        lines.append("  changes are sent to Kafka besides, each at least once, in topics")
        lines += [f"    {topic}" for topic in dict.fromkeys(t for _, t in plan.kafka.topics)]
    if plan.catalog is not None:
        lines.append(f"  the tables are registered in {plan.catalog}")
    lines += [_alert(alert) for alert in plan.alerts]
    if plan.iceberg:
        lines.append("  Iceberg metadata of what is published, below _iceberg")
    if plan.feeds:
        lines.append(f"  change data feed of the results of {', '.join(plan.feeds)}")
    if plan.checks:
        lines.append(f"  checks    {counted(len(plan.checks), 'expectation')}")
    return lines


def _engine(plan: Plan) -> str:
    """Return what runs the job, and whether this process could."""
    if plan.engine == "local":
        return "  engine    local: the process of the command, without Spark"
    why = why_not_local(plan)
    return "  engine    spark; " + ("local can run it, too" if why is None else f"local cannot run it, as {why}")


def _alert(alert: AlertNode) -> str:
    bounds = [f"{name} {number_text(bound)}" for name, bound in (("above", alert.above), ("below", alert.below)) if bound is not None]
    when = ", ".join([*(what for what in alert.when if what != "value"), *bounds])
    limits = f"at most {counted(alert.at_most, 'message')} a minute, {alert.batch:,} a request"
    return f"  alert {alert.name} to channel {alert.channel}: {when} of {', '.join(alert.queries)}; {limits}"
