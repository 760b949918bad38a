"""Top-k of one scoring function against brute force after every event, under cuts, restarts, deletions, bounds and boundaries."""

from __future__ import annotations

import itertools
import pickle
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from skyband.operators.base import NULL, Arrivals, Column, State, Window
from skyband.operators.expressions import parse
from skyband.operators.single_rows.scores import Linear, scorer
from skyband.operators.topk import one_function_logic
from skyband.operators.topk.one_function import TopK, TopKDeletes, TopKQuery
from tests.operators.topk_host import Stream, cuts_of, drive, random_stream
from tests.oracles.topk import Query, Row, replay
from tests.seeds import seeds

SHAPES = ("few", "equal", "rising", "falling", "real", "walk", "infinite")


def random_window(rng: np.random.Generator, largest: Window | None = None) -> Window:
    kind = rng.integers(0, 3) if largest is None else 2
    count = int(rng.integers(1, 25)) if kind != 1 else None
    micros = int(rng.integers(1, 60)) if kind != 0 else None
    if largest is None:
        return Window(count, micros)
    c = None if largest.count is None else int(rng.integers(1, largest.count + 1))
    m = None if largest.micros is None else int(rng.integers(1, largest.micros + 1))
    if c is not None and m is not None and rng.random() < 0.4:
        return Window(c, None) if rng.random() < 0.5 else Window(None, m)
    return Window(c, m)


def random_case(seed: int, deletes: bool) -> tuple[Any, Stream]:
    rng = np.random.default_rng(seed)
    d = int(rng.integers(1, 3))
    direction = rng.choice(["min", "max"])
    window = random_window(rng)
    keep_k = int(rng.integers(1, 9))
    ceiling = float(rng.integers(0, 4)) if rng.random() < 0.2 else None
    queries = []
    for i in range(int(rng.integers(1, 4))):
        floor = float(rng.integers(-1, 5)) if rng.random() < 0.25 else None
        bounds = {"min_score": floor, "max_score": ceiling} if direction == "max" else {"min_score": ceiling, "max_score": floor}
        every = int(rng.integers(1, 15)) if rng.random() < 0.3 else None
        queries.append(TopKQuery(f"q{i}", int(rng.integers(1, keep_k + 1)), random_window(rng, window), every, **bounds))
    weights = tuple((f"x{i}", float(rng.choice([1.0, -1.0, 0.5, 2.0]))) for i in range(d))
    kind = TopKDeletes if deletes else TopK
    op = kind(Linear(weights), str(direction), None, tuple(queries), keep_k, window)
    rows = int(rng.integers(1, 90))
    return op, random_stream(rng, rows, int(rng.integers(1, 4)), d, str(rng.choice(SHAPES)), deletes)


def scores_of(op: Any, stream: Stream) -> Any:
    total = None
    with np.errstate(all="ignore"):
        for name, w in op.scoring.weights:
            term = w * stream.x[:, int(name[1:])]
            total = term if total is None else total + term
    return total


def expected(op: Any, stream: Stream, end: int) -> list[Row]:
    score = scores_of(op, stream)
    out: list[Row] = []
    for i, q in enumerate(op.queries):
        lo = -np.inf if q.min_score is None else q.min_score
        hi = np.inf if q.max_score is None else q.max_score
        count = op.window.count if q.window.count is None else q.window.count
        micros = op.window.micros if q.window.micros is None else q.window.micros
        query = Query(q.k, count, micros, op.direction == "max", q.every_micros, lambda s, lo=lo, hi=hi: lo <= s <= hi)
        for key in range(int(stream.key.max()) + 1):
            out += replay(i, key, stream.events(key, score), query, end)
    return out


def check(seed: int, deletes: bool) -> None:
    op, stream = random_case(seed, deletes)
    rng = np.random.default_rng(seed + 1)
    end = int(stream.time[-1]) + int(rng.choice([1, 5, 200]))
    want = expected(op, stream, end)
    whole, logic = drive(op, stream, [], end, False)
    assert whole == want
    assert drive(op, stream, cuts_of(stream, rng, 0.3), end, False)[0] == want
    assert drive(op, stream, cuts_of(stream, rng, 1.0), end, True)[0] == want
    _check_snapshots(op, stream, logic, end)


