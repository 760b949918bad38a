"""Skylines of a chosen size against their definition: the distances of weights, and the results after every event."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skyband.operators.base import CAUSES, AnyArray, Changes, Column, Window
from skyband.operators.skyline.chosen import SizedSkyline, SizedSkylineDeletes, SizedSkylineQuery
from skyband.operators.skyline.kernels.sizing import GRAIN, Preference, chosen, radii
from skyband.operators.skyline.operator import Dimension, SkylineQuery
from tests.operators import host
from tests.operators.test_ranked_skyline import _Stream
from tests.operators.test_skyline import FIELDS
from tests.operators.test_skyline import Case as Plain
from tests.operators.test_skyline_deletes import Case as Deleting
from tests.operators.test_skyline_deletes import WithDeletions
from tests.oracles.events import changes, instants
from tests.oracles.skyline import LogicalQuery
from tests.seeds import cases, seeds


def distance(better: Any, worse: Any, weights: Any) -> float:
    """The operator's distance for two rows: the radius of the second beside the first alone."""
    rows = np.array([better, worse], np.float64)
    return float(radii(np.arange(2), rows, Preference(np.array(weights, np.float64), 1, False))[1])


def exact(better: Any, worse: Any, weights: list[Fraction]) -> Fraction | None:
    """The squared distance in fractions, None if it is unbounded: of all vertices' convex hulls, the nearest point with no higher score.

    The nearest point of a polytope is the nearest in the affine hull of one of its faces. Faces are those of the simplex cut by the plane.
    """
    d = [Fraction(a) - Fraction(b) for a, b in zip(better, worse, strict=True)]
    n = len(d)
    if all(x <= 0 for x in d):
        return Fraction(0)
    if all(x >= 0 for x in d):
        return None
    if sum(w * x for w, x in zip(weights, d, strict=True)) <= 0:
        return Fraction(0)
    corners = [[Fraction(int(i == j)) for j in range(n)] for i in range(n) if d[i] == 0]
    for i, j in itertools.combinations(range(n), 2):
        if d[i] * d[j] < 0:
            corner = [Fraction(0)] * n
            corner[i], corner[j] = -d[j] / (d[i] - d[j]), d[i] / (d[i] - d[j])
            corners.append(corner)
    return nearest(weights, corners)


def nearest(point: list[Fraction], corners: list[list[Fraction]]) -> Fraction:
    """The squared distance from a point to the convex hull of corners, by the affine hull of each small set of them (Caratheodory)."""
    found: Fraction | None = None
    for size in range(1, len(point) + 1):
        for some in itertools.combinations(corners, size):
            base, sides = some[0], [[a - b for a, b in zip(c, some[0], strict=True)] for c in some[1:]]
            away = [a - b for a, b in zip(point, base, strict=True)]
            rows = [[sum(x * y for x, y in zip(s, t, strict=True)) for t in sides] for s in sides]
            share = solve(rows, [sum(x * y for x, y in zip(s, away, strict=True)) for s in sides])
            if share is None or min(share, default=Fraction(0)) < 0 or sum(share) > 1:
                continue
            rest = [a - sum(share[k] * sides[k][i] for k in range(len(sides))) for i, a in enumerate(away)]
            square = Fraction(sum(x * x for x in rest))
            found = square if found is None else min(found, square)
    assert found is not None
    return found


def solve(rows: list[list[Any]], right: list[Any]) -> list[Fraction] | None:
    """The solution of linear equations, None if there is not exactly one."""
    n = len(rows)
    m = [[*row, b] for row, b in zip(rows, right, strict=True)]
    for i in range(n):
        pivot = next((r for r in range(i, n) if m[r][i] != 0), None)
        if pivot is None:
            return None
        m[i], m[pivot] = m[pivot], m[i]
        m[i] = [x / m[i][i] for x in m[i]]
        for r in range(n):
            if r != i:
                m[r] = [x - m[r][i] * y for x, y in zip(m[r], m[i], strict=True)]
    return [row[n] for row in m]


def some_weights(rng: Any, d: int) -> list[Fraction]:
    """Weights with the sum 1, some of them 0."""
    while True:
        parts = rng.integers(0, 5, d).tolist()
        if sum(parts):
            return [Fraction(p, sum(parts)) for p in parts]


@pytest.mark.parametrize("d", [1, 2, 3, 4])
def test_the_distance_is_the_exact_one(d: int) -> None:
    rng = np.random.default_rng(d)
    found = set()
    for _ in range({1: 20, 2: 300, 3: 200, 4: 60}[d]):
        a, b = (rng.integers(-3, 4, d).tolist() for _ in range(2))
        w = some_weights(rng, d)
        expected, mine = exact(a, b, w), distance(a, b, [float(x) for x in w])
        found.add(mine)
        assert mine == pytest.approx(math.inf if expected is None else math.sqrt(expected), abs=1e-7), (a, b, w)
    assert d == 1 or len(found) > 10


