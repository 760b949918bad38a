"""What query types about pairs of rows with a score have in common."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, cast

from pydantic import Field

from skyband.framework.base.items import ItemShape
from skyband.framework.base.units import Name, Number
from skyband.framework.plan.drafts import Context, QueryEntry, share
from skyband.framework.plan.explain_parts import canonical_text
from skyband.framework.plan.model import OperatorNode, QueryNode
from skyband.framework.queries.checks import bounds_in_order, uses_scoring
from skyband.framework.queries.models import QueryModel
from skyband.framework.queries.pair_rows.compile import side_texts, sides, sides_key
from skyband.framework.queries.pair_rows.model import Between, check_between, check_room, pair_of
from skyband.framework.queries.protocol import FOLLOWING, HOPPING, QueryType, Question, closing
from skyband.framework.queries.read_columns import node_columns
from skyband.framework.spec.checks.scope import PAIR_SIDES, Scope
from skyband.framework.spec.expressions.scoring import scoring_text
from skyband.framework.spec.parsing.document import Path
from skyband.operators.base import Window
from skyband.operators.expressions.ast import Node


def check_scored_pairs(scope: Scope, path: Path, query: Any) -> None:
    """Check the scoring function, bounds and sides, and that the window has room for a pair."""
    uses_scoring(scope, path, query, query.scoring, PAIR_SIDES)
    bounds_in_order(scope, path, query.min_score, query.max_score)
    if query.between is not None:
        check_between(scope, (*path, "between"), query.between)
    check_room(scope, path, query)


def facts_of_scored_pairs(node: OperatorNode) -> list[tuple[str, str]]:
    """Return the score, the condition, the sides, and whether bounds exclude partners, for ``explain``."""
    op: Any = node.inner
    shown = [("score", f"{canonical_text(op.scoring)} ({node.direction} first)")]
    shown += [("where", canonical_text(op.where))] if op.where is not None else []
    shown += [("between", f"{op.between.column}: {op.between.a!r} and {op.between.b!r}")] if op.between is not None else []
    skips = "yes: groups of rows of a large window whose scores cannot matter are skipped (zone maps)"
    which = "with equal columns" if op.equalities else "in the window"
    return [*shown, ("bounds", skips if op.has_bounds else f"none: every partner {which} is scored")]


def why_with_index(why: str, where: Node | None, fills_up: bool = False) -> str:
    """Return why an operator is used, and how it finds partners by equal columns. ``fills_up``: its reserves are filled again by scans."""
    from skyband.operators.pair_rows.hash_index.equalities import conjuncts, equality, without_index

    by = " and ".join(canonical_text(part) for part in conjuncts(where) if equality(part) is not None)
    said = [f"partners come from a hash index by {by}, and from a scan where it does not pay"] if by else []
    said += ["reserves fill up by scans"] if by and fills_up else []
    said += [f"{canonical_text(part)} has no index, as it compares more than columns" for part in without_index(where)]
    return "; ".join([why, *said])


class ScoredPairsType(QueryType):
    """See ``protocol.QueryType``. Its model is a ``ScoredPairs``."""

    sides = PAIR_SIDES
    windows = FOLLOWING | HOPPING

    def item(self, query: Any) -> ItemShape:
        """Two rows, by age or by side."""
        return closing(pair_of(query.between), query.window)

    def check(self, scope: Scope, path: Path, query: Any) -> None:
        """See ``check_scored_pairs``."""
        check_scored_pairs(scope, path, query)

    def value_columns(self, node: OperatorNode, query: QueryNode) -> tuple[str, ...]:
        """Return what scores are computed from."""
        operator: Any = node.inner
        return node_columns(operator.scoring)

    def facts(self, node: OperatorNode, queries: Sequence[QueryNode]) -> list[tuple[str, str]]:
        """See ``facts_of_scored_pairs``."""
        return facts_of_scored_pairs(node)

    def scores(self, question: Question, items: Sequence[tuple[Any, ...]]) -> list[float] | None:
        """See ``protocol.QueryType``."""
        from skyband.framework.queries.pair_rows.brute_force import item_scores
        from skyband.framework.queries.scored_pairs.brute_force import comparing

        return item_scores(question, items, comparing(question))


# Entries of equal scoring, direction, ``where`` and ``between`` share a state.
#
# A predicate restricts candidates, so a skyband built without it has pruned what it needs: states are shared only if these are equal.
# A bound on the better side of the score (``min_score`` for direction min) is such a predicate; one on the worse side only cuts a result.


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


# What entries about pairs of rows with a score have in common.


class ScoredPairs(QueryModel):
    """Pairs of rows by a score of both."""

    scoring: Name = Field(description="Name of a scoring function.")
    between: Between | None = Field(default=None, description="Pair only rows of two sides.")
    min_score: Number | None = Field(default=None, description="Only pairs with at least this score.")
    max_score: Number | None = Field(default=None, description="Only pairs with at most this score.")
