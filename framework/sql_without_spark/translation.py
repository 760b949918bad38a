"""The translation of Spark SQL to DuckDB.

It is an allow list. Every operator, function and cast for which there is a rule gives Spark's values (of a session that is not ANSI, in
UTC); a test holds each rule against Spark. Whatever has no rule is refused by its name and never guessed at. Where DuckDB's values differ
from Spark's (texts of numbers, decimals, rounding, formats of instants), a function of ``rules`` makes them.

Values of a row: instants are microseconds since 1970, dates days, decimals ``Decimal``. In DuckDB instants are BIGINT, dates INTEGER and
decimals DECIMAL(38,0), which holds the digits without the point; so no range or precision of DuckDB's own types applies. ``inside`` and
``outside`` convert columns of tables to these types and back, mostly without a copy.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from sqlglot import exp
from sqlglot.dialects.spark import Spark

from skyband.framework.spec.expressions.column_names import Columns
from skyband.framework.sql_without_spark import rules
from skyband.framework.sql_without_spark.rules import Unclear, decimal_type, digits_of

if TYPE_CHECKING:
    import duckdb

Row = Mapping[str, Any]


class Plain(Spark):
    """Spark's SQL with all functions under the names that Spark has for them, and with the arguments as they are written."""

    class Parser(Spark.Parser):  # type: ignore[misc, valid-type]
        """Has no functions of its own but those with a syntax of their own."""

        FUNCTIONS: Mapping[str, Any] = {}
        FUNCTION_PARSERS: Mapping[str, Any] = {
            name: parse
            for name, parse in Spark.Parser.FUNCTION_PARSERS.items()
            if name in ("CAST", "TRY_CAST", "EXTRACT", "POSITION", "TRIM")
        }


@dataclass(frozen=True, slots=True)
class Typed:
    """An expression in DuckDB: ``type`` is that of a spec, or ``null``; ``constant`` is its value if it is written out."""

    type: str
    sql: str
    constant: Any = None


@dataclass(frozen=True, slots=True)
class _Step:
    """A column made of others: by ``function`` of each row whose values are not null, or by DuckDB alone."""

    name: str
    type: str
    given: tuple[Typed, ...]
    function: Callable[..., Any] | None


_WHOLE: Final = frozenset({"int", "bigint"})
_POINTED: Final = frozenset({"float", "double"})
_COMPARED: Final = frozenset({"string", "boolean", "timestamp", "date"})
_UNITS: Final = {"SECOND": 1_000_000, "MINUTE": 60_000_000, "HOUR": 3_600_000_000, "DAY": 86_400_000_000, "WEEK": 604_800_000_000}
_IN_DUCKDB: Final = {
    "int": "integer", "bigint": "bigint", "float": "real", "double": "double", "string": "varchar", "boolean": "boolean",
    "timestamp": "bigint", "date": "integer",
}  # fmt: skip
_IN_ARROW: Final = {
    "int": pa.int32(), "bigint": pa.int64(), "float": pa.float32(), "double": pa.float64(), "string": pa.string(), "boolean": pa.bool_(),
    "timestamp": pa.int64(), "date": pa.int32(), "null": pa.int32(), "array<string>": pa.list_(pa.string()),
    "array<int>": pa.list_(pa.int32()), "array<bigint>": pa.list_(pa.int64()), "array<float>": pa.list_(pa.float32()),
    "array<double>": pa.list_(pa.float64()),
}  # fmt: skip
_NULL: Final = Typed("null", "null")
_MACROS: Final = {"int": "wrapped_int", "bigint": "wrapped_bigint"}
_DECIMALS: Final = pa.decimal128(38, 0)
_OPERATORS: Final = {
    exp.EQ: "=", exp.NEQ: "<>", exp.GT: ">", exp.GTE: ">=", exp.LT: "<", exp.LTE: "<=", exp.NullSafeEQ: "is not distinct from",
}  # fmt: skip
_ARITHMETIC: Final = {exp.Add: "+", exp.Sub: "-", exp.Mul: "*", exp.Div: "/", exp.Mod: "%"}
_BITS: Final = {exp.BitwiseAnd: "({} & {})", exp.BitwiseOr: "({} | {})", exp.BitwiseXor: "xor({}, {})"}
_TYPES: Final = {
    "INT": "int", "BIGINT": "bigint", "DOUBLE": "double", "FLOAT": "float", "TIMESTAMPTZ": "timestamp", "TIMESTAMP": "timestamp",
    "DATE": "date", "TEXT": "string", "VARCHAR": "string", "BOOLEAN": "boolean",
}  # fmt: skip


