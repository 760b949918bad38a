"""Random keyed streams and jobs of ``topk_pairs``, and a run of them (see ``host``)."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from skyband.operators.base import DELETION_TARGET, NULL, Arrivals, State, Window
from skyband.operators.contract import random_rows
from skyband.operators.expressions import parse
from skyband.operators.expressions.vectors import Vector
from skyband.operators.matches.operator import ScoredMatches
from skyband.operators.pair_rows.queries import Between, BoundedPairQuery, PairQuery
from skyband.operators.threshold_pairs.operator import ThresholdPairs
from skyband.operators.topk_pairs.operator import TopKPairs
from tests.operators.host import band_of as band_of
from tests.operators.host import blocks_of, in_order, pick, play, rows_of
from tests.operators.host import cuts_of as cuts_of
from tests.oracles import pairs as oracle

SCHEMA: Any = {"x": "float", "y": "float", "g": "int", "side": "text", "e": Vector(3)}
SHAPES = ("few", "few", "equal", "rising", "falling", "real", "walk", "infinite", "duplicates")
Score = Callable[[dict[str, Any], dict[str, Any]], float]


def _dot(x: Any, y: Any) -> float:
    total = 0.0
    for p, q in zip(x.tolist(), y.tolist(), strict=True):
        total += p * q
    return total


def _cosine(x: Any, y: Any) -> float:
    norms = math.sqrt(_dot(x, x)) * math.sqrt(_dot(y, y))
    return math.nan if norms == 0 else _dot(x, y) / norms


def _known(*values: Any) -> bool:
    return all(v != NULL for v in values)


SCORES: dict[str, Score] = {
    "abs(a.x - b.x)": lambda a, b: abs(a["x"] - b["x"]),
    "abs(a.x - b.x) + abs(a.y - b.y)": lambda a, b: abs(a["x"] - b["x"]) + abs(a["y"] - b["y"]),
    "a.x - b.y": lambda a, b: a["x"] - b["y"],
    "b.x - a.x": lambda a, b: b["x"] - a["x"],
    "a.x * b.y": lambda a, b: a["x"] * b["y"],
    "(a.x - b.x) / (a.y - b.y)": lambda a, b: (a["x"] - b["x"]) / (a["y"] - b["y"]),
    "-(a.x + b.x)": lambda a, b: -(a["x"] + b["x"]),
    "a.x * 0 + b.x * 0": lambda a, b: a["x"] * 0 + b["x"] * 0,
    "cosine(a.e, b.e)": lambda a, b: _cosine(a["e"], b["e"]),
    "l2(b.e, a.e) + a.x": lambda a, b: math.sqrt(_dot(b["e"] - a["e"], b["e"] - a["e"])) + a["x"],
    "dot(a.e, b.e) / dot(b.e, b.e)": lambda a, b: np.float64(_dot(a["e"], b["e"])) / _dot(b["e"], b["e"]),
    "sqrt(a.x - b.y)": lambda a, b: np.sqrt(a["x"] - b["y"]),
}
WHERES: dict[str | None, Score] = {
    None: lambda a, b: True,
    "a.g <> b.g": lambda a, b: _known(a["g"], b["g"]) and a["g"] != b["g"],
    "a.g = b.g and a.x < b.x": lambda a, b: _known(a["g"], b["g"]) and a["g"] == b["g"] and a["x"] < b["x"],
    "a.g = 1 and b.g = 2 and a.x >= b.y": lambda a, b: a["g"] == 1 and b["g"] == 2 and a["x"] >= b["y"],
    "a.side <> 'buy'": lambda a, b: _known(a["side"]) and a["side"] != 0,
}
TEXTS = ("buy", "sell")


@dataclass
class Stream:
    """Rows in time order over all keys; ``target``: the deleted seqs, or ``NULL``, if rows may be deletions."""

    time: Any
    key: Any
    seq: Any
    columns: dict[str, Any]
    target: Any = None

    def __len__(self) -> int:
        return len(self.time)

    def block(self, lo: int, hi: int) -> Arrivals:
        order = lo + np.argsort(self.key[lo:hi], kind="stable")
        columns = self.columns if self.target is None else {**self.columns, DELETION_TARGET: self.target}
        return Arrivals(self.key[order], self.seq[order], self.time[order], {n: c[order] for n, c in columns.items()})


def random_stream(rng: np.random.Generator, rows: int, keys: int, shape: str) -> Stream:
    def values() -> Any:
        x = {
            "few": lambda: rng.integers(0, 4, rows).astype(float),
            "equal": lambda: np.ones(rows),
            "rising": lambda: np.arange(rows) // 2 * 1.0,
            "falling": lambda: -(np.arange(rows) // 2) * 1.0,
            "real": lambda: rng.normal(size=rows),
            "walk": lambda: np.round(np.cumsum(rng.normal(size=rows))),
            "infinite": lambda: rng.choice([-np.inf, np.inf, -0.0, 0.0, 1.0], rows),
            "duplicates": lambda: np.repeat(rng.normal(size=rows), 5)[:rows],
        }[shape]()
        x[rng.random(rows) < rng.choice([0.0, 0.1])] = np.nan
        return x

    gaps = rng.choice([[0, 0, 1, 2, 7], [0], [1], [0, 0, 0, 40], [3, 11]][rng.integers(0, 5)], rows)
    time = np.cumsum(gaps).astype(np.int64) + int(rng.integers(-50, 200))
    raw = rng.integers(0, keys, rows)
    names: dict[int, int] = {}
    key = np.array([names.setdefault(int(k), len(names)) for k in raw], np.int64)
    seq = np.array([int(np.count_nonzero(key[:i] == k)) for i, k in enumerate(key)], np.int64)
    g = rng.integers(0, 4, rows)
    side = rng.integers(0, 3, rows)
    for c in (g, side):
        c[rng.random(rows) < 0.05] = NULL
    columns = {"x": values(), "y": values(), "g": g, "side": side}
    e = rng.integers(-1, 3, (rows, 3)).astype(float) / rng.choice([1, 3])
    e[rng.random(rows) < 0.05] = np.nan
    return Stream(time, key, seq, {**columns, "e": e})


def random_window(rng: np.random.Generator, largest: Window | None = None) -> Window:
    if largest is None:
        kind = rng.integers(0, 3)
        count = int(rng.choice([1, 2, 3, 5, 10, 30])) if kind != 1 else None
        return Window(count, int(rng.choice([1, 2, 5, 20, 90])) if kind != 0 else None)
    c = None if largest.count is None else int(rng.integers(1, largest.count + 1))
    m = None if largest.micros is None else int(rng.integers(1, largest.micros + 1))
    if rng.random() < 0.3:
        return largest
    if c is not None and m is not None and rng.random() < 0.4:
        return Window(c, None) if rng.random() < 0.5 else Window(None, m)
    return Window(c, m)


@dataclass
class Case:
    """A random job and stream; ``score`` and ``where`` as the oracle calls them."""

    op: Any
    stream: Stream
    score: Score
    where: Score
    end: int

    def key_stream(self, key: int) -> oracle.Stream:
        rows = np.flatnonzero(self.stream.key == key)
        mine = rows[self.stream.seq[rows] >= 0]
        objects = [{n: c[i].item() if n in ("g", "side") else c[i] for n, c in self.stream.columns.items()} for i in mine]

        def score(a: dict[str, Any], b: dict[str, Any]) -> float:
            with np.errstate(all="ignore"):
                return float(self.score(a, b)) if self.where(a, b) else math.nan

        between = self.op.between
        sides = None if between is None else (between.column, *self.op.side_codes())
        times = [int(t) for t in self.stream.time[mine]]
        events = None
        if self.stream.target is not None:
            targets = [None if t == NULL else t for t in self.stream.target[rows].tolist()]
            events = list(zip(self.stream.time[rows].tolist(), targets, strict=True))
        return oracle.Stream(times, objects, score, self.op.direction == "max", sides, events)

    def query(self, q: Any) -> oracle.Query:
        w, n = q.window, self.op.window
        return oracle.Query(
            getattr(q, "k", 10**9), n.count if w.count is None else w.count, n.micros if w.micros is None else w.micros,
            -math.inf if q.min_score is None else q.min_score, math.inf if q.max_score is None else q.max_score, q.every_micros,
            getattr(self.op, "max_per_object", None),
        )  # fmt: skip

    def expected(self, replay: Callable[..., list[oracle.Row]] = oracle.replay) -> list[tuple[Any, ...]]:
        keys = [self.key_stream(k) for k in range(int(self.stream.key.max()) + 1)]
        out: list[tuple[Any, ...]] = []
        for i, q in enumerate(self.op.queries):
            for k, s in enumerate(keys):
                out += replay(i, k, s, self.query(q), self.end)
        return out


JOBS: tuple[tuple[str, str | None], ...] = (
    ("abs(a.x - b.x)", None),
    ("abs(a.x - b.x) + abs(a.y - b.y)", "a.g <> b.g"),
    ("a.x - b.y", None),
    ("b.x - a.x", "a.g = b.g and a.x < b.x"),
    ("(a.x - b.x) / (a.y - b.y)", None),
    ("-(a.x + b.x)", "a.g = 1 and b.g = 2 and a.x >= b.y"),
    ("a.x * 0 + b.x * 0", None),
    ("a.x * b.y", "a.side <> 'buy'"),
    ("cosine(a.e, b.e)", None),
)
"""A few of the combinations, so that not everything has to be compiled; ``everything`` in ``random_case`` draws from all."""


def random_case(seed: int, rows: int = 60, everything: bool = False) -> Case:
    rng = np.random.default_rng(seed)
    text, where = JOBS[rng.integers(0, len(JOBS))]
    if everything:
        text = str(rng.choice(list(SCORES)))
        where = rng.choice(np.array([None, None, None, *WHERES], object))
    direction: Any = rng.choice(["min", "max"])
    window = random_window(rng)
    keep_k = int(rng.choice([1, 1, 2, 3, 5, 8, 20]))
    better, between = None, None
    if everything or text == JOBS[2][0]:
        if rng.random() < 0.3:
            better = 0.0 if direction == "min" else 1.0
        if rng.random() < 0.4:
            between = Between("side", "buy", "sell") if rng.random() < 0.7 else Between("g", 1, 2, "int")
    queries = []
    for i in range(int(rng.integers(1, 4))):
        worse = float(rng.integers(-2, 5)) if rng.random() < 0.2 else None
        low, high = (better, worse) if direction == "min" else (worse, better)
        every = int(rng.integers(1, 15)) if rng.random() < 0.3 else None
        queries.append(PairQuery(f"q{i}", int(rng.integers(1, keep_k + 1)), random_window(rng, window), low, high, every))
    tree = parse(text, SCHEMA)
    condition = None if where is None else parse(where, SCHEMA)
    op = TopKPairs(tree, direction, condition, between, tuple(queries), keep_k, window, TEXTS)
    stream = random_stream(rng, int(rng.integers(1, rows + 1)), int(rng.choice([1, 1, 2, 4])), str(rng.choice(SHAPES)))
    return Case(op, stream, SCORES[text], WHERES[where], int(stream.time[-1]) + int(rng.choice([1, 3, 200])))


def random_bounded_case(seed: int, rows: int = 60) -> Case:
    """A job for all pairs within bounds of their score."""
    rng, case = np.random.default_rng(seed), random_case(seed, rows)
    better = _better_bound(rng, case)
    queries = []
    for q in case.op.queries:
        worse = float(rng.choice([-2.0, 0.0, 0.0, 1.0, 2.0, np.inf])) if better is None or rng.random() < 0.6 else None
        queries.append(BoundedPairQuery(q.name, q.window, *_bounds(case, better, worse), q.every_micros))
    return _searching(case, ThresholdPairs, tuple(queries))


def random_matches_case(seed: int, rows: int = 60) -> Case:
    """A job for the best older partners of every arrival."""
    rng, case = np.random.default_rng(seed), random_case(seed, rows)
    better = _better_bound(rng, case)
    queries = []
    for q in case.op.queries:
        worse = float(rng.integers(-2, 4)) if rng.random() < 0.4 else None
        queries.append(PairQuery(q.name, int(rng.choice([1, 1, 2, 3, 8])), q.window, *_bounds(case, better, worse)))
    return _searching(case, ScoredMatches, tuple(queries))


def _better_bound(rng: np.random.Generator, case: Case) -> float | None:
    """One that few expressions have, as each has to be compiled."""
    few = case.score in (SCORES[JOBS[0][0]], SCORES[JOBS[2][0]])
    return 1.0 if few and rng.random() < 0.4 else None


def _bounds(case: Case, better: float | None, worse: float | None) -> tuple[float | None, float | None]:
    return (better, worse) if case.op.direction == "min" else (worse, better)


def _searching(case: Case, kind: Any, queries: tuple[Any, ...]) -> Case:
    """The job with an operator that searches partners, instead of one with a skyband."""
    op = case.op
    given = {name: getattr(op, name) for name in ("scoring", "direction", "where", "between", "window", "texts")}
    return replace(case, op=kind(**given, queries=queries))


def deleting(case: Case, seed: int) -> Case:
    """The job with rows turned into deletions of objects, mostly new ones, in the window or not."""
    rng, stream = np.random.default_rng(seed), case.stream
    share, reach = float(rng.choice([0.05, 0.2, 0.4])), int(rng.choice([2, 12]))
    seq, target = np.empty(len(stream), np.int64), np.full(len(stream), NULL)
    objects: dict[int, int] = {}
    gone = set()
    for i, key in enumerate(stream.key.tolist()):
        n = objects.get(key, 0)
        live = [s for s in range(max(0, n - reach), n) if (key, s) not in gone]
        if live and rng.random() < share:
            seq[i], target[i] = -1, live[int(rng.integers(len(live)))]
            gone.add((key, int(target[i])))
        else:
            seq[i], objects[key] = n, n + 1
    return replace(case, op=replace(case.op, deletes=True), stream=replace(stream, seq=seq, target=target))


def changes_of_some_keys(op: Any, seed: int) -> int:
    """Check that a logic with the state of some of the keys goes on as one with all of them; return the number of its changes."""
    stream = random_rows(op, np.random.default_rng(seed), 80, 3)
    cut, codes = int(stream.time[len(stream) // 2]), stream.first_codes()
    first, second = np.flatnonzero(stream.time < cut), np.flatnonzero(stream.time >= cut)
    kept = np.arange(0, int(stream.key[first].max(initial=0)) + 1, 2)

    def of_kept(at: Any) -> Arrivals:
        rows = stream.block(at[np.isin(stream.key[at], kept)], codes)
        return replace(rows, key=np.searchsorted(kept, rows.key))

    whole = op.build(None)
    whole.advance(stream.block(first, codes), cut)
    state = op.state_keys.picked(whole.checkpoint(), kept)
    rest = op.build(State(state, of_kept(first[stream.seq[first] >= 0])))
    every, mine = (
        rows_of(logic.advance(rows, stream.end)) for logic, rows in ((whole, stream.block(second, codes)), (rest, of_kept(second)))
    )
    assert mine == [(r[0], int(np.searchsorted(kept, r[1])), *r[2:]) for r in every if r[1] in kept]
    return len(mine)


def text_of(rows: list[tuple[Any, ...]]) -> str:
    """Rows as text: tells -0.0 from 0.0, and lists of two runs compare as bytes."""
    return "\n".join(map(repr, rows))


def drive(
    case: Case, cuts: list[int], restore: bool = False, loose: int = 0, sub_batch: int | None = None
) -> tuple[list[tuple[Any, ...]], Any]:
    """Feed the stream, cut before the rows ``cuts``, perhaps saving and restoring at every cut with up to ``loose`` dead rows per key."""
    fed = 0

    def prepare(logic: Any) -> None:
        if sub_batch:
            host = getattr(logic, "search", logic)
            host.settings = host.settings._replace(sub_batch=sub_batch)

    def kept(logic: Any, block: Arrivals, until: int) -> Arrivals:
        nonlocal fed
        fed += len(block)
        return window_rows(case, fed, until, loose)

    blocks, logic = play(case.op, blocks_of(case.stream, cuts, case.end), kept if restore else None, prepare)
    return in_order(blocks), logic


def window_rows(case: Case, upto: int, until: int, loose: int) -> Arrivals:
    """The objects alive before ``until`` once ``upto`` rows have come, and up to ``loose`` dead ones before them, by (key, seq)."""
    rows, w = case.stream.block(0, upto), case.op.window
    rows = pick(rows, rows.seq >= 0)
    keep = np.zeros(len(rows), bool)
    for key in set(rows.key.tolist()):
        mine = np.flatnonzero(rows.key == key)
        alive = np.ones(len(mine), bool)
        if w.count is not None:
            alive &= np.arange(len(mine)) >= len(mine) - w.count
        if w.micros is not None:
            alive &= rows.time[mine] + w.micros >= until
        first = int(np.argmax(alive)) if alive.any() else len(mine)
        keep[mine[max(0, first - loose) :]] = True
    return pick(rows, keep)
