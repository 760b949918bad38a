"""The type of a Spark SQL expression, inferred without Spark where it is certain.

Types are those of a spec. Whole numbers are given as ``bigint`` and fractions as ``double``, which hold every whole number and fraction of
Spark's; a bare column has the type it is declared with. Functions are known by sqlglot's names for them (``str_to_unix`` is Spark's
``unix_timestamp``); what no rule knows is asked of sqlglot's own inference, except for whole numbers, where it is not reliable.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from sqlglot import exp
from sqlglot.optimizer.annotate_types import annotate_types

from skyband.framework.spec.expressions.column_names import Columns
from skyband.framework.spec.parsing.limits import Work

WHOLE: Final = frozenset({"int", "bigint"})
_NOTHING: Final = "nothing"
"""The type of ``null``, which goes with every other."""

_BIGINT: Final = frozenset({
    "unix_micros", "unix_millis", "unix_seconds", "unix_date", "unix_timestamp", "str_to_unix", "to_unix_timestamp", "hour", "minute",
    "second", "year", "month", "day", "day_of_month", "dayofmonth", "day_of_week", "dayofweek", "day_of_year", "dayofyear", "weekday",
    "week_of_year", "weekofyear", "quarter", "datediff", "length", "char_length", "character_length", "octet_length", "bit_length", "ascii",
    "instr", "locate", "str_position", "find_in_set", "levenshtein", "xxhash64", "hash", "crc32", "bigint", "int", "array_size",
    "cardinality", "bitwise_count", "width_bucket", "factorial",
})  # fmt: skip
_TIMESTAMP: Final = frozenset({
    "timestamp_trunc", "make_timestamp", "make_timestamp_ltz", "timestamp_micros", "timestamp_millis", "timestamp_seconds",
    "from_utc_timestamp", "to_utc_timestamp", "to_timestamp", "to_timestamp_ltz", "try_to_timestamp", "timestamp", "unix_to_time",
    "timestamp_from_parts",
})  # fmt: skip
_STRING: Final = frozenset({
    "string", "format_string", "printf", "format_number", "hex", "bin", "conv", "sha2", "sha1", "base64", "initcap", "repeat",
    "btrim", "split_part", "substring_index", "elt", "parse_url", "url_encode", "url_decode",
})  # fmt: skip
_FIXED: Final[Mapping[str, str]] = {
    **dict.fromkeys(_BIGINT, "bigint"), **dict.fromkeys(_TIMESTAMP, "timestamp"), **dict.fromkeys(_STRING, "string"),
    **dict.fromkeys(("date_trunc", "make_date"), "date"),  # sqlglot's date_trunc is Spark's trunc
    **dict.fromkeys(("isnull", "isnotnull", "equal_null", "luhn_check"), "boolean"),
    **dict.fromkeys(("e", "hypot", "rint", "expm1", "log1p", "to_number", "try_to_number"), "double"),
}  # fmt: skip
_OF_SQLGLOT: Final[Mapping[str, str]] = {
    "TEXT": "string", "VARCHAR": "string", "CHAR": "string", "NCHAR": "string", "NVARCHAR": "string", "TIMESTAMP": "timestamp",
    "TIMESTAMPTZ": "timestamp", "TIMESTAMPLTZ": "timestamp", "BOOLEAN": "boolean", "DATE": "date", "DOUBLE": "double", "FLOAT": "double",
    "DECIMAL": "double",
}  # fmt: skip
_WHOLE_OF_SQLGLOT: Final = frozenset({"TINYINT", "SMALLINT", "INT", "BIGINT"})
_OF_THEIR_ARGUMENTS: Final = frozenset({"pmod", "bround", "positive", "zeroifnull"})
_NUMBERS: Final = frozenset({"bigint", "double", "string"})
"""What can be calculated with; text is read as a fraction then."""
_DAYS: Final = frozenset({"DAY", "DAYS", "WEEK", "WEEKS", "MONTH", "MONTHS", "YEAR", "YEARS"})


def type_of(tree: Any, columns: Columns, work: Work | None = None) -> str | None:
    """The type of ``tree`` over ``columns``, or None where it is not certain or ``work`` is gone. O(size of the tree)."""
    types = _Types(columns, work)
    bare = tree.unnest()
    if isinstance(bare, exp.Column):
        return types.column(bare)
    try:
        found = types.of(bare)
    except RecursionError:
        return None
    return None if found == _NOTHING else found


def is_fraction(type_: str) -> bool:
    """Whether the numbers of this type may have a fraction."""
    return type_ in {"double", "float"} or type_.startswith("decimal")


class _Types:
    """Types of the parts of one expression over columns; names of columns are compared as Spark does, without case."""

    def __init__(self, columns: Columns, work: Work | None) -> None:
        self.columns = columns
        self.work = work

    def column(self, node: Any) -> str | None:
        spelled = self.columns.spelled(node.name)
        return self.columns[spelled] if spelled is not None else None

    def of(self, node: Any) -> str | None:
        """The type of a part of an expression, as it is after any calculation."""
        for kinds, rule in _RULES:
            if isinstance(node, kinds):
                return rule(self, node)
        if isinstance(node, exp.Func):
            name = (node.name if isinstance(node, exp.Anonymous) else node.sql_name()).lower()
            if name in _OF_THEIR_ARGUMENTS:
                return self.together(node.expressions)
            if name == "date_part":
                return _part(node.expressions[0]) if node.expressions else None
            if name in _NAMED and not isinstance(node, exp.Anonymous):
                return _NAMED[name](self, node)
            if name in _FIXED:
                return _FIXED[name]
        return self.by_sqlglot(node)

    def together(self, nodes: Iterable[Any]) -> str | None:
        """The type that holds all of these, by Spark's rules for values of different types; None if there is none or one is not known."""
        found = {self.of(n) for n in nodes if n is not None} - {_NOTHING}
        if None in found or not found:
            return None if found else _NOTHING
        types = {t for t in found if t is not None}
        if len(types) == 1:
            return types.pop()
        if all(t in WHOLE or is_fraction(t) for t in types):
            return "double" if any(map(is_fraction, types)) else "bigint"
        return "timestamp" if types == {"date", "timestamp"} else None

    def by_sqlglot(self, node: Any) -> str | None:
        if self.work is not None and not self.work.take(0):
            return None
        try:
            query = exp.Select(expressions=[node.copy()]).from_(exp.to_table("t"))
            known = {}
            for column in list(query.find_all(exp.Column)):
                type_ = self.column(column)
                if type_ is not None:
                    known[column.name] = type_
                column.set("table", exp.to_identifier("t"))
            typed = annotate_types(query, schema={"t": known} if known else None, dialect="spark").selects[0].type
        except Exception:  # sqlglot's optimiser on odd input: no type is a fine answer
            return None
        return _OF_SQLGLOT.get(typed.this.name) if typed is not None else None


