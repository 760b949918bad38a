"""Loyalty against brute force by the definition: changes and trajectories at every instant that matters, however the stream is cut."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skyband.operators.base import NULL, Arrivals, Column, Named, Ragged, Window
from skyband.operators.expressions import parse
from skyband.operators.loyalty import Loyalty, LoyaltyQuery
from tests.operators.loyalty_host import Case, Host, Stream, random_case, random_cuts, run
from tests.oracles import loyalty as oracle
from tests.seeds import seeds


def check(case: Case, seed: int, every_instant: bool = True) -> None:
    """The definition, cuts, restores, and watching few objects or all."""
    rng = np.random.default_rng(seed + 1)
    want = case.expected(every_instant)
    whole = run(case, [])
    assert whole.changes == want[0]
    assert whole.points == want[1]
    check_snapshots(case, whole)
    for share, restore, few in ((1.0, False, 0), (0.6, True, 2), (0.1, False, 0), (1.0, True, 64)):
        cut = run(case, random_cuts(case, rng, share), restore, few=few)
        assert (cut.changes, cut.points) == want


def check_snapshots(case: Case, host: Host) -> None:
    """Snapshots by definition, as of the last instant before the end; objects that are needed."""
    window, at = int(case.op.window.micros or 0), case.end - 1
    needed = set()
    for key in range(int(case.stream.key.max()) + 1):
        spans = oracle.spans(case.reports(key), case.op.stale_after)
        for i, q in enumerate(case.queries()):
            got = host.logic.snapshot(key, 3, case.op.window, i)
            names = [host.names[n] for n in got.items[:, 0].tolist()]
            assert names == oracle.result(spans, window, q, at)[:3]
            assert (got.extra["loyalty_seconds"] * 1e6).round().tolist() == [oracle.loyalty(spans[o], window, at) for o in names]
            needed |= {(key, o) for o in result_of_changes(host, i, key)}
        needed |= {(key, o) for o, mine in spans.items() if oracle.loyalty(mine, window, at) or oracle.is_on(mine, at)}
    assert {name for name, n in host.numbers.items() if n in set(host.logic.objects().tolist())} == needed


def result_of_changes(host: Host, query: int, key: int) -> set[Any]:
    """Return the result after all changes of a query."""
    result: set[Any] = set()
    for change in host.changes:
        if change[:2] == (query, key):
            result = result | {change[7]} if change[5] > 0 else result - {change[7]}
    return result


@pytest.mark.parametrize("part", range(4))
def test_brute_force(part: int) -> None:
    for seed in seeds(part * 30, part * 30 + 30):
        check(random_case(seed), seed)


def test_brute_force_with_long_durations() -> None:
    for seed in seeds(4000, 4005):
        check(random_case(seed, 24, 6, 1000), seed, every_instant=False)


@given(st.integers(0, 2**32), st.integers(1, 30), st.integers(1, 9))
def test_brute_force_drawn(seed: int, rows: int, objects: int) -> None:
    check(random_case(seed, rows, objects), seed)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(6))
def test_brute_force_more(part: int) -> None:
    for seed in range(part * 200, part * 200 + 200):
        check(random_case(10**6 + seed, 70, 12), seed)


def case_of(rows: list[tuple[int, int, int]], window: int, queries: tuple[LoyaltyQuery, ...], end: int, stale: int | None = None) -> Case:
    """Rows (time, object, on) of one key."""
    time, who, on = (np.array(a, np.int64) for a in zip(*rows, strict=True))
    op = Loyalty(object=("a",), updates=Column("u", "int"), window=Window(None, window), queries=queries, stale_after=stale)
    stream = Stream(time, np.zeros(len(time), np.int64), [(int(w),) for w in who], {"u": on, "g": np.ones(len(time), np.int64)})
    return Case(stream, op, end, None, None)


def changes_of(case: Case) -> list[tuple[Any, ...]]:
    """Return (at, sign, cause, object, loyalty, slope) of the first query's changes, which are as the definition says."""
    check(case, 0)
    return [(r[2], *r[5:7], r[7][0], *r[8:]) for r in run(case, []).changes if r[0] == 0]


def test_an_object_is_in_from_the_instant_it_is_switched_on_until_its_last_echo() -> None:
    rows = [(10, 1, 1), (14, 1, 0)]
    assert changes_of(case_of(rows, 100, (LoyaltyQuery(1),), 200)) == [(10, 1, "arrival", 1, 0, 1), (114, -1, "expiry", 1, 0, 0)]


def test_a_crossing_between_two_instants_is_emitted_at_the_next() -> None:
    # 1 falls from 9 at instant 20, 2 rises from 0 at 20: they meet at 24.5
    rows = [(0, 1, 1), (9, 1, 0), (21, 2, 1)]
    changes = changes_of(case_of(rows, 21, (LoyaltyQuery(1),), 60))
    assert changes[1:3] == [(26, -1, "crossing", 1, 4, -1), (26, 1, "crossing", 2, 5, 1)]


