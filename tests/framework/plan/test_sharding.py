"""How many shards a job has, and what ``explain`` says of them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from skyband.framework.plan.explain import explain
from skyband.framework.plan.growth import AUTO, search_micros, sharded, shards_of
from skyband.framework.plan.model import Plan
from tests.framework.plan.test_compile import plan_of, with_queries
from tests.framework.spec.examples import SENSORS

PAIRS = "  near: {type: topk_pairs, scoring: closest, k: 5}"
ROWS = "  hot: {type: skyline, dimensions: {temp: max}}"
LARGE, SMALL = "{count: 1000000}", "{count: 9000}"


def plan(queries: str, window: str, shards: int = AUTO) -> Plan:
    return replace(with_queries(queries, window), shards=shards)


@pytest.mark.parametrize(
    ("made", "first"),
    [
        (plan(PAIRS, LARGE), 6),
        (plan(PAIRS, "{time: 1 hour}"), 1),
        (plan(PAIRS.replace("closest", "shock"), "{time: 1 hour}"), 1),
        (plan(f"{PAIRS}\n{ROWS}", LARGE), 6),
        (plan(PAIRS, SMALL), 1),
        (plan(ROWS, LARGE), 1),
        (plan(PAIRS, f"{LARGE}\ndeletes: temp > 90"), 1),
    ],
)
def test_auto_is_the_cores_if_the_search_takes_long(made: Plan, first: int) -> None:
    assert shards_of(made, 6, None) == first
    assert shards_of(made, 0, None) == 1


@pytest.mark.parametrize(("run", "shards"), [("", 1), (", shards: 3", 3), (", shards: auto", AUTO)])
def test_a_spec_has_a_number_or_auto(run: str, shards: int) -> None:
    assert plan_of(SENSORS.replace("run: {trigger: once}", f"run: {{trigger: once{run}}}")).shards == shards


def test_auto_is_decided_once() -> None:
    for now in (1, 3):
        assert shards_of(plan(PAIRS, LARGE), 6, now) == now
        assert shards_of(plan(PAIRS, SMALL), 6, now) == now
        assert shards_of(plan(ROWS, LARGE), 6, now) == 1


def test_a_number_holds_whatever_the_window_and_the_cores() -> None:
    for now in (None, 1, 3):
        assert shards_of(plan(PAIRS, SMALL, 4), 2, now) == 4
        assert shards_of(plan(ROWS, SMALL, 4), 2, now) == 1
        assert shards_of(plan(PAIRS, SMALL, 1), 2, now) == 1


def test_pairs_are_shared_and_rows_are_not() -> None:
    assert [node.name for node in sharded(plan(f"{PAIRS}\n{ROWS}", SMALL))] == ["near"]


def test_explain_says_which_queries_share_their_search() -> None:
    said = explain(plan(f"{PAIRS}\n{ROWS}", SMALL, 4)).splitlines()
    first = next(i for i, line in enumerate(said) if line.startswith("shards "))
    assert said[first].startswith("shards   4 tasks for each bucket: ")
    assert said[first + 1 : first + 4] == ["         shared: near", "         by the bucket's own task: hot", "  |"]
    takes = f"about {search_micros(plan(PAIRS, LARGE)):.0f} us"
    assert f"shards   as many tasks as cores (auto: a row's search takes {takes}) for each bucket" in explain(plan(PAIRS, LARGE))
    assert "shards   none (auto): a row's search takes about 0 us; from 40 on they pay" in explain(plan(PAIRS, SMALL))
    assert "by the bucket's own task" not in explain(plan(PAIRS, SMALL, 4))
    assert "shards   none: no query searches for pairs" in explain(plan(ROWS, SMALL, 4))


def test_explain_says_nothing_without_shards() -> None:
    one = plan(PAIRS, SMALL, 1)
    assert "shards " not in explain(one)
    assert explain(replace(one, shards=AUTO)) != explain(one)


def test_what_costs_more_is_said_to_cost_more() -> None:
    costs = [search_micros(plan(q, w)) for q, w in ((PAIRS, SMALL), (PAIRS, LARGE), (f"{PAIRS}\n{PAIRS.replace('near', 'far')}", LARGE))]
    assert 0 < costs[0] < costs[1] <= costs[2]
