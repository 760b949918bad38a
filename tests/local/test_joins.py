"""Pairs of rows with equal columns through the whole job by the local engine: cuts and restarts leave no trace, and ``verify`` agrees."""

from __future__ import annotations

from pathlib import Path

import pytest

from skyband.operators.pair_rows.hash_index import index
from tests.spark.cuts import stream, verified, whole_and_in_parts
from tests.spark.jobs import changes

pytestmark = pytest.mark.long

QUERIES = """\
  best: {type: topk_pairs, scoring: near, k: 5, where: "a.side = b.side and a.id <> b.id"}
  few: {type: topk_pairs, scoring: near, k: 5, max_per_object: 2, where: "a.side = b.side", every: 1 hour}
  all: {type: threshold_pairs, scoring: near, max_score: 1, where: "a.side = b.side and a.ts <= b.ts", window: {count: 20}}
  seen: {type: matches, scoring: near, k: 2, where: "a.x = b.x", window: {count: 40}}
"""


def test_files_and_restarts_leave_no_trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index, "LEAST_OBJECTS", 1)
    monkeypatch.setattr(index, "SHARE", 1)
    whole, parts = whole_and_in_parts(None, tmp_path, stream(21, n=240), False, queries=QUERIES)
    for name in ("best", "few", "all", "seen"):
        expected = changes(whole, name, ())
        assert expected.num_rows > 10
        assert changes(parts, name, ()).equals(expected), name
    assert verified(whole / "spec.yaml") and verified(parts / "spec.yaml")