def test_ties_go_to_the_one_that_rises_and_then_by_name() -> None:
    rows = [(0, 7, 1), (0, 3, 1), (5, 3, 0)]
    assert changes_of(case_of(rows, 50, (LoyaltyQuery(1),), 20)) == [
        (0, 1, "arrival", 3, 0, 1), (5, -1, "displaced", 3, 5, 0), (5, 1, "promoted", 7, 5, 1),
    ]  # fmt: skip


def test_a_threshold_is_reached_at_once_and_left_at_once() -> None:
    rows = [(0, 1, 1), (8, 1, 0)]
    assert changes_of(case_of(rows, 20, (LoyaltyQuery(None, 5),), 60)) == [(5, 1, "crossing", 1, 5, 1), (23, -1, "crossing", 1, 5, -1)]
    assert changes_of(case_of(rows, 8, (LoyaltyQuery(None, 8),), 60)) == [(8, 1, "promoted", 1, 8, -1)][:0]
    assert changes_of(case_of([(0, 1, 1)], 8, (LoyaltyQuery(None, 8),), 60)) == [(8, 1, "promoted", 1, 8, 0)]


def test_reports_go_stale_and_redundant_ones_renew() -> None:
    rows = [(0, 1, 1), (3, 1, 1), (20, 1, 1)]
    changes = changes_of(case_of(rows, 6, (LoyaltyQuery(1),), 60, stale=5))
    assert [c[:3] for c in changes] == [(0, 1, "arrival"), (14, -1, "expiry"), (20, 1, "arrival"), (31, -1, "expiry")]


def test_of_one_instant_the_last_report_counts() -> None:
    assert changes_of(case_of([(5, 1, 1), (5, 1, 0)], 10, (LoyaltyQuery(2),), 40)) == []
    assert len(changes_of(case_of([(5, 1, 0), (5, 1, 1), (5, 1, 1)], 10, (LoyaltyQuery(2),), 10))) == 1


def test_from_points_of_everyone_loyalty_at_any_instant_follows() -> None:
    for seed in seeds(700, 715):
        case = random_case(seed, 25)
        if case.op.window.micros is None or not any(q.trace_all for q in case.op.queries):
            continue
        query = next(i for i, q in enumerate(case.op.queries) if q.trace_all)
        points = run(case, [], few=0).points
        for key in range(int(case.stream.key.max()) + 1):
            spans = oracle.spans(case.reports(key), case.op.stale_after)
            for name, mine in spans.items():
                own = [p for p in points if p[:2] == (query, key) and p[3] == name]
                for at in range(int(case.stream.time[0]) - 1, case.end):
                    before = [p for p in own if p[2] <= at]
                    _, _, since, _, value, slope = before[-1] if before else (0, 0, 0, 0, 0, 0)
                    assert value + slope * (at - since) == oracle.loyalty(mine, case.op.window.micros, at)
                    assert slope == oracle.slope(mine, case.op.window.micros, at)


def test_state_is_bounded_when_ever_new_objects_come() -> None:
    op = Loyalty(object=("a",), updates=Column("u", "bool"), window=Window(None, 50), queries=(LoyaltyQuery(3),), stale_after=1000)
    host = Host(op)
    for part in range(60):
        time = np.repeat(np.arange(part * 100, part * 100 + 100), 2)
        names = [(int(t),) for t in time]
        stream = Stream(time, np.zeros(200, np.int64), names, {"u": np.tile([1, 0], 100)})
        stream.time = stream.time + np.tile([0, 1], 100)
        order = np.argsort(stream.time, kind="stable")
        stream = Stream(stream.time[order], stream.key, [names[i] for i in order], {"u": stream.columns["u"][order]})
        host.advance(host.block(stream, 0, 200), part * 100 + 101)
        host.forget()
        assert len(host.logic.objects()) <= 60
        assert host.logic.counters()["objects"] < 400
        assert len(host.logic.checkpoint()["stale_time"]) < 1200


def test_unusable_reports_are_counted_and_have_no_effect() -> None:
    criteria = parse("x > 1", {"x": "float"}, ("",), "predicate")
    where = parse("x is null or x < 9", {"x": "float"}, ("",), "predicate")
    op = Loyalty(object=("a",), criteria=criteria, where=where, window=Window(None, 9), queries=(LoyaltyQuery(1), LoyaltyQuery(None, 3)))
    logic = op.build(None)
    x, number = np.array([2.0, np.nan, 10.0, 3.0]), np.array([0, 0, 0, NULL])
    named = Named(np.array([0]), Ragged(np.array([0, 1]), np.array([5])))
    rows = Arrivals(np.zeros(4, np.int64), np.arange(4), np.arange(4), {"$a": number, "x": x}, {}, {"$a": named})
    assert len(logic.advance(rows, 4)) == 1 + 1
    assert logic.counters()["unusable:1"] == 2
    assert logic.counters()["unusable:0"] == 0