def _arrow(type_: str) -> pa.DataType:
    found = _DECIMALS if digits_of(type_) else _IN_ARROW.get(type_)
    if found is None:
        raise Unclear(f"values of type {type_}")
    return found


@dataclass
class Translation:
    """Translates one expression, and evaluates it: ``steps`` are columns that are made before the result."""

    columns: Columns
    functions: Mapping[str, Callable[[Translation, list[Typed]], Typed | None]]
    steps: list[_Step] = field(default_factory=list)
    used: dict[str, tuple[str, str]] = field(default_factory=dict)
    """Column of the rows -> (its name in DuckDB, its type)."""
    parameters: dict[str, Any] = field(default_factory=dict)

    def of(self, node: Any) -> Typed:
        """Translate a node. Raise Unclear with its name if there is no rule for it."""
        for kind, method in _RULES:
            if isinstance(node, kind):
                return method(self, node)
        raise Unclear(_shown(node))

    # What functions are made of.

    def all(self, nodes: Sequence[Any]) -> list[Typed]:
        """Translate nodes."""
        return [self.of(n) for n in nodes]

    def constant(self, type_: str, value: Any) -> Typed:
        """Return a constant of the spec, as a parameter."""
        name = f"p{len(self.parameters)}"
        numbers = digits_of(type_)
        self.parameters[name] = rules.unscaled(value, numbers[1]) if numbers else value
        return Typed(type_, f"${name}::{'decimal(38,0)' if numbers else _IN_DUCKDB[type_]}", value)

    def made(self, type_: str, function: Callable[..., Any] | None, *given: Typed) -> Typed:
        """Return a column of its own: of ``function``, which gets no null, or of the only expression of ``given``."""
        name = f"k{len(self.steps)}"
        self.steps.append(_Step(name, type_, given, function))
        return Typed(type_, name)

    def once(self, value: Typed) -> Typed:
        """Return the value for a place where it is read more than once, so that statements grow with the spec and no faster."""
        return value if re.fullmatch(r"\w+", value.sql) else self.made(value.type, None, value)

    # Types.

    def to(self, value: Typed, type_: str) -> Typed:
        """Convert a value to a wider type, as Spark does on its own."""
        if value.type == type_:
            return value
        if value.type == "null":
            return Typed(type_, f"null::{'decimal(38,0)' if digits_of(type_) else _IN_DUCKDB.get(type_, type_)}")
        numbers, given = digits_of(type_), digits_of(value.type)
        if numbers and (value.type in _WHOLE or given):
            by = numbers[1] - (given[1] if given else 0)
            if by >= 0:
                return Typed(type_, f"({value.sql}::hugeint * {10**by}::hugeint)::decimal(38,0)")
        if type_ in _POINTED and given:
            return self.made(type_, float if type_ == "double" else rules.single, value)
        if type_ == "timestamp" and value.type == "date":
            return Typed(type_, f"({value.sql}::bigint * 86400000000)")
        if type_ in (*_WHOLE, *_POINTED) and value.type in (*_WHOLE, "float"):
            return Typed(type_, f"{value.sql}::{_IN_DUCKDB[type_]}", value.constant)
        raise Unclear(f"a cast of {value.type} to {type_}")

    def common(self, values: Sequence[Typed]) -> str:
        """Return the common type to which Spark converts all values."""
        types = {v.type for v in values} - {"null"}
        if len(types) <= 1:
            return types.pop() if types else "null"
        if types == {"date", "timestamp"}:
            return "timestamp"
        numbers = [d for t in types if (d := digits_of(t))]
        if not all(t in _WHOLE or t in _POINTED or digits_of(t) for t in types):
            raise Unclear(f"values of {' and '.join(sorted(types))} together")
        if types & _POINTED:
            return "float" if "double" not in types and not numbers else "double"
        if not numbers:
            return "bigint"
        numbers += [(20 if t == "bigint" else 10, 0) for t in types & _WHOLE]
        scale, whole = max(s for _, s in numbers), max(p - s for p, s in numbers)
        if scale + whole > 38:
            raise Unclear(f"values of {' and '.join(sorted(types))} together")
        return decimal_type(whole + scale, scale)

    def together(self, values: Sequence[Typed]) -> tuple[str, list[Typed]]:
        """Return the common type, and the values converted to it."""
        type_ = self.common(values)
        return type_, values if type_ == "null" else [self.to(v, type_) for v in values]  # type: ignore[return-value]

    def cast_to(self, value: Typed, to: str) -> Typed:
        """Cast a value as Spark's ``cast`` does."""
        given, numbers, found = digits_of(value.type), digits_of(to), value.type
        if found in (to, "null"):
            return self.to(value, to)
        if found == "string":
            return self.made(to, rules.of_text(to), value)
        if to == "string" and found in (*_WHOLE, "boolean"):
            return Typed(to, f"{value.sql}::varchar")
        if to == "string" and (found in rules.TEXTS or given):
            return self.made(to, rules.TEXTS["decimal" if given else found], value)
        if numbers and (found in (*_WHOLE, "double") or given):
            return self.made(to, partial(rules.as_decimal, type_=to), value)
        if to in _WHOLE and found in _WHOLE:
            return self.to(value, to) if to == "bigint" else Typed(to, f"wrapped_int({value.sql}::hugeint)")
        if to in _WHOLE and (found in _POINTED or given):
            return self.made(to, partial(rules.whole, type_=to) if not given else partial(rules.whole_of_decimal, type_=to), value)
        if to == "float" and found == "double":
            return self.made(to, rules.single, value)
        if to in (*_WHOLE, "double") and found == "boolean":
            return Typed(to, f"{value.sql}::{_IN_DUCKDB[to]}")
        if to == "boolean" and (found in _WHOLE or found in _POINTED or given):
            return Typed(to, f"({value.sql} <> 0)")
        if found == "timestamp" and to in ("date", "bigint"):
            return Typed(to, f"down({value.sql}, {86_400_000_000 if to == 'date' else 1_000_000})::{_IN_DUCKDB[to]}")
        if found == "timestamp" and to == "double":
            return Typed(to, f"({value.sql}::double / 1000000::double)")
        return self.to(value, to)

    # Kinds of nodes.

    def column(self, node: Any) -> Typed:
        """Translate a column."""
        name = self.columns.spelled(node.name)
        if name is None or node.table:
            raise Unclear(_shown(node))
        type_ = self.columns[name] or "unknown"
        own, _ = self.used.setdefault(name, (f"c{len(self.used)}", type_))
        return Typed(type_, own)

    def literal(self, node: Any) -> Typed:
        """Translate a constant. A fraction is a decimal, as in Spark."""
        text = str(node.this)
        if node.is_string:
            if "\\" in text:
                raise Unclear("a text with a backslash")
            return self.constant("string", text)
        if text.isdigit():
            number = int(text)
            if number >= 2**63:
                raise Unclear(f"the number {text}")
            return self.constant("int" if number < 2**31 else "bigint", number)
        if "e" in text.lower():
            return self.constant("double", float(text))
        value = Decimal(text)
        places = -int(value.as_tuple().exponent)
        precision = max(len(value.as_tuple().digits) if value else 1, places)
        if precision > 38:
            raise Unclear(f"the number {text}")
        return self.constant(decimal_type(precision, places), value)

    def negated(self, node: Any) -> Typed:
        """Translate a minus sign."""
        return self.minus(self.of(node.this))

    def minus(self, value: Typed) -> Typed:
        """Return the negative value; whole numbers wrap."""
        if value.type in _WHOLE:
            constant = None if value.constant is None else -value.constant
            return Typed(value.type, f"{_MACROS[value.type]}(-({value.sql}::hugeint))", constant)
        if value.type in _POINTED or digits_of(value.type):
            return Typed(value.type, f"(-({value.sql}))")
        raise Unclear(f"- of {value.type}")

    def arithmetic(self, node: Any) -> Typed:
        """Translate ``+ - * / %``."""
        if isinstance(node.expression.unnest(), exp.Interval):
            return self.moved(node)
        return self.calculated(_ARITHMETIC[type(node)], self.of(node.this), self.of(node.expression))

    def calculated(self, sign: str, left: Typed, right: Typed) -> Typed:
        """Return ``left sign right``."""
        if left.type == "date" and right.type in ("int", "null") and sign in "+-":
            return Typed("date", f"({left.sql} {sign} {right.sql})::integer")
        numbers = [_numbers_of(v) for v in (left, right)]
        if {left.type, right.type} & {"string", "timestamp", "date", "boolean", "unknown"} or _listed(left, right):
            raise Unclear(f"arithmetic over {' and '.join(sorted({left.type, right.type}))}")
        if any(digits_of(v.type) for v in (left, right)) and not {left.type, right.type} & _POINTED:
            if "null" in (left.type, right.type):
                return Typed("null", "null")
            type_ = rules.decimal_result(sign, numbers[0], numbers[1])
            return self.made(type_, partial(rules.decimal_arithmetic, sign, type_), left, right)
        type_ = self.common([left, right])
        if sign == "/" and type_ in (*_WHOLE, "float"):
            type_ = "double"
        if type_ == "null":
            return _NULL
        x, y = self.to(left, type_), self.to(right, type_)
        y = self.not_zero(y) if sign in "/%" else y
        if type_ in _WHOLE and sign != "%":
            return Typed(type_, f"{_MACROS[type_]}({x.sql}::hugeint {sign} {y.sql}::hugeint)")
        if type_ in _WHOLE:
            return Typed(type_, f"({x.sql}::hugeint % {y.sql}::hugeint)::{_IN_DUCKDB[type_]}")
        return Typed(type_, f"({x.sql} {sign} {y.sql})")

    def not_zero(self, value: Typed) -> Typed:
        """Return the divisor, null for zero: a division by zero is null in Spark."""
        if value.constant:
            return value
        value = self.once(value)
        return Typed(value.type, f"(case when {value.sql} = 0 then null else {value.sql} end)")

    def moved(self, node: Any) -> Typed:
        """Translate the sum of an instant and an interval of fixed length."""
        at, span = self.of(node.this), node.expression.unnest()
        unit = _UNITS.get(str(span.args.get("unit") or "").upper().rstrip("S"))
        amount = str(getattr(span.this, "this", ""))
        if at.type != "timestamp" or unit is None or not re.fullmatch(r"\d{1,9}", amount) or not isinstance(node, exp.Add | exp.Sub):
            raise Unclear(_shown(node))
        sign = "-" if isinstance(node, exp.Sub) else "+"
        return Typed("timestamp", f"({at.sql} {sign} {int(amount) * unit}::bigint)")

    def bits(self, node: Any) -> Typed:
        """Translate ``& | ^``."""
        type_, (x, y) = self.together([self.of(node.this), self.of(node.expression)])
        if type_ not in _WHOLE:
            raise Unclear(f"bits of {type_}")
        return Typed(type_, _BITS[type(node)].format(x.sql, y.sql))

    def compared(self, node: Any) -> Typed:
        """Translate a comparison."""
        return self.comparison(_OPERATORS[type(node)], self.of(node.this), self.of(node.expression))

    def comparison(self, sign: str, left: Typed, right: Typed) -> Typed:
        """Return ``left sign right`` as a condition."""
        x, y = self.comparable(left, right)
        return Typed("boolean", f"({x.sql} {sign} {y.sql})")

    def comparable(self, *values: Typed) -> list[Typed]:
        """Return values as they are compared: texts beside instants are read as instants."""
        types = {v.type for v in values} - {"null"}
        if len(types) == 2 and "string" in types and types & {"timestamp", "date"}:
            (to,) = types - {"string"}
            return [self.to(self.cast_to(v, to) if v.type == "string" else v, to) for v in values]
        type_, same = self.together(values)
        if type_ not in (*_COMPARED, *_WHOLE, *_POINTED, "null") and not digits_of(type_):
            raise Unclear(f"a comparison of {type_}")
        return same

    def is_(self, node: Any) -> Typed:
        """Translate ``is null``, ``is true`` and similar."""
        value = self.of(node.this)
        if isinstance(node.expression, exp.Null):
            return Typed("boolean", f"({value.sql} is null)")
        if isinstance(node.expression, exp.Boolean) and value.type in ("boolean", "null"):
            return Typed("boolean", f"({value.sql} is not distinct from {'true' if node.expression.this else 'false'})")
        raise Unclear(_shown(node))

    def joined(self, node: Any) -> Typed:
        """Translate ``and`` and ``or``."""
        word = "and" if isinstance(node, exp.And) else "or"
        return Typed("boolean", f"({self.truth(node.this).sql} {word} {self.truth(node.expression).sql})")

    def truth(self, node: Any) -> Typed:
        """Translate a condition."""
        found = self.of(node)
        if found.type not in {"boolean", "null"}:
            raise Unclear(f"{found.type} where a condition is needed")
        return self.to(found, "boolean")

    def in_(self, node: Any) -> Typed:
        """Translate ``in``: Spark makes one type of all values first."""
        if node.args.get("query") is not None or node.args.get("unnest") is not None or not node.expressions:
            raise Unclear(_shown(node))
        left, *options = self.comparable(self.of(node.this), *self.all(node.expressions))
        return Typed("boolean", f"({left.sql} in ({', '.join(o.sql for o in options)}))")

    def between(self, node: Any) -> Typed:
        """Translate ``between``: two comparisons, each in the common type of its two sides."""
        middle = self.once(self.of(node.this))
        low = self.comparison(">=", middle, self.of(node.args["low"]))
        high = self.comparison("<=", middle, self.of(node.args["high"]))
        return Typed("boolean", f"({low.sql} and {high.sql})")

    def case(self, node: Any) -> Typed:
        """Translate ``case``, with a subject and without."""
        subject = None if node.this is None else self.once(self.of(node.this))
        tests = [self.truth(b.this) if subject is None else self.comparison("=", subject, self.of(b.this)) for b in node.args["ifs"]]
        default = node.args.get("default")
        return self.chosen(tests, [*(self.of(b.args["true"]) for b in node.args["ifs"]), _NULL if default is None else self.of(default)])

    def chosen(self, tests: Sequence[Typed], branches: Sequence[Typed]) -> Typed:
        """Return the branch of the first test that is true, or the last branch."""
        type_, made = self.together(branches)
        cases = " ".join(f"when {t.sql} then {b.sql}" for t, b in zip(tests, made, strict=False))
        return Typed(type_, f"(case {cases} else {made[-1].sql} end)")

    def if_(self, node: Any) -> Typed:
        """Translate ``if`` where sqlglot has a node of its own for it."""
        false = node.args.get("false")
        return self.chosen([self.truth(node.this)], [self.of(node.args["true"]), _NULL if false is None else self.of(false)])

    def cast(self, node: Any) -> Typed:
        """Translate ``cast(x as type)``."""
        to = _TYPES.get(node.to.this.name)
        if node.to.this.name == "DECIMAL":
            numbers = [int(p.name) for p in node.to.expressions]
            to = decimal_type(numbers[0] if numbers else 10, numbers[1] if len(numbers) > 1 else 0)
        if (
            to is None
            or (node.to.this.name in ("VARCHAR", "CHAR") and node.to.expressions)
            or node.args.get("safe")
            or node.args.get("format")
        ):
            raise Unclear(_shown(node))
        return self.cast_to(self.of(node.this), to)

    def like(self, node: Any) -> Typed:
        """Translate ``like`` with a constant pattern."""
        value, pattern = self.of(node.this), self.of(node.expression)
        if value.type != "string" or not isinstance(pattern.constant, str):
            raise Unclear("like with such operands")
        word = "not like" if node.args.get("negate") else "like"  # newer releases of sqlglot have no node of their own for "not"
        return Typed("boolean", f"({value.sql} {word} {pattern.sql})")

    def element(self, node: Any) -> Typed:
        """Translate ``list[0]``: null beyond its end."""
        value = self.of(node.this)
        place = self.of(node.expressions[0]).constant if len(node.expressions) == 1 else None
        if not _listed(value) or not isinstance(place, int) or place < 0:
            raise Unclear(_shown(node))
        return Typed(value.type.removeprefix("array<").removesuffix(">"), f"({value.sql})[{place + 1}]")

    def call(self, node: Any) -> Typed:
        """Translate a call of a function by Spark's name for it."""
        name = str(node.this).lower()
        if name not in self.functions:
            raise Unclear(f"{name}()")
        return self.called(name, self.all(node.expressions))

    def called(self, name: str, given: list[Typed]) -> Typed:
        """Return a function's value. Raises Unclear for types and numbers of arguments without a rule."""
        try:
            found = self.functions[name](self, given)
        except (IndexError, ValueError, TypeError):
            found = None
        if found is None:
            raise Unclear(f"{name} of {', '.join(v.type for v in given) or 'nothing'}" + _constants(given))
        return found

    def part(self, node: Any) -> Typed:
        """Translate ``extract(part from instant)``."""
        name = str(node.this.name).lower()
        if name not in ("year", "month", "day", "quarter", "hour", "minute"):
            raise Unclear(_shown(node))
        return self.called(name, [self.of(node.expression)])

    def trimmed(self, node: Any) -> Typed:
        """Translate ``trim(text)``; its other forms have no rule."""
        if node.args.get("position") or node.expression:
            raise Unclear(_shown(node))
        return self.called("trim", [self.of(node.this)])

    # Evaluation.

    def run(
        self, duck: duckdb.DuckDBPyConnection, given: Mapping[str, pa.Array], rows: int, result: Typed
    ) -> pa.Array:  # fmt: skip
        """Return the values of ``result``, with DuckDB's types. ``given``: the columns ``used`` by their names in the spec, as ``inside``.

        Raises Unclear, and what DuckDB and Arrow raise for values that they cannot hold. No Python per row but that of ``steps``.
        """
        columns: dict[str, pa.Array] = {"n": pa.nulls(rows, pa.int8()), **{own: given[name] for name, (own, _) in self.used.items()}}
        for step in self.steps:
            values = _selected(duck, step.given, self.parameters, columns)
            if step.function is None:
                columns[step.name] = values[0]
                continue
            lists = [plain(v, g.type) for v, g in zip(values, step.given, strict=True)]
            made = [None if any(v is None for v in row) else step.function(*row) for row in zip(*lists, strict=True)]
            columns[step.name] = in_arrow(made, step.type)
        return _selected(duck, [result], self.parameters, columns)[0]


