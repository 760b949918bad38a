"""Many linear queries over one window against brute force after every event, under cuts, restarts, deletions, boxes and predicates."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from skyband.operators.base import Arrivals, Window
from skyband.operators.expressions import parse
from skyband.operators.topk import many_logic as topk_many_logic
from skyband.operators.topk.many import ManyTopK
from tests.operators.expression_families import FAMILIES, spelled_scores, with_family
from tests.operators.test_topk_single import SHAPES, random_window
from tests.operators.topk_host import Stream, cuts_of, drive, random_stream, rows_of
from tests.oracles.topk import Query, Row, replay
from tests.seeds import seeds

PREDICATES = ("x0 >= 1", "x0 < 2", "x0 > 1000")


def random_op(rng: np.random.Generator, d: int, queries: int, window: Window, deletes: bool, plain: bool) -> ManyTopK:
    def maybe(a: Any) -> Any:
        return None if rng.random() < 0.5 else a

    names = tuple(f"x{i}" for i in range(d))
    schema: Any = dict.fromkeys(names, "float")
    some = rng.random((queries, 1)) < 0.5
    box_low = np.where(some, rng.choice([-np.inf, 0.0, 1.0, 2.0], (queries, d)), -np.inf)
    box_high = np.where(some & (box_low > -np.inf), box_low + rng.choice([-1.0, 0.0, 1.0, 9.0], (queries, d)), np.inf)
    boxes = (box_low, box_high) if rng.random() < 0.4 and not plain else (None, None)
    bound = rng.choice([np.nan, np.nan, 0.0, 1.0, 2.0], (2, queries))
    return ManyTopK(
        names=tuple(f"q{i}" for i in range(queries)), attributes=names,
        weights=rng.choice([0.0, 1.0, -1.0, 0.5, 2.0], (queries, d)), k=rng.integers(1, 6, queries), window=window,
        counts=maybe(rng.integers(0, window.count + 1, queries)) if window.count else None,
        micros=maybe(rng.integers(0, window.micros + 1, queries)) if window.micros else None,
        largest=maybe(rng.random(queries) < 0.5), low=boxes[0], high=boxes[1],
        where=tuple(parse(p, schema, ("",)) for p in PREDICATES) if not plain else (),
        where_of=maybe(rng.integers(-1, 3, queries)) if not plain else None,
        min_score=maybe(bound[0]) if not plain else None, max_score=maybe(bound[1]) if not plain else None,
        every=maybe(rng.choice([0, 0, 3, 10], queries)), deletes=deletes,
    )  # fmt: skip


def raw_scores(op: Any, q: int, x: Any) -> Any:
    """A query's scores of rows x (n, d), whatever its constraints."""
    if op.score is not None:
        return spelled_scores(op.score, op.weights[q], x)
    with np.errstate(all="ignore"):
        score = op.weights[q, 0] * x[:, 0]
        for i in range(1, len(op.attributes)):
            score = score + op.weights[q, i] * x[:, i]
    return score


def expected(op: ManyTopK, stream: Stream, end: int) -> list[Row]:
    truth = {0: stream.x[:, 0] >= 1, 1: stream.x[:, 0] < 2, 2: stream.x[:, 0] > 1000, -1: np.ones(len(stream), bool)}
    out: list[Row] = []
    for q in range(len(op.names)):
        score = raw_scores(op, q, stream.x)
        ok = truth[-1 if op.where_of is None else int(op.where_of[q])]
        if op.low is not None and op.high is not None:
            ok = ok & ((op.low[q] <= stream.x) & (stream.x <= op.high[q])).all(axis=1)
        score = np.where(ok, score, np.nan)
        least = -np.inf if op.min_score is None or np.isnan(op.min_score[q]) else op.min_score[q]
        most = np.inf if op.max_score is None or np.isnan(op.max_score[q]) else op.max_score[q]
        count = op.window.count if op.counts is None or op.counts[q] == 0 else int(op.counts[q])
        micros = op.window.micros if op.micros is None or op.micros[q] == 0 else int(op.micros[q])
        every = None if op.every is None or op.every[q] == 0 else int(op.every[q])
        query = Query(
            int(op.k[q]), count, micros, op.largest is None or bool(op.largest[q]), every, lambda s, a=least, b=most: a <= s <= b
        )  # fmt: skip
        for key in range(int(stream.key.max()) + 1):
            out += replay(q, key, stream.events(key, score), query, end)
    return out


