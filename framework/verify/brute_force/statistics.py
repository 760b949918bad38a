"""The statistics of each accepted row by definition: over the rows before it, in whole numbers of Python, which are exact.

Nothing of the run's kernels is used. A value is a whole number of parts: of 2^-1074 for doubles, of 10^-s for decimals, of 1 for others.
"""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections import deque
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa

from skyband.framework.base.decimals import decimal_digits
from skyband.framework.plan.model import Plan
from skyband.framework.plan.nodes import StatisticsNode
from skyband.framework.verify.brute_force.objects import Accepted

LEAST: Final = 1 << 1074
"""Parts of 1 for doubles, of which the least above 0 is 2^-1074."""


def with_statistics(plan: Plan, mine: Accepted) -> Accepted:
    """Return one key's objects with the columns of their statistics. O(rows), and O(rows of the window) for extremes of each row."""
    rows = mine.rows
    for node in plan.statistics:
        for name, values in zip(node.columns, _statistics(plan, node, mine), strict=True):
            rows = rows.append_column(name, pa.array(values, pa.float64()))
    return mine if rows is mine.rows else replace(mine, rows=rows)


@dataclass(slots=True)
class _Values:
    """The values of one column that count for one group and are not null. ``ordered``: as doubles, in order."""

    parts: int
    known: int = 0
    total: int = 0
    squares: int = 0
    endless: dict[float, int] = field(default_factory=lambda: {math.inf: 0, -math.inf: 0})
    ordered: list[float] = field(default_factory=list)

    def change(self, value: float | int | Decimal, number: float, sign: int) -> None:
        """Add (``sign`` 1) or remove (-1) a value, which is ``number`` as a double."""
        self.known += sign
        if sign > 0:
            insort(self.ordered, number)
        else:
            del self.ordered[bisect_left(self.ordered, number)]
        if math.isinf(number):
            self.endless[number] += sign
            return
        numerator, denominator = value.as_integer_ratio()
        exact = numerator * self.parts // denominator
        self.total += sign * exact
        self.squares += sign * exact * exact

    def statistic(self, function: str, at_least: int) -> float | None:
        """Return a statistic, None for null."""
        n = self.known
        if function == "count":
            return float(n)
        if n < max(at_least, 2 if function == "stddev" else 1):
            return None
        if function in ("min", "max"):
            return self.ordered[0 if function == "min" else -1] + 0.0
        if any(self.endless.values()):
            only = [v for v, there in self.endless.items() if there]
            return only[0] if len(only) == 1 and function != "stddev" else None
        if function == "stddev":
            return math.sqrt(nearest(n * self.squares - self.total**2, n * (n - 1) * self.parts**2))
        return nearest(self.total, self.parts * (n if function == "mean" else 1))


def nearest(numerator: int, denominator: int) -> float:
    """Return the double that is nearest to a quotient of whole numbers, which Python rounds once; infinite beyond the largest."""
    try:
        return numerator / denominator
    except OverflowError:
        return math.inf if numerator > 0 else -math.inf


def _statistics(plan: Plan, node: StatisticsNode, mine: Accepted) -> list[list[float | None]]:
    """Return the values of each function for every object."""
    columns = list(dict.fromkeys(c for _, c in node.functions))
    values = {c: [_value(v) for v in mine.rows[c].to_pylist()] for c in columns}
    # Extremes of decimals are doubles, as the columns are in expressions.
    numbers = {c: _doubles(mine.rows[c], values[c]) for c in columns}
    groups = list(zip(*(mine.rows[c].to_pylist() for c in node.by), strict=True)) if node.by else [()] * len(mine.time)
    parts = {c: _parts(plan.intake.field(c).type) for c in columns}
    of: dict[tuple[Any, ...], dict[str, _Values]] = {}
    found: list[list[float | None]] = [[] for _ in node.functions]
    alive: deque[int] = deque()
    gone: set[int] = set()
    deletions = deque(mine.deletions)

    def change(seq: int, sign: int) -> None:
        counts = of.setdefault(groups[seq], {c: _Values(parts[c]) for c in columns})
        for c in columns:
            if values[c][seq] is not None:
                counts[c].change(values[c][seq], numbers[c][seq], sign)

    def leave(seq: int) -> None:
        if seq not in gone:
            gone.add(seq)
            if None not in groups[seq]:
                change(seq, -1)

    for seq, at in enumerate(mine.time):
        while deletions and deletions[0][1] <= seq:
            leave(deletions.popleft()[2])
        while alive and _has_left(node, mine.time[alive[0]], at, alive[0], seq):
            leave(alive.popleft())
        if None in groups[seq]:
            for column in found:
                column.append(None)
            gone.add(seq)
            continue
        counts = of.setdefault(groups[seq], {c: _Values(parts[c]) for c in columns})
        for column, (function, c) in zip(found, node.functions, strict=True):
            column.append(counts[c].statistic(function, node.at_least))
        change(seq, 1)
        alive.append(seq)
    return found


def _has_left(node: StatisticsNode, time: int, at: int, seq: int, following: int) -> bool:
    """Return True if an object has left the window that the object ``following`` finds at ``at``."""
    count, micros = node.window.count, node.window.micros
    return (micros is not None and time + micros <= at) or (count is not None and seq < following - count)


def _parts(type_: str) -> int:
    digits = decimal_digits(type_)
    return 10 ** digits[1] if digits is not None else LEAST if type_ in ("double", "float") else 1


def _doubles(column: pa.ChunkedArray, values: list[Any]) -> list[Any]:
    return column.cast(pa.float64()).to_pylist() if pa.types.is_decimal(column.type) else [None if v is None else float(v) for v in values]


def _value(value: Any) -> Any:
    """Return a value; None for null and NaN, and 1 for what can only be counted."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return None
    return value if isinstance(value, (int, float, Decimal)) and not isinstance(value, bool) else 1
