"""Parts of ``explain`` that query types use too: windows, bytes, sizes of states."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from skyband.framework.base.counts import counted
from skyband.framework.base.reasons import NO_MATCH
from skyband.framework.base.units import format_duration, format_months
from skyband.framework.plan.model import OperatorNode, Plan, StreamNode
from skyband.framework.plan.nodes import LookupNode
from skyband.operators.base import Calendar, Window
from skyband.operators.expressions.ast import Node
from skyband.operators.expressions.canonical import canonical

EXAMPLE_ROWS: Final = 10_000
"""Rows of a window whose number depends on a rate that is not given, for an example."""


def window_rows(window: Window, rate: float | None) -> float | None:
    """Rows of one key in a full window, or None where that depends on a rate that is not given."""
    micros = window.micros if window.tumbling is None else window.tumbling.micros
    by_time = micros / 1e6 * rate if micros is not None and rate is not None else None
    known = [float(x) for x in (window.count, by_time) if x is not None]
    return min(known) if known else None


def assumed_rows(window: Window, rate: float | None) -> float:
    """``window_rows``, or ``EXAMPLE_ROWS`` where that is not known."""
    rows = window_rows(window, rate)
    return EXAMPLE_ROWS if rows is None else rows


def format_window(window: Window) -> str:
    """``1,000 rows``, ``7 days``, or both; with what else ends it."""
    if window.tumbling is not None:
        rows = "" if window.count is None else f", of these {counted(window.count, 'row')}"
        return format_calendar(window.tumbling) + rows
    if window.session is not None:
        return f"session of {format_duration(window.session)} within {format_window(replace(window, session=None))}"
    parts = [f"{counted(window.count, 'row')}"] if window.count is not None else []
    if window.micros is not None:
        parts.append(format_duration(window.micros) + (" that end before the boundary" if window.hopping else ""))
    return " and ".join(parts) + (" (whichever ends first)" if len(parts) == 2 else "")


def stream_window(stream: StreamNode) -> str:
    """Return how long an entry is in the stream of a result: by the window that its queries name, or ``while in talkers``."""
    return format_window(stream.plan.window) if stream.bounded else f"while in {stream.of}"


def most_entries(plan: Plan, stream: StreamNode) -> str:
    """Return how many items the result may have at a time, where its query says that: behind the window of their entries."""
    k = _most(plan, stream)
    return "" if k is None else f"; {counted(k, 'item')}{per_key(plan)} at a time"


def of_stream(plan: Plan, stream: StreamNode, node: OperatorNode) -> OperatorNode:
    """Return ``node``, an operator over the stream, with a window of no more rows than there are entries at a time, for its size."""
    k = _most(plan, stream)
    if k is None or stream.takes == "members":
        return node
    return replace(node, window=replace(node.window, count=min(k, node.window.count or k)))


def _most(plan: Plan, stream: StreamNode) -> int | None:
    query = next(q for q in plan.every_query if q.name == stream.of)
    operator: Any = plan.of(query.name).operators[query.operator].operator
    asked = getattr(operator, "queries", ())
    # More items may equal the k-th: of queries about groups each says so, of those with sort keys the state.
    tied = getattr(operator, "ties", None) in ("include", "dense") or getattr(asked[query.index] if asked else None, "ties", False)
    return query.k if query.item.lasting and not tied else None


def format_calendar(calendar: Calendar) -> str:
    """``1 day tumbling (Europe/Berlin, offset 6 hours)``."""
    moved = f", offset {format_duration(calendar.offset)}" if calendar.offset else ""
    length = format_months(calendar.months) if calendar.months else format_duration(calendar.micros)
    return f"{length} tumbling ({calendar.zone}{moved})"


def format_bytes(n: float) -> str:
    """Return bytes with a unit, in two digits."""
    for unit in ("B", "KB", "MB", "GB"):
        if n < 1000 or unit == "GB":
            return f"{n:,.0f} {unit}" if n >= 10 or unit == "B" else f"{n:.1f} {unit}"
        n /= 1000
    return f"{n:,.0f} GB"


def canonical_text(node: Node) -> str:
    """An expression in its canonical spelling."""
    return canonical(node)


def assuming(window: Window, rate: float | None) -> str:
    """What is said behind a size that depends on a rate."""
    if rate is None or window.micros is None:
        return ""
    return f" (assuming {rate:g} {'row' if rate == 1 else 'rows'} a second)"


def per_key(plan: Plan) -> str:
    """What is said behind a number of rows where there are keys."""
    return " per key" if plan.intake.partition_by else ""


def state_size(plan: Plan, node: OperatorNode, rate: float | None, size: float, item_bytes: int, formula: str) -> list[str]:
    """The line about a state expected to hold ``size`` items (see ``assumed_rows``), ``formula`` in words behind it."""
    rows = window_rows(node.window, rate)
    if rows is None:
        at = f"depends on the rate; at N = {EXAMPLE_ROWS:,} rows about {size:,.0f} {formula}, {format_bytes(size * item_bytes)}"
        return [f"    skyband   {at}"]
    known = f"about {size:,.0f} {formula}, N = {counted(round(rows), 'row')}{per_key(plan)}{assuming(node.window, rate)}"
    return [f"    skyband   {known}; {format_bytes(size * item_bytes)}"]


def lookup_text(node: LookupNode, event_time: str) -> str:
    """Return what rows take of a look-up's table, and what becomes of those without a match."""
    taken = ", ".join(new if new == column else f"{new} = {column}" for new, column in node.take)
    key = " and ".join(f"{own} = {column}" for own, column in node.on)
    when = "" if node.valid is None else f", valid at {event_time} (from {node.valid[0]} to {node.valid[1]})"
    missing = "null" if node.missing == "null" else f"rejected as {NO_MATCH}{node.name}"
    return f"look up in {node.name} where {key}{when}: {taken}; without a match {missing}"