@pytest.mark.parametrize("d", [2, 3, 5, 6])
def test_no_weights_within_the_distance_score_lower(d: int) -> None:
    rng = np.random.default_rng(d)
    for _ in range(100):
        a, b, w = rng.random(d), rng.random(d), rng.dirichlet(np.ones(d))
        far = distance(a, b, w)
        others = np.concatenate([rng.dirichlet(np.ones(d) / 2, 300), w + rng.random((300, 1)) * (rng.dirichlet(np.ones(d) / 2, 300) - w)])
        away = np.sqrt(((others - w) ** 2).sum(axis=1))
        lower = others @ (a - b) < -1e-12
        assert not lower.size or not (lower & (away < far - 1e-9)).any()
        assert far == 0.0 or far == math.inf or w @ (a - b) > 0


@pytest.mark.parametrize(
    ("better", "worse", "weights", "expected"),
    [
        ((2, 0), (0, 2), (0.5, 0.5), 0.0),
        ((4, 0), (0, 1), (0.5, 0.5), math.sqrt(2) * 0.3),
        ((1, 1), (1, 1), (0.5, 0.5), 0.0),
        ((1, 1), (0, 1), (0.0, 1.0), math.inf),
        ((math.inf, 0), (0, 1), (0.5, 0.5), math.sqrt(0.5)),
        ((math.inf, 0), (math.inf, 1), (0.5, 0.5), 0.0),
        ((0, 1), (-math.inf, 2), (0.5, 0.5), math.sqrt(0.5)),
        ((1e308, 0), (-1e308, 1), (0.5, 0.5), math.sqrt(0.5)),
        ((5e-324, 0), (0, 5e-324), (0.75, 0.25), math.sqrt(2) * 0.25),
        ((1, 0, 1), (0, 1e-300, 1), (0.2, 0.8, 0.0), math.sqrt(2 * 0.2**2 - 0.2**2 / 2)),
    ],
)
def test_the_distance_of_special_values(better: Any, worse: Any, weights: Any, expected: float) -> None:
    with np.errstate(over="ignore"):
        assert distance(better, worse, weights) == (expected if math.isinf(expected) else round(expected / GRAIN) * GRAIN)


@pytest.mark.parametrize("band", [1, 2, 3])
def test_radii_among_members_are_those_among_all_rows(band: int) -> None:
    """Rows outside the skyline do not matter: in fractions, on tiny domains with ties and duplicates."""
    compared = 0
    for seed in range(60):
        rng = np.random.default_rng(1000 * band + seed)
        d, n = int(rng.integers(1, 4)), int(rng.integers(1, 10 if seed % 2 else 16))
        x = rng.integers(0, int(rng.choice([2, 3, 5])), (n, d))
        w = some_weights(rng, d)
        beats = [[bool((x[r] >= x[s]).all() and (x[r] > x[s]).any()) for s in range(n)] for r in range(n)]
        members = [s for s in range(n) if sum(beats[r][s] for r in range(n)) < band]
        mine = radii(np.array(members), x[members].astype(np.float64), Preference(np.array([float(f) for f in w]), band, False))
        for s, radius in zip(members, mine.tolist(), strict=True):
            squares = [exact(x[r].tolist(), x[s].tolist(), w) for r in range(n) if r != s]
            sorted_ = sorted((math.inf if q is None else math.sqrt(q) for q in squares), reverse=True)
            expected = sorted_[band - 1] if len(sorted_) >= band else 0.0
            assert radius == pytest.approx(expected, abs=1e-7)
            compared += expected > 0
    assert compared > 20


def test_radii_of_members_that_mirror_each_other_are_equal() -> None:
    weights = np.array([0.5, 2.0, 0.5]) / 3.0
    rows = np.array([[0.0, 1.0, 3.0], [3.0, 1.0, 0.0], [2.0, 2.0, 0.0], [0.0, 2.0, 2.0], [1.0, 0.0, 4.0], [4.0, 0.0, 1.0]])
    for band in (1, 2, 3):
        radius = radii(np.arange(6), rows, Preference(weights, band, False)).tolist()
        assert radius[::2] == radius[1::2]
        assert len(set(radius)) > 1


