"""Compilers of single-row query types, through the same plan."""

import pytest

from skyband.framework.plan.explain import explain
from skyband.framework.plan.fingerprint import compare, fingerprint
from skyband.framework.plan.model import Plan
from skyband.framework.queries.skyline.query_type import skyline_size
from skyband.framework.spec.load import validate_text
from skyband.operators.base import Operator
from tests.framework.plan.test_compile import plan_of
from tests.framework.spec.examples import other

DAY = 86_400_000_000


def with_queries(query_type: str, *queries: str) -> Plan:
    text = other(query_type)
    head, rest = text.split("queries:\n")
    return plan_of(head + "queries:\n" + "".join(f"  {q}\n" for q in queries) + rest[rest.index("sink:") :])


@pytest.mark.parametrize("query_type", ["topk", "threshold", "skyline"])
def test_examples_compile(query_type: str) -> None:
    plan = plan_of(other(query_type))
    for node in plan.operators:
        assert isinstance(node.operator, Operator) and node.operator.roles == ("",)
    assert all([p.role for p in q.item.parts] == [""] and q.item.scored == (query_type != "skyline") for q in plan.queries)
    assert "state " in explain(plan)
    assert compare(fingerprint(plan), fingerprint(plan)) == []


def test_topk_shares_by_function_direction_where_and_best_bound() -> None:
    plan = with_queries(
        "topk",
        "a: {type: topk, scoring: heat, k: 3}",
        "b: {type: topk, scoring: heat, k: 9, window: {time: 1 day}, min_score: 2}",
        "c: {type: topk, scoring: heat, k: 3, where: \"sector = 'x'\"}",
        "d: {type: topk, scoring: heat, k: 3, max_score: 2}",
        "e: {type: topk, scoring: steady, k: 3}",
    )
    assert [o.queries for o in plan.operators] == [("a", "b"), ("c",), ("d",), ("e",)]
    assert plan.operators[0].k == 9 and plan.operators[0].window.micros == 30 * DAY
    assert plan.texts == ("x",)


def test_thresholds_share_whatever_their_bounds() -> None:
    plan = with_queries(
        "threshold", "a: {type: threshold, scoring: heat, at_least: 5}", "b: {type: threshold, scoring: heat, above: 1, below: 3}"
    )
    assert [o.queries for o in plan.operators] == [("a", "b")]
    assert not plan.operators[0].skyband
    changed = with_queries(
        "threshold", "a: {type: threshold, scoring: heat, at_least: 6}", "b: {type: threshold, scoring: heat, above: 1, below: 3}"
    )
    assert compare(fingerprint(plan), fingerprint(changed)) == ["queries.a.at_least was 5.0, now 6.0"]


def test_skylines_share_over_windows_only() -> None:
    plan = with_queries(
        "skyline",
        "a: {type: skyline, dimensions: {price: min, volume: max}}",
        "b: {type: skyline, dimensions: {price: min, volume: max}, window: {time: 1 day}}",
        "c: {type: skyline, dimensions: {price: min, volume: max}, band: 3}",
        "d: {type: skyline, dimensions: {price: max, volume: max}}",
    )
    assert [(o.queries, o.k) for o in plan.operators] == [(("a", "b"), 1), (("c",), 3), (("d",), 1)]
    text = explain(plan)
    assert "compares  price min, volume max; in the result if no row of the window beats it" in text
    assert "shared by 2 queries: same type, dimensions, prefer, band, distinct, where, by and weights" in text
    assert "in the result if fewer than 3 rows of the window beat it" in text


def test_a_changed_skyline_is_told_by_name() -> None:
    plan, other_band = (with_queries("skyline", f"a: {{type: skyline, dimensions: {{price: min}}, band: {b}}}") for b in (1, 2))
    assert compare(fingerprint(plan), fingerprint(other_band)) == ["queries.a.band was 1, now 2"]
    turned = with_queries("skyline", "a: {type: skyline, dimensions: {price: max, sector: equal}}")
    assert compare(fingerprint(plan), fingerprint(turned)) == ["queries.a.dimensions was [price min], now [price max, sector equal]"]


@pytest.mark.parametrize("d, n, measured", [(2, 10_000, 49), (3, 10_000, 163), (3, 100_000, 298), (4, 10_000, 418), (5, 10_000, 884)])
def test_predicted_size_of_a_skyline_is_near_the_measured(d: int, n: int, measured: int) -> None:
    assert skyline_size(1, n, d) == pytest.approx(measured, rel=0.06)
    assert skyline_size(5, 4, d) == 4


def test_columns_of_the_skyband_are_kept_free() -> None:
    text = other("skyline").replace("sector: string", "pred: string").replace(", sector: equal", "")
    _, errors = validate_text(text.replace("volume: max}}", "volume: max}, carry: [pred]}"), {})
    assert [e.code for e in errors] == ["SKY-E124"] and "skyline's skyband" in errors[0].message
    _, errors = validate_text(text.replace("id: [id]", "id: [id]\n  partition_by: [pred]"), {})
    assert [e.code for e in errors] == ["SKY-E124"]


def test_a_band_has_a_limit() -> None:
    _, errors = validate_text(other("skyline").replace("equal}}", "equal}, band: 5000}"), {})
    assert len(errors) == 1 and "4096" in errors[0].message.replace(",", "")
