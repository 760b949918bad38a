"""Sessions of groups: the contract, and every change and point against brute force, written from the definition."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skyband.operators.base import NULL, Window
from skyband.operators.contract import check_operator
from skyband.operators.groups import Groups, GroupsQuery
from skyband.operators.groups.sessions import in_session
from tests.operators.test_groups import CARRY, KEYS, MAGNITUDES, SCORES, Expected, Player, Row, groups, random_stream
from tests.seeds import seeds

QUERIES = (GroupsQuery(k=2), GroupsQuery(k=1, every=7), GroupsQuery(above=1.0), GroupsQuery(above=2.0, below=0.0), GroupsQuery(k=9))
WINDOWS = (
    Window(micros=60, session=5),
    Window(count=7, micros=40, session=9),
    Window(micros=20, session=20),
    Window(micros=10**6, session=2),
)


@pytest.mark.parametrize("score", ["sum(x)", "count()", "max(x) - min(n)", "distinct(s)", "last(x) - first(x)", "quantile(x, 0.5)"])
def test_contract(score: str) -> None:
    operators = [groups(score, *QUERIES[:4], window=w) for w in WINDOWS]
    assert sum(check_operator(operators[seed % 4], seed, 60, 2) for seed in seeds(0, 8)) > 0


# ---------------------------------------------------------------- by definition


def counting(rows: list[Row], window: Window, at: int) -> list[Row]:
    """Return the rows that count at an instant, of those that came: of each group the last ones without a silence between or after them."""
    assert window.micros is not None and window.session is not None
    held = rows if window.count is None else rows[-window.count :]
    found = []
    for g in {r[2] for r in rows}:
        until = at
        for r in reversed([r for r in held if r[2] == g and r[0] + window.micros > at]):
            if until - r[0] >= window.session:
                break
            found.append(r)
            until = r[0]
    return [r for r in rows if any(r is f for f in found)]


def by_definition(operator: Groups, q: int, score: Any, stream: list[Row], key: int, end: int) -> Expected:
    found, query, window = Expected(operator, operator.queries[q], score), operator.queries[q], operator.window
    assert window.micros is not None and window.session is not None
    mine, every = [r for r in stream if r[1] == key], query.every
    ends = {r[0] + life for r in mine for life in (window.micros, window.session)}
    instants = sorted(t for t in ends | {r[0] for r in mine} | ({*range(0, end, every)} if every else set()) if t < end)
    arrived: list[Row] = []
    for at in instants:
        found.event(at, counting(arrived, window, at), None, every is None)
        for r in (r for r in mine if r[0] == at):
            arrived.append(r)
            found.event(at, counting(arrived, window, at), r[2], every is None)
        if every and at % every == 0:
            found.event(at, counting(arrived, window, at), None, True)
        if not every or at % every == 0:
            found.instant(at)
    return found


def check(operator: Groups, score: str, stream: list[Row], seed: int, spare: int = 70) -> int:
    """Compare a stream, cut and restored at random, with the definition; return the number of changes."""
    end, total = stream[-1][0] + spare, 0
    player = Player(operator, np.random.default_rng(seed))
    player.play(stream, end, 0.3)
    assert all(made.finals is None for made in player.made)
    for q in range(len(operator.queries)):
        for key in range(KEYS):
            want = by_definition(operator, q, SCORES[score], stream, key, end)
            assert player.changes.get((q, key), []) == want.changes
            assert player.points.get((q, key), {}) == want.points
            total += len(want.changes)
    return total


@pytest.mark.parametrize("score", ["sum(x)", "mean(n)", "count()", "distinct(x)", "max(x)", "quantile(x, 0.5)", "last(x)", "first(x)"])
def test_every_event_is_as_defined(score: str) -> None:
    total = 0
    for seed in seeds(0, 4):
        magnitudes = MAGNITUDES[seed % 5] if "x" in score else "small"
        stream = random_stream(np.random.default_rng(seed), 100, magnitudes)
        total += check(groups(score, *QUERIES, window=WINDOWS[seed % 4]), score, stream, seed)
    assert total


TRACED = (GroupsQuery(k=2, traces=("distinct_s", "sum_x")), GroupsQuery(above=1.0, below=0.0, traces=("last_s", "count")))


def test_points_follow_what_sessions_carry() -> None:
    for seed in seeds(0, 6):
        stream = random_stream(np.random.default_rng(seed), 100, "small")
        assert check(groups("max(x)", *TRACED, window=WINDOWS[seed % 4], carry=CARRY, deletes=bool(seed % 2)), "max(x)", stream, seed)


GAPS = st.lists(st.sampled_from([0, 0, 1, 2, 4, 5, 6, 9, 20, 70]), min_size=1, max_size=25)


@given(GAPS, st.data(), st.sampled_from(WINDOWS), st.sampled_from(["sum(x)", "count()", "max(x)"]), st.integers(0, 1000))
@settings(deadline=None)
def test_tiny_streams(gaps: list[int], data: st.DataObject, window: Window, score: str, seed: int) -> None:
    """Silences that are just as long as a session or a little shorter; groups that fall silent and come back; many rows at one instant."""
    stream, time = list[Row](), 0
    for gap in gaps:
        time += gap
        group = data.draw(st.sampled_from([0, 1, 2, NULL]))
        stream.append((time, 0, group, float(data.draw(st.integers(-2, 2))), 0, 0))
    check(groups(score, *QUERIES, window=window), score, stream, seed, data.draw(st.sampled_from([1, 2, 90])))


def test_all_rows_go_at_once() -> None:
    operator = groups("count()", GroupsQuery(k=2), window=Window(micros=100, session=5))
    stream: list[Row] = [(0, 0, 1, 0.0, 0, 0), (4, 0, 1, 0.0, 0, 0), (4, 0, 2, 0.0, 0, 0), (8, 0, 1, 0.0, 0, 0), (13, 0, 1, 0.0, 0, 0)]
    player = Player(operator, np.random.default_rng(0))
    player.play(stream, 20, 1.0)
    assert [(at, sign, cause, group, float.fromhex(score)) for at, _, sign, cause, group, score in player.changes[0, 0]] == [
        (0, 1, "arrival", 1, 1.0),
        (4, 1, "arrival", 2, 1.0),
        (9, -1, "expiry", 2, 1.0),
        (13, -1, "expiry", 1, 3.0),
        (13, 1, "arrival", 1, 1.0),
        (18, -1, "expiry", 1, 1.0),
    ]


def test_sessions_of_a_restored_state() -> None:
    group, time = np.array([7, 3, 7, 7, 3, 9]), np.array([0, 1, 4, 10, 11, 12])
    assert in_session(group, time, 6, 13).tolist() == [False, False, False, True, True, True]
    assert in_session(group, time, 6, 17).tolist() == [False, False, False, False, True, True]
    assert in_session(group, time, 6, 16).tolist() == [False, False, False, True, True, True]
    assert in_session(group[:0], time[:0], 6, 16).tolist() == []


@pytest.mark.parametrize("window", [Window(micros=10, session=0), Window(count=10, session=5)])
def test_sessions_need_a_silence_and_a_duration(window: Window) -> None:
    with pytest.raises(ValueError, match="a session needs"):
        groups("count()", GroupsQuery(k=1), window=window)
