"""Entries of equal sets, similarity, ``where`` and ``between`` share a state.

A predicate restricts candidates, a bound only cuts a result.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast

from skyband.framework.plan.drafts import Context, QueryEntry, share
from skyband.framework.plan.model import TOKENS
from skyband.framework.queries.pair_rows.compile import side_texts, sides, sides_key
from skyband.framework.queries.set_pairs.model import SetPairs
from skyband.operators.base import Window
from skyband.operators.expressions.ast import Node
from skyband.operators.set_index.functions import DISTANCES


@dataclass(frozen=True, slots=True)
class _Key:
    """What queries must have in common to share a state."""

    tokens: str
    similarity: str
    where: str | None
    between: tuple[str, str, str] | None


@dataclass(frozen=True, slots=True)
class Shared:
    """Entries that share a state. ``window``: the union of theirs."""

    entries: tuple[QueryEntry, ...]
    queries: tuple[SetPairs, ...]
    where: Node | None
    window: Window

    @property
    def direction(self) -> Literal["min", "max"]:
        """Which scores rank first."""
        return "min" if self.queries[0].similarity in DISTANCES else "max"

    @property
    def texts(self) -> tuple[str, ...]:
        """The text constants."""
        from skyband.operators.expressions.canonical import text_constants

        of_where = text_constants(self.where) if self.where is not None else ()
        return (*of_where, *side_texts(self.queries[0].between))

    def configuration(self, context: Context, texts: tuple[str, ...]) -> dict[str, Any]:
        """The operator's configuration but for its queries."""
        first = self.queries[0]
        return {
            "tokens": TOKENS + first.tokens, "similarity": first.similarity, "where": self.where, "between": sides(context, first.between),
            "window": self.window, "texts": texts,
        }  # fmt: skip


def shared(context: Context, entries: Sequence[QueryEntry]) -> Iterable[Shared]:
    """The entries by state."""
    from skyband.operators.expressions.canonical import canonical
    from skyband.operators.expressions.parser import parse

    wheres: dict[str, Node] = {}

    def key(m: QueryEntry) -> _Key:
        query = cast(SetPairs, m.query)
        where = parse(query.where, context.kinds, ("a", "b"), "predicate") if query.where is not None else None
        if where is not None:
            wheres.setdefault(canonical(where), where)
        return _Key(query.tokens, query.similarity, canonical(where) if where is not None else None, sides_key(query.between))

    for k, group in share(entries, key):
        queries = tuple(cast(SetPairs, m.query) for m in group)
        yield Shared(group, queries, wheres[k.where] if k.where is not None else None, Window.union(m.window for m in group))
