"""Infinities and signed zeros in functions, as the page on expressions defines them: kernels of both kinds, and the interpreter."""

from __future__ import annotations

import math

import numpy as np
import pytest

from skyband.framework.verify.brute_force.expressions import Values, score_of
from skyband.operators.expressions import compile_row, matrix, parse
from skyband.operators.jit import HAVE_NUMBA

PATHS = [False, pytest.param(True, marks=pytest.mark.skipif(not HAVE_NUMBA, reason="Numba is missing or switched off"))]
INF, NAN = math.inf, math.nan


def computed(text: str, x: list[float], y: list[float], numba: bool) -> list[str]:
    """The bits of a score for each pair of values; the interpreter has the same."""
    node, n = parse(text, {"x": "float", "y": "float"}, ("",)), len(x)
    kernel = compile_row(node, None, False, {})
    columns = {"x": np.array(x), "y": np.array(y)}
    out = np.empty(n)
    given = matrix(columns, kernel.float_names, np.float64, n)
    (kernel.scores if numba else kernel.scores_numpy)(given, np.empty((0, n), np.int64), 0, n, out)
    rows = {name: Values(v, ~np.isnan(v)) for name, v in columns.items()}
    with np.errstate(all="ignore"):
        meant = np.broadcast_to(score_of(node)(rows, rows), n)
    assert [v.hex() for v in meant.tolist()] == [v.hex() for v in out.tolist()]
    return [v.hex() for v in out.tolist()]


@pytest.mark.parametrize("numba", PATHS)
def test_powers_of_what_is_below_zero(numba: bool) -> None:
    """Null where the exponent is not whole, also of -inf; an infinite exponent counts as an even whole number."""
    cases = [
        (-INF, 2.5, NAN), (-INF, -0.5, NAN), (-INF, 3.0, -INF), (-INF, 2.0, INF), (-INF, -3.0, 0.0), (-INF, 0.0, 1.0), (-2.0, 0.5, NAN),
        (INF, 2.5, INF), (INF, -2.5, 0.0), (0.0, 2.5, 0.0), (-0.0, 2.5, 0.0), (-0.0, -1.0, -INF), (0.0, -1.0, INF), (-0.0, -2.5, INF),
        (-2.0, INF, INF), (-2.0, -INF, 0.0), (-0.5, INF, 0.0), (-INF, INF, INF), (-INF, -INF, 0.0), (-1.0, INF, 1.0), (NAN, 0.0, NAN),
        (1.0, NAN, NAN), (-INF, 1e300, INF), (-1e300, 2.5, NAN),
    ]  # fmt: skip
    x, y, powers = ([case[i] for case in cases] for i in range(3))
    assert computed("pow(x, y)", x, y, numba) == [v.hex() for v in powers]
    assert computed("pow(x, 2.5)", [-INF, INF, -0.0, -1.0], [0.0] * 4, numba) == [v.hex() for v in (NAN, INF, 0.0, NAN)]


@pytest.mark.parametrize("numba", PATHS)
def test_roots_and_logarithms_of_infinities(numba: bool) -> None:
    x = [-INF, INF, -1.0, 0.0, -0.0]
    assert computed("sqrt(x)", x, x, numba) == [v.hex() for v in (NAN, INF, NAN, 0.0, 0.0)]
    assert computed("log(x)", x, x, numba) == [v.hex() for v in (NAN, INF, NAN, -INF, -INF)]
    assert computed("exp(x)", x[:2], x[:2], numba) == [v.hex() for v in (0.0, INF)]


@pytest.mark.parametrize("numba", PATHS)
@pytest.mark.parametrize(
    ("value", "signs"),
    [
        ("sign(x)", "+-+-"), ("round(x)", "++++"), ("round(x / 4)", "++++"), ("min(x, y)", "++--"), ("max(x, y)", "++--"),
        ("max(x, y, x)", "+-+-"), ("ceil(x)", "+-+-"), ("floor(x)", "+-+-"), ("abs(x)", "++++"), ("-x", "-+-+"), ("x + y", "+++-"),
        ("mod(x, 3)", "+-+-"), ("sqrt(x)", "+-+-"),
    ],
)  # fmt: skip
def test_zeros_have_signs_that_show_in_quotients_and_angles(value: str, signs: str, numba: bool) -> None:
    """x is 0.0, -0.0, 0.0, -0.0, and y is 0.0, 0.0, -0.0, -0.0."""
    x, y = [0.0, -0.0, 0.0, -0.0], [0.0, 0.0, -0.0, -0.0]
    endless = [INF if sign == "+" else -INF for sign in signs]
    assert computed(f"1 / {value if value[0] != '-' else f'({value})'}" if "+" not in value else f"1 / ({value})", x, y, numba) == [
        v.hex() for v in endless
    ]
    assert computed(f"atan2({value}, -1)", x, y, numba) == [math.copysign(math.pi, v).hex() for v in endless]
    # A score of zero has no sign.
    assert computed(value, x, y, numba) == [(0.0).hex()] * 4
