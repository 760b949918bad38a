"""Lies about groups that all tables tell alike: ``verify`` finds each by their definition, also in queries over results."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

from skyband.framework.plan.model import Plan
from skyband.framework.tables.schemas import changes_name, final_name, trajectory_name
from skyband.framework.verify.brute_force.sample import Compared, compare_rows
from skyband.framework.verify.budget import Budget, Sample
from skyband.framework.verify.replay.causes import Clocks
from tests.framework.verify import consistent, small
from tests.framework.verify.consistent import Row, Rows
from tests.framework.verify.group_jobs import instants, spec_of, stamp

QUERIES = """\
scoring:
  s: {expression: x}
queries:
  best: {type: topk, scoring: s, k: 3, carry: [side, x]}
  totals: {type: topk_groups, group: side, score: sum(x), k: 2, carry: [distinct(y), last(y), count()]}
  inside: {type: threshold_groups, group: side, score: count(), above: 3, below: 2, window: {time: 12 minutes}}
  hourly: {type: topk_groups, group: side, score: sum(x), k: 2, every: 5 minutes, carry: [count()]}
  closed: {type: topk_groups, group: side, score: "stddev(x) + quantile(x, 0.5)", k: 2, carry: [max(x)], window: {tumbling: 10 minutes}}
  chained: {type: topk_groups, from: best, group: side, score: sum(best_score), k: 2, carry: [count()]}
"""
VISITS = "  visits: {type: threshold_groups, group: side, score: count(), above: 1, window: {session: 3 minutes}}\n"
"""Sessions take no rows that may be deleted."""
GROUPS = ["totals", "inside", "hourly", "closed", "visits", "chained"]


def rows_of(seed: int, duplicates: bool = True) -> list[list[object]]:
    rng, found = random.Random(seed), list[list[object]]()
    for i, at in enumerate(instants(rng, 220)):
        number = i - rng.randrange(1, 4) if duplicates and i > 4 and rng.random() < 0.2 else i
        found.append([number, stamp(at), "pq"[number % 2], rng.choice([0.0, 1.0, 2.5, -1.0]), float(rng.randrange(3)), rng.choice("abc")])
    return found


ROWS = rows_of(1)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Plan:
    directory = tmp_path_factory.mktemp("lies")
    (directory / "job.yaml").write_text(spec_of("lies", QUERIES + VISITS, "keep_first"))
    return small.make(directory / "job.yaml", ROWS)


@pytest.fixture
def plan(made: Plan) -> Plan:
    """The job's tables, to be damaged."""
    return small.copied(made)


def compared(plan: Plan, sample: Sample | None = None) -> Compared:
    stored = small.tables_of(plan)
    source = small._rows(plan, ROWS).select([f.name for f in plan.intake.fields])
    return compare_rows(stored, Clocks(stored), source, sample or Sample(instants=1, keys=2), Budget(None))


def kinds(plan: Plan) -> set[str]:
    return {d.kind for d in compared(plan).differences}


def test_every_change_of_groups_is_proven_whatever_the_sample(made: Plan) -> None:
    found = compared(made)
    assert [d.text() for d in found.differences] == []
    mine = [s for s in found.shares if s.query in GROUPS]
    assert {s.kind for s in mine} == {"results", "steps", "points", "finals"} and all(s.complete for s in mine)
    assert all(sum(s.total for s in mine if s.query == name and s.kind == "steps") > 5 for name in GROUPS)
    assert not all(s.complete for s in found.shares if s.query == "best")
    assert [d.text() for d in small.found(made)] == []


def leaving_score(rows: Rows) -> None:
    """The score of a group that leaves."""
    row = [r for r in rows if r["change"] == "-"][3]
    row["score"] += 1.5


def carried_of_change(column: str) -> Callable[[Rows], None]:
    def change(rows: Rows) -> None:
        row = [r for r in rows if r["change"] == "-" and r[column] is not None][2]
        row[column] += 1

    return change


def point_dropped(rows: Rows) -> Rows:
    """A point from within a stay, so that no change names its instant."""
    rows = sorted(rows, key=lambda r: (r["grp"], r["side"], r["valid_from"]))
    return [r for r in rows if r is not middle(rows)]


def point_changed(rows: Rows) -> Rows:
    rows = sorted(rows, key=lambda r: (r["grp"], r["side"], r["valid_from"]))
    middle(rows)["score"] += 0.25
    return rows


def point_added(rows: Rows) -> Rows:
    rows = sorted(rows, key=lambda r: (r["grp"], r["side"], r["valid_from"]))
    row = middle(rows)
    return [*rows, {**row, "valid_from": row["valid_from"] + timedelta(microseconds=1), "score": row["score"] + 0.25}]


