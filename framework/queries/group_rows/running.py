"""Aggregates of rows that come and go, by definition: whole numbers and values in order, one row at a time, in plain Python.

Nothing of the operators is used. Sums are whole numbers of parts: of 2^-1074 for doubles, of 10^-s for decimals, of 1 for others.
"""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections import Counter
from fractions import Fraction
from typing import Any, Final

from skyband.framework.verify.brute_force.statistics import LEAST, nearest


def parts_of(value: Any, scale: int | None) -> int:
    """Return how many parts of 1 a value is a whole number of; ``scale``: digits after the point of a decimal column."""
    return LEAST if isinstance(value, float) else 10**scale if isinstance(value, Fraction) and scale is not None else 1


class Running:
    """One argument of aggregates: the values of a group's rows that are not null. Keeps only what ``functions`` need.

    ``parts``: how many parts of 1 a value is a whole number of. Rows are added in order of their numbers, and removed in any order.
    """

    def __init__(self, functions: frozenset[str], parts: int) -> None:
        self.known = 0
        self._parts = parts
        self._adds = bool(functions & _ADDING)
        self._squares_too = bool(functions & _VARIANCES)
        self._total = self._squares = 0
        self._endless = {math.inf: 0, -math.inf: 0}
        self._ordered: list[Any] | None = [] if functions & _IN_ORDER else None
        self._counts: Counter[Any] | None = Counter() if "distinct" in functions else None
        self._rows: list[int] | None = [] if functions & _BY_AGE else None
        self._value_of: dict[int, Any] = {}

    def add(self, row: int, value: Any) -> None:
        """Add the value of a row, which is not null."""
        self.known += 1
        if self._adds:
            self._change(value, 1)
        if self._ordered is not None:
            insort(self._ordered, value)
        if self._counts is not None:
            self._counts[value] += 1
        if self._rows is not None:
            self._rows.append(row)
            self._value_of[row] = value

    def remove(self, row: int, value: Any) -> None:
        """Remove the value of a row that was added."""
        self.known -= 1
        if self._adds:
            self._change(value, -1)
        if self._ordered is not None:
            del self._ordered[bisect_left(self._ordered, value)]
        if self._counts is not None:
            self._counts[value] -= 1
            if not self._counts[value]:
                del self._counts[value]
        if self._rows is not None:
            del self._rows[bisect_left(self._rows, row)]
            del self._value_of[row]

    def value(self, function: str, share: float | None = None) -> Any:
        """Return an aggregate, None for null: a value of a row as it is, other results as defined for the function."""
        n = self.known
        if function == "count":
            return n
        if function == "distinct":
            assert self._counts is not None
            return len(self._counts)
        if not n:
            return None
        if function in _BY_AGE:
            assert self._rows is not None
            return self._value_of[self._rows[0 if function == "first" else -1]]
        if function in _IN_ORDER:
            assert self._ordered is not None
            place = 0 if function == "min" else n - 1 if share is None else math.ceil(Fraction(repr(share)) * n) - 1
            return self._ordered[place]
        if any(self._endless.values()):
            only = [v for v, there in self._endless.items() if there]
            return only[0] if len(only) == 1 and function in ("sum", "mean") else None
        if function in ("sum", "mean"):
            return nearest(self._total, self._parts * (n if function == "mean" else 1))
        sample = function.endswith("_samp")
        if n < 1 + sample:
            return None
        variance = nearest(n * self._squares - self._total**2, n * (n - sample) * self._parts**2)
        return math.sqrt(variance) if function.startswith("stddev") else variance

    @property
    def is_exact(self) -> bool:
        """Return True if the values are decimals or whole numbers, whose sum is one, too."""
        return self._parts != LEAST

    def exact_sum(self) -> Fraction | int | None:
        """Return the sum of decimals or whole numbers, None for null."""
        return None if not self.known else self._total if self._parts == 1 else Fraction(self._total, self._parts)

    def _change(self, value: Any, sign: int) -> None:
        if isinstance(value, float) and math.isinf(value):
            self._endless[value] += sign
            return
        numerator, denominator = value.as_integer_ratio()
        exact = numerator * self._parts // denominator
        self._total += sign * exact
        if self._squares_too:
            self._squares += sign * exact * exact


_VARIANCES: Final = frozenset({"var_pop", "var_samp", "stddev_pop", "stddev_samp"})
_ADDING: Final = _VARIANCES | {"sum", "mean"}
_IN_ORDER: Final = frozenset({"min", "max", "quantile"})
_BY_AGE: Final = frozenset({"first", "last"})
