"""Decimal columns in aggregates: as whole numbers of their smallest units, so that sums and comparisons are exact."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from skyband.operators.expressions.aggregates import Aggregate
from skyband.operators.expressions.ast import Attr, Binary, In, IsNull, Node
from skyband.operators.expressions.canonical import children

MOST_DIGITS: Final = 18
"""Digits of a decimal that fit in 64 bits."""
_DECIMAL: Final = re.compile(r"decimal\((\d+),(\d+)\)")
_ADDS: Final = frozenset({"sum", "mean", "var_pop", "var_samp", "stddev_pop", "stddev_samp"})


def scales(types: Mapping[str, str | None]) -> dict[str, int]:
    """Return the digits after the point of the decimal columns that aggregates read exactly."""
    found = ((name, _DECIMAL.fullmatch(type_ or "")) for name, type_ in types.items())
    return {name: int(m[2]) for name, m in found if m is not None and int(m[1]) <= MOST_DIGITS}


def mistake(aggregate: Aggregate, types: Mapping[str, str | None]) -> tuple[str, str] | None:
    """Return what is wrong with decimals in an aggregate, and a hint; None if nothing is."""
    function, x = aggregate.function, aggregate.argument
    if x is None or function == "count" or aggregate.scale is not None:
        return None
    read = {name: _DECIMAL.fullmatch(types.get(name) or "") for name in _values(x)}
    for name, m in read.items():
        if m is None:
            continue
        if isinstance(x, Attr):
            hint = f"derive one with fewer digits: {{sql: cast({name} as decimal({MOST_DIGITS},{min(int(m[2]), MOST_DIGITS)})), "
            hint += f"type: 'decimal({MOST_DIGITS},{min(int(m[2]), MOST_DIGITS)})'}}"
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