def _selected(
    duck: duckdb.DuckDBPyConnection, values: Sequence[Typed], constants: Mapping[str, Any], columns: Mapping[str, pa.Array]
) -> list[pa.Array]:
    """Evaluate expressions over the columns that exist."""
    if all(v.sql in columns for v in values):
        return [columns[v.sql] for v in values]
    listed = ", ".join(f"{v.sql} as r{i}" for i, v in enumerate(values))
    words = set(re.findall(r"\w+", listed))
    duck.register("given", pa.table({n: c for n, c in columns.items() if n in words or n == "n"}))
    try:
        parameters = {n: p for n, p in constants.items() if n in words}
        found = duck.sql(f"select {listed} from given", params=parameters or None).to_arrow_table()
    except Exception as e:
        if type(e).__module__.endswith("duckdb"):  # the module is loaded where it is needed only
            raise Unclear("values beyond the range of its types") from e
        raise
    finally:
        duck.unregister("given")
    return [found[f"r{i}"].combine_chunks() for i in range(len(values))]


def inside(column: pa.Array, type_: str) -> pa.Array:
    """Return a column of a table as DuckDB gets it. Raises Unclear for a type without a rule."""
    to = _arrow(type_)
    return _redefined(column, to) if digits_of(type_) else column.cast(to)


