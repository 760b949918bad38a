"""A plan as text: the DAG, which queries share which state and why, predicted sizes, and the tables written."""

from __future__ import annotations

import math
from typing import Any, Final

from skyband.framework.plan.model import Derive, Filter, OperatorNode, Plan, QueryNode, only_retained
from skyband.framework.spec.units import format_duration
from skyband.operators.base import Window
from skyband.operators.expressions.ast import Node
from skyband.operators.expressions.canonical import canonical

_ROW_BYTES: Final = 24
"""key, seq and time of a row in the window."""

_EXAMPLE_ROWS: Final = 10_000

_ITEM_BYTES: Final = {1: 32, 2: 40}
"""A skyband item: key, seqs, score, bookkeeping."""


def explain(plan: Plan, rate: float | None = None) -> str:
    """The plan for a human. ``rate``: assumed rows per second of one key, to turn time windows into rows. Prints no option's value."""
    lines = [f"job {plan.job}", ""]
    lines += _source(plan)
    lines += _intake(plan)
    lines += _host(plan, rate)
    lines += _sink(plan)
    return "\n".join(lines)


def skyband_size(k: int, n: float, pairs: bool) -> float:
    """Expected items of a K-skyband over N rows when scores do not depend on age.

    Pairs: K + 2K ln(N / sqrt(2K)) (docs/algorithms.md D2), at most all pairs. Single rows: K(1 + ln(N/K)) (D1), at most N.
    """
    if pairs:
        every = n * (n - 1) / 2
        return min(every, k + 2 * k * max(0.0, math.log(n / math.sqrt(2 * k)))) if n >= 2 else 0.0
    return min(n, k * (1 + math.log(n / k))) if n > k else n


def skyline_size(k: int, n: float, d: int) -> float:
    """Expected retained rows of a K-skyband with ``d`` ordered dimensions over N rows, if dimensions and age are independent.

    Those with fewer than K newer dominators: the K-skyband in d + 1 dimensions, at most N. For K = 1 its mean is the complete homogeneous
    symmetric polynomial h_d of 1, 1/2, ..., 1/N, leading term ln(N)^d / d! (docs/algorithms.md D4; measured 1.2 to 1.6 times that term,
    which h_d is); for larger K about K times that of N / K.
    """
    if n <= k:
        return n
    # Power sums of the harmonic terms: H_N for i = 1, zeta(i) above; Newton's identity i h_i = sum of p_j h_(i-j).
    powers = [math.log(n / k) + 0.5772156649] + [1.0 + 2.0**-i + sum(j**-i for j in range(3, 50)) for i in map(float, range(2, d + 1))]
    h = [1.0]
    for i in range(1, d + 1):
        h.append(sum(powers[j - 1] * h[i - j] for j in range(1, i + 1)) / i)
    return min(n, k * h[d])


def window_rows(window: Window, rate: float | None) -> float | None:
    """Rows of one key in a full window, or None where that depends on a rate that is not given."""
    by_time = window.micros / 1e6 * rate if window.micros is not None and rate is not None else None
    known = [float(x) for x in (window.count, by_time) if x is not None]
    return min(known) if known else None


def format_window(window: Window) -> str:
    """``1,000 rows``, ``7 days``, or both."""
    parts = [f"{window.count:,} rows"] if window.count is not None else []
    if window.micros is not None:
        parts.append(format_duration(window.micros))
    return " and ".join(parts) + (" (whichever ends first)" if len(parts) == 2 else "")


def format_bytes(n: float) -> str:
    """Bytes with a unit, two digits."""
    for unit in ("B", "KB", "MB", "GB"):
        if n < 1000 or unit == "GB":
            return f"{n:,.0f} {unit}" if n >= 10 or unit == "B" else f"{n:.1f} {unit}"
        n /= 1000
    return f"{n:,.0f} GB"


def _source(plan: Plan) -> list[str]:
    source = plan.source
    options = f", options {', '.join(k for k, _ in source.options)} (values not shown)" if source.options else ""
    lines = [f"source   {source.format}{options}", f"         columns {', '.join(f'{f.name} {f.type}' for f in source.fields)}"]
    limits = [f"at most {source.max_files_per_batch:,} files"] if source.max_files_per_batch else []
    limits += [f"at most {source.max_bytes_per_batch}"] if source.max_bytes_per_batch else []
    if limits:
        lines.append(f"         {', '.join(limits)} in one batch")
    return lines


def _intake(plan: Plan) -> list[str]:
    intake = plan.intake
    lines = ["  |", "intake   parse"]
    for t in intake.transforms:
        if isinstance(t, Derive):
            lines.append(f"         derive {t.name} {intake.field(t.name).type} = {t.sql}")
        elif isinstance(t, Filter):
            lines.append(f"         keep rows where {t.sql} (others are counted as filtered)")
    lines += [f"         reject rows unless {r.name}: {r.sql}" for r in intake.rules]
    late = f"{format_duration(intake.delay_micros)} of disorder waited for" if intake.delay_micros else "no disorder waited for"
    lines.append(f"         order by {', '.join(dict.fromkeys([intake.event_time, *intake.tie_break, *intake.id]))}; {late}")
    unique = "checked against the window" if intake.unique == "checked" else "assumed unique"
    lines.append(f"         id {', '.join(intake.id)} ({unique})")
    if intake.deletes is not None:
        lines.append(f"         rows where {canonical(intake.deletes)} delete the row with their id")
    keys = f"one stream per {', '.join(intake.partition_by)}" if intake.partition_by else "one global stream"
    lines += ["  |", f"pack     {keys}, {plan.buckets} bucket{'s' if plan.buckets != 1 else ''}", "  |"]
    return lines


