"""Texts for changes and items in the messages of ``contract``, and sortable forms for comparing them."""

from __future__ import annotations

from typing import Any

from skyband.operators.base import CAUSES, Changes, Items

Item = tuple[int, ...]
"""The seqs of an item's rows, or the numbers of its objects."""


def row_of(c: Changes, i: int) -> str:
    """Return a change as text."""
    sign = "+" if c.sign[i] > 0 else "-"
    cause = CAUSES[c.cause[i]] if 0 <= c.cause[i] < len(CAUSES) else f"cause {c.cause[i]}"
    return (
        f"query {c.query[i]} key {c.key[i]} at {c.at[i]} step {c.step[i]} pos {c.pos[i]}: "
        f"{sign} {tuple(c.items[i].tolist())} {float(c.score[i])!r} ({cause})"
    )


def instant_of(wake: int | None) -> str:
    """Return the result of ``wake`` as text."""
    return "never" if wake is None else str(wake)


def items_of(found: Items) -> list[tuple[int, Item]]:
    """Return (key, seqs) of every item."""
    return list(zip(found.key.tolist(), map(tuple, found.items.tolist()), strict=True))


def bytes_of(found: Items) -> list[tuple[Any, ...]]:
    """Return the rows of a skyband in a canonical order."""
    extra = [found.extra[name].tolist() for name in sorted(found.extra)]
    return sorted(zip(items_of(found), (s.tobytes() for s in found.score), *extra, strict=True))
