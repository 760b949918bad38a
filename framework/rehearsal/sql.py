"""Spark SQL over single rows without Spark: of the language, what has one plain meaning, and nothing else.

An expression becomes a function of a row, made of Spark's own rules (not ANSI, as Skyband's session is): whole numbers wrap, a division by
zero is null, NaN equals itself and is the largest, texts compare by their UTF-8 bytes. What is not here raises SKY-E531, by its name: it
is not guessed at. A test holds every rule against Spark.

Values of a row: instants are microseconds since 1970, dates days, fractions with a point in SQL are decimals until they meet a double.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any, Final, NamedTuple

from sqlglot import exp

from skyband.framework.base.errors import SkybandError
from skyband.framework.rehearsal.sql_functions import FUNCTIONS, casting, wrap
from skyband.framework.rehearsal.sql_instants import Unclear
from skyband.framework.spec.expressions.column_names import Columns
from skyband.framework.spec.expressions.sql import tree

Row = Mapping[str, Any]
Value = Callable[[Row], Any]
"""Evaluates an expression for a row; None is null."""


class Typed(NamedTuple):
    """An expression: ``type`` is that of a spec, or ``null`` or ``decimal`` (a number with a point)."""

    type: str
    value: Value


_WHOLE: Final = frozenset({"int", "bigint"})
_COMPARED: Final = frozenset({"string", "boolean", "timestamp", "date"})
_UNITS: Final = {"SECOND": 1_000_000, "MINUTE": 60_000_000, "HOUR": 3_600_000_000, "DAY": 86_400_000_000, "WEEK": 604_800_000_000}


def expression(sql: str, types: Mapping[str, str], to: str | None = None, what: str = "SQL") -> Value:
    """The function of ``sql`` over columns ``types``, its value cast to the type ``to``. ``what``: where it stands, for messages.

    SkybandError SKY-E531 if something of it is not evaluated without Spark.
    """
    try:
        found = _Compiler(Columns(types)).of(tree(sql))
        value = found.value if to is None else casting(found.type, to, found.value)
    except Unclear as e:
        raise needs_spark(what, str(e)) from None

    def evaluated(row: Row) -> Any:
        try:
            return value(row)
        except Unclear as e:  # of this row's values
            raise needs_spark(what, str(e)) from None

    return evaluated


def condition(sql: str, types: Mapping[str, str], what: str) -> Callable[[Row], bool | None]:
    """Do as ``expression`` for a predicate: true, false or null."""
    return expression(sql, types, "boolean", what)


def needs_spark(what: str, why: str) -> SkybandError:
    """Return the error SKY-E531."""
    hint = "Spark evaluates it: --engine of skyband test and preview, or skyband run"
    return SkybandError("SKY-E531", f"{what} uses {why}, which is not evaluated without Spark", hint=hint)


class _Compiler:
    def __init__(self, columns: Columns) -> None:
        self.columns = columns

    def of(self, node: Any) -> Typed:
        """Compile a node. Raise Unclear with its name if its result may differ from Spark's."""
        for kind, method in _RULES:
            if isinstance(node, kind):
                return method(self, node)
        known = FUNCTIONS.get(str(node.this).lower() if isinstance(node, exp.Anonymous) else type(node).__name__)
        arguments = _PARTS if isinstance(node, exp.TimestampFromParts) else _ARGUMENTS
        if known is None or any(value and name not in arguments for name, value in node.args.items()):
            raise Unclear(node.sql(dialect="spark")[:80])
        given = [node.args.get(a) for a in _PARTS] if arguments is _PARTS else [node.this, node.args.get("expression"), *node.expressions]
        parts = [self.of(p) for p in given if isinstance(p, exp.Expression)]
        return Typed(*known([(p.type, p.value) for p in parts], node))

    def column(self, node: Any) -> Typed:
        name = self.columns.spelled(node.name)
        if name is None or node.table:
            raise Unclear(node.sql(dialect="spark"))
        type_ = self.columns[name] or "unknown"
        return Typed(type_, lambda row: row[name])

    def literal(self, node: Any) -> Typed:
        text = str(node.this)
        if node.is_string:
            if "\\" in text:
                raise Unclear("a text with a backslash")
            return Typed("string", lambda row: text)
        if text.isdigit():
            number = int(text)
            if number >= 2**63:
                raise Unclear(f"the number {text}")
            return Typed("int" if number < 2**31 else "bigint", lambda row: number)
        value = float(text) if "e" in text.lower() else Decimal(text)
        return Typed("double" if isinstance(value, float) else "decimal", lambda row: value)

    def negated(self, node: Any) -> Typed:
        type_, value = self.of(node.this)
        if type_ not in {"int", "bigint", "double", "decimal"}:
            raise Unclear(f"- of {type_}")
        return Typed(type_, lambda row: None if (v := value(row)) is None else wrap(-v, type_))

    def arithmetic(self, node: Any) -> Typed:
        if isinstance(node.expression.unnest(), exp.Interval):
            return self.moved(node)
        left, right = self.of(node.this), self.of(node.expression)
        type_ = _number(left.type, right.type)
        if isinstance(node, exp.Div) and type_ in _WHOLE:
            type_ = "double"
        function = _ARITHMETIC[type(node)]
        x, y = _as(left, type_), _as(right, type_)

        def value(row: Row) -> Any:
            a, b = x(row), y(row)
            found = None if a is None or b is None else function(a, b)
            return None if found is None else wrap(found, type_)

        return Typed(type_, value)

    def moved(self, node: Any) -> Typed:
        """Compile the sum of an instant and an interval of fixed length."""
        at, span = self.of(node.this), node.expression.unnest()
        unit = _UNITS.get(str(span.args.get("unit") or "").upper().rstrip("S"))
        amount = str(getattr(span.this, "this", ""))
        if at.type != "timestamp" or unit is None or not amount.isdigit() or not isinstance(node, exp.Add | exp.Sub):
            raise Unclear(node.sql(dialect="spark")[:80])
        micros = int(amount) * unit * (-1 if isinstance(node, exp.Sub) else 1)
        return Typed("timestamp", lambda row: None if (v := at.value(row)) is None else v + micros)

    def compared(self, node: Any) -> Typed:
        return self.comparison(type(node), self.of(node.this), self.of(node.expression))

    def comparison(self, kind: Any, left: Typed, right: Typed) -> Typed:
        x, y = _comparable(left, right)
        test = _COMPARISONS[kind]

        def value(row: Row) -> Any:
            a, b = x(row), y(row)
            return None if a is None or b is None else test(_ordered(a), _ordered(b))

        return Typed("boolean", value)

    def same(self, node: Any) -> Typed:
        """Compile ``<=>``: null equals null."""
        x, y = _comparable(self.of(node.this), self.of(node.expression))

        def value(row: Row) -> bool:
            a, b = x(row), y(row)
            return a is b if a is None or b is None else bool(_ordered(a) == _ordered(b))

        return Typed("boolean", value)

    def is_(self, node: Any) -> Typed:
        value = self.of(node.this).value
        if isinstance(node.expression, exp.Null):
            return Typed("boolean", lambda row: value(row) is None)
        if isinstance(node.expression, exp.Boolean):
            wanted = bool(node.expression.this)
            return Typed("boolean", lambda row: value(row) is wanted)
        raise Unclear(node.sql(dialect="spark")[:80])

    def not_(self, node: Any) -> Typed:
        value = self.truth(node.this)
        return Typed("boolean", lambda row: None if (v := value(row)) is None else not v)

    def both(self, node: Any) -> Typed:
        x, y = self.truth(node.this), self.truth(node.expression)
        return Typed("boolean", _all(x, y))

    def either(self, node: Any) -> Typed:
        x, y = self.truth(node.this), self.truth(node.expression)

        def value(row: Row) -> bool | None:
            a = x(row)
            if a is True:
                return True
            b = y(row)
            return True if b is True else None if a is None or b is None else False

        return Typed("boolean", value)

    def truth(self, node: Any) -> Value:
        found = self.of(node)
        if found.type not in {"boolean", "null"}:
            raise Unclear(f"{found.type} where a condition is needed")
        return found.value

    def in_(self, node: Any) -> Typed:
        if node.args.get("query") is not None or node.args.get("unnest") is not None or not node.expressions:
            raise Unclear(node.sql(dialect="spark")[:80])
        left = self.of(node.this)
        options = [self.of(o) for o in node.expressions]
        types = {left.type, *(o.type for o in options)}
        # Spark makes one type of all first; one after another is the same only where nothing is lost by that.
        if left.type != "double" and "double" in types and types & {"decimal", "bigint"}:
            raise Unclear("in over numbers of different types")
        tests = [self.comparison(exp.EQ, left, o).value for o in options]

        def value(row: Row) -> bool | None:
            found = [t(row) for t in tests]
            return True if True in found else None if None in found else False

        return Typed("boolean", value)

    def between(self, node: Any) -> Typed:
        middle = self.of(node.this)
        low = self.comparison(exp.GTE, middle, self.of(node.args["low"])).value
        high = self.comparison(exp.LTE, middle, self.of(node.args["high"])).value
        return Typed("boolean", _all(low, high))

    def case(self, node: Any) -> Typed:
        subject = None if node.this is None else self.of(node.this)
        tests = []
        for branch in node.args["ifs"]:
            if subject is None:
                tests.append(self.truth(branch.this))
            else:
                tests.append(self.comparison(exp.EQ, subject, self.of(branch.this)).value)
        return _chosen(tests, [*(self.of(b.args["true"]) for b in node.args["ifs"]), self.default(node.args.get("default"))])

    def if_(self, node: Any) -> Typed:
        return _chosen([self.truth(node.this)], [self.of(node.args["true"]), self.default(node.args.get("false"))])

    def default(self, node: Any) -> Typed:
        return _NULL if node is None else self.of(node)

    def coalesce(self, node: Any) -> Typed:
        values = [self.of(n) for n in (node.this, *node.expressions)]
        type_ = _together([v.type for v in values])
        made = [_as(v, type_) for v in values]
        return Typed(type_, lambda row: next((v for m in made if (v := m(row)) is not None), None))

    def cast(self, node: Any) -> Typed:
        found, to = self.of(node.this), _TYPES.get(node.to.this.name)
        if to is None or node.args.get("safe") or node.args.get("format"):
            raise Unclear(node.sql(dialect="spark")[:80])
        return Typed(to, casting(found.type, to, found.value, literal=isinstance(node.this, exp.Literal)))


