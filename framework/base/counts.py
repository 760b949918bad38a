"""Counts with their nouns, as messages have them: ``1 row``, ``1,234 rows``."""

from __future__ import annotations


def counted(n: int, noun: str, plural: str | None = None) -> str:
    """``n`` and its noun, whose ``plural`` is that with an ``s`` if nothing else is said. O(1)."""
    return f"{n:,} {noun if n == 1 else plural or f'{noun}s'}"


def agree(n: int, one: str, many: str) -> str:
    """The word that agrees with ``n``: ``agree(n, "is", "are")``. O(1)."""
    return one if n == 1 else many
