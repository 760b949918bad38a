"""Thresholds of many linear functions: by definition after every event, and each as ``Threshold`` alone, under cuts and restarts."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from skyband.operators.base import NULL, Arrivals, Changes, Column, State, Window
from skyband.operators.expressions import parse
from skyband.operators.threshold import many_logic
from skyband.operators.threshold.many import ManyThreshold
from skyband.operators.threshold.many_kernels import LIVE
from tests.operators.expression_families import FAMILIES, with_family
from tests.operators.test_topk_single import SHAPES, random_window
from tests.operators.threshold_many_host import BOUNDS, cut_blocks, expected, random_op, scores, single, value
from tests.operators.topk_host import Stream, cuts_of, drive, joined, pick, random_stream, rows_of
from tests.oracles.topk import Row
from tests.seeds import cases, seeds


def check(seed: int, family: str | None = None) -> None:
    rng = np.random.default_rng(seed)
    d, deletes = int(rng.integers(1, 4)), bool(rng.random() < 0.5)
    op = random_op(rng, d, int(rng.integers(1, 7)), random_window(rng), deletes, bool(rng.random() < 0.4))
    op = op if family is None else with_family(rng, op, family)
    stream = random_stream(rng, int(rng.integers(1, 120)), int(rng.integers(1, 4)), d, str(rng.choice(SHAPES)), deletes)
    end = int(stream.time[-1]) + int(rng.choice([1, 5, 200]))
    want = expected(op, stream, end)
    whole, logic = drive(op, stream, [], end, False)
    assert whole == want
    objects = stream.x[stream.seq >= 0]
    counters = logic.counters()
    assert [counters[f"unusable:{q}"] for q in range(len(op.names))] == [scores(op, q, objects)[1] for q in range(len(op.names))]
    assert drive(op, stream, cuts_of(stream, rng, 0.3), end, False)[0] == want
    assert drive(op, stream, cuts_of(stream, rng, 1.0), end, True)[0] == want
    assert drive(op, stream, cuts_of(stream, rng, 0.1), end, True)[0] == want
    for q in range(len(op.names)):
        if value(op.every, q, 0) is not None:
            continue
        shown: dict[tuple[int, int], float] = {}
        for r in want:
            if r[0] == q:
                if r[5] > 0:
                    shown[r[1], r[7]] = r[8]
                else:
                    del shown[r[1], r[7]]
        sign = -1.0 if op.direction == "max" else 1.0
        window = Window(value(op.counts, q, 0) or op.window.count, value(op.micros, q, 0) or op.window.micros)
        for key in range(int(stream.key.max()) + 1):
            best = sorted((s for k, s in shown if k == key), key=lambda s: (sign * shown[key, s], -s))
            assert logic.snapshot(key, 1000, window, q).items[:, 0].tolist() == best
            assert logic.snapshot(key, 2, window, q).items[:, 0].tolist() == best[:2]


@pytest.fixture
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """Grids from the first row on, however few the queries."""
    monkeypatch.setattr(many_logic, "MIN_QUERIES", 1)
    monkeypatch.setattr(many_logic, "SAMPLE", 1)


@pytest.mark.parametrize("part", range(8))
def test_brute_force(part: int) -> None:
    for seed in seeds(part * 30, part * 30 + 30):
        check(seed)


@pytest.mark.parametrize("part", range(6))
@pytest.mark.usefixtures("eager")
def test_brute_force_with_a_grid(part: int, monkeypatch: pytest.MonkeyPatch) -> None:
    if part % 2:  # gaps are closed after every block
        monkeypatch.setattr(many_logic, "SLACK", -(10**9))
    for seed in seeds(1000 + part * 30, 1000 + part * 30 + 30):
        check(seed)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.usefixtures("eager")
def test_families_of_expressions(family: str) -> None:
    for seed in seeds(6000, 6010):
        check(seed, family)


@pytest.mark.usefixtures("eager")
@settings(max_examples=cases(60), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_tiny_streams(data: st.DataObject) -> None:
    """One query over a few rows of tiny domains, every detail chosen by hypothesis."""
    number = st.sampled_from([-math.inf, -1.0, -0.0, 0.0, 1.0, math.inf, math.nan])
    rows = data.draw(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 1), number), min_size=1, max_size=14))
    window = Window(data.draw(st.integers(1, 4)), data.draw(st.sampled_from([None, 1, 3])))
    side = data.draw(st.sampled_from(sorted(BOUNDS)))
    every = data.draw(st.sampled_from([0, 2, 5]))
    op = ManyThreshold(
        ("q",), ("x0",), np.array([[data.draw(st.sampled_from([1.0, -1.0, 0.0]))]]), window, data.draw(st.sampled_from(["min", "max"])),
        **{side: np.array([data.draw(st.sampled_from([-1.0, 0.0, 1.0, math.inf]))])}, every=np.array([every]),
    )  # fmt: skip
    key = np.array([k for _, k, _ in rows], np.int64)
    _, first, key = np.unique(key, return_index=True, return_inverse=True)
    key = np.argsort(np.argsort(first))[key]
    seq = np.array([int((key[:i] == k).sum()) for i, k in enumerate(key)], np.int64)
    time = np.cumsum([t for t, _, _ in rows]).astype(np.int64)
    stream = Stream(time, key, seq, np.full(len(rows), NULL), np.array([[x] for _, _, x in rows]), False)
    cuts = [i for i in range(1, len(rows)) if time[i] > time[i - 1] and data.draw(st.booleans())]
    end = int(time[-1]) + data.draw(st.sampled_from([1, 4, 9]))
    want = expected(op, stream, end)
    assert drive(op, stream, [], end, False)[0] == want
    assert drive(op, stream, cuts, end, True)[0] == want


def raw(c: Changes, query: int) -> bytes:
    mine = c.query == query
    fields = (c.key, c.at, c.step, c.pos, c.sign, c.cause, c.score, c.items)
    return b"".join(f[mine].tobytes() for f in fields)


@pytest.mark.parametrize(("seed", "family"), [(seed, None) for seed in seeds(0, 40)] + [(40 + i, f) for i, f in enumerate(FAMILIES)])
@pytest.mark.usefixtures("eager")
def test_each_query_is_that_of_threshold_alone(seed: int, family: str | None) -> None:
    """The same bytes block by block, the same unusable counts, and nothing is retained that no single operator retains."""
    rng = np.random.default_rng(5000 + seed)
    d, deletes = int(rng.integers(1, 4)), bool(rng.random() < 0.5)
    op = random_op(rng, d, int(rng.integers(2, 20)), random_window(rng), deletes, bool(rng.random() < 0.3))
    op = op if family is None else with_family(rng, op, family)
    stream = random_stream(rng, int(rng.integers(50, 300)), int(rng.integers(1, 5)), d, str(rng.choice(SHAPES)), deletes)
    many, ones = op.build(None), [single(op, q).build(None) for q in range(len(op.names))]
    for block, until in cut_blocks(stream, cuts_of(stream, rng, 0.15), int(stream.time[-1]) + 30):
        got = many.advance(block, until)
        for q, one in enumerate(ones):
            assert raw(got, q) == raw(one.advance(block, until), 0)
        kept = [set(zip(*(a.tolist() for a in logic.retained()), strict=True)) for logic in (many, *ones)]
        assert kept[0] <= set().union(*kept[1:])
        waking = [w for w in (one.wake() for one in ones) if w is not None]
        assert not waking or (many.wake() is not None and many.wake() <= min(waking))  # type: ignore[operator]
    counters = many.counters()
    assert [counters[f"unusable:{q}"] for q in range(len(ones))] == [one.counters()["unusable:0"] for one in ones]


def uniform(x: Any, size: int) -> list[Arrivals]:
    n = len(x)
    return [
        Arrivals(
            np.zeros(min(n, lo + size) - lo, np.int64), np.arange(lo, min(n, lo + size)), np.arange(lo, min(n, lo + size)),
            {f"x{i}": x[lo : lo + size, i].copy() for i in range(x.shape[1])},
        )
        for lo in range(0, n, size)
    ]  # fmt: skip


@pytest.mark.long
@pytest.mark.parametrize("shape", ["uniform", "anticorrelated", "walk", "nan", "drift", "huge"])
@pytest.mark.parametrize("d", [1, 3, 4])
def test_grid_and_scan_agree(shape: str, d: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """With and without the grid, with grids given up all the time, in long and in short blocks: the same changes."""
    rng = np.random.default_rng(d)
    x = rng.random((6000, d))
    if shape == "anticorrelated":
        x += (d / 2 - x.sum(1, keepdims=True)) / d
    if shape == "walk":
        x = np.round(np.cumsum(rng.normal(0, 1, (6000, d)), 0), 1)
    if shape == "nan":
        x[rng.random(x.shape) < 0.01] = rng.choice([np.nan, np.inf, -np.inf])
    if shape == "drift":
        x += np.arange(6000)[:, None] / 500
    if shape == "huge":
        x = np.where(rng.random((6000, d)) < 0.01, 1e308, 1.0) * x
    q = 40
    weights = np.where(rng.random((q, d)) < 0.2, -1.0, 1.0) * rng.random((q, d)) * (10.0 if shape == "huge" else 1.0)
    with np.errstate(all="ignore"):
        y = (x[:, None, :] * weights).sum(axis=2)
    y = np.where(np.isfinite(y), y, 0.0)
    some = rng.random(q) < 0.3
    op = ManyThreshold(
        tuple(f"q{i}" for i in range(q)), tuple(f"x{i}" for i in range(d)), weights, Window(900),
        at_least=np.where(some, np.nan, np.quantile(y, 0.99, axis=0)), below=np.where(some, np.quantile(y, 0.02, axis=0), np.nan),
        at_most=np.where(~some & (rng.random(q) < 0.3), np.quantile(y, 0.995, axis=0), np.nan),
        low=np.where(rng.random((q, 1)) < 0.2, 0.3, -np.inf) * np.ones(d), high=np.full((q, d), np.inf),
    )  # fmt: skip
    outputs, counts = [], []
    for grid, size, entries in ((True, 2000, 8_000_000), (True, 300, 8_000_000), (False, 700, 0), (True, 50, 3000)):
        with monkeypatch.context() as m:
            m.setattr(many_logic, "HAVE_NUMBA", grid and many_logic.HAVE_NUMBA)
            m.setattr(many_logic, "MAX_ENTRIES", entries)
            logic = op.build(None)
            rows: list[Row] = []
            for b in uniform(x, size):
                rows += rows_of(logic.advance(b, int(b.time[-1]) + 1))
        outputs.append(sorted(rows, key=lambda r: (r[0], r[3], r[4])))
        counters = logic.counters()
        counts.append([counters[f"unusable:{i}"] for i in range(q)])
        if grid and many_logic.HAVE_NUMBA and entries > 3000 and shape == "uniform":
            assert counters["wild"] < 1000 and counters["tests"] < 6000 * q / 3
    assert len(outputs[0]) > 100
    assert all(repr(o) == repr(outputs[0]) for o in outputs[1:])
    assert all(c == counts[0] for c in counts[1:])


def test_large_results_leave_one_by_one_and_space_is_given_back() -> None:
    """A burst that everyone takes, then rows that nobody takes: state shrinks again."""
    q = 20
    op = ManyThreshold(
        tuple(f"q{i}" for i in range(q)),
        ("x0",),
        np.ones((q, 1)),
        Window(2000),
        above=np.zeros(q),
        every=np.where(np.arange(q) == 3, 50, 0),
    )
    logic = op.build(None)
    x = np.concatenate([np.ones(3000), -np.ones(6000)])[:, None]
    total = 0
    for b in uniform(x, 500):
        total += len(logic.advance(b, int(b.time[-1]) + 1))
    assert total == 2 * 3000 * (q - 1) + 2 * 3000
    assert len(logic.retained()[0]) == 0 and logic.lists.totals[LIVE] == 0 and len(logic.members.score) < 20_000


def test_deletions_are_forgotten() -> None:
    """The notes of who took which row stay in proportion to what is alive."""
    rng = np.random.default_rng(3)
    op = ManyThreshold(("a", "b"), ("x0",), np.ones((2, 1)), Window(50), above=np.zeros(2), deletes=True)
    logic = op.build(None)
    seq = 0
    for _ in range(800):
        n = 40
        target = np.full(n, NULL)
        target[n - 1] = seq + int(rng.integers(0, n - 1))
        s = np.arange(seq, seq + n)
        s[n - 1] = -1
        time = np.full(n, seq)
        columns = {"x0": rng.normal(size=n), "$target": target}
        logic.advance(Arrivals(np.zeros(n, np.int64), s, time, columns), seq + 1)
        seq += n - 1
    assert logic.log.totals[0] < 6000 and len(logic.tombs.key) + logic.fresh < 6000
    assert len(logic.checkpoint()["tomb_seq"]) < 50


def test_rows_of_others_change_nothing_after_a_restore() -> None:
    """A host may bring more rows than were retained: deleted, expired and unrelated ones."""
    for seed in seeds(0, 60):
        rng = np.random.default_rng(seed)
        op = random_op(rng, 2, 5, random_window(rng), True, False)
        stream = random_stream(rng, 100, 2, 2, "few", True)
        end = int(stream.time[-1]) + 50
        want = expected(op, stream, end)
        logic, out, kept = op.build(None), [], stream.block(0, 0)
        for block, until in cut_blocks(stream, cuts_of(stream, rng, 0.4), end):
            out += rows_of(logic.advance(block, until))
            kept = joined(kept, block)
            need = set(zip(*(a.tolist() for a in logic.retained()), strict=True))
            pairs = list(zip(kept.key.tolist(), kept.seq.tolist(), strict=True))
            logic = op.build(State(logic.checkpoint(), pick(kept, np.array([p in need or rng.random() < 0.5 for p in pairs], bool))))
        assert sorted(out, key=lambda r: (r[0], r[1], r[3], r[4])) == want


def test_ints_and_columns() -> None:
    op = ManyThreshold(
        ("q",), ("x0", "x1"), np.ones((1, 2)), Window(5), at_least=np.array([3.0]), ints=frozenset({"x1"}), deletes=True,
        where=(parse("z > 1", {"z": "int"}, ("",)),), where_of=np.array([0]),
    )  # fmt: skip
    assert op.columns == (Column("x0", "float"), Column("x1", "int"), Column("z", "int"), Column("$target", "int"))
    columns = {
        "x0": np.array([1.0, 1.0, 1.0, 1.0]), "x1": np.array([2, 1, NULL, 2]), "z": np.array([2, 2, 2, NULL]), "$target": np.full(4, NULL)
    }  # fmt: skip
    logic = op.build(None)
    got = logic.advance(Arrivals(np.zeros(4, np.int64), np.arange(4), np.arange(4), columns), 10)
    assert got.items.tolist() == [[0]] and logic.counters()["unusable:0"] == 1
    assert len(logic.skyband()) == 0


@pytest.mark.parametrize(("window", "k"), [(Window(6), 1), (Window(None, 3), 1), (Window(3), 0)])
def test_snapshot_refuses_what_it_does_not_hold(window: Window, k: int) -> None:
    op = ManyThreshold(("q",), ("x0",), np.ones((1, 1)), Window(9), above=np.zeros(1), counts=np.array([5]))
    with pytest.raises(ValueError):
        op.build(None).snapshot(0, k, window)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"names": ("q", "q")}, "one name"),
        ({"names": ()}, "0 queries"),
        ({"attributes": ("x0", "x0")}, "each once"),
        ({"direction": "up"}, "direction is 'up'"),
        ({"weights": np.ones((2, 3))}, "weights has shape"),
        ({"weights": np.array([[1.0, 2.0], [np.nan, 1.0]])}, "r: a weight"),
        ({"above": np.array([1.0, np.nan])}, "r: a threshold query needs"),
        ({"at_least": np.array([np.nan, 1.0])}, "r: above and at_least"),
        ({"below": np.ones(2), "at_most": np.array([2.0, np.nan])}, "q: below and at_most"),
        ({"counts": np.array([1, 11])}, "r: the count window is larger"),
        ({"micros": np.array([0, 11])}, "r: the state's window is not by time"),
        ({"low": np.zeros((2, 2))}, "needs low and high"),
        ({"low": np.zeros((2, 2)), "high": np.full((2, 2), np.nan)}, "q: a constraint is not a number"),
        ({"where_of": np.array([-1, 0])}, "r: unknown predicate"),
        ({"every": np.array([0, -1])}, "r: every"),
    ],
)
def test_bad_configuration(change: dict[str, Any], message: str) -> None:
    good: Any = {"names": ("q", "r"), "attributes": ("x0", "x1"), "weights": np.ones((2, 2)), "above": np.zeros(2), "window": Window(10)}
    with pytest.raises(ValueError, match=message):
        ManyThreshold(**{**good, **change})


@pytest.mark.slow
@pytest.mark.parametrize("part", range(20))
def test_brute_force_on_thousands_of_streams(part: int, monkeypatch: pytest.MonkeyPatch) -> None:
    if part % 4 < 2:
        monkeypatch.setattr(many_logic, "SLACK", -(10**9))
    if part % 2:
        monkeypatch.setattr(many_logic, "MIN_QUERIES", 1)
        monkeypatch.setattr(many_logic, "SAMPLE", 1 + part)
    for seed in range(10_000 + part * 100, 10_000 + part * 100 + 100):
        check(seed)
