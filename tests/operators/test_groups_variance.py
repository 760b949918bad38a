"""Variances of groups against fractions, for values of all magnitudes: the kernels alone, without windows."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest

from skyband.operators.base import NULL, Arrivals, Named, Ragged, Window
from skyband.operators.expressions.aggregates import parse_aggregates
from skyband.operators.groups import Groups, GroupsQuery
from tests.seeds import seeds

MOST = 1.7976931348623157e308
LIMITS = (2.0**-1074, -(2.0**-1074), 2.0**-1022, MOST, -MOST, 1e16, 1.0, -1e16, 0.0, 2.0**511, 2.0**-537)
WHOLE = (0, 1, -1, 2**53 + 1, 2**63 - 1, -(2**63) + 1, 2**62, 2**32, -(2**21))


def variance(values: list[float] | list[int], sample: int) -> float:
    """By definition: the mean square of deviations from the mean, rounded once; NaN for null."""
    n = len(values)
    if n <= sample:
        return math.nan
    middle = sum(map(Fraction, values), Fraction(0)) / n
    exact = sum(((Fraction(v) - middle) ** 2 for v in values), Fraction(0)) / (n - sample)
    try:
        return exact.numerator / exact.denominator
    except OverflowError:
        return math.inf


KINDS: dict[str, Callable[[np.random.Generator, int], list[float] | list[int]]] = {
    "limits": lambda rng, n: [float(v) for v in rng.choice(LIMITS, n)],
    "whole": lambda rng, n: [int(WHOLE[i]) for i in rng.integers(0, len(WHOLE), n)],
    "any": lambda rng, n: np.ldexp(rng.uniform(-1, 1, n), rng.integers(-1080, 1024, n)).tolist(),
    "near": lambda rng, n: (1e9 + rng.normal(size=n)).tolist(),
    "cents": lambda rng, n: (rng.integers(-5000, 5000, n) / 100).tolist(),
    "equal": lambda rng, n: [float(rng.choice([0.1, 1e300, 2.0**-1074, 0.0]))] * n,
}


def found(score: str, values: list[float] | list[int], window: int) -> list[float]:
    """The score of the only group after each row; NaN while there is none."""
    whole = isinstance(values[0], int)
    operator = Groups(
        group=("g",), score=parse_aggregates(score, {"x": "int" if whole else "float"}, "score"), window=Window(count=window),
        queries=(GroupsQuery(k=1),),
    )  # fmt: skip
    n, zero = len(values), np.zeros(1, np.int64)
    named = {"$g": Named(zero, Ragged(np.arange(2), zero))}
    columns = {"$g": np.zeros(n, np.int64), "x": np.array(values, np.int64 if whole else np.float64)}
    made = operator.build(None).advance(Arrivals(np.zeros(n, np.int64), np.arange(n), np.arange(n), columns, {}, named), n + 1)
    scores = np.full(n, math.nan)
    assert made.traces is not None
    leaves = [(at, math.nan) for at, sign in zip(made.at.tolist(), made.sign, strict=True) if sign < 0]
    points = zip(made.traces.at.tolist(), made.traces.values["score"].tolist(), strict=True)
    for at, value in sorted([*leaves, *points], key=lambda p: p[0]):
        scores[at:] = value
    return scores.tolist()


@pytest.mark.parametrize("sample", [0, 1])
@pytest.mark.parametrize("kind", KINDS)
def test_rounded_once(kind: str, sample: int) -> None:
    for seed in seeds(0, 6):
        rng = np.random.default_rng(seed)
        n = 40
        values = KINDS[kind](rng, n)
        window = int(rng.integers(1, 9))
        score = ("variance(x)", "var_pop(x)")[1 - sample]
        alive = [values[max(0, i - window + 1) : i + 1] for i in range(n)]
        want = [variance(rows, sample) for rows in alive]
        assert [v.hex() for v in found(score, values, window)] == [v.hex() for v in want]
        deviation = ("stddev(x)", "stddev_pop(x)")[1 - sample]
        assert [v.hex() for v in found(deviation, values, window)] == [math.sqrt(v).hex() for v in want]


def test_many_values() -> None:
    """More than 46,340 values: the divisors no longer fit in one."""
    rng = np.random.default_rng(1)
    values = rng.integers(-(10**9), 10**9, 50_000).tolist()
    n, total, squares = len(values), sum(values), sum(v * v for v in values)
    assert found("variance(x)", values, 50_000)[-1] == (n * squares - total * total) / (n * (n - 1))


def test_one_null_and_infinity() -> None:
    """A sample of one value has no variance, as in Spark; nulls do not count, and an infinity makes it null while it is there."""
    assert math.isnan(found("variance(x)", [3.0], 5)[0])
    assert found("var_pop(x)", [3.0], 5) == [0.0]
    assert found("var_pop(x)", [1.0, math.nan, 3.0], 5) == [0.0, 0.0, 1.0]
    assert found("var_pop(x)", [1, NULL, 3], 5) == [0.0, 0.0, 1.0]
    got = found("var_pop(x)", [1.0, math.inf, 3.0, 5.0], 2)
    assert math.isnan(got[1])
    assert math.isnan(got[2])
    assert got[3] == 1.0
