"""Groups of streams in which rows delete others: the contract, and every change and point by definition, on tiny domains."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skyband.operators.base import NULL, Window
from skyband.operators.contract import check_operator
from skyband.operators.expressions.aggregates import Aggregate
from skyband.operators.expressions.ast import Attr
from skyband.operators.groups import Groups, GroupsQuery
from tests.operators.test_groups import (
    CARRY,
    COUNT,
    KEYS,
    SCORES,
    TARGET,
    TIES,
    TIME,
    Expected,
    Player,
    Row,
    groups,
    known,
    nearest,
    variance,
)
from tests.seeds import seeds

QUERIES = (
    GroupsQuery(k=2),
    GroupsQuery(k=1, every=4),
    GroupsQuery(above=1.0, below=0.0),
    GroupsQuery(above=1.0, every=7),
    GroupsQuery(k=2, ties=True),
)
OPERATORS = {
    "sum": groups("sum(x)", *QUERIES, deletes=True),
    "ends": groups("max(x) - min(n) + min(x)", GroupsQuery(k=2), GroupsQuery(above=1, below=0), deletes=True, window=COUNT),
    "first and last": groups("last(x) - first(n) + last(n)", GroupsQuery(k=2, every=5), GroupsQuery(k=2), deletes=True, window=TIME),
    "variance": groups("stddev(x) + var_pop(n)", *QUERIES, deletes=True),
    "decimals": groups("sum(n)", *QUERIES, scale=2, deletes=True, having="last(n) >= 0.01"),
    "ends of decimals": groups("max(n) - min(n) + first(n)", *QUERIES, scale=2, deletes=True, having="mean(n) < 1e9"),
    "quantile": groups("quantile(x, 0.5) + distinct(s)", *QUERIES, deletes=True, having="count(x) > 1", where="n >= 0"),
}


@pytest.mark.parametrize("name", OPERATORS)
def test_contract(name: str) -> None:
    assert sum(check_operator(OPERATORS[name], seed, 60, 2) for seed in seeds(0, 12)) > 0


# ---------------------------------------------------------------- by definition

NUMBERS = st.sampled_from([-1.0, 0.0, 1.0, 2.0, 0.1, 1e16, float("nan")])
EVENTS = st.lists(
    st.tuples(
        st.sampled_from([0, 0, 1, 1, 2, 9]), st.integers(0, KEYS - 1), st.sampled_from([0, 1, 2, NULL]), NUMBERS,
        st.sampled_from([0, 1, NULL]), st.integers(0, 2), st.none() | st.none() | st.integers(1, 7),
    ),
    min_size=1, max_size=40,
)  # fmt: skip
"""Gap, key, group, x, n, s; how far back the row is that it deletes, if any."""


WIDE = (0.0, 1.0, -1.0, 0.1, 1e16, 1e300, -1e300, 2.0**-1074, 2.0**511, float("inf"), float("nan"))
UNITS = (0, 1, -1, 10, 10, 90_071_992_547_409_930, 90_071_992_547_409_931, -90_071_992_547_409_930, NULL)
"""Of decimals with two digits after the point; two of them are equal as doubles."""
assert UNITS[5] / 100 == UNITS[6] / 100


def decimal(function: Any) -> Any:
    """The score that is a function of the fractions of n."""

    def score(rows: list[Row]) -> Any:
        found = [Fraction(u, 100) for u in known(rows, 4)]
        return function(found) if found else math.nan

    return score


DECIMALS = {
    "sum(n)": decimal(sum), "min(n)": decimal(min), "max(n)": decimal(max), "first(n)": decimal(lambda values: values[0]),
    "last(n)": decimal(lambda values: values[-1]), "quantile(n, 0.5)": decimal(lambda values: sorted(values)[(len(values) - 1) // 2]),
    "mean(n)": decimal(lambda values: nearest(sum(values) / len(values))), "var_pop(n)": decimal(lambda values: variance(values, 0)),
    "stddev(n)": decimal(lambda values: math.sqrt(variance(values, 1))),
}  # fmt: skip


def stream_of(events: list[tuple[Any, ...]]) -> list[Row]:
    """Rows in order; a deletion has a living row of its key as its target."""
    time, found = 0, list[Row]()
    next_seq, gone = [0] * KEYS, set[tuple[int, int]]()
    for gap, key, *values, back in events:
        time += gap
        target = next_seq[key] - (back or 0)
        if back is None:
            found.append((time, key, *values))
            next_seq[key] += 1
        elif target >= 0 and (key, target) not in gone:
            gone.add((key, target))
            found.append((time, key, 2, 5.0, 1, 1, target))  # the other columns of a deletion do not count
    return found


def expected(operator: Groups, q: int, score: Any, stream: list[Row], key: int, end: int) -> Expected:
    """What a query of a key writes, event by event."""
    found, every = Expected(operator, operator.queries[q], score), operator.queries[q].every
    mine = [r for r in stream if r[1] == key]
    life, size = operator.window.micros or 10**9, operator.window.count or 10**9
    instants = {t for r in mine for t in (r[0], r[0] + life) if t < end} | ({*range(0, end, every)} if every else set())
    rows: list[Row] = []
    alive: dict[int, Row] = {}
    took: dict[int, str] = {}

    def leave(seqs: list[int], why: str) -> None:
        for seq in seqs:
            took[alive.pop(seq)[2]] = why

    for at in sorted(instants):
        leave([seq for seq, r in alive.items() if r[0] + life == at], "expiry")
        found.event(at, [*alive.values()], None, every is None, took)
        for r in (r for r in mine if r[0] == at):
            if len(r) > TARGET:
                leave([r[TARGET]] if r[TARGET] in alive else [], "delete")
            else:
                leave([seq for seq in alive if seq <= len(rows) - size], "expiry")
                alive[len(rows)] = r
                rows.append(r)
            found.event(at, [*alive.values()], None if len(r) > TARGET else r[2], every is None, took)
        if every and at % every == 0:
            found.event(at, [*alive.values()], None, True, took)
        if not every or at % every == 0:
            found.instant(at)
    return found


def check(operator: Groups, score: Any, stream: list[Row], seed: int) -> None:
    end = stream[-1][0] + 25
    player = Player(operator, np.random.default_rng(seed))
    player.play(stream, end, 0.3)
    for q in range(len(operator.queries)):
        for key in range(KEYS):
            want = expected(operator, q, score, stream, key, end)
            assert player.changes.get((q, key), []) == want.changes
            assert player.points.get((q, key), {}) == want.points


@pytest.mark.parametrize("score", SCORES)
@given(events=EVENTS, window=st.sampled_from([Window(count=4), Window(micros=8), Window(count=6, micros=9)]), seed=st.integers(0, 9))
def test_every_event_is_as_defined(score: str, events: list[tuple[Any, ...]], window: Window, seed: int) -> None:
    stream = stream_of(events)
    if stream:
        check(groups(score, *QUERIES, window=window, deletes=True), SCORES[score], stream, seed)


@pytest.mark.parametrize("score", ["sum(x)", "count()", "max(x)", "last(x)"])
@given(events=EVENTS, window=st.sampled_from([Window(count=4), Window(micros=8), Window(count=6, micros=9)]), seed=st.integers(0, 9))
def test_points_follow_what_deletions_change(score: str, events: list[tuple[Any, ...]], window: Window, seed: int) -> None:
    stream, names = stream_of(events), tuple(name for name, _ in CARRY)
    if stream:
        queries = [replace(q, traces=names[i % 3 :: 3]) for i, q in enumerate(QUERIES)]
        check(groups(score, *queries, window=window, deletes=True, carry=CARRY), SCORES[score], stream, seed)


@pytest.mark.parametrize("score", ["var_pop(x)", "variance(x)", "stddev(x)"])
@given(events=EVENTS, values=st.lists(st.sampled_from(WIDE), min_size=1, max_size=9), seed=st.integers(0, 9))
def test_variances_forget_deleted_rows(score: str, events: list[tuple[Any, ...]], values: list[float], seed: int) -> None:
    """Values of all magnitudes, whose sums of squares need all their chunks, or none again; infinities leave, too."""
    events = [(*e[:3], values[i % len(values)], *e[4:]) for i, e in enumerate(events)]
    stream = stream_of(events)
    if stream:
        check(groups(score, *QUERIES, window=Window(count=6, micros=9), deletes=True), SCORES[score], stream, seed)


@pytest.mark.parametrize("direction", ["max", "min"])
@pytest.mark.parametrize("score", DECIMALS)
@given(events=EVENTS, units=st.lists(st.sampled_from(UNITS), min_size=1, max_size=9), deletes=st.booleans(), seed=st.integers(0, 9))
def test_decimals_are_exact(score: str, direction: Any, events: list[tuple[Any, ...]], units: list[int], deletes: bool, seed: int) -> None:
    """With deletions, ties and carried aggregates: some decimals are equal as doubles, and only equal decimals tie."""
    events = [(*e[:4], units[i % len(units)], e[5], e[6] if deletes else None) for i, e in enumerate(events)]
    stream = stream_of(events)
    if stream:
        queries = (*TIES, *QUERIES) if direction == "max" else TIES
        carry = (*CARRY[3:], ("count_n", counted("count")), ("distinct_n", counted("distinct")))
        operator = groups(score, *queries, scale=2, direction=direction, window=Window(count=5, micros=9), deletes=deletes, carry=carry)
        check(operator, DECIMALS[score], stream, seed)


def counted(function: str) -> Aggregate:
    return Aggregate(function, Attr(side="", name="n", type="units"), scale=2)


def test_a_row_in_the_middle_is_forgotten() -> None:
    """The least, greatest, first, last and middle values go one after the other, and those that they had outdone come back."""
    values = [3.0, 1.0, 5.0, 2.0, 4.0]
    rows: list[Row] = [(i, 0, 0, x, 0, 0) for i, x in enumerate(values)]
    gone: list[Row] = [(10 + i, 0, NULL, 0.0, 0, 0, seq) for i, seq in enumerate((2, 1, 4, 0, 3))]
    for score, points in {
        "max(x)": [5.0, 4.0, 4.0, 3.0, 2.0], "min(n)": [0.0] * 5,
        "first(x)": [3.0, 3.0, 3.0, 3.0, 2.0], "last(x)": [4.0, 4.0, 4.0, 2.0, 2.0],
        "sum(x)": [15.0, 10.0, 9.0, 5.0, 2.0], "distinct(x)": [5.0, 4.0, 3.0, 2.0, 1.0], "quantile(x, 0.5)": [3.0, 2.0, 3.0, 2.0, 2.0],
    }.items():  # fmt: skip
        operator = groups(score, GroupsQuery(k=1), window=Window(micros=100), deletes=True)
        logic, player = operator.build(None), Player(operator, np.random.default_rng(0))
        player.logic = logic
        player.take(rows, 10)
        for row, point in zip(gone, points, strict=True):
            assert logic.snapshot(0, 1, operator.window).score.tolist() == [point]
            player.take([row], row[0] + 1)
        assert len(logic.snapshot(0, 1, operator.window)) == 0
        assert player.changes[0, 0][-1][:4] == (14, 2, -1, "delete")
        assert logic.wake() is None
