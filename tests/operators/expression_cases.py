"""Random typed trees and nasty columns for the tests of the expression language."""

import itertools
import math
import random

import numpy as np
from hypothesis import strategies as st

from skyband.framework.verify.brute_force.expressions import Values, text_number
from skyband.operators.base import NULL
from skyband.operators.expressions.ast import Node, Span
from skyband.operators.expressions.leaves import TEXT_FUNCTIONS
from skyband.operators.expressions.typed import FUNCTIONS, Builder

SCHEMA = {"x": "float", "y": "float", "n": "int", "m": "int", "s": "text", "t": "text", "ok": "bool", "ts": "time", "due": "time"}
TEXTS = {"u": 0, "v": 1, "it's": 2}
WORDS = ["u", "v", "it's", "w", "x"]  # the word of each code
FLOATS = [
    math.nan,
    0.0,
    -0.0,
    math.inf,
    -math.inf,
    1.0,
    -1.5,
    0.1,
    2.0,
    3.0,
    -7.25,
    5e-324,
    1.7e308,
    -1e-300,
    2.0**53,
    1e6 + 0.5,
    710.0,
    -89.5,
]
INTS = [NULL, NULL + 1, 0, 1, -1, 2, 3, 7, 2**53, 2**53 + 1, 2**63 - 1, -(2**53) - 1]
TIMES = [NULL, 0, 1, -1, 1_700_000_000_000_000, 1_700_000_300_000_000, 1_700_000_299_999_999, 10**17, -(10**17), 2**62, -(2**62), 2**63 - 1]
POOLS = {"float": FLOATS, "int": INTS, "text": [NULL, 0, 1, 2, 3, 4], "bool": [NULL, 0, 1], "time": TIMES}
NUMBERS = ("float", "int", "duration")
ONE_NUMBER = [f for f, arguments in FUNCTIONS.items() if arguments == (1, 1) and f not in TEXT_FUNCTIONS]
_SPAN = Span(0, 0)


def columns(seed: int, n: int) -> dict[str, np.ndarray]:
    """Columns of ``SCHEMA`` drawn from the pools."""
    rng = random.Random(seed)
    return {c: np.array([rng.choice(POOLS[k]) for _ in range(n)], np.float64 if k == "float" else np.int64) for c, k in SCHEMA.items()}


def values(table: dict[str, np.ndarray], row: int | None = None) -> dict[str, Values]:
    """The objects, or one of them, as the interpreter wants them; what is not there is 7."""
    out = {}
    for name, kind in SCHEMA.items():
        column = table[name] if row is None else table[name][row : row + 1]
        there = ~np.isnan(column) if kind == "float" else column != NULL
        if kind == "text":
            column = np.array([text_number(WORDS[code]) if ok else 7 for code, ok in zip(column.tolist(), there, strict=True)], np.int64)
        column = np.where(there, column, 7)
        out[name] = Values(column == 1 if kind == "bool" else column, there)
    return out


def trees(want: str, sides: tuple[str, ...] = ("a", "b"), depth: int = 4) -> st.SearchStrategy[Node]:
    """Typed trees of one type ("float" takes any number)."""
    return st.composite(lambda draw: _tree(draw, Builder(SCHEMA, sides, _refuse), want, sides, depth))()


def _refuse(error: object) -> None:
    raise AssertionError(error)


