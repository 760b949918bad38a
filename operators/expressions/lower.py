"""Typed tree -> straight-line code: one set of rules, spelled for a Numba loop or for NumPy arrays.

Every value is one of
* a float: null is NaN;
* an integer (int, text code, time, duration) with a flag "is not null"; arithmetic wraps like int64;
* a condition: two flags, "is true" and "is false"; null is neither (SQL's three-valued logic, branch free).

Statements are kept once however often they occur, and those that do not depend on the column side run before the loop.
Both spellings round alike: every float operation is one IEEE operation (no contraction, no reassociation), and ``exp log pow sin cos tan
asin atan2`` are the C library's. Remainders are exact, so that NumPy's are the C library's too. Only numbers and generated names
reach the code, never text of the user's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from skyband.operators.base import NULL
from skyband.operators.expressions.ast import Attr, Binary, Call, In, IsNull, Literal_, Node, Type, Unary
from skyband.operators.expressions.formulas import FORMULAS
from skyband.operators.expressions.leaves import compared, evaluated, leaf, limit_of
from skyband.operators.expressions.spellings import Spelling
from skyband.operators.expressions.vectors import VECTOR_FUNCTIONS, vector_function
from skyband.operators.set_index.functions import SIMILARITIES

TRUE, FALSE = "1", "0"
"""Flags known while generating; they never reach the code."""


@dataclass(frozen=True, slots=True)
class Real:
    """A float64."""

    code: str


@dataclass(frozen=True, slots=True)
class Whole:
    """An int64 and whether it is not null."""

    code: str
    valid: str


@dataclass(frozen=True, slots=True)
class Truth:
    """A condition: whether it is true, whether it is false."""

    true: str
    false: str


Value: TypeAlias = Real | Whole | Truth


_FUNCTIONS_OF_SETS: tuple[str, ...] = SIMILARITIES


@dataclass
class Statements:
    """Straight-line code in one spelling."""

    spelling: Spelling
    _statements: dict[str, tuple[str, tuple[str, ...]]] = field(default_factory=dict, init=False)
    _known: dict[str, str] = field(default_factory=dict, init=False)
    _varying: set[str] = field(default_factory=set, init=False)

    def emit(self, code: str, *operands: str) -> str:
        """Return the variable that holds ``code``, computed from the variables ``operands``."""
        if code not in self._known:
            name = f"v{len(self._known)}"
            self._statements[name] = (code, operands)
            if not self._varying.isdisjoint(operands):
                self._varying.add(name)
            self._known[code] = name
        return self._known[code]

    def real(self, value: float) -> str:
        """Return the code of a float, which may be NaN."""
        return self.spelling.nan if value != value else self.spelling.real.format(value)

    def statements(self, *results: str) -> tuple[list[str], list[str]]:
        """Return the statements that ``results`` need: those to run once, and those of the loop."""
        needed = set(results)
        for name in reversed(self._statements):
            if name in needed:
                needed.update(self._statements[name][1])
        before: list[str] = []
        inside: list[str] = []
        for name, (code, _) in self._statements.items():
            if name in needed:
                (inside if name in self._varying else before).append(f"{name} = {code}")
        return before, inside

    def test(self, x: str, op: str, y: str) -> str:
        """Return the flag of a comparison."""
        return self.emit(self.spelling.test.format(x, op, y), x, y)

    def both(self, x: str, y: str) -> str:
        """Return the flag "x and y"."""
        if FALSE in (x, y):
            return FALSE
        if x in (TRUE, y):
            return y
        return x if y == TRUE else self.emit(f"{x} & {y}", x, y)

    def _either(self, x: str, y: str) -> str:
        if TRUE in (x, y):
            return TRUE
        if x in (FALSE, y):
            return y
        return x if y == FALSE else self.emit(f"{x} | {y}", x, y)

    def _inverse(self, x: str) -> str:
        if x in (TRUE, FALSE):
            return FALSE if x == TRUE else TRUE
        return self.emit(self.spelling.inverse.format(x), x)

    def select(self, flag: str, x: str, y: str) -> str:
        """Return the variable that holds x where the flag is set, else y."""
        if flag in (TRUE, FALSE) or x == y:
            return x if flag == TRUE or x == y else y
        return self.emit(self.spelling.select.format(flag, x, y), flag, x, y)

    def call(self, fn: str, *args: str) -> str:
        """Return the variable that holds the result of a function that the spelling knows."""
        return self.emit(f"{self.spelling.functions[fn]}({', '.join(args)})", *args)


@dataclass
class Lowering(Statements):
    """``column(attr)`` gives the code of an attribute and whether it is of the column side; ``texts`` the codes of text constants.

    ``sums(function, x, y)`` gives the same of a sum over the dimensions of two vectors, ``function`` being "dot" or "squares".
    """

    column: Callable[[Attr], tuple[str, bool]]
    texts: Mapping[str, int]
    sums: Callable[[str, Attr, Attr], tuple[str, bool]]
    _nodes: dict[int, Value] = field(default_factory=dict, init=False)

    # ------------------------------------------------------------------ values

    def value(self, node: Node) -> Value:
        """Code for ``node``."""
        if id(node) not in self._nodes:
            self._nodes[id(node)] = self._value(node)
        return self._nodes[id(node)]

    def _value(self, node: Node) -> Value:
        if isinstance(node, Literal_):
            return self._literal(node)
        attribute = leaf(node)
        if attribute is not None:
            return self._attribute(attribute)
        pair = compared(node)
        if pair is not None:
            assert isinstance(node, Call)
            return self._compared(node, *pair)
        if isinstance(node, Unary):
            return self._unary(node)
        if isinstance(node, Binary):
            return self._binary(node)
        if isinstance(node, Call):
            return self._function(node)
        if isinstance(node, IsNull):
            x = self.value(node.x)
            if isinstance(x, Truth):
                there = self._either(x.true, x.false)
            else:
                there = x.valid if isinstance(x, Whole) else self.test(x.code, "==", x.code)
            missing = self._inverse(there)
            return Truth(there, missing) if node.negated else Truth(missing, there)
        if isinstance(node, In):
            found = [self._compare("=", node.x, option) for option in node.options]
            result = found[0]
            for other in found[1:]:
                result = Truth(self._either(result.true, other.true), self.both(result.false, other.false))
            return Truth(result.false, result.true) if node.negated else result
        raise TypeError(f"not an expression: {node!r}")

    def _literal(self, node: Literal_) -> Value:
        if node.value is None:
            return Real(self.spelling.nan)
        if isinstance(node.value, bool):
            return Truth(TRUE, FALSE) if node.value else Truth(FALSE, TRUE)
        if isinstance(node.value, str):
            if node.value not in self.texts:
                raise ValueError(f"the text constant {node.value!r} has no code")
            return Whole(self.spelling.whole.format(int(self.texts[node.value])), TRUE)
        if isinstance(node.value, float):
            return Real(self.spelling.real.format(float(node.value)))
        return Whole(self.spelling.whole.format(node.value), TRUE)

    def _attribute(self, node: Attr) -> Value:
        name = self._read(node)
        if node.type in ("float", "vector"):  # the first number of a vector stands for it: if one is null, all are
            return Real(name)
        if node.type == "bool":
            return Truth(self.test(name, "==", self.spelling.whole.format(1)), self.test(name, "==", self.spelling.whole.format(0)))
        return Whole(name, self.test(name, "!=", self.spelling.whole.format(NULL)))

    def _read(self, node: Attr) -> str:
        return self.take(*self.column(node))

    def take(self, code: str, varies: bool) -> str:
        """Return the variable that holds ``code``, which reads the column side if it ``varies``."""
        name = self.emit(code)
        if varies:
            self._varying.add(name)
        return name

    def _compared(self, node: Call, x: Attr, y: Attr) -> Value:
        """Return a function of the texts or sets that two objects have in the pool."""
        v, w = self._read(x), self._read(y)
        if node.fn != "edit_distance":
            return Real(self.emit(f"set_similarity({_FUNCTIONS_OF_SETS.index(node.fn)}, pool, {v}, {w})", v, w))
        own, other = (w, v) if v in self._varying else (v, w)
        pattern = self.emit(f"text_pattern(pool, {own})", own)
        found = self.emit(f"edit_distance({pattern}, pool, {other}, {limit_of(node)})", pattern, other)
        return Whole(found, self.test(found, "!=", self.spelling.whole.format(NULL)))

    def _real(self, node: Node) -> str:
        """``node`` where a float is needed."""
        x = self.value(node)
        if isinstance(x, Real):
            return x.code
        assert isinstance(x, Whole), node
        if isinstance(node, Literal_):
            return self.spelling.real.format(float(int(node.value or 0)) / 1e6 if node.type == "duration" else float(int(node.value or 0)))
        number = self.emit(self.spelling.as_float.format(x.code), x.code)
        if node.type == "duration":
            number = self.emit(f"{number} / {self.spelling.real.format(1e6)}", number)
        return self.select(x.valid, number, self.spelling.nan)

    def _whole(self, node: Node) -> Whole:
        """``node`` where an integer of its own kind is needed."""
        x = self.value(node)
        if isinstance(x, Real):  # the literal null
            return Whole(self.spelling.whole.format(0), FALSE)
        assert isinstance(x, Whole), node
        return x

    def _truth(self, node: Node) -> Truth:
        x = self.value(node)
        if isinstance(x, Real):  # the literal null
            return Truth(FALSE, FALSE)
        assert isinstance(x, Truth), node
        return x

    def _unary(self, node: Unary) -> Value:
        if node.op == "not":
            x = self._truth(node.x)
            return Truth(x.false, x.true)
        if node.type == "duration":
            w = self._whole(node.x)
            zero = self.spelling.whole.format(0)
            return Whole(self.emit(self.spelling.wrapping.format(zero, "-", w.code), w.code), w.valid)
        code = self._real(node.x)
        return Real(self.emit(f"-{code}", code))

    def _binary(self, node: Binary) -> Value:
        if node.op in ("and", "or"):
            p, q = self._truth(node.x), self._truth(node.y)
            if node.op == "and":
                return Truth(self.both(p.true, q.true), self._either(p.false, q.false))
            return Truth(self._either(p.true, q.true), self.both(p.false, q.false))
        if node.type == "bool":
            return self._compare(node.op, node.x, node.y)
        if node.type in ("time", "duration"):
            v, w = self._whole(node.x), self._whole(node.y)
            return Whole(self.emit(self.spelling.wrapping.format(v.code, node.op, w.code), v.code, w.code), self.both(v.valid, w.valid))
        x, y = self._real(node.x), self._real(node.y)
        return Real(self.emit(f"{x} {node.op} {y}", x, y))

    def _compare(self, op: str, x: Node, y: Node) -> Truth:
        if x.type == "bool":
            p, q = self._truth(x), self._truth(y)
            same = self._either(self.both(p.true, q.true), self.both(p.false, q.false))
            differ = self._either(self.both(p.true, q.false), self.both(p.false, q.true))
            return Truth(same, differ) if op == "=" else Truth(differ, same)
        if x.type == y.type and x.type != "float":
            return self._compare_whole(op, self._whole(x), self._whole(y))
        return self._compare_real(op, self._real(x), self._real(y))

    def _compare_whole(self, op: str, x: Whole, y: Whole) -> Truth:
        spelled = {"=": ("==", "!="), "<>": ("!=", "=="), "<": ("<", ">="), "<=": ("<=", ">"), ">": (">", "<="), ">=": (">=", "<")}
        yes, no = spelled[op]
        valid = self.both(x.valid, y.valid)
        return Truth(self.both(self.test(x.code, yes, y.code), valid), self.both(self.test(x.code, no, y.code), valid))

    def _compare_real(self, op: str, x: str, y: str) -> Truth:
        if op in ("=", "<>"):  # NaN is null: neither equal nor different
            same = self.test(x, "==", y)
            differ = self._either(self.test(x, "<", y), self.test(x, ">", y))
            return Truth(same, differ) if op == "=" else Truth(differ, same)
        no = {"<": ">=", "<=": ">", ">": "<=", ">=": "<"}[op]
        return Truth(self.test(x, op, y), self.test(x, no, y))

    # ------------------------------------------------------------------ functions

    def _function(self, node: Call) -> Value:
        if node.fn in VECTOR_FUNCTIONS:
            return Real(vector_function(self, node.fn, *node.args))
        if node.fn == "where":
            return self._where(self._truth(node.args[0]).true, node.args[1], node.args[2], node.type)
        if node.type in ("time", "duration"):
            wholes = [self._whole(a) for a in node.args]
            result = wholes[0]
            if node.fn == "abs":
                return Whole(self.call("abs", result.code), result.valid)
            for w in wholes[1:]:
                flag = self.test(result.code, "<" if node.fn == "min" else ">", w.code)
                result = Whole(self.select(flag, result.code, w.code), self.both(result.valid, w.valid))
            return result
        reals = [self._real(a) for a in node.args]
        if node.fn in ("min", "max"):
            best = reals[0]
            for other in reals[1:]:  # compare and select: the one NaN-propagating form that both paths do alike
                flag = self._either(self.test(best, "<" if node.fn == "min" else ">", other), self.test(best, "!=", best))
                best = self.select(flag, best, other)
            return Real(best)
        if node.fn in FORMULAS:
            return Real(FORMULAS[node.fn](self, *reals))
        result_code = self.call(node.fn, *reals)
        if node.fn == "pow":  # pow(1, NaN) and pow(NaN, 0) are 1 in C, but null here
            there = self.both(self.test(reals[0], "==", reals[0]), self.test(reals[1], "==", reals[1]))
            result_code = self.select(there, result_code, self.spelling.nan)
            exponent = node.args[1]
            if not (isinstance(exponent, Literal_) and isinstance(exponent.value, int)):  # pow(-inf, 2.5) is inf in C
                broken = self.test(self.call("floor", reals[1]), "!=", reals[1])
                below = self.test(reals[0], "<", self.real(0.0))
                result_code = self.select(self.both(below, broken), self.spelling.nan, result_code)
        return Real(result_code)

    def _where(self, flag: str, x: Node, y: Node, type_: Type) -> Value:
        if type_ == "bool":
            p, q, other = self._truth(x), self._truth(y), self._inverse(flag)
            return Truth(
                self._either(self.both(flag, p.true), self.both(other, q.true)),
                self._either(self.both(flag, p.false), self.both(other, q.false)),
            )
        if type_ in ("float", "int", "null"):
            return Real(self.select(flag, self._real(x), self._real(y)))
        v, w = self._whole(x), self._whole(y)
        valid = self._either(self.both(flag, v.valid), self.both(self._inverse(flag), w.valid))
        return Whole(self.select(flag, v.code, w.code), valid)

    # ------------------------------------------------------------------ results

    def score(self, node: Node | None, negate: bool) -> str:
        """Return the float of a score, negated for direction max; 0.0 for no score."""
        if node is None:
            return self.emit(self.spelling.real.format(0.0))
        self._bottom_up(node)
        code = self._real(node)
        return self.emit(f"-{code}", code) if negate else code

    def predicate(self, node: Node | None) -> str:
        """Return the flag "is true" of a predicate; set for no predicate."""
        if node is None:
            return TRUE
        self._bottom_up(node)
        return self._truth(node).true

    def _bottom_up(self, node: Node) -> None:
        """Operands first, so that the recursion of ``value`` stays shallow."""
        for part in reversed([*evaluated(node)]):
            self.value(part)