_ARGUMENTS: Final = frozenset({"this", "expression", "expressions", "safe", "ignore_nulls", "negate"})
"""Parts of a function's node that are heeded (``safe`` and ``ignore_nulls`` are how Spark's are): with any other it is another function."""
_PARTS: Final = ("year", "month", "day", "hour", "min", "sec")
"""The arguments of ``make_timestamp``."""
_NULL: Final = Typed("null", lambda row: None)
_TYPES: Final = {
    "INT": "int", "BIGINT": "bigint", "DOUBLE": "double", "TIMESTAMPTZ": "timestamp", "TIMESTAMP": "timestamp", "DATE": "date",
    "TEXT": "string", "VARCHAR": "string", "BOOLEAN": "boolean",
}  # fmt: skip
_COMPARISONS: Final[Mapping[Any, Callable[[Any, Any], bool]]] = {
    exp.EQ: lambda a, b: a == b, exp.NEQ: lambda a, b: a != b, exp.GT: lambda a, b: a > b, exp.GTE: lambda a, b: a >= b,
    exp.LT: lambda a, b: a < b, exp.LTE: lambda a, b: a <= b,
}  # fmt: skip
_ARITHMETIC: Final[Mapping[Any, Callable[[Any, Any], Any]]] = {
    exp.Add: lambda a, b: a + b, exp.Sub: lambda a, b: a - b, exp.Mul: lambda a, b: a * b,
    exp.Div: lambda a, b: None if b == 0 else a / b,
    exp.Mod: lambda a, b: None if b == 0 else _remainder(a, b),
}  # fmt: skip
_RULES: Final[tuple[tuple[Any, Callable[[_Compiler, Any], Typed]], ...]] = (
    (exp.Paren, lambda c, n: c.of(n.this)),
    (exp.Column, _Compiler.column),
    (exp.Literal, _Compiler.literal),
    (exp.Null, lambda c, n: _NULL),
    (exp.Boolean, lambda c, n: Typed("boolean", lambda row, v=bool(n.this): v)),  # type: ignore[misc]
    (exp.Neg, _Compiler.negated),
    ((exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Mod), _Compiler.arithmetic),
    (exp.NullSafeEQ, _Compiler.same),
    (tuple(_COMPARISONS), _Compiler.compared),
    (exp.Is, _Compiler.is_),
    (exp.Not, _Compiler.not_),
    (exp.And, _Compiler.both),
    (exp.Or, _Compiler.either),
    (exp.In, _Compiler.in_),
    (exp.Between, _Compiler.between),
    (exp.Case, _Compiler.case),
    (exp.If, _Compiler.if_),
    (exp.Coalesce, _Compiler.coalesce),
    (exp.Cast, _Compiler.cast),
)


