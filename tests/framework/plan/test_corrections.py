"""Corrected rows and change feeds in plans: their fingerprint and what ``skyband explain`` says."""

from __future__ import annotations

from skyband.framework.plan.explain import explain
from skyband.framework.plan.fingerprint import compare, fingerprint
from skyband.framework.plan.model import Derive, Filter
from tests.specs import plan_of_text, spec_text

FEED = "op: {column: op, insert: [c, 2], update: [u], delete: [d], ignore: [m, t]}"


def text(more: str = "", **sections: str) -> str:
    return spec_text(
        "feed", "{id: bigint, ts: timestamp, x: double, op: string}", more=more, **sections, window="{time: 1 hour}",
        scoring={"x": "{expression: x, direction: max}"}, queries={"best": "{type: topk, scoring: x, k: 1}"},
    )  # fmt: skip


def test_the_fingerprint_has_what_decides_about_rows() -> None:
    plain, feed = fingerprint(plan_of_text(text())), fingerprint(plan_of_text(text(FEED)))
    assert not {"op", "on_duplicate"} & set(plain["source"])  # as in jobs of former versions
    assert compare(plain, fingerprint(plan_of_text(text("on_duplicate: replace"))))[0] == "source.on_duplicate is new (replace)"
    assert feed["source"]["op"] == {"column": "op", "insert": ["c", "2"], "update": ["u"], "delete": ["d"], "ignore": ["m", "t"]}
    assert not feed["transform"]
    assert compare(feed, fingerprint(plan_of_text(text(FEED.replace("[u]", "[u, v]"))))) == ["source.op.update was [u], now [u, v]"]
    assert compare(feed, fingerprint(plan_of_text(text(FEED.replace("[m, t]", "[m]"))))) == ["source.op.ignore was [m, t], now [m]"]


def test_rows_to_ignore_are_filtered_after_all_columns_are_there() -> None:
    plan = plan_of_text(text(FEED.replace("column: op", "column: kind"), transform="[{derive: {kind: {sql: lower(op), type: string}}}]"))
    derived, ignored = plan.intake.transforms
    assert isinstance(derived, Derive) and ignored == Filter("coalesce(cast(`kind` as string) not in ('m', 't'), true)")


def test_explain_says_what_rows_do() -> None:
    said = explain(plan_of_text(text(FEED + "\non_duplicate: keep_first")))
    assert (
        "rows by op: c, 2 insert; u replace the row with their id, or insert; d delete the row with their id; others are rejected" in said
    )
    assert "id id (checked against the window; later rows are counted as filtered)" in said
    assert "a later row replaces the one there" in explain(plan_of_text(text("on_duplicate: replace")))
