"""Kernels against the interpreter that ``verify`` scores with, bit for bit: what finds a mistake of either."""

import math
import pickle
import struct

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from skyband.framework.verify.brute_force.expressions import holds, score_of
from skyband.operators.base import NULL
from skyband.operators.expressions import attributes, canonical, compile_pair, compile_row, matrix, parse
from skyband.operators.jit import HAVE_NUMBA
from tests.operators.expression_cases import SCHEMA, TEXTS, columns, trees, values
from tests.seeds import cases

RELAXED = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow, HealthCheck.data_too_large]}
needs_numba = pytest.mark.skipif(not HAVE_NUMBA, reason="Numba is missing or switched off")
OLD, NEW = columns(1, 40), columns(2, 6)
POOL = np.empty(0, np.int64)


def bits(values) -> bytes:
    return np.asarray(values, np.float64).tobytes()


def scored(score, where, negate, a, b, rows=40) -> list[float]:
    """What a kernel must give: NaN without a score or if the predicate is not true."""
    x = np.zeros(1) if score is None else score_of(score)(a, b)
    x = np.where(holds(where)(a, b) & ~np.isnan(x), -x + 0.0 if negate else x, math.nan)
    return np.broadcast_to(x, rows).tolist()


def expected(score, where, negate, older_is_column=True) -> list[list[float]]:
    """[x][row]."""
    old, new = values(OLD), [values(NEW, x) for x in range(6)]
    return [scored(score, where, negate, *((old, n) if older_is_column else (n, old))) for n in new]


def arrays(kernel, x):
    fcols, icols = matrix(OLD, kernel.float_names, np.float64, 40), matrix(OLD, kernel.int_names, np.int64, 40)
    xf = matrix(NEW, kernel.float_names, np.float64, 6)[:, x].copy()
    return fcols, icols, xf, matrix(NEW, kernel.int_names, np.int64, 6)[:, x].copy()


def check(kernel, score_block, count_block, rows) -> None:
    for x, want in enumerate(rows):
        fcols, icols, xf, xi = arrays(kernel, x)
        out = np.full(40, 7.0)
        score_block(fcols, icols, 0, 40, xf, xi, POOL, out)
        assert bits(out) == bits(want), (x, [(r, out[r], want[r]) for r in range(40) if bits(out[r]) != bits(want[r])][:3])
        part = np.full(30, 7.0)
        score_block(fcols, icols, 11, 29, xf, xi, POOL, part)
        assert bits(part) == bits(want[11:29] + [7.0] * 12)
        for limit in (0.0, 1.0, -1.5, math.inf, -math.inf, math.nan):
            if count_block is not None:
                assert count_block(fcols, icols, 3, 40, xf, xi, POOL, limit) == sum(s <= limit for s in want[3:]), limit


@given(trees("float"), st.none() | trees("bool"), st.booleans(), st.booleans())
@settings(max_examples=cases(400), **RELAXED)
def test_numpy_pair_kernels_do_what_the_interpreter_does(score, where, negate, swap) -> None:
    kernel = compile_pair(score, where, negate, TEXTS)
    kernel = kernel.swapped if swap else kernel
    check(kernel, kernel.score_block_numpy, kernel.count_block_numpy, expected(score, where, negate, not swap))


@needs_numba
@given(trees("float"), st.none() | trees("bool"), st.booleans())
@settings(max_examples=cases(25), **RELAXED)
def test_numba_pair_kernels_do_what_the_interpreter_does(score, where, negate) -> None:
    kernel = compile_pair(score, where, negate, TEXTS)
    check(kernel, kernel.score_block, None, expected(score, where, negate))


@pytest.mark.slow
@needs_numba
@given(trees("float", depth=5), st.none() | trees("bool"), st.booleans(), st.booleans())
@settings(max_examples=cases(150), **RELAXED)
def test_numba_pair_kernels_do_what_the_interpreter_does_at_length(score, where, negate, swap) -> None:
    kernel = compile_pair(score, where, negate, TEXTS)
    kernel = kernel.swapped if swap else kernel
    check(kernel, kernel.score_block, kernel.count_block, expected(score, where, negate, not swap))


