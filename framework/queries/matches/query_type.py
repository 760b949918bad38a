"""Matches: for every arriving row the k best older ones, by the similarity of their sets or by a score of both rows, reported once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path as FilePath
from typing import TYPE_CHECKING, Any, ClassVar, Literal, cast

from pydantic import ConfigDict, Field

from skyband.framework.base.items import ItemShape
from skyband.framework.base.units import Name, Number
from skyband.framework.plan.drafts import Context, OperatorDraft, QueryEntry
from skyband.framework.plan.model import OperatorNode, QueryNode
from skyband.framework.queries.models import K, QueryModel
from skyband.framework.queries.pair_rows.model import Between, pair_of
from skyband.framework.queries.protocol import FOLLOWING, QueryType, Question
from skyband.framework.queries.read_columns import node_columns
from skyband.framework.queries.scored_pairs import scored_pairs_type as scored
from skyband.framework.queries.scored_pairs.scored_pairs_type import check_scored_pairs, facts_of_scored_pairs, why_with_index
from skyband.framework.queries.set_pairs import set_pairs_type as sets
from skyband.framework.queries.set_pairs.set_pairs_type import FORMULAS, check_set_pairs, facts_of_set_pairs
from skyband.framework.spec.checks.scope import PAIR_SIDES, Scope
from skyband.framework.spec.parsing.document import Path
from skyband.operators.base import Operator
from skyband.operators.set_index.functions import Similarity

if TYPE_CHECKING:
    from skyband.framework.verify.brute_force.objects import Found


# The entry of a spec: for every arriving row the k best older ones, by their sets of tokens or by a score of both rows.


class Matches(QueryModel):
    """For every row, once, at its arrival: the k best rows of the window before it, by a score of both or how similar their sets are."""

    model_config = ConfigDict(json_schema_extra={"oneOf": [{"required": ["scoring"]}, {"required": ["tokens"]}]})

    type: Literal["matches"]
    scoring: Name | None = Field(default=None, description="Name of a scoring function of two rows.")
    tokens: Name | None = Field(default=None, description="Instead of scoring: name of the sets under 'tokens:'.")
    similarity: Similarity = Field(default="jaccard", description=f"With tokens. {FORMULAS}")
    between: Between | None = Field(default=None, description="Pair only rows of two sides.")
    k: K = Field(description="How many older rows at most.")
    min_score: Number | None = Field(default=None, description="Only pairs with at least this score, or at least this similar.")
    max_score: Number | None = Field(default=None, description="Only pairs with at most this score; of tokens, with hamming only.")
    every: ClassVar[None] = None  # type: ignore[misc]
    """No field of this type: what is reported once, at an arrival, has no boundaries."""


# The two forms of an entry and of its operator: by the similarity of sets of tokens, or by a score.


def of_sets(node: OperatorNode) -> bool:
    """Return True if the operator matches sets of tokens."""
    return hasattr(node.inner, "similarity")


# Entries to operators: one for all that share a state, which is the window alone, and an index of its sets for entries about sets.

_WHY_SETS = "lists of the sets that hold a token; an arrival looks for its own, and what was reported is not kept"
_WHY_SETS_DELETES = f"{_WHY_SETS}; deleted rows stay in the lists until they leave the window"
_WHY_SCORED = "an arrival is scored with the older rows of the window, and what was reported is not kept"


def compile_matches(context: Context, entries: Sequence[QueryEntry]) -> Iterable[OperatorDraft]:
    """Drafts of ``Matches`` operators, for entries with ``tokens``, and of ``ScoredMatches`` operators, for those with ``scoring``."""
    for group in sets.shared(context, [m for m in entries if _query(m).tokens is not None]):
        yield _draft(context, group)
    for pairs in scored.shared(context, [m for m in entries if _query(m).tokens is None]):
        yield _draft(context, pairs)


def _query(entry: QueryEntry) -> Matches:
    return cast(Matches, entry.query)


def _draft(context: Context, group: sets.Shared | scored.Shared) -> OperatorDraft:
    are_sets = isinstance(group, sets.Shared)

    def build(texts: tuple[str, ...]) -> Operator:
        from skyband.operators.matches.operator import Matches, ScoredMatches
        from skyband.operators.pair_rows.queries import PairQuery

        asked = tuple(PairQuery(m.name, q.k, m.window, q.min_score, q.max_score) for m, q in zip(group.entries, queries, strict=True))
        kind = Matches if are_sets else ScoredMatches
        return cast(Operator, kind(**group.configuration(context, texts), queries=asked))

    queries = [_query(m) for m in group.entries]
    why_sets = _WHY_SETS_DELETES if context.deletes else _WHY_SETS
    largest, why = max(q.k for q in queries), why_sets if isinstance(group, sets.Shared) else why_with_index(_WHY_SCORED, group.where)
    return OperatorDraft(group.entries, largest, group.window, group.direction, group.texts, build, why, skyband=False)


class MatchesType(QueryType):
    """See ``protocol.QueryType``."""

    name = "matches"
    model = Matches
    example = (FilePath(__file__).parent / "example.yaml").read_text(encoding="utf-8")
    sides = PAIR_SIDES
    windows = FOLLOWING
    shows_k = False
    takes_deletions = True
    shares = "scoring and direction (or tokens and similarity), where and between"

    def item(self, query: Matches) -> ItemShape:
        """A pair, which is not kept after it is reported."""
        return replace(pair_of(query.between), lasting=False)

    def check(self, scope: Scope, path: Path, query: Matches) -> None:
        """Check that the entry has one of the two forms, and what all entries of that form have in common."""
        doc = scope.doc
        if query.scoring is not None and query.tokens is not None:
            doc.add("SKY-E117", "a matches query has either scoring or tokens", doc.where_key((*path, "tokens")), "remove one of them")
        elif query.tokens is not None:
            _positive_bounds(scope, path, query)
            check_set_pairs(scope, path, query)
        elif query.scoring is not None:
            default = type(query).model_fields["similarity"].default  # what `render` writes for queries with a score, too
            if query.similarity != default and not doc.bad((*path, "similarity")):
                said = "similarity compares sets of tokens, not scores"
                doc.add("SKY-E117", said, doc.where_key((*path, "similarity")), "remove it, or use tokens instead of scoring")
            check_scored_pairs(scope, path, query)
        elif not doc.bad((*path, "scoring")) and not doc.bad((*path, "tokens")):
            said = "a matches query needs scoring or tokens"
            doc.add("SKY-E111", said, doc.where_key(path), "scoring: the name of a scoring function, or tokens: the name of sets")

    def compile(self, context: Context, entries: Sequence[QueryEntry]) -> Iterable[OperatorDraft]:
        """See ``compile``."""
        return compile_matches(context, entries)

    def value_columns(self, node: OperatorNode, query: QueryNode) -> tuple[str, ...]:
        """Return the sets, or what scores are computed from."""
        operator: Any = node.inner
        return (operator.tokens,) if of_sets(node) else node_columns(operator.scoring)

    def facts(self, node: OperatorNode, queries: Sequence[QueryNode]) -> list[tuple[str, str]]:
        """Return the score or the similarity, the condition and the sides."""
        return facts_of_set_pairs(node) if of_sets(node) else facts_of_scored_pairs(node)

    def brute_force(self, question: Question) -> Found | None:
        """See ``brute_force``."""
        from skyband.framework.queries.matches.brute_force import reported

        return reported(question, of_sets(question.plan.operators[question.query.operator]))

    def scores(self, question: Question, items: Sequence[tuple[Any, ...]]) -> list[float] | None:
        """See ``protocol.QueryType``."""
        from skyband.framework.queries.matches.brute_force import comparing
        from skyband.framework.queries.pair_rows.brute_force import item_scores

        return item_scores(question, items, comparing(question, of_sets(question.plan.operators[question.query.operator])))


def _positive_bounds(s: Scope, path: Path, query: Matches) -> None:
    """Check that bounds of a similarity are numbers that a similarity can have."""
    for field, wrong, words in (
        ("min_score", query.min_score is not None and query.min_score <= 0, "more than 0"),
        ("max_score", query.max_score is not None and query.max_score < 0, "at least 0"),
    ):
        at = (*path, field)
        if wrong and not s.doc.bad(at):
            s.doc.add("SKY-E114", f"{'.'.join(map(str, at))} of sets must be {words}", s.doc.where_value(at))


QUERY_TYPE = MatchesType()
