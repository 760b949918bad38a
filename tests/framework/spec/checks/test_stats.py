"""Mistakes of ``stats:`` and of expressions that read statistics; what a plan and its fingerprint say of them."""

from __future__ import annotations

import pytest

from skyband.framework.plan.explain import explain
from skyband.framework.plan.fingerprint import compare, concealed, fingerprint
from skyband.framework.plan.growth import additions
from skyband.framework.plan.model import Plan
from skyband.framework.plan.nodes import StatisticsNode
from skyband.framework.spec.load import validate_text
from skyband.operators.base import Window
from tests.specs import plan_of_text, spec_text

SPEC = spec_text(
    "stats",
    '{id: bigint, ts: timestamp, g: string, x: double, d: "decimal(20,2)", e: array<float>, usual_sum: int}',
    format="json",
    deletes="g = 'gone'",
    window="{time: 10 days}",
    stats={"usual": "{mean: x, stddev: x, count: g, by: [g], window: 7 days, at_least: 3}", "largest": "{max: d}"},
    scoring={"odd": '{expression: "(x - usual.mean) / usual.stddev"}', "one": "{linear: {usual_mean: 1}}"},
    queries={
        "best": '{type: topk, scoring: odd, k: 2, where: "usual.count > 1", carry: [usual_mean, largest_max]}',
        "first": "{type: topk, scoring: one, k: 1}",
        "sums": '{type: topk_groups, group: g, score: "sum(x - usual.mean)", k: 2}',
    },
)
PAIRS = SPEC.replace("deletes: g = 'gone'\n", "").replace("type: topk, scoring: odd", "type: topk_pairs, scoring: odd")
PAIRS = PAIRS.replace("(x - usual.mean) / usual.stddev", "a.usual.mean - b.x").replace("usual.count > 1", "a.usual.count = b.usual.count")
LOYALTY = SPEC.replace("deletes: g = 'gone'\n", "").replace(
    "type: topk, scoring: one, k: 1", 'type: topk_loyalty, object: g, criteria: "x > usual.mean", where: "x > usual.mean", k: 1'
)

WITHOUT = spec_text(
    "plain",
    "{id: int, ts: timestamp}",
    window="{count: 1}",
    scoring={"s": "{expression: id}"},
    queries={"q": "{type: topk, scoring: s, k: 1}"},
)

MISTAKES = [
    (SPEC, "mean: x", "mean: xx", "SKY-E120", "xx", "did you mean"),
    (SPEC, "mean: x", "mean: g", "SKY-E126", "g", "count takes any column"),
    (SPEC, "count: g", "sum: d", "SKY-E126", "d", "decimal(18,2)"),
    (SPEC, "count: g", "sum: x", "SKY-E125", "sum", "choose another name"),
    (SPEC, "{max: d}", "{by: [g]}", "SKY-E111", "largest", "such as mean: amount"),
    (SPEC, "{max: d}", "{max: usual_mean}", "SKY-E120", "usual_mean", None),
    (SPEC, "largest: ", "a: ", "SKY-E116", "a", "the two rows"),
    (SPEC, "by: [g]", "by: [x]", "SKY-E126", "x", "cast(x as string)"),
    (SPEC, "by: [g]", "by: [g, g]", "SKY-E125", "g", None),
    (SPEC, "by: [g]", "by: [e]", "SKY-E126", "e", None),
    (SPEC, "window: 7 days", "window: 11 days", "SKY-E140", "11 days", "enlarge the job's window"),
    (SPEC, "window: 7 days", "window: {count: 5}", "SKY-E141", "5", "add count"),
    (SPEC, "window: 7 days", "window: 7", "SKY-E115", "7", None),
    (SPEC, "at_least: 3", "at_least: 0", "SKY-E114", "0", None),
    (SPEC, "at_least: 3", "at_last: 3", "SKY-E110", "at_last", "at_least"),
    (SPEC, "/ usual.stddev", "/ usual.stdev", "SKY-E130", "usual.stdev", "usual.stddev"),
    (SPEC, "sum(x - usual.mean)", "sum(x) - usual.mean", "SKY-E130", "usual.mean", "sum(usual.mean)"),
    (SPEC, "deletes: g = 'gone'", "deletes: usual.mean > 1", "SKY-E130", "usual.mean", None),
    (SPEC, "carry: [usual_mean", "carry: [usual_min", "SKY-E120", "usual_min", "usual_mean"),
    (PAIRS, "a.usual.mean", "usual.mean", "SKY-E130", "usual.mean", "a.usual.mean or b.usual.mean"),
    (LOYALTY, "x > usual.mean", "x < usual.mean", "SKY-E117", '"x > usual.mean"', "criteria"),
]


