"""What can be wrong with an entry: its sets, its bound, its sides, a window too small for a pair."""

from __future__ import annotations

from skyband.framework.base.errors import did_you_mean, one_of
from skyband.framework.queries.pair_rows.check import check_between, check_room
from skyband.framework.queries.set_pairs.model import SetPairs
from skyband.framework.spec.checks.scope import Scope
from skyband.framework.spec.parsing.document import Path
from skyband.operators.set_index.functions import AT_MOST_ONE, DISTANCES


def check(s: Scope, path: Path, query: SetPairs) -> None:
    """Note everything that is wrong with the entry at ``path``."""
    _check_tokens(s, (*path, "tokens"), query.tokens)
    if not s.doc.bad((*path, "similarity")):
        wrong, right = ("min_score", "max_score") if query.similarity in DISTANCES else ("max_score", "min_score")
        if getattr(query, wrong) is not None and not s.doc.bad((*path, wrong)):
            kind = "a distance: the smallest rank first" if query.similarity in DISTANCES else "a similarity: the largest rank first"
            said = f"{query.similarity} is {kind}, {wrong} does not bound it"
            s.doc.add("SKY-E117", said, s.doc.where_key((*path, wrong)), f"use {right}")
    if query.min_score is not None and query.min_score > 1 and query.similarity in AT_MOST_ONE and not s.doc.bad((*path, "min_score")):
        s.doc.add("SKY-E114", f"no {query.similarity} similarity is larger than 1", s.doc.where_value((*path, "min_score")))
    if query.between is not None:
        check_between(s, (*path, "between"), query.between)
    check_room(s, path, query)


def _check_tokens(s: Scope, at: Path, name: str) -> None:
    named = s.doc.data.get("tokens")
    known = [str(n) for n in named] if isinstance(named, dict) else list(s.job.tokens)
    if name in known or s.doc.bad(at) or s.doc.bad(("tokens",)):
        return
    hint = did_you_mean(name, known) or (f"sets: {one_of(known)}" if known else f"add it: tokens: {{{name}: {{column: ...}}}}")
    s.doc.add("SKY-E127", f"no sets called '{name}' under 'tokens:'", s.doc.where_value(at), hint)
