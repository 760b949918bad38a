"""Intervals of values as straight-line code: what arithmetic and functions make of all values between two ends (docs/algorithms D8).

``+ - * / sqrt``, conversions and comparisons of IEEE 754 are monotone in each argument, rounding included. So ends that are computed by the
operation itself are exact. ``exp log pow`` come from the C library, which promises no monotonicity: their ends are widened (``down``).
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import reduce
from itertools import product
from typing import TypeAlias

from skyband.operators.expressions.lower import FALSE, TRUE, Statements


@dataclass(frozen=True, slots=True)
class Reals:
    """A float64 from ``least`` to ``greatest``. Flags: may it be null (``null``), may it be a number (``some``); without one, any ends.

    Known while generating: it is never -0.0 (``clean``), so that 1 / 0 has a sign; it is never below zero (``nonnegative``).
    """

    least: str
    greatest: str
    null: str
    some: str
    clean: bool = False
    nonnegative: bool = False


@dataclass(frozen=True, slots=True)
class Wholes:
    """An int64 from ``least`` to ``greatest``; flags as of ``Reals``."""

    least: str
    greatest: str
    null: str
    some: str


@dataclass(frozen=True, slots=True)
class Truths:
    """A condition. Flags: may it be true, may it be false, may it be null."""

    true: str
    false: str
    null: str


Interval: TypeAlias = Reals | Wholes | Truths

ULPS = 4
"""By how many units in the last place results of the C library are widened. Where a function rises, its result at the end of an interval
and that inside of it are each off by an error of at most 1 unit in the libraries in use (the manual of glibc, "Errors in Math Functions"),
so 2 would do; the rest is reserve."""
_SHRINK, _GROW = 1 - ULPS * sys.float_info.epsilon, 1 + ULPS * sys.float_info.epsilon
_TINY = ULPS * math.ulp(0.0)
MIN, MAX = -(2**63), 2**63 - 1


@dataclass
class Arithmetic(Statements):
    """Operations on intervals. The ends of an interval with ``some`` are never NaN and in order."""

    constants: dict[str, float | int] = field(default_factory=dict, init=False)
    """The value of each code that is a constant."""
    _finite: set[str] = field(default_factory=set, init=False)

    def __post_init__(self) -> None:
        self.low, self.high, self.zero = (self.real(x) for x in (-math.inf, math.inf, 0.0))
        self.min, self.max = self.whole(MIN), self.whole(MAX)

    # ------------------------------------------------------------------ codes

    def real(self, value: float) -> str:
        """The code of a float constant."""
        code = self.spelling.real.format(value)
        self.constants[code] = value
        return code

    def whole(self, value: int) -> str:
        """The code of an integer constant."""
        code = self.spelling.whole.format(value)
        self.constants[code] = value
        return code

    def test(self, x: str, op: str, y: str) -> str:
        """The flag "``x`` ``op`` ``y``", known where both are constants."""
        if x not in self.constants or y not in self.constants:
            return super().test(x, op, y)
        p, q = self.constants[x], self.constants[y]
        holds = {"<": p < q, "<=": p <= q, ">": p > q, ">=": p >= q, "==": p == q, "!=": p != q}[op]
        return TRUE if holds else FALSE

    def all(self, flags: Iterable[str]) -> str:
        """The flag "every one of ``flags``"."""
        return reduce(self.both, flags, TRUE)

    def any(self, flags: Iterable[str]) -> str:
        """The flag "one of ``flags`` at least"."""
        return reduce(self._either, flags, FALSE)

    def less(self, x: str, y: str) -> str:
        """The less of two ends."""
        if self.low in (x, y) or self.high in (x, y):
            return self.low if self.low in (x, y) else y if x == self.high else x
        return self.select(self.test(x, "<", y), x, y)

    def more(self, x: str, y: str) -> str:
        """The greater of two ends; ``y`` if they are equal."""
        if self.low in (x, y) or self.high in (x, y):
            return self.high if self.high in (x, y) else y if x == self.low else x
        return self.select(self.test(x, ">", y), x, y)

    def negative(self, x: str) -> str:
        """The code of ``-x``."""
        if x in self.constants and isinstance(self.constants[x], float):
            return self.real(-self.constants[x])
        code = self.emit(f"-{x}", x)
        if x in self._finite:
            self._finite.add(code)
        return code

    def _is_finite(self, x: str) -> bool:
        return x in self._finite or math.isfinite(self.constants.get(x, math.inf))

    def _without_nan(self, x: str, instead: str) -> str:
        return self.select(self.test(x, "==", x), x, instead)

    def has_zero(self, x: Reals) -> str:
        """The flag that zero is between the ends."""
        low = TRUE if x.least == self.low else self.test(x.least, "<=", self.zero)
        high = TRUE if x.nonnegative or x.greatest == self.high else self.test(x.greatest, ">=", self.zero)
        return self.both(low, high)

    def _is_infinite(self, x: str, end: str) -> str:
        return FALSE if self._is_finite(x) else TRUE if x == end else self.test(x, "==", end)

    def has_infinity(self, x: Reals) -> str:
        """The flag that an end is infinite."""
        low = FALSE if x.nonnegative else self._is_infinite(x.least, self.low)
        return self._either(low, self._is_infinite(x.greatest, self.high))

    def _fixed(self, x: Reals, otherwise: float = 0.0) -> float:
        """The value of a constant."""
        return self.constants.get(x.least, otherwise) if x.least == x.greatest else otherwise

    # ------------------------------------------------------------------ widening

    def down(self, x: str) -> str:
        """``x`` or less by ``ULPS``. Infinity may stand for the greatest number: next to it, too, a function need not be monotone."""
        x = self.less(x, self.real(sys.float_info.max))
        x = self.select(self.test(x, ">", self.zero), self._times(x, _SHRINK), self._times(x, _GROW))
        return self.emit(f"{x} - {self.real(_TINY)}", x)

    def up(self, x: str) -> str:
        """``x`` or more by ``ULPS``."""
        x = self.more(x, self.real(-sys.float_info.max))
        x = self.select(self.test(x, ">", self.zero), self._times(x, _GROW), self._times(x, _SHRINK))
        return self.emit(f"{x} + {self.real(_TINY)}", x)

    def _times(self, x: str, factor: float) -> str:
        return self.emit(f"{x} * {self.real(factor)}", x)

    # ------------------------------------------------------------------ floats

    def number(self, value: float) -> Reals:
        """The interval of one number."""
        return Reals(self.real(value), self.real(value), FALSE, TRUE, math.copysign(1, value) > 0, value >= 0)

    def nothing(self) -> Reals:
        """The interval of null."""
        return Reals(self.high, self.low, TRUE, FALSE)

    def anything(self) -> Reals:
        """Every number, and null."""
        return Reals(self.low, self.high, TRUE, TRUE)

    def negation(self, x: Reals) -> Reals:
        """``-x``."""
        return Reals(self.negative(x.greatest), self.negative(x.least), x.null, x.some)

    def sum(self, x: Reals, y: Reals) -> Reals:
        """``x + y``. An end of inf - inf means that the infinity of one operand is its only value: the sums are the other infinity."""
        ends = []
        for p, q, absorbing, other in ((x.least, y.least, self.low, self.high), (x.greatest, y.greatest, self.high, self.low)):
            end = absorbing if absorbing in (p, q) else self.emit(f"{p} + {q}", p, q)
            if end != absorbing and not (x.nonnegative and y.nonnegative) and not self._is_finite(p) and not self._is_finite(q):
                end = self._without_nan(end, other)
            ends.append(end)
        undefined = self.any(
            self.both(self._is_infinite(p.greatest, self.high), self._is_infinite(q.least, self.low))
            for p, q in ((x, y), (y, x))
            if not q.nonnegative
        )
        null = self.any((x.null, y.null, undefined))
        return Reals(ends[0], ends[1], null, self.both(x.some, y.some), x.clean or y.clean, x.nonnegative and y.nonnegative)

    def _corners(self, op: str, x: Reals, y: Reals, defined: bool) -> tuple[str, str]:
        """The ends of ``x op y`` from those of x and y. 0 * inf, 0 / 0 and inf / inf as 0 keep the operation monotone."""

        def corner(p: str, q: str) -> str:
            code = self.emit(f"{p} {op} {q}", p, q)
            return code if defined else self._without_nan(code, self.zero)

        if x.nonnegative and y.nonnegative:
            first, last = (y.least, y.greatest) if op == "*" else (y.greatest, y.least)
            return corner(x.least, first), corner(x.greatest, last)
        corners = [*dict.fromkeys(corner(p, q) for p, q in product((x.least, x.greatest), (y.least, y.greatest)))]
        return reduce(self.less, corners), reduce(self.more, corners)

    def product(self, x: Reals, y: Reals) -> Reals:
        """``x * y``."""
        undefined = self.any(self.both(self.has_zero(p), self.has_infinity(q)) for p, q in ((x, y), (y, x)))
        null, some = self.any((x.null, y.null, undefined)), self.both(x.some, y.some)
        if any((p.least, p.greatest) == (self.low, self.high) for p in (x, y)):
            return Reals(self.low, self.high, null, some)
        defined = all(self._is_finite(end) for p in (x, y) for end in (p.least, p.greatest)) or self._fixed(x) != 0 or self._fixed(y) != 0
        ends = self._corners("*", x, y, defined)
        positive = all(p.clean and p.nonnegative for p in (x, y))
        return Reals(*ends, null, some, positive, x.nonnegative and y.nonnegative)

    def square(self, x: Reals) -> Reals:
        """``x * x`` of one value."""
        x = self.absolute(x)
        return replace(
            x, least=self.emit(f"{x.least} * {x.least}", x.least), greatest=self.emit(f"{x.greatest} * {x.greatest}", x.greatest)
        )

    def quotient(self, x: Reals, y: Reals) -> Reals:
        """``x / y``: anything if y may be 0 from both sides (the sign of zero counts, and the order of ends does not tell it)."""
        undefined = self._either(self.both(self.has_zero(x), self.has_zero(y)), self.both(self.has_infinity(x), self.has_infinity(y)))
        null, some = self.any((x.null, y.null, undefined)), self.both(x.some, y.some)
        if (y.least, y.greatest) == (self.low, self.high):
            return Reals(self.low, self.high, null, some)
        value = self._fixed(y)
        if y.clean and not value:  # -0.0 + 0.0 is 0.0
            y = replace(
                y, least=self.emit(f"{y.least} + {self.zero}", y.least), greatest=self.emit(f"{y.greatest} + {self.zero}", y.greatest)
            )
        least, greatest = self._corners("/", x, y, bool(value))
        if y.clean and y.nonnegative:
            both = FALSE
        else:
            both = self.both(self.test(y.least, "<" if y.clean else "<=", self.zero), self.test(y.greatest, ">=", self.zero))
        positive = all(p.clean and p.nonnegative for p in (x, y))
        return Reals(self.select(both, self.low, least), self.select(both, self.high, greatest), null, some, positive, positive)

    def absolute(self, x: Reals) -> Reals:
        """``abs(x)``."""
        if x.nonnegative and x.clean:
            return x
        least = self.more(self.negative(x.greatest), self.more(x.least, self.zero))
        return Reals(least, self.more(self.negative(x.least), x.greatest), x.null, x.some, True, True)

    def extreme(self, fn: str, xs: list[Reals]) -> Reals:
        """``min`` or ``max`` of ``xs``; null if one is null."""
        choose, which = (self.more, any) if fn == "max" else (self.less, all)
        return Reals(
            reduce(choose, [x.least for x in xs]),
            reduce(choose, [x.greatest for x in xs]),
            self.any(x.null for x in xs),
            self.all(x.some for x in xs),
            all(x.clean for x in xs),
            which(x.nonnegative for x in xs),
        )

    def square_root(self, x: Reals) -> Reals:
        """``sqrt(x)``: null below zero."""
        ends = [end if x.nonnegative else self.more(end, self.zero) for end in (x.least, x.greatest)]
        null, some = self._from_zero(x)
        return Reals(self.call("sqrt", ends[0]), self.call("sqrt", ends[1]), null, some, x.clean, True)

    def _from_zero(self, x: Reals) -> tuple[str, str]:
        """The flags of a function of numbers >= 0."""
        if x.nonnegative:
            return x.null, x.some
        return self._either(x.null, self.test(x.least, "<", self.zero)), self.both(x.some, self.test(x.greatest, ">=", self.zero))

    def floor(self, x: Reals) -> Reals:
        """``floor(x)``."""
        return replace(x, least=self.call("floor", x.least), greatest=self.call("floor", x.greatest))

    def exponential(self, x: Reals) -> Reals:
        """``exp(x)``."""
        least = self.more(self.down(self.call("exp", x.least)), self.zero)
        return Reals(least, self.up(self.call("exp", x.greatest)), x.null, x.some, True, True)

    def logarithm(self, x: Reals) -> Reals:
        """``log(x)``: null below zero, -inf of zero."""
        ends = [self.call("log", self.more(end, self.zero)) for end in (x.least, x.greatest)]
        return Reals(self.down(ends[0]), self.up(ends[1]), *self._from_zero(x))

    def power(self, x: Reals, y: Reals) -> Reals:
        """``pow(x, y)``: monotone in each argument for x >= 0, and in x for y = 1, 3, 5, ...; in abs(x) for y = 0, 2, 4, ..."""
        exponent = self._fixed(y, -1.0)
        if exponent >= 0 and exponent % 2 == 0:
            x = self.square(x) if exponent == 2 else self.absolute(x)  # x * x is off from pow(x, 2) by less than 2 units
            ends = [x.least, x.greatest] if exponent == 2 else [self.call("pow", end, y.least) for end in (x.least, x.greatest)]
            return replace(x, least=self.more(self.down(ends[0]), self.zero), greatest=self.up(ends[1]))
        if exponent >= 0 and exponent % 2 == 1:
            ends = [self.call("pow", end, y.least) for end in (x.least, x.greatest)]
            least = self.more(self.down(ends[0]), self.zero) if x.nonnegative else self.down(ends[0])
            return Reals(least, self.up(ends[1]), x.null, x.some, x.clean and x.nonnegative, x.nonnegative)
        bases = [self.emit(f"{end} + {self.zero}", end) for end in (x.least, x.greatest)]
        corners = [*dict.fromkeys(self.call("pow", p, q) for p, q in product(bases, (y.least, y.greatest)))]
        least, greatest = self.more(self.down(reduce(self.less, corners)), self.zero), self.up(reduce(self.more, corners))
        below = FALSE if x.nonnegative else self.test(x.least, "<", self.zero)
        signed = FALSE if x.clean else self.both(self.test(x.least, "<=", self.zero), self.test(y.least, "<", self.zero))
        wild, null = self._either(below, signed), self.any((x.null, y.null, below))
        positive = x.clean and x.nonnegative
        least, greatest = self.select(wild, self.low, least), self.select(wild, self.high, greatest)
        return Reals(least, greatest, null, self.both(x.some, y.some), positive, positive)

    def choice(self, cases: list[tuple[str, Reals]]) -> Reals:
        """One of several values, each with the flag that it may be the one."""
        least, greatest, null, some = [], [], [], []
        for flag, x in cases:
            taken = self.both(flag, x.some)
            least.append(self.select(taken, x.least, self.high))
            greatest.append(self.select(taken, x.greatest, self.low))
            null.append(self.both(flag, x.null))
            some.append(taken)
        clean, nonnegative = all(x.clean for _, x in cases), all(x.nonnegative for _, x in cases)
        return Reals(reduce(self.less, least), reduce(self.more, greatest), self.any(null), self.any(some), clean, nonnegative)
