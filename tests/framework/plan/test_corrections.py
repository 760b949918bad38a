"""Corrected rows and change feeds in plans: their fingerprint and what ``skyband explain`` says."""

from __future__ import annotations

from pathlib import Path

import pytest

from skyband.framework.plan.explain import explain
from skyband.framework.plan.fingerprint import compare, fingerprint
from skyband.framework.plan.model import Derive, Filter
from skyband.framework.spec.load import validated_file
from tests.specs import Section, plan_of_text, spec_text

FEED = "op: {column: op, insert: [c, 2], update: [u], delete: [d], ignore: [m, t]}"


def text(more: str = "", **sections: Section) -> str:
    given: dict[str, Section] = {
        "window": "{time: 1 hour}",
        "scoring": {"x": "{expression: x, direction: max}"},
        "queries": {"best": "{type: topk, scoring: x, k: 1}"},
    }
    return spec_text("feed", "{id: bigint, ts: timestamp, x: double, op: string}", more=more, **(sections | given | sections))


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


@pytest.mark.parametrize(
    ("op", "time", "warned"),
    [
        (FEED, "{column: ts}", 1),
        ("op: {column: op, insert: [c], delete: [d]}", "{column: ts}", 1),
        ("op: {column: op, update: [u]}", "{column: ts}", 1),
        (FEED, "{column: ts, tie_break: [x]}", 0),
        # Rows that only insert need no order among them: the second one of an id is a duplicate wherever it comes.
        ("op: {column: op, insert: [c], ignore: [d]}", "{column: ts}", 0),
        ("", "{column: ts}", 0),
    ],
)
def test_a_change_feed_without_an_order_within_an_instant_is_warned_of(op: str, time: str, warned: int, tmp_path: Path) -> None:
    made = text(op, queries={"best": "{type: topk, scoring: x, k: 1}", "again": "{type: topk, from: best, scoring: of, k: 1}"},
                scoring={"x": "{expression: x}", "of": "{expression: best_score}"}).replace("{column: ts}", time)  # fmt: skip
    path = tmp_path / "feed.yaml"
    path.write_text(made)
    found = validated_file(path, {})
    assert found.document is not None and not found.errors
    assert [w.code for w in found.document.warnings] == ["SKY-E139"] * warned
    for warning in found.document.warnings:
        line = made[: made.index("event_time:")].count("\n") + 1
        assert warning.where is not None and warning.where.line == line
        assert "insertions, updates, deletions" in warning.message and "tie_break" in (warning.hint or "")


def test_explain_says_what_rows_do() -> None:
    said = explain(plan_of_text(text(FEED + "\non_duplicate: keep_first")))
    assert (
        "rows by op: c, 2 insert; u replace the row with their id, or insert; d delete the row with their id; others are rejected" in said
    )
    assert "id id (checked against the window; later rows are counted as filtered)" in said
    assert "a later row replaces the one there" in explain(plan_of_text(text("on_duplicate: replace")))
