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


Pair = tuple[float, int, int, tuple[int, int], float]
"""(what it is ranked by, less its older seq, less its newer seq, its items by role, its score): pairs sort in rank order."""


def most_similar(question: Question) -> Found | None:
    """The k (or all) most similar pairs as (items by role, score), in rank order. O(window squared); None beyond MAX_PAIRS."""
    query = question.query
    first, end, _ = window_of(query, query.window, question.data, question.at)
    if (end - first) ** 2 > MAX_PAIRS:
        return None
    sets = Comparison(question, first, end)
    found: list[Pair] = []
    for x in range(first, end):
        # ``x`` is b. Without sides a is every older object; with sides, every object of side a.
        found += sets.pairs(x, first, x if sets.side is None else end)
        if query.k is not None and len(found) > 4 * query.k + 1000:
            found = sorted(found)[: query.k]
    return [(items, score) for _, _, _, items, score in sorted(found)[: query.k]]


class Comparison:
    """The sets of the objects ``first`` to ``end`` (exclusive), to be compared."""

    def __init__(self, question: Question, first: int, end: int) -> None:
        plan, data = question.plan, question.data
        self.query, self.first, self.end = question.query, first, end
        op: Any = plan.operators[self.query.operator].operator
        texts = {t: i for i, t in enumerate(plan.texts)}
        self.allowed = compile_pair(Literal_(type="float", value=0.0), op.where, False, texts)
        self.fcols = np.ascontiguousarray(matrix(data.columns, self.allowed.float_names, np.float64, len(data.time)))
        self.icols = np.ascontiguousarray(matrix(data.columns, self.allowed.int_names, np.int64, len(data.time)))
        self.name, self.side = op.similarity, side_of(op, data, texts)
        self.sets = data.tokens[op.tokens.removeprefix(TOKENS)][first:end]
        self.size = np.array([len(s) for s in self.sets], np.int64)
        holders: dict[str, list[int]] = {}
        for i, s in enumerate(self.sets):
            for token in s:
                holders.setdefault(token, []).append(i)
        self.holders = {token: np.array(rows) for token, rows in holders.items()}

    def pairs(self, x: int, lo: int, hi: int, as_a: bool = False) -> list[Pair]:
        """The pairs of object ``x`` as b (or a) with those from ``lo`` to ``hi`` that may stand on the other side, and are in bounds."""
        mine = self.sets[x - self.first]
        if hi <= lo or not mine or (self.side is not None and self.side[x] != (1 if as_a else 2)):
            return []
        common = np.zeros(self.end - self.first, np.int64)
        for token in mine:
            common[self.holders[token]] += 1
        among = slice(lo - self.first, hi - self.first)
        common, size = common[among], self.size[among]
        rank, score = similarity(self.name, common, size, len(mine))
        out = np.empty(hi - lo)
        kernel = self.allowed.swapped if as_a else self.allowed
        kernel.score_block(self.fcols, self.icols, lo, hi, self.fcols[:, x].copy(), self.icols[:, x].copy(), out)
        good = ~np.isnan(out) & _within(self.query.min_score, self.query.max_score, score)
        good &= size > 0
        good &= (common > 0) | (self.name in DISTANCES)
        if self.side is not None:
            good &= self.side[lo:hi] == (2 if as_a else 1)
        others = (lo + np.nonzero(good)[0]).tolist()
        return [
            (float(r), -min(j, x), -max(j, x), (x, j) if as_a else (j, x), float(s))
            for j, r, s in zip(others, rank[good], score[good], strict=True)
        ]


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
