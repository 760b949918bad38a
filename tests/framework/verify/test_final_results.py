"""Final results of tumbling windows: what is wrong in their table is found, and the definition's windows are those of the clock."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skyband.framework.plan.model import Plan
from skyband.framework.tables.schemas import final_name, tables
from skyband.framework.verify.brute_force.calendars import leaves_at, leaving, window_around
from skyband.operators.base import Calendar, Window
from tests.framework.verify import small, test_corruptions
from tests.framework.verify.consistent import Row, Rows, changes_of, final_rows
from tests.framework.verify.test_corruptions import SOURCE
from tests.operators.test_calendar import CHANGES, LENGTHS, MINUTE, boundaries, micros
from tests.seeds import cases
from tests.spark.kinds import KINDS


@pytest.fixture
def job() -> Plan:
    return test_corruptions.job("groups")


def in_the_middle(rows: Rows) -> Row:
    return sorted(rows, key=lambda r: (r["window_end"], r["rank"]))[len(rows) // 2]


def a_row_less(rows: Rows) -> Rows:
    return [r for r in rows if r is not in_the_middle(rows)]


def a_window_less(rows: Rows) -> Rows:
    return [r for r in rows if r["window_end"] != in_the_middle(rows)["window_end"]]


def another_score(rows: Rows) -> Rows:
    return [{**r, "score": r["score"] + 0.5} if r is in_the_middle(rows) else r for r in rows]


def another_rank(rows: Rows) -> Rows:
    return [{**r, "rank": r["rank"] + 1} if r is in_the_middle(rows) else r for r in rows]


def a_row_twice(rows: Rows) -> Rows:
    return [*rows, in_the_middle(rows)]


def another_window(rows: Rows) -> Rows:
    return [{**r, "window_start": r["window_end"]} if r is in_the_middle(rows) else r for r in rows]


ALTERED = (a_row_less, a_window_less, another_score, another_rank, a_row_twice, another_window)


def test_final_results_follow_from_the_changes(job: Plan) -> None:
    """Without boundaries, the members of a window that ends are those that leave then."""
    names = ("window_end", "rank", "who", "score")
    rows = small.tables_of(job).table(final_name("hours")).to_pylist()
    assert len(rows) > 5
    assert sorted(tuple(r[n] for n in names) for r in rows) == sorted(
        tuple(r[n] for n in names) for r in final_rows(changes_of(job, "hours"))
    )


@pytest.mark.parametrize("name", ["hours", "quarters"])
@pytest.mark.parametrize("altered", ALTERED)
def test_what_is_wrong_is_found(job: Plan, name: str, altered: object) -> None:
    """By the replay, where the changes show it; by brute force always."""
    assert callable(altered)
    plan = small.copied(job)
    assert small.of_tables(plan, name) == [] and small.of_source(plan, name, SOURCE["groups"]).differences == []
    small.altered(plan, final_name(name), altered)
    found = small.of_source(plan, name, SOURCE["groups"]).differences
    assert altered is another_window or altered is another_rank or found
    of_tables = small.of_tables(plan, name)
    assert of_tables or name == "quarters"
    assert any(final_name(name) in d.text() for d in [*of_tables, *found])


WINDOWED = replace(
    KINDS["keyed"],
    queries="""\
  best: {type: topk, scoring: high, k: 4, window: {tumbling: 1 hour}, carry: [x]}
  visits: {type: topk, scoring: high, k: 2, window: {session: 15 minutes}}
  sky: {type: skyline, dimensions: {x: min, y: max}, window: {tumbling: 40 minutes, offset: 10 minutes}}
  far: {type: topk_pairs, scoring: far, k: 3, window: {session: 20 minutes}}
  met: {type: matches, scoring: far, k: 2, window: {tumbling: 1 hour}}
  hops: {type: topk, scoring: high, k: 2, window: {hop: {size: 1 hour, every: 20 minutes}}}
  sides: {type: topk_groups, group: side, score: sum(x), k: 2, window: {hop: {size: 1 hour, every: 20 minutes}}, carry: [last(y)]}
""",
    sections="",
)


@pytest.fixture(scope="module")
def windowed(tmp_path_factory: pytest.TempPathFactory) -> Plan:
    """Rows and pairs in windows that follow each other, and hops."""
    return small.make(WINDOWED.write(tmp_path_factory.mktemp("windowed") / "job", 10), SOURCE["keyed"])


@pytest.mark.parametrize("name", ["best", "visits", "sky", "far"])
def test_windows_of_rows_are_proven_and_what_is_wrong_in_their_finals_is_found(windowed: Plan, name: str) -> None:
    assert small.of_tables(windowed, name) == [] and small.of_source(windowed, name, SOURCE["keyed"]).differences == []
    assert small.tables_of(windowed).table(final_name(name)).num_rows > 10
    for altered in ALTERED:
        if altered is another_score and name == "sky":  # its items have no score
            continue
        plan = small.copied(windowed)
        small.altered(plan, final_name(name), altered)
        told = [*small.of_tables(plan, name), *small.of_source(plan, name, SOURCE["keyed"]).differences]
        assert any(final_name(name) in d.text() for d in told), altered.__name__


@pytest.mark.parametrize("name", ["met", "hops", "sides"])
def test_matches_and_hops_have_no_finals_and_are_proven(windowed: Plan, name: str) -> None:
    assert small.of_tables(windowed, name) == [] and small.of_source(windowed, name, SOURCE["keyed"]).differences == []
    assert small.tables_of(windowed).table(f"{name}_changes").num_rows > 5
    assert final_name(name) not in {t.name for t in tables(windowed)}


# ---------------------------------------------------------------- the definition's windows


@given(
    st.sampled_from([(zone, day) for zone, days in CHANGES.items() for day in days]),
    st.sampled_from(LENGTHS),
    st.sampled_from([0, 60, 150, 360]),
    st.integers(0, 6 * 1440),
)
@settings(max_examples=cases(100), deadline=None)
def test_windows_by_definition_are_as_the_clock_shows(place: tuple[str, str], length: int, offset: int, minute: int) -> None:
    known = [micros(t) for t in boundaries(*place, length, offset)]
    at = known[0] + (5 * 1440 + minute) * MINUTE
    inside = [t for t in known[1:] if t <= at]
    if inside and known[-1] > at:
        calendar = Calendar(length * MINUTE, place[0], offset * MINUTE)
        expected = inside[-1], next(t for t in known if t > at)
        assert window_around(calendar, at) == expected
        assert window_around(calendar, expected[1] - 1) == expected


def test_instants_at_which_rows_leave() -> None:
    window = Window(micros=100, tumbling=Calendar(10), session=None)
    rows = small.pa.array([1, 4, 25]).to_numpy()
    start = window_around(Calendar(10), 4)[0]
    ends = sorted({window_around(Calendar(10), t)[1] for t in (1, 4, 25)})
    assert [sorted(part.tolist()) for part in leaving(window, rows)] == [[101, 104, 125], ends]
    assert leaves_at(window, [1, 4, 25], ends[0]) and not leaves_at(window, [1, 4, 25], ends[0] + 10) and start <= 4
    session = Window(micros=100, session=7)
    assert leaves_at(session, [1, 4, 25], 11) and leaves_at(session, [1, 4, 25], 101) and not leaves_at(session, [1, 4, 25], 12)
