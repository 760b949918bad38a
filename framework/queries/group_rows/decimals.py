"""Decimal columns in aggregates: as whole numbers of their smallest units, so that sums and comparisons are exact."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from skyband.framework.base.decimals import decimal_digits
from skyband.operators.expressions.aggregates import Aggregate
from skyband.operators.expressions.ast import Attr, Binary, In, IsNull, Node
from skyband.operators.expressions.canonical import children

MOST_DIGITS: Final = 18
"""Digits of a decimal that fit in 64 bits."""
_ADDS: Final = frozenset({"sum", "mean", "var_pop", "var_samp", "stddev_pop", "stddev_samp"})


def scales(types: Mapping[str, str | None]) -> dict[str, int]:
    """Return the digits after the point of the decimal columns that aggregates read exactly."""
    found = ((name, decimal_digits(type_)) for name, type_ in types.items())
    return {name: digits[1] for name, digits in found if digits is not None and digits[0] <= MOST_DIGITS}


def mistake(aggregate: Aggregate, types: Mapping[str, str | None]) -> tuple[str, str] | None:
    """Return what is wrong with decimals in an aggregate, and a hint; None if nothing is."""
    function, x = aggregate.function, aggregate.argument
    if x is None or function == "count" or aggregate.scale is not None:
        return None
    for name in _values(x):
        digits = decimal_digits(types.get(name))
        if digits is None:
            continue
        if isinstance(x, Attr):
            fewer = f"decimal({MOST_DIGITS},{min(digits[1], MOST_DIGITS)})"
            hint = f"derive one with fewer digits: {{sql: cast({name} as {fewer}), type: '{fewer}'}}"
            return f"{function} takes decimals of at most {MOST_DIGITS} digits, and '{name}' is {types[name]}", hint
        if function in _ADDS:
            message = f"{function} adds decimals exactly as they are, and calculates with doubles: '{name}' is {types[name]}"
            return message, f"derive the decimal in a transform, with its type, and write {function} of that column"
    return None


def _values(x: Node) -> list[str]:
    """Return the columns whose values are part of the value of ``x``: not those of conditions."""
    if isinstance(x, Attr):
        return [x.name]
    if isinstance(x, IsNull | In) or (isinstance(x, Binary) and x.type == "bool"):
        return []
    return [name for child in children(x) for name in _values(child)]
