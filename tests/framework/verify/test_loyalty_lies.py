"""Lies about loyalties that all tables tell alike are found whatever the sample: every value of changes and points is recomputed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from skyband.framework.plan.model import Plan
from skyband.framework.queries.protocol import Question
from skyband.framework.queries.registry import query_type
from skyband.framework.tables.schemas import changes_name, trajectory_name
from skyband.framework.verify.brute_force.objects import objects
from skyband.framework.verify.brute_force.sample import Compared, _Comparison, compare_rows
from skyband.framework.verify.budget import Budget, Sample
from skyband.framework.verify.replay.causes import Clocks
from tests.framework.verify import consistent, small, test_corruptions
from tests.framework.verify.consistent import Rows
from tests.framework.verify.test_corruptions import SOURCE


@pytest.fixture
def made() -> Plan:
    return test_corruptions.job("loyalty")


@pytest.fixture
def plan(made: Plan) -> Plan:
    """The job's tables, to be damaged."""
    return small.copied(made)


def compared(plan: Plan) -> Compared:
    stored = small.tables_of(plan)
    source = small._rows(plan, SOURCE["loyalty"]).select([f.name for f in plan.intake.fields])
    return compare_rows(stored, Clocks(stored), source, Sample(instants=1), Budget(None))


def test_values_at_an_instant_are_those_by_definition(made: Plan) -> None:
    """The values of many instants at once, against those of each instant by itself."""
    stored = small.tables_of(made)
    source = small._rows(made, SOURCE["loyalty"]).select([f.name for f in made.intake.fields])
    of = _Comparison(stored, Clocks(stored), source, Sample(), Budget(None))
    mine = of._accepted([()])[()]
    data, until = objects(made, mine), stored.until[()]
    for query in made.queries:
        kind, compared = query_type(query.type), 0
        for at in range(mine.time[0] - 1, until, 7 * 60_000_000 + 1):
            question = Question(made, query, data, at)
            expected = kind.time_varying_values(question)
            assert expected is not None
            found = kind.values_at(replace(question, at=until), [(item, at) for item in expected.values])
            assert found == list(expected.values.values())
            compared += len(expected.values)
        assert compared > 500


def test_every_value_is_proven_whatever_the_sample(made: Plan) -> None:
    found = compared(made)
    assert [d.text() for d in found.differences] == []
    for kind in ("scores", "points"):
        mine = [s for s in found.shares if s.kind == kind]
        assert {s.query for s in mine} == {q.name for q in made.queries} and all(s.complete and s.total > 5 for s in mine)


@pytest.mark.parametrize("name", ["loyal", "fresh", "steady", "slowly"])
def test_a_stay_that_is_shifted_in_all_tables_is_found(plan: Plan, name: str) -> None:
    """Half a second more from an item's entry until it leaves, in changes and points: the tables agree."""
    changes = consistent.changes_of(plan, name)
    enters, leaves = [(a, b) for a, b in changes.stays() if b is not None][1]
    assert leaves is not None
    for row in (enters, leaves):
        row["loyalty_seconds"] += 0.5

    def shift(rows: Rows) -> None:
        for r in rows:
            if changes.item(r) == changes.item(enters) and enters["changed_at"] <= r["valid_from"] < leaves["changed_at"]:
                r["loyalty_seconds"] += 0.5

    small.altered(plan, trajectory_name(name), shift)
    consistent.write(changes)
    found = {d.kind for d in compared(plan).differences}
    assert f"table {changes_name(name)}: its value differs from the definition" in found
    assert f"table {trajectory_name(name)}: a point differs from the definition" in found


@pytest.mark.parametrize("name", ["loyal", "fresh"])
def test_a_bend_that_is_missing_at_the_end_is_found(plan: Plan, name: str) -> None:
    """The last point of an item's trajectory is missing: what follows from it is what it has at the end."""

    def without(rows: Rows) -> Rows:
        last = {changes.item(r): r for r in sorted(rows, key=lambda r: r["valid_from"])}
        entered = {changes.item(a) for a, b in changes.stays() if b is None}
        gone = next(r for item, r in last.items() if item in entered and sum(changes.item(x) == item for x in rows) > 1)
        return [r for r in rows if r is not gone]

    changes = consistent.changes_of(plan, name)
    small.altered(plan, trajectory_name(name), without)
    assert f"table {trajectory_name(name)}: a point differs from the definition" in {d.kind for d in compared(plan).differences}
