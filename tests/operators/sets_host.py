"""Random streams of token sets and jobs over them, and a run of these (see ``host``)."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from skyband.operators.base import NULL, Arrivals, Ragged
from skyband.operators.expressions import parse
from skyband.operators.matches.operator import Matches
from skyband.operators.pair_rows.queries import Between, BoundedPairQuery, PairQuery
from skyband.operators.set_index.functions import SIMILARITIES
from skyband.operators.similar_sets.operator import SimilarSets
from skyband.operators.topk_similar_sets.operator import TopKSimilarSets
from tests.operators.host import blocks_of, in_order, play
from tests.operators.host import cuts_of as cuts_of
from tests.operators.pairs_host import random_window
from tests.oracles import sets as oracle

SCHEMA: Any = {"g": "int", "side": "text"}
TEXTS = ("buy", "sell")
Sets = list[list[int]]
Where = Callable[[dict[str, Any], dict[str, Any]], bool]

WHERES: dict[str | None, Where] = {
    None: lambda a, b: True,
    "a.g <> b.g": lambda a, b: NULL not in (a["g"], b["g"]) and a["g"] != b["g"],
    "a.g < b.g and a.side = 'buy'": lambda a, b: NULL not in (a["g"], b["g"]) and a["g"] < b["g"] and a["side"] == 0,
}


def ragged(sets: Sets) -> Ragged:
    """Token rows."""
    return Ragged(np.cumsum([0, *map(len, sets)]).astype(np.int64), np.array([t for s in sets for t in s], np.int64))


@dataclass
class Stream:
    """Rows in time order over all keys."""

    time: Any
    key: Any
    seq: Any
    sets: Sets
    columns: dict[str, Any]

    def __len__(self) -> int:
        return len(self.time)

    def block(self, lo: int, hi: int) -> Arrivals:
        return self.rows(lo + np.argsort(self.key[lo:hi], kind="stable"))

    def rows(self, at: Any) -> Arrivals:
        """The rows at ``at``, which go by key."""
        columns = {n: c[at] for n, c in self.columns.items()}
        return Arrivals(self.key[at], self.seq[at], self.time[at], columns, {"tokens": ragged([self.sets[i] for i in at.tolist()])})


def random_sets(rng: np.random.Generator, rows: int) -> Sets:
    """Small sets of few tokens, of many that come and go, copies of each other, nested ones, large ones; some are empty."""
    shape = rng.integers(7)
    names = rng.permutation(50).tolist() if rng.random() < 0.5 else rng.integers(-(2**62), 2**62, 50).tolist()
    names = list(dict.fromkeys(names))
    found: Sets = []
    for i in range(rows):
        if found and rng.random() < (0.8 if shape == 0 else 0.2):
            s = list(found[int(rng.integers(max(0, i - 12), i))])
            if rng.random() < 0.5 and s:
                s[int(rng.integers(len(s)))] = names[int(rng.integers(12))]
        elif shape == 1:
            s = names[: int(rng.integers(1, 6))]
        elif shape == 2:
            s = [names[0] + 1000 * i + j for j in range(3)] + names[:1]
        elif shape == 3:
            s = rng.choice(names, int(rng.integers(1, 40))).tolist()
        elif shape == 4:
            s = [names[int(rng.integers(3))]]
        else:
            s = rng.choice(names[:8], int(rng.integers(0, 7))).tolist()
        s = list(dict.fromkeys(s))
        rng.shuffle(s)
        found.append(s)
    return found


def random_stream(rng: np.random.Generator, rows: int, keys: int) -> Stream:
    gaps = rng.choice([[0, 0, 1, 2, 7], [0], [1], [0, 0, 0, 40], [3, 11]][rng.integers(0, 5)], rows)
    time = np.cumsum(gaps).astype(np.int64) + int(rng.integers(-50, 200))
    names: dict[int, int] = {}
    key = np.array([names.setdefault(int(k), len(names)) for k in rng.integers(0, keys, rows)], np.int64)
    seq = np.array([int(np.count_nonzero(key[:i] == k)) for i, k in enumerate(key)], np.int64)
    g, side = rng.integers(0, 4, rows), rng.integers(0, 3, rows)
    for c in (g, side):
        c[rng.random(rows) < 0.05] = NULL
    return Stream(time, key, seq, random_sets(rng, rows), {"g": g, "side": side})


@dataclass
class Case:
    """A random job and stream; ``where`` as the oracle calls it."""

    op: Any
    stream: Stream
    where: Where
    end: int

    def key_stream(self, key: int) -> oracle.Stream:
        mine = np.flatnonzero(self.stream.key == key).tolist()
        objects = [{n: c[i].item() for n, c in self.stream.columns.items()} for i in mine]
        between = self.op.between
        sides = None if between is None else (between.column, *self.op.side_codes())
        sets = [frozenset(self.stream.sets[i]) for i in mine]
        return oracle.Stream([int(self.stream.time[i]) for i in mine], objects, sets, self.op.similarity, self.where, sides)

    def query(self, q: Any) -> oracle.Query:
        w, n = q.window, self.op.window
        bound = q.max_score if self.op.similarity == "hamming" else q.min_score
        return oracle.Query(
            getattr(q, "k", 10**9), n.count if w.count is None else w.count, n.micros if w.micros is None else w.micros, bound,
            getattr(q, "every_micros", None),
        )  # fmt: skip

    def expected(self, replay: Callable[..., list[oracle.Row]] = oracle.replay) -> list[tuple[Any, ...]]:
        keys = [self.key_stream(k) for k in range(int(self.stream.key.max()) + 1)]
        return [row for i, q in enumerate(self.op.queries) for k, s in enumerate(keys) for row in replay(i, k, s, self.query(q), self.end)]


def random_bound(rng: np.random.Generator, similarity: str) -> float:
    """Somewhere in the middle, often equal to scores there are."""
    if similarity in ("overlap", "hamming"):
        return float(rng.integers(0, 6))
    return float(rng.choice([0.25, 0.5, 1 / 3, 2 / 3, 0.75, 1.0, math.sqrt(0.5)]))


def random_job(rng: np.random.Generator) -> tuple[dict[str, Any], str | None]:
    """What every kind of job has: the operator's common settings, and its condition as text."""
    where = rng.choice(np.array([None, None, *WHERES], object))
    between = None
    if rng.random() < 0.3:
        between = Between("side", "buy", "sell") if rng.random() < 0.7 else Between("g", 1, 2, "int")
    condition = None if where is None else parse(where, SCHEMA)
    common = {"tokens": "tokens", "similarity": str(rng.choice(SIMILARITIES)), "where": condition, "between": between, "texts": TEXTS}
    return common, where


