"""Comparisons of aggregates of whole numbers, in conditions and scores: exact at every event, against Python's int and fractions."""

from __future__ import annotations

import math
import operator
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skyband.framework.queries.group_rows.brute_force import judged
from skyband.framework.verify.brute_force.expressions import Values, holds
from skyband.operators.base import NULL, Arrivals, Kind, Named, Ragged, Window
from skyband.operators.contract import check_operator
from skyband.operators.expressions.aggregates import parse_aggregates
from skyband.operators.groups import Groups, GroupsQuery
from tests.seeds import cases, seeds

KINDS: dict[str, Kind] = {"g": "int", "n": "int", "m": "int", "x": "float"}
COMPARE = {"=": operator.eq, "<>": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}
WINDOW = 4
EDGES = (2**53, 2**62, 2**63 - 1, 2**32, 0)
Row = tuple[int, int, int]
"""group, n, m; ``NULL`` for null."""


def written(number: int) -> str:
    """A constant: beyond 64 bits, the language has floats only."""
    return str(number) if abs(number) < 2**63 else repr(float(number))


values = st.one_of(
    st.just(NULL),
    st.builds(
        lambda e, d, s: max(-(2**63) + 1, min(s * (e + d), 2**63 - 1)), st.sampled_from(EDGES), st.integers(-2, 2), st.sampled_from([1, -1])
    ),
)
rows = st.lists(st.tuples(st.integers(0, 1), values, values), min_size=1, max_size=8)
constants = st.one_of(
    st.builds(
        lambda e, k, d, s: written(s * (e * k + d)), st.sampled_from(EDGES), st.integers(1, 3), st.integers(-2, 2), st.sampled_from([1, -1])
    ),
    st.sampled_from(["9007199254740992.5", "-9007199254740993.5", "1e300", "0.5", "9223372036854775807"]),
)


def aggregate(text: str, mine: list[Row]) -> Any:
    """An aggregate of the rows of a group, None for null."""
    function, _, column = text.rstrip(")").partition("(")
    if not column:
        return len(mine)
    known = [r[1 if column[0] == "n" else 2] for r in mine]
    known = [v for v in known if v != NULL]
    if function in ("count", "distinct"):
        return len(known if function == "count" else set(known))
    if not known:
        return None
    of = {
        "sum": sum,
        "min": min,
        "max": max,
        "first": lambda v: v[0],
        "last": lambda v: v[-1],
        "quantile": lambda v: sorted(v)[(len(v) - 1) // 2],
    }
    return of[function](known)


AGGREGATES = ("sum(n)", "sum(m)", "min(n)", "max(n)", "first(n)", "last(n)", "quantile(n, 0.5)", "count()", "count(n)", "distinct(m)")


def groups(having: str, **asked: Any) -> Groups:
    node = parse_aggregates(having, KINDS, "predicate")
    given: dict[str, Any] = {"score": parse_aggregates("count()", KINDS, "score"), "having": node, **asked}
    return Groups(**{"group": ("g",), "queries": (GroupsQuery(k=9),), "window": Window(count=WINDOW), **given})


def members(made: Groups, stream: list[Row]) -> list[set[int]]:
    """The groups in the result after each row."""
    n, logic = len(stream), made.build(None)
    columns = {name: np.array(c, np.int64) for name, c in zip(("$g", "n", "m"), zip(*stream, strict=True), strict=True)}
    new = np.unique(columns["$g"])
    named = {"$g": Named(new, Ragged(np.arange(len(new) + 1), new))}
    changes = logic.advance(Arrivals(np.zeros(n, np.int64), np.arange(n), np.arange(n), columns, {}, named), n + 1)
    found, now = [], set[int]()
    for at in range(n):
        for when, sign, item in zip(changes.at, changes.sign, changes.items[:, 0], strict=True):
            if when == at:
                now = now | {int(item)} if sign > 0 else now - {int(item)}
        found.append(now)
    return found


def expected(judge: Any, stream: list[Row]) -> list[set[int]]:
    """The groups in the result after each row, by definition."""
    found = []
    for at in range(len(stream)):
        window = stream[max(0, at - WINDOW + 1) : at + 1]
        found.append({g for g in {r[0] for r in window} if judge([r for r in window if r[0] == g])})
    return found


def compared(op: str, x: Any, y: Any) -> bool:
    return x is not None and y is not None and COMPARE[op](x, y)


@settings(max_examples=cases(150), deadline=None)
@given(rows, st.sampled_from(AGGREGATES), st.sampled_from(list(COMPARE)), constants)
def test_aggregate_and_number(stream: list[Row], text: str, op: str, number: str) -> None:
    want = expected(lambda mine: compared(op, aggregate(text, mine), Fraction(number)), stream)
    turned = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}.get(op, op)
    for having in (f"{text} {op} {number}", f"{number} {turned} {text}"):
        assert members(groups(having), stream) == want, having


