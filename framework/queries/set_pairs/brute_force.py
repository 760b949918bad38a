"""The result by definition: every pair of the window's sets compared, tokens as texts."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import numpy as np

from skyband.framework.queries.pair_rows import brute_force as pairs
from skyband.framework.queries.pair_rows.brute_force import F64, I64, Compare
from skyband.framework.queries.protocol import Question
from skyband.framework.verify.brute_force.expressions import holds
from skyband.framework.verify.brute_force.objects import Found
from skyband.operators.base import TOKENS
from skyband.operators.set_index.functions import DISTANCES


def most_similar(question: Question) -> Found | None:
    """The k (or all) most similar pairs as (items by role, score), in rank order. None if that is too much."""
    return pairs.first_pairs(question, question.query.k, comparing)


def comparing(question: Question) -> Compare:
    """What compares pairs of sets."""
    op: Any = question.plan.operators[question.query.operator].inner
    columns, admitted = pairs.whole(question), holds(op.where)
    tokens, ends = _numbered(question, op.tokens.removeprefix(TOKENS))
    sizes = np.diff(ends)

    def compare(a: I64, b: I64) -> tuple[F64, F64]:
        good = np.broadcast_to(admitted(pairs.some(columns, a), pairs.some(columns, b)), len(a)) & (sizes[a] > 0) & (sizes[b] > 0)
        rank, score = np.full(len(a), np.nan), np.full(len(a), np.nan)
        which = np.nonzero(good)[0]
        common = _common(tokens, ends, a[which], b[which])
        if op.similarity not in DISTANCES:
            which, common = which[common > 0], common[common > 0]
        of_a, of_b = sizes[a[which]], sizes[b[which]]
        # Few triples of sizes are different: each is worked out once, in plain Python.
        triples, place = np.unique(np.stack([common, of_a, of_b]), axis=1, return_inverse=True)
        values = np.array([similarity(op.similarity, *t) for t in triples.T.tolist()]).reshape(-1, 2)
        rank[which], score[which] = values[place.ravel()].T
        return rank, score

    return compare


def _numbered(question: Question, name: str) -> tuple[I64, I64]:
    """(numbers of all sets' tokens, one set after another; where each set begins, and the end)."""

    def number() -> tuple[I64, I64]:
        known: dict[str, int] = {}
        sets = question.data.every.tokens[name]
        flat = [known.setdefault(token, len(known)) for tokens in sets for token in tokens]
        return np.array(flat, np.int64), np.concatenate([[0], np.cumsum([len(s) for s in sets])]).astype(np.int64)

    return question.data.once(("tokens", name), number)


def _common(tokens: I64, ends: I64, a: I64, b: I64) -> I64:
    """How many tokens the sets of each pair have in common. O(pairs + tokens of the sets between), for stretches of one newer object."""
    common = np.zeros(len(a), np.int64)
    has = np.zeros(int(tokens.max(initial=-1)) + 1, bool)
    newer, older = np.maximum(a, b), np.minimum(a, b)
    cuts = [0, *(np.nonzero(np.diff(newer))[0] + 1).tolist(), len(newer)]
    for start, stop in pairwise(cuts) if len(newer) else ():
        mine = tokens[ends[newer[start]] : ends[newer[start] + 1]]
        has[mine] = True
        others = older[start:stop]
        low, high = int(others.min()), int(others.max()) + 1
        held = np.concatenate([[0], np.cumsum(has[tokens[ends[low] : ends[high]]])])
        at = ends - ends[low]
        common[start:stop] = held[at[others + 1]] - held[at[others]]
        has[mine] = False
    return common


def similarity(name: str, common: int, a: int, b: int) -> tuple[float, float]:
    """(what ranks pairs, smallest first, and their score) for sets of ``a`` and of ``b`` tokens with ``common`` in common."""
    if name == "hamming":
        return float(a + b - 2 * common), float(a + b - 2 * common)
    if name == "cosine":
        # The root would make equal ones unequal (docs/algorithms D3).
        square = common * common / (a * b)
        return -square, math.sqrt(square)
    score = common / (a + b - common) if name == "jaccard" else 2 * common / (a + b) if name == "dice" else float(common)
    return -score, score
