"""Matches: for every arriving row the k older ones whose sets of tokens are most similar to its own, reported once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path as FilePath
from typing import TYPE_CHECKING, Any

from skyband.framework.base.items import ItemShape
from skyband.framework.plan.drafts import Context, OperatorDraft, QueryEntry
from skyband.framework.queries.matches.compile import compile_sets
from skyband.framework.queries.matches.model import Matches
from skyband.framework.queries.protocol import Question
from skyband.framework.queries.set_pairs.set_pairs_type import SetPairsType

if TYPE_CHECKING:
    from skyband.framework.verify.brute_force.objects import Found


class MatchesType(SetPairsType):
    """See ``protocol.QueryType``."""

    name = "matches"
    model = Matches
    example = (FilePath(__file__).parent / "example.yaml").read_text(encoding="utf-8")
    shows_k = False

    def item(self, query: Any) -> ItemShape:
        """A pair, which is not kept after it is reported."""
        return replace(super().item(query), lasting=False)

    def compile(self, context: Context, entries: Sequence[QueryEntry]) -> Iterable[OperatorDraft]:
        """See ``compile``."""
        return compile_sets(context, entries)

    def brute_force(self, question: Question) -> Found | None:
        """See ``brute_force``."""
        from skyband.framework.queries.matches.brute_force import reported

        return reported(question)


QUERY_TYPE = MatchesType()