@pytest.mark.parametrize("band", [1, 2, 3])
def test_equal_radii_are_decided_by_age_alone(band: int) -> None:
    """The chosen members are those of exact fractions: no bit that rounding left decides between equal radii."""
    decided, lost = 0, []
    for seed in seeds(0, 300):
        rng = np.random.default_rng(10_000 * band + seed)
        d, n = int(rng.integers(2, 5 if seed % 10 == 0 else 4)), int(rng.integers(2, 9))
        x = rng.integers(0, int(rng.choice([2, 3, 5, 8])), (n, d))
        w = [Fraction(p) for p in rng.choice([1, 2, 3, 4, 5, 7], d).tolist()]
        w = [p / sum(w) for p in w]
        radius = exact_radii(x.tolist(), w, band)
        preference = Preference(np.array([float(f) for f in w]), band, False)
        for size in range(1, n):
            order = sorted(range(n), key=lambda s: (radius[s], -s))
            decided += radius[order[size - 1]] == radius[order[size]]
            mine = np.flatnonzero(chosen(np.arange(n), x.astype(np.float64), size, preference)).tolist()
            if mine != sorted(order[:size]):
                lost.append((seed, size))
    assert not lost
    assert decided > 0


def exact_radii(x: list[Any], weights: list[Fraction], band: int) -> list[Fraction]:
    """The squared radius of each point in fractions; one that is unbounded is larger than any other."""
    radius = []
    for s in range(len(x)):
        squares = [exact(x[r], x[s], weights) if x[r] != x[s] else Fraction(0) for r in range(len(x)) if r != s]
        radius.append(sorted([*(Fraction(100) if q is None else q for q in squares), *[Fraction(0)] * band], reverse=True)[band - 1])
    return radius


class Sized(WithDeletions):
    """The k members of a skyline with the smallest radii."""

    def __init__(self, k: int, values: AnyArray, weights: Any, distinct: bool, *rest: Any) -> None:
        super().__init__(*rest)
        self.k, self.values, self.weights, self.distinct = k, values, weights, distinct

    def radius(self, s: int, among: list[int]) -> float:
        """The band-th largest distance up to which another member scores at least as high."""
        others = []
        for r in among:
            same = self.distinct and r > s and bool((self.values[r] == self.values[s]).all())
            others.append(math.inf if same else distance(self.values[r], self.values[s], self.weights) if r != s else 0.0)
        return sorted([*others, *[0.0] * self.band], reverse=True)[self.band - 1]

    def result(self, t: int) -> list[int]:
        found = super().result(t)
        return sorted(sorted(found, key=lambda i: (self.radius(i, found), -i))[: self.k], reverse=True)


class Case:
    """A stream of the tests of skylines, with deletions or not, sizes and weights."""

    def __init__(self, seed: int, deletes: bool, **fixed: Any) -> None:
        self.stream: Any = Deleting(seed, equal=0.0, **fixed) if deletes else Plain(seed, equal=0.0, **fixed)
        rng = np.random.default_rng(seed + 1)
        op = self.stream.op
        self.k = [int(rng.choice([1, 2, 3, 8])) for _ in op.queries]
        self.weights = tuple(float(w) for w in some_weights(rng, len(op.dimensions)))
        self.values = np.empty((len(self.stream.key), len(op.dimensions)))
        for j, d in enumerate(op.dimensions):
            column = self.stream.columns[d.column.name].astype(np.float64)
            self.values[:, j] = -column if d.direction == "min" else column
        queries = tuple(SizedSkylineQuery(q.name, q.window, q.every_micros, k) for q, k in zip(op.queries, self.k, strict=True))
        kind = SizedSkylineDeletes if deletes else SizedSkyline
        self.op = kind(op.dimensions, queries, op.window, op.band, op.distinct, weights=self.weights)
        self.end: int = self.stream.end

    def watched(self, k: int, key: int, window: Window, every: int | None = None) -> Sized:
        s = self.stream
        at = s.rows[key]
        rows = s.of_key[key] if hasattr(s, "of_key") else list(range(len(at)))
        logical = LogicalQuery(window.count, window.micros, every)
        times, dom, usable = s.time[at].tolist(), s.dom[key], s.usable[at]
        return Sized(k, self.values[at], self.weights, self.op.distinct, rows, times, dom, usable, self.op.band, logical)

    def expected(self) -> list[tuple[Any, ...]]:
        out: list[tuple[Any, ...]] = []
        s = self.stream
        for q, query in enumerate(self.op.queries):
            for k, at in enumerate(s.rows):
                times = s.at[k] if hasattr(s, "at") else s.time[at].tolist()
                events = instants(times, s.time[at].tolist(), query.window.micros, query.every_micros, self.end)
                found = changes(events, query.every_micros, self.watched(self.k[q], k, query.window, query.every_micros))
                out += [(q, k, a, step, pos, sign, CAUSES.index(c), seq) for a, step, pos, sign, c, seq in found]
        return out