def _tree(draw, b: Builder, want: str, sides: tuple[str, ...], depth: int) -> Node:
    def sub(kind: str) -> Node:
        return _tree(draw, b, kind, sides, depth - 1)

    def pick(*options):
        return draw(st.sampled_from(options))

    def attr(kind: str) -> Node:
        name = pick(*(c for c, k in SCHEMA.items() if k == kind))
        return b.attribute(pick(*sides) if sides != ("",) else None, name, _SPAN)

    def null() -> Node:
        return b.literal(None, "null", _SPAN)

    def numeric() -> Node:
        kind = pick("float", "float", "float", "int", "duration", "null") if depth > 0 else pick("float", "int")
        return null() if kind == "null" else leaf("int") if kind == "int" else sub(kind)

    def leaf(kind: str) -> Node:
        if kind != "duration" and draw(st.booleans()):
            return attr(kind)
        if kind == "float":
            return b.literal(draw(st.sampled_from([0.0, -0.0, 1.0, 0.5, 2.0, 3.0, -1.0, 1e300]) | st.floats(-1e6, 1e6)), "float", _SPAN)
        if kind == "int":
            return b.literal(draw(st.sampled_from([0, 1, -1, 2, 2**53 + 1, 2**63 - 1])), "int", _SPAN)
        if kind == "text":
            return b.literal(pick(*TEXTS), "text", _SPAN)
        if kind == "bool":
            return b.literal(draw(st.booleans()), "bool", _SPAN)
        if kind == "duration":
            return b.literal(draw(st.sampled_from([0, 1, -1, 300_000_000, 10**17, 10**12 + 1])), "duration", _SPAN)
        if kind == "time":
            return b.literal(draw(st.sampled_from([0, 1, -1, 300_000_000, 1_577_836_800_000_000])), "time", _SPAN)
        return attr(kind)

    if depth <= 0:
        return leaf(want)
    if want == "float":
        match pick("leaf", "-", "op", "op", "op", "fn1", "fn1", "fn2", "haversine", "where", "case", "coalesce", "int", "duration"):
            case "-":
                return b.unary("-", sub("float"), _SPAN)
            case "op":
                return b.binary(pick("+", "-", "*", "/"), sub("float"), numeric(), _SPAN)
            case "fn1":
                return b.call(pick(*ONE_NUMBER), [numeric()], _SPAN, _SPAN)
            case "fn2":
                return b.call(pick("min", "max", "pow", "mod", "atan2"), [sub("float"), numeric()], _SPAN, _SPAN)
            case "haversine":
                return b.call("haversine", [leaf("float"), leaf("float"), numeric(), leaf("float")], _SPAN, _SPAN)
            case "case":
                return b.case([(sub("bool"), numeric()), (sub("bool"), sub("float"))], pick(null(), numeric()), _SPAN)
            case "coalesce":
                return b.call("coalesce", [sub("float"), *pick([numeric()], [null(), numeric()])], _SPAN, _SPAN)
            case "where":
                return b.call("where", [sub("bool"), *pick([sub("float"), numeric()], [numeric(), sub("float")])], _SPAN, _SPAN)
            case "int":
                return leaf("int")
            case "duration":
                return sub("duration")
    if want == "duration":
        match pick("leaf", "time", "time", "-", "+", "fn", "where"):
            case "time":
                return b.binary("-", sub("time"), sub("time"), _SPAN)
            case "-":
                return b.unary("-", sub("duration"), _SPAN)
            case "+":
                return b.binary(pick("+", "-"), sub("duration"), sub("duration"), _SPAN)
            case "fn":
                return b.call("abs", [sub("duration")], _SPAN, _SPAN)
            case "where":
                return b.call("where", [sub("bool"), sub("duration"), pick(sub("duration"), null())], _SPAN, _SPAN)
    if want == "time":
        match pick("leaf", "leaf", "+", "min", "where"):
            case "+":
                return b.binary(pick("+", "-"), sub("time"), sub("duration"), _SPAN)
            case "min":
                return b.call(pick("min", "max"), [sub("time"), sub("time")], _SPAN, _SPAN)
            case "where":
                return b.call("where", [sub("bool"), sub("time"), pick(sub("time"), null())], _SPAN, _SPAN)
    if want == "text" and draw(st.booleans()):
        if draw(st.booleans()):
            return b.call("coalesce", [sub("text"), sub("text")], _SPAN, _SPAN)
        return b.call("where", [sub("bool"), sub("text"), pick(sub("text"), null())], _SPAN, _SPAN)
    if want == "bool":
        kind = pick("float", "int", "text", "bool", "time", "duration")
        match pick("leaf", "not", "and", "and", "compare", "compare", "compare", "between", "null", "in", "where"):
            case "not":
                return b.unary("not", sub("bool"), _SPAN)
            case "and":
                return b.binary(pick("and", "or"), sub("bool"), sub("bool"), _SPAN)
            case "compare":
                op = pick("=", "<>") if kind in ("text", "bool") else pick("=", "<>", "<", "<=", ">", ">=")
                return b.binary(op, sub(kind), sub(pick(*NUMBERS) if kind in NUMBERS else kind), _SPAN)
            case "between":
                other = kind if kind not in ("text", "bool") else "time"
                return b.between(sub(other), sub(other), sub(other), draw(st.booleans()), _SPAN)
            case "null":
                return b.is_null(sub(kind), draw(st.booleans()), _SPAN)
            case "in":
                other = kind
                x, options = sub(other), [_literal(draw, b, other) for _ in range(draw(st.integers(1, 3)))]
                return b.isin(x, options, draw(st.booleans()), _SPAN)
            case "where":
                return b.call("where", [sub("bool"), sub("bool"), pick(sub("bool"), null())], _SPAN, _SPAN)
    return leaf(want)


def _literal(draw, b: Builder, kind: str) -> Node:
    pools = {
        "float": [0.0, 1.0, -1.5, 0.1],
        "int": [0, 1, 2**53 + 1],
        "text": [*TEXTS],
        "bool": [True, False],
        "duration": [0, 300_000_000],
        "time": [0, 300_000_000],
    }
    value = draw(st.sampled_from(pools[kind]))
    return b.literal(value, kind, _SPAN)


def pairs(n: int, m: int):
    """All (row, x) of two tables."""
    return itertools.product(range(n), range(m))
