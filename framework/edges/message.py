"""Make the message to the edges: the columns that the queries read, and the border of each result as of the last complete instant."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

from skyband.edge import EdgeError
from skyband.edge.message import Border, Message, Query, parse_message
from skyband.framework.base.errors import SkybandError
from skyband.framework.plan.model import Filter, Plan, QueryNode
from skyband.framework.queries.loyalty_rows.loyalty_type import LOYALTY

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def is_message(content: bytes) -> bool:
    """Return True if a file's content is a message to edges."""
    try:
        parse_message(content.decode())
    except (EdgeError, UnicodeDecodeError):
        return False
    return True


def message_of(plan: Plan) -> Message:
    """Return the message for the job of ``plan``; without borders before its first run. O(members of the results).

    Raises SkybandError SKY-E704 if an edge cannot filter for all its queries, as ``read_result`` does for tables that cannot be read.
    """
    reasons = list(obstacles(plan))
    if reasons:
        raise SkybandError("SKY-E704", f"an edge cannot filter for job {plan.job!r}: {'; '.join(reasons)}", hint="see docs/how-to/edge.md")
    operator: Any = plan.operators[plan.queries[0].operator].inner
    as_of, borders = _borders(plan)
    queries = []
    for q in plan.queries:
        window, at_least = _operator(plan, q).window.micros, _operator(plan, q).queries[q.index].at_least
        queries.append(Query(q.name, window, at_least, () if at_least is not None else tuple(borders[q.name])))
    intake = plan.intake
    order = () if plan.source.position else tuple(_in_source(plan, c) for c in (*intake.tie_break, *intake.id))
    return Message(
        plan.job, as_of, _in_source(plan, intake.event_time), tuple(_in_source(plan, c) for c in operator.object),
        _in_source(plan, operator.updates.name), _in_source(plan, operator.held), tuple(queries), order,
        tuple(_in_source(plan, c) for c in intake.partition_by),
    )  # fmt: skip


def obstacles(plan: Plan) -> Iterator[str]:
    """Say what keeps an edge from knowing how the job reads its rows, or what needs rows that an edge would hold back."""
    intake = plan.intake
    reads = set()
    for q in plan.queries:
        operator = _operator(plan, q)
        if not q.item.moves:
            yield f"query {q.name} ({q.type}) needs every row"
        elif operator.held is None:
            yield f"query {q.name} has no 'held' column"
        elif operator.updates is None or operator.where is not None:
            yield f"query {q.name} must take its reports from 'updates', without 'where'"
        else:
            reads.add((operator.object, operator.updates.name, operator.held))
    for q in plan.every_query[len(plan.queries) :]:
        yield f"query {q.name} takes the result of another query"
    if len(reads) > 1:
        yield "its queries differ in 'object', 'updates' or 'held'"
    sourced = {f.name for _, part in plan.source.each for f in (*part.fields, *part.position)}
    used = {intake.event_time, *intake.id, *intake.partition_by, *intake.tie_break, *(c for o, u, h in reads for c in (*o, u, h))}
    derived = sorted(used - sourced)
    if derived:
        yield f"columns that an edge does not have: {', '.join(derived)}"
    kinds = {c: intake.field(c).kind for c in intake.partition_by}
    other = sorted(c for c, kind in kinds.items() if kind not in ("text", "int", "bool"))
    if other:
        yield f"keys that JSON does not have: {', '.join(other)}"
    some = {
        "it has several sources": bool(plan.source.parts), "it deletes or replaces rows": intake.has_deletions,
        "it has statistics": bool(plan.statistics), "it has look-ups": bool(intake.lookups),
        "it has queries over the results of others": bool(plan.streams),
        "it filters rows": any(isinstance(t, Filter) for t in intake.transforms),
        "it rejects rows by rules": any(r.severity != "warn" for r in intake.rules),
        "it keeps the first of rows with one id": intake.on_duplicate != "reject",
    }  # fmt: skip
    yield from (reason for reason, applies in some.items() if applies)


def _borders(plan: Plan) -> tuple[int, dict[str, list[Border]]]:
    """Return the last complete instant, and for each top-k query the keys with k objects and the least loyalty of these.

    Nothing is known before the first run.
    """
    from skyband.framework.tables.results.reader import Reader

    reader = Reader(plan)
    found: dict[str, list[Border]] = defaultdict(list)
    instant: datetime | None = None
    for q in plan.queries:
        if q.k is None:
            continue
        try:
            answer = reader.as_of(q.name, instant)
        except SkybandError as e:
            if e.code in ("SKY-E400", "SKY-E402"):
                return 0, defaultdict(list)
            raise
        instant = answer.as_of
        loyalties: dict[tuple[Any, ...], list[int]] = defaultdict(list)
        for row in answer.rows.to_pylist():
            loyalties[tuple(row[c] for c in plan.intake.partition_by)].append(round(row[LOYALTY] * 1e6))
        found[q.name] = [Border(key, min(mine)) for key, mine in loyalties.items() if len(mine) == q.k]
    return 0 if instant is None else (instant - _EPOCH) // timedelta(microseconds=1), found


def _operator(plan: Plan, query: QueryNode) -> Any:
    return plan.operators[query.operator].inner


def _in_source(plan: Plan, column: str) -> str:
    """Return the name of a column in the source."""
    fields = [f for f in (*plan.source.fields, *plan.source.position) if f.name == column]
    return (fields[0].source_name or column) if fields else column