def _host(plan: Plan, rate: float | None) -> list[str]:
    lines = [f"host     window {format_window(plan.window)}{_window_size(plan, rate)}"]
    for node in plan.operators:
        lines += _state(plan, node, rate)
    return [*lines, "  |"]


def _state(plan: Plan, node: OperatorNode, rate: float | None) -> list[str]:
    queries = [q for q in plan.queries if q.name in node.queries]
    kind = queries[0].type if queries else "?"
    k = "" if kind == "threshold" else f", K = {node.k:,}"
    lines = [f"  state {node.name}: {kind}{k}, N = {format_window(node.window)}"]
    lines.append(f"    operator  {type(node.operator).__name__}: {node.why}")
    score = _score(plan, node, queries)
    if score:
        mixed = any(q.turned for q in queries)
        lines.append(f"    score     {score} ({'min or max, as each says,' if mixed else node.direction} first)")
    where = _text(node, "where")
    if where:
        lines.append(f"    where     {where}")
    between = getattr(node.operator, "between", None)
    if between is not None:
        lines.append(f"    between   {between.column}: {between.a!r} and {between.b!r}")
    dimensions = getattr(node.operator, "dimensions", ())
    if dimensions:
        lines.append(f"    compares  {_dimensions(node)}")
    for q in queries:
        lines.append(f"    answers   {q.name}: {_asked(q)}")
    if len(queries) > 1:
        same = "dimensions, band, distinct and where" if dimensions else "scoring, direction, where and between"
        lines.append(f"    shared by {len(queries)} queries: same type, {same}")
    if not node.skyband and node.operator.keeps == "window":
        lines.append("    keeps     the window's rows; no skyband table")
    lines += _size(plan, node, rate)
    return lines


def _dimensions(node: OperatorNode) -> str:
    op: Any = node.operator
    ordered = [f"{d.column.name} {d.direction}" for d in op.dimensions if d.direction != "equal"]
    equal = [d.column.name for d in op.dimensions if d.direction == "equal"]
    text = ", ".join(ordered) + (f"; only within equal {', '.join(equal)}" if equal else "")
    beaten = "no row of the window beats it" if op.band == 1 else f"fewer than {op.band:,} rows of the window beat it"
    return f"{text}; in the result if {beaten}" + ("; a newer equal row beats an older" if op.distinct else "")


def _score(plan: Plan, node: OperatorNode, queries: list[QueryNode]) -> str | None:
    """The function of a state; of a table of linear functions, the columns they weight."""
    from skyband.operators.single_rows.scores import Linear

    asked = [a for q in queries for a in q.asked]
    functions = {a.scoring for a in asked}
    if len(functions) > 1:
        linear = [f for f in functions if isinstance(f, Linear)]
        return f"{len(functions):,} different linear functions of {', '.join(c for c, _ in linear[0].weights)}"
    for f in functions:
        return " + ".join(f"{w:g} * {c}" for c, w in f.weights) if isinstance(f, Linear) else canonical(f)
    return _text(node, "scoring")


def _range(values: list[int]) -> str:
    return f"{min(values):,}" if min(values) == max(values) else f"{min(values):,} to {max(values):,}"


def _bounds(q: QueryNode) -> list[str]:
    """The bounds of a threshold query as conditions."""
    if q.type != "threshold" or q.members or not q.asked:
        return []
    signs = (">", ">=", "<", "<=")
    return [f"score {sign} {b:g}" for sign, b in zip(signs, q.asked[0].bounds, strict=True) if b is not None]


def _asked(q: QueryNode) -> str:
    parts = [f"{len(q.members):,} queries of a table"] if q.members else []
    ks = [a.k for a in q.asked if a.k is not None] if q.members else [q.k] if q.k is not None else []
    parts += [f"k = {_range(ks)}"] if ks else []
    parts += _bounds(q)
    own = len({a.window for a in q.asked}) > 1
    parts.append(f"windows of their own up to {format_window(q.window)}" if own else f"window {format_window(q.window)}")
    if q.members:
        constrained = sum(a.where is not None for a in q.asked)
        parts += [f"{constrained:,} of them with constraints"] if constrained else []
        bounded = sum(any(b is not None for b in a.bounds) for a in q.asked)
        parts += [f"{bounded:,} with bounds of the score"] if bounded else []
    if q.min_score is not None and not q.members:
        parts.append(f"score >= {q.min_score:g}")
    if q.max_score is not None and not q.members:
        parts.append(f"score <= {q.max_score:g}")
    parts.append(f"changes every {format_duration(q.every_micros)}" if q.every_micros else "changes after every event")
    return ", ".join(parts)