def outside(column: pa.Array, type_: str, to: pa.DataType) -> pa.Array:
    """Return values as DuckDB returns them as a column of a table, of type ``to``."""
    if digits_of(type_):
        return _redefined(column.cast(_DECIMALS), to)
    return column.cast(_arrow(type_)).cast(to)


def _redefined(column: pa.Array, to: pa.DataType) -> pa.Array:
    """Return decimals with the same digits and another place of the point."""
    return pa.Array.from_buffers(to, len(column), column.buffers(), offset=column.offset)


def in_arrow(values: list[Any], type_: str) -> pa.Array:
    """Return values of rows as DuckDB gets them. Raises Unclear for a type without a rule."""
    numbers = digits_of(type_)
    if numbers:
        values = [None if v is None else Decimal(rules.unscaled(v, numbers[1])) for v in values]
    return pa.array(values, _arrow(type_))


def plain(values: pa.Array, type_: str) -> list[Any]:
    """Return values as DuckDB returns them as values of rows."""
    found: list[Any] = values.to_pylist()
    numbers = digits_of(type_)
    return [None if v is None else Decimal(f"{int(v)}E-{numbers[1]}") for v in found] if numbers else found


def _numbers_of(value: Typed) -> tuple[int, int]:
    """Return the precision and scale of a number beside a decimal: a constant takes no more digits than it has."""
    if isinstance(value.constant, int):
        return len(str(abs(value.constant))), 0
    return digits_of(value.type) or ((20, 0) if value.type == "bigint" else (10, 0))


