"""The messages of alerts are what the tables hold, by definition, whatever the batches, restarts and the order of files."""

from __future__ import annotations

import math
from collections import Counter
from decimal import Decimal, localcontext
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skyband.framework.alerts.messages import AlertMessages, Identity, Message, is_beyond
from skyband.framework.alerts.positions import Position
from skyband.framework.base.units import written_float
from skyband.framework.plan.model import Plan
from tests.framework.alerts import defined
from tests.framework.alerts.jobs import QUERIES, VALUED, last_of, plan_of, put, rows_of, tables_of
from tests.seeds import cases

WHO = Identity("owner", "machines", "gen1")
START = Position("gen1", -1, "0" * 16)
ALERTS = (
    "{all: {channel: c}, "
    "values: {channel: c, queries: [best, groups, busy, traced], when: [value], above: 12.5, below: 0.7}, "
    "one: {channel: c, queries: [groups], when: [enter, value], above: 3}}"
)


def read_all(root: Path, plan: Plan, name: str, spans: list[tuple[int, int]], fresh: bool = False) -> list[Message]:
    """The messages of these spans of batches, by one reader, or by a new one for each."""
    alert = next(a for a in plan.alerts if a.name == name)
    reader, frontier, found = AlertMessages(root, plan, alert, WHO, START), None, []
    for after, upto in spans:
        if fresh:
            reader = AlertMessages(root, plan, alert, WHO, START)
        frontiers = reader.frontiers(after, upto)
        found += list(reader.read(after, upto, frontiers, frontier))
        frontier = max([f for f in (frontier, *frontiers.values()) if f is not None], default=None)
    return found


@pytest.mark.parametrize("seed, count, per_batch", [(1, 90, 9), (2, 120, 120), (3, 22, 1)])
def test_they_are_the_changes_and_the_values_that_pass_bounds(seed: int, count: int, per_batch: int, tmp_path: Path) -> None:
    plan = plan_of(ALERTS, tmp_path)
    tables = tables_of(plan, rows_of(seed, count), per_batch)
    last = last_of(tables)
    put(tmp_path, tables, -2, last)
    until = max(defined.micros(t) for t in tables["runs"]["frontier"].to_pylist() if t is not None)
    changes = read_all(tmp_path, plan, "all", [(-1, last)])
    assert defined.told(changes) == defined.entered_and_left(tables, tuple(QUERIES)) and len(changes) > 20
    values = read_all(tmp_path, plan, "values", [(-1, last)])
    expected: Counter[defined.Told] = Counter()
    for query in VALUED:
        expected += defined.passed(tables, query, 12.5, 0.7, until)
    assert defined.told(values) == expected
    if count > 80:
        assert {(m["query"], m["on"]) for m in values} >= {("best", "below"), ("groups", "below"), ("busy", "above"), ("traced", "above")}
    # Each has an id of its own, which other alerts do not use.
    ids = [m["id"] for m in (*changes, *values)]
    assert len(set(ids)) == len(ids)
    # One batch after the other, with a reader that has just started, gives the same messages in the same order.
    spans = [(n - 1, n) for n in range(last + 1)]
    for name, whole in (("all", changes), ("values", values)):
        assert read_all(tmp_path, plan, name, spans) == whole == read_all(tmp_path, plan, name, spans, fresh=True)


def test_ids_do_not_depend_on_batches(tmp_path: Path) -> None:
    made = []
    for per_batch in (5, 50):
        root = tmp_path / str(per_batch)
        plan = plan_of(ALERTS, root)
        tables = tables_of(plan, rows_of(4, 100), per_batch)
        put(root, tables, -2, last_of(tables))
        made.append({m["id"]: m for name in ("all", "values", "one") for m in read_all(root, plan, name, [(-1, last_of(tables))])})
    assert made[0] == made[1] and len(made[0]) > 200


