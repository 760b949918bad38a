"""Texts of CSV and JSON as values, as Spark's expressions: what a cell may be, and what is never read as something else without a word.

Each function takes a column of texts and returns (the value, whether the text is none of the type). Null is null. See docs/semantics 1.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as F

from skyband.framework.sources.text.options import BAD, INFINITE, encoding_of, number_form, upper_half

Value = tuple[Column, Column]

_MEANT: Final = {"nanvalue": "NaN", "positiveinf": "Infinity", "negativeinf": "-Infinity"}
"""Options that give texts for what is no finite number."""
_FORMATS: Final = {"timestampformat", "dateformat", "timezone", "locale", "enabledatetimeparsingfallback"}
_HIGH: Final = "".join(map(chr, range(128, 256)))


def plain_instants(options: Mapping[str, str]) -> bool:
    """Whether instants and dates are spelled as without options; else they are read by Spark's formatter. Options in lower case."""
    return not _FORMATS & set(options)


def number(text: Column, type_: str, options: Mapping[str, str]) -> Value:
    """A ``double`` or ``float``: decimal digits, or a word for what is not finite. Nothing hexadecimal, too large, or such as ``1d``."""
    value, bare = text.try_cast(type_), F.trim(text)
    unlike = F.lower(F.right(bare, F.lit(1))).isin("d", "f") | F.lower(bare).contains("x")
    odd = F.isnan(value) | (F.abs(value) == F.lit(float("inf"))) | unlike
    bad = F.coalesce(value.isNull() | (odd & ~bare.isin(*INFINITE)), F.lit(True))
    for name, word in _MEANT.items():
        if name in options:
            meant = text == F.lit(options[name])
            value, bad = F.when(meant, F.lit(word).cast(type_)).otherwise(value), ~meant & bad
    return value, text.isNotNull() & bad


def exact(text: Column, type_: str) -> Value:
    """A ``decimal``, ``int`` or ``bigint``. Spark's reader drops commas, and makes 150 of ``1,50``."""
    value = text.try_cast(type_)
    return value, text.isNotNull() & (value.isNull() | text.contains(","))


def instant(text: Column) -> Value:
    """A ``timestamp``: a time without a day would be one of the day on which it is read."""
    value = text.try_cast("timestamp")
    no_day = text.contains(":") & ~F.substring_index(text, ":", 1).contains("-")
    return value, text.isNotNull() & (value.isNull() | no_day)


def day(text: Column) -> Value:
    """A ``date``: what follows the day has to be a time."""
    value = text.try_cast("date")
    more = (F.trim(text).contains(" ") | text.contains("T")) & text.try_cast("timestamp").isNull()
    return value, text.isNotNull() & (value.isNull() | more)


def plain_digits(text: Column, decimal: str, thousands: str | None) -> Column:
    """Numbers with such marks as numbers without; a text that is no such number stays one that no type takes."""
    bare = F.trim(text)
    made = bare if thousands is None else F.replace(bare, F.lit(thousands), F.lit(""))
    made = made if decimal == "." else F.replace(made, F.lit(decimal), F.lit("."))
    kept = text.isin(*INFINITE)
    return F.when(kept | text.isNull(), text).when(bare.rlike(f"^{number_form(decimal, thousands)}$"), made).otherwise(F.lit("?"))


def decoded(latin: Column, options: Mapping[str, str]) -> Column:
    """The text whose bytes were read as the characters of ISO-8859-1; bytes that the encoding does not have stay, or are ``BAD``."""
    encoding = encoding_of(options)
    if encoding == "utf-8":
        return F.encode(latin, "ISO-8859-1").cast("string")
    return latin if encoding == "iso-8859-1" else F.translate(latin, _HIGH, upper_half(encoding))


def undecodable(text: Column, options: Mapping[str, str], exactly: bool = True) -> Column:
    """Whether the source's bytes were no text in its encoding. Not ``exactly``: ``text`` has ``BAD`` for such."""
    return ~F.is_valid_utf8(text) if exactly and encoding_of(options) == "utf-8" else text.contains(BAD)


def with_bytes(latin: Column) -> Column:
    r"""A text whose bytes were read as ISO-8859-1, all but those of ASCII as ``\xNN``."""

    def shown(c: Column) -> Column:
        return F.when(F.ascii(c) > 127, F.concat(F.lit("\\x"), F.hex(F.ascii(c)))).otherwise(c)

    return F.array_join(F.transform(F.split(latin, ""), shown), "")
