"""What ``explain`` says about a state of loyalty."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from skyband.framework.base.units import format_duration
from skyband.framework.plan.explain_parts import canonical_text
from skyband.framework.plan.model import OperatorNode, Plan, QueryNode

SHARES_STATE: Final = "object, criteria (or updates), where, stale_after and window"
"""What queries that share a state have in common."""


def facts(node: OperatorNode, queries: Sequence[QueryNode]) -> list[tuple[str, str]]:
    """The object, what turns it on, how long that counts; the queries' bounds, and whose trajectories are written."""
    op: Any = node.operator
    on = f"by column {op.updates.name}" if op.updates is not None else f"where {canonical_text(op.criteria)}"
    stale = f", for {format_duration(op.stale_after)} at most" if op.stale_after is not None else ""
    told = [("object", ", ".join(op.object)), ("on", f"{on}, until the object's next report{stale}")]
    told += [("where", canonical_text(op.where))] if op.where is not None else []
    bounds = [f"{format_duration(n)} for {q.name}" for q in queries if (n := op.queries[q.index].at_least) is not None]
    told += [("at least", ", ".join(bounds))] if bounds else []
    every = [q.name for q in queries if op.queries[q.index].trace_all]
    members = [q.name for q in queries if not op.queries[q.index].trace_all]
    traced = [f"members of {', '.join(members)}"] if members else []
    traced += [f"all objects, for {', '.join(every)}"] if every else []
    return [*told, ("traces", "; ".join(traced))]


def size(plan: Plan) -> list[str]:
    """What the state holds."""
    per_key = " of a key" if plan.intake.partition_by else ""
    return [f"    keeps     objects{per_key} that are on or were within the window, and when each was switched; no rows"]