def _remainder(a: Any, b: Any) -> Any:
    """Return the remainder with the sign of ``a``, as Java does."""
    if isinstance(a, float):
        return math.fmod(a, b) if math.isfinite(a) and b == b else math.nan
    return abs(a) % abs(b) * (-1 if a < 0 else 1)


def _all(x: Value, y: Value) -> Value:
    def value(row: Row) -> bool | None:
        a = x(row)
        if a is False:
            return False
        b = y(row)
        return False if b is False else None if a is None or b is None else True

    return value


def _chosen(tests: list[Value], branches: list[Typed]) -> Typed:
    """Return the value of the first branch whose test is true, or of the last branch."""
    type_ = _together([b.type for b in branches])
    *made, last = [_as(b, type_) for b in branches]

    def value(row: Row) -> Any:
        for test, branch in zip(tests, made, strict=True):
            if test(row) is True:
                return branch(row)
        return last(row)

    return Typed(type_, value)


def _number(left: str, right: str) -> str:
    """Return the type of arithmetic over two numbers."""
    types = {left, right} - {"null"}
    if not types <= {"int", "bigint", "double", "decimal"}:
        raise Unclear(f"arithmetic over {' and '.join(sorted(types))}")
    if "double" in types:
        return "double"
    if "decimal" in types:
        raise Unclear("arithmetic over whole numbers and numbers with a point (write 0.5D, or 5e-1)")
    return "bigint" if "bigint" in types else "int"


