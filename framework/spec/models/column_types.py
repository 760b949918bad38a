"""Types of columns in a spec."""

from __future__ import annotations

import re
from typing import Annotated, Final

from pydantic import AfterValidator, WithJsonSchema
from pydantic_core import PydanticCustomError

from skyband.framework.base.units import any_case, written
from skyband.operators.base import Kind

TYPES: Final[dict[str, Kind]] = {
    "string": "text", "int": "int", "bigint": "int", "double": "float", "float": "float", "boolean": "bool", "timestamp": "time",
    "date": "time", "array<string>": "list", "array<int>": "list", "array<bigint>": "list",
    "array<float>": "list", "array<double>": "list",
}  # fmt: skip
"""Column types of a spec and their kinds in operators. ``decimal(p,s)`` is a float in operators."""

TYPE_ALIASES: Final[dict[str, str]] = {
    "integer": "int",
    "long": "bigint",
    "bool": "boolean",
    "str": "string",
    "text": "string",
    "real": "float",
}

_DECIMAL: Final = re.compile(r"decimal\s*\(\s*([0-9]{1,2})\s*,\s*([0-9]{1,2})\s*\)")


def _column_type(value: str) -> str:
    text = re.sub(r"\s*([<>])\s*", r"\1", value.strip().lower())
    text = TYPE_ALIASES.get(text, text)
    m = _DECIMAL.fullmatch(text)
    if m and int(m.group(2)) <= int(m.group(1)) <= 38 and int(m.group(1)) > 0:
        return f"decimal({int(m.group(1))},{int(m.group(2))})"
    if text not in TYPES:
        raise PydanticCustomError("column_type", "not a column type")
    return text


def kind_of(type_: str) -> Kind:
    """Return the kind that operators use for a column type of the spec (``decimal`` is float)."""
    return TYPES.get(type_, "float")


_TYPE_SCHEMA: Final = {
    "type": "string",
    "anyOf": [  # names to complete, and their other spellings
        {"enum": [*TYPES, "decimal(10,2)"]},
        written(
            f"types: {', '.join(TYPES)}, decimal(p,s)",
            *(any_case(name).replace("<", r"\s*<\s*").replace(">", r"\s*>") for name in (*TYPES, *TYPE_ALIASES)),
            rf"{any_case('decimal')}\s*\(\s*[0-9]{{1,2}}\s*,\s*[0-9]{{1,2}}\s*\)",
        ),
    ],
}
ColumnType = Annotated[str, AfterValidator(_column_type), WithJsonSchema(_TYPE_SCHEMA)]
