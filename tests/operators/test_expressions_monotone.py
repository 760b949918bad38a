"""Proofs of loose monotony and of signs, against their definitions on a grid of values."""

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skyband.framework.verify.brute_force.expressions import Values, score_of
from skyband.operators.expressions import parse
from skyband.operators.expressions.ast import Node
from skyband.operators.expressions.monotone import Sign, loosely_monotone, sign
from tests.seeds import cases

SCHEMA = {"x": "float"}
GRID = [-7.0, -2.5, -1.0, -0.5, 0.0, 0.25, 1.0, 1.5, 4.0, 9.0]
LAST_BITS = 1e-12

LEAVES = st.sampled_from(["a.x", "b.x", "(a.x - b.x)", "(b.x - a.x)", "0.5", "2", "-3", "0"])
TEXTS = st.recursive(
    LEAVES,
    lambda inner: (
        st.tuples(inner, st.sampled_from("+-*/"), inner).map(lambda t: f"({t[0]} {t[1]} {t[2]})")
        | inner.map(lambda t: f"({t} * {t})")
        | st.tuples(st.sampled_from(["abs", "sqrt", "exp", "floor", "ceil", "round", "sign", "-", "sin"]), inner).map(
            lambda t: f"{t[0]}({t[1]})"
        )
        | st.tuples(st.sampled_from(["min", "max"]), inner, inner).map(lambda t: f"{t[0]}({t[1]}, {t[2]})")
        | st.tuples(inner, st.sampled_from(["2", "3", "0.5", "-1", "0"])).map(lambda t: f"pow({t[0]}, {t[1]})")
        | st.tuples(st.sampled_from(["a.x > 1", "b.x > 0", "true", "a.x is null"]), inner, inner).map(
            lambda t: f"where({t[0]}, {t[1]}, {t[2]})"
        )
    ),
    max_leaves=6,
)


def table(node: Node) -> np.ndarray:
    """The score of every pair of the grid: a by rows."""
    a, b = np.meshgrid(GRID, GRID, indexing="ij")
    sides = [{"x": Values(side.ravel(), np.ones(side.size, bool))} for side in (a, b)]
    return np.broadcast_to(score_of(node)(*sides), a.size).reshape(a.shape)


def steady(scores: np.ndarray) -> bool:
    there = [s for s in scores.tolist() if not math.isnan(s)]
    steps = [(p, q) for p, q in pairwise(there) if not (p == q or math.isclose(p, q, rel_tol=LAST_BITS))]
    return all(p < q for p, q in steps) or all(p > q for p, q in steps)


def is_loosely_monotone(scores: np.ndarray) -> bool:
    """The definition: with either object fixed, each part of the grid on one side of its value rises or falls."""
    return all(steady(line[i + 1 :]) and steady(line[:i]) for way in (scores, scores.T) for i, line in enumerate(way))


@given(TEXTS)
@settings(max_examples=cases(500), deadline=None)
def test_what_is_proven_holds(text: str) -> None:
    node = parse(text, SCHEMA, ("a", "b"), "score")
    scores = table(node)
    if loosely_monotone(node):
        assert is_loosely_monotone(scores), text
    off = scores[~np.eye(len(GRID), dtype=bool)]
    known = off[~np.isnan(off)]
    assert Sign.NOT_NEGATIVE not in sign(node) or (known >= 0).all(), text
    assert Sign.NOT_POSITIVE not in sign(node) or (known <= 0).all(), text


@pytest.mark.parametrize(
    ("text", "proven", "of_sign"),
    [
        ("abs(a.x - b.x)", True, Sign.NOT_NEGATIVE),
        ("(a.x - b.x) * (a.x - b.x)", True, Sign.NOT_NEGATIVE),
        ("pow(b.x - a.x, 2)", True, Sign.NOT_NEGATIVE),
        ("-sqrt(abs(a.x - b.x))", True, Sign.NOT_POSITIVE),
        ("(a.x + b.x) / 2", True, Sign.UNKNOWN),
        ("a.x * b.x", True, Sign.UNKNOWN),
        ("min(a.x, b.x)", True, Sign.UNKNOWN),
        ("max(a.x, b.x, 0)", True, Sign.NOT_NEGATIVE),
        ("1 / (1 + abs(a.x - b.x))", True, Sign.NOT_NEGATIVE),
        ("exp(-abs(a.x - b.x))", True, Sign.NOT_NEGATIVE),
        ("abs(a.x - b.x) / 3 - 1", True, Sign.UNKNOWN),
        ("where(a.x > 1, b.x, -b.x)", False, Sign.UNKNOWN),
        ("sin(a.x - b.x)", False, Sign.UNKNOWN),
        ("a.x + b.x - a.x * b.x", False, Sign.UNKNOWN),  # it is, but no part of it tells
        ("abs(a.x) * abs(b.x)", False, Sign.NOT_NEGATIVE),
        ("mod(a.x - b.x, 2)", False, Sign.UNKNOWN),
        ("7", True, Sign.NOT_NEGATIVE),
        ("abs(coalesce(a.x, 0) - b.x)", False, Sign.NOT_NEGATIVE),
        ("coalesce(b.x, 0) - coalesce(a.x, 0)", True, Sign.UNKNOWN),
        ("where(a.x is null, 5, a.x) * b.x", True, Sign.UNKNOWN),
        ("haversine(a.x, 0, b.x, 0)", False, Sign.NOT_NEGATIVE),
        ("sqrt(edit_distance(a.s, b.s))", False, Sign.NOT_NEGATIVE),
    ],
)
def test_proofs(text: str, proven: bool, of_sign: Sign) -> None:
    node = parse(text, {**SCHEMA, "s": "text"}, ("a", "b"), "score")
    assert (loosely_monotone(node), sign(node)) == (proven, of_sign)
