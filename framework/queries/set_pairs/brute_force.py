"""The result by definition: every pair of the window's sets compared, tokens as texts."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from skyband.framework.plan.model import TOKENS
from skyband.framework.queries.pair_rows.brute_force import by_age, partners
from skyband.framework.queries.protocol import Question
from skyband.framework.queries.set_pairs.model import DISTANCES
from skyband.framework.verify.expressions import holds
from skyband.framework.verify.objects import SLOW, Found


def most_similar(question: Question) -> Found | None:
    """The k (or all) most similar pairs as (items by role, score), in rank order. O(window squared); None if that is too much."""
    query = question.query
    op: Any = question.plan.operators[query.operator].operator
    every = partners(question)
    if every is None:
        return None
    sets = question.data.tokens[op.tokens.removeprefix(TOKENS)]
    admitted = holds(op.where)
    least = float("-inf") if query.min_score is None else query.min_score
    most = float("inf") if query.max_score is None else query.max_score
    found: list[tuple[float, int, int, tuple[int, int], float]] = []
    for x in every:
        mine = sets[x.seq]
        others = x.seqs[np.broadcast_to(admitted(x.a, x.b), len(x.seqs))].tolist()
        if not question.work.take(SLOW * len(others)):
            return None
        for seq in others if mine else ():
            common = len(mine & sets[seq])
            if not sets[seq] or (not common and op.similarity not in DISTANCES):
                continue
            rank, score = similarity(op.similarity, common, len(sets[seq]), len(mine))
            if least <= score <= most:
                found.append((rank, *by_age((seq, x.seq)), (seq, x.seq), score))
        if query.k is not None and len(found) > 4 * query.k + 1000:
            found = sorted(found)[: query.k]
    return [(item, score) for *_, item, score in sorted(found)[: query.k]]


def similarity(name: str, common: int, a: int, b: int) -> tuple[float, float]:
    """(what ranks pairs, smallest first, and their score) for sets of ``a`` and of ``b`` tokens with ``common`` in common."""
    if name == "hamming":
        return float(a + b - 2 * common), float(a + b - 2 * common)
    if name == "cosine":
        # The root would make equal ones unequal (docs/algorithms.md D3).
        square = common * common / (a * b)
        return -square, math.sqrt(square)
    score = common / (a + b - common) if name == "jaccard" else 2 * common / (a + b) if name == "dice" else float(common)
    return -score, score
