"""Shards: how many tasks share the search for pairs of each bucket, and which operators they search for (docs/algorithms D6)."""

from __future__ import annotations

from typing import Final

from skyband.framework.base.counts import counted
from skyband.framework.plan.model import OperatorNode, Plan
from skyband.operators.shards import can_be_sharded

AUTO: Final = 0
"""``Plan.shards`` of a job that has as many as there are cores, if that pays."""
LEAST_ROWS: Final = 20_000
"""Rows of a window from which ``auto`` takes more than one shard: below, reading and writing rows costs more than the search."""


def sharded(plan: Plan) -> tuple[OperatorNode, ...]:
    """Return the operators whose search shards can share."""
    return tuple(node for node in plan.operators if can_be_sharded(node.operator))


def shards_of(plan: Plan, cores: int, now: int | None) -> int:
    """Return the number of shards that the job is to have; ``now``: those that it has, None before its first run.

    ``auto`` is decided in the first run: as many as there are cores, if a window may hold ``LEAST_ROWS`` rows of a key.
    """
    searched = sharded(plan)
    if not searched:
        return 1
    if plan.shards != AUTO:
        return plan.shards
    if now is not None:
        return now
    large = any(node.window.count is None or node.window.count >= LEAST_ROWS for node in searched)
    return max(1, cores) if large else 1


def shard_lines(plan: Plan) -> list[str]:
    """Return what ``explain`` says of shards."""
    if plan.shards == 1:
        return []
    searched = sharded(plan)
    if not searched:
        return ["shards   none: no query searches for pairs, or the rows it searches can be deleted"]
    many = "as many as cores (auto)" if plan.shards == AUTO else counted(plan.shards, "task")
    whole = [node.name for node in plan.operators if node not in searched]
    lines = [f"shards   {many} for each bucket: every one has the window, and searches for the pairs of its share of the rows"]
    lines.append(f"         shared: {', '.join(node.name for node in searched)}")
    if whole:
        lines.append(f"         by the bucket's own task: {', '.join(whole)}")
    return [*lines, "  |"]