@given(st.none() | trees("float", ("",)), st.none() | trees("bool", ("",)), st.booleans())
@settings(max_examples=cases(150), **RELAXED)
def test_numpy_row_kernels_do_what_the_interpreter_does(score, where, negate) -> None:
    kernel = compile_row(score, where, negate, TEXTS)
    want = scored(score, where, negate, values(OLD), {})
    out = np.full(40, 7.0)
    fcols, icols = matrix(OLD, kernel.float_names, np.float64, 40), matrix(OLD, kernel.int_names, np.int64, 40)
    kernel.scores_numpy(fcols, icols, 0, 40, out)
    assert bits(out) == bits(want)


@given(trees("float") | trees("bool"))
@settings(max_examples=cases(300), **RELAXED)
def test_canonical_spelling_parses_back(node) -> None:
    again = parse(canonical(node), SCHEMA)
    assert again == node
    assert canonical(again) == canonical(node)
    assert attributes(again) == attributes(node)


# ---------------------------------------------------------------------- chosen cases, on both paths

PATHS = [pytest.param(True, marks=needs_numba, id="numba"), pytest.param(False, id="numpy")]

CHOSEN = [
    # (score, where, negate): every function and operator once, and what is easy to get wrong
    ("abs(a.x - b.x) + abs(a.y - b.y) * 2", "a.s <> b.s", False),
    ("exp(a.x) - log(b.y) + pow(a.x, b.y) + pow(a.y, 2) + pow(a.x, 0.5) + exp(1)", None, False),
    ("pow(a.x, 0)", None, False),
    ("min(a.x, b.x, a.y) - max(a.y, b.y, 0.0)", None, True),
    ("1 / min(a.x, b.x) + 1 / max(-0.0, a.y)", None, False),
    ("floor(a.x / b.y) + sqrt(a.x) + 1 / floor(b.x)", "a.n < b.n or not a.ok", True),
    ("a.ts - b.ts", "abs(a.ts - b.ts) <= 5 minutes or a.due + 1 day > b.due - 90 seconds", False),
    ("where(a.ok and b.x > 0, a.n, null)", "a.n between -1 and 3 and a.n not in (2, 3)", True),
    ("a.n", "a.n = 9007199254740993 or a.n > b.n", False),
    ("a.n", "a.n = 9007199254740993.0 or a.x >= b.n", False),
    ("0 - a.x", "a.x is null or b.s in ('u', 'it''s') or a.ok = b.ok or (a.x > 0) <> b.ok", False),
    ("1.0 / 0.0", "where(a.ok, b.ok, null) is null", False),
    ("0 * a.x", "true", True),
    ("1", "false", False),
    ("where(a.x > 1, 5 minutes, a.due - b.due) / 3 minutes", "max(a.ts, b.ts) - 1 hour < a.due", False),
    ("where(where(a.ok, a.s, b.t) = 'v', a.x, -b.x)", "not (a.s = b.s and a.x < b.x)", False),
    ("sign(a.x) + 1 / sign(b.x) + round(a.x / 2) + 1 / round(a.y / 7) + ceil(b.y) + 1 / ceil(b.x)", None, True),
    ("mod(a.x, b.y) + mod(a.n, 3) + mod(-7.25, b.n) + 1 / mod(a.y, 1)", None, False),
    ("case when a.ok then a.x when b.x > 1 then 5 minutes else a.n end", "case a.s when 'u' then b.ok when b.t then a.ok end", False),
    ("coalesce(a.x, b.x, 7)", "coalesce(a.s, b.s) = 'u' or coalesce(a.ok, b.ok, false) or coalesce(a.ts, b.due) > b.ts", False),
    ("sin(a.x) + cos(b.x) * tan(a.y) - radians(b.y) + atan2(a.x, b.y) + atan2(-0.0, a.y)", None, False),
    ("haversine(a.x, a.y, b.x, b.y)", None, True),
    ("haversine(a.x, 0.1, -89.5, b.y)", "haversine(90, 0, a.x, b.x) < 1e7", False),
]


