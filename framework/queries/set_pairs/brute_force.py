"""The result by definition: every pair of the window's sets compared, tokens as texts."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from skyband.framework.plan.model import TOKENS
from skyband.framework.queries.pair_rows.brute_force import Item, Partners, by_age, partners
from skyband.framework.queries.protocol import Question
from skyband.framework.queries.set_pairs.model import DISTANCES
from skyband.framework.verify.expressions import holds
from skyband.framework.verify.objects import SLOW, Found

Pair = tuple[float, int, int, Item, float]
"""(what it is ranked by, less its older seq, less its newer seq, its items by role, its score): pairs sort in rank order."""


def most_similar(question: Question) -> Found | None:
    """The k (or all) most similar pairs as (items by role, score), in rank order. O(window squared); None if that is too much."""
    query = question.query
    every = partners(question)
    if every is None:
        return None
    found: list[Pair] = []
    for x in every:
        pairs = compared(question, x)
        if pairs is None:
            return None
        found += pairs
        if query.k is not None and len(found) > 4 * query.k + 1000:
            found = sorted(found)[: query.k]
    return [(item, score) for *_, item, score in sorted(found)[: query.k]]


def compared(question: Question, x: Partners, as_a: bool = False) -> list[Pair] | None:
    """The pairs of ``x.seq`` with ``x.seqs`` that the query admits; None if that is too much. ``as_a``: it stands for a, they for b."""
    query = question.query
    op: Any = question.plan.operators[query.operator].operator
    sets = question.data.tokens[op.tokens.removeprefix(TOKENS)]
    mine = sets[x.seq]
    admitted = holds(op.where)(*((x.b, x.a) if as_a else (x.a, x.b)))
    others = x.seqs[np.broadcast_to(admitted, len(x.seqs))].tolist()
    if not question.work.take(SLOW * len(others)):
        return None
    least = float("-inf") if query.min_score is None else query.min_score
    most = float("inf") if query.max_score is None else query.max_score
    found: list[Pair] = []
    for seq in others if mine else ():
        common = len(mine & sets[seq])
        if not sets[seq] or (not common and op.similarity not in DISTANCES):
            continue
        rank, score = similarity(op.similarity, common, len(sets[seq]), len(mine))
        item = (x.seq, seq) if as_a else (seq, x.seq)
        if least <= score <= most:
            found.append((rank, *by_age(item), item, score))
    return found


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
