"""What can be wrong with an entry: what all pairs of sets have in common, and a bound that is missing."""

from __future__ import annotations

from skyband.framework.queries.set_pairs.check import check as check_sets
from skyband.framework.queries.similar_sets.model import SimilarSets
from skyband.framework.spec.checks.scope import Scope
from skyband.framework.spec.parsing.document import Path
from skyband.operators.set_index.functions import DISTANCES


def check(s: Scope, path: Path, query: SimilarSets) -> None:
    """Note everything that is wrong with the entry at ``path``."""
    check_sets(s, path, query)
    if query.min_score is None and query.max_score is None and not s.doc.bad_below(path):
        bound = "max_score" if query.similarity in DISTANCES else "min_score"
        s.doc.add(
            "SKY-E111", f"a query of this type needs {bound}", s.doc.where_key(path), f"how similar must a pair be? such as {bound}: 0.8"
        )
