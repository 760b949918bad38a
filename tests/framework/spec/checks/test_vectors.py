"""Mistakes of ``vectors:`` and of expressions that read vectors; what a plan says of them."""

from __future__ import annotations

import pytest

from skyband.framework.plan.compile import compile_job
from skyband.framework.plan.explain import explain
from skyband.framework.plan.fingerprint import compare, fingerprint
from skyband.framework.plan.model import VectorNode
from skyband.framework.spec.load import validate_text
from tests.specs import plan_of_text, spec_text

SPEC = spec_text(
    "vectors",
    "{id: bigint, ts: timestamp, x: double, e: array<float>, f: array<double>, tags: array<string>}",
    format="json",
    window="{count: 10}",
    vectors={"e": "3", "f": "4"},
    scoring={"alike": '{expression: "cosine(a.e, b.e)", direction: max}', "x": "{expression: x}"},
    queries={
        "twins": '{type: topk_pairs, scoring: alike, k: 3, where: "l2(a.f, b.f) < 1"}',
        "best": "{type: topk, scoring: x, k: 2}",
    },
)

MISTAKES = [
    ("  f: 4", "  g: 4", "SKY-E120", "g", None),
    ("  f: 4", "  tags: 4", "SKY-E126", "tags", "array<float>"),
    ("  f: 4", "  x: 4", "SKY-E126", "x", "array<float>"),
    ("  f: 4", "  f: 0", "SKY-E114", "0", None),
    ("  f: 4", "  f: 5000", "SKY-E114", "5000", None),
    ("  f: 4", "  tags: 4", "SKY-E130", "a.f", "vectors: {f: 384}"),
    ("cosine(a.e, b.e)", "cosine(a.e, b.f)", "SKY-E130", "cosine(a.e, b.f)", None),
    ("cosine(a.e, b.e)", "cosine(a.e, b.x)", "SKY-E130", "b.x", None),
    ("expression: x", "expression: 'dot(e, e)'", "SKY-E130", "e", None),
    ("k: 2}", "k: 2, carry: [e]}", "SKY-E126", "e", "'vectors:'"),
    ("vectors:\n", "tokens:\n  words: {column: e}\nvectors:\n", "SKY-E126", "e", "'vectors:' compares"),
    ("format: json", "format: csv", "SKY-E126", None, None),
]


@pytest.mark.parametrize(("old", "new", "code", "marked", "hint"), MISTAKES)
def test_each_mistake_is_reported_at_its_place(old: str, new: str, code: str, marked: str | None, hint: str | None) -> None:
    assert old in SPEC
    _, errors = validate_text(SPEC.replace(old, new, 1))
    found = [e for e in errors if e.code == code]
    assert found, [e.render() for e in errors]
    assert any(
        e.where is not None
        and (marked is None or e.where.text[e.where.col - 1 :].startswith(marked))
        and (hint is None or hint in (e.hint or ""))
        for e in found
    ), [e.render() for e in found]


def test_a_plan_has_the_vectors() -> None:
    plan = plan_of_text(SPEC)
    assert plan.intake.vectors == (VectorNode("e", 3), VectorNode("f", 4))
    assert {(c.name, c.kind, c.dimension) for c in plan.operators[0].attributes} == {("e", "vector", 3), ("f", "vector", 4)}
    row = 24 + 16 + 8 + 8 + 3 * 4 + 4 * 8  # any row, the hashes of its id, the id, x, 3 numbers of 4 bytes and 4 of 8
    assert f" x {row} B a row" in explain(plan)
    assert "vector e: reject rows without 3 finite numbers in it, unless it is null" in explain(plan)


def test_another_dimension_does_not_fit_the_state() -> None:
    before, now = (fingerprint(compile_job(validate_text(text)[0])) for text in (SPEC, SPEC.replace("e: 3", "e: 5")))  # type: ignore[arg-type]
    assert compare(before, before) == []
    assert compare(before, now) == ["vectors.e was 3, now 5"]