def middle(rows: Rows) -> Row:
    """A point between two of its group."""
    mine = [b for a, b, c in zip(rows, rows[1:], rows[2:], strict=False) if (a["grp"], a["side"]) == (c["grp"], c["side"])]
    return mine[len(mine) // 2]


@pytest.mark.parametrize("name", ["totals", "hourly", "closed", "chained"])
def test_the_score_of_a_leaving_group_is_found(plan: Plan, name: str) -> None:
    small.altered(plan, changes_name(name), leaving_score)
    assert any("its changes at this instant" in k and "scores" in k and name in k for k in kinds(plan))


@pytest.mark.parametrize("name", GROUPS)
@pytest.mark.parametrize("alter", [point_dropped, point_added, point_changed])
def test_a_point_of_a_trajectory_is_found(plan: Plan, name: str, alter: Callable[[Rows], Rows]) -> None:
    small.altered(plan, trajectory_name(name), alter)
    assert any(k.startswith(f"table {trajectory_name(name)}: a point") for k in kinds(plan)), kinds(plan)


@pytest.mark.parametrize(("name", "column"), [("totals", "distinct_y"), ("hourly", "count"), ("closed", "max_x"), ("chained", "count")])
def test_what_a_leaving_group_carries_is_found(plan: Plan, name: str, column: str) -> None:
    small.altered(plan, changes_name(name), carried_of_change(column))
    assert any("its changes at this instant" in k and "carried columns" in k for k in kinds(plan))


@pytest.mark.parametrize(("name", "column"), [("totals", "count"), ("hourly", "count"), ("chained", "count"), ("closed", "max_x")])
def test_what_a_group_carries_in_all_tables_is_found(plan: Plan, name: str, column: str) -> None:
    changes = consistent.changes_of(plan, name)
    entered = [r for r in changes.rows if r["change"] == "+" and r[column] is not None]
    entered[len(entered) // 2][column] += 1
    small.altered(plan, changes_name(name), lambda _: changes.rows)
    same = {n: entered[len(entered) // 2][n] for n in ("grp", "side")}, entered[len(entered) // 2]["changed_at"]

    def stay(rows: Rows) -> None:
        for r in rows:
            if all(r[n] == v for n, v in same[0].items()) and r["valid_from"] == same[1]:
                r[column] += 1

    small.altered(plan, name, stay)
    assert any("carried columns" in k for k in kinds(plan))


@pytest.mark.parametrize("what", ["score", "max_x", "gone"])
def test_a_lie_in_a_final_result_is_found(plan: Plan, what: str) -> None:
    def change(rows: Rows) -> Rows:
        mine = sorted(rows, key=lambda r: (r["grp"], r["window_end"], r["rank"]))
        row = next(r for r in mine[len(mine) // 2 :] if r["rank"] == 1 and r[what if what != "gone" else "score"] is not None)
        if what == "gone":
            return [r for r in rows if (r["grp"], r["window_end"]) != (row["grp"], row["window_end"])]
        row[what] += 1
        return rows

    small.altered(plan, final_name("closed"), change)
    assert f"table {final_name('closed')}: differs from the definition" in kinds(plan)


@pytest.mark.parametrize("name", GROUPS)
def test_every_other_cause_is_found(made: Plan, name: str) -> None:
    """The source is compared once for as many of them as there are instants with such a cause: each is to be found at its own."""
    pairs = [(a, b) for a, b in consistent.causes(consistent.changes_of(made, name)) if b != "crossing"]
    assert pairs
    while pairs:
        plan, places, left = small.copied(made), dict[int, tuple[str, str]](), list[tuple[str, str]]()
        changes = consistent.changes_of(plan, name)
        for pair in pairs:
            place = consistent.another_cause(changes, *pair, set(places))
            if place is None:
                left.append(pair)
            else:
                places[place] = pair
        small.altered(plan, changes_name(name), lambda _, rows=changes.rows: rows)  # type: ignore[misc]
        found = {d.at for d in compared(plan).differences if "its changes at this instant" in d.kind and "causes" in d.kind}
        assert {pair for place, pair in places.items() if place not in found} == set()
        pairs = left


@pytest.mark.parametrize(("rule", "counter"), [("replace", "replaced"), ("keep_first", "kept_first")])
@pytest.mark.parametrize("by", [1, -1])
def test_counters_of_runs_are_compared_with_the_source(tmp_path: Path, rule: str, counter: str, by: int) -> None:
    (tmp_path / "job.yaml").write_text(spec_of("lies", QUERIES, rule))
    plan = small.copied(small.make(tmp_path / "job.yaml", ROWS))
    assert [d.text() for d in compared(plan).differences] == []

    def change(rows: Rows) -> None:
        row = next(r for r in rows if json.loads(r["counters"]).get(counter, 0) > 1)
        counters = json.loads(row["counters"])
        row["counters"] = json.dumps({**counters, counter: counters[counter] + by})

    small.altered(plan, "runs", change)
    assert any(f"{counter} of its counters" in k for k in kinds(plan))
