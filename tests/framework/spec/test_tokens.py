"""Mistakes of ``tokens:`` and of columns that are lists: the code, the marked text, the hint."""

from __future__ import annotations

import pytest

from skyband.framework.plan.compile import compile_job
from skyband.framework.spec.load import validate_text

SPEC = """\
job: sets
source:
  format: json
  path: in
  schema: {id: bigint, ts: timestamp, subject: string, tags: array<string>, numbers: "array<bigint>", x: double}
  id: [id]
  event_time: {column: ts}
window: {count: 10}
tokens:
  words: {column: subject, stop_words: [a, the], ngrams: 2, min_tokens: 2, max_tokens: 50}
  parts: {column: subject, separator: ","}
  tags: {column: tags}
  numbers: {column: numbers}
scoring:
  x: {expression: x}
queries:
  best: {type: topk, scoring: x, k: 2}
sink: {path: out}
"""

MISTAKES = [
    ("column: tags}", "column: tagz}", "SKY-E120", "tagz", "did you mean 'tags'?"),
    ("column: tags}", "column: x}", "SKY-E126", "x", "derive a text"),
    ("column: tags}", "column: tags, words: a+}", "SKY-E117", "words", "leave it out"),
    ("column: tags}", "column: tags, separator: a}", "SKY-E117", "separator", "leave it out"),
    ('separator: ","', 'separator: ",", words: a+', "SKY-E117", "words", "keep one"),
    ('separator: ","', "words: '[a'", "SKY-E130", "'[a'", "RE2"),
    ('separator: ","', "words: 'a)|(b'", "SKY-E130", "'a)|(b'", "RE2"),
    ('separator: ","', "words: '(?=a)'", "SKY-E130", "'(?=a)'", "RE2"),
    ('separator: ","', "words: 'a*'", "SKY-E130", "'a*'", "+ for *"),
    ('separator: ","', "words: '" + "a" * 201 + "'", "SKY-E114", "'a", None),
    ('separator: ","', "separator: ''", "SKY-E114", "''", None),
    ("max_tokens: 50", "max_tokens: 1", "SKY-E117", "2", None),
    ("max_tokens: 50", "max_tokens: 1000001", "SKY-E114", "1000001", None),
    ("ngrams: 2", "ngrams: 0", "SKY-E114", "0", None),
    ("ngrams: 2", "ngram: 2", "SKY-E110", "ngram", "ngrams"),
    ("  id: [id]", "  id: [tags]", "SKY-E126", "tags", "tokens"),
    ("  id: [id]", "  id: [id]\n  partition_by: [tags]", "SKY-E126", "tags", "tokens"),
    ("k: 2}", "k: 2, carry: [tags]}", "SKY-E126", "tags", "tokens"),
    ("queries:", "queries:\n  s: {type: skyline, dimensions: {tags: min}}", "SKY-E126", "tags", "tokens"),
    ("k: 2}", "k: 2, where: tags = 1}", "SKY-E130", "tags", None),
    ("expression: x", "linear: {tags: 1}", "SKY-E126", "tags", None),
    ("format: json", "format: csv", "SKY-E126", None, "separator"),
    ("window:", "deletes: x > 1\nwindow:", "SKY-E117", "tokens", None),
    ("array<string>", "array<double>", "SKY-E113", "array<double>", None),
]


def test_a_spec_with_tokens_is_good():
    job, errors = validate_text(SPEC)
    assert not errors
    nodes = {t.name: t for t in compile_job(job).intake.tokens}  # type: ignore[arg-type]
    assert (nodes["words"].words, nodes["words"].lower, nodes["words"].ngrams) == (r"[\pL\pN_]+", True, 2)
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
