"""``verify`` over trajectories whose points have what groups carry: they are as defined, and what is wrong in them is found."""

from __future__ import annotations

import random
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest

from skyband.framework.plan.model import Plan
from skyband.framework.tables.schemas import tables, trajectory_name
from skyband.framework.verify.differences import Difference
from skyband.framework.verify.replay.causes import Clocks
from skyband.framework.verify.replay.replay import replay
from tests.framework.verify import small
from tests.framework.verify.consistent import Rows
from tests.framework.verify.group_jobs import instants, spec_of, stamp

SPEC = spec_of(
    "carried_points",
    """\
queries:
  groups: {type: topk_groups, group: side, score: sum(x), k: 2, carry: [distinct(y), last(y), first(id), last(side), count()]}
  inside: {type: threshold_groups, group: side, score: count(), above: 2, below: 1, carry: [max(x)], window: {session: 4 minutes}}
  plain: {type: topk_groups, group: side, score: sum(x), k: 1, carry: [last(y)]}
  hourly: {type: topk_groups, group: side, score: sum(x), k: 2, every: 5 minutes, carry: [last(y), last(side), count()]}
  sky: {type: skyline, from: groups, dimensions: {groups_score: max, distinct_y: max}}
  high: {type: topk_groups, from: inside, group: side, score: max(max_x), k: 1}
  regular: {type: topk_groups, from: hourly, group: side, score: max(count), k: 1}
""",
)


def rows_of(seed: int) -> list[list[Any]]:
    rng, found = random.Random(seed), list[list[Any]]()
    for i, at in enumerate(instants(rng, 150)):
        found.append([i, stamp(at), rng.choice("pq"), rng.choice(["", 0.0, 1.0, 2.5, -1.0]), float(rng.randrange(3)), rng.choice("abc")])
    return [[None if v == "" and n == 3 else v for n, v in enumerate(row)] for row in found]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Plan:
    directory = tmp_path_factory.mktemp("carried")
    (directory / "job.yaml").write_text(SPEC)
    return small.make(directory / "job.yaml", [[*("" if v is None else v for v in row)] for row in rows_of(1)])


ROWS = [[*("" if v is None else v for v in row)] for row in rows_of(1)]


def replayed(plan: Plan, name: str) -> list[Difference]:
    stored = small.tables_of(plan)
    (query,) = [q for q in plan.queries if q.name == name]
    return replay(stored, query, Clocks(stored)).differences


def test_points_are_as_defined(made: Plan) -> None:
    schemas = {t.name: t.schema.names for t in tables(made)}
    carried = {q.name: [c.name for c in q.item.carried if c.name in schemas[trajectory_name(q.name)]] for q in made.queries}
    assert carried == {
        "groups": ["distinct_y", "last_y", "first_id", "last_side", "count"], "inside": ["max_x"], "plain": ["last_y"],
        "hourly": ["last_y", "last_side", "count"],
    }  # fmt: skip
    for query in made.queries:
        assert [d.text() for d in replayed(made, query.name)] == []
        assert [d.text() for d in small.of_source(made, query.name, ROWS).differences] == []


def another_value(rows: Rows) -> Rows:
    return [{**r, "distinct_y": r["distinct_y"] + 7} if i == len(rows) // 2 else r for i, r in enumerate(rows)]


def a_point_less(rows: Rows) -> Rows:
    """Without the point of a group whose score stays."""
    rows = sorted(rows, key=lambda r: (r["grp"], r["side"], r["valid_from"]))
    same = (i for i in range(1, len(rows)) if all(rows[i][c] == rows[i - 1][c] for c in ("grp", "side", "score")))
    gone = next(i for i in same if rows[i]["distinct_y"] != rows[i - 1]["distinct_y"])
    return [r for i, r in enumerate(rows) if i != gone]


def test_a_score_may_stay_where_a_point_is(made: Plan) -> None:
    rows = sorted(small.tables_of(made).table("groups_trajectory").to_pylist(), key=lambda r: (r["grp"], r["side"], r["valid_from"]))
    assert sum(all(a[c] == b[c] for c in ("grp", "side", "score")) for a, b in pairwise(rows)) > 10


@pytest.mark.parametrize("alter", [another_value, a_point_less])
def test_what_is_wrong_is_found(made: Plan, alter: Callable[[Rows], Rows]) -> None:
    plan = small.copied(made)
    small.altered(plan, "groups_trajectory", alter)
    found = small.of_source(plan, "groups", ROWS).differences
    assert found and all("groups_trajectory" in d.where for d in found)


def test_a_point_without_another_value_is_found(made: Plan) -> None:
    plan = small.copied(made)

    def once_more(rows: Rows) -> Rows:
        first, after = rows[0], min(r["valid_from"] for r in rows if r["valid_from"] > rows[0]["valid_from"])
        return [*rows, {**first, "valid_from": first["valid_from"] + (after - first["valid_from"]) / 2}]

    small.altered(plan, "groups_trajectory", once_more)
    assert any("the values of the point before" in d.text() for d in replayed(plan, "groups"))
