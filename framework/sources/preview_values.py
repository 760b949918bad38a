"""Values of texts as Spark reads them, for formats that read their first rows without Spark."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import date
from decimal import Decimal
from typing import Any, Final

from skyband.framework.base.cells import cell
from skyband.framework.base.decimals import decimal_digits, fitted
from skyband.framework.plan.model import Field
from skyband.framework.sources.first_rows import FirstRows
from skyband.framework.sources.text.options import encoding_of
from skyband.framework.sources.values import in_spark

_INSTANT: Final = re.compile(r"\d{4}-\d\d-\d\d([ T]\d\d:\d\d:\d\d(\.\d{1,6})?Z?)?")
"""Instants and dates that have one reading."""
_OFFSET: Final = re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(\.\d{1,6})?[+-](0\d|1[0-7]):[0-5]\d")
"""Matches instants with an offset. Their date is that of the text, not that in UTC."""


class Doubtful(Exception):
    """Raised for a value that Spark may read differently."""


def add_row(found: FirstRows, given: Mapping[Field, Any], read: Callable[[Any, Field], Any]) -> None:
    """Add the row ``given``, each value read by ``read``; count it as doubtful if one of its values is."""
    try:
        row = {f.name: None if v is None else read(v, f) for f, v in given.items()}
    except (Doubtful, ValueError, ArithmeticError):
        found.doubtful += 1
        return
    found.add({n: _days(v) for n, v in row.items()})


def _days(value: Any) -> Any:
    return value.toordinal() - date(1970, 1, 1).toordinal() if isinstance(value, date) else value


def value_of_text(text: str, f: Field) -> Any:
    """Return the value of a cell that fits its type. Raises Doubtful, or ValueError, for a spelling that only Spark reads."""
    if f.type == "string":
        return text
    if f.type in ("int", "bigint"):
        return int(text)
    if f.type in ("double", "float"):
        return in_spark(float(text), f.type)
    if f.type == "boolean":
        return text.lower() == "true"
    if (digits := decimal_digits(f.type)) is not None:
        number = fitted(Decimal(text.strip()), *digits)
        if number is None:
            raise Doubtful
        return number
    if _INSTANT.fullmatch(text) is None and (f.type == "date" or _OFFSET.fullmatch(text) is None):
        raise Doubtful
    return in_spark(cell(text, "time"), f.type)


def decoding_errors(options: Mapping[str, str]) -> str:
    """Return how to decode bytes that are no text: to characters that no text has."""
    return "surrogateescape" if encoding_of(options) == "utf-8" else "replace"


def undecodable(text: str) -> bool:
    """Return True if some bytes of a text could not be decoded."""
    return not text.isascii() and any("\udc80" <= c <= "\udcff" for c in text)