def _listed(*values: Typed) -> bool:
    return any(v.type.startswith("array<") for v in values)


def _shown(node: Any) -> str:
    return str(node.sql(dialect="spark"))[:80]


def _constants(given: Sequence[Typed]) -> str:
    shown = [repr(v.constant) for v in given if v.constant is not None]
    return f" ({', '.join(shown)[:60]})" if shown else ""


_RULES: Final[tuple[tuple[Any, Callable[[Translation, Any], Typed]], ...]] = (
    (exp.Paren, lambda c, n: c.of(n.this)),
    (exp.Column, Translation.column),
    (exp.Literal, Translation.literal),
    (exp.Null, lambda c, n: _NULL),
    (exp.Boolean, lambda c, n: Typed("boolean", "true" if n.this else "false")),
    (exp.Neg, Translation.negated),
    (tuple(_ARITHMETIC), Translation.arithmetic),
    (tuple(_BITS), Translation.bits),
    (exp.IntDiv, lambda c, n: c.called("div", [c.of(n.this), c.of(n.expression)])),
    (tuple(_OPERATORS), Translation.compared),
    (exp.Is, Translation.is_),
    (exp.Not, lambda c, n: Typed("boolean", f"(not {c.truth(n.this).sql})")),
    ((exp.And, exp.Or), Translation.joined),
    (exp.In, Translation.in_),
    (exp.Between, Translation.between),
    (exp.Case, Translation.case),
    (exp.If, Translation.if_),
    (exp.Cast, Translation.cast),
    (exp.Like, Translation.like),
    (exp.RegexpLike, lambda c, n: c.called("rlike", [c.of(n.this), c.of(n.expression)])),
    (exp.DPipe, lambda c, n: c.called("concat", [c.of(n.this), c.of(n.expression)])),
    (exp.Bracket, Translation.element),
    (exp.Extract, Translation.part),
    (exp.Trim, Translation.trimmed),
    (exp.Anonymous, Translation.call),
)
"""Kinds of nodes and the rule for them, the first that fits."""
