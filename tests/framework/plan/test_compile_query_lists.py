"""Tables of queries and deletions in the plan: which operator is chosen and why, what shapes state, what ``explain`` says."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from skyband.framework.base.errors import SkybandError
from skyband.framework.plan.compile import compile_job
from skyband.framework.plan.explain import explain
from skyband.framework.plan.fingerprint import compare, fingerprint
from skyband.framework.plan.model import Plan
from skyband.framework.queries.single_rows.compile import FEW
from skyband.framework.spec.load import validate_file
from skyband.operators.base import Operator, Window
from skyband.operators.expressions.canonical import canonical
from skyband.operators.side_by_side import SideBySide
from skyband.operators.single_rows.scores import Linear
from skyband.operators.threshold.many import ManyThreshold
from skyband.operators.threshold.one_function import Threshold
from skyband.operators.topk.many import ManyTopK
from skyband.operators.topk.one_function import TopK, TopKDeletes
from tests.specs import spec_text

SPEC = spec_text(
    "tables",
    "{id: bigint, ts: timestamp, x: double, y: int, side: string}",
    window="{count: 100}",
    scoring={"high": "{expression: x, direction: max}"},
    queries={"many": "{QUERY}"},
)
FAMILIES = {
    "product": "{expression: (c + x) * (e + y), direction: max}",
    "grown": "{expression: c * exp(x) + e}",
    "plain": "{expression: c - e}",
}
TOPK = "type: topk, k: 3, queries_from: {format: csv, path: table.csv}"
THRESHOLD = "type: threshold, at_least: 1, queries_from: {format: csv, path: table.csv}"


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path


def plan_of(directory: Path, query: str, table: str, **replaced: str) -> Plan:
    (directory / "table.csv").write_text(table)
    text = SPEC.replace("QUERY", query)
    for name, scoring in FAMILIES.items():
        if f"scoring: {name}" in query:
            text = text.replace("scoring:\n", f"scoring:\n  {name}: {scoring}\n", 1)
    for old, new in replaced.items():
        text = text.replace(f"{old}:", new)
    (directory / "spec.yaml").write_text(text)
    job, errors = validate_file(str(directory / "spec.yaml"), {})
    assert job is not None and not errors, [e.render() for e in errors]
    return compile_job(job)


def linear_table(rows: int, more: str = "", cells: str = "") -> str:
    return f"name,weight_x,weight_y{more}\n" + "".join(f"q{i},{i},{i / 2}{cells}\n" for i in range(rows))


def family_table(rows: int) -> str:
    return "name,c,e\n" + "".join(f"q{i},{i},{i / 2}\n" for i in range(rows))


GRID = "5 sets of parameters: an influence grid (bounds of its cells by interval arithmetic) finds the few that a row can concern"


@pytest.mark.parametrize(
    "query, table, kind, why",
    [
        (TOPK, linear_table(FEW), SideBySide, "so few cost less than a grid"),
        (TOPK, linear_table(FEW + 1), ManyTopK, "an influence grid finds the few that a row can concern"),
        (THRESHOLD, linear_table(FEW), SideBySide, "so few cost less than a grid"),
        (THRESHOLD, linear_table(FEW + 1), ManyThreshold, "an influence grid finds the few that a row can concern"),
        (TOPK.replace("k: 3", "k: 3, scoring: high"), "name,k\na,1\nb,2\n", TopK, "each row is scored once for all of them"),
        (THRESHOLD.replace("at_least: 1", "scoring: high"), "name,above\na,1\nb,2\n", Threshold, "each row is scored once for all of them"),
        (TOPK.replace("k: 3", "k: 3, scoring: high"), "name,where\na,y > 1\nb,\n", SideBySide, "predicates of their own"),
        (TOPK.replace("k: 3", "k: 3, scoring: high"), "name,max_score\na,1\nb,2\n", SideBySide, "predicates of their own"),
        (
            THRESHOLD.replace("at_least: 1", "scoring: high, below: 3, where: 'y < most'"), "name,most\na,1\nb,2\n", SideBySide,
            "a 'where' with parameters is a predicate of its own for each",
        ),
        (TOPK.replace("k: 3", "k: 3, scoring: product"), family_table(FEW), SideBySide, "4 sets of parameters side by side"),
        (TOPK.replace("k: 3", "k: 3, scoring: product"), family_table(FEW + 1), ManyTopK, GRID),
        (THRESHOLD.replace("at_least: 1", "scoring: product, above: 3"), family_table(FEW + 1), ManyThreshold, GRID),
        (TOPK.replace("k: 3", "k: 3, scoring: grown"), family_table(9), SideBySide, "exp(...) has no bounds that a grid could use"),
        (
            TOPK.replace("k: 3", "k: 3, scoring: product, where: 'y < c'"), family_table(9), SideBySide,
            "a 'where' with parameters is a predicate of its own for each",
        ),
        (
            TOPK.replace("k: 3", "k: 3, scoring: product"), "name,c,e,where\n" + "".join(f"q{i},1,2,y > {i}\n" for i in range(63)),
            SideBySide, "more than 62 different predicates",
        ),
        (TOPK.replace("k: 3", "k: 3, scoring: plain"), "name,c,e\n" + "".join(f"q{i},1,2\n" for i in range(9)), SideBySide, "nothing else"),
    ],
)  # fmt: skip
def test_the_operator_is_chosen_by_cost(directory: Path, query: str, table: str, kind: type[Any], why: str) -> None:
    plan = plan_of(directory, query, table)
    (node,) = plan.operators
    assert type(node.operator) is kind and isinstance(node.operator, Operator)
    text = explain(plan)
    assert why in text and f"{len(plan.queries[0].members):,} queries of a table" in text
    assert not node.skyband and "many_skyband" not in text
    again = pickle.loads(pickle.dumps(plan))
    assert type(again.operators[0].operator) is kind and compare(fingerprint(plan), fingerprint(again)) == []


def test_every_cell_reaches_the_operator(directory: Path) -> None:
    rows = ["a,1,2,7,50 rows,side = 'p',0,,5,", "b,3,,,,side = 'p',,1,,9", "c,,4,,,,,,,", "d,1,1,,,y > 2,,,,", "e,1,1,,,,,,,"]
    table = "name,weight_x,weight_y,k,window,where,min_x,max_y,min_score,max_score\n" + "\n".join(rows) + "\n"
    plan = plan_of(directory, TOPK.replace("k: 3", "k: 3, every: 1 hour, where: 'y > 0'"), table)
    op: Any = plan.operators[0].operator
    assert op.names == ("a", "b", "c", "d", "e") == plan.queries[0].members
    assert op.attributes == ("x", "y") and op.ints == {"y"}
    assert op.weights.tolist() == [[1, 2], [3, 0], [0, 4], [1, 1], [1, 1]]
    assert op.k.tolist() == [7, 3, 3, 3, 3] and op.counts.tolist() == [50, 100, 100, 100, 100] and op.window == Window(100)
    assert op.low.tolist()[:2] == [[0, -np.inf], [-np.inf, -np.inf]] and op.high.tolist()[:2] == [[np.inf, np.inf], [np.inf, 1]]
    # The rows' own ``where`` stands in for the entry's.
    assert len(op.where) == 3 and op.where_of.tolist() == [0, 0, 1, 2, 1]
    assert op.min_score.tolist()[0] == 5 and op.max_score.tolist()[1] == 9 and np.isnan(op.max_score[0])
    assert op.every.tolist() == [3_600_000_000] * 5
    assert plan.operators[0].k == plan.queries[0].k == 7
    asked = plan.queries[0].asked[0]
    assert asked.scoring == Linear((("x", 1.0), ("y", 2.0)), frozenset({"y"})) and asked.bounds == (5, None) and asked.k == 7


def test_the_parameters_of_an_expression_reach_the_operator(directory: Path) -> None:
    wheres = ["", "y > 1", "", "", "x < 3"]
    rows = "".join(f"{name},{e},7,{e / 4},50 rows,{wheres[e]}\n" for e, name in enumerate("edcba"))
    plan = plan_of(directory, TOPK.replace("k: 3", "k: 3, scoring: product"), "name,e,k,c,window,where\n" + rows)
    op: Any = plan.operators[0].operator
    assert op.names == ("a", "b", "c", "d", "e") and op.attributes == ("x", "y") and op.parameters == ("c", "e") and op.ints == {"y"}
    assert op.weights.tolist() == [[1, 4], [0.75, 3], [0.5, 2], [0.25, 1], [0, 0]]
    assert canonical(op.score) == "(c + x) * (e + y)" and op.largest.all() and op.k.tolist() == [7] * 5
    assert op.low is None and op.high is None and op.counts.tolist() == [50] * 5 and op.where_of.tolist() == [0, -1, -1, 1, -1]
    assert "(c + x) * (e + y) (max first)" in explain(plan)
    assert plan.queries[0].asked[0].parameters == (("e", 4.0), ("c", 1.0))


def test_a_changed_row_is_a_changed_spec_and_its_place_is_not(directory: Path) -> None:
    table = linear_table(6)
    before = fingerprint(plan_of(directory, TOPK, table))
    lines = table.splitlines()
    changed = "\n".join([*lines[:3], "q2,2,7", *lines[4:6], "new,1,1"]) + "\n"
    assert compare(before, fingerprint(plan_of(directory, TOPK, changed))) == [
        "queries.many.queries_from.q2 has changed", "queries.many.queries_from.q5 has been removed",
        "queries.many.queries_from.new is new",
    ]  # fmt: skip
    other_way = "\n".join([lines[0], *lines[:0:-1]]) + "\n"
    moved = plan_of(directory, TOPK, other_way)
    assert compare(before, fingerprint(moved)) == [] and moved.queries[0].members == tuple(f"q{i}" for i in range(6))
    many = fingerprint(plan_of(directory, TOPK, linear_table(200)))
    assert compare(many, fingerprint(plan_of(directory, TOPK, linear_table(200).replace("\nq", "\np"))))[-1] == "380 more differences"


def test_with_deletions_the_window_is_kept(directory: Path) -> None:
    for query, table, kind in (
        ("type: topk, k: 3, scoring: high", "", TopKDeletes),
        (TOPK, linear_table(6), ManyTopK),
        ("type: threshold, scoring: high, above: 2", "", Threshold),
    ):
        plan = plan_of(directory, query, table, window="deletes: side = 'd'\nwindow:")
        assert type(plan.operators[0].operator) is kind and not plan.operators[0].skyband
        assert plan.texts == ("d",) and plan.intake.deletes is not None
        assert compare(fingerprint(plan_of(directory, query, table)), fingerprint(plan)) != []
        assert "side = 'd'" in explain(plan)


def test_a_table_that_changes_between_check_and_start_is_a_clear_error(directory: Path) -> None:
    (directory / "table.csv").write_text(linear_table(3))
    (directory / "spec.yaml").write_text(SPEC.replace("QUERY", TOPK))
    job, errors = validate_file(str(directory / "spec.yaml"), {})
    assert job is not None and not errors
    (directory / "table.csv").write_text("name,weight_x\na,much\n")
    with pytest.raises(SkybandError) as e:
        compile_job(job)
    assert e.value.code == "SKY-E144"
