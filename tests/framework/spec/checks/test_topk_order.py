"""Sort keys, ties, tie breaks and nulls of topk: mistakes, what queries share, fingerprints, and what ``explain`` says."""

from __future__ import annotations

from typing import Any

import pytest

from skyband.framework.plan.explain import explain
from skyband.framework.plan.fingerprint import compare, fingerprint
from skyband.framework.queries.registry import query_type
from skyband.framework.spec.load import validate_text
from skyband.framework.tables.schemas import changes_schema, now_schema
from skyband.operators.base import Column, units_column
from skyband.operators.topk.one_function import TopK
from skyband.operators.topk.ordered import OrderedTopK, OrderedTopKDeletes, text_column
from tests.specs import plan_of_text, spec_text

ORDER = "[{expression: price, direction: min}, {expression: name}, {expression: size / 2, as: half}]"
SPEC = spec_text(
    "offers",
    "{id: bigint, ts: timestamp, name: string, price: 'decimal(9,2)', big: 'decimal(20,2)', size: int, new: boolean, tags: array<string>}",
    format="json",
    window="{count: 10}",
    scoring={"dear": "{expression: size, direction: max}"},
    queries={
        "cheap": f"{{type: topk, k: 3, order: {ORDER}, carry: [size]}}",
        "cheaper": f"{{type: topk, k: 2, order: {ORDER}, window: {{count: 5}}, every: 1 hour}}",
        "first": "{type: topk, k: 4, order: [{expression: ts, direction: min}], ties: include}",
        "dear": "{type: topk, k: 2, scoring: dear, nulls: last, tie_break: [new, name]}",
        "plain": "{type: topk, k: 5, scoring: dear}",
    },
)

MISTAKES = [
    ("expression: price, direction", "expression: prize, direction", "SKY-E120", "prize", "did you mean 'price'?"),
    ("expression: price, direction", "expression: big, direction", "SKY-E126", "big", "decimal(18,2)"),
    ("expression: price, direction", "expression: tags, direction", "SKY-E126", "tags", "derive a text"),
    ("expression: price, direction", "expression: price, as: p, direction", "SKY-E117", "as", "leave out 'as'"),
    ("size / 2, as: half", "size / 2", "SKY-E111", "size / 2", "as: value"),
    ("size / 2, as: half", "name + 1, as: half", "SKY-E130", "name", None),
    ("size / 2, as: half", "size / 2, as: rank", "SKY-E124", "rank", "another name"),
    ("size / 2, as: half", "size / 2, as: name", "SKY-E124", "name", "another name"),
    ("size / 2, as: half", "size / 2, as: id", "SKY-E124", "id", "another name"),
    ("size / 2, as: half", "size / 2, as: half}, {expression: price", "SKY-E125", "price", None),
    ("size / 2, as: half", "size / 2, as: half}, {expression: size / 3, as: Half", "SKY-E124", "Half", None),
    ("direction: min}, {expression: name}", "direction: up}, {expression: name}", "SKY-E113", "up", "min"),
    ("order: [{expression: ts, direction: min}]", "order: []", "SKY-E114", "[]", None),
    ("order: [{expression: ts, direction: min}], ties", "ties", "SKY-E111", "first", "'order', sort keys"),
    ("ties: include", "ties: all", "SKY-E113", "all", "include"),
    ("ties: include", "ties: include, scoring: dear", "SKY-E117", "order", "leave out scoring"),
    ("ties: include", "ties: include, min_score: 3", "SKY-E117", "min_score", "in 'where'"),
    ("nulls: last", "nulls: last, max_score: 3", "SKY-E117", "max_score", "leave out one"),
    ("nulls: last", "nulls: first", "SKY-E113", "first", "last"),
    ("tie_break: [new, name]", "tie_break: [new, nam]", "SKY-E120", "nam", "did you mean 'name'?"),
    ("tie_break: [new, name]", "tie_break: [new, new]", "SKY-E125", "new", None),
    ("tie_break: [new, name]", "tie_break: []", "SKY-E114", "[]", None),
    ("tie_break: [new, name]", "tie_break: youngest", "SKY-E113", "youngest", "newest"),
    ("k: 5, scoring: dear", "k: 5, scoring: dear, ties: dense, window: {tumbling: 1 hour}", "SKY-E117", "ties", "hop"),
    ("k: 5, scoring: dear", "k: 5, ties: dense, queries_from: {format: csv, path: q.csv}", "SKY-E117", "ties", "leave it out"),
    (
        "k: 5, scoring: dear",
        "k: 5, order: [{expression: size}], queries_from: {format: csv, path: q.csv}",
        "SKY-E117",
        "order",
        "leave it out",
    ),
]


@pytest.mark.parametrize(("old", "new", "code", "marked", "hint"), MISTAKES)
def test_a_mistake_is_reported_where_it_is(old: str, new: str, code: str, marked: str, hint: str | None) -> None:
    at = SPEC.index(old)
    _, errors = validate_text(SPEC[:at] + new + SPEC[at + len(old) :])
    found = next((e for e in errors if e.code == code), None)
    assert found is not None and found.where is not None, [e.render() for e in errors]
    assert found.where.text[found.where.col - 1 :].startswith(marked), found.render()
    assert hint is None or hint in (found.hint or ""), found.render()


