"""Mistakes of ``tokens:`` and of columns that are lists: the code, the marked text, the hint."""

from __future__ import annotations

import pytest

from skyband.framework.plan.compile import compile_job
from skyband.framework.plan.fingerprint import compare, fingerprint
from skyband.framework.spec.load import validate_text
from tests.specs import spec_text

SPEC = spec_text(
    "sets",
    '{id: bigint, ts: timestamp, subject: string, tags: array<string>, numbers: "array<bigint>", x: double}',
    format="json",
    window="{count: 10}",
    tokens={
        "words": "{column: subject, stop_words: [a, the], ngrams: 2, min_tokens: 2, max_tokens: 50}",
        "parts": '{column: subject, separator: ","}',
        "tags": "{column: tags}",
        "numbers": "{column: numbers}",
    },
    scoring={"x": "{expression: x}"},
    queries={
        "best": "{type: topk, scoring: x, k: 2}",
        "twins": "{type: topk_similar_sets, tokens: words, k: 3, min_score: 0.5}",
        "far": "{type: topk_similar_sets, tokens: tags, similarity: hamming, k: 3, max_score: 4}",
        "alike": "{type: similar_sets, tokens: words, similarity: cosine, min_score: 0.9}",
        "seen": "{type: matches, tokens: words, similarity: dice, k: 1, min_score: 0.7}",
    },
    quality={"tables": "[{table: seen_changes, expectation: expect_column_values_to_not_be_null, column: score}]"},
)

MISTAKES = [
    ("column: tags}", "column: tagz}", "SKY-E120", "tagz", "did you mean 'tags'?"),
    ("column: tags}", "column: x}", "SKY-E126", "x", "derive a text"),
    ("column: tags}", "column: tags, words: a+}", "SKY-E117", "words", "leave it out"),
    ("column: tags}", "column: tags, separator: a}", "SKY-E117", "separator", "leave it out"),
    ('separator: ","', 'separator: ",", words: a+', "SKY-E117", "words", "keep one"),
    ('separator: ","', "words: '[a'", "SKY-E130", "'[a'", "RE2"),
    ('separator: ","', "words: 'a)|(b'", "SKY-E130", "'a)|(b'", "RE2"),
    ('separator: ","', "words: '(?=a)'", "SKY-E130", "'(?=a)'", "RE2"),
    ('separator: ","', "words: 'a*'", "SKY-E130", "'a*'", "+ instead of *"),
    ('separator: ","', "words: '" + "a" * 201 + "'", "SKY-E114", "'a", None),
    ('separator: ","', "separator: ''", "SKY-E114", "''", None),
    ("max_tokens: 50", "max_tokens: 1", "SKY-E117", "2", None),
    ("max_tokens: 50", "max_tokens: 1000001", "SKY-E114", "1000001", None),
    ("ngrams: 2", "ngrams: 0", "SKY-E114", "0", None),
    ("ngrams: 2", "normalize: nfd", "SKY-E113", "nfd", "'nfc'"),
    ("ngrams: 2", "short: drop", "SKY-E113", "drop", "skip or reject"),
    ("ngrams: 2", "ngram: 2", "SKY-E110", "ngram", "ngrams"),
    ("  id: [id]", "  id: [tags]", "SKY-E126", "tags", "tokens"),
    ("  id: [id]", "  id: [id]\n  partition_by: [tags]", "SKY-E126", "tags", "tokens"),
    ("k: 2}", "k: 2, carry: [tags]}", "SKY-E126", "tags", "tokens"),
    ("queries:", "queries:\n  s: {type: skyline, dimensions: {tags: min}}", "SKY-E126", "tags", "tokens"),
    ("k: 2}", "k: 2, where: tags = 1}", "SKY-E130", "tags", None),
    ("expression: x", "linear: {tags: 1}", "SKY-E126", "tags", None),
    ("format: json", "format: csv", "SKY-E126", None, "separator"),
    ("tokens: tags, similarity", "tokens: tagz, similarity", "SKY-E127", "tagz", "did you mean 'tags'?"),
    ("max_score: 4", "min_score: 0.4", "SKY-E117", "min_score", "use max_score"),
    ("min_score: 0.5", "max_score: 0.5", "SKY-E117", "max_score", "use min_score"),
    ("min_score: 0.5", "min_score: 1.5", "SKY-E114", "1.5", None),
    ("min_score: 0.5", "min_score: 0", "SKY-E114", "0", None),
    (", min_score: 0.9", "", "SKY-E111", "alike", "min_score: 0.8"),
    ("similarity: cosine", "similarity: cosin", "SKY-E113", "cosin", "'cosine'"),
    ("min_score: 0.9", "min_score: 0.9, window: {count: 1}", "SKY-E143", "1", None),
    ("k: 1, ", "", "SKY-E111", "seen", "k: How many older rows"),
    ("k: 1, ", "k: 0, ", "SKY-E114", "0", None),
    ("k: 1, ", "k: 1, every: 1 hour, ", "SKY-E110", "every", "known fields"),
    ("k: 1, ", "k: 1, window: {count: 1}, ", "SKY-E143", "1", None),
    ("min_score: 0.7", "max_score: 0.7", "SKY-E117", "max_score", "use min_score"),
    ("min_score: 0.7", "min_score: 1.7", "SKY-E114", "1.7", None),
    ("similarity: dice", "similarity: hamming", "SKY-E117", "min_score", "use max_score"),
    ("similarity: dice", "between: {column: subject, a: x, b: x}", "SKY-E117", "x", "leave 'between' out"),
    ("similarity: dice", "where: a.subjec = b.subject", "SKY-E130", "a.subjec", "a.subject"),
    ("tokens: words, similarity: dice", "tokens: wordz, similarity: dice", "SKY-E127", "wordz", "did you mean 'words'?"),
    ("table: seen_changes", "table: seen", "SKY-E122", "seen", "the only table of this query is seen_changes"),
    ("table: seen_changes", "table: seen_now", "SKY-E122", "seen_now", "the only table of this query is seen_changes"),
    ("table: seen_changes", "table: seen_skyband", "SKY-E122", "seen_skyband", "the only table of this query is seen_changes"),
    ("column: score}]", "column: cause}]", "SKY-E120", "cause", "columns:"),
    ("  seen: {", "  seen_now: {type: topk, scoring: x, k: 1}\n  seen: {", "SKY-E123", "seen", "rename"),
    ("array<string>", "array<decimal>", "SKY-E113", "array<decimal>", None),
]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("min_tokens: 2", "min_tokens: 3"),
        ("[a, the]", "[a]"),
        ('separator: ","', 'separator: ";"'),
        ("ngrams: 2", "ngrams: 2, normalize: none"),
        ("ngrams: 2", "ngrams: 2, short: reject"),
    ],
)
def test_other_tokens_do_not_fit_the_state(old: str, new: str) -> None:
    before, now = (fingerprint(compile_job(validate_text(text)[0])) for text in (SPEC, SPEC.replace(old, new)))  # type: ignore[arg-type]
    assert compare(before, before) == []
    assert len(compare(before, now)) == 1 and compare(before, now)[0].startswith("tokens.")