@pytest.mark.parametrize("numba", PATHS)
@pytest.mark.parametrize(("score", "where", "negate"), CHOSEN)
def test_chosen_expressions(score, where, negate, numba) -> None:
    tree, predicate = parse(score, SCHEMA, want="score"), where and parse(where, SCHEMA, want="predicate")
    kernel = compile_pair(tree, predicate, negate, TEXTS, extra_floats=("x", "y"), extra_ints=("m",))
    assert {"x", "y"} <= set(kernel.float_names) and "m" in kernel.int_names
    for k, side in ((kernel, True), (kernel.swapped, False)):
        blocks = (k.score_block, k.count_block) if numba else (k.score_block_numpy, k.count_block_numpy)
        check(k, *blocks, expected(tree, predicate, negate, side))


@pytest.mark.parametrize("numba", PATHS)
@pytest.mark.parametrize("fn", ["exp", "log", "pow", "sin", "cos", "tan", "atan2"])
def test_some_functions_are_the_c_librarys(fn, numba) -> None:
    rng = np.random.default_rng(5)
    x, y = rng.uniform(-30, 30, 4000), rng.uniform(-8, 8, 4000)
    x = np.abs(x) if fn in ("log", "pow") else x
    text = {"pow": "pow(x, y) + 0 * pow(x, 2)", "atan2": "atan2(x, y)"}.get(fn, f"{fn}(x)")
    kernel = compile_row(parse(text, {"x": "float", "y": "float"}, ("",)), None, False, {})
    out = np.empty(4000)
    cols = matrix({"x": x, "y": y}, kernel.float_names, np.float64, 4000)
    (kernel.scores if numba else kernel.scores_numpy)(cols, np.empty((0, 4000), np.int64), 0, 4000, out)
    function = getattr(math, fn)
    want = [function(p, q) if fn in ("pow", "atan2") else function(p) for p, q in zip(x, y, strict=True)]
    assert bits(out) == bits(want)


@pytest.mark.parametrize("numba", PATHS)
def test_power_of_two_is_not_folded_into_a_product(numba) -> None:
    """The C library's pow(x, y) is called as it is, even where a compiler knows better."""
    x = np.random.default_rng(6).uniform(0.5, 2.0, 2000)
    for exponent in ("2", "0.5", "-1", "3"):
        kernel = compile_row(parse(f"pow(x, {exponent})", {"x": "float"}, ("",)), None, False, {})
        out = np.empty(2000)
        (kernel.scores if numba else kernel.scores_numpy)(x.reshape(1, -1), np.empty((0, 2000), np.int64), 0, 2000, out)
        assert bits(out) == bits([math.pow(v, float(exponent)) for v in x])


def test_no_contraction_into_fused_multiply_add() -> None:
    """x * y - x * y is 0; with one product fused it is the rounding error of the other."""
    x, y = np.random.default_rng(7).uniform(1, 2, (2, 1000))
    kernel = compile_row(parse("x * y - y * x + x * y", {"x": "float", "y": "float"}, ("",)), None, False, {})
    assert bits(kernel.evaluate({"x": x, "y": y})) == bits(x * y)


def test_zero_has_no_sign_and_nan_one_pattern() -> None:
    for negate in (False, True):
        kernel = compile_row(parse("x", {"x": "float"}, ("",)), None, negate, {})
        weird = struct.unpack("<d", struct.pack("<Q", 0xFFF8000000000123))[0]
        assert bits(kernel.evaluate({"x": np.array([0.0, -0.0, weird])})) == bits([0.0, 0.0, math.nan])


def test_rows_without_score_and_predicates() -> None:
    schema = {"ok": "bool", "s": "text"}
    kernel = compile_row(None, parse("ok or s = 'u'", schema, ("",)), False, {"u": 3})
    table = {"ok": np.array([1, 0, NULL, NULL, 0]), "s": np.array([NULL, NULL, 3, 4, 3])}
    assert kernel.passes(table).tolist() == [True, False, True, False, True]
    everything = compile_row(None, None, False, {})
    assert everything.passes({}, 3).tolist() == [True] * 3
    assert compile_row(parse("2.5", schema, ("",)), None, True, {}).evaluate({}, 2).tolist() == [-2.5, -2.5]


