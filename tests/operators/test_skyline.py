"""Skylines against their definition: after every event, however the stream is cut, saved and restored."""

from __future__ import annotations

import itertools
import os
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skyband.operators.base import NULL, Arrivals, Changes, Column, Window
from skyband.operators.skyline.operator import Dimension, Skyline, SkylineQuery
from tests.operators import host
from tests.oracles.skyline import LogicalQuery, dominance, members, prioritised, stream
from tests.seeds import cases, seeds

ROOT = Path(__file__).resolve().parents[2]
FIELDS = ("query", "key", "at", "step", "pos", "sign", "cause")


class Case:
    """One random stream of several keys with the operator that watches it."""

    def __init__(self, seed: int, **fixed: Any) -> None:
        rng = np.random.default_rng(seed)
        pick = lambda name, options: fixed[name] if name in fixed else options[rng.integers(len(options))]  # noqa: E731
        self.keys = pick("keys", [1, 1, 2, 5])
        n = pick("n", [0, 1, 5, 25, 40, 60])
        d = pick("d", [1, 2, 2, 3, 3, 4, 5, 6])
        values = pick("values", [2, 3, 5, 20])
        self.band = pick("band", [1, 1, 2, 3, 5])
        self.distinct = bool(pick("distinct", [False, True]))
        window = pick("window", ["count", "time", "both"])
        shape = pick("shape", ["random", "random", "up", "down", "same", "anti"])
        gap = pick("gap", [1, 2, 5, 30])
        big = Window(
            int(rng.integers(1, 31)) if window != "time" else None,
            int(rng.integers(1, 40)) if window != "count" else None,
        )
        queries = [SkylineQuery("q0", big)]
        for i in range(int(pick("more", [0, 0, 1, 3]))):
            smaller = Window(
                None if big.count is None else int(rng.integers(1, big.count + 1)),
                None if big.micros is None else int(rng.integers(1, big.micros + 1)),
            )
            queries.append(SkylineQuery(f"q{i + 1}", smaller, int(rng.integers(1, 20)) if rng.random() < 0.4 else None))
        kinds = [str(rng.choice(["float", "float", "int", "time", "bool"])) for _ in range(d)]
        self.directions = [str(rng.choice(["min", "min", "max"])) for _ in range(d)]
        if d > 1 and rng.random() < fixed.get("equal", 0.3):
            self.directions[-1] = "equal"
            kinds[-1] = str(rng.choice(["text", "int", "float", "bool"]))
        dims = tuple(
            Dimension(Column(f"c{j}", k), q)  # type: ignore[arg-type]
            for j, (k, q) in enumerate(zip(kinds, self.directions, strict=True))
        )
        ordered = sum(q != "equal" for q in self.directions)
        self.levels = self.some_levels(ordered, rng) if fixed.get("levels") and ordered > 1 else None
        self.op = Skyline(dims, tuple(queries), big, self.band, self.distinct, levels=self.levels)
        self.key = np.sort(rng.integers(0, self.keys, n))
        self.seq, self.time = np.zeros(n, np.int64), np.zeros(n, np.int64)
        self.columns: dict[str, Any] = {}
        raw = rng.integers(0, values, (n, d))
        if shape in ("up", "down"):
            raw = np.arange(n)[:, None] // 2 + raw % 2
            raw = raw if shape == "up" else n - raw
        elif shape == "same":
            raw = np.zeros((n, d), np.int64)
        elif shape == "anti" and d > 1:
            raw[:, 0] = values * (d - 1) - raw[:, 1:].sum(1) + raw[:, 0] % 2
        self.usable = np.ones(n, bool)
        exact = np.empty((n, d), object)
        for j, kind in enumerate(kinds):
            column = raw[:, j] % 2 if kind == "bool" else raw[:, j]
            null = rng.random(n) < 0.05 * (rng.random() < 0.5)
            if kind == "float":
                x = (column - 1) * np.float64(rng.choice([1.0, 0.1, 1e-300, 1e300]))
                x = np.where((x == 0) & (rng.random(n) < 0.5), -0.0, x)
                x = np.where(rng.random(n) < 0.03, rng.choice([np.inf, -np.inf], n), x)
                x[null] = np.nan
                self.columns[f"c{j}"] = x
                exact[:, j] = x.tolist()
            else:
                shift = 0 if kind == "bool" else int(rng.choice([0, 2**53, 2**62, -(2**62)]))
                y = column.astype(np.int64) + shift
                y[null] = NULL
                self.columns[f"c{j}"] = y
                exact[:, j] = y.tolist()
            self.usable &= ~null
        self.dom = []
        self.rows = [np.flatnonzero(self.key == k) for k in range(self.keys)]
        for at in self.rows:
            self.seq[at] = np.arange(len(at))
            self.time[at] = -20 + np.cumsum(rng.integers(0, gap + 1, len(at)) * (rng.random(len(at)) < 0.6))
            given = (exact[at], self.directions, self.usable[at], self.distinct)
            self.dom.append(dominance(*given) if self.levels is None else prioritised(*given, self.levels))
        self.end = int(self.time.max(initial=0)) + int(rng.integers(1, 60))
        self.rng = rng

    def some_levels(self, ordered: int, rng: np.random.Generator) -> tuple[int, ...]:
        """At least two levels of ``ordered`` dimensions."""
        ends = np.flatnonzero(rng.random(ordered - 1) < 0.5) + 1
        ends = ends if len(ends) else rng.integers(1, ordered, 1)
        return tuple(np.diff([0, *ends.tolist(), ordered]).tolist())

    def expected(self) -> list[tuple[int, ...]]:
        out = []
        for q, query in enumerate(self.op.queries):
            logical = LogicalQuery(query.window.count, query.window.micros, query.every_micros)
            for k, at in enumerate(self.rows):
                changes = stream(self.time[at].tolist(), self.dom[k], self.usable[at], self.band, logical, self.end)
                out += [(q, k, *c) for c in changes]
        return out

    def block(self, lo: int, hi: int) -> Arrivals:
        """Arrivals with lo <= time < hi."""
        at = np.flatnonzero((self.time >= lo) & (self.time < hi))
        return Arrivals(self.key[at], self.seq[at], self.time[at], {n: c[at] for n, c in self.columns.items()})

    def cuts(self, most: int) -> list[int]:
        inner = self.rng.integers(-25, self.end + 1, self.rng.integers(0, most + 1))
        return [-1000, *sorted(inner.tolist()), self.end]


