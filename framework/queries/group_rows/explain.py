"""What ``explain`` says about a state of groups."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from skyband.framework.base.counts import counted, number_text
from skyband.framework.plan.explain_parts import canonical_text, window_rows
from skyband.framework.plan.model import OperatorNode, Plan, QueryNode

SHARES_STATE: Final = "group, score, having, direction, where and window"
"""What queries that share a state have in common."""

_ROW, _VALUE, _LINKS, _GROUP, _SUM, _SET = 36, 8, 16, 150, 72, 48
"""Bytes of a row, of a value of a row, of a row's place in a list, of a group, of a sum of a group, of a different value of a group."""
_FOUND = 80
"""Bytes with which a row is found when it is deleted."""
_SUMS: Final = {"sum": 1, "mean": 1, **dict.fromkeys(("var_pop", "var_samp", "stddev_pop", "stddev_samp"), 14)}
"""What each aggregate takes, in sums: one of squares of doubles needs all its chunks."""


def facts(node: OperatorNode, queries: Sequence[QueryNode]) -> list[tuple[str, str]]:
    """Return the group, the score, and the conditions."""
    op: Any = node.operator
    reported = [("group", ", ".join(op.group)), ("score", f"{op.score.spelling} ({op.direction} first)")]
    reported += [("having", op.having.spelling)] if op.having is not None else []
    reported += [("where", canonical_text(op.where))] if op.where is not None else []
    tied = [q.name for q in queries if op.queries[q.index].ties]
    reported += [("ties", f"all groups that equal the k-th for {', '.join(tied)}")] if tied else []
    bounds = [_bound(q.name, op.queries[q.index]) for q in queries if op.queries[q.index].above is not None]
    return [*reported, *([("above", "; ".join(bounds))] if bounds else [])]


def _bound(name: str, asked: Any) -> str:
    stays = "" if asked.below is None else f", until below {number_text(asked.below)}"
    return f"{number_text(asked.above)}{stays} for {name}"


def size(plan: Plan, node: OperatorNode, rate: float | None) -> list[str]:
    """Return what the state holds, and how large it is."""
    op: Any = node.operator
    functions = [a.function for a in op.aggregates]
    row = _ROW + _VALUE * len(op.arguments) + _LINKS * sum(f in ("min", "max", "first", "last", "quantile") for f in functions)
    row += _FOUND if op.deletes else 0
    group = _GROUP * len(op.queries) + _SUM * sum(_SUMS.get(f, 0) for f in functions)
    sets = f", {_SET} a different value of a group" if "distinct" in functions else ""
    per_key = " of a key" if plan.intake.partition_by else ""
    lines = [f"    keeps     the rows{per_key} in the window and their groups: about {row} bytes a row and {group} a group{sets}"]
    rows = window_rows(op.window, rate)
    if rows is not None and rate is not None and op.window.micros is not None:
        lines.append(f"    expected  {counted(round(rows), 'row')}{per_key}: {rows * row / 2**20:,.1f} MB, and the groups")
    return lines
