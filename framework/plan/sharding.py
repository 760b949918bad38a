"""Shards: how many tasks share the search for pairs of each bucket, and which operators they search for (docs/algorithms D6)."""

from __future__ import annotations

from typing import Final

from skyband.framework.base.counts import counted
from skyband.framework.plan.model import OperatorNode, Plan
from skyband.operators.shards import Shardable, can_be_sharded

AUTO: Final = 0
"""``Plan.shards`` of a job that has as many as there are cores, if that pays."""
LEAST_MICROS: Final = 40
"""Microseconds of a row's search from which ``auto`` takes shards: to pass rows and pairs on takes some ten (bench/shards)."""
ASSUMED_ROWS: Final = 100_000
"""Rows of a window of time, whose number nobody knows before the job runs."""


def sharded(plan: Plan) -> tuple[OperatorNode, ...]:
    """Return the operators whose search shards can share."""
    return tuple(node for node in plan.operators if can_be_sharded(node.operator))


def search_micros(plan: Plan) -> float:
    """Return about how many microseconds the searches that shards can share take a row, in full windows of one key."""
    nodes = ((node, node.operator) for node in sharded(plan))
    return sum(o.partner_nanos * (node.window.count or ASSUMED_ROWS) for node, o in nodes if isinstance(o, Shardable)) / 1000


def shards_of(plan: Plan, cores: int, now: int | None) -> int:
    """Return the number of shards that the job is to have; ``now``: those that it has, None before its first run.

    ``auto`` is decided in the first run: as many as there are cores, if the search of a row takes ``LEAST_MICROS``.
    """
    searched = sharded(plan)
    if not searched:
        return 1
    if plan.shards != AUTO:
        return plan.shards
    if now is not None:
        return now
    return max(1, cores) if search_micros(plan) >= LEAST_MICROS else 1


def shard_lines(plan: Plan) -> list[str]:
    """Return what ``explain`` says of shards."""
    if plan.shards == 1:
        return []
    searched = sharded(plan)
    if not searched:
        return ["shards   none: no query searches for pairs, or the rows it searches can be deleted", "  |"]
    many, takes = counted(plan.shards, "task"), f"a row's search takes about {search_micros(plan):,.0f} us"
    if plan.shards == AUTO:
        if shards_of(plan, 2, None) == 1:
            return [f"shards   none (auto): {takes}; from {LEAST_MICROS} on they pay", "  |"]
        many = f"as many tasks as cores (auto: {takes})"
    whole = [node.name for node in plan.operators if node not in searched]
    lines = [f"shards   {many} for each bucket: every one has the window, and searches for the pairs of its share of the rows"]
    lines.append(f"         shared: {', '.join(node.name for node in searched)}")
    if whole:
        lines.append(f"         by the bucket's own task: {', '.join(whole)}")
    return [*lines, "  |"]