def test_many_keys_are_no_loop_in_python(monkeypatch: pytest.MonkeyPatch) -> None:
    """5 objects in each of 2,000 keys are one call of the kernel, whatever is due."""
    from skyband.operators.loyalty import logic as module

    calls, drive = [], module.drive
    monkeypatch.setattr(module, "drive", lambda *a: calls.append(1) or drive(*a))
    keys = 2000
    op = Loyalty(object=("a",), updates=Column("u", "bool"), window=Window(None, 50), queries=(LoyaltyQuery(1),))
    logic = op.build(None)
    key, number = np.repeat(np.arange(keys), 5), np.arange(5 * keys)
    named = Named(number, Ragged(np.arange(5 * keys + 1), number))
    on = {"$a": number, "u": np.ones(5 * keys, np.int64)}
    first = logic.advance(Arrivals(key, np.tile(np.arange(5), keys), np.tile(np.arange(5), keys), on, {}, {"$a": named}), 5)
    assert len(first) == keys
    assert logic.wake() == 50
    last = logic.advance(Arrivals(*(np.empty(0, np.int64) for _ in range(3)), {"$a": number[:0], "u": number[:0]}), 1000)
    assert (len(calls), len(last)) == (2, 0)
    assert len(logic.objects()) == 5 * keys


def test_wrong_configurations_are_refused() -> None:
    good: dict[str, Any] = {"object": ("a",), "updates": Column("u", "bool"), "window": Window(None, 9), "queries": (LoyaltyQuery(1),)}
    Loyalty(**good)
    number = parse("x + 1", {"x": "float"}, ("",))
    for wrong in (
        {"object": ()}, {"updates": None}, {"criteria": number}, {"updates": Column("u", "float")}, {"window": Window(5)},
        {"window": Window(5, 9)}, {"window": Window(None, 0)}, {"stale_after": 0}, {"queries": ()}, {"queries": (LoyaltyQuery(),)},
        {"queries": (LoyaltyQuery(1, 1),)}, {"queries": (LoyaltyQuery(0),)}, {"queries": (LoyaltyQuery(None, 10),)},
        {"queries": (LoyaltyQuery(1, None, 0),)}, {"updates": None, "criteria": number}, {"where": number},
    ):  # fmt: skip
        with pytest.raises(ValueError, match=r"."):
            Loyalty(**{**good, **wrong})


RAINIEST = """
with spans as (
    select station, day as begins, lead(day, 1, 1000000) over (partition by station order by day) as ends, state from updates
    where day <= $at
), lines as (
    select station, sum(greatest(0, least(ends, $at) - greatest(begins, $at - 30))) as days,
        max((begins <= $at and $at < ends)::int) - max((begins <= $at - 30 and $at - 30 < ends)::int) as slope
    from spans where state = 1 group by station
)
select station from lines where days > 0 or slope > 0 order by days desc, slope desc, station limit 10
"""
DAY = 86_400_000_000


@pytest.mark.real
def test_the_rainiest_stations_of_the_last_30_days_of_half_a_century(shared_data: Callable[[str], Path]) -> None:
    """686,332 updates of 266 stations, on 150 days against intervals in SQL."""
    duckdb = pytest.importorskip("duckdb")
    path = shared_data("data/rain_updates_1970_2021.tsv.gz")
    base = duckdb.connect()
    base.execute(f"create table updates as select day, station, state from read_csv('{path}', delim = '\\t')")
    table = base.execute("select day, station, state from updates order by day, station").fetchnumpy()
    day, station, on = (np.asarray(table[c], np.int64) for c in ("day", "station", "state"))
    op = Loyalty(object=("station",), updates=Column("state", "int"), window=Window(None, 30 * DAY), queries=(LoyaltyQuery(10),))
    host = Host(op, few=100)
    stream = Stream(day * DAY, np.zeros(len(day), np.int64), [(int(s),) for s in station], {"state": on})
    edges = [0, *np.searchsorted(day, [9000, 9001, 15000]).tolist(), len(day)]
    for lo, hi in pairwise(edges):
        host.advance(host.block(stream, lo, hi), int(stream.time[hi]) if hi < len(day) else (int(day[-1]) + 60) * DAY)
        host.restore()
    sampled = sorted(np.random.default_rng(1).choice(np.arange(int(day[0]), int(day[-1]) + 45), 150, replace=False).tolist())
    shown: set[Any] = set()
    changes = iter([*host.changes, (0, 0, 2**62)])
    change = next(changes)
    for at in sampled:
        while change[2] <= at * DAY:
            shown = shown | {change[7]} if change[5] > 0 else shown - {change[7]}
            change = next(changes)
        assert {name for (name,) in shown} == {s for (s,) in base.execute(RAINIEST, {"at": at}).fetchall()}, at
    assert len(host.changes) > 40_000
