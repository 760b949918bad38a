"""Bounds of scores over boxes of attributes (docs/algorithms D8): the source text of ``bound_block``.

A *box* is three rows per attribute: the least value, the greatest, and 1 where there is a null (0 elsewhere). Rows 3 r to 3 r + 2 are those
of attribute r, in ``fboxes`` (float64) for ``float_names`` and in ``iboxes`` (int64) for ``int_names``; a column is a zone. Without a value
that is not null, the least is above the greatest.

The result for a zone is a lower bound of the internal score of all objects in it (with an object in the other box, for pairs): never NaN,
``inf`` only if no such object or pair is a candidate (the predicate is not true, or the score is null), ``-inf`` if nothing is known.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import reduce
from itertools import product
from typing import Final, TypeAlias

from skyband.operators.expressions.ast import Attr, Binary, Call, In, IsNull, Literal_, Node, Unary
from skyband.operators.expressions.canonical import walk
from skyband.operators.expressions.codegen import Program, numba_module, numpy_module
from skyband.operators.expressions.formulas import EARTH_RADIUS, FORMULAS, MOST_LATITUDE
from skyband.operators.expressions.leaves import NO_LIMIT, compared, evaluated, leaf, limit_of
from skyband.operators.expressions.lower import FALSE, TRUE, Statements
from skyband.operators.expressions.spellings import NUMBA, NUMPY, Spelling

# Intervals of values as straight-line code: what arithmetic and functions make of all values between two ends (docs/algorithms D8).
#
# ``+ - * / sqrt``, conversions and comparisons of IEEE 754 are monotone in each argument, rounding included. So ends that are computed by
# the operation itself are exact. ``exp log pow`` come from the C library, which promises no monotonicity: their ends are widened
# (``down``).


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
        self.min, self.max = self.integer(MIN), self.integer(MAX)

    # ------------------------------------------------------------------ codes

    def real(self, value: float) -> str:
        """Return the code of a float constant."""
        code = self.spelling.real.format(value)
        self.constants[code] = value
        return code

    def integer(self, value: int) -> str:
        """Return the code of an integer constant."""
        code = self.spelling.whole.format(value)
        self.constants[code] = value
        return code

    def test(self, x: str, op: str, y: str) -> str:
        """Return the flag "``x`` ``op`` ``y``", known where both are constants."""
        if x not in self.constants or y not in self.constants:
            return super().test(x, op, y)
        p, q = self.constants[x], self.constants[y]
        holds = {"<": p < q, "<=": p <= q, ">": p > q, ">=": p >= q, "==": p == q, "!=": p != q}[op]
        return TRUE if holds else FALSE

    def all(self, flags: Iterable[str]) -> str:
        """Return the flag "every one of ``flags``"."""
        return reduce(self.both, flags, TRUE)

    def any(self, flags: Iterable[str]) -> str:
        """Return the flag "one of ``flags`` at least"."""
        return reduce(self._either, flags, FALSE)

    def less(self, x: str, y: str) -> str:
        """Return the less of two ends."""
        if self.low in (x, y) or self.high in (x, y):
            return self.low if self.low in (x, y) else y if x == self.high else x
        return self.select(self.test(x, "<", y), x, y)

    def more(self, x: str, y: str) -> str:
        """Return the greater of two ends; ``y`` if they are equal."""
        if self.low in (x, y) or self.high in (x, y):
            return self.high if self.high in (x, y) else y if x == self.low else x
        return self.select(self.test(x, ">", y), x, y)

    def negative(self, x: str) -> str:
        """Return the code of ``-x``."""
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
        """Return the flag that zero is between the ends."""
        low = TRUE if x.least == self.low else self.test(x.least, "<=", self.zero)
        high = TRUE if x.nonnegative or x.greatest == self.high else self.test(x.greatest, ">=", self.zero)
        return self.both(low, high)

    def _is_infinite(self, x: str, end: str) -> str:
        return FALSE if self._is_finite(x) else TRUE if x == end else self.test(x, "==", end)

    def has_infinity(self, x: Reals) -> str:
        """Return the flag that an end is infinite."""
        low = FALSE if x.nonnegative else self._is_infinite(x.least, self.low)
        return self._either(low, self._is_infinite(x.greatest, self.high))

    def _fixed(self, x: Reals, otherwise: float = 0.0) -> float:
        """Return the value of a constant."""
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
        """Return the interval of one number."""
        return Reals(self.real(value), self.real(value), FALSE, TRUE, math.copysign(1, value) > 0, value >= 0)

    def nothing(self) -> Reals:
        """Return the interval of null."""
        return Reals(self.high, self.low, TRUE, FALSE)

    def anything(self) -> Reals:
        """Return the interval of every number, and null."""
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
        """Return the ends of ``x op y`` from those of x and y. 0 * inf, 0 / 0 and inf / inf as 0 keep the operation monotone."""

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
        """Return the flags of a function of numbers >= 0."""
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
        """Return the interval of one of several values, each with the flag that it may be the one."""
        least, greatest, null, some = [], [], [], []
        for flag, x in cases:
            taken = self.both(flag, x.some)
            least.append(self.select(taken, x.least, self.high))
            greatest.append(self.select(taken, x.greatest, self.low))
            null.append(self.both(flag, x.null))
            some.append(taken)
        clean, nonnegative = all(x.clean for _, x in cases), all(x.nonnegative for _, x in cases)
        return Reals(reduce(self.less, least), reduce(self.more, greatest), self.any(null), self.any(some), clean, nonnegative)


# Typed tree -> the interval of its values: straight-line code over boxes, in the style of ``lower`` (docs/algorithms D8).
#
# A node that these rules do not know may be anything, or null: sound, and of no use.

# Intervals of functions of numbers (docs/algorithms D8): of ``formulas``, of remainders and of trigonometric functions.

_MARGIN: Final = 1e-6
"""How far from a turning point, as a share of half a period, an angle must be to be distinguished from it; rounding is off by less."""
_FARTHEST: Final = 1e6
"""Angles beyond it may be anywhere in a period."""


def _ceil(code: Arithmetic, x: Reals) -> Reals:
    ends = code.call("ceil", x.least), code.call("ceil", x.greatest)
    return replace(x, least=ends[0], greatest=ends[1], clean=x.clean and x.nonnegative)  # ceil(-0.5) is -0.0


def _sign(code: Arithmetic, x: Reals) -> Reals:
    return replace(x, least=FORMULAS["sign"](code, x.least), greatest=FORMULAS["sign"](code, x.greatest))


def _round(code: Arithmetic, x: Reals) -> Reals:
    return replace(x, least=FORMULAS["round"](code, x.least), greatest=FORMULAS["round"](code, x.greatest), clean=True)


def _radians(code: Arithmetic, x: Reals) -> Reals:
    return code.product(x, code.number(math.pi / 180))


def _mod(code: Arithmetic, x: Reals, y: Reals) -> Reals:
    """``mod(x, y)``: of the sign of x, no farther from zero than x or y, and x itself if y is farther from zero."""
    size, most = code.absolute(x), code.absolute(y)
    least = code.negative(code.more(code.less(code.negative(x.least), most.greatest), code.zero))
    greatest = code.more(code.less(x.greatest, most.greatest), code.zero)
    itself = code.test(size.greatest, "<", most.least)
    null = code.any((x.null, y.null, code.has_infinity(x), code.has_zero(y)))
    clean = x.clean and x.nonnegative
    ends = code.select(itself, x.least, least), code.select(itself, x.greatest, greatest)
    return Reals(ends[0], ends[1], null, code.both(x.some, y.some), clean, x.nonnegative)


def _between_turns(code: Arithmetic, x: Reals, shift: float) -> tuple[str, str, str]:
    """Between which turning points the ends are, and the flag that they are near enough to zero to tell.

    The turning point number k is at (k - ``shift``) pi.
    """

    def turn(end: str, margin: float) -> str:
        halves = code.emit(f"{end} * {code.real(1 / math.pi)}", end)
        return code.call("floor", code.emit(f"{halves} + {code.real(shift + margin)}", halves))

    near = (code.test(x.least, ">=", code.real(-_FARTHEST)), code.test(x.greatest, "<=", code.real(_FARTHEST)))
    return turn(x.least, -_MARGIN), turn(x.greatest, _MARGIN), code.all(near)


def _wave(code: Arithmetic, fn: str, x: Reals) -> Reals:
    """``sin`` or ``cos``: monotone between turning points, where it is 1 or -1 by turns."""
    first, last, near = _between_turns(code, x, 0.5 if fn == "sin" else 0.0)
    half = code.emit(f"{last} * {code.real(0.5)}", last)
    even = code.test(code.call("floor", half), "==", half)
    one = code.both(near, code.test(last, "==", code.emit(f"{first} + {code.real(1.0)}", first)))
    none = code.both(near, code.test(last, "==", first))
    peak, lowest = (even, code.test(code.call("floor", half), "!=", half)) if fn == "cos" else (
        code.test(code.call("floor", half), "!=", half), even,
    )  # fmt: skip
    ends = code.call(fn, x.least), code.call(fn, x.greatest)
    bottom, top = code.down(code.real(-1.0)), code.up(code.real(1.0))
    least = code.select(code.any((none, code.both(one, peak))), code.down(code.less(*ends)), bottom)
    greatest = code.select(code.any((none, code.both(one, lowest))), code.up(code.more(*ends)), top)
    return Reals(least, greatest, code.any((x.null, code.has_infinity(x))), x.some)


def _sin(code: Arithmetic, x: Reals) -> Reals:
    return _wave(code, "sin", x)


def _cos(code: Arithmetic, x: Reals) -> Reals:
    return _wave(code, "cos", x)


def _tan(code: Arithmetic, x: Reals) -> Reals:
    """``tan(x)``: rises between its poles."""
    first, last, near = _between_turns(code, x, 0.5)
    rises = code.both(near, code.test(first, "==", last))
    least = code.select(rises, code.down(code.call("tan", x.least)), code.low)
    greatest = code.select(rises, code.up(code.call("tan", x.greatest)), code.high)
    return Reals(least, greatest, code.any((x.null, code.has_infinity(x))), x.some)


def _atan2(code: Arithmetic, y: Reals, x: Reals) -> Reals:
    """``atan2(y, x)``: monotone in each argument where the box does not touch the half-line y = 0, x <= 0."""
    corners = [*dict.fromkeys(code.call("atan2", p, q) for p, q in product((y.least, y.greatest), (x.least, x.greatest)))]
    apart = code.any((code.test(x.least, ">", code.zero), code.test(y.least, ">", code.zero), code.test(y.greatest, "<", code.zero)))
    least = code.select(apart, code.down(reduce(code.less, corners)), code.down(code.real(-math.pi)))
    greatest = code.select(apart, code.up(reduce(code.more, corners)), code.up(code.real(math.pi)))
    return Reals(least, greatest, code.any((x.null, y.null)), code.both(x.some, y.some))


def _haversine(code: Arithmetic, lat1: Reals, lon1: Reals, lat2: Reals, lon2: Reals) -> Reals:
    """Return the formula step by step, in intervals; it does not use that a latitude occurs twice."""
    first, second = _latitude(code, lat1), _latitude(code, lat2)
    north, east = _half_sine_square(code, first, second), _half_sine_square(code, lon1, lon2)
    shrunk = code.product(_cosine(code, first), _cosine(code, second))
    root = code.square_root(code.sum(north, code.product(shrunk, east)))
    one = code.real(1.0)
    angles = [code.call("asin", code.select(code.test(end, ">", one), one, end)) for end in (root.least, root.greatest)]
    angle = replace(root, least=code.more(code.down(angles[0]), code.zero), greatest=code.up(angles[1]))
    return code.product(angle, code.number(2 * EARTH_RADIUS))


def _latitude(code: Arithmetic, x: Reals) -> Reals:
    """Return the interval without what is no latitude, which gives null."""
    south, north = code.real(-MOST_LATITUDE), code.real(MOST_LATITUDE)
    beyond = code.any((code.test(x.least, "<", south), code.test(x.greatest, ">", north)))
    some = code.all((x.some, code.test(x.least, "<=", north), code.test(x.greatest, ">=", south)))
    return Reals(code.more(x.least, south), code.less(x.greatest, north), code.any((x.null, beyond)), some)


def _half_sine_square(code: Arithmetic, x: Reals, y: Reals) -> Reals:
    difference = code.sum(y, code.negation(x))
    return code.square(_sin(code, code.product(_radians(code, difference), code.number(0.5))))


def _cosine(code: Arithmetic, latitude: Reals) -> Reals:
    """Return the cosine of a latitude: above zero, as the float64 next to a pole's angle is below it."""
    x = _cos(code, _radians(code, latitude))
    return replace(x, least=code.more(x.least, code.zero), clean=True, nonnegative=True)