def _together(types: list[str]) -> str:
    """Return the common type of branches of different types."""
    found = set(types) - {"null"}
    if len(found) <= 1:
        return found.pop() if found else "null"
    return _number(*sorted(found)) if len(found) == 2 else _number(_together(sorted(found)[:2]), sorted(found)[2])


def _as(found: Typed, type_: str) -> Value:
    """Convert a number of another type to ``type_``."""
    value = found.value
    if type_ == "double" and found.type != "double":
        return lambda row: None if (v := value(row)) is None else float(v)
    return value


def _comparable(left: Typed, right: Typed) -> tuple[Value, Value]:
    types = {left.type, right.type} - {"null"}
    if len(types) <= 1 and types <= {*_COMPARED, "int", "bigint", "double", "decimal"}:
        return left.value, right.value
    if types <= {"int", "bigint", "decimal"}:
        return left.value, right.value
    if types <= {"int", "bigint", "decimal", "double"}:
        return _as(left, "double"), _as(right, "double")
    if types in ({"string", "timestamp"}, {"string", "date"}):
        (to,) = types - {"string"}
        made = [casting(t.type, to, t.value, literal=True) if t.type == "string" else t.value for t in (left, right)]
        return made[0], made[1]
    raise Unclear(f"a comparison of {' and '.join(sorted(types))}")


def _ordered(value: Any) -> Any:
    """Return a sort key with Spark's order: NaN last, texts by their bytes."""
    if isinstance(value, float):
        return (value != value, 0.0 if value != value else value)
    return value.encode("utf-8", "surrogatepass") if isinstance(value, str) else value
