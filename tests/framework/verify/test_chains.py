"""``verify`` over queries over queries: tables of chains of two and three are proven, and damage to them is found."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from skyband.framework.plan.model import Plan
from skyband.framework.verify.brute_force.sample import compare_rows
from skyband.framework.verify.budget import Budget, Sample
from skyband.framework.verify.replay.causes import Clocks
from tests.framework.verify import chained, consistent, small
from tests.seeds import seeds

CASES = [(chained.TIME, ""), pytest.param(chained.TIME, chained.DELETES, marks=pytest.mark.slow), (chained.COUNT, chained.DELETES)]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Plan:
    return chained.make(tmp_path_factory.mktemp("chains") / "job", chained.rows_of(1))


@pytest.fixture
def plan(made: Plan) -> Plan:
    """The job's tables, to be damaged."""
    return small.copied(made)


@pytest.mark.parametrize(("window", "deletes"), CASES)
def test_everything_of_a_chain_is_proven(tmp_path: Path, window: str, deletes: str) -> None:
    for seed in seeds(0, 1):
        rows = chained.rows_of(seed, bool(deletes))
        plan = chained.make(tmp_path / str(seed), rows, window, deletes)
        assert [d.text() for d in small.found(plan)] == []
        stored = small.tables_of(plan)
        source = small._rows(plan, rows).select([f.name for f in plan.intake.fields])
        found = compare_rows(stored, Clocks(stored), source, Sample(everything=True), Budget(None))
        assert [d.text() for d in found.differences] == []
        assert all(s.complete for s in found.shares) and found.stream_rows and not found.skipped
        over_results = {q.name for node in plan.streams for q in node.plan.queries}
        assert {s.query for s in found.shares if s.taken is not None} == over_results
        assert {s.query: s.taken for s in found.shares}.get("third") == "worst"


def test_a_sample_counts_the_rows_of_all_keys(made: Plan) -> None:
    stored = small.tables_of(made)
    few = compare_rows(stored, Clocks(stored), None, Sample(keys=1, instants=2), Budget(None))
    whole = small.of_results(made)
    totals = [{(s.kind, s.query): s.total for s in found.shares} for found in (few, whole)]
    assert totals[0] == totals[1] and not all(s.complete for s in few.shares) and not few.rows


def score(changes: consistent.Changes) -> None:
    for row in changes.of(next(r for r in changes.rows if r["change"] == "+")):
        row["score"] += 0.25


def dropped_stay(changes: consistent.Changes) -> None:
    enters, leaves = next(stay for stay in changes.stays() if stay[1] is not None)
    changes.rows.remove(enters)
    assert leaves is not None
    changes.rows.remove(leaves)


@pytest.mark.parametrize("name", ["worst", "late", "third", "high", "shown", "wide"])
@pytest.mark.parametrize("alter", [score, dropped_stay])
def test_what_is_wrong_in_all_tables_of_a_chained_query_is_found(
    plan: Plan, name: str, alter: Callable[[consistent.Changes], None]
) -> None:  # fmt: skip
    changes = consistent.changes_of(plan, name)
    alter(changes)
    consistent.write(changes)
    found = small.of_results(plan).differences
    assert any(name in d.where for d in found), [d.where for d in found]


@pytest.mark.parametrize("name", ["steady", "often", "two", "calmer", "pairs", "top_steady"])
def test_a_stay_that_is_missing_in_all_tables_is_found(plan: Plan, name: str) -> None:
    changes = consistent.changes_of(plan, name)
    dropped_stay(changes)
    consistent.write(changes)
    assert any(name in d.where for d in small.of_results(plan).differences)


def test_an_altered_and_a_dropped_row_are_found_by_replay(plan: Plan) -> None:
    def alter(rows: list[dict[str, object]]) -> None:
        rows[3]["score"] = float(str(rows[3]["score"])) + 1

    small.altered(plan, "third_changes", alter)
    assert "third" in small.of_tables(plan, "third")[0].where
    small.altered(plan, "steady_changes", lambda rows: rows[:2] + rows[3:])
    assert any("steady" in d.where for d in small.of_tables(plan, "steady"))
    assert any("the tables of changes have" in d.what for d in small.of_tables(plan, "steady"))