def _check_snapshots(op: Any, stream: Stream, logic: Any, end: int) -> None:
    score = scores_of(op, stream)
    for key in range(int(stream.key.max()) + 1):
        for i, q in enumerate(op.queries):
            lo = -np.inf if q.min_score is None else q.min_score
            hi = np.inf if q.max_score is None else q.max_score
            count = op.window.count if q.window.count is None else q.window.count
            micros = op.window.micros if q.window.micros is None else q.window.micros
            query = Query(op.keep_k, count, micros, op.direction == "max", None, lambda s, lo=lo, hi=hi: lo <= s <= hi)
            shown: dict[int, float] = {}
            for r in replay(i, key, stream.events(key, score), query, end):
                if r[5] > 0:
                    shown[r[7]] = r[8]
                else:
                    del shown[r[7]]
            sign = -1.0 if op.direction == "max" else 1.0
            want = sorted(shown, key=lambda s: (sign * shown[s], -s))
            got = logic.snapshot(key, op.keep_k, q.window, i)
            assert got.items[:, 0].tolist() == want
            assert got.score.tolist() == [shown[s] for s in want]


@pytest.mark.parametrize("part", range(10))
@pytest.mark.parametrize("deletes", [False, True])
@pytest.mark.parametrize("short", [False, True])
def test_brute_force(part: int, deletes: bool, short: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if short:  # lists of k or k + 1: refills all the time, and candidates sought a few rows ahead
        monkeypatch.setattr(one_function_logic, "list_sizes", lambda k: k + part % 2)
        monkeypatch.setattr(one_function_logic, "PIECE", 1 + part % 3)
    for seed in seeds(part * 40, part * 40 + 12):
        check(seed, deletes)


def changes_by_definition(score: Any, n: int, k: int) -> list[tuple[int, int, int, int]]:
    """(row, sign, seq, rank order) of every change of the k best of the last n rows, by sorting the window after every row."""
    out: list[tuple[int, int, int, int]] = []
    shown: list[tuple[float, int]] = []
    for i in range(len(score)):
        window = [(-score[j], -j) for j in range(max(0, i - n + 1), i + 1) if not np.isnan(score[j])]
        now = sorted(window)[:k]
        if now != shown:
            gone, come = sorted(set(shown) - set(now)), sorted(set(now) - set(shown))
            both = [(-1, -s) for _, s in gone] + [(1, -s) for _, s in come]
            out += [(i, sign, seq, pos) for pos, (sign, seq) in enumerate(both)]
        shown = now
    return out


@pytest.mark.long
@pytest.mark.parametrize("shape", ["random", "ties", "rising", "falling", "waves", "infinite", "steps"])
@pytest.mark.parametrize("piece", [3, 64, 100, 4096])
def test_long_blocks(shape: str, piece: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of many words of 64 rows and many pieces, cut anywhere: hits at the borders, ties with the cutoff, lists that run dry."""
    monkeypatch.setattr(one_function_logic, "PIECE", piece)
    rng = np.random.default_rng(len(shape) + piece)
    rows = 700
    at = np.arange(rows)
    x = {
        "random": lambda: rng.random(rows), "ties": lambda: rng.integers(0, 6, rows) / 2.0, "rising": lambda: at // 3 * 1.0,
        "falling": lambda: -(at // 2) * 1.0, "waves": lambda: np.round(100 * np.sin(at / 40.0)),
        "infinite": lambda: rng.choice([-np.inf, np.inf, 0.0, -0.0, 1.0], rows), "steps": lambda: at // 64 % 3 * 1.0,
    }[shape]()  # fmt: skip
    x[rng.random(rows) < 0.03] = np.nan
    for n, k in ((50, 4), (65, 1), (200, 30), (10_000, 7)):
        op = TopK(Linear((("x0", 1.0),)), "max", None, (TopKQuery("q", k, Window(n)),), k, Window(n))
        want = changes_by_definition(x, n, k)
        for cuts in ([0, rows], [0, 64, 128, 333, rows], [0, *range(1, 70), 500, 501, rows]):
            logic, got = op.build(None), []
            for lo, hi in itertools.pairwise(cuts):
                block = Arrivals(np.zeros(hi - lo, np.int64), at[lo:hi], at[lo:hi], {"x0": x[lo:hi]})
                c = logic.advance(block, hi)
                got += zip(c.at.tolist(), c.sign.tolist(), c.items[:, 0].tolist(), c.pos.tolist(), strict=True)
            assert got == want
            newer = [sum(x[j] >= x[i] for j in range(i + 1, rows)) for i in range(max(0, rows - n), rows)]
            band = [max(0, rows - n) + i for i, c in enumerate(newer) if c < k and not np.isnan(x[max(0, rows - n) + i])]
            assert logic.skyband().items[:, 0].tolist() == band


@pytest.mark.parametrize("d", range(1, 11))
def test_linear_is_summed_from_left_to_right(d: int) -> None:
    rng = np.random.default_rng(d)
    x = rng.choice([0.0, -0.0, 1.0, 1e300, -1e300, np.inf, np.nan, 0.1, 1e-300], (2500, d))
    x[1000:] = rng.normal(size=(1500, d)) * 10.0 ** rng.integers(-8, 8, (1500, d))
    w = rng.choice([1.0, -1.0, 0.0, -0.0, 0.3, 1e10], d)
    ints = frozenset({"x1"}) if d > 1 else frozenset()
    columns = {f"x{i}": x[:, i].copy() for i in range(d)}
    for c in columns.values():
        c.flags.writeable = bool(rng.random() < 0.5)
    if ints:
        columns["x1"] = rng.integers(-5, 5, 2500)
        columns["x1"][::7] = NULL
        x[:, 1] = np.where(columns["x1"] == NULL, np.nan, columns["x1"])
    for direction in ("max", "min"):
        sign = 1.0 if direction == "max" else -1.0
        with np.errstate(all="ignore"):
            want = sign * w[0] * x[:, 0]
            for i in range(1, d):
                want = want + sign * w[i] * x[:, i]
        want = want + 0.0
        got, bad = scorer(Linear(tuple((f"x{i}", float(w[i])) for i in range(d)), ints), None, direction, ())(columns, 2500)
        assert np.array_equal(got, want, equal_nan=True)
        assert not np.signbit(got[got == 0]).any()
        assert bad == int(np.isnan(want).sum())


@pytest.mark.parametrize("time", [False, True])
def test_many_keys(time: bool) -> None:
    """Keys that come late, come rarely and move in the pool: each as if it were alone, and so after a restore."""
    rng = np.random.default_rng(7)
    keys, k = 60, 3
    window = Window(None, 400) if time else Window(12)
    op = TopK(Linear((("x0", 1.0),)), "max", None, (TopKQuery("q", k, window),), k, window)
    logic, alone = op.build(None), [op.build(None) for _ in range(keys)]
    nxt, now = np.zeros(keys, np.int64), 0
    for step in range(80):
        most = 1 + keys * min(step, 40) // 41
        some = np.sort(rng.integers(0, most, int(rng.integers(0, 40))))
        known = int((nxt > 0).sum())
        some = np.sort(np.concatenate([some[some < known], np.arange(known, max(most, known))]))
        first = np.searchsorted(some, some)
        seq = nxt[some] + np.arange(len(some)) - first
        tm = now + 3 * (np.arange(len(some)) - first)
        until = int(tm.max()) + 1 if len(some) else now + 1
        x = rng.integers(0, 9, len(some)).astype(float)
        got = logic.advance(Arrivals(some, seq, tm, {"x0": x}), until)
        for key in range(most):
            mine = some == key
            zero = np.zeros(int(mine.sum()), np.int64)
            one = alone[key].advance(Arrivals(zero, seq[mine], tm[mine], {"x0": x[mine]}), until)
            here = got.key == key
            for name in ("at", "step", "pos", "sign", "cause", "score", "items"):
                assert getattr(got, name)[here].tolist() == getattr(one, name).tolist()
            assert logic.snapshot(key, k, window).items.tolist() == alone[key].snapshot(0, k, window).items.tolist()
        np.add.at(nxt, some, 1)
        now = until + int(rng.integers(0, 30))
        if step % 7 == 3:
            none = Arrivals(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.int64), {})
            logic = op.build(State(pickle.loads(pickle.dumps(logic.checkpoint())), none))
    band = logic.skyband()
    for key in range(keys):
        assert band.items[band.key == key].tolist() == alone[key].skyband().items.tolist()


def _schema() -> dict[str, Any]:
    return {"x0": "float", "x1": "float", "n": "int"}


@pytest.mark.parametrize("direction", ["min", "max"])
def test_expression_equals_linear(direction: str) -> None:
    rng = np.random.default_rng(5)
    stream = random_stream(rng, 300, 2, 2, "few", False)
    queries = (TopKQuery("q", 3, Window(20)),)
    end = int(stream.time[-1]) + 1
    linear = TopK(Linear((("x0", 1.0), ("x1", -2.0))), direction, None, queries, 3, Window(20))
    node = parse("x0 - 2 * x1", _schema(), ("",))
    where = parse("x0 is not null", _schema(), ("",))
    expression = TopK(node, direction, None, queries, 3, Window(20))
    want, logic = drive(linear, stream, [], end, False)
    assert {c.name for c in expression.columns} == {"x0", "x1"}
    assert drive(expression, stream, [90, 91], end, True)[0] == want
    assert drive(replace(linear, where=where), stream, [], end, False)[0] == want
    null = int(np.isnan(stream.x).any(axis=1).sum())
    assert logic.counters()["unusable:0"] == null > 0
    masked = replace(expression, where=where).build(None)
    masked.advance(stream.block(0, len(stream)), end)
    assert masked.counters()["unusable:0"] == int(np.isnan(stream.x[:, 1][~np.isnan(stream.x[:, 0])]).sum())


def test_where_that_excludes_everything() -> None:
    stream = random_stream(np.random.default_rng(1), 100, 2, 1, "few", False)
    op = TopK(
        Linear((("x0", 1.0),)), "max", parse("x0 > 1000", _schema(), ("",)), (TopKQuery("q", 2, Window(9)),), 2, Window(9)
    )  # fmt: skip
    out, logic = drive(op, stream, [50], 10**6, True)
    assert out == []
    assert len(logic.skyband()) == 0
    assert len(logic.snapshot(0, 2, Window(9))) == 0


def test_integer_attributes() -> None:
    op = TopK(Linear((("n", 1.0),), frozenset({"n"})), "max", None, (TopKQuery("q", 1, Window(5)),), 1, Window(5))
    assert op.columns == (Column("n", "int"),)
    n = np.array([3, NULL, 7], np.int64)
    got = op.build(None).advance(Arrivals(np.zeros(3, np.int64), np.arange(3), np.arange(3), {"n": n}), 10)
    assert got.score.tolist() == [3.0, 3.0, 7.0]
    assert got.sign.tolist() == [1, -1, 1]


def test_skyband_is_minimal_and_small() -> None:
    rng = np.random.default_rng(3)
    n, k = 5000, 10
    x = rng.random(20000)
    op = TopK(Linear((("x0", 1.0),)), "max", None, (TopKQuery("q", k, Window(n)),), k, Window(n))
    logic = op.build(None)
    for lo in range(0, len(x), 4000):
        hi = lo + 4000
        logic.advance(Arrivals(np.zeros(4000, np.int64), np.arange(lo, hi), np.arange(lo, hi), {"x0": x[lo:hi]}), hi)
    newer = [sum(x[j] >= x[i] for j in range(i + 1, len(x))) for i in range(len(x) - 300, len(x))]
    want = [len(x) - 300 + i for i, c in enumerate(newer) if c < k]
    got = logic.skyband().items[:, 0]
    assert got[got >= len(x) - 300].tolist() == want
    assert len(got) < 2 * k * (1 + np.log(n / k))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"queries": (TopKQuery("q", 0, Window(5)),)}, "at least 1"),
        ({"queries": (TopKQuery("q", 4, Window(5)),)}, "larger than the state's"),
        ({"queries": (TopKQuery("q", 1, Window(50)),)}, "larger than the state's"),
        ({"queries": (TopKQuery("q", 1, Window(None, 5)),)}, "not by time"),
        ({"queries": (TopKQuery("q", 1, Window()),)}, "count or a duration"),
        ({"queries": (TopKQuery("q", 1, Window(5)),) * 2}, "one name"),
        ({"queries": (TopKQuery("q", 1, Window(5), min_score=float("nan")),)}, "not a number"),
        ({"queries": (TopKQuery("q", 1, Window(5), max_score=1.0), TopKQuery("r", 1, Window(5)))}, "must agree"),
        ({"queries": (TopKQuery("q", 1, Window(5), every_micros=0),)}, "every"),
        ({"queries": ()}, "at least one query"),
        ({"direction": "up"}, "direction"),
    ],
)
def test_bad_configuration(change: dict[str, Any], message: str) -> None:
    good: Any = {
        "scoring": Linear((("x0", 1.0),)), "direction": "max", "where": None, "queries": (TopKQuery("q", 1, Window(5)),), "keep_k": 3,
        "window": Window(10),
    }  # fmt: skip
    with pytest.raises(ValueError, match=message):
        TopK(**{**good, **change})


def test_bad_weights() -> None:
    for weights in ((), (("a", float("nan")),), (("a", 1.0), ("a", 2.0))):
        with pytest.raises(ValueError):
            Linear(weights)


def test_snapshot_beyond_the_state() -> None:
    logic = TopK(Linear((("x0", 1.0),)), "max", None, (TopKQuery("q", 1, Window(5)),), 3, Window(10)).build(None)
    for k, window in ((4, Window(5)), (0, Window(5)), (1, Window(11)), (1, Window(None, 5))):
        with pytest.raises(ValueError):
            logic.snapshot(0, k, window)


def long_block_changes() -> list[Any]:
    """Everything a few long blocks say and leave behind, as lists."""
    out: list[Any] = []
    rng = np.random.default_rng(2)
    x = np.round(rng.normal(size=6000), 2)
    x[rng.random(6000) < 0.01] = np.nan
    for direction, n, k in (("max", 100, 5), ("min", 1000, 40)):
        op = TopK(Linear((("x0", 1.0),)), direction, None, (TopKQuery("q", k, Window(n)),), k, Window(n))  # type: ignore[arg-type]
        logic = op.build(None)
        for lo, hi in ((0, 5000), (5000, 5003), (5003, 6000)):
            at = np.arange(lo, hi)
            c = logic.advance(Arrivals(np.zeros(hi - lo, np.int64), at, at, {"x0": x[lo:hi]}), hi)
            out += [getattr(c, f).tolist() for f in ("query", "key", "at", "step", "pos", "sign", "cause", "score", "items")]
            out += [getattr(c, f).dtype.str for f in ("query", "key", "at", "step", "pos", "sign", "cause", "score", "items")]
            out += [(name, a.dtype.str, a.tobytes()) for name, a in logic.checkpoint().items()]
    return out


@pytest.mark.slow
@pytest.mark.parametrize("part", range(20))
def test_brute_force_on_thousands_of_streams(part: int, monkeypatch: pytest.MonkeyPatch) -> None:
    if part % 2:
        monkeypatch.setattr(one_function_logic, "list_sizes", lambda k: k + part // 2 % 3)
        monkeypatch.setattr(one_function_logic, "PIECE", 1 + part % 5)
    for seed in range(10_000 + part * 100, 10_000 + part * 100 + 100):
        check(seed, False)
        check(seed, True)