def _window_size(plan: Plan, rate: float | None) -> str:
    """Bytes of the rows that are kept, once for all states: ids, carried columns, what operators need, two hashes of a checked id.

    If no operator needs the whole window, only the hashes are kept of the rows that results cannot show any more.
    """
    checked = plan.intake.unique == "checked"
    lean = only_retained(plan.operators)
    what = "of ids" if lean else "a row (text as codes)"
    if lean and not checked:
        return "; of its rows only those that results can still show are kept"
    shown = [*plan.intake.id, *(c for q in plan.queries for c in q.carry), *(c.name for o in plan.operators for c in o.attributes)]
    row = _ROW_BYTES + 16 * checked + (0 if lean else 8 * len(set(shown)))
    rows = window_rows(plan.window, rate)
    if rows is None:
        return f"; {row} B {what}, the number of rows depends on the rate (--rate assumes one)"
    per = " per key" if plan.intake.partition_by else ""
    return f"; about {format_bytes(rows * row)}{per}: {rows:,.0f} rows x {row} B {what}"


def _size(plan: Plan, node: OperatorNode, rate: float | None) -> list[str]:
    pairs = len(node.operator.roles) == 2
    what = "pairs" if pairs else "rows"
    item = _ITEM_BYTES[2 if pairs else 1]
    rows = window_rows(node.window, rate)
    formula = f"{what} = {'K + 2K ln(N / sqrt(2K))' if pairs else 'K (1 + ln(N / K))'}"
    if not node.skyband:
        return []
    if hasattr(node.operator, "dimensions"):
        return _skyline_size(plan, node, rows, rate)
    if rows is None:
        size = skyband_size(node.k, _EXAMPLE_ROWS, pairs)
        return [
            f"    skyband   depends on the rate; at N = {_EXAMPLE_ROWS:,} rows about {size:,.0f} {formula}, {format_bytes(size * item)}"
        ]
    size = skyband_size(node.k, rows, pairs)
    assumed = f" (assuming {rate:g} rows a second)" if rate is not None and node.window.micros is not None else ""
    per = " per key" if plan.intake.partition_by else ""
    return [f"    skyband   about {size:,.0f} {formula}, N = {rows:,.0f} rows{per}{assumed}; {format_bytes(size * item)}"]


def _skyline_size(plan: Plan, node: OperatorNode, rows: float | None, rate: float | None) -> list[str]:
    """What a skyline keeps; rows in groups of equal values keep so much per group, of fewer rows each."""
    op: Any = node.operator
    d = sum(x.direction != "equal" for x in op.dimensions)
    n = _EXAMPLE_ROWS if rows is None else rows
    size = skyline_size(node.k, n, d)
    bytes_ = size * 8 * (4 + node.k + len(op.dimensions))
    power = "ln(N)" if node.k == 1 else "ln(N / K)"
    factorial = f"^{d} / {d}!" if d > 1 else ""
    formula = f"rows, leading term {'' if node.k == 1 else 'K '}{power}{factorial}"
    assumed = f" (assuming {rate:g} rows a second)" if rows is not None and rate is not None and node.window.micros is not None else ""
    per = " per key" if plan.intake.partition_by and rows is not None else ""
    at = (
        f"depends on the rate; at N = {n:,.0f} rows about {size:,.0f} {formula}"
        if rows is None
        else f"about {size:,.0f} {formula}, N = {n:,.0f} rows"
    )
    groups = " and of one group of equal values" if any(x.direction == "equal" for x in op.dimensions) else ""
    return [
        f"    skyband   {at}{per}{assumed}; {format_bytes(bytes_)}",
        f"              (if dimensions are independent{groups}; fewer if they agree, more if they conflict)",
    ]


def _text(node: OperatorNode, attribute: str) -> str | None:
    value = getattr(node.operator, attribute, None)
    return canonical(value) if isinstance(value, Node) else None


def tables_of(plan: Plan) -> list[str]:
    """Names of the tables the job writes, in the order of the spec, then the job's own."""
    skybands = {o.name for o in plan.operators if o.skyband}
    tables: list[str] = []
    for q in plan.queries:
        tables += [f"{q.name}_changes", q.name, f"{q.name}_now"]
        if q.name in skybands:
            tables.append(f"{q.name}_skyband")
    return [*tables, "heads", "rejected", "runs", *(["checks"] if plan.checks else [])]


def _sink(plan: Plan) -> list[str]:
    how = "once over what is there" if plan.trigger_micros is None else f"continuously, every {format_duration(plan.trigger_micros)}"
    lines = [f"sink     {how}" + (f"; Airflow: {plan.cron}" if plan.cron else ""), "  tables"]
    lines += [f"    {t}" for t in tables_of(plan)]
    if plan.checks:
        lines.append(f"  checks    {len(plan.checks)} expectation{'s' if len(plan.checks) != 1 else ''}")
    return lines