def check(seed: int, family: str | None = None) -> None:
    rng = np.random.default_rng(seed)
    d, deletes = int(rng.integers(1, 4)), bool(rng.random() < 0.4)
    keys = 1 if rng.random() < 0.6 else 3
    op = random_op(rng, d, int(rng.integers(1, 7)), random_window(rng), deletes, bool(rng.random() < 0.4))
    op = op if family is None else with_family(rng, op, family)
    stream = random_stream(rng, int(rng.integers(1, 150)), keys, d, str(rng.choice(SHAPES)), deletes)
    end = int(stream.time[-1]) + int(rng.choice([1, 5, 200]))
    want = expected(op, stream, end)
    whole, logic = drive(op, stream, [], end, False)
    assert whole == want
    assert drive(op, stream, cuts_of(stream, rng, 0.3), end, False)[0] == want
    assert drive(op, stream, cuts_of(stream, rng, 1.0), end, True)[0] == want
    assert drive(op, stream, cuts_of(stream, rng, 0.02), end, True)[0] == want
    for q in range(len(op.names)):
        if op.every is not None and op.every[q]:
            continue
        for key in range(int(stream.key.max()) + 1):
            shown: dict[int, float] = {}
            for r in want:
                if r[0] == q and r[1] == key:
                    if r[5] > 0:
                        shown[r[7]] = r[8]
                    else:
                        del shown[r[7]]
            window = Window(
                None if op.counts is None or op.counts[q] == 0 else int(op.counts[q]),
                None if op.micros is None or op.micros[q] == 0 else int(op.micros[q]),
            )
            window = op.window if window == Window() else window
            got = logic.snapshot(key, int(op.k[q]), window, q)
            sign = -1.0 if op.largest is None or op.largest[q] else 1.0
            assert got.items[:, 0].tolist() == sorted(shown, key=lambda s: (sign * shown[s], -s))