def _same(types: _Types, node: Any) -> str | None:
    return types.of(node.this)


def _column(types: _Types, node: Any) -> str | None:
    found = types.column(node)
    return found if found is None else "bigint" if found in WHOLE else "double" if is_fraction(found) else found


def _literal(types: _Types, node: Any) -> str:
    if node.is_string:
        return "string"
    return "bigint" if str(node.this).isdigit() else "double"


def _cast(types: _Types, node: Any) -> str | None:
    name = node.to.this.name if isinstance(node.to, exp.DataType) else ""
    return "bigint" if name in _WHOLE_OF_SQLGLOT else _OF_SQLGLOT.get(name)


def _arithmetic(types: _Types, node: Any) -> str | None:
    sides = (node.this, node.expression)
    spans = [s for s in sides if isinstance(s.unnest(), exp.Interval)]
    if spans:
        other = types.of(node.this if spans[0] is node.expression else node.expression)
        whole_days = str(spans[0].unnest().args.get("unit", "")).upper() in _DAYS
        return other if other == "timestamp" or (other == "date" and whole_days) else None
    left, right = (types.of(s) for s in sides)
    if left == "date" and right == "bigint" and not isinstance(node, exp.Mul | exp.Mod):
        return "date"
    if not {left, right} <= _NUMBERS:
        return None
    return "bigint" if left == right == "bigint" else "double"


def _division(types: _Types, node: Any) -> str | None:
    return "double" if {types.of(node.this), types.of(node.expression)} <= _NUMBERS else None


def _number(types: _Types, node: Any) -> str | None:
    found = types.of(node.this)
    return "double" if found == "string" else found if found in _NUMBERS else None


def _rounded(types: _Types, node: Any) -> str | None:
    """``floor`` and ``ceil``: whole numbers, unless they keep digits or the number is a decimal."""
    if node.args.get("decimals") is not None or any(
        _is_decimal(c, types) for c in (node.this, *node.this.find_all(exp.Column, exp.Literal))
    ):
        return "double"
    return "bigint" if types.of(node.this) in _NUMBERS else None


def _is_decimal(node: Any, types: _Types) -> bool:
    if isinstance(node, exp.Column):
        return (types.column(node) or "").startswith("decimal")
    return isinstance(node, exp.Literal) and not node.is_string and not str(node.this).isdigit() and "e" not in str(node.this).lower()


def _part(unit: Any) -> str:
    return "double" if unit.name.lower() in {"second", "seconds", "s", "sec", "secs"} else "bigint"


def _case(types: _Types, node: Any) -> str | None:
    return types.together([*(i.args.get("true") for i in node.args["ifs"]), node.args.get("default")])


def _choice(types: _Types, node: Any) -> str | None:
    return types.together((node.args.get("true"), node.args.get("false")))


def _all_of(types: _Types, node: Any) -> str | None:
    return types.together((node.this, *node.expressions))


def _two(types: _Types, node: Any) -> str | None:
    return types.together((node.this, node.expression))


_RULES: Final[tuple[tuple[Any, Callable[[_Types, Any], str | None]], ...]] = (
    ((exp.Paren, exp.Nullif), _same),
    ((exp.Neg, exp.Abs, exp.Round, exp.BitwiseNot), _number),
    (exp.Column, _column),
    (exp.Null, lambda types, node: _NOTHING),
    (exp.Literal, _literal),
    (exp.Cast, _cast),
    ((exp.Div, exp.SafeDivide), _division),
    (exp.IntDiv, lambda types, node: "bigint"),
    ((exp.Add, exp.Sub, exp.Mul, exp.Mod), _arithmetic),
    ((exp.BitwiseAnd, exp.BitwiseOr, exp.BitwiseXor), _two),
    ((exp.BitwiseLeftShift, exp.BitwiseRightShift), _same),
    ((exp.Floor, exp.Ceil), _rounded),
    (exp.Extract, lambda types, node: _part(node.this)),
    (exp.Case, _case),
    ((exp.If, exp.Nvl2), _choice),
    ((exp.Coalesce, exp.Greatest, exp.Least), _all_of),
    ((exp.AtTimeZone, exp.FromTimeZone), lambda types, node: "timestamp"),
)
"""Kinds of nodes and the rule for them, the first that fits."""

_NAMED: Final[Mapping[str, Callable[[_Types, Any], str | None]]] = {
    "negative": _number, "safe_add": _arithmetic, "safe_subtract": _arithmetic, "safe_multiply": _arithmetic,
}  # fmt: skip
"""Rules for functions that only newer releases of sqlglot have a kind of node for."""
