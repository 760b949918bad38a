"""Functions of texts and of sets in scores and conditions of a job: its tables pass replay and brute force."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.framework.verify import small
from tests.spark.kinds import TOKENS, Kind

SCORING = """\
  names: {expression: "edit_distance(a.words, b.words)", direction: min}
  close: {expression: "edit_distance(lower(a.words), substring(b.words, 3), 6) + abs(a.y - b.y) / 10", direction: min}
  alike: {expression: "jaccard(a.words, b.words) + cosine(a.parts, b.parts) + dice(a.words, b.words) - abs(a.y - b.y)", direction: max}
  common: {expression: "overlap(a.parts, b.words) + where(lower(a.side) = b.side, length(a.words), 0)", direction: max}
  typed: {expression: "length(words) + edit_distance(words, 'p a 5 y1') / 100", direction: min}
"""
QUERIES = """\
  nearest: {type: topk_pairs, scoring: names, k: 4, where: "edit_distance(a.words, b.words, 3) > 0", carry: [words]}
  sides: {type: topk_pairs, scoring: close, k: 3, between: {column: side, a: a, b: b}, window: {time: 2 hours}}
  spread: {type: topk_pairs, scoring: names, k: 4, max_per_object: 1, min_score: 1}
  similar: {type: topk_pairs, scoring: alike, k: 5, window: {count: 30}}
  hourly: {type: topk_pairs, scoring: common, k: 3, every: 1 hour, where: "substring(a.words, 3, 1) <> substring(b.words, 3, 1)"}
  twins: {type: topk_similar_sets, tokens: words, k: 3, where: "edit_distance(a.words, b.words) > 1 and overlap(a.parts, b.parts) > 1"}
  seen: {type: matches, tokens: words, k: 2, where: "edit_distance(a.words, b.words, 4) is not null"}
  shortest: {type: topk, scoring: typed, k: 4, where: "lower(side) = 'a' or length(words) < 8"}
  any: {type: threshold, scoring: typed, at_most: 7.1}
  totals: {type: topk_groups, group: side, score: "sum(length(words)) / count()", k: 2, where: "substring(words, -2) <> 'y1'"}
  sky: {type: skyline, dimensions: {x: min, y: max}, where: "length(words) > 6"}
"""
SECTIONS = SCORING + TOKENS + "  parts: {column: words, ngrams: 2, separator: y}\n"
KIND = Kind(QUERIES, sections=SECTIONS)
KEYED = Kind(QUERIES, sections=SECTIONS, more={"partition": True, "buckets": 3})


@pytest.mark.parametrize("kind", [KIND, KEYED], ids=["whole", "keyed"])
def test_what_a_run_leaves_is_as_it_must_be(kind: Kind, tmp_path: Path) -> None:
    rows = kind.rows(5, 220)
    plan = small.make(kind.write(tmp_path / "job", 10), rows)
    assert [d.text() for d in small.found(plan, rows)] == []
