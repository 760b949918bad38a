"""Sets of a million tokens, and texts of megabytes: rejected with the reason by ``max_tokens``, else handled in bounded memory."""

from __future__ import annotations

import json
from collections import defaultdict
from itertools import pairwise
from string import Template
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from skyband.framework.base.messages import COUNTS, REJECTED, ROWS
from skyband.framework.base.reasons import REASON
from skyband.framework.plan.model import Plan
from skyband.framework.sources.protocol import CORRUPT, ORIGIN
from skyband.framework.streaming.bucket.bucket import Bucket
from skyband.framework.streaming.rows.blocks import bytes_table
from skyband.framework.streaming.rows.config import HostConfig
from skyband.framework.streaming.rows.pack import Pack
from tests.specs import plan_of_text, spec_text

SPEC = Template(
    spec_text(
        "large",
        "{id: bigint, ts: timestamp, text: string, tags: array<string>}",
        format="json",
        window="{count: 2}",
        tokens={
            "words": "{column: text$most}",
            "tags": "{column: tags$most}",
        },
        queries={
            "best": "{type: topk_similar_sets, tokens: tags, k: 3}",
            "alike": "{type: similar_sets, tokens: tags, similarity: cosine, min_score: 0.1}",
            "seen": "{type: matches, tokens: tags, similarity: hamming, k: 1}",
            "texts": "{type: matches, tokens: words, similarity: overlap, k: 1}",
        },
    )
)
MILLION = 1_000_000
MEGABYTES = 30 << 20
ROWS_OF = 4
"""So many rows of a million tokens, each with three quarters of the one before."""


def plan_of(most: str = "") -> Plan:
    return plan_of_text(SPEC.substitute(most=most))


def names(first: int, count: int) -> list[str]:
    return [f"t{i}" for i in range(first, first + count)]


def packed(plan: Plan, rows: list[tuple[str, list[str]]]) -> dict[str, list[bytes]]:
    """What the tasks of Spark make of rows (text, tags) that the intake has passed, block by block."""
    n = pa.array(np.arange(len(rows)))
    none = pa.nulls(len(rows), pa.string())
    batch = pa.record_batch(
        {
            "id": n, "ts": pa.array(1000 * np.arange(len(rows)), pa.timestamp("us", "UTC")), "text": pa.array([t for t, _ in rows]),
            "tags": pa.array([t for _, t in rows], pa.list_(pa.string())), "__h1": n, "__h2": n, ORIGIN: none, CORRUPT: none, REASON: none,
        }
    )  # fmt: skip
    out = defaultdict(list)
    for block in Pack(HostConfig.of(plan, (), "test"))(iter([batch])):
        for kind, data in zip(block["kind"].to_pylist(), block["data"].to_pylist(), strict=True):
            out[kind].append(data)
    return out


def test_at_the_default_they_are_rejected_and_others_are_not() -> None:
    text = " ".join(names(0, MEGABYTES // 8))
    assert len(text) > MEGABYTES
    found = packed(plan_of(), [("a b", ["x"]), ("a", names(0, MILLION)), (text, ["y"]), ("b c", names(0, 10_000)), ("d", names(0, 10_001))])
    assert [bytes_table(b)["id"].to_pylist() for b in found[ROWS]] == [[0, 3]]
    (rejected,) = (bytes_table(b).to_pylist() for b in found[REJECTED])
    assert [r["reason"] for r in rejected] == ["large_set:tags", "large_set:words", "large_set:tags"]
    whole = json.loads(rejected[1]["text"])
    assert whole["id"] == 2 and whole["text"] == text
    (counts,) = map(json.loads, found[COUNTS])
    assert counts == {"rows_in": 5, "rejected_tokens": 3, "sent": 2}


@pytest.mark.long
def test_at_the_largest_a_million_are_handled_in_bounded_memory() -> None:
    plan = plan_of(f", max_tokens: {MILLION}")
    rows = [(f"a b{i}", names(i * MILLION // 4, MILLION)) for i in range(ROWS_OF)]
    found = packed(plan, [*rows, ("too many", names(0, MILLION + 1))])
    (rejected,) = (bytes_table(b) for b in found[REJECTED])
    assert rejected["reason"].to_pylist() == ["large_set:tags"]
    bucket = Bucket(HostConfig.of(plan, (), "test"), 0)
    blocks = [*bucket.run(found[ROWS], 0), *bucket.run([], ROWS_OF)]
    made: dict[str, list[Any]] = defaultdict(list)
    for kind, block in blocks:
        if kind.startswith("changes:"):
            made[kind.removeprefix("changes:")] += bytes_table(block).to_pylist()
    common, pairs = 3 * MILLION // 4, list(pairwise(range(ROWS_OF)))
    told = {
        "seen": [(a, b, 2.0 * (MILLION - common)) for a, b in pairs], "texts": [(a, b, 1.0) for a, b in pairs],
        "best": [(a, b, common / (2 * MILLION - common)) for a, b in pairs], "alike": [(a, b, common / MILLION) for a, b in pairs],
    }  # fmt: skip
    for name, expected in told.items():
        came = [c for c in made[name] if c.get("change", "+") == "+"]
        assert [(c["older_id"], c["newer_id"], c["score"]) for c in came] == expected, name
    for logic in bucket.host.logics:
        search = getattr(logic, "search", logic)
        assert sum(a.nbytes for a in search.sets.index) < 200 * ROWS_OF * MILLION