def play(case: Case, cuts: list[int], restore: bool = False) -> tuple[list[Changes], Any]:
    blocks = [(case.block(lo, hi), hi) for lo, hi in itertools.pairwise(cuts)]
    return host.play(case.op, blocks, (lambda *_: host.NO_ROWS) if restore else None)


def tuples(blocks: list[Changes]) -> list[tuple[int, ...]]:
    """All changes in the order (query, key, step, pos)."""
    rows = [r for b in blocks for r in zip(*(getattr(b, f).tolist() for f in FIELDS), b.items[:, 0].tolist(), strict=True)]
    for b in blocks:
        assert b.items.shape == (len(b), 1) and np.isnan(b.score).all() and b.score.dtype == np.float64
    return sorted(rows, key=lambda r: (r[0], r[1], r[3], r[4]))


def check(seed: int, **fixed: Any) -> None:
    case = Case(seed, **fixed)
    expected = case.expected()
    whole, logic = play(case, [-1000, case.end])
    assert tuples(whole) == expected, (seed, fixed)
    if len(whole[0]):
        order = np.lexsort((whole[0].pos, whole[0].step, whole[0].key, whole[0].query))
        assert (order == np.arange(len(order))).all()
    cut, other = play(case, case.cuts(8), restore=bool(case.rng.integers(2)))
    assert tuples(cut) == expected, (seed, fixed)
    for name, array in logic.checkpoint().items():
        assert name == "due" or array.tobytes() == other.checkpoint()[name].tobytes(), name
    a, b = logic.skyband(), other.skyband()
    assert (a.items == b.items).all() and (a.key == b.key).all() and (a.extra["pred"] == b.extra["pred"]).all()


@pytest.mark.parametrize("part", range(8))
def test_random_streams_equal_the_definition_at_every_event(part: int) -> None:
    for seed in seeds(part * 100, part * 100 + 100):
        check(seed)


