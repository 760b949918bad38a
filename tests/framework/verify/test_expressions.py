"""The interpreter beyond what kernels hold: no value stands for null in it (the rest: ``tests/operators/test_expressions_kernels.py``)."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pytest

from skyband.framework.verify.brute_force.expressions import holds, score_of
from skyband.framework.verify.brute_force.objects import values_of
from skyband.operators.expressions import parse

LEAST = -(2**63)
KINDS = {"n": "int", "x": "float", "s": "text", "ok": "bool", "t": "time"}
ROWS = {
    "n": pa.array([LEAST, None, 5], pa.int64()),
    "x": pa.array([math.nan, 1.0, -0.0], pa.float64()),
    "s": pa.array(["a\0", "a", None], pa.string()),
    "ok": pa.array([True, None, False], pa.bool_()),
    "t": pa.array([LEAST, 0, None], pa.int64()).cast(pa.timestamp("us", "UTC")),
}
OBJECTS = {name: values_of(pa.chunked_array([column]), KINDS[name]) for name, column in ROWS.items()}


@pytest.mark.parametrize(
    "condition, true",
    [
        ("n is null", [1]), ("n < 0", [0]), ("n <> 5", [0]), ("x is null", [0]), ("s = 'a'", [1]), ("s <> 'a'", [0]), ("ok", [0]),
        ("not ok", [2]), ("ok is null or n = 5", [1, 2]), ("t is null", [2]), ("t < t + 1 second", [0, 1]),
        ("where(ok, s, null) is null", [1, 2]),
    ],
)  # fmt: skip
def test_conditions(condition: str, true: list[int]) -> None:
    found = holds(parse(condition, KINDS, ("",), "predicate"))(OBJECTS, OBJECTS)
    assert np.nonzero(found)[0].tolist() == true


@pytest.mark.parametrize(
    "score, expected",
    [
        ("n", [-(2.0**63), math.nan, 5.0]),
        ("-x", [math.nan, -1.0, 0.0]),
        ("where(ok, 1, n)", [1.0, math.nan, 5.0]),
        ("exp(x) + 0 * n", [math.nan, math.nan, 1.0]),
    ],
)
def test_scores(score: str, expected: list[float]) -> None:
    assert score_of(parse(score, KINDS, ("",), "score"))(OBJECTS, OBJECTS).tobytes() == np.array(expected).tobytes()
