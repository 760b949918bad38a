"""Operators of similar sets: what shards and a merge say is what the operator says."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from skyband.operators.base import Window
from skyband.operators.contract import random_rows
from skyband.operators.expressions import parse
from skyband.operators.matches.operator import Matches
from skyband.operators.pair_rows.queries import Between, BoundedPairQuery, PairQuery
from skyband.operators.shards import BLOCK, Shardable
from skyband.operators.similar_sets.operator import SimilarSets
from skyband.operators.topk_similar_sets.operator import TopKSimilarSets
from tests.operators.sharded import SHARDS, cuts_of, plain_changes, sharded_changes

SHORT, LONG, TIMED = Window(6, 9), Window(2 * BLOCK), Window(None, 30)
OTHER_GROUP = parse("a.g <> b.g", {"g": "int"})


def operators() -> dict[str, Any]:
    """One of every form, with windows within a block and longer ones."""
    sides: dict[str, Any] = {"tokens": "t", "between": Between("side", "l", "r"), "texts": ("l", "r")}
    return {
        "matches": Matches(
            tokens="t", similarity="jaccard", window=LONG, where=OTHER_GROUP,
            queries=(PairQuery("one", 1, LONG), PairQuery("few", 3, Window(5), min_score=0.5)),
        ),
        "matches, sides": Matches(**sides, similarity="hamming", window=SHORT, queries=(PairQuery("two", 2, SHORT),)),
        "best": TopKSimilarSets(
            tokens="t", similarity="jaccard", window=LONG, keep_k=4,
            queries=(PairQuery("q", 4, LONG), PairQuery("near", 1, Window(9), min_score=0.5), PairQuery("then", 2, LONG, every_micros=4)),
        ),
        "best, sides": TopKSimilarSets(
            **sides, similarity="cosine", window=Window(99, 30), keep_k=2, queries=(PairQuery("two", 2, Window(50, 20)),),
        ),
        "many": TopKSimilarSets(
            tokens="t", similarity="dice", window=LONG, keep_k=BLOCK + 1, queries=(PairQuery("q", BLOCK + 1, LONG),),
        ),
        "best by distance": TopKSimilarSets(
            tokens="t", similarity="hamming", window=SHORT, where=OTHER_GROUP, keep_k=3, queries=(PairQuery("q", 3, SHORT, max_score=2.0),),
        ),
        "pairs": SimilarSets(
            tokens="t", similarity="cosine", window=TIMED,
            queries=(
                BoundedPairQuery("near", TIMED, min_score=0.8), BoundedPairQuery("then", Window(None, 7), min_score=0.7, every_micros=4),
            ),
        ),
        "pairs, sides": SimilarSets(**sides, similarity="overlap", window=LONG, queries=(BoundedPairQuery("q", LONG, min_score=3.0),)),
    }  # fmt: skip


@given(st.sampled_from(sorted(operators())), st.booleans(), st.sampled_from(SHARDS), st.integers(0, 2**32), st.integers(1, 3))
def test_shards_and_a_merge_give_the_changes_of_the_operator(name: str, deletes: bool, of: int, seed: int, keys: int) -> None:
    rng, op = np.random.default_rng(seed), operators()[name]
    if not isinstance(op, TopKSimilarSets):
        op = replace(op, deletes=deletes)
    assert isinstance(op, Shardable)
    assert op.can_be_sharded
    stream = random_rows(op, rng, int(rng.integers(1, 3 * BLOCK)), keys)
    cuts = cuts_of(stream, rng, 0.2)
    assert replace(sharded_changes(op, stream, of, []), found=0) == plain_changes(op, stream)
    assert replace(sharded_changes(op, stream, of, cuts, rng), found=0) == plain_changes(op, stream, cuts)
