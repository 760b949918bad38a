"""Bounds of scores over boxes: never on the wrong side (at random), equal to the least score where they can be (by hand)."""

import math

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from skyband.operators.base import NULL
from skyband.operators.expressions import bounds, compile_pair, compile_row, matrix, parse
from skyband.operators.jit import HAVE_NUMBA
from tests.operators.boxes import boxes_of, drawn
from tests.operators.expression_cases import POOLS, SCHEMA, TEXTS, trees
from tests.seeds import cases

RELAXED = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow, HealthCheck.data_too_large]}
needs_numba = pytest.mark.skipif(not HAVE_NUMBA, reason="Numba is missing or switched off")
ZONES, MEMBERS = 40, 6
EXPRESSIONS = 2500
"""With ``ZONES`` each: 100,000 random (expression, boxes, points)."""

TINY = {"float": [math.nan, 0.0, -0.0, 1.0, 2.0, 3.0, -1.0, math.inf], "int": [NULL, 0, 1, 2], "time": [NULL, 0, 1, 2, 3]}
TAME = {
    "float": [0.0, 0.5, 1.0, 2.0, 3.5, 4.0, 7.0, 9.5],
    "int": [-3, 0, 1, 2, 5],
    "text": [0, 1],
    "bool": [0, 1],
    "time": [1_700_000_000_000_000 + 60_000_000 * m for m in (0, 1, 4, 5, 60)],
}
ROUND = {"float": [math.nan, *(15.0 * step for step in range(-12, 13)), 90.5, *(math.pi / 4 * step for step in range(-6, 7)), -1e7]}
DOMAINS = [POOLS, {**POOLS, **TINY}, {**POOLS, **TAME}, {**POOLS, **ROUND}]
_POOLS = [
    {name: np.array(domain[kind], np.float64 if kind == "float" else np.int64) for name, kind in SCHEMA.items()} for domain in DOMAINS
]


