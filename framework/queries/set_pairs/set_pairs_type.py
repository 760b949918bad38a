"""What query types about pairs of sets have in common."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, Protocol, cast

from pydantic import Field

from skyband.framework.base.errors import did_you_mean, one_of
from skyband.framework.base.items import ItemShape
from skyband.framework.base.units import NUMBER, Name
from skyband.framework.plan.drafts import Context, QueryEntry, share
from skyband.framework.plan.explain_parts import canonical_text
from skyband.framework.plan.model import OperatorNode, QueryNode
from skyband.framework.queries.models import QueryModel
from skyband.framework.queries.pair_rows.compile import side_texts, sides, sides_key
from skyband.framework.queries.pair_rows.model import Between, check_between, check_room, pair_of
from skyband.framework.queries.protocol import FOLLOWING, HOPPING, QueryType, Question, closing
from skyband.framework.spec.checks.scope import PAIR_SIDES, Scope
from skyband.framework.spec.parsing.document import Path
from skyband.operators.base import TOKENS, Window
from skyband.operators.expressions.ast import Node
from skyband.operators.set_index.functions import AT_MOST_ONE, DISTANCES, Similarity

if TYPE_CHECKING:
    from skyband.framework.verify.brute_force.objects import Found


def check_set_pairs(scope: Scope, path: Path, query: Any) -> None:
    """Check the sets, the bound and the sides, and that the window has room for a pair."""
    _check_tokens(scope, (*path, "tokens"), query.tokens)
    if not scope.doc.bad((*path, "similarity")):
        _check_bound(scope, path, query)
    too_large = query.min_score is not None and query.min_score > 1 and query.similarity in AT_MOST_ONE
    if too_large and not scope.doc.bad((*path, "min_score")):
        said = f"no {query.similarity} similarity is larger than 1"
        scope.doc.add("SKY-E114", said, scope.doc.where_value((*path, "min_score")))
    if query.between is not None:
        check_between(scope, (*path, "between"), query.between)
    check_room(scope, path, query)


def facts_of_set_pairs(node: OperatorNode) -> list[tuple[str, str]]:
    """Return the similarity, the condition and the sides, for ``explain``."""
    op: Any = node.inner
    facts = [("similarity", f"{op.similarity} of {op.tokens.removeprefix(TOKENS)}")]
    facts += [("where", canonical_text(op.where))] if op.where is not None else []
    facts += [("between", f"{op.between.column}: {op.between.a!r} and {op.between.b!r}")] if op.between is not None else []
    return facts


class SetPairsType(QueryType):
    """See ``protocol.QueryType``. Its model is a ``SetPairs``."""

    sides = PAIR_SIDES
    windows = FOLLOWING | HOPPING
    shares = "tokens, similarity, where and between"
    takes_deletions = True

    def item(self, query: Any) -> ItemShape:
        """Two rows, by age or by side."""
        return closing(pair_of(query.between), query.window)

    def check(self, scope: Scope, path: Path, query: Any) -> None:
        """See ``check_set_pairs``."""
        check_set_pairs(scope, path, query)

    def value_columns(self, node: OperatorNode, query: QueryNode) -> tuple[str, ...]:
        """Return the sets."""
        operator: Any = node.inner
        return (operator.tokens,)

    def facts(self, node: OperatorNode, queries: Sequence[QueryNode]) -> list[tuple[str, str]]:
        """See ``facts_of_set_pairs``."""
        return facts_of_set_pairs(node)

    def brute_force(self, question: Question) -> Found | None:
        """See ``brute_force``."""
        from skyband.framework.queries.set_pairs.brute_force import most_similar

        return most_similar(question)

    def scores(self, question: Question, items: Sequence[tuple[Any, ...]]) -> list[float] | None:
        """See ``protocol.QueryType``."""
        from skyband.framework.queries.pair_rows.brute_force import item_scores
        from skyband.framework.queries.set_pairs.brute_force import comparing

        return item_scores(question, items, comparing(question))


def _check_bound(s: Scope, path: Path, query: Any) -> None:
    wrong, right = ("min_score", "max_score") if query.similarity in DISTANCES else ("max_score", "min_score")
    if getattr(query, wrong) is not None and not s.doc.bad((*path, wrong)):
        kind = "a distance: the smallest rank first" if query.similarity in DISTANCES else "a similarity: the largest rank first"
        said = f"{query.similarity} is {kind}, {wrong} does not bound it"
        s.doc.add("SKY-E117", said, s.doc.where_key((*path, wrong)), f"use {right}")


def _check_tokens(s: Scope, at: Path, name: str) -> None:
    named = s.doc.data.get("tokens")
    known = [str(n) for n in named] if isinstance(named, dict) else list(s.job.tokens)
    if name in known or s.doc.bad(at) or s.doc.bad(("tokens",)):
        return
    hint = did_you_mean(name, known) or (f"sets: {one_of(known)}" if known else f"add it: tokens: {{{name}: {{column: ...}}}}")
    s.doc.add("SKY-E127", f"no sets called '{name}' under 'tokens:'", s.doc.where_value(at), hint)


# Entries of equal sets, similarity, ``where`` and ``between`` share a state.
#
# A predicate restricts candidates, a bound only cuts a result.


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


# What entries about pairs of sets have in common.

FORMULAS: Final = (
    "Of sets of a and b tokens, o in common: jaccard o/(a+b-o), cosine sqrt(o*o/(a*b)), dice 2o/(a+b), overlap o; "
    "hamming, a distance: a+b-2o."
)
"""What the similarities are."""


class SetPairs(QueryModel):
    """Pairs of sets by how similar they are."""

    tokens: Name = Field(description="Name of the sets under 'tokens:'.")
    similarity: Similarity = Field(
        default="jaccard",
        description=FORMULAS,
    )
    between: Between | None = Field(default=None, description="Pair only rows of two sides.")
    min_score: Annotated[float, Field(gt=0), NUMBER] | None = Field(default=None, description="Only pairs at least this similar.")
    max_score: Annotated[float, Field(ge=0), NUMBER] | None = Field(default=None, description="hamming: only pairs at most this far apart.")
