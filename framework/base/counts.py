"""Numbers in messages and tables for people: counts with their nouns, ``1 row``, ``1,234 rows``, and values, exactly: ``1,606,064.25``."""

from __future__ import annotations

from decimal import Decimal


def counted(n: int, noun: str, plural: str | None = None) -> str:
    """Return ``n`` with its noun; the default ``plural`` adds an ``s``. O(1)."""
    return f"{n:,} {noun if n == 1 else plural or f'{noun}s'}"


def agree(n: int, one: str, many: str) -> str:
    """Return the word that agrees with ``n``: ``agree(n, "is", "are")``. O(1)."""
    return one if n == 1 else many


def number_text(value: float | Decimal) -> str:
    """Return a number of a table as people read it: exactly, with separators of thousands.

    A float is the shortest text that reads back as the same float, without the separators; a decimal has all digits of its scale. A whole
    number has no separators, as it may be an id or a year.
    """
    if isinstance(value, int):
        return str(value)
    text = f"{value:f}" if isinstance(value, Decimal) else repr(value).removesuffix(".0")
    whole, point, fraction = text.partition(".")
    sign, digits = ("-", whole[1:]) if whole.startswith("-") else ("", whole)
    return f"{sign}{int(digits):,}{point}{fraction}" if digits.isdigit() else text