def points(seed: int) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Objects in zones, and the objects of the other box."""
    rng = np.random.default_rng(seed)
    pools = _POOLS[rng.integers(len(_POOLS))]
    return drawn(rng, pools, ZONES, MEMBERS), drawn(rng, pools, 1, int(rng.integers(1, 5)))


STARTS = np.arange(0, ZONES * MEMBERS, MEMBERS)


def rows(kernel, table) -> tuple[np.ndarray, np.ndarray]:
    n = len(table["x"])
    return matrix(table, kernel.float_names, np.float64, n), matrix(table, kernel.int_names, np.int64, n)


def least_of(scores: np.ndarray) -> np.ndarray:
    """The least score of every zone; NaN if there is none."""
    return np.fmin.reduceat(scores, STARTS)


def pair_case(kernel, objects, others) -> tuple[tuple, np.ndarray]:
    """The arguments of ``bound_block`` and what it bounds."""
    (fcols, icols), (xf, xi) = rows(kernel, objects), rows(kernel, others)
    x_boxes = [boxes_of(x, np.zeros(1, np.int64))[:, 0].copy() for x in (xf, xi)]
    arguments = (boxes_of(fcols, STARTS), boxes_of(icols, STARTS), 0, ZONES, *x_boxes, np.empty(0, np.int64))
    least, out = np.full(ZONES, math.nan), np.empty(ZONES * MEMBERS)
    for x in range(xf.shape[1] if len(xf) else xi.shape[1]):
        kernel.score_block_numpy(fcols, icols, 0, ZONES * MEMBERS, xf[:, x].copy(), xi[:, x].copy(), np.empty(0, np.int64), out)
        least = np.fmin(least, least_of(out))
    return arguments, least


def check(bound: np.ndarray, least: np.ndarray) -> None:
    """``inf`` says that there is no score at all; what is no score is NaN."""
    assert not np.isnan(bound).any()
    wrong = (bound > least) | ((bound == math.inf) & ~np.isnan(least))
    assert not wrong.any(), [(z, bound[z], least[z]) for z in np.flatnonzero(wrong)][:3]


def sound(score, where, negate, swap, seed) -> None:
    kernel = compile_pair(score, where, negate, TEXTS)
    kernel = kernel.swapped if swap else kernel
    arguments, least = pair_case(kernel, *points(seed))
    out = np.full(ZONES, math.nan)
    kernel.bound_block_numpy(*arguments, out)
    check(out, least)
    assert not bounds.trivial(kernel) or len({*out.tolist()} - {math.inf}) <= 1


random_pairs = given(trees("float"), st.none() | trees("bool"), st.booleans(), st.booleans(), st.integers(0, 2**32 - 1))


@random_pairs
@settings(max_examples=cases(300), **RELAXED)
def test_no_bound_is_on_the_wrong_side(score, where, negate, swap, seed) -> None:
    sound(score, where, negate, swap, seed)


@pytest.mark.slow
@random_pairs
@settings(max_examples=EXPRESSIONS, derandomize=True, database=None, **RELAXED)
def test_no_bound_of_100000_is_on_the_wrong_side(score, where, negate, swap, seed) -> None:
    sound(score, where, negate, swap, seed)


@needs_numba
@random_pairs
@settings(max_examples=cases(25), **RELAXED)
def test_numba_and_numpy_give_the_same_bounds(score, where, negate, swap, seed) -> None:
    same_bytes(score, where, negate, swap, seed)


@pytest.mark.slow
@needs_numba
@random_pairs
@settings(max_examples=300, derandomize=True, database=None, **RELAXED)
def test_numba_and_numpy_give_the_same_bounds_at_length(score, where, negate, swap, seed) -> None:
    same_bytes(score, where, negate, swap, seed)


def same_bytes(score, where, negate, swap, seed) -> None:
    kernel = compile_pair(score, where, negate, TEXTS)
    kernel = kernel.swapped if swap else kernel
    arguments, _ = pair_case(kernel, *points(seed))
    compiled, plain = np.full(ZONES, 7.0), np.full(ZONES, 7.0)
    kernel.bound_block(*arguments, compiled)
    kernel.bound_block_numpy(*arguments, plain)
    assert compiled.tobytes() == plain.tobytes()
    part = np.full(ZONES, 7.0)
    kernel.bound_block(arguments[0], arguments[1], 11, 29, *arguments[4:], part)
    assert part.tolist() == [*plain[11:29], *[7.0] * (ZONES - 18)]


@given(st.none() | trees("float", ("",)), st.none() | trees("bool", ("",)), st.booleans(), st.integers(0, 2**32 - 1))
@settings(max_examples=cases(150), **RELAXED)
def test_no_bound_of_single_objects_is_on_the_wrong_side(score, where, negate, seed) -> None:
    kernel = compile_row(score, where, negate, TEXTS)
    fcols, icols = rows(kernel, points(seed)[0])
    scores, out = np.empty(ZONES * MEMBERS), np.full(ZONES, math.nan)
    kernel.scores_numpy(fcols, icols, 0, ZONES * MEMBERS, scores)
    kernel.bound_block_numpy(boxes_of(fcols, STARTS), boxes_of(icols, STARTS), 0, ZONES, out)
    check(out, least_of(scores))


# ---------------------------------------------------------------------- by hand

PATHS = [pytest.param(True, marks=needs_numba, id="numba"), pytest.param(False, id="numpy")]
HAND = {"x": "float", "y": "float", "n": "int", "s": "text", "t": "time", "ok": "bool"}
MINUTE = 60_000_000
INF, GREATEST = math.inf, float(np.finfo(np.float64).max)


def box(values: list, kind: str) -> list:
    there = [v for v in values if v is not None]
    nothing = (INF, -INF) if kind == "float" else (2**63 - 1, -(2**63) + 1)
    return [min(there, default=nothing[0]), max(there, default=nothing[1]), int(len(there) < len(values))]


def bound(score: str, where: str | None, a: dict[str, list], b: dict[str, list], numba: bool, negate: bool = False) -> float:
    """The bound of a box of ``a`` with one of ``b``, each given by values."""
    kernel = compile_pair(parse(score, HAND), None if where is None else parse(where, HAND), negate, {"tech": 0, "oil": 1})
    sides = []
    for side in (a, b):
        for names, dtype in ((kernel.float_names, np.float64), (kernel.int_names, np.int64)):
            sides.append(np.array([row for name in names for row in box(side[name], HAND[name])], dtype))
    out = np.full(1, math.nan)
    block = kernel.bound_block if numba else kernel.bound_block_numpy
    block(sides[0].reshape(-1, 1), sides[1].reshape(-1, 1), 0, 1, sides[2], sides[3], np.empty(0, np.int64), out)
    return float(out[0])


A = {"x": [1.0, 2.0], "y": [-1.0, 3.0], "n": [2, 5], "s": [0], "t": [0, 5 * MINUTE], "ok": [1]}
B = {"x": [4.0], "y": [0.5, 1.0], "n": [7], "s": [1], "t": [70 * MINUTE], "ok": [0, 1]}


@pytest.mark.parametrize("numba", PATHS)
@pytest.mark.parametrize(
    ("score", "negate", "expected"),
    [
        ("abs(a.x - b.x) + abs(a.y - b.y)", False, 2.0),
        ("abs(a.x - b.x) + abs(a.y - b.y)", True, -(3.0 + 2.5)),
        ("(a.x - b.x) * (a.x - b.x) + (a.y - b.y) * (a.y - b.y)", False, 4.0),
        ("(a.y - b.y) * (a.y - b.y)", True, -6.25),
        ("a.x * b.x", False, 4.0),
        ("a.x * b.x", True, -8.0),
        ("a.y * b.y", False, -1.0),
        ("b.x / a.x", False, 2.0),
        ("b.x / a.x", True, -4.0),
        ("b.x / a.y", False, -INF),
        ("abs(a.x - b.x) / abs(a.y - b.y)", False, 2 / 2.5),
        ("abs(a.x - b.x) / abs(a.y - b.y)", True, -INF),
        ("abs(a.x - b.x) / min(a.x, b.x)", False, 1.0),
        ("sqrt(abs(a.x - b.x))", True, -math.sqrt(3)),
        ("floor(b.x / 3) - max(a.x, a.y)", False, -2.0),
        ("where(a.ok, a.x, b.x)", False, 1.0),
        ("where(a.ok, b.x, a.x)", False, 4.0),
        ("where(b.ok, b.x, a.x)", False, 1.0),
        ("where(a.x > 5, a.y, b.x)", False, 4.0),
        ("b.n - a.n", False, 2.0),
        ("(b.t - a.t) / 1 minute", False, 65.0),
        ("abs(a.t - b.t)", True, -4200.0),
        ("max(a.t, b.t) - min(a.t, b.t)", False, 3900.0),
        ("a.x - a.x + a.y / a.y", False, 1.0),
        ("a.y * a.y", False, 0.0),
    ],
)
def test_bounds_are_tight(score, negate, expected, numba) -> None:
    assert bound(score, None, A, B, numba, negate) == expected


@pytest.mark.parametrize("numba", PATHS)
@pytest.mark.parametrize(
    ("score", "expected"), [("exp(a.x)", math.e), ("log(b.x)", math.log(4)), ("pow(b.x - a.x, 2)", 4.0), ("pow(b.x, 1.5)", 8.0)]
)
def test_results_of_the_c_library_are_widened_by_little(score, expected, numba) -> None:
    assert expected * (1 - 1e-14) < bound(score, None, A, B, numba) < expected


@pytest.mark.parametrize("numba", PATHS)
@pytest.mark.parametrize(
    ("where", "possible"),
    [
        ("a.s = b.s", False),
        ("a.s <> b.s", True),
        ("a.s = 'tech'", True),
        ("a.s in ('oil')", False),
        ("a.s not in ('tech', 'oil')", False),
        ("b.t - a.t < 1 hour", False),
        ("b.t - a.t <= 65 minutes", True),
        ("b.t > a.t + 70 minutes", False),
        ("not a.ok", False),
        ("a.ok = b.ok", True),
        ("a.ok and a.x > 2", False),
        ("a.x >= 2 or b.n > 7", True),
        ("a.n > b.n", False),
        ("a.x between 3 and 5", False),
        ("a.x is null", False),
        ("a.x is not null and b.ok", True),
        ("false", False),
    ],
)
def test_zones_without_candidates_have_the_bound_inf(where, possible, numba) -> None:
    assert bound("a.x", where, A, B, numba) == (1.0 if possible else INF)


@pytest.mark.parametrize("numba", PATHS)
def test_nulls_zeros_and_infinities(numba) -> None:
    nothing = {**A, "x": [None, None]}
    assert bound("a.x + b.x", None, nothing, B, numba) == INF
    assert bound("where(a.x is null, 5, a.x)", None, nothing, B, numba) == 5.0
    assert bound("a.y", "a.x > 0", nothing, B, numba) == INF
    assert bound("a.y", "a.x > 0 or a.x is null", {**A, "x": [None, -1.0]}, B, numba) == -1.0
    assert bound("1 / a.x", None, {**A, "x": [0.0]}, B, numba) == -INF  # the zero may be -0.0
    assert bound("1 / abs(a.x)", None, {**A, "x": [0.0, 2.0]}, B, numba) == 0.5
    assert bound("1 / abs(a.x)", None, {**A, "x": [0.0]}, B, numba) == GREATEST  # inf would say that there is no candidate
    assert bound("a.x - b.x", None, {**A, "x": [INF]}, {**B, "x": [-INF, INF]}, numba) == GREATEST
    assert bound("a.x * b.x", None, {**A, "x": [0.0, 1.0]}, {**B, "x": [INF]}, numba) == 0.0


@pytest.mark.parametrize("numba", PATHS)
def test_times_that_wrap_around_may_be_anything(numba) -> None:
    far = {**A, "t": [-(2**62) - 1, 2**62]}
    assert bound("a.t - b.t", None, far, {**B, "t": [2**62]}, numba) == -(2.0**63) / 1e6
    assert bound("a.t - b.t", None, {**A, "t": [0, 2**62]}, {**B, "t": [2**62]}, numba) == -(2.0**62) / 1e6


def test_trivial_bounds_are_known() -> None:
    def trivial(score: str, where: str | None = None) -> bool:
        return bounds.trivial(compile_pair(parse(score, HAND), None if where is None else parse(where, HAND), False, {}))

    assert not trivial("abs(a.x - b.x)")
    assert trivial("1 + 2")
    assert trivial("a.x - a.x")
    assert not trivial("a.x - a.x", "a.s = b.s")
    assert not trivial("1", "a.x is null")
    assert trivial("max(" + ", ".join(["a.x + 1"] * 99) + ") + b.y + b.x + b.n") is (bounds.MOST < 304)
