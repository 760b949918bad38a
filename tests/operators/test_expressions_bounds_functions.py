"""Bounds of functions of numbers: against the least score of many points of a box, and near it where they can be."""

import itertools
import math

import numpy as np
import pytest

from skyband.operators.expressions import bounds, compile_pair, matrix, parse
from skyband.operators.jit import HAVE_NUMBA
from tests.operators.boxes import boxes_of

needs_numba = pytest.mark.skipif(not HAVE_NUMBA, reason="Numba is missing or switched off")
PATHS = [pytest.param(True, marks=needs_numba, id="numba"), pytest.param(False, id="numpy")]
SCHEMA = {"lat": "float", "lon": "float", "t": "time"}
ZONES, MEMBERS = 400, 200
STARTS = np.arange(0, ZONES * MEMBERS, MEMBERS)
HOUR = 3_600_000_000


def places(rng: np.random.Generator, most: tuple[float, float], width: float) -> dict[str, np.ndarray]:
    """Zones of objects within some degrees of each other; those of a zone include its corners."""
    table = {}
    for name, limit in zip(("lat", "lon"), most, strict=True):
        low = rng.uniform(-limit, limit - width, (ZONES, 1))
        values = low + width * rng.random((ZONES, 1)) * rng.random((ZONES, MEMBERS))
        table[name] = values.ravel()
    table["t"] = (rng.integers(0, 100, (ZONES, 1)) * HOUR + rng.integers(0, HOUR, (ZONES, MEMBERS))).ravel()
    return table


def compared(score: str, table: dict[str, np.ndarray], x: dict[str, float], negate: bool, numba: bool, where: str | None = None) -> tuple:
    """The bounds of the zones, and the least score of each (NaN without one)."""
    kernel = compile_pair(parse(score, SCHEMA), None if where is None else parse(where, SCHEMA), negate, {})
    n = ZONES * MEMBERS
    fcols, icols = matrix(table, kernel.float_names, np.float64, n), matrix(table, kernel.int_names, np.int64, n)
    other = {name: np.array([value]) for name, value in x.items()}
    xf, xi = matrix(other, kernel.float_names, np.float64, 1), matrix(other, kernel.int_names, np.int64, 1)
    scores, out, first = np.empty(n), np.full(ZONES, math.nan), np.zeros(1, np.int64)
    kernel.score_block_numpy(fcols, icols, 0, n, xf[:, 0].copy(), xi[:, 0].copy(), np.empty(0, np.int64), scores)
    block = kernel.bound_block if numba else kernel.bound_block_numpy
    x_boxes = [boxes_of(x, first)[:, 0].copy() for x in (xf, xi)]
    block(boxes_of(fcols, STARTS), boxes_of(icols, STARTS), 0, ZONES, *x_boxes, np.empty(0, np.int64), out)
    least = np.fmin.reduceat(scores, STARTS)
    assert not np.isnan(out).any() and not (out > least).any() and np.isnan(least[out == math.inf]).all()
    return out, least


@pytest.mark.parametrize("numba", PATHS)
@pytest.mark.parametrize(
    "score",
    [
        "sin(a.lat)", "cos(a.lat)", "tan(a.lat)", "sin(1000 * a.lat)", "atan2(a.lat, a.lon)", "mod(a.lat, a.lon)", "mod(a.lat, 3)",
        "round(a.lat)", "ceil(a.lat)", "sign(a.lat)", "radians(a.lat)", "cos(radians(a.lat)) * b.lon", "pow(a.lat, 3)", "pow(a.lat, 4)",
        "exp(a.lat)", "log(a.lat)", "pow(abs(a.lat), a.lon)", "sqrt(a.lat + 50)",
    ],
)  # fmt: skip
def test_functions_of_many_points(score, numba) -> None:
    for negate, width in itertools.product((False, True), (0.0, 0.01, 1.0, 5.0, 40.0)):
        table = places(np.random.default_rng(3), (100, 200), width)
        out, least = compared(score, table, {"lat": 1.0, "lon": 2.0, "t": 0}, negate, numba)
        if width == 0.0 and "mod" not in score:  # a remainder is only bounded by its divisor
            known = np.isfinite(least)
            near = np.abs(out[known] - least[known]) <= 1e-11 * np.maximum(np.abs(least[known]), 1)
            assert near.mean() > 0.99


@pytest.mark.parametrize("numba", PATHS)
@pytest.mark.parametrize("negate", [False, True], ids=["min", "max"])
@pytest.mark.parametrize("width", [0.0, 0.1, 2.0, 30.0])
def test_great_circles(width, negate, numba) -> None:
    for x in ({"lat": 48.2, "lon": 16.4}, {"lat": -89.9, "lon": 179.9}, {"lat": 0.0, "lon": -180.0}, {"lat": 90.0, "lon": 0.0}):
        rng = np.random.default_rng(4)
        out, least = compared("haversine(a.lat, a.lon, b.lat, b.lon)", places(rng, (90, 180), width), {**x, "t": 0}, negate, numba)
        if width <= 2.0 and abs(x["lat"]) < 80 and not negate:  # 2 degrees are 222 km
            assert np.all(out[least > 2e6] > 0.6 * least[least > 2e6])
    if width == 0.0:
        assert np.allclose(out, least, rtol=1e-9, atol=1e-3)


@pytest.mark.parametrize("numba", PATHS)
def test_impossible_travel_prunes(numba) -> None:
    """Of cards seen all over the world, few zones can have one that is near enough in time and far enough in space."""
    rng = np.random.default_rng(5)
    score, where = "haversine(a.lat, a.lon, b.lat, b.lon)", "abs(b.t - a.t) < 1 hour"
    out, least = compared(score, places(rng, (70, 180), 3.0), {"lat": 48.2, "lon": 16.4, "t": 50 * HOUR}, True, numba, where)
    assert 0 < np.count_nonzero(~np.isnan(least)) <= np.count_nonzero(out < math.inf) < 0.05 * ZONES
    assert np.all(out[out < math.inf] < -1e4)


def test_functions_are_not_trivial() -> None:
    kernel = compile_pair(parse("haversine(a.lat, a.lon, b.lat, b.lon)", SCHEMA), None, True, {})
    assert not bounds.trivial(kernel)