@pytest.mark.parametrize(("text", "old", "new", "code", "marked", "hint"), MISTAKES)
def test_each_mistake_is_reported_at_its_place(text: str, old: str, new: str, code: str, marked: str, hint: str | None) -> None:
    assert old in text
    _, errors = validate_text(text.replace(old, new, 1))
    found = [e for e in errors if e.code == code]
    assert found, [e.render() for e in errors]
    shown = [(e.where.text[e.where.col - 1 :], e.hint or "") for e in found if e.where is not None]
    assert any(text.startswith(marked) and (hint is None or hint in said) for text, said in shown), [e.render() for e in found]


def test_wrong_statistics_cause_no_other_mistakes() -> None:
    _, errors = validate_text(SPEC.replace("at_least: 3", "at_least: none"))
    assert [e.code for e in errors] == ["SKY-E112"]


def test_a_plan_has_the_statistics() -> None:
    plan = plan_of_text(SPEC)
    usual = StatisticsNode("usual", (("mean", "x"), ("stddev", "x"), ("count", "g")), ("g",), Window(None, 7 * 86_400_000_000), 3)
    assert plan.statistics == (usual, StatisticsNode("largest", (("max", "d"),), (), Window(None, 10 * 86_400_000_000), 1))
    assert plan.operators[0].reads == ("x", "usual_mean", "usual_stddev", "usual_count")
    assert (plan.field("usual_mean").type, plan.field("x").type) == ("double", "double")
    text = explain(plan)
    usual_line = (
        "stats usual: mean of x, stddev of x, count of g, of the rows before each row with the same g, window 7 days; null before 3"
    )
    assert usual_line in text and "stats largest: max of d, of the rows before each row, window 10 days\n" in text
    assert "of its rows only those" not in text


def test_expressions_over_pairs_read_both_rows() -> None:
    assert plan_of_text(PAIRS).operators[0].reads == ("usual_mean", "x", "usual_count")


def test_changed_statistics_do_not_fit_the_state() -> None:
    before, now = plan_of_text(SPEC), plan_of_text(SPEC.replace("at_least: 3", "at_least: 4"))
    assert compare(fingerprint(before), fingerprint(before)) == []
    assert compare(fingerprint(before), fingerprint(now)) == ["stats.usual.at_least was 3, now 4"]
    assert "stats" not in fingerprint(plan_of_text(WITHOUT))


def kept(plan: Plan) -> dict[str, object]:
    return concealed(fingerprint(plan), plan, "salt")


def test_statistics_can_be_added_with_queries() -> None:
    less = SPEC.replace("  largest: {max: d}\n", "").replace(", largest_max", "")
    more = less.replace("  sums:", "  more: {type: topk, scoring: more, k: 1}\n  sums:")
    more = more.replace("  one:", "  more: {expression: fresh.min}\n  one:")
    more = more.replace("scoring:\n", "  fresh: {min: x}\nscoring:\n", 1)
    found = additions(kept(plan_of_text(less)), plan_of_text(more), "salt")
    assert found is not None and found.queries == ("more",) and found.states == ("more",)
    assert additions(kept(plan_of_text(less)), plan_of_text(more.replace("at_least: 3", "at_least: 4")), "salt") is None
    assert additions(kept(plan_of_text(more)), plan_of_text(less), "salt") is None
