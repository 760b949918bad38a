"""What ``contract`` says of changes and items, and how it compares them."""

from __future__ import annotations

from typing import Any

from skyband.operators.base import CAUSES, Changes, Items

Item = tuple[int, ...]
"""The seqs of an item's objects, or numbers of what rows report on."""


def row_of(c: Changes, i: int) -> str:
    """A change in words."""
    sign = "+" if c.sign[i] > 0 else "-"
    cause = CAUSES[c.cause[i]] if 0 <= c.cause[i] < len(CAUSES) else f"cause {c.cause[i]}"
    return (
        f"query {c.query[i]} key {c.key[i]} at {c.at[i]} step {c.step[i]} pos {c.pos[i]}: "
        f"{sign} {tuple(c.items[i].tolist())} {float(c.score[i])!r} ({cause})"
    )


def instant_of(wake: int | None) -> str:
    """An instant at which a logic wants to wake, in words."""
    return "never" if wake is None else str(wake)


def items_of(found: Items) -> list[tuple[int, Item]]:
    """(key, seqs) of every item."""
    return list(zip(found.key.tolist(), map(tuple, found.items.tolist()), strict=True))


def bytes_of(found: Items) -> list[tuple[Any, ...]]:
    """All of a skyband, in an order that does not depend on the one it came in."""
    extra = [found.extra[name].tolist() for name in sorted(found.extra)]
    return sorted(zip(items_of(found), (s.tobytes() for s in found.score), *extra, strict=True))
