"""Entries of equal scoring, direction, ``where`` and ``between`` share a state.

A predicate restricts candidates, so a skyband built without it has pruned what it needs: states are shared only if these are equal.
A bound on the better side of the score (``min_score`` for direction min) is such a predicate; one on the worse side only cuts a result.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, cast

from skyband.framework.plan.drafts import Context, QueryEntry, share
from skyband.framework.queries.pair_rows.compile import side_texts, sides, sides_key
from skyband.framework.queries.pair_rows.model import Between
from skyband.framework.spec.expressions.scoring import scoring_text
from skyband.operators.base import Window
from skyband.operators.expressions.ast import Node


class ScoredQuery(Protocol):
    """The fields of an entry that decide what it shares."""

    @property
    def scoring(self) -> str | None:
        """Return the name of the scoring function."""
        ...

    @property
    def where(self) -> str | None:
        """Return the condition."""
        ...

    @property
    def between(self) -> Between | None:
        """Return the sides."""
        ...

    @property
    def min_score(self) -> float | None:
        """Return the smallest score."""
        ...

    @property
    def max_score(self) -> float | None:
        """Return the largest score."""
        ...


@dataclass(frozen=True, slots=True)
class _Key:
    """What queries must have in common to share a state."""

    score: str
    direction: Literal["min", "max"]
    where: str | None
    between: tuple[str, str, str] | None
    best: float | None
    more: Hashable


@dataclass(frozen=True, slots=True)
class Shared:
    """Entries that share a state. ``window``: the union of theirs; ``more``: what else they have in common."""

    entries: tuple[QueryEntry, ...]
    score: Node
    direction: Literal["min", "max"]
    where: Node | None
    between: Between | None
    window: Window
    more: Any

    @property
    def texts(self) -> tuple[str, ...]:
        """The text constants."""
        from skyband.operators.expressions.canonical import text_constants

        of_where = text_constants(self.where) if self.where is not None else ()
        return (*text_constants(self.score), *of_where, *side_texts(self.between))

    def configuration(self, context: Context, texts: tuple[str, ...]) -> dict[str, Any]:
        """The operator's configuration but for its queries."""
        return {
            "scoring": self.score, "direction": self.direction, "where": self.where, "between": sides(context, self.between),
            "window": self.window, "texts": texts, "deletes": context.deletes,
        }  # fmt: skip


def shared(context: Context, entries: Sequence[QueryEntry], more: Callable[[Any], Hashable] = lambda _: None) -> Iterable[Shared]:
    """The entries by state; ``more``: what queries must have in common besides."""
    from skyband.operators.expressions.canonical import canonical
    from skyband.operators.expressions.parser import parse

    scores: dict[str, Node] = {}
    wheres: dict[str, Node] = {}

    def key(m: QueryEntry) -> _Key:
        query = cast(ScoredQuery, m.query)
        scoring = context.scoring(str(query.scoring))
        score = parse(scoring_text(scoring), context.pair_kinds, ("a", "b"), "score")
        scores.setdefault(canonical(score), score)
        where = parse(query.where, context.pair_kinds, ("a", "b"), "predicate") if query.where is not None else None
        if where is not None:
            wheres.setdefault(canonical(where), where)
        best = query.min_score if scoring.direction == "min" else query.max_score
        condition = canonical(where) if where is not None else None
        return _Key(canonical(score), scoring.direction, condition, sides_key(query.between), best, more(m.query))

    for k, group in share(entries, key):
        where = wheres[k.where] if k.where is not None else None
        between = cast(ScoredQuery, group[0].query).between
        yield Shared(group, scores[k.score], k.direction, where, between, Window.union(m.window for m in group), k.more)