def test_empty_blocks() -> None:
    kernel = compile_pair(parse("a.x + b.x", SCHEMA), None, False, {})
    f, i = np.empty((1, 0)), np.empty((0, 0), np.int64)
    for count, score in ((kernel.count_block, kernel.score_block), (kernel.count_block_numpy, kernel.score_block_numpy)):
        assert count(f, i, 0, 0, np.zeros(1), POOL, POOL, math.inf) == 0
        score(f, i, 0, 0, np.zeros(1), POOL, POOL, np.empty(0))


def test_kernels_are_picklable_and_equal_by_configuration() -> None:
    kernel = compile_pair(parse("a.x - b.x", SCHEMA), parse("a.s = 'u'", SCHEMA), True, TEXTS)
    kernel.count_block_numpy  # noqa: B018 - a compiled kernel pickles, too
    again = pickle.loads(pickle.dumps(kernel))
    assert again == kernel and hash(again) == hash(kernel)
    assert again.count_block_numpy is kernel.count_block_numpy and again.count_block is kernel.count_block
    assert kernel.swapped.swapped == kernel != kernel.swapped
    assert again.float_names == ("x",) and again.int_names == ("s",) and again.texts == (("u", 0),)


def test_signed_zero_literals_are_not_confused() -> None:
    up, down = (compile_pair(parse(f"a.x / {z}", SCHEMA), None, False, {}) for z in ("0.0", "-0.0"))
    one = np.ones((1, 1))
    for kernel, want in ((up, math.inf), (down, -math.inf)):
        out = np.empty(1)
        kernel.score_block(one, np.empty((0, 1), np.int64), 0, 1, one[0], POOL, POOL, out)
        assert out[0] == want


def test_wrong_configurations_are_refused() -> None:
    with pytest.raises(ValueError, match="without a code: 'u'"):
        compile_pair(parse("a.x", SCHEMA), parse("a.s = 'u'", SCHEMA), False, {})
    with pytest.raises(ValueError, match="must be a number"):
        compile_pair(parse("a.s", SCHEMA), None, False, {})
    with pytest.raises(ValueError, match="must be a condition"):
        compile_pair(parse("a.x", SCHEMA), parse("a.x", SCHEMA), False, {})


def test_a_bare_boolean_is_a_predicate() -> None:
    assert compile_row(None, parse("ok", SCHEMA, ("",), want="predicate"), False, {}).passes({"ok": np.array([0, 1, NULL])}).tolist() == [
        False, True, False,
    ]  # fmt: skip


@pytest.mark.parametrize(("where", "guarded"), [("a.s = b.s and a.x < 7", True), ("b.x < 7", True), ("true", False), (None, False)])
def test_calls_are_for_pairs_that_the_predicate_selects(where, guarded) -> None:
    """What is computed before the test is what the predicate needs; the values are those of the fallback."""
    schema = {"x": "float", "s": "text"}
    for score, calls in (("sin(a.x) + a.x * a.x", True), ("abs(a.x - b.x) + sqrt(a.x) + where(a.s = b.s, floor(b.x), round(a.x))", False)):
        kernel = compile_pair(parse(score, schema), where and parse(where, schema), False, {})
        for kind in ("count", "score"):
            lines = [line.strip() for line in kernel.source(kind).splitlines()]
            at = lines.index("continue") if "continue" in lines else None
            assert (at is not None) == (guarded and calls)
            assert at is None or not any("c_sin(" in line for line in lines[lines.index("for i in range(hi - lo):") : at])