RULES: Final[Mapping[str, Callable[..., Reals]]] = {
    "ceil": _ceil, "sign": _sign, "round": _round, "radians": _radians, "mod": _mod, "sin": _sin, "cos": _cos, "tan": _tan,
    "atan2": _atan2, "haversine": _haversine,
}  # fmt: skip
"""Function -> the interval of its values from those of its arguments."""


_WHOLE: Final = frozenset({"int", "text", "time", "duration"})
_KNOWN: Final = _WHOLE | {"float", "bool"}


@dataclass
class Intervals(Arithmetic):
    """``column(attr)`` gives the codes of an attribute's ends and of "has a null", and whether they are of the column side; None if it has
    no box.

    ``texts``: the codes of text constants. ``ends``: the variables that hold ends of attributes.
    """

    column: Callable[[Attr], tuple[tuple[str, str, str], bool] | None]
    texts: Mapping[str, int]
    ends: set[str] = field(default_factory=set, init=False)
    present: set[str] = field(default_factory=set, init=False)
    _intervals: dict[int, Interval] = field(default_factory=dict, init=False)

    # ------------------------------------------------------------------ results

    def score(self, node: Node | None, negate: bool) -> tuple[str, str]:
        """Return the least internal score, and the flag that there may be one; 0.0 for no score."""
        if node is None:
            return self.zero, TRUE
        self._bottom_up(node)
        x = self.negation(self._real(node)) if negate else self._real(node)
        return x.least, x.some

    def predicate(self, node: Node | None) -> str:
        """Return the flag "may be true" of a predicate; set for no predicate."""
        if node is None:
            return TRUE
        self._bottom_up(node)
        return self._truth(node).true

    def _bottom_up(self, node: Node) -> None:
        """Operands first, so that the recursion of ``interval`` stays shallow."""
        for part in reversed([*evaluated(node)]):
            self.interval(part)

    def depends(self, *results: str) -> bool:
        """Return True if ``results`` depend on ends of attributes by more than whether there are values at all."""
        seen, todo = set(self.present), [*results]
        while todo:
            name = todo.pop()
            if name in self.ends:
                return True
            if name not in seen and name in self._statements:
                seen.add(name)
                todo.extend(self._statements[name][1])
        return False

    # ------------------------------------------------------------------ values

    def interval(self, node: Node) -> Interval:
        """Return the interval of ``node``."""
        if id(node) not in self._intervals:
            self._intervals[id(node)] = self._interval(node)
        return self._intervals[id(node)]

    def _interval(self, node: Node) -> Interval:
        if isinstance(node, Literal_):
            return self._literal(node)
        attribute = leaf(node)
        if attribute is not None:
            return self._attribute(attribute)
        if isinstance(node, Call) and compared(node) is not None:
            return self._compared(node)
        if isinstance(node, Unary):
            return self._unary(node)
        if isinstance(node, Binary):
            return self._binary(node)
        if isinstance(node, Call):
            return self._function(node)
        if isinstance(node, IsNull):
            x = self.interval(node.x)
            there = self._either(x.true, x.false) if isinstance(x, Truths) else x.some
            return Truths(there, x.null, FALSE) if node.negated else Truths(x.null, there, FALSE)
        if isinstance(node, In):
            found = [self._compare("=", node.x, option) for option in node.options]
            result = reduce(self._or, found)
            return self._not(result) if node.negated else result
        return self._unknown(node)

    def _unknown(self, node: Node) -> Interval:
        if node.type == "bool":
            return Truths(TRUE, TRUE, TRUE)
        return Wholes(self.min, self.max, TRUE, TRUE) if node.type in _WHOLE else self.anything()

    def _literal(self, node: Literal_) -> Interval:
        if node.value is None:
            return self.nothing()
        if isinstance(node.value, bool):
            return Truths(TRUE, FALSE, FALSE) if node.value else Truths(FALSE, TRUE, FALSE)
        if isinstance(node.value, float):
            return self.number(node.value)
        if isinstance(node.value, str) and node.value not in self.texts:  # read by a function that has no rule here
            return self._unknown(node)
        code = self.integer(int(self.texts[node.value] if isinstance(node.value, str) else node.value))
        return Wholes(code, code, FALSE, TRUE)

    def _attribute(self, node: Attr) -> Interval:
        column = self.column(node) if node.type in _KNOWN else None
        if column is None:
            return self._unknown(node)
        codes, varies = column
        least, greatest, null = (self.emit(code) for code in codes)
        if varies:
            self._varying.update((least, greatest, null))
        self.ends.update((least, greatest, null))
        null = self.test(null, "!=", self.zero if node.type == "float" else self.integer(0))
        if node.type == "bool":
            return Truths(self.test(greatest, ">=", self.integer(1)), self.test(least, "<=", self.integer(0)), null)
        some = self.test(least, "<=", greatest)
        self.present.add(some)
        return Reals(least, greatest, null, some) if node.type == "float" else Wholes(least, greatest, null, some)

    def _compared(self, node: Call) -> Interval:
        """Return the range of a function of two objects' texts or sets: boxes hold no texts."""
        if node.fn == "edit_distance":
            limit = limit_of(node)
            return Wholes(self.integer(0), self.max if limit == NO_LIMIT else self.integer(limit), TRUE, TRUE)
        return replace(self.number(0.0), greatest=self.high if node.fn == "overlap" else self.real(1.0), null=TRUE, some=TRUE)

    def _real(self, node: Node) -> Reals:
        """``node`` where a float is needed. Conversion rounds, and is monotone."""
        x = self.interval(node)
        if isinstance(x, Reals):
            return x
        assert isinstance(x, Wholes), node
        if isinstance(node, Literal_):
            return self.number(float(int(node.value or 0)) / 1e6 if node.type == "duration" else float(int(node.value or 0)))
        ends = [self.emit(self.spelling.as_float.format(end), end) for end in (x.least, x.greatest)]
        if node.type == "duration":
            ends = [self.emit(f"{end} / {self.real(1e6)}", end) for end in ends]
        self._finite.update(ends)
        return Reals(ends[0], ends[1], x.null, x.some, clean=True)

    def _whole(self, node: Node) -> Wholes:
        """``node`` where an integer of its own kind is needed."""
        x = self.interval(node)
        if isinstance(x, Reals):  # the literal null
            return Wholes(self.max, self.min, TRUE, FALSE)
        assert isinstance(x, Wholes), node
        return x

    def _truth(self, node: Node) -> Truths:
        x = self.interval(node)
        if isinstance(x, Reals):  # the literal null
            return Truths(FALSE, FALSE, TRUE)
        assert isinstance(x, Truths), node
        return x

    # ------------------------------------------------------------------ conditions

    def _not(self, x: Truths) -> Truths:
        return Truths(x.false, x.true, x.null)

    def _or(self, x: Truths, y: Truths) -> Truths:
        return self._not(self._and(self._not(x), self._not(y)))

    def _and(self, x: Truths, y: Truths) -> Truths:
        null = self.any((
            self.both(x.null, self._either(y.true, y.null)),
            self.both(y.null, self._either(x.true, x.null)),
        ))  # fmt: skip
        return Truths(self.both(x.true, y.true), self._either(x.false, y.false), null)

    def _compare(self, op: str, x: Node, y: Node) -> Truths:
        if x.type == "bool":
            p, q = self._truth(x), self._truth(y)
            same = self._either(self.both(p.true, q.true), self.both(p.false, q.false))
            differ = self._either(self.both(p.true, q.false), self.both(p.false, q.true))
            result = Truths(same, differ, self._either(p.null, q.null))
            return result if op == "=" else self._not(result)
        if x.type == y.type and x.type != "float":
            return self._compare_ends(op, self._whole(x), self._whole(y))
        return self._compare_ends(op, self._real(x), self._real(y))

    def _compare_ends(self, op: str, x: Reals | Wholes, y: Reals | Wholes) -> Truths:
        if op in (">", ">="):
            return self._compare_ends("<" if op == ">" else "<=", y, x)
        if op == "<":  # true if the least x is below the greatest y; false if some x reaches some y
            true, false = self._may(x.least, "<", y.greatest), self._may(y.least, "<=", x.greatest)
        elif op == "<=":
            true, false = self._may(x.least, "<=", y.greatest), self._may(y.least, "<", x.greatest)
        else:  # equal if the intervals meet; different unless both are one and the same value
            true = self.both(self._may(x.least, "<=", y.greatest), self._may(y.least, "<=", x.greatest))
            false = self._either(self._may(x.least, "<", y.greatest), self._may(y.least, "<", x.greatest))
        some = self.both(x.some, y.some)
        result = Truths(self.both(true, some), self.both(false, some), self._either(x.null, y.null))
        return self._not(result) if op == "<>" else result

    def _may(self, least: str, op: str, greatest: str) -> str:
        """Return the flag of a comparison between ends; those of unknown values decide nothing."""
        return TRUE if least in (self.low, self.min) or greatest in (self.high, self.max) else self.test(least, op, greatest)

    # ------------------------------------------------------------------ operators

    def _unary(self, node: Unary) -> Interval:
        if node.op == "not":
            return self._not(self._truth(node.x))
        if node.type == "duration":
            zero = self.integer(0)
            return self._difference(Wholes(zero, zero, FALSE, TRUE), self._whole(node.x))
        return self.negation(self._real(node.x))

    def _binary(self, node: Binary) -> Interval:
        if node.op in ("and", "or"):
            return (self._and if node.op == "and" else self._or)(self._truth(node.x), self._truth(node.y))
        if node.type == "bool":
            return self._compare(node.op, node.x, node.y)
        same = node.op in "-*/" and node.x == node.y
        if node.type in ("time", "duration"):
            v, w = self._whole(node.x), self._whole(node.y)
            if same and node.op == "-":
                return replace(v, least=self.integer(0), greatest=self.integer(0))
            return self._difference(v, w) if node.op == "-" else self._sum(v, w)
        x, y = self._real(node.x), self._real(node.y)
        if same and node.op != "*":  # a value from itself, or over itself: 0 or 1, or null
            undefined = self.any((x.null, self.has_infinity(x), self.has_zero(x) if node.op == "/" else FALSE))
            return replace(self.number(0.0 if node.op == "-" else 1.0), null=undefined, some=x.some)
        if node.op == "*":
            return self.square(x) if same else self.product(x, y)
        if node.op == "/":
            return self.quotient(x, y)
        return self.sum(x, y) if node.op == "+" else replace(self.sum(x, self.negation(y)), clean=x.clean)

    def _sum(self, x: Wholes, y: Wholes) -> Wholes:
        return self._wrapping("+", x, y, (y.least, y.greatest))

    def _difference(self, x: Wholes, y: Wholes) -> Wholes:
        return self._wrapping("-", x, y, (y.greatest, y.least))

    def _wrapping(self, op: str, x: Wholes, y: Wholes, ends: tuple[str, str]) -> Wholes:
        """``x op y`` in int64: anything if an end is beyond its range, as results wrap around."""
        results, beyond = [], []
        for p, q in zip((x.least, x.greatest), ends, strict=True):
            result = self.emit(self.spelling.wrapping.format(p, op, q), p, q)
            # the sign bit says it: operands of one sign (of two, for a difference) gave the other
            signs = f"({p} ^ {result}) & ({q} ^ {result})" if op == "+" else f"({p} ^ {q}) & ({p} ^ {result})"
            beyond.append(self.test(self.emit(signs, p, q, result), "<", self.integer(0)))
            results.append(result)
        wraps = self.any(beyond)
        least, greatest = self.select(wraps, self.min, results[0]), self.select(wraps, self.max, results[1])
        return Wholes(least, greatest, self._either(x.null, y.null), self.both(x.some, y.some))

    # ------------------------------------------------------------------ functions

    def _function(self, node: Call) -> Interval:
        if node.fn == "where":
            condition = self._truth(node.args[0])
            flags = (condition.true, self._either(condition.false, condition.null))
            return self._choice(node, [*zip(flags, node.args[1:], strict=True)])
        if node.type in ("time", "duration") and node.fn in ("abs", "min", "max"):
            return self._function_whole(node.fn, [self._whole(a) for a in node.args])
        if node.fn in ("min", "max"):
            return self.extreme(node.fn, [self._real(a) for a in node.args])
        if node.fn == "pow":
            return self.power(self._real(node.args[0]), self._real(node.args[1]))
        rules: Mapping[str, Callable[[Reals], Reals]] = {
            "abs": self.absolute, "sqrt": self.square_root, "floor": self.floor, "exp": self.exponential, "log": self.logarithm,
        }  # fmt: skip
        if node.fn in rules:
            return rules[node.fn](self._real(node.args[0]))
        return RULES[node.fn](self, *map(self._real, node.args)) if node.fn in RULES else self._unknown(node)

    def _function_whole(self, fn: str, xs: list[Wholes]) -> Wholes:
        if fn != "abs":
            choose = self.more if fn == "max" else self.less
            return Wholes(
                reduce(choose, [x.least for x in xs]),
                reduce(choose, [x.greatest for x in xs]),
                self.any(x.null for x in xs),
                self.all(x.some for x in xs),
            )
        (x,) = xs
        zero = self.integer(0)
        mirrored = self._difference(Wholes(zero, zero, FALSE, TRUE), x)  # anything if it has the least int64, whose abs is itself
        wraps = self.test(x.least, "==", self.min)
        least = self.select(wraps, self.min, self.more(mirrored.least, self.more(x.least, zero)))
        return replace(x, least=least, greatest=self.select(wraps, self.max, self.more(mirrored.greatest, x.greatest)))

    def _choice(self, node: Node, cases: list[tuple[str, Node]]) -> Interval:
        """Return the value of one of several nodes, each with the flag that it may be the one."""
        if node.type == "bool":
            conditions = [(flag, self._truth(x)) for flag, x in cases]
            return Truths(
                self.any(self.both(flag, x.true) for flag, x in conditions),
                self.any(self.both(flag, x.false) for flag, x in conditions),
                self.any(self.both(flag, x.null) for flag, x in conditions),
            )
        if node.type not in ("text", "time", "duration"):
            return self.choice([(flag, self._real(x)) for flag, x in cases])
        least, greatest, null, some = [], [], [], []
        for flag, w in ((flag, self._whole(x)) for flag, x in cases):
            taken = self.both(flag, w.some)
            least.append(self.select(taken, w.least, self.max))
            greatest.append(self.select(taken, w.greatest, self.min))
            null.append(self.both(flag, w.null))
            some.append(taken)
        return Wholes(reduce(self.less, least), reduce(self.more, greatest), self.any(null), self.any(some))