@pytest.mark.parametrize("part", range(3))
def test_levels_of_dimensions_equal_their_definition(part: int) -> None:
    for seed in seeds(part * 60, part * 60 + 60):
        check(seed, levels=True)
    check(part, levels=True, d=3, values=3, shape="anti", n=60, equal=1.0)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(40))
def test_thousands_of_random_streams(part: int) -> None:
    for seed in range(10_000 + part * 100, 10_000 + part * 100 + 100):
        check(seed)


@pytest.mark.parametrize("shape", ["random", "anti", "up", "down", "same"])
@pytest.mark.parametrize("window", ["count", "time", "both"])
def test_restored_at_every_instant(shape: str, window: str) -> None:
    for seed in range(4):
        case = Case(seed + 7000, shape=shape, window=window, n=30, more=2)
        blocks, _ = play(case, [-1000, *range(-21, case.end + 1)], restore=True)
        assert tuples(blocks) == case.expected()


@given(
    seed=st.integers(0, 2**31), band=st.integers(1, 6), d=st.integers(1, 6), values=st.integers(1, 6), keys=st.integers(1, 4),
    window=st.sampled_from(["count", "time", "both"]),
)  # fmt: skip
@settings(deadline=None, max_examples=cases(60))
def test_any_configuration(seed: int, band: int, d: int, values: int, window: str, keys: int) -> None:
    check(seed, band=band, d=d, values=values, window=window, keys=keys)


class Plain:
    """A skyline of float columns over one key, all directions min, count window."""

    def __init__(self, x: Any, window: int, band: int = 1, distinct: bool = False, where: Any = None, **columns: Any) -> None:
        d = x.shape[1]
        dims = tuple(Dimension(Column(f"c{j}", "float"), "min") for j in range(d))
        self.op = Skyline(dims, (SkylineQuery("q", Window(window)),), Window(window), band, distinct, where)
        self.columns = {f"c{j}": np.ascontiguousarray(x[:, j]) for j in range(d)} | columns
        self.seq = np.arange(len(x))

    def block(self, a: int, b: int) -> Arrivals:
        return Arrivals(np.zeros(b - a, np.int64), self.seq[a:b], self.seq[a:b], {n: c[a:b] for n, c in self.columns.items()})


def sets(changes: list[Changes], events: int) -> list[set[int]]:
    """Result set after every event of a count window (time = seq)."""
    out, now = [], set()
    rows = [r for b in changes for r in zip(b.at.tolist(), b.sign.tolist(), b.items[:, 0].tolist(), strict=True)]
    i = 0
    for t in range(events):
        while i < len(rows) and rows[i][0] == t:
            (now.add if rows[i][1] > 0 else now.remove)(rows[i][2])
            i += 1
        out.append(set(now))
    assert i == len(rows)
    return out


def sample(kind: str, d: int, n: int, seed: int, step: float = 0.0) -> Any:
    """Independent, correlated or anti-correlated rows, rounded to multiples of ``step`` for duplicates."""
    rng = np.random.default_rng(seed)
    if kind == "cor":
        x = np.clip(rng.random((n, 1)) + rng.normal(0, 0.05, (n, d)), 0, 1)
    else:
        x = rng.random((n, d))
        if kind == "ant":
            x += (np.clip(rng.normal(0.5, 0.05, (n, 1)), 0, 1) * d - x.sum(1, keepdims=True)) / d
    return np.round(x / step) * step if step else x


@pytest.mark.long
@pytest.mark.parametrize("kind", ["ind", "cor", "ant"])
@pytest.mark.parametrize("d", [1, 2, 3, 4, 5, 6])
def test_moocore_and_paretoset_on_windows_with_duplicates(kind: str, d: int) -> None:
    moocore = pytest.importorskip("moocore")
    paretoset = pytest.importorskip("paretoset").paretoset
    x = sample(kind, d, 500, d, 0.2)
    plain = Plain(x, 120)
    logic = plain.op.build(None)
    results = sets([logic.advance(plain.block(a, a + 50), a + 50) for a in range(0, 500, 50)], 500)
    for t in range(0, 500, 7):
        lo = max(0, t - 119)
        w = x[lo : t + 1]
        assert results[t] == set((lo + np.flatnonzero(moocore.is_nondominated(w, keep_weakly=True))).tolist())
        if d > 1:
            assert results[t] == set((lo + np.flatnonzero(paretoset(w, distinct=False))).tolist())