NAN, INF = math.nan, math.inf
BY_DEFINITION = [
    ("sign(x)", [-3.5, -0.0, 0.0, 5e-324, INF, NAN], [-1, 0, 0, 1, 1, NAN]),
    ("1 / sign(x)", [-0.0, 0.0], [-INF, INF]),
    ("ceil(x)", [-1.5, 1.5, 2.0, -INF, NAN], [-1, 2, 2, -INF, NAN]),
    ("round(x)", [0.5, 1.5, 2.5, -0.5, -2.5, -0.4, 0.49999999999999994, NAN], [1, 2, 3, -1, -3, 0, 0, NAN]),
    ("round(x)", [4503599627370495.5, 4503599627370497.0, 1.7e308, -INF], [4503599627370496, 4503599627370497, 1.7e308, -INF]),
    ("1 / round(x)", [-0.4, -0.0], [INF, INF]),
    ("mod(x, 3)", [7, -7, 7.5, 0.0, INF, NAN], [1, -1, 1.5, 0, NAN, NAN]),
    ("mod(7, x)", [3, -3, 0.0, INF, NAN], [1, 1, NAN, 7, NAN]),
    ("mod(x, 0.1)", [1.0], [0.09999999999999995]),
    ("coalesce(x, 2)", [1, NAN], [1, 2]),
    ("coalesce(x / x, null, -x, 5)", [2, 0, NAN, INF], [1, 0, 5, -INF]),
    ("case when x > 1 then 10 when x > 0 then 20 else 30 end", [2, 1, 0, NAN], [10, 20, 30, 30]),
    ("case when x > 1 then 10 end", [2, 1, NAN], [10, NAN, NAN]),
    ("case x when 1 then 10 when 2 then 20 else 30 end", [1, 2, 3, NAN], [10, 20, 30, 30]),
    ("radians(x)", [180, -90, 0], [math.pi, -math.pi / 2, 0]),
    ("sin(x)", [0, INF, NAN], [0, NAN, NAN]),
    ("atan2(x, -1)", [0.0, -0.0, 1], [math.pi, -math.pi, 3 * math.pi / 4]),
    ("haversine(x, 0, 0, 0)", [0, 90.0, 90.5, -91, NAN], [0, math.pi / 2 * 6371008.8, NAN, NAN, NAN]),
    ("haversine(0, x, 0, 0)", [0, 360, 180, -180, INF], [0, 0, math.pi * 6371008.8, math.pi * 6371008.8, NAN]),
]  # fmt: skip


@pytest.mark.parametrize("numba", PATHS)
@pytest.mark.parametrize(("text", "x", "want"), BY_DEFINITION)
def test_functions_by_definition(text, x, want, numba) -> None:
    kernel = compile_row(parse(text, {"x": "float"}, ("",)), None, False, {})
    out, n = np.empty(len(x)), len(x)
    (kernel.scores if numba else kernel.scores_numpy)(np.array([x], np.float64), np.empty((0, n), np.int64), 0, n, out)
    close = "haversine" in text
    np.testing.assert_allclose(out, want, rtol=1e-15 if close else 0, atol=1e-8 if close else 0)


def angle(lat1: float, lon1: float, lat2: float, lon2: float) -> float:
    """The angle between the vectors to two points, from their products."""
    u, v = (
        (
            math.cos(math.radians(p)) * math.cos(math.radians(q)),
            math.cos(math.radians(p)) * math.sin(math.radians(q)),
            math.sin(math.radians(p)),
        )
        for p, q in ((lat1, lon1), (lat2, lon2))
    )
    return math.atan2(float(np.linalg.norm(np.cross(u, v))), float(np.dot(u, v)))


@given(st.floats(-90, 90), st.floats(-720, 720), st.floats(-90, 90), st.floats(-720, 720))
@settings(max_examples=cases(150), **RELAXED)
def test_distances_on_the_globe(lat1, lon1, lat2, lon2) -> None:
    """Equal in both directions, and the angle between two vectors; the arcsine loses digits near the opposite point."""
    kernel = compile_row(parse("haversine(p, q, r, s)", dict.fromkeys("pqrs", "float"), ("",)), None, False, {})
    there, back = (np.array([[v] for v in p]) for p in ((lat1, lon1, lat2, lon2), (lat2, lon2, lat1, lon1)))
    out = np.empty(2)
    for i, points in enumerate((there, back)):
        kernel.scores_numpy(points, np.empty((0, 1), np.int64), 0, 1, out[i:])
    assert out[0] == out[1]
    assert out[0] == pytest.approx(6371008.8 * angle(lat1, lon1, lat2, lon2), rel=1e-12, abs=1e-6 if out[0] < 1.9e7 else 0.3)


def test_a_known_distance() -> None:
    """A degree of latitude on this sphere is 111,195.08 m, and so is one of longitude on the equator."""
    for text in ("haversine(52, 13, 53, 13)", "haversine(0, -0.5, 0, 0.5)"):
        assert compile_row(parse(text, {}, ("",)), None, False, {}).evaluate({}, 1)[0] == pytest.approx(111195.08, abs=0.01)
