"""Entries of equal sets, similarity, ``where`` and ``between`` share a state.

A predicate restricts candidates, a bound only cuts a result.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, cast

from skyband.framework.plan.drafts import Context, QueryEntry, share
from skyband.framework.queries.pair_rows.compile import side_texts, sides, sides_key
from skyband.framework.queries.pair_rows.model import Between
from skyband.operators.base import TOKENS, Window
from skyband.operators.expressions.ast import Node
from skyband.operators.set_index.functions import DISTANCES, Similarity


class SetQuery(Protocol):
    """The fields of an entry that its state needs."""

    @property
    def tokens(self) -> str | None:
        """Return the name of the sets."""
        ...

    @property
    def similarity(self) -> Similarity:
        """Return the similarity."""
        ...

    @property
    def where(self) -> str | None:
        """Return the condition."""
        ...

    @property
    def between(self) -> Between | None:
        """Return the sides."""
        ...


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
    queries: tuple[SetQuery, ...]
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
            "tokens": TOKENS + str(first.tokens), "similarity": first.similarity, "where": self.where,
            "between": sides(context, first.between), "window": self.window, "texts": texts, "deletes": context.deletes,
        }  # fmt: skip


def shared(context: Context, entries: Sequence[QueryEntry]) -> Iterable[Shared]:
    """The entries by state."""
    from skyband.operators.expressions.canonical import canonical
    from skyband.operators.expressions.parser import parse

    wheres: dict[str, Node] = {}

    def key(m: QueryEntry) -> _Key:
        query = cast(SetQuery, m.query)
        where = parse(query.where, context.pair_kinds, ("a", "b"), "predicate") if query.where is not None else None
        if where is not None:
            wheres.setdefault(canonical(where), where)
        return _Key(str(query.tokens), query.similarity, canonical(where) if where is not None else None, sides_key(query.between))

    for k, group in share(entries, key):
        queries = tuple(cast(SetQuery, m.query) for m in group)
        yield Shared(group, queries, wheres[k.where] if k.where is not None else None, Window.union(m.window for m in group))
