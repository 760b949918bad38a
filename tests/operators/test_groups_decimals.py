"""Aggregates of decimals: ranked as whole numbers, against brute force with fractions, where doubles would tie or be in another order."""

from __future__ import annotations

import math
import pickle
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from skyband.framework.queries.group_rows.brute_force import _COMPARE, judged
from skyband.framework.verify.brute_force.expressions import Values, holds
from skyband.operators.base import NULL, Arrivals, Kind, Named, Ragged, Window
from skyband.operators.contract import check_operator
from skyband.operators.expressions.aggregates import parse_aggregates
from skyband.operators.groups import Groups, GroupsQuery, decimals
from tests.seeds import seeds

KINDS: dict[str, Kind] = {"g": "int", "p": "float"}
LARGEST = 10**18 - 1
Row = tuple[int, int]
"""group, units"""


def groups(score: str, *queries: GroupsQuery, scale: int = 2, window: int = 8, **given: Any) -> Groups:
    return Groups(
        group=("g",), score=parse_aggregates(score, KINDS, "score", {"p": scale}), queries=queries, window=Window(count=window), **given
    )  # fmt: skip


@pytest.mark.parametrize("score", ["sum(p)", "mean(p)", "quantile(p, 0.5)", "max(p)", "distinct(p) + var_samp(p)"])
def test_contract(score: str) -> None:
    queries = (GroupsQuery(k=2), GroupsQuery(above=0.5, below=-1.0))
    assert sum(check_operator(groups(score, *queries), seed) for seed in seeds(0, 6)) > 0


def rows_of(rng: np.random.Generator, n: int, kind: str) -> list[Row]:
    values = {
        "cents": lambda: int(rng.integers(-30, 30)),
        "near": lambda: int(rng.choice([LARGEST, LARGEST - 1, LARGEST - 2, 1 - LARGEST, 2 - LARGEST])),
        "null": lambda: int(rng.choice([NULL, 0, 5, -5])),
    }
    return [(int(rng.integers(4)), values[kind]()) for _ in range(n)]


