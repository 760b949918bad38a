"""Differences of a result in two runs: what is one difference, and which rows are its own."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from skyband.framework.plan.model import QueryNode
from skyband.framework.tables.schemas import changes_schema
from skyband.framework.whatif.compare import Difference, compare
from skyband.framework.whatif.rows import change_of
from skyband.framework.whatif.sides import Point, Side, streams
from skyband.framework.whatif.whatif import what_if
from tests.framework.tables.plans import item_row, make_plan, to_table
from tests.framework.whatif import ran
from tests.framework.whatif.test_kinds import SPEC

QUERY = cast("QueryNode", SimpleNamespace(item=SimpleNamespace(lasting=True, moves=False)))


Log = Sequence[tuple[int, bool, str, int]]
"""Changes: (instant, enters or leaves, name of the newer row of a pair, the run's number of it)."""


def side(*changes: tuple[int, bool, str, int], points: Sequence[tuple[int, str, Any, int | None]] = ()) -> Side:
    """What ``streams`` makes of a log of changes, and of points: (instant, name, value, slope)."""
    plan = make_plan("unused")
    rows = []
    for step, (at, enters, name, number) in enumerate(changes, 1):
        row = {**item_row((0, number), ("older", "newer"), ("x", "price")), "newer_id": ord(name), "newer_time": 0, "newer_x": 0.0}
        row |= {"changed_at": at, "step": step, "pos": 0, "change": "+" if enters else "-", "cause": "arrival", "score": 0.0, "batch_id": 0}
        rows.append({**row, "newer_price": None})
    tables = {"near_changes": to_table(rows, changes_schema(plan, plan.queries[0]))}
    made = streams(plan, plan.queries[0], tables, lambda key: 100, False).get((), Side())
    names = {chr(c.name[2]): c.name for c in made.changes}
    made.points = [Point(at, names[name], value, slope) for at, name, value, slope in points]
    return made


def spans(found: Sequence[Difference]) -> list[tuple[Any, ...]]:
    return [(chr(d.name[2]), d.since, d.until, d.kind) for d in found]


def test_an_item_that_leaves_and_enters_at_one_instant_is_one_difference() -> None:
    was: Log = ((1, True, "a", 1), (9, False, "a", 1))
    for at_five in ([(5, False, "b", 2), (5, True, "b", 3)], [(5, True, "b", 3), (5, False, "b", 2)]):
        now = side((1, True, "a", 1), (2, True, "b", 2), *at_five, (8, False, "b", 3), (9, False, "a", 1))
        assert spans(compare((), QUERY, side(*was), now, False)) == [("b", 2, 8, "entered")]


def test_an_item_that_enters_and_leaves_within_one_instant_is_none() -> None:
    assert compare((), QUERY, side((1, True, "a", 1)), side((1, True, "a", 1), (3, True, "b", 2), (3, False, "b", 2)), False) == []


def test_a_point_that_repeats_the_value_does_not_split_a_difference() -> None:
    again = [(1, "a", 4.0, None), (3, "a", 4.0, None), (5, "a", 6.0, None)]
    now = side((1, True, "a", 1), (7, False, "a", 1), points=again)
    assert spans(compare((), QUERY, side(), now, False)) == [("a", 1, 5, "entered"), ("a", 5, 7, "entered")]
    moving = [(1, "a", 10, 2), (3, "a", 14, 2)]
    assert spans(compare((), QUERY, side(), side((1, True, "a", 1), points=moving), False)) == [("a", 1, None, "entered")]


def test_the_rows_of_a_group_are_its_own_and_another_rank_is_due_to_others(tmp_path: Path) -> None:
    spec = tmp_path / "job.yaml"
    text = SPEC.replace("path: in", f"path: {tmp_path}/in").replace("path: out", f"path: {tmp_path}/out")
    query = "queries:\n  loud: {type: topk_groups, group: who, score: sum(x), k: 3}\n"
    spec.write_text(text[: text.index("queries:")] + query + text[text.index("sink:") :])
    rows = [
        {"id": i, "ts": f"2020-01-01T00:0{i}:00Z", "grp": "p", "who": who, "said": "s", "x": x}
        for i, (who, x) in enumerate([("a", 5), ("b", 6), ("a", 4), ("c", 1)])
    ]
    plan = ran.make(spec, [rows])
    (found,) = what_if(plan, plan, change_of(plan, [], ["2"], [])).queries
    own = {(d.name[0], d.kind): because.own for d, because in found.found}
    assert own == {("a", "other"): True, ("b", "other"): False} and all(b.total == 1 for _, b in found.found)
