"""Threshold queries against brute force after every event, under cuts, restarts, deletions and boundaries."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from skyband.operators.base import Window
from skyband.operators.single_rows.scores import Linear
from skyband.operators.threshold.one_function import Threshold, ThresholdQuery
from tests.operators.test_topk_single import SHAPES, random_window, scores_of
from tests.operators.topk_host import Stream, cuts_of, drive, random_stream
from tests.oracles.topk import Query, Row, replay
from tests.seeds import seeds

OPS = {
    "above": lambda s, b: s > b,
    "at_least": lambda s, b: s >= b,
    "below": lambda s, b: s < b,
    "at_most": lambda s, b: s <= b,
}


def random_case(seed: int) -> tuple[Threshold, Stream]:
    rng = np.random.default_rng(seed)
    d = int(rng.integers(1, 3))
    window = random_window(rng)
    deletes = bool(rng.random() < 0.5)
    queries = []
    for i in range(int(rng.integers(1, 4))):
        names = rng.choice(list(OPS), int(rng.integers(1, 3)), replace=False)
        bounds = {str(n): float(rng.choice([-np.inf, -2, -0.0, 0, 1, 1, 2, 3, 5, np.inf])) for n in names}
        every = int(rng.integers(1, 15)) if rng.random() < 0.4 else None
        queries.append(ThresholdQuery(f"q{i}", random_window(rng, window), every_micros=every, **bounds))
    weights = tuple((f"x{i}", float(rng.choice([1.0, -1.0, 0.5]))) for i in range(d))
    op = Threshold(Linear(weights), "max" if rng.random() < 0.5 else "min", None, tuple(queries), window, deletes=deletes)
    return op, random_stream(rng, int(rng.integers(1, 90)), int(rng.integers(1, 4)), d, str(rng.choice(SHAPES)), deletes)


def oracle_query(op: Threshold, q: ThresholdQuery) -> Query:
    def accept(s: float) -> bool:
        return all(test(s, getattr(q, name)) for name, test in OPS.items() if getattr(q, name) is not None)

    count = op.window.count if q.window.count is None else q.window.count
    micros = op.window.micros if q.window.micros is None else q.window.micros
    return Query(None, count, micros, op.direction == "max", q.every_micros, accept)


def check(seed: int) -> None:
    op, stream = random_case(seed)
    rng = np.random.default_rng(seed + 1)
    end = int(stream.time[-1]) + int(rng.choice([1, 5, 200]))
    score = scores_of(op, stream)
    keys = range(int(stream.key.max()) + 1)
    want: list[Row] = [
        r for i, q in enumerate(op.queries) for key in keys for r in replay(i, key, stream.events(key, score), oracle_query(op, q), end)
    ]
    whole, logic = drive(op, stream, [], end, False)
    assert whole == want
    assert drive(op, stream, cuts_of(stream, rng, 0.3), end, False)[0] == want
    assert drive(op, stream, cuts_of(stream, rng, 1.0), end, True)[0] == want
    for i, q in enumerate(op.queries):
        shown: dict[tuple[int, int], float] = {}
        for r in want:
            if r[0] == i and q.every_micros is None:
                if r[5] > 0:
                    shown[r[1], r[7]] = r[8]
                else:
                    del shown[r[1], r[7]]
        sign = -1.0 if op.direction == "max" else 1.0
        for key in keys if q.every_micros is None else ():
            best = sorted((s for k, s in shown if k == key), key=lambda s: (sign * shown[key, s], -s))
            assert logic.snapshot(key, 1000, q.window, i).items[:, 0].tolist() == best


@pytest.mark.parametrize("part", range(10))
def test_brute_force(part: int) -> None:
    for seed in seeds(part * 60, part * 60 + 60):
        check(seed)


def test_bounds_are_as_written() -> None:
    def interval(**bounds: float) -> Any:
        return ThresholdQuery("q", Window(1), **bounds).interval()

    assert interval(at_least=1.0, below=2.0) == (1.0, np.nextafter(2.0, 0.0))
    assert interval(above=-0.0)[0] > 0.0
    assert interval(above=np.inf) == interval(below=-np.inf) == interval(at_least=3.0, at_most=2.0) == (np.inf, -np.inf)
    assert interval(at_least=np.inf) == (np.inf, np.inf)


@pytest.mark.parametrize(
    ("query", "message"),
    [
        (ThresholdQuery("q", Window(5)), "needs above"),
        (ThresholdQuery("q", Window(5), above=float("nan")), "not a number"),
        (ThresholdQuery("q", Window(11), above=1.0), "larger than"),
        (ThresholdQuery("q", Window(None, 5), above=1.0), "not by time"),
        (ThresholdQuery("q", Window(5), above=1.0, every_micros=0), "every"),
    ],
)
def test_bad_configuration(query: ThresholdQuery, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Threshold(Linear((("x0", 1.0),)), "max", None, (query,), Window(10))


@pytest.mark.slow
@pytest.mark.parametrize("part", range(20))
def test_brute_force_on_thousands_of_streams(part: int) -> None:
    for seed in range(10_000 + part * 100, 10_000 + part * 100 + 100):
        check(seed)