KINDS = ("bound", "row_bound")
MOST = 300
"""Nodes of an expression that has bounds. Compiling takes 10 to 20 milliseconds per node."""


def _lower(program: Program, spelling: Spelling) -> tuple[Intervals, str, str, list[str]]:
    """Return the statements, the variables of the least score and of "there may be a candidate", and the slices the statements read."""
    slices: dict[str, str] = {}

    def column(attr: Attr) -> tuple[tuple[str, str, str], bool] | None:
        letter, names = ("f", program.float_names) if attr.type == "float" else ("i", program.int_names)
        if attr.name not in names:
            return None
        first, varies = 3 * names.index(attr.name), attr.side == program.column_side

        def end(row: int) -> str:
            if not varies:
                return f"x{letter}[{row}]" if spelling.loop else f"x{letter}[{row}:{row + 1}]"
            name = f"{letter}{row}"
            slices[name] = f"{name} = {letter}boxes[{row}, lo:hi]"
            return f"{name}[i]" if spelling.loop else f"{name}[:]"

        return (end(first), end(first + 1), end(first + 2)), varies

    lowering = Intervals(spelling, column, dict(program.texts))
    score, where = (None if n is None or _size(n) > MOST else n for n in (program.score, program.where))
    candidate = lowering.predicate(where)
    least, some = (lowering.low, TRUE) if score is None and program.score is not None else lowering.score(score, program.negate)
    return lowering, least, lowering.all((candidate, some)), list(slices.values())


