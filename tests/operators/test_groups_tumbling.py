"""Groups in tumbling windows: the contract, and every change, point and final result against brute force, written from the definition."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skyband.operators.base import NULL, Calendar, Window
from skyband.operators.contract import check_operator
from skyband.operators.groups import Groups, GroupsQuery
from tests.operators.test_calendar import MINUTE, boundaries, micros
from tests.operators.test_groups import CARRY, KEYS, MAGNITUDES, SCORES, TARGET, Expected, Player, Row, groups, random_stream, text_of
from tests.operators.test_groups_deletes import EVENTS, stream_of
from tests.seeds import seeds

Final = tuple[Any, ...]
"""Start and end of a window, rank, group, score and carried values of a member."""

QUERIES = (
    GroupsQuery(k=2),
    GroupsQuery(k=1, every=7),
    GroupsQuery(above=1.0),
    GroupsQuery(above=2.0, below=0.0),
    GroupsQuery(k=9),
    GroupsQuery(k=1, ties=True),
    GroupsQuery(k=2, ties=True, every=5),
)
TRACED = (*QUERIES, GroupsQuery(k=2, traces=("distinct_s", "min_x")), GroupsQuery(above=1.0, below=0.0, traces=("last_s", "count")),
          GroupsQuery(k=2, every=7, traces=("last_s", "count")))  # fmt: skip
TEN = Calendar(10, offset=3)
WINDOWS = (Window(micros=20, tumbling=TEN), Window(count=5, micros=20, tumbling=TEN), Window(count=7, micros=60, tumbling=Calendar(25)))


@pytest.mark.parametrize("score", ["sum(x)", "count()", "max(x) - min(n)", "distinct(s)", "last(x) - first(x)", "quantile(x, 0.5)"])
@pytest.mark.parametrize("deletes", [False, True])
def test_contract(score: str, deletes: bool) -> None:
    operators = [groups(score, *QUERIES[:4], QUERIES[5], window=w, deletes=deletes, carry=CARRY[1:]) for w in WINDOWS]
    assert sum(check_operator(operators[seed % 3], seed, 60, 2) for seed in seeds(0, 6)) > 0


# ---------------------------------------------------------------- by definition


def by_definition(
    operator: Groups, q: int, score: Any, stream: list[Row], key: int, end: int, window_of: Callable[[int], tuple[int, int]]
) -> tuple[Expected, list[Final]]:  # fmt: skip
    """Return what a query writes; ``window_of``: the start and end of the calendar window of an instant. Some rows may delete others."""
    found, query, finals = Expected(operator, operator.queries[q], score), operator.queries[q], list[Final]()
    mine, every = [r for r in stream if r[1] == key], query.every
    ends = {window_of(r[0])[1] for r in mine}
    instants = sorted(t for t in ends | {r[0] for r in mine} | ({*range(0, end, every)} if every else set()) if t < end)
    arrived, size = 0, operator.window.count or 10**9
    alive: dict[int, Row] = {}
    took: dict[int, str] = {}

    def leave(seqs: list[int], why: str) -> None:
        for seq in seqs:
            took[alive.pop(seq)[2]] = why

    for at in instants:
        if at in ends:
            last = found.result([*alive.values()])
            sign = 1 if operator.direction == "min" else -1
            for rank, g in enumerate(sorted(last, key=lambda g: (sign * last[g], g)), 1):
                carried = found.carried([r for r in alive.values() if r[2] == g])
                finals.append((*window_of(at - 1), rank, g, text_of(last[g]), *carried))
        leave([seq for seq, r in alive.items() if window_of(r[0]) != window_of(at)], "expiry")
        found.event(at, [*alive.values()], None, every is None, took)
        for r in (r for r in mine if r[0] == at):
            deletion = len(r) > TARGET
            if deletion:
                leave([r[TARGET]] if r[TARGET] in alive else [], "delete")
            else:
                leave([seq for seq in alive if seq <= arrived - size], "expiry")
                alive[arrived] = r
                arrived += 1
            found.event(at, [*alive.values()], None if deletion else r[2], every is None, took)
        if every and at % every == 0:
            found.event(at, [*alive.values()], None, True, took)
        if not every or at % every == 0:
            found.instant(at)
    return found, finals


def finals_of(player: Player) -> dict[tuple[int, int], list[Final]]:
    found: dict[tuple[int, int], list[Final]] = {}
    for made in player.made:
        f = made.finals
        assert f is not None or not len(made)
        for i in range(0 if f is None else len(f)):
            assert f is not None
            row = (
                int(f.start[i]),
                int(f.end[i]),
                int(f.rank[i]),
                player.numbers.value_of[f.items[i, 0]],
                *(float(v[i]).hex() if v.dtype == np.float64 else int(v[i]) for v in f.values.values()),
            )
            found.setdefault((int(f.query[i]), int(f.key[i])), []).append(row)
    return found


def check(operator: Groups, score: str, stream: list[Row], seed: int, window_of: Callable[[int], tuple[int, int]], spare: int) -> int:
    """Compare a stream, cut and restored at random, with the definition; return the number of final rows."""
    end, total = stream[-1][0] + spare, 0
    player = Player(operator, np.random.default_rng(seed))
    player.play(stream, end, 0.3)
    finals = finals_of(player)
    for q in range(len(operator.queries)):
        for key in range(KEYS):
            want, last = by_definition(operator, q, SCORES[score], stream, key, end, window_of)
            assert player.changes.get((q, key), []) == want.changes
            assert player.points.get((q, key), {}) == want.points
            assert finals.get((q, key), []) == last
            total += len(last)
    return total


def plain(calendar: Calendar) -> Callable[[int], tuple[int, int]]:
    """Windows in UTC, for instants near 1970, which began on a Thursday."""
    shift = (946_857_600_000_000 + calendar.offset) % calendar.micros

    def window_of(at: int) -> tuple[int, int]:
        start = (at - shift) // calendar.micros * calendar.micros + shift
        return start, start + calendar.micros

    return window_of


@pytest.mark.parametrize("score", ["sum(x)", "mean(n)", "count()", "distinct(x)", "max(x)", "quantile(x, 0.5)", "last(x)"])
def test_every_event_is_as_defined(score: str) -> None:
    total = 0
    for seed in seeds(0, 3):
        magnitudes = MAGNITUDES[seed % 5] if "x" in score else "small"
        window = WINDOWS[seed % 3]
        assert window.tumbling is not None
        stream = random_stream(np.random.default_rng(seed), 120, magnitudes)
        total += check(groups(score, *QUERIES, window=window), score, stream, seed, plain(window.tumbling), 45)
    assert total


@pytest.mark.parametrize(
    ("zone", "day"), [("Europe/Berlin", "2024-10-27"), ("Europe/Berlin", "2024-03-31"), ("Australia/Lord_Howe", "2024-04-06")]
)
@pytest.mark.parametrize(("length", "offset"), [(60, 0), (180, 0), (360, 120), (1440, 360), (20, 0)])
def test_where_clocks_change(zone: str, day: str, length: int, offset: int) -> None:
    known = [micros(t) for t in boundaries(zone, day, length, offset)]

    def window_of(at: int) -> tuple[int, int]:
        place = bisect_right(known, at)
        return known[place - 1], known[place]

    first = micros(datetime.fromisoformat(day).replace(tzinfo=UTC)) - 600 * MINUTE
    for seed in seeds(0, 2):
        rows = random_stream(np.random.default_rng(seed), 100, "small")
        stream = [(first + 15 * MINUTE * r[0], *r[1:]) for r in rows]
        window = Window(micros=2 * 1440 * MINUTE, tumbling=Calendar(length * MINUTE, zone, offset * MINUTE))
        operator = groups("sum(x)", GroupsQuery(k=2), GroupsQuery(above=1.0, below=0.0), window=window, direction="max")
        assert check(operator, "sum(x)", stream, seed, window_of, 2880 * MINUTE) > 0


TIMES = st.lists(st.sampled_from([0, 0, 1, 2, 7, 10, 20, 33]), min_size=1, max_size=25)


@given(
    TIMES, st.data(), st.sampled_from(WINDOWS), st.sampled_from(["sum(x)", "count()"]), st.integers(0, 1000),
)  # fmt: skip
@settings(deadline=None)
def test_tiny_streams(gaps: list[int], data: st.DataObject, window: Window, score: str, seed: int) -> None:
    """Few groups that vanish and come back, rows exactly where windows end, many at one instant."""
    assert window.tumbling is not None
    stream, time = list[Row](), 0
    for gap in gaps:
        time += gap
        group = data.draw(st.sampled_from([0, 1, 2, NULL]))
        stream.append((time, 0, group, float(data.draw(st.integers(-2, 2))), 0, 0))
    check(groups(score, *QUERIES, window=window), score, stream, seed, plain(window.tumbling), data.draw(st.sampled_from([1, 2, 30])))


@pytest.mark.parametrize("score", ["sum(x)", "count()", "max(x)", "first(x)", "quantile(x, 0.5)"])
@given(events=EVENTS, window=st.sampled_from(WINDOWS), seed=st.integers(0, 9))
@settings(deadline=None)
def test_rows_are_deleted_and_groups_carry_aggregates(score: str, events: list[tuple[Any, ...]], window: Window, seed: int) -> None:
    """Deletions of rows of the present window and of earlier ones; final results carry the aggregates of the window."""
    assert window.tumbling is not None
    stream = stream_of(events)
    if stream:
        check(groups(score, *TRACED, window=window, deletes=True, carry=CARRY), score, stream, seed, plain(window.tumbling), 30)


def test_a_window_whose_rows_are_all_deleted_has_no_final_result() -> None:
    operator = groups("sum(x)", GroupsQuery(k=2), window=Window(micros=10, tumbling=Calendar(10)), deletes=True)
    stream: list[Row] = [
        (1, 0, 5, 1.0, 0, 0),
        (2, 0, 6, 3.0, 0, 0),
        (8, 0, NULL, 0.0, 0, 0, 0),
        (9, 0, NULL, 0.0, 0, 0, 1),
        (11, 0, 5, 1.0, 0, 0),
    ]
    player = Player(operator, np.random.default_rng(0))
    player.play(stream, 30, 1.0)
    assert finals_of(player) == {(0, 0): [(10, 20, 1, 5, (1.0).hex())]}
    assert [c[3] for c in player.changes[0, 0] if c[2] < 0] == ["delete", "delete", "expiry"]


def test_final_result_of_a_window() -> None:
    """The result as the window closes, once, in rank order; nothing of a window that is open."""
    operator = groups("sum(x)", GroupsQuery(k=2), window=Window(micros=10, tumbling=Calendar(10)))
    stream: list[Row] = [(1, 0, 5, 1.0, 0, 0), (2, 0, 6, 3.0, 0, 0), (3, 0, 7, 2.0, 0, 0), (9, 0, 5, 1.5, 0, 0), (10, 0, 7, 1.0, 0, 0)]
    player = Player(operator, np.random.default_rng(0))
    player.play(stream, 20, 1.0)
    assert finals_of(player) == {(0, 0): [(0, 10, 1, 6, (3.0).hex()), (0, 10, 2, 5, (2.5).hex())]}
    player.take([], 21)
    assert finals_of(player)[0, 0][2:] == [(10, 20, 1, 7, (1.0).hex())]
    assert player.changes[0, 0][-1][3] == "expiry"