@settings(max_examples=cases(100), deadline=None)
@given(rows, st.sampled_from(AGGREGATES), st.sampled_from(list(COMPARE)), st.sampled_from(AGGREGATES))
def test_two_aggregates(stream: list[Row], x: str, op: str, y: str) -> None:
    want = expected(lambda mine: compared(op, aggregate(x, mine), aggregate(y, mine)), stream)
    assert members(groups(f"{x} {op} {y}"), stream) == want


@settings(max_examples=cases(50), deadline=None)
@given(rows, st.sampled_from(AGGREGATES), st.lists(constants, min_size=1, max_size=3))
def test_one_of(stream: list[Row], text: str, numbers: list[str]) -> None:
    def judge(mine: list[Row]) -> bool:
        value = aggregate(text, mine)
        return value is not None and value in [Fraction(n) for n in numbers]

    assert members(groups(f"{text} in ({', '.join(numbers)})"), stream) == expected(judge, stream)
    within = expected(lambda mine: aggregate(text, mine) is not None and not judge(mine), stream)
    assert members(groups(f"{text} not in ({', '.join(numbers)})"), stream) == within


def test_beyond_2_53() -> None:
    """Sums that one double stands for: only the larger one passes."""
    stream = [(0, 2**53, 0), (1, 2**53, 0), (1, 1, 0)]
    assert float(2**53) == float(2**53 + 1)
    assert members(groups("sum(n) > 9007199254740992"), stream)[-1] == {1}
    assert members(groups("sum(n) = 9007199254740993"), stream)[-1] == {1}
    assert members(groups("true", score=parse_aggregates("where(sum(n) > 9007199254740992, 1, null)", KINDS, "score")), stream)[-1] == {1}


def test_sums_beyond_int64() -> None:
    """A double rounds the sums of both groups to the constant."""
    stream = [(g, 2**63 - 1, 1) for g in (0, 0, 1, 1)] + [(0, 386, 1), (1, 385, 1)]
    made = groups("sum(n) >= 18446744073709552000.0", window=Window(count=6))
    assert members(made, stream)[-1] == {0}


@pytest.mark.parametrize("having", ["sum(n) > max(n)", "sum(n) >= 2 and last(n) <> 1", "count(n) < distinct(n) + 1"])
def test_contract(having: str) -> None:
    assert sum(check_operator(groups(having), seed) for seed in seeds(0, 6)) > 0


@pytest.mark.parametrize("op", COMPARE)
def test_oracle(op: str) -> None:
    """The definition that ``verify`` uses compares exactly, too, and whole numbers with decimals as doubles."""
    column: list[Any] = [Fraction(2**53), Fraction(2**53 + 1), math.nan]
    for number in (2**53, 2**53 + 1):
        node = parse_aggregates(f"sum(n) {op} {number}", KINDS, "predicate").node
        objects: dict[str, Values] = {}
        found = holds(judged(node, {"sum(n)": column}, {"sum(n)": None}, objects))(objects, objects)
        assert found.tolist() == [COMPARE[op](2**53, number), COMPARE[op](2**53 + 1, number), False]


def test_what_is_not_compared_costs_nothing() -> None:
    for having in ("count() > 2", "count() > distinct(n)", "count(n) in (1, 2)", "sum(n) + 1 > 2", "sum(x) > 2"):
        assert groups(having).compared == (), having
    assert {a.spelling for a in groups("sum(n) > count()").compared} == {"sum(n)", "count()"}
