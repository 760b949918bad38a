"""What the compilers of entries that are spelled out (not lists of queries) share."""

from __future__ import annotations

from typing import Any, Literal

from skyband.framework.plan.drafts import QueryEntry
from skyband.framework.plan.model import LogicalQuery


def spelled_out(m: QueryEntry) -> bool:
    """Whether the entry is one query, not a list."""
    query: Any = m.query
    return query.queries_from is None


def logical_query(m: QueryEntry, function: Any, where: Any, direction: Literal["min", "max"]) -> LogicalQuery:
    """What a spelled-out entry asks, in full."""
    q: Any = m.query
    return LogicalQuery(m.name, function, where, m.window, getattr(q, "k", None), tuple(getattr(q, b) for b in q.bounds), direction)