@pytest.mark.parametrize("part", range(8))
@pytest.mark.parametrize("short", [False, True])
def test_brute_force(part: int, short: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if short:  # lists of k or k + 1: refills all the time
        monkeypatch.setattr(topk_many_logic, "list_sizes", lambda k: k + part % 2)
    for seed in seeds(part * 30, part * 30 + 10):
        check(seed)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("short", [False, True])
def test_families_of_expressions(family: str, short: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if short:
        monkeypatch.setattr(topk_many_logic, "list_sizes", lambda k: k)
    for seed in seeds(5000, 5008):
        check(seed, family)


def _blocks(x: Any, size: int) -> list[Arrivals]:
    n = len(x)
    return [
        Arrivals(
            np.zeros(min(n, lo + size) - lo, np.int64), np.arange(lo, min(n, lo + size)), np.arange(lo, min(n, lo + size)),
            {f"x{i}": x[lo : lo + size, i].copy() for i in range(x.shape[1])},
        )
        for lo in range(0, n, size)
    ]  # fmt: skip


@pytest.mark.long
@pytest.mark.parametrize("shape", ["uniform", "anticorrelated", "walk", "nan"])
@pytest.mark.parametrize("d", [1, 3, 4])
def test_grid_and_scan_agree(shape: str, d: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """With and without the influence grid, in long and in short blocks, with refills: the same changes."""
    rng = np.random.default_rng(d)
    x = rng.random((6000, d))
    if shape == "anticorrelated":
        x += (d / 2 - x.sum(1, keepdims=True)) / d
    if shape == "walk":
        x = np.round(np.cumsum(rng.normal(0, 1, (6000, d)), 0), 1)
    if shape == "nan":
        x[rng.random(x.shape) < 0.01] = rng.choice([np.nan, np.inf, -np.inf])
    q = 12
    weights = np.where(rng.random((q, d)) < 0.2, -1.0, 1.0) * rng.random((q, d))
    op = ManyTopK(
        tuple(f"q{i}" for i in range(q)), tuple(f"x{i}" for i in range(d)), weights, rng.integers(1, 8, q), Window(900),
        low=np.where(rng.random((q, 1)) < 0.2, 0.3, -np.inf) * np.ones(d), high=np.full((q, d), np.inf),
    )  # fmt: skip
    outputs = []
    for grid, size, short in ((True, 2000, False), (True, 300, True), (False, 700, False), (False, 6000, True)):
        with monkeypatch.context() as m:
            m.setattr(topk_many_logic, "HAVE_NUMBA", grid)
            if short:
                m.setattr(topk_many_logic, "list_sizes", lambda k: k + 1)
            logic = op.build(None)
            rows: list[Row] = []
            for b in _blocks(x, size):
                rows += rows_of(logic.advance(b, int(b.time[-1]) + 1))
        outputs.append(sorted(rows, key=lambda r: (r[0], r[3], r[4])))
    assert len(outputs[0]) > 100
    assert all(repr(o) == repr(outputs[0]) for o in outputs[1:])


def test_long_blocks_are_cut_where_time_moves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topk_many_logic, "BLOCK_ROWS", 10)
    for seed in seeds(0, 20):
        rng = np.random.default_rng(seed)
        op = random_op(rng, 2, 4, Window(20, 30), False, True)
        stream = random_stream(rng, 200, 1, 2, "few", False)
        assert drive(op, stream, [], int(stream.time[-1]) + 9, False)[0] == expected(op, stream, int(stream.time[-1]) + 9)


def test_unusable_rows_are_counted() -> None:
    x = np.random.default_rng(0).random((3000, 2))
    x[::10, 1] = np.nan
    op = ManyTopK(("q",), ("x0", "x1"), np.ones((1, 2)), np.array([3]), Window(500))
    for size in (3000, 1000, 50):
        logic = op.build(None)
        for b in _blocks(x, size):
            logic.advance(b, int(b.time[-1]) + 1)
        assert logic.counters()["unusable:0"] == 300


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"names": ("q", "q")}, "one name"),
        ({"names": ()}, "0 queries"),
        ({"attributes": ("x0", "x0")}, "each once"),
        ({"weights": np.ones((2, 3))}, "weights has shape"),
        ({"weights": np.array([[1.0, 2.0], [np.nan, 1.0]])}, "r: a weight"),
        ({"k": np.array([1, 0])}, "r: k must be at least 1"),
        ({"counts": np.array([1, 11])}, "r: the count window is larger"),
        ({"micros": np.array([0, 11])}, "r: the state's window is not by time"),
        ({"low": np.zeros((2, 2))}, "needs low and high"),
        ({"low": np.zeros((2, 2)), "high": np.full((2, 2), np.nan)}, "q: a constraint is not a number"),
        ({"where_of": np.array([-1, 0])}, "r: unknown predicate"),
        ({"every": np.array([0, -1])}, "r: every"),
        ({"parameters": ("c",)}, "parameters need a score"),
        (
            {"score": parse("x0 * c", dict.fromkeys(("x0", "c"), "float"), ("",)), "parameters": ("c",), "weights": np.ones((2, 1))},
            "use every",
        ),
        ({"score": parse("x0 + exp(x1)", dict.fromkeys(("x0", "x1"), "float"), ("",)), "weights": np.ones((2, 0))}, "exp.* no bounds"),
    ],
)
def test_bad_configuration(change: dict[str, Any], message: str) -> None:
    good: Any = {
        "names": ("q", "r"), "attributes": ("x0", "x1"), "weights": np.ones((2, 2)), "k": np.array([1, 2]), "window": Window(10)
    }  # fmt: skip
    with pytest.raises(ValueError, match=message):
        ManyTopK(**{**good, **change})


@pytest.mark.slow
@pytest.mark.parametrize("part", range(20))
def test_brute_force_on_thousands_of_streams(part: int, monkeypatch: pytest.MonkeyPatch) -> None:
    if part % 2:
        monkeypatch.setattr(topk_many_logic, "list_sizes", lambda k: k + part // 2 % 3)
    for seed in range(10_000 + part * 100, 10_000 + part * 100 + 100):
        check(seed)