def test_more_than_eight_sort_keys_are_refused() -> None:
    many = ", ".join(f"{{expression: size + {i}, as: k{i}}}" for i in range(9))
    _, errors = validate_text(SPEC.replace("order: [{expression: ts, direction: min}]", f"order: [{many}]"))
    assert [(e.code, e.message) for e in errors] == [("SKY-E114", "'order' has more than 8 entries")]


def test_queries_of_equal_sort_keys_share_a_state() -> None:
    plan = plan_of_text(SPEC)
    assert [node.queries for node in plan.operators] == [("cheap", "cheaper"), ("first",), ("dear",), ("plain",)]
    operator: Any = plan.operators[0].operator
    assert isinstance(operator, OrderedTopK) and operator.keep_k == 3
    assert [k.of for k in operator.keys][:2] == [units_column("price"), text_column("name")]
    dear: Any = plan.operators[2].operator
    assert dear.tie_break == (Column("new", "bool"), text_column("name")) and dear.scored and dear.nulls_last
    assert {node.name: node.skyband for node in plan.operators} == {"cheap": True, "first": False, "dear": True, "plain": True}
    deleting = plan_of_text(SPEC.replace("\nwindow:", "\ndeletes: size > 1\nwindow:"))
    assert isinstance(deleting.operators[0].operator, OrderedTopKDeletes) and not deleting.operators[0].skyband


def test_a_query_without_these_fields_has_the_operator_and_the_fingerprint_that_it_had() -> None:
    plan = plan_of_text(SPEC)
    assert type(plan.operators[3].operator) is TopK
    assert fingerprint(plan)["queries"]["plain"] == {
        "type": "topk", "k": 5, "window": {"count": 10, "time": None}, "direction": "max", "carry": [], "every": None, "min_score": None,
        "max_score": None, "scoring": "size", "where": None,
    }  # fmt: skip
    newest = plan_of_text(SPEC.replace("k: 5, scoring: dear", "k: 5, scoring: dear, tie_break: newest"))
    assert fingerprint(newest) == fingerprint(plan) and type(newest.operators[3].operator) is TopK


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("ties: include", "ties: dense", "queries.first.ties was include, now dense"),
        ("nulls: last, ", "", "queries.dear.nulls_last"),
        ("tie_break: [new, name]", "tie_break: oldest", "queries.dear.tie_break"),
        ("{expression: ts, direction: min}", "{expression: ts}", "queries.first"),
        ("k: 5, scoring: dear", "k: 5, scoring: dear, ties: include", "queries.plain"),
    ],
)
def test_an_edit_of_a_job_is_a_difference(old: str, new: str, said: str) -> None:
    differences = compare(fingerprint(plan_of_text(SPEC)), fingerprint(plan_of_text(SPEC.replace(old, new))))
    assert any(d.startswith(said) for d in differences), differences


def test_the_tables_have_the_columns_that_rank_follows_from() -> None:
    plan = plan_of_text(SPEC)
    cheap, _, first, dear, _ = plan.queries
    assert [n for n in now_schema(plan, cheap).names if n != "as_of"] == ["rank", "id", "seq", "time", "size", "price", "name", "half"]
    assert "ts" in changes_schema(plan, first).names and "score" not in changes_schema(plan, first).names
    assert {"new", "name", "score"} <= set(changes_schema(plan, dear).names)
    kind = query_type("topk")
    assert kind.limits(plan, cheap, None).most == 3 and kind.limits(plan, first, None).most is None
    assert kind.limits(plan, dear, None).bounds == () == kind.limits(plan, cheap, None).bounds


def test_explain_says_what_ranks_and_what_is_kept() -> None:
    said = explain(plan_of_text(SPEC))
    for line in (
        "order     price (min first), then name (max first), then size / 2 (max first)",
        "ties      rows that equal the k-th by all sort keys are in the result, too",
        "equal     new, then name, then the newer first",
        "nulls     rows without a score rank after all others",
    ):
        assert line in said, said


@pytest.mark.parametrize(
    ("ties", "said"), [("", "; 3 items at a time"), (", ties: exclude", "; 3 items at a time"), (", ties: include", "")]
)
def test_a_result_that_ties_has_any_number_of_entries(ties: str, said: str) -> None:
    queries = {
        "top": f"{{type: topk, k: 3, order: [{{expression: price}}, {{expression: size * 2, as: twice}}]{ties}}}",
        "again": "{type: topk, from: top, k: 2, order: [{expression: top_twice}], window: {count: 5}}",
    }
    text = spec_text("chain", "{id: bigint, ts: timestamp, price: int, size: double}", window="{count: 10}", queries=queries)
    assert f"window 5 rows, and while in top{said}\n" in explain(plan_of_text(text))
