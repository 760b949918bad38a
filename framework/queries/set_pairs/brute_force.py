"""The result by definition: every pair of the window's sets compared, tokens as texts."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from skyband.framework.plan.model import TOKENS
from skyband.framework.queries.pair_rows.brute_force import side_of
from skyband.framework.queries.protocol import Question
from skyband.framework.queries.set_pairs.model import DISTANCES
from skyband.framework.verify.objects import MAX_PAIRS, Found, window_of
from skyband.operators.expressions import compile_pair, matrix
from skyband.operators.expressions.ast import Literal_

I64 = npt.NDArray[np.int64]
F64 = npt.NDArray[np.float64]


def most_similar(question: Question) -> Found | None:
    """The k (or all) most similar pairs as (items by role, score), in rank order. O(window squared); None beyond MAX_PAIRS."""
    plan, query, data = question.plan, question.query, question.data
    op: Any = plan.operators[query.operator].operator
    first, end, _ = window_of(query, query.window, data, question.at)
    if (end - first) ** 2 > MAX_PAIRS:
        return None
    texts = {t: i for i, t in enumerate(plan.texts)}
    allowed = compile_pair(Literal_(type="float", value=0.0), op.where, False, texts)
    fcols = np.ascontiguousarray(matrix(data.columns, allowed.float_names, np.float64, len(data.time)))
    icols = np.ascontiguousarray(matrix(data.columns, allowed.int_names, np.int64, len(data.time)))
    side = side_of(op, data, texts)
    sets = data.tokens[op.tokens.removeprefix(TOKENS)][first:end]
    size = np.array([len(s) for s in sets], np.int64)
    holders: dict[str, list[int]] = {}
    for i, s in enumerate(sets):
        for token in s:
            holders.setdefault(token, []).append(i)
    where_of = {token: np.array(rows) for token, rows in holders.items()}
    found: list[tuple[float, int, int, tuple[int, int], float]] = []
    out = np.empty(max(end - first, 1))
    for x in range(first, end):
        # ``x`` is b. Without sides a is every older object; with sides, every object of side a.
        hi = x if side is None else end
        if hi <= first or not sets[x - first] or (side is not None and side[x] != 2):
            continue
        common = np.zeros(end - first, np.int64)
        for token in sets[x - first]:
            common[where_of[token]] += 1
        rank, score = similarity(op.similarity, common[: hi - first], size[: hi - first], int(size[x - first]))
        allowed.score_block(fcols, icols, first, hi, fcols[:, x].copy(), icols[:, x].copy(), out)
        good = ~np.isnan(out[: hi - first]) & _within(query.min_score, query.max_score, score)
        good &= size[: hi - first] > 0
        good &= (common[: hi - first] > 0) | (op.similarity in DISTANCES)
        if side is not None:
            good &= side[first:hi] == 1
        for j in np.nonzero(good)[0].tolist():
            a = first + j
            found.append((float(rank[j]), -min(a, x), -max(a, x), (a, x), float(score[j])))
        if query.k is not None and len(found) > 4 * query.k + 1000:
            found = sorted(found)[: query.k]
    return [(items, score) for _, _, _, items, score in sorted(found)[: query.k]]


def similarity(name: str, o: I64, a: I64, b: int) -> tuple[F64, F64]:
    """(what ranks pairs, smallest first, and their scores) for ``o`` tokens in common of ``a`` and of ``b``."""
    if name == "hamming":
        distance = (a + b - 2 * o).astype(np.float64)
        return distance, distance
    if name == "cosine":
        # The root would make equal ones unequal (docs/algorithms.md D3).
        square = o * o / np.maximum(a * b, 1)
        return -square, np.sqrt(square)
    score = o / (a + b - o) if name == "jaccard" else 2 * o / (a + b) if name == "dice" else o.astype(np.float64)
    return -score, score


def _within(least: float | None, most: float | None, score: F64) -> npt.NDArray[np.bool_]:
    good = np.ones(len(score), bool)
    if least is not None:
        good &= score >= least
    if most is not None:
        good &= score <= most
    return good