@pytest.mark.long
@pytest.mark.parametrize(("kind", "d", "band"), [("ant", 5, 1), ("ant", 3, 4), ("ind", 5, 2), ("ind", 6, 1), ("ant", 2, 8), ("cor", 4, 3)])
@pytest.mark.parametrize("restore", [False, True])
def test_long_windows_reach_the_far_blocks(kind: str, d: int, band: int, restore: bool) -> None:
    n, window = (1500, 700) if restore else (2400, 300)
    x = sample(kind, d, n, 5 * d + band, 0.02 if band > 2 else 0.0)
    x[::50, 0] = -1e300  # outliers that spoil the words' rounding
    usable = np.ones(n, bool)
    dom = dominance(x, ["min"] * d, usable, False)
    plain = Plain(x, window, band)
    logic = plain.op.build(None)
    blocks = []
    for a in range(0, n, 300):
        blocks.append(logic.advance(plain.block(a, a + 300), a + 300))
        if restore:
            logic = host.restored(plain.op, logic)
    results = sets(blocks, n)
    for t in [*range(0, 200, 20), *range(200, n, 7), n - 1]:
        alive = (np.arange(n) <= t) & (np.arange(n) > t - window)
        assert results[t] == members(dom, usable, alive, band)


@pytest.mark.long
@pytest.mark.parametrize("kind", ["ind", "ant", "cor"])
@pytest.mark.parametrize("window", [Window(1500, None), Window(None, 2200), Window(2500, 1800)])
def test_stretches_of_hopeless_arrivals_are_passed_over_exactly(kind: str, window: Window) -> None:
    """One block of thousands of arrivals (where most are passed over) against single arrivals (where none can be)."""
    n, d = 6000, 3
    x = sample(kind, d, n, 17, 0.01)
    rng = np.random.default_rng(5)
    x[rng.random(n) < 0.01, 0] = np.nan
    time = np.cumsum(rng.integers(1, 3, n)).astype(np.int64)
    smaller = Window(window.count and window.count // 3, window.micros and window.micros // 2)
    dims = tuple(Dimension(Column(f"c{j}", "float"), "min") for j in range(d))
    op = Skyline(dims, (SkylineQuery("all", window), SkylineQuery("part", smaller)), window)

    def whole(size: int, keep: bool = False) -> list[tuple[int, ...]]:
        logic, blocks = op.build(None), []
        for a in range(0, n, size):
            b = min(a + size, n)
            rows = Arrivals(np.zeros(b - a, np.int64), np.arange(a, b), time[a:b], {f"c{j}": x[a:b, j].copy() for j in range(d)})
            blocks.append(logic.advance(rows, int(time[b]) if b < n else int(time[-1]) + 1))
            if keep:
                logic = host.restored(op, logic)
        return sorted(tuples(blocks))

    one_by_one = whole(1)
    assert len(one_by_one) > 100
    assert whole(n) == one_by_one
    assert whole(1700) == one_by_one
    assert whole(1100, keep=True) == one_by_one


def test_the_predicate_restricts_dominance_to_matching_objects() -> None:
    from skyband.operators.expressions import parse

    where = parse("ok > 0", {"ok": "int", "c0": "float", "c1": "float"}, sides=("",))
    x = sample("ind", 2, 300, 3, 0.1)
    ok = np.random.default_rng(4).integers(-1, 2, 300)
    plain = Plain(x, 40, where=where, ok=ok)
    assert [c.name for c in plain.op.columns] == ["c0", "c1", "ok"]
    logic = pickle.loads(pickle.dumps(plain.op)).build(None)
    results = sets([logic.advance(plain.block(0, 300), 300)], 300)
    usable = ok > 0
    dom = dominance(x, ["min", "min"], usable, False)
    for t in range(300):
        alive = (np.arange(300) <= t) & (np.arange(300) > t - 40)
        assert results[t] == members(dom, usable, alive, 1)


@pytest.mark.parametrize("window", ["count", "time", "both"])
def test_snapshots_of_any_band_and_window(window: str) -> None:
    for seed in seeds(0, 60):
        case = Case(seed + 500, window=window, n=40, keys=2)
        logic = case.op.build(None)
        until = int(case.rng.integers(-10, case.end + 1))
        logic.advance(case.block(-1000, until), until)
        for key, at in enumerate(case.rows):
            arrived = int((case.time[at] < until).sum())
            index, big = np.arange(len(at)), case.op.window
            for k in range(1, case.band + 1):
                count = None if big.count is None else int(case.rng.integers(1, big.count + 1))
                micros = None if big.micros is None else int(case.rng.integers(1, big.micros + 1))
                alive = (index < arrived) & (index >= arrived - (count or 10**9)) & (case.time[at] + (micros or 10**9) >= until)
                found = logic.snapshot(key, k, Window(count, micros))
                expected = members(case.dom[key], case.usable[at], alive, k)
                assert found.items[:, 0].tolist() == sorted(expected, reverse=True)
                assert found.key.tolist() == [key] * len(found)
        assert len(logic.snapshot(99, 1, case.op.window)) == 0
        with pytest.raises(ValueError, match="band"):
            logic.snapshot(0, case.band + 1, case.op.window)
        with pytest.raises(ValueError, match="window"):
            logic.snapshot(0, 1, Window((case.op.window.count or 10**6) + 1, case.op.window.micros))


@pytest.mark.parametrize("window", ["count", "time"])
def test_the_skyband_table_answers_smaller_windows(window: str) -> None:
    """The one-line condition of the docstring: alive, and ``pred`` null or not alive."""
    for seed in seeds(0, 60):
        case = Case(seed + 900, window=window, n=60, keys=2)
        logic = case.op.build(None)
        logic.advance(case.block(-1000, case.end), case.end)
        table = logic.skyband()
        for key, at in enumerate(case.rows):
            mine = table.key == key
            seq, pred, pred_time = table.items[mine, 0], table.extra["pred"][mine], table.extra["pred_time"][mine]
            time = case.time[at][seq]
            index = np.arange(len(at))
            for _ in range(3):
                if window == "count":
                    first = len(at) - int(case.rng.integers(1, case.op.window.count + 1))  # type: ignore[operator]
                    found = seq[(seq >= first) & ((pred == NULL) | (pred < first))]
                    alive = index >= first
                else:
                    since = case.end - int(case.rng.integers(1, case.op.window.micros + 1))  # type: ignore[operator]
                    found = seq[(time >= since) & ((pred == NULL) | (pred_time < since))]
                    alive = case.time[at] >= since
                assert set(found.tolist()) == members(case.dom[key], case.usable[at], alive, case.band)


def test_retained_is_what_fewer_than_k_newer_objects_dominate() -> None:
    for seed in seeds(0, 100):
        case = Case(seed + 300, window="count", more=0)
        logic = case.op.build(None)
        logic.advance(case.block(-1000, case.end), case.end)
        expected = []
        for key, at in enumerate(case.rows):
            index = np.arange(len(at))
            newer = (case.dom[key] & (index[:, None] > index[None, :])).sum(0)
            keep = case.usable[at] & (newer < case.band) & (index >= len(at) - case.op.window.count)  # type: ignore[operator]
            expected += [(key, i) for i in np.flatnonzero(keep).tolist()]
        assert list(zip(*(a.tolist() for a in logic.retained()), strict=True)) == expected


def test_every_query_keeps_the_rows_it_still_shows() -> None:
    big = Window(None, 1000)
    op = Skyline((Dimension(Column("c0", "float"), "min"),), (SkylineQuery("q", big, 100),), big)
    logic = op.build(None)
    one = np.zeros(1, np.int64)
    logic.advance(Arrivals(one, one, one + 5, {"c0": np.array([3.0])}), 150)
    changes = logic.advance(Arrivals(one, one + 1, one + 160, {"c0": np.array([2.0])}), 180)
    assert len(changes) == 0 and logic.wake() == 200
    assert logic.retained()[1].tolist() == [0, 1]
    changes = logic.advance(Arrivals(one[:0], one[:0], one[:0], {"c0": np.empty(0)}), 201)
    assert changes.at.tolist() == [200, 200] and changes.items[:, 0].tolist() == [0, 1] and changes.sign.tolist() == [-1, 1]
    assert logic.retained()[1].tolist() == [1]


def test_unusable_objects_occupy_the_window_and_are_counted() -> None:
    x = np.array([[1.0], [np.nan], [np.nan], [2.0], [np.nan]])
    plain = Plain(x, 3)
    logic = plain.op.build(None)
    results = sets([logic.advance(plain.block(0, 5), 5)], 5)
    assert results == [{0}, {0}, {0}, {3}, {3}]
    counted = logic.counters()
    assert counted["unusable:0"] == 3 and counted["rows"] == 5 and counted["retained"] == 1
    assert logic.counters()["unusable:0"] == 0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"dimensions": ()}, "at least one dimension"),
        ({"dimensions": (Dimension(Column("a", "int"), "equal"),)}, "at least one dimension"),
        ({"dimensions": (Dimension(Column("a", "text"), "min"),)}, "text"),
        ({"dimensions": (Dimension(Column("a", "int"), "min"),) * 2}, "two dimensions"),
        ({"dimensions": (Dimension(Column("a", "int"), "up"),)}, "direction"),  # type: ignore[arg-type]
        ({"band": 0}, "band"),
        ({"levels": (1,)}, "levels"),
        ({"levels": (1, 1)}, "levels"),
        ({"queries": ()}, "at least one query"),
        ({"queries": (SkylineQuery("q", Window(11)),)}, "larger"),
        ({"queries": (SkylineQuery("q", Window(None, 5)),)}, "time"),
        ({"queries": (SkylineQuery("q", Window(5)), SkylineQuery("q", Window(6)))}, "one name"),
        ({"queries": (SkylineQuery("q", Window(5), 0),)}, "every"),
    ],
)
def test_a_configuration_that_means_nothing_is_refused(change: dict[str, Any], message: str) -> None:
    good: dict[str, Any] = {
        "dimensions": (Dimension(Column("a", "float"), "min"),), "queries": (SkylineQuery("q", Window(10)),), "window": Window(10),
    }  # fmt: skip
    Skyline(**good)
    with pytest.raises(ValueError, match=message):
        Skyline(**{**good, **change})


