"""Mistakes of threshold_pairs and of matches by score, what their queries share, and what ``explain`` says of them."""

from __future__ import annotations

import pytest

from skyband.framework.plan.compile import compile_job
from skyband.framework.plan.explain import explain
from skyband.framework.plan.fingerprint import fingerprint
from skyband.framework.plan.model import Plan
from skyband.framework.spec.load import validate_text
from skyband.operators.matches.operator import Matches, ScoredMatches
from skyband.operators.threshold_pairs.operator import ThresholdPairs
from tests.specs import plan_of_text, spec_text

SPEC = spec_text(
    "pairs",
    "{id: bigint, ts: timestamp, x: double, side: string, body: string}",
    format="json",
    window="{count: 10}",
    tokens={"words": "{column: body}"},
    scoring={"gap": "{expression: abs(a.x - b.x)}", "gain": "{expression: b.x - a.x, direction: max}", "one": "{linear: {x: 1}}"},
    queries={
        "near": "{type: threshold_pairs, scoring: gap, max_score: 2}",
        "lately": "{type: threshold_pairs, scoring: gap, max_score: 1, every: 1 hour, window: {count: 5}}",
        "far": "{type: threshold_pairs, scoring: gap, min_score: 3, max_score: 4}",
        "best": "{type: matches, scoring: gain, k: 2, min_score: 0, between: {column: side, a: l, b: r}}",
        "more": "{type: matches, scoring: gain, k: 3, between: {column: side, a: l, b: r}}",
        "seen": "{type: matches, tokens: words, k: 1, min_score: 0.7}",
    },
)

MISTAKES = [
    ("scoring: gap, max_score: 2", "scoring: gap", "SKY-E111", "near", "max_score: 0.5"),
    ("scoring: gap, max_score: 2", "max_score: 2", "SKY-E111", "near", "scoring"),
    ("scoring: gap, max_score: 2", "scoring: gapp, max_score: 2", "SKY-E121", "gapp", "did you mean 'gap'?"),
    ("scoring: gap, max_score: 2", "scoring: one, max_score: 2", "SKY-E117", "one", "use expression or combine"),
    ("max_score: 2}", "max_score: 2, k: 3}", "SKY-E110", "k", "known fields"),
    ("max_score: 2}", "max_score: 2, window: {count: 1}}", "SKY-E143", "1", None),
    ("max_score: 2}", "max_score: 2, where: a.y > 1}", "SKY-E130", "a.y", None),
    ("max_score: 2}", "max_score: two}", "SKY-E112", "two", None),
    ("min_score: 3", "min_score: 5", "SKY-E117", "5", None),
    ("min_score: 0, between: {column: side", "min_score: 0, between: {column: sid", "SKY-E120", "sid", "did you mean 'side'?"),
    ("a: l, b: r}}\n  more", "a: l, b: l}}\n  more", "SKY-E117", "l", "leave 'between' out"),
    ("k: 2, min_score: 0", "k: 2, tokens: words", "SKY-E117", "tokens", "remove one of them"),
    ("k: 2, min_score: 0", "k: 2, similarity: dice", "SKY-E117", "similarity", "use tokens instead"),
    ("k: 2, min_score: 0", "k: 2, every: 1 hour", "SKY-E110", "every", "known fields"),
    ("k: 3, between", "k: 0, between", "SKY-E114", "0", None),
    ("tokens: words, k: 1", "k: 1", "SKY-E111", "seen", "tokens: the name of sets"),
    ("tokens: words, k: 1", "tokens: word, k: 1", "SKY-E127", "word", "did you mean 'words'?"),
    ("min_score: 0.7", "min_score: 0", "SKY-E114", "0", None),
    ("min_score: 0.7", "max_score: 1", "SKY-E117", "max_score", "use min_score"),
    ("min_score: 0.7", "similarity: hamming, max_score: -1", "SKY-E114", "-1", None),
]


@pytest.mark.parametrize(("old", "new", "code", "marked", "hint"), MISTAKES)
def test_a_mistake_is_reported_where_it_is(old: str, new: str, code: str, marked: str, hint: str | None) -> None:
    assert SPEC.count(old) == 1
    _, errors = validate_text(SPEC.replace(old, new))
    found = next((e for e in errors if e.code == code), None)
    assert found is not None and found.where is not None, [e.render() for e in errors]
    assert found.where.text[found.where.col - 1 :].startswith(marked), found.render()
    assert hint is None or hint in (found.hint or ""), found.render()


def test_operators_know_of_deletions_only_where_there_are_some() -> None:
    scored = "".join(line for line in SPEC.splitlines(keepends=True) if "words" not in line and line != "tokens:\n")
    without, deleting = plan_of_text(scored), plan_of_text(scored.replace("\nwindow:", "\ndeletes: x > 1\nwindow:"))
    assert {getattr(o.operator, "deletes", None) for o in without.operators} == {False}
    assert {getattr(o.operator, "deletes", None) for o in deleting.operators} == {True}
    assert all("deletes" not in q for q in fingerprint(without)["queries"].values())
    assert all(q["deletes"] is True for q in fingerprint(deleting)["queries"].values())


@pytest.fixture(scope="module")
def plan() -> Plan:
    return plan_of_text(SPEC)


def test_queries_share_a_state_if_the_bound_on_the_better_side_is_equal(plan: Plan) -> None:
    assert [(type(o.operator), o.queries) for o in plan.operators] == [
        (ThresholdPairs, ("near", "lately")), (ThresholdPairs, ("far",)), (ScoredMatches, ("best", "more")), (Matches, ("seen",)),
    ]  # fmt: skip
    apart = compile_job(_job(SPEC.replace("k: 3, between", "k: 3, max_score: 9, between")))
    assert [o.queries for o in apart.operators][2:4] == [("best",), ("more",)]


def _job(text: str) -> object:
    job, problems = validate_text(text, {})
    assert job is not None, problems
    return job


def test_explain_says_what_a_state_is_asked_for(plan: Plan) -> None:
    text = explain(plan)
    for said in (
        "threshold_pairs, N = 10 rows", "operator  ThresholdPairs: an arrival is scored with the older rows of the window; only pairs",
        "score     abs(a.x - b.x) (min first)", "answers   near: window 10 rows, score <= 2, changes after every event",
        "answers   lately: window 5 rows, score <= 1, changes every 1 hour", "score >= 3, score <= 4",
        "operator  ScoredMatches: an arrival is scored with the older rows", "score     b.x - a.x (max first)",
        "between   side: 'l' and 'r'", "answers   best: k = 2, window 10 rows, score >= 0, reported once, at an arrival",
        "shared by 2 queries: same type, scoring and direction (or tokens and similarity), where and between",
        "similarity jaccard of words", "pairs     those within the bounds; all would be 45 at N = 10 rows",
    ):  # fmt: skip
        assert said in text, text


@pytest.mark.parametrize(
    ("where", "said"),
    [
        ("a.side = b.side and a.x < b.x", "; partners come from a hash index by a.side = b.side, and from a scan where it does not pay"),
        (
            "a.id = b.x and a.x + 1 = b.x",
            " by a.id = b.x, and from a scan where it does not pay; (a.x + 1) = b.x has no index, as it compares",
        ),
        ("a.side <> b.side or a.x = b.x", None),
    ],
)
def test_explain_says_by_which_columns_partners_are_found(where: str, said: str | None) -> None:
    text = explain(plan_of_text(SPEC.replace("max_score: 2}", f"max_score: 2, where: {where}}}")))
    assert text.count("hash index") == text.count("has no index") == 0 if said is None else said in text, text
