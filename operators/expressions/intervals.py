"""Typed tree -> the interval of its values: straight-line code over boxes, in the style of ``lower`` (docs/algorithms D8).

A node that these rules do not know may be anything, or null: sound, and of no use.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Final

from skyband.operators.expressions.ast import Attr, Binary, Call, In, IsNull, Literal_, Node, Unary
from skyband.operators.expressions.interval_arithmetic import Arithmetic, Interval, Reals, Truths, Wholes
from skyband.operators.expressions.interval_functions import RULES
from skyband.operators.expressions.leaves import NO_LIMIT, compared, evaluated, leaf, limit_of
from skyband.operators.expressions.lower import FALSE, TRUE

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
        """The least internal score, and the flag that there may be one; 0.0 for no score."""
        if node is None:
            return self.zero, TRUE
        self._bottom_up(node)
        x = self.negation(self._real(node)) if negate else self._real(node)
        return x.least, x.some

    def predicate(self, node: Node | None) -> str:
        """The flag "may be true" of a predicate; set for no predicate."""
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
        """The interval of ``node``."""
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
        code = self.whole(int(self.texts[node.value] if isinstance(node.value, str) else node.value))
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
        null = self.test(null, "!=", self.zero if node.type == "float" else self.whole(0))
        if node.type == "bool":
            return Truths(self.test(greatest, ">=", self.whole(1)), self.test(least, "<=", self.whole(0)), null)
        some = self.test(least, "<=", greatest)
        self.present.add(some)
        return Reals(least, greatest, null, some) if node.type == "float" else Wholes(least, greatest, null, some)

    def _compared(self, node: Call) -> Interval:
        """The range of a function of two objects' texts or sets: boxes hold no texts."""
        if node.fn == "edit_distance":
            limit = limit_of(node)
            return Wholes(self.whole(0), self.max if limit == NO_LIMIT else self.whole(limit), TRUE, TRUE)
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
        """The flag of a comparison between ends; those of unknown values decide nothing."""
        return TRUE if least in (self.low, self.min) or greatest in (self.high, self.max) else self.test(least, op, greatest)

    # ------------------------------------------------------------------ operators

    def _unary(self, node: Unary) -> Interval:
        if node.op == "not":
            return self._not(self._truth(node.x))
        if node.type == "duration":
            zero = self.whole(0)
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
                return replace(v, least=self.whole(0), greatest=self.whole(0))
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
            beyond.append(self.test(self.emit(signs, p, q, result), "<", self.whole(0)))
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
        zero = self.whole(0)
        mirrored = self._difference(Wholes(zero, zero, FALSE, TRUE), x)  # anything if it has the least int64, whose abs is itself
        wraps = self.test(x.least, "==", self.min)
        least = self.select(wraps, self.min, self.more(mirrored.least, self.more(x.least, zero)))
        return replace(x, least=least, greatest=self.select(wraps, self.max, self.more(mirrored.greatest, x.greatest)))

    def _choice(self, node: Node, cases: list[tuple[str, Node]]) -> Interval:
        """The value of one of several nodes, each with the flag that it may be the one."""
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
