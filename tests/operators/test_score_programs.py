"""Score programs: the bytes of the expression alone, and no score on the wrong side of its bounds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skyband.operators.base import F64
from skyband.operators.expressions import compile_row, parse
from skyband.operators.expressions.canonical import attributes
from skyband.operators.jit import jit
from skyband.operators.single_rows.kernels.score_programs import (
    bound_boxes_by_steps,
    bound_queries_by_steps,
    score_queries_by_steps,
    score_rows_by_steps,
)
from skyband.operators.single_rows.score_programs import TILE, ScoreProgram, program_scores, score_program, without_bounds
from tests.operators.expression_families import FAMILIES, node, spelled, spelled_scores
from tests.seeds import cases, seeds

D = 2
NUMBERS = (-np.inf, -1e308, -2.0, -1.0, -0.5, -1e-310, -0.0, 0.0, 5e-324, 0.5, 1.0, 3.0, 1e200, np.inf)


@jit
def rows_kernel(program: ScoreProgram, constants: F64, values: F64, begin: int, end: int, out: F64) -> None:
    score_rows_by_steps(program, constants, values, begin, end, out)


@jit
def queries_kernel(program: ScoreProgram, constants: F64, queries: Any, point: F64, out: F64) -> None:
    score_queries_by_steps(program, constants, queries, point, out)


@jit
def bounds_kernel(program: ScoreProgram, constants: F64, queries: Any, low: F64, high: F64, least: F64, most: F64) -> None:
    bound_queries_by_steps(program, constants, queries, low, high, least, most)


@jit
def boxes_kernel(program: ScoreProgram, constants: F64, low: F64, high: F64, begin: int, end: int, most: F64) -> None:
    bound_boxes_by_steps(program, constants, low, high, begin, end, most)


def random_expression(rng: np.random.Generator, depth: int) -> str:
    """An expression over x0, x1, c0, c1 and numbers, of all operations that have a step."""
    if depth == 0 or rng.random() < 0.1:
        return str(rng.choice(["x0", "x1", "c0", "c1", "2", "0.5", "-1.0"]))
    one, other = random_expression(rng, depth - 1), random_expression(rng, depth - 1)
    kind = rng.choice(["+", "-", "*", "/", "min", "max", "-x", "abs", "square", "sqrt", "floor", "ceil"])
    if kind in {"min", "max"}:
        return f"{kind}({one}, {other})"
    if kind in {"abs", "sqrt", "floor", "ceil"}:
        return f"{kind}({one})"
    return {"-x": f"-({one})", "square": f"({one}) * ({one})"}.get(kind, f"({one}) {kind} ({other})")


def random_program(rng: np.random.Generator, queries: int, sign: Any) -> tuple[Any, ScoreProgram, F64]:
    while True:
        score = node(f"{random_expression(rng, 4)} + 0 * (x0 + x1 + c0 + c1)", D)
        if without_bounds(score, ("x0", "x1", "c0", "c1")) is None:
            break
    constants = rng.choice([n for n in NUMBERS if np.isfinite(n)], (queries, D))
    program, table = score_program(score, ("x0", "x1"), ("c0", "c1"), constants, sign)
    return score, program, table


def random_values(rng: np.random.Generator, shape: tuple[int, ...]) -> F64:
    found: F64 = np.where(rng.random(shape) < 0.5, rng.choice(NUMBERS, shape), rng.normal(size=shape))
    return found


def test_scores_have_the_bytes_of_the_expression() -> None:
    for seed in seeds(0, 60):
        rng = np.random.default_rng(seed)
        queries, rows = int(rng.choice([1, 3, TILE + 2])), int(rng.choice([1, TILE, 2 * TILE + 5]))
        sign = rng.choice([-1.0, 1.0], queries)
        score, program, table = random_program(rng, queries, sign)
        x = random_values(rng, (D, rows))
        x[rng.random(x.shape) < 0.05] = np.nan
        want = np.array([sign[q] * spelled_scores(score, table[q, :D], x.T) + 0.0 for q in range(queries)])
        want[np.isnan(want)] = np.nan
        for q in range(queries):
            out = np.empty(rows)
            rows_kernel(program, table[q], x, 0, rows, out)
            out[np.isnan(out)] = np.nan
            twin = np.broadcast_to(program_scores(program, [*x, *table[q]]), rows).copy()
            twin[np.isnan(twin)] = np.nan
            assert out.tobytes() == twin.tobytes() == want[q].tobytes()
        columns, listed = np.ascontiguousarray(table.T), rng.permutation(queries).astype(np.int32)
        for row in range(min(rows, 5)):
            point, out, some = np.ascontiguousarray(x[:, row]), np.empty(queries), np.empty(queries)
            queries_kernel(program, columns, listed[:0], point, out)
            queries_kernel(program, columns, listed, point, some)
            assert np.array_equal(out, want[:, row], equal_nan=True)
            assert np.array_equal(some, out[listed], equal_nan=True)


def check_bounds(program: ScoreProgram, table: F64, low: F64, high: F64, points: F64) -> int:
    """No score of ``points`` (d, n) in the boxes is out of bounds; returns how many boxes have finite bounds."""
    queries = len(table)
    columns, everyone = np.ascontiguousarray(table.T), np.empty(0, np.int32)
    least, most, boxes = np.empty(queries), np.empty(queries), np.empty(1)
    bounds_kernel(program, columns, everyone, low, high, least, most)
    finite = 0
    for q in range(queries):
        scores = np.broadcast_to(program_scores(program, [*points, *table[q]]), points.shape[1])
        boxes_kernel(program, table[q], low[:, None].copy(), high[:, None].copy(), 0, 1, boxes)
        assert np.array_equal(boxes, most[q : q + 1], equal_nan=True)
        known = ~np.isnan(scores)
        assert not (scores[known] > most[q]).any() and not (scores[known] < least[q]).any()
        if np.isfinite(most[q]) and np.isfinite(least[q]):
            assert known.all()
            finite += 1
    return finite


def box_and_points(rng: np.random.Generator, finite: bool) -> tuple[F64, F64, F64]:
    ends = random_values(rng, (2, D)) if not finite else rng.normal(size=(1, D)) + np.array([[0.0], [rng.choice([0.0, 1e-3, 1.0])]])
    low, high = ends.min(axis=0), ends.max(axis=0)
    with np.errstate(all="ignore"):
        inside = low[:, None] + (high - low)[:, None] * rng.random((D, 40))
        special = rng.choice([*NUMBERS, *low, *high], (D, 60))
    points = np.concatenate([np.nan_to_num(inside, nan=0.0), special], axis=1)
    return low, high, np.ascontiguousarray(np.clip(points, low[:, None], high[:, None]))


def test_no_score_is_out_of_bounds() -> None:
    """About 60 x 20 x 100 points in boxes with all kinds of ends, for three queries each."""
    finite = 0
    for seed in seeds(0, 60):
        rng = np.random.default_rng(seed)
        _, program, table = random_program(rng, 3, rng.choice([-1.0, 1.0], 3))
        for i in range(20):
            finite += check_bounds(program, table, *box_and_points(rng, i % 2 == 0))
    assert finite > cases(60)


@settings(max_examples=cases(150), deadline=None)
@given(st.data())
def test_no_score_of_a_family_is_out_of_bounds(data: st.DataObject) -> None:
    number = st.sampled_from(NUMBERS) | st.floats(allow_nan=False)
    family = data.draw(st.sampled_from(sorted(FAMILIES)))
    constants = np.array([data.draw(st.lists(number.filter(np.isfinite), min_size=D, max_size=D))])
    program, table = score_program(
        node(FAMILIES[family](D), D), ("x0", "x1"), ("c0", "c1"), constants, np.array([data.draw(st.sampled_from([-1.0, 1.0]))])
    )
    ends = np.sort(np.array([[data.draw(number) for _ in range(2)] for _ in range(D)]), axis=1)
    points = [np.clip(np.array([data.draw(number) for _ in range(D)]), ends[:, 0], ends[:, 1]) for _ in range(4)]
    corners = [np.array([ends[0, i & 1], ends[1, i >> 1]]) for i in range(4)]
    check_bounds(program, table, ends[:, 0].copy(), ends[:, 1].copy(), np.stack(points + corners, axis=1))


@pytest.mark.parametrize("family", ["product", "squares", "squares alone", "distance", "closest", "ratio", "roots", "steps"])
def test_the_bounds_of_families_are_those_of_the_corners(family: str) -> None:
    """Where all attributes and constants are positive and every attribute is used once in a direction, a corner has the bound."""
    rng = np.random.default_rng(1)
    constants = 2.0 + rng.random((3, D))
    program, table = score_program(node(FAMILIES[family](D), D), ("x0", "x1"), ("c0", "c1"), constants, np.ones(3))
    low, high = np.array([0.25, 0.5]), np.array([0.75, 1.5])
    least, most = np.empty(3), np.empty(3)
    bounds_kernel(program, np.ascontiguousarray(table.T), np.empty(0, np.int32), low, high, least, most)
    corners = np.array([[low[0], high[0], low[0], high[0]], [low[1], low[1], high[1], high[1]]])
    for q in range(3):
        scores = program_scores(program, [*corners, *table[q]])
        if family == "ratio":  # both numerator and denominator have the attributes
            assert most[q] >= scores.max() and least[q] <= scores.min()
        else:
            assert (least[q], most[q]) == (scores.min(), scores.max())


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("c0 * exp(x0)", "exp(...)"),
        ("log(x0) + c0", "log(...)"),
        ("pow(x0, 2) * c0", "pow(...)"),
        ("where(x0 > c0, x0, 1)", "where(...)"),
        ("x0 + (null)", "null"),
        (f"min({', '.join(['x0 * c0 + 1'] * 99)})", "so long an expression"),
        ("(c0 + x0) * (c0 + x0) / max(sqrt(abs(x0)), 1, -floor(x0))", None),
    ],
)
def test_parts_without_bounds_are_named(text: str, part: str | None) -> None:
    assert without_bounds(parse(text, {"x0": "float", "c0": "float"}, ("",), "score"), ("x0", "c0")) == part


def test_times_and_conditions_have_no_bounds() -> None:
    schema: Any = {"t": "time", "c": "float"}
    score = parse("t - timestamp '2020-01-01'", schema, ("",), "score")
    assert without_bounds(score, ("t",)) is not None


def test_constants_are_spelled_as_numbers() -> None:
    """The oracles of families depend on it."""
    score = node(spelled("c1 * x0 - c10", np.array([0.0, -1.5, *[0.0] * 8, 2.0])), 1)
    assert [c.name for c in attributes(score)] == ["x0"]
    assert compile_row(score, None, False, {}).evaluate({"x0": np.array([2.0])}).tolist() == [-5.0]
