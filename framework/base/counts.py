"""Counts with their nouns for messages: ``1 row``, ``1,234 rows``."""

from __future__ import annotations


def counted(n: int, noun: str, plural: str | None = None) -> str:
    """Return ``n`` with its noun; the default ``plural`` adds an ``s``. O(1)."""
    return f"{n:,} {noun if n == 1 else plural or f'{noun}s'}"


def agree(n: int, one: str, many: str) -> str:
    """Return the word that agrees with ``n``: ``agree(n, "is", "are")``. O(1)."""
    return one if n == 1 else many