@pytest.mark.real
def test_sp500_thirty_days_of_cheap_heavily_traded_quiet_stocks() -> None:
    """Low price, high volume, small day range; 30 days; no key, hundreds of ties per date. Probed against moocore."""
    pd, moocore = pytest.importorskip("pandas"), pytest.importorskip("moocore")
    path = ROOT / os.environ.get("SKYBAND_SHARED", "../shared") / "data" / "sp500_5yr.csv.gz"
    if not path.exists():
        pytest.skip(f"no {path.name} in the shared data directory (SKYBAND_SHARED)")
    frame = pd.read_csv(path).dropna().sort_values(["date", "Name"], kind="stable").head(40_000)
    day = 86_400_000_000
    time = pd.to_datetime(frame["date"]).to_numpy().astype("datetime64[us]").astype(np.int64)
    columns = {
        "close": frame["close"].to_numpy(float), "volume": frame["volume"].to_numpy(np.int64),
        "range": (frame["high"] - frame["low"]).to_numpy(float),
    }  # fmt: skip
    dims = (
        Dimension(Column("close", "float"), "min"), Dimension(Column("volume", "int"), "max"), Dimension(Column("range", "float"), "min"),
    )  # fmt: skip
    window = Window(None, 30 * day)
    logic = Skyline(dims, (SkylineQuery("q", window),), window).build(None)
    n = len(time)
    seq, key = np.arange(n), np.zeros(n, np.int64)
    now: set[int] = set()
    dates = np.unique(time)
    for i, date in enumerate(dates):
        at = time == date
        changes = logic.advance(Arrivals(key[at], seq[at], time[at], {c: v[at] for c, v in columns.items()}), int(date) + 1)
        for sign, item in zip(changes.sign.tolist(), changes.items[:, 0].tolist(), strict=True):
            (now.add if sign > 0 else now.remove)(item)
        if i % 5 == 0:
            alive = np.flatnonzero((time <= date) & (time + window.micros > date))
            x = np.stack([columns["close"][alive], -columns["volume"][alive].astype(float), columns["range"][alive]], 1)
            assert now == set(alive[moocore.is_nondominated(x, keep_weakly=True)].tolist())
    assert len(dates) > 60
