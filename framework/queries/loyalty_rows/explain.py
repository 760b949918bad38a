"""The lines of ``explain`` about a state of loyalty."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from skyband.framework.base.units import format_duration
from skyband.framework.plan.explain_parts import canonical_text
from skyband.framework.plan.model import OperatorNode, Plan, QueryNode

SHARES_STATE: Final = "object, criteria (or updates), where, stale_after, held and window"
"""The fields that queries of a shared state have in common."""


def facts(node: OperatorNode, queries: Sequence[QueryNode]) -> list[tuple[str, str]]:
    """Return the object, when it is on and for how long; the queries' bounds, and the objects with trajectories."""
    operator: Any = node.operator
    on = f"by column {operator.updates.name}" if operator.updates is not None else f"where {canonical_text(operator.criteria)}"
    stale = f", for {format_duration(operator.stale_after)} at most" if operator.stale_after is not None else ""
    deleted = " or its own deletion" if operator.deletes else ""
    found = [("object", ", ".join(operator.object)), ("on", f"{on}, until the object's next report{deleted}{stale}")]
    found += [("where", canonical_text(operator.where))] if operator.where is not None else []
    found += [("held", f"switches in column {operator.held} move an object's line at once")] if operator.held is not None else []
    bounds = [f"{format_duration(n)} for {q.name}" for q in queries if (n := operator.queries[q.index].at_least) is not None]
    found += [("at least", ", ".join(bounds))] if bounds else []
    every = [q.name for q in queries if operator.queries[q.index].trace_all]
    members = [q.name for q in queries if not operator.queries[q.index].trace_all]
    traced = [f"members of {', '.join(members)}"] if members else []
    traced += [f"all objects, for {', '.join(every)}"] if every else []
    return [*found, ("traces", "; ".join(traced))]


def size(plan: Plan) -> list[str]:
    """Return the line about the kept objects."""
    per_key = " of a key" if plan.intake.partition_by else ""
    keeps = [f"    keeps     objects{per_key} that are on or were within the window, and when each was switched; no rows"]
    if plan.intake.deletes is None:
        return keeps
    return [
        *keeps,
        "    price     of deletions: 8 B an object for its last report; up to twice the operator's time per row in small batches",
    ]