def play(case: Case, cuts: list[int], restore: bool = False) -> tuple[list[Changes], Any]:
    blocks = [(case.stream.block(lo, hi), hi) for lo, hi in itertools.pairwise(cuts)]
    return host.play(case.op, blocks, host.Keeper(case.op, _Stream(case.stream)) if restore else None)


def tuples(blocks: list[Changes]) -> list[tuple[Any, ...]]:
    """All changes in the order (query, key, step, pos)."""
    rows = [r for b in blocks for r in zip(*(getattr(b, f).tolist() for f in FIELDS), b.items[:, 0].tolist(), strict=True)]
    return sorted(rows, key=lambda r: (r[0], r[1], r[3], r[4]))


def check(seed: int, deletes: bool, **fixed: Any) -> int:
    case = Case(seed, deletes, **fixed)
    expected = case.expected()
    whole, logic = play(case, [-1000, case.end])
    assert tuples(whole) == expected, (seed, fixed)
    cut, other = play(case, case.stream.cuts(8), restore=bool(case.stream.rng.integers(2)))
    assert tuples(cut) == expected, (seed, fixed)
    mine, theirs = logic.checkpoint(), other.checkpoint()
    for name in ("sized_step", "member_start", "member_seq", "member_shown", "member_values"):
        assert mine[name].tobytes() == theirs[name].tobytes(), name
    assert repr(host.band_of(logic)) == repr(host.band_of(other))
    return len(expected)


@pytest.mark.parametrize("deletes", [False, True])
def test_random_streams_equal_the_definition_at_every_event(deletes: bool) -> None:
    assert sum(check(seed, deletes) for seed in seeds(0, 60)) > 0


@given(
    seed=st.integers(0, 2**31), deletes=st.booleans(), band=st.integers(1, 3), d=st.integers(1, 4), values=st.integers(1, 6),
    keys=st.integers(1, 3), window=st.sampled_from(["count", "time", "both"]), shape=st.sampled_from(["random", "anti", "same", "up"]),
    n=st.integers(0, 30),
)  # fmt: skip
@settings(deadline=None, max_examples=cases(30))
def test_any_configuration(seed: int, deletes: bool, **fixed: Any) -> None:
    check(seed, deletes, **fixed)


@pytest.mark.parametrize("deletes", [False, True])
def test_restored_at_every_instant(deletes: bool) -> None:
    for seed in range(3):
        case = Case(seed + 7000, deletes, shape="anti", d=2, window="both", n=30, more=2)
        blocks, _ = play(case, [-1000, *range(-21, case.end + 1)], restore=True)
        assert tuples(blocks) == case.expected()


@pytest.mark.parametrize("deletes", [False, True])
def test_snapshots_of_any_size_and_window(deletes: bool) -> None:
    for seed in seeds(0, 20):
        case = Case(seed + 500, deletes, n=30, keys=2)
        logic, s, big = case.op.build(None), case.stream, case.op.window
        logic.advance(s.block(-1000, case.end), case.end)
        window = Window(big.count and int(s.rng.integers(1, big.count + 1)), big.micros and int(s.rng.integers(1, big.micros + 1)))
        for key, k in itertools.product(range(len(s.rows)), (1, 2, 100)):
            watched = case.watched(k, key, window)
            for row in range(len(watched.rows)):
                watched.enter(row)
            assert logic.snapshot(key, k, window).items[:, 0].tolist() == watched.result(case.end - 1)
        with pytest.raises(ValueError, match="k is 0"):
            logic.snapshot(0, 0, window)


def test_a_configuration_that_means_nothing_is_refused() -> None:
    dims = tuple(Dimension(Column(c, "float"), "min") for c in "abcdefg")
    good: dict[str, Any] = {
        "dimensions": dims[:2], "queries": (SizedSkylineQuery("q", Window(10), None, 2),), "window": Window(10), "weights": (0.5, 0.5),
    }  # fmt: skip
    SizedSkyline(**good)
    for change, message in (
        ({"queries": (SizedSkylineQuery("q", Window(10), None, 0),)}, "size must"),
        ({"queries": (SkylineQuery("q", Window(10)),)}, "size must"),
        ({"weights": (0.5, 0.4)}, "weights"),
        ({"weights": (1.0,)}, "weights"),
        ({"weights": (1.5, -0.5)}, "weights"),
        ({"weights": (float("nan"), 0.5)}, "weights"),
        ({"levels": (1, 1)}, "levels"),
        ({"dimensions": (*dims[:2], Dimension(Column("t", "text"), "equal"))}, "equal"),
        ({"dimensions": dims}, "at most 6"),
    ):
        with pytest.raises(ValueError, match=message):
            SizedSkyline(**{**good, **change})