def exact(score: str, units: list[int], scale: int) -> Fraction | None:
    known = [Fraction(u, 10**scale) for u in units if u != NULL]
    if not known:
        return None
    return {"sum(p)": lambda: sum(known, Fraction(0)), "max(p)": lambda: max(known), "last(p)": lambda: known[-1],
            "quantile(p, 0.5)": lambda: sorted(known)[(len(known) - 1) // 2]}[score]()  # fmt: skip


def played(operator: Groups, rows: list[Row], until: int = 0) -> dict[int, list[tuple[int, int, int, float]]]:
    """(instant, step, sign, group, score) of the changes of each query."""
    n, logic = len(rows), operator.build(None)
    number = np.array([g for g, _ in rows], np.int64)
    new = np.unique(number)
    named = {"$g": Named(new, Ragged(np.arange(len(new) + 1), new))}
    columns = {"$g": number, "%p": np.array([u for _, u in rows], np.int64)}
    made = logic.advance(Arrivals(np.zeros(n, np.int64), np.arange(n), np.arange(n), columns, {}, named), until or n + 1)
    found: dict[int, list[tuple[int, int, int, float]]] = {q: [] for q in range(len(operator.queries))}
    for q, at, sign, item, score in zip(made.query, made.at, made.sign, made.items[:, 0], made.score, strict=True):
        found[int(q)].append((int(at), int(sign), int(item), float(score)))
    return found


@pytest.mark.parametrize("direction", ["max", "min"])
@pytest.mark.parametrize("kind", ["cents", "near", "null"])
@pytest.mark.parametrize("score", ["sum(p)", "max(p)", "last(p)", "quantile(p, 0.5)"])
def test_order_is_that_of_the_decimals(score: str, kind: str, direction: str) -> None:
    for seed in seeds(0, 8):
        rng, scale, window = np.random.default_rng(seed), int(np.random.default_rng(seed).choice([0, 2, 18])), 5
        rows = rows_of(rng, 60, kind)
        bounds = () if direction == "min" else (GroupsQuery(above=0.1, below=-0.1), GroupsQuery(above=0.1))
        operator = groups(score, GroupsQuery(k=2), *bounds, scale=scale, window=window, direction=direction)
        found = played(operator, rows)
        members: list[set[int]] = [set() for _ in operator.queries]
        for at in range(len(rows)):
            alive = rows[max(0, at - window + 1) : at + 1]
            scores = {g: s for g in {g for g, _ in alive} if (s := exact(score, [u for h, u in alive if h == g], scale)) is not None}
            sign = 1 if direction == "min" else -1
            want = [set(sorted(scores, key=lambda g: (sign * scores[g], g))[:2])]
            for q, asked in enumerate(operator.queries[1:], 1):
                stays = None if asked.below is None else Fraction(repr(asked.below))
                mine = members[q]
                want.append({g for g, s in scores.items() if s > Fraction("0.1") or (g in mine and stays is not None and s >= stays)})
            for q, now in enumerate(want):
                changes = [c for c in found[q] if c[0] == at]
                assert {c[2] for c in changes if c[1] < 0} == members[q] - now
                assert {c[2] for c in changes if c[1] > 0} == now - members[q]
                for _, way, g, value in changes:
                    assert way < 0 or value == scores[g].numerator / scores[g].denominator
                members[q] = now


def test_sums_that_are_equal_as_doubles() -> None:
    """Two totals a cent apart, beyond the digits of a double: the larger one ranks first although the other has the smaller name."""
    rows = [(1, 90_071_992_547_409_930), (2, 90_071_992_547_409_931)]
    assert rows[0][1] / 100 == rows[1][1] / 100
    assert [c[1:3] for c in played(groups("sum(p)", GroupsQuery(k=1)), rows)[0]] == [(1, 1), (-1, 1), (1, 2)]


def test_only_equal_decimals_tie() -> None:
    """Of three totals that are equal as doubles, the two that are equal as decimals are in the result."""
    rows = [(1, 90_071_992_547_409_930), (2, 90_071_992_547_409_931), (3, 90_071_992_547_409_930), (3, 1)]
    assert [c[1:3] for c in played(groups("sum(p)", GroupsQuery(k=1, ties=True)), rows)[0]] == [(1, 1), (-1, 1), (1, 2), (1, 3)]


def test_mean_and_variance_are_rounded_once() -> None:
    rng = np.random.default_rng(1)
    for scale in (0, 2, 9, 18):
        units = [int(u) for u in rng.integers(-LARGEST, LARGEST, 40)]
        known = [Fraction(u, 10**scale) for u in units]
        middle = sum(known, Fraction(0)) / 40
        for score, want in (("mean(p)", middle), ("var_pop(p)", sum(((u - middle) ** 2 for u in known), Fraction(0)) / 40)):
            operator = groups(score, GroupsQuery(k=1, every=100), scale=scale, window=40)
            logic, zero = operator.build(None), np.zeros(40, np.int64)
            named = {"$g": Named(zero[:1], Ragged(np.arange(2), zero[:1]))}
            block = Arrivals(zero, np.arange(40), np.arange(1, 41), {"$g": zero, "%p": np.array(units, np.int64)}, {}, named)
            assert logic.advance(block, 101).score.tolist() == [want.numerator / want.denominator]


def test_sums_beyond_64_bits() -> None:
    """Beyond 2^62 units sums are compared by their doubles, and they are exact again when rows have left."""
    rows = [(1, LARGEST)] * 20 + [(2, LARGEST)] * 19 + [(1, 3)] * 30
    found = played(groups("sum(p)", GroupsQuery(k=1), window=30), rows)[0]
    assert (0, 1, 1, LARGEST / 100) in found
    total, members = 0, []
    for at in range(len(rows)):
        alive = rows[max(0, at - 29) : at + 1]
        sums = {g: sum(u for h, u in alive if h == g) for g in {g for g, _ in alive}}
        members.append(max(sums, key=lambda g: (sums[g], -g)))
        total = max(total, *sums.values())
    assert total > 2**63
    ours = [c[2] for c in found if c[1] > 0]
    assert ours == [m for i, m in enumerate(members) if i == 0 or m != members[i - 1]]


@pytest.mark.parametrize("op", ["=", "<>", "<", "<=", ">", ">="])
def test_having_compares_exactly(op: str) -> None:
    """With numbers as they are written, whole or between two cents, on either side; both by kernels and by the oracle."""
    units = [-151, -150, 0, 10, 900_719_925_474_099_300, 900_719_925_474_099_301, NULL]
    compare = _COMPARE[op]
    turned = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}.get(op, op)
    for number in ("0.1", "-1.5", "-1.505", "9007199254740993", "0", "1e300", "9007199254740993.01", "9007199254740993.005"):
        want = {g for g, u in enumerate(units) if u != NULL and compare(Fraction(u, 100), Fraction(number))}
        for having in (f"sum(p) {op} {number}", f"{number} {turned} sum(p)", f"not (not (max(p) {op} {number}))"):
            node = parse_aggregates(having, KINDS, "predicate", {"p": 2})
            operator = groups("count()", GroupsQuery(k=100), window=100, having=node)
            assert {c[2] for c in played(operator, list(enumerate(units)))[0]} == want
            name = node.aggregates[0].spelling
            column = [math.nan if u == NULL else Fraction(u, 100) for u in units]
            objects: dict[str, Values] = {}
            found = holds(judged(node.node, {name: column}, {name: 2}, objects))(objects, objects)
            assert set(np.flatnonzero(found).tolist()) == want
    both = parse_aggregates(f"sum(p) {op} max(p)", KINDS, "predicate", {"p": 2})
    rows = [(1, 10), (2, 10), (2, -1), (3, 10), (3, 5)]
    want = {g for g, x, y in ((1, 10, 10), (2, 9, 10), (3, 15, 10)) if compare(x, y)}
    assert {c[2] for c in played(groups("count()", GroupsQuery(k=9, every=50), window=9, having=both), rows, 51)[0]} == want


def test_codes() -> None:
    """Codes keep the order of whole numbers, and give back doubles rounded once."""
    values = sorted({s * (u + d) for s in (1, -1) for u in (0, 2**53, 2**62 - 2, 10**18) for d in (0, 1)})
    ranked = decimals.ranked(np.array(values, np.int64))
    assert np.all(np.diff(ranked) > 0)
    assert decimals.codes(ranked).tolist() == values
    assert decimals.doubles(np.array([*values, NULL]), 2).tolist()[:-1] == [v / 100 for v in values]
    assert decimals.bound(0.1, 2, False) == decimals.bound(0.1, 2, True) == decimals.ranked(np.array([10]))[0]
    assert decimals.bound(-0.015, 2, False) == decimals.ranked(np.array([-2]))[0]
    assert decimals.bound(1e30, 2, True) > decimals.bound(1e29, 2, True) > ranked[-1]


def test_numbers_with_more_digits_than_a_double_are_told_apart() -> None:
    """Two conditions that differ in such digits share no state, and are the same after pickling."""
    one, other = (parse_aggregates(f"sum(p) >= -9007199254740993.0{n}", KINDS, "predicate", {"p": 2}) for n in (1, 2))
    assert (one.spelling, other.spelling) == ("sum(p) >= -9007199254740993.01", "sum(p) >= -9007199254740993.02")
    assert pickle.loads(pickle.dumps(one)).spelling == one.spelling
    assert parse_aggregates(one.spelling, KINDS, "predicate", {"p": 2}).spelling == one.spelling
    plain = parse_aggregates("sum(p) >= 0.10", KINDS, "predicate", {"p": 2})
    assert plain.spelling == "sum(p) >= 0.1"
