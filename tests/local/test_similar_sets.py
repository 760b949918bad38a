"""Similar sets through the whole job: cuts and restarts leave no trace, and ``verify`` agrees."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.spark.cuts import stream, verified, whole_and_in_parts
from tests.spark.jobs import COLUMNS, changes, sorted_rows, table
from tests.spark.kinds import MORE, with_more

pytestmark = pytest.mark.long

TOKENS = """\
tokens:
  words: {column: words, stop_words: [p], short: reject}
  long: {column: words, stop_words: [p], min_tokens: 4}
"""
QUERIES = """\
  twins: {type: topk_similar_sets, tokens: words, k: 5, carry: [x], where: "a.id <> b.id + 1"}
  angles: {type: topk_similar_sets, tokens: words, similarity: cosine, k: 3, window: {count: 20}, min_score: 0.3}
  hourly: {type: topk_similar_sets, tokens: words, similarity: hamming, k: 4, every: 1 hour}
  alike: {type: similar_sets, tokens: words, min_score: 0.9, window: {count: 30}}
  longer: {type: similar_sets, tokens: long, min_score: 0.6, window: {count: 30}}
  seen: {type: matches, tokens: words, k: 3, carry: [x], min_score: 0.4}
  sides: {type: matches, tokens: words, similarity: dice, k: 2, window: {count: 20}, between: {column: side, a: a, b: b}}
"""
LASTING = ("twins", "angles", "hourly", "alike", "longer")
"""Queries whose items enter and leave: those of the others are reported once."""


def rows_of(n: int) -> list[list[object]]:
    """Rows whose words have upper case, which tokens do not."""
    rows = with_more(stream(21, n=n))
    for row in rows:
        side = str(row[COLUMNS.index("side")])
        row[-1] = str(row[-1]).replace(f" {side} ", f" {side.upper()} ")
    return rows


@pytest.mark.slow
@pytest.mark.parametrize("keyed", [False, True])
def test_files_restarts_and_partitions_leave_no_trace(tmp_path: Path, keyed: bool) -> None:
    whole, parts = whole_and_in_parts(None, tmp_path, rows_of(240), keyed, queries=QUERIES, scoring=TOKENS, more=MORE)
    keys = ("grp",) if keyed else ()
    for name in (*LASTING, "seen", "sides"):
        expected = changes(whole, name, keys)
        assert expected.num_rows > 25
        assert changes(parts, name, keys).equals(expected), name
        for of in (name, f"{name}_now") if name in LASTING else ():
            assert sorted_rows(table(parts, of)) == sorted_rows(table(whole, of)), of
    assert verified(whole / "spec.yaml") and verified(parts / "spec.yaml")
    assert not any((whole / "out" / of).exists() for of in ("seen", "seen_now", "seen_skyband", "sides"))
    reasons = Counter(table(parts, "rejected")["reason"].to_pylist())
    assert reasons["empty_set:words"] == sum(r["rejected_tokens"] for r in table(parts, "runs").to_pylist()) > 0
