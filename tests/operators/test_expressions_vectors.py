"""Functions of vectors: kernels against the interpreter that ``verify`` scores with, bit for bit, and the type rules."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skyband.framework.verify.brute_force.expressions import Values, score_of
from skyband.operators.expressions import ExpressionErrors, attributes, canonical, compile_pair, matrix, parse
from skyband.operators.expressions.kernels.vectors import BLOCK
from skyband.operators.expressions.vectors import PARTS, STEP, Vector, norm_name, part_start, rows
from tests.seeds import cases

TEXTS = (
    "cosine(a.e, b.e)",
    "dot(a.e, b.f)",
    "dot(b.f, a.e) * a.x - dot(a.e, b.f)",
    "l2(a.e, b.e)",
    "dot(a.e, a.f) + cosine(b.e, b.f) + l2(b.e, a.e)",
    "1 / dot(a.e, b.e)",
    "where(a.e is null, -1, where(b.e is not null, l2(a.e, a.f), dot(b.e, b.e)))",
)
NONE = np.empty(0, np.int64)
NUMBERS = (0.0, -0.0, 1.0, -1.0, 0.1, 3.0, 1e200, -1e200, 1e-200, 1e308, 5e-324, 1 / 3)


def schema(dimension: int) -> dict[str, Any]:
    return {"e": Vector(dimension), "f": Vector(dimension), "x": "float"}


def objects(rng: np.random.Generator, n: int, dimension: int) -> dict[str, Any]:
    made: dict[str, Any] = {"x": rng.choice([0.0, 2.5, -1.0], n)}
    for name in ("e", "f"):
        made[name] = rng.choice(np.array(NUMBERS), (n, dimension)) if rng.random() < 0.5 else rng.normal(size=(n, dimension))
        made[name][rng.random(n) < 0.2] = np.nan
        made[name][rng.random(n) < 0.1] = 0.0
    return made


def values(columns: dict[str, Any], row: int | None = None) -> dict[str, Values]:
    part = columns if row is None else {name: x[row : row + 1] for name, x in columns.items()}
    return {name: Values(x, ~np.isnan(x if x.ndim == 1 else x[:, 0])) for name, x in part.items()}


def check(text: str, dimension: int, n: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    tree = parse(text, schema(dimension), want="score")
    old, new = objects(rng, n, dimension), objects(rng, 3, dimension)
    as_b = compile_pair(tree, None, bool(rng.random() < 0.5), {})
    names = as_b.float_names
    cols, rows, none = matrix(old, names, np.float64, n), matrix(new, names, np.float64, 3), np.empty((0, n), np.int64)
    lo = int(rng.integers(0, n))
    for kernel in (as_b, as_b.swapped):
        for x in range(3):
            pair = (values(old), values(new, x))
            want = score_of(tree)(*(pair if kernel is as_b else pair[::-1]))
            want = np.broadcast_to(-want + 0.0 if kernel.negate else want, n)[lo:]
            xf = np.ascontiguousarray(rows[:, x])
            for score, count in (
                (kernel.score_block, kernel.count_block),
                (kernel.score_block_numpy, kernel.count_block_numpy),
            ):
                out = np.full(n - lo, 7.0)
                score(cols, none, lo, n, xf, NONE, NONE, out)
                assert np.where(np.isnan(out), math.nan, out).tobytes() == np.where(np.isnan(want), math.nan, want).tobytes()
                for limit in (0.5, math.inf, math.nan):
                    assert count(cols, none, lo, n, xf, NONE, NONE, limit) == np.count_nonzero(want <= limit)


DIMENSIONS = (1, STEP - 1, STEP, 2 * STEP + 1)
EVERY_FUNCTION = TEXTS[4]
CASES = [
    pytest.param(text, dimension, marks=() if text == EVERY_FUNCTION or n % 4 == m else pytest.mark.slow)
    for n, text in enumerate(TEXTS)
    for m, dimension in enumerate(DIMENSIONS)
]
"""A kernel is compiled for each: every text with one dimension, and that with every function with all, are not slow."""


@pytest.mark.parametrize(("text", "dimension"), CASES)
def test_kernels_and_definition_agree(text: str, dimension: int) -> None:
    for seed in range(5):
        check(text, dimension, 30, seed)


def test_blocks_of_many_objects() -> None:
    for n in (BLOCK - 1, BLOCK, 2 * BLOCK + 5):
        check(TEXTS[0], 3, n, n)
        check(TEXTS[4], 3, n, n)


@pytest.mark.parametrize("text", ["cosine(a.e, b.e)", "dot(b.e, a.e)", "l2(a.e, b.e)"])
@pytest.mark.parametrize("dimension", [3, STEP * PARTS, 100])
def test_counts_that_stop_early_are_right(text: str, dimension: int) -> None:
    """Limits near each score, on clustered, tiny, huge, null and equal vectors: a block is left only if nothing in it counts."""
    rng = np.random.default_rng(dimension)
    tree, none = parse(text, schema(dimension), want="score"), np.empty((0, 24), np.int64)
    for scale in (1.0, 1e-100, 1e-140, 1e-155, 1e-162, 1e140, 1e154, 1e300):
        for spread in (0.0, 1e-9, 0.1, 1.0):
            with np.errstate(over="ignore", invalid="ignore"):
                e = (rng.normal(size=dimension) + spread * rng.normal(size=(24, dimension))) * scale
                e[rng.random(24) < 0.2] *= rng.choice([-1.0, 0.0, 1e-30, 1e8, np.nan])
                e[:, dimension // 2 :] *= rng.choice([1.0, 0.0, 1e-150])
            e[~np.isfinite(e).all(axis=1)] = np.nan
            kernel = compile_pair(tree, None, text[0] != "l", {})
            cols = matrix({"e": e}, kernel.float_names, np.float64, 24)
            for x in range(24):
                xf, out = cols[:, x].copy(), np.empty(24)
                kernel.score_block_numpy(cols, none, 0, 24, xf, NONE, NONE, out)
                for j in range(24):
                    for limit in (out[j], np.nextafter(out[j], -np.inf)):
                        count = kernel.count_block(cols, none, j, j + 1, xf, NONE, NONE, limit)
                        assert count == int(out[j] <= limit), (scale, spread, x, j)


def test_norms_of_parts() -> None:
    column = np.random.default_rng(1).normal(size=(5, 50))
    found = rows("e", column)
    for part in range(PARTS):
        rest = column[:, part_start(50, part) :]
        assert np.allclose(found[norm_name("e", part)], np.sqrt((rest * rest).sum(axis=1)))
    starts = [part_start(50, part) for part in range(PARTS + 1)]
    assert starts == sorted(starts) and (starts[0], starts[-1]) == (0, 50)


PAIRS = st.tuples(st.floats(-1e3, 1e3), st.floats(-1e3, 1e3))


# Every dimension has its own kernel: few of them, on both sides of the length that a loop takes at once.
@given(st.sampled_from([1, STEP - 1, STEP + 1, 40]).flatmap(lambda n: st.lists(PAIRS, min_size=n, max_size=n)))
@settings(max_examples=cases(50), deadline=None)
def test_sums_are_in_order(numbers: list[tuple[float, float]]) -> None:
    dot, squares = 0.0, 0.0
    for x, y in numbers:
        dot += x * y
        squares += (x - y) * (x - y)
    for text, want in (("dot(a.e, b.e)", dot), ("l2(a.e, b.e)", math.sqrt(squares))):
        kernel = compile_pair(parse(text, schema(len(numbers))), None, False, {})
        a, b = (matrix({"e": np.array([v])}, kernel.float_names, np.float64, 1) for v in zip(*numbers, strict=True))
        out = np.empty(1)
        kernel.score_block(a, np.empty((0, 1), np.int64), 0, 1, b[:, 0].copy(), NONE, NONE, out)
        assert out[0] == want + 0.0


def test_vectors_are_attributes_with_a_dimension() -> None:
    tree = parse("COSINE(a.e, b.e)", schema(384))
    assert canonical(tree) == "cosine(a.e, b.e)"
    (column,) = attributes(tree)
    assert (column.kind, column.dimension) == ("vector", 384)
    assert len(compile_pair(tree, None, False, {}).float_names) == 384 + PARTS


MISTAKES = (
    ("cosine(a.e, a.x)", "cosine needs a vector, this is a number"),
    ("dot(a.e, null)", "dot needs a vector, this is null"),
    ("dot(a.e)", "dot takes 2 arguments, not 1"),
    ("l2(a.e, b.small)", "l2 needs vectors of one dimension, these have 4 and 3"),
    ("a.e + 1", "+ needs a number, this is a vector"),
    ("where(a.x > 1, a.e, b.e)", "where(...) cannot give a vector"),
    ("where(a.e = b.e, 1, 2)", "vectors cannot be compared with =; compare their dot, l2 or cosine"),
    ("a.e", "a score must be a number, this is a vector"),
    ("dot(a.list, b.list)", "list is a list: only sets of tokens and vectors are made of lists"),
)


@pytest.mark.parametrize(("text", "message"), MISTAKES)
def test_mistakes(text: str, message: str) -> None:
    with pytest.raises(ExpressionErrors) as e:
        parse(text, {**schema(4), "small": Vector(3), "list": "list"}, want="score")
    assert message in [x.message for x in e.value.errors]