def test_without_a_key_and_with_one(tmp_path: Path) -> None:
    plan = plan_of("{all: {channel: c, queries: [best]}}", tmp_path / "a", partition_by=None)
    tables = tables_of(plan, rows_of(1, 20), 20)
    put(tmp_path / "a", tables, -2, last_of(tables))
    found = read_all(tmp_path / "a", plan, "all", [(-1, last_of(tables))])
    assert found[0]["key"] == {} and found[0]["text"] == "1000000 entered best of machines at 2024-03-01T00:00:00Z"
    keyed = plan_of("{all: {channel: c, queries: [best], message: '{key}|{item}|{what}|{score}|{cause}|{{}}'}}", tmp_path / "b")
    tables = tables_of(keyed, rows_of(1, 20), 20)
    put(tmp_path / "b", tables, -2, last_of(tables))
    assert read_all(tmp_path / "b", keyed, "all", [(-1, last_of(tables))])[0]["text"] == "A|1000000|entered|0.1|arrival|{}"


def test_a_key_that_is_no_number_is_one_key(tmp_path: Path) -> None:
    plan = plan_of("{a: {channel: c, queries: [groups], when: [value], above: 5}}", tmp_path, "[heat]")
    rows = [{**row, "heat": math.nan, "machine": "m", "load": 1.5} for row in rows_of(1, 40)]
    tables = tables_of(plan, rows, 8)
    last = last_of(tables)
    put(tmp_path, tables, -2, last)
    points = [p["score"] for p in tables["groups_trajectory"].sort_by("valid_from").to_pylist()]
    passed = sum(now is not None and now > 5 and (was is None or was <= 5) for was, now in zip([None, *points], points, strict=False))
    assert 0 < passed < sum(p is not None and p > 5 for p in points)
    for spans in ([(-2, last)], [(b - 1, b) for b in range(-1, last + 1)]):
        for fresh in (False, True):
            made = read_all(tmp_path, plan, "a", spans, fresh)
            assert len(made) == passed and {m["key"]["heat"] for m in made} == {"nan"}


@pytest.mark.parametrize("spelling", ["9007199254740995", "'9007199254740995'", "9007199254740995.0", "9.007199254740995e15"])
def test_bounds_compare_as_written(spelling: str, tmp_path: Path) -> None:
    """The bound is no double: its nearest one is the value, which is greater."""
    alert = f"{{channel: c, queries: [best, groups], when: [value], above: {spelling}, below: 1}}"
    plan = plan_of(f"{{beyond: {alert}, same: {{channel: c, queries: [best], when: [value], above: 9007199254740996}}}}", tmp_path)
    row = {**rows_of(1, 1)[0], "load": 9007199254740996.0}
    put(tmp_path, tables_of(plan, [row], 1), -2, 9)
    found = read_all(tmp_path, plan, "beyond", [(-1, 9)])
    assert {(m["query"], m["on"]) for m in found} == {("best", "above"), ("groups", "above")}
    assert all("rose above 9007199254740995" in m["text"] for m in found)
    assert read_all(tmp_path, plan, "same", [(-1, 9)]) == []


@settings(max_examples=cases(300), deadline=None)
@given(st.sampled_from([2.0**53, 1e15, 0.1, 1.0, 1e-300, 123456.78]), st.integers(-3, 3), st.integers(-40, 40), st.integers(14, 19))
def test_a_value_is_beyond_a_bound_by_their_digits(near: float, steps: int, off: int, digits: int) -> None:
    value = near
    for _ in range(abs(steps)):
        value = math.nextafter(value, math.inf * steps)
    bound = Decimal(repr(near)) * (1 + Decimal(off).scaleb(-digits))
    with localcontext() as context:
        context.prec = digits
        bound = +bound
    written, shown = written_float(str(bound)), Decimal(repr(value))
    for sign in (1, -1):
        of = written if sign > 0 else written_float(str(-bound))
        assert is_beyond(sign * value, "above", of) == (sign * shown > sign * bound)
        assert is_beyond(sign * value, "below", of) == (sign * shown < sign * bound)