def _size(node: Node) -> int:
    return sum(1 for _ in walk(node))


def trivial(program: Program) -> bool:
    """Return True if the bound of a kernel never says anything: it is the same for all boxes that have values. O(size)."""
    lowering, least, candidate, _ = _lower(program, NUMPY)
    return not lowering.depends(least, candidate)


def numba_source(program: Program, kind: str) -> str:
    """Return a module with the loop of ``kind``, "bound" or "row_bound"."""
    lowering, least, candidate, slices = _lower(program, NUMBA)
    least = lowering.less(least, lowering.real(sys.float_info.max))  # inf means that there is no candidate
    known = {TRUE: f"{least} + 0.0", FALSE: "inf"}
    before, inside = lowering.statements(least, candidate)
    result = known.get(candidate, f"{least} + 0.0 if {candidate} != 0 else inf")  # adding 0.0 turns -0.0 into 0.0
    return numba_module(kind, [*slices, *before], [*inside, f"out[i] = {result}"], [])


def numpy_source(program: Program, kind: str) -> str:
    """Return the same function over whole arrays."""
    lowering, least, candidate, slices = _lower(program, NUMPY)
    least = lowering.less(least, lowering.real(sys.float_info.max))
    known = {TRUE: f"{least} + 0.0", FALSE: "inf"}
    result = known.get(candidate, f"np.where({candidate}, {least} + 0.0, inf)")
    before, inside = lowering.statements(least, candidate)
    return numpy_module(kind, [*slices, *before, *inside, f"out[0 : max(hi - lo, 0)] = {result}"])