def random_case(seed: int, rows: int = 60) -> Case:
    """A job for the most similar sets."""
    rng = np.random.default_rng(seed)
    common, where = random_job(rng)
    window, keep_k = random_window(rng), int(rng.choice([1, 1, 2, 3, 5, 8, 20]))
    queries = []
    for i in range(int(rng.integers(1, 4))):
        q = PairQuery(f"q{i}", int(rng.integers(1, keep_k + 1)), random_window(rng, window))
        if rng.random() < 0.3:
            bound = random_bound(rng, common["similarity"])
            q = replace(q, max_score=bound) if common["similarity"] == "hamming" else replace(q, min_score=bound)
        queries.append(replace(q, every_micros=int(rng.integers(1, 15)) if rng.random() < 0.3 else None))
    op = TopKSimilarSets(**common, window=window, queries=tuple(queries), keep_k=keep_k)
    return finished(rng, op, where, rows)


def random_pairs_case(seed: int, rows: int = 60) -> Case:
    """A job for all pairs of sets that are similar enough."""
    rng = np.random.default_rng(seed)
    common, where = random_job(rng)
    window, queries = random_window(rng), []
    for i in range(int(rng.integers(1, 4))):
        bound, every = random_bound(rng, common["similarity"]), int(rng.integers(1, 15)) if rng.random() < 0.4 else None
        q = BoundedPairQuery(f"q{i}", random_window(rng, window), every_micros=every)
        queries.append(replace(q, **{"max_score" if common["similarity"] == "hamming" else "min_score": bound}))
    return finished(rng, SimilarSets(**common, window=window, queries=tuple(queries)), where, rows)


def random_matches_case(seed: int, rows: int = 60) -> Case:
    """A job for the best matches of every arriving set."""
    rng = np.random.default_rng(seed)
    common, where = random_job(rng)
    window, queries = random_window(rng), []
    for i in range(int(rng.integers(1, 4))):
        q = PairQuery(f"q{i}", int(rng.choice([1, 1, 2, 3, 8])), random_window(rng, window))
        if rng.random() < 0.5:
            q = replace(q, **{"max_score" if common["similarity"] == "hamming" else "min_score": random_bound(rng, common["similarity"])})
        queries.append(q)
    return finished(rng, Matches(**common, window=window, queries=tuple(queries)), where, rows)


def finished(rng: np.random.Generator, op: Any, where: str | None, rows: int) -> Case:
    """The job with a random stream."""
    stream = random_stream(rng, int(rng.integers(1, rows + 1)), int(rng.choice([1, 1, 2, 4])))
    return Case(op, stream, WHERES[where], int(stream.time[-1]) + int(rng.choice([1, 3, 200])))


def drive(case: Case, cuts: list[int], restore: bool = False, loose: int = 0, sub_batch: int | None = None) -> tuple[list[Any], Any]:
    """Feed the stream, cut before the rows ``cuts``, perhaps saving and restoring at every cut with up to ``loose`` dead rows per key."""
    fed = 0

    def prepare(logic: Any) -> None:
        if sub_batch:
            logic.settings = logic.settings._replace(sub_batch=sub_batch)

    def kept(logic: Any, block: Arrivals, until: int) -> Arrivals:
        nonlocal fed
        fed += len(block)
        return window_rows(case, fed, until, loose)

    blocks, logic = play(case.op, blocks_of(case.stream, cuts, case.end), kept if restore else None, prepare)
    return in_order(blocks), logic


def window_rows(case: Case, upto: int, until: int, loose: int) -> Arrivals:
    """The objects alive before ``until`` once ``upto`` rows have come, and up to ``loose`` dead ones before them, by (key, seq)."""
    stream, w, picked = case.stream, case.op.window, []
    for key in range(int(stream.key[:upto].max(initial=-1)) + 1):
        mine = np.flatnonzero(stream.key[:upto] == key)
        alive = np.ones(len(mine), bool)
        if w.count is not None:
            alive &= np.arange(len(mine)) >= len(mine) - w.count
        if w.micros is not None:
            alive &= stream.time[mine] + w.micros >= until
        first = int(np.argmax(alive)) if alive.any() else len(mine)
        picked.append(mine[max(0, first - loose) :])
    return stream.rows(np.concatenate([np.empty(0, np.int64), *picked]))