def test_a_spec_with_tokens_is_good():
    job, errors = validate_text(SPEC)
    assert not errors
    nodes = {t.name: t for t in compile_job(job).intake.tokens}  # type: ignore[arg-type]
    assert (nodes["words"].words, nodes["words"].lower, nodes["words"].ngrams) == (r"[\pL\pN_][\pL\pM\pN_]*", True, 2)
    assert {(n.normalize, n.short) for n in nodes.values()} == {("nfc", "skip")}
    assert (nodes["parts"].words, nodes["parts"].lower, nodes["parts"].separator) == (None, False, ",")
    assert (nodes["tags"].words, nodes["tags"].lower) == (None, False)


@pytest.mark.parametrize(("old", "new", "code", "marked", "hint"), MISTAKES)
def test_each_mistake_is_told_at_its_place(old, new, code, marked, hint):
    assert old in SPEC
    _, errors = validate_text(SPEC.replace(old, new, 1))
    assert errors, new
    found = next((e for e in errors if e.code == code), None)
    assert found is not None, [e.render() for e in errors]
    assert found.where is not None
    if marked is not None:
        assert found.where.text[found.where.col - 1 :].startswith(marked), found.render()
    if hint is not None:
        assert hint in (found.hint or ""), found.render()


def test_sets_take_deletions_unless_short_ones_are_rejected() -> None:
    deleting = SPEC.replace("\nwindow:", "\ndeletes: x > 1\nwindow:")
    assert deleting != SPEC
    job, errors = validate_text(deleting)
    assert not errors
    without, plan = compile_job(validate_text(SPEC)[0]), compile_job(job)  # type: ignore[arg-type]
    about_sets = [o for o in plan.operators if hasattr(o.operator, "similarity")]
    assert len(about_sets) == 4 and all(o.operator.deletes and not o.skyband for o in about_sets)  # type: ignore[attr-defined]
    assert all("deletes" not in q for q in fingerprint(without)["queries"].values())
    _, errors = validate_text(deleting.replace("ngrams: 2", "ngrams: 2, short: reject"))
    assert [e.code for e in errors] == ["SKY-E117"] and "short cannot be reject" in errors[0].message
