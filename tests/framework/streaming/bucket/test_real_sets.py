"""Real sets in bulk through a bucket: near-duplicate commits of different authors in the last 10,000, and baskets with much in common.

Windows are held against SetSimilaritySearch, which joins all of one at once; what an arrival was told, against all sets of its window.
"""

from __future__ import annotations

import json
import random
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from string import Template
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from bench import similar_sets as data
from skyband.framework.plan.compile import compile_job
from skyband.framework.spec.load import validate_text
from skyband.framework.streaming.bucket.bucket import Bucket
from skyband.framework.streaming.rows.blocks import bytes_table, table_bytes
from skyband.framework.streaming.rows.config import HostConfig
from skyband.framework.streaming.rows.tokens import key_of, sets, tokens
from tests.specs import spec_text

SPEC = Template(
    spec_text(
        "real",
        "{n: bigint, ts: timestamp, author: string, text: string}",
        id="[n]",
        window="{count: $window}",
        tokens={"parts": "{column: text, $tokens}"},
        queries={
            "near": '{type: similar_sets, tokens: parts, min_score: $least, where: "a.author <> b.author"}',
            "best": '{type: topk_similar_sets, tokens: parts, k: 50, where: "a.author <> b.author"}',
            "seen": '{type: matches, tokens: parts, k: 3, min_score: $told, where: "a.author <> b.author", carry: [author]}',
        },
    )
)
BATCH = 2_500
Pair = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Text:
    author: str
    text: str


class Feed:
    """A bucket fed batch by batch, and what its changes add up to."""

    def __init__(self, config: HostConfig, rows: list[Text]) -> None:
        self.rows = rows
        self.results: dict[str, dict[Pair, float]] = defaultdict(dict)
        self.told: dict[int, list[tuple[int, float]]] = defaultdict(list)
        self.counts: Counter[str] = Counter()
        (node,) = config.intake.tokens
        n = pa.array(np.arange(len(rows)))
        text = pa.chunked_array([pa.array([r.text for r in rows], pa.string())])
        self.sets: list[set[str]] = [set() for _ in rows]
        row, token = tokens(node, text)
        for i, t in zip(row.tolist(), token.to_pylist(), strict=True):
            self.sets[i].add(t)
        table = {
            "n": n, "ts": pa.array(1000 * np.arange(len(rows)), pa.timestamp("us", "UTC")), "author": [r.author for r in rows],
            "text": text, "__h1": n, "__h2": n, "__origin": pa.nulls(len(n), pa.string()),
            node.codes: sets(node, text, key_of(config.cache_key)),
        }  # fmt: skip
        self.table = pa.table(table).select(config.row_schema().names)
        self.bucket = Bucket(config, 0)

    def run(self, lo: int, hi: int) -> None:
        """Rows lo to hi in one batch; there is a millisecond between two of them."""
        blocks = [*self.bucket.run([table_bytes(self.table.slice(lo, hi - lo))], 0), *self.bucket.run([], hi)]
        for kind, block in blocks:
            if kind == "counts":
                self.counts.update(json.loads(block))
            elif kind.startswith("changes:"):
                self._take(kind.removeprefix("changes:"), bytes_table(block).to_pylist())

    def _take(self, query: str, changes: list[dict[str, Any]]) -> None:
        for c in changes:
            pair = (c["older_seq"], c["newer_seq"])
            if query == "seen":
                assert c["pos"] == len(self.told[pair[1]])
                self.told[pair[1]].append((pair[0], c["score"]))
            elif c["change"] == "+":
                assert pair not in self.results[query]
                self.results[query][pair] = c["score"]
            else:
                assert self.results[query].pop(pair) == c["score"]

    def window_by_library(self, end: int, size: int, least: float) -> dict[Pair, float]:
        """All pairs of the window of ``size`` before row ``end`` that are as similar, of different authors."""
        library = pytest.importorskip("SetSimilaritySearch", reason="needs the package SetSimilaritySearch")
        first = max(0, end - size)
        window = [sorted(s) for s in self.sets[first:end]]
        found = ((first + min(i, j), first + max(i, j), s) for i, j, s in library.all_pairs(window, "jaccard", least))
        return {(a, b): s for a, b, s in found if self.rows[a].author != self.rows[b].author}

    def by_definition(self, newer: int, size: int, least: float) -> list[tuple[int, float]]:
        """What an arrival must be told."""
        mine, found = self.sets[newer], []
        for older in range(max(0, newer + 1 - size), newer):
            score = len(mine & self.sets[older]) / len(mine | self.sets[older])
            if score >= least and self.rows[older].author != self.rows[newer].author:
                found.append((-score, -older))
        return [(-older, -score) for score, older in sorted(found)[:3]]


def play(rows: list[Text], window: int, how: str, least: float, told: float, looks: set[int]) -> Feed:
    """Feeds the rows; at the cuts ``looks`` the results must be the library's, and what was told since the last one the definition's."""
    job, errors = validate_text(SPEC.substitute(window=window, tokens=how, least=least, told=told), {})
    assert job is not None and not errors, [e.render() for e in errors]
    feed = Feed(HostConfig.of(compile_job(job), (), "test"), rows)
    rng = random.Random(5)
    for lo in range(0, len(rows), BATCH):
        hi = min(lo + BATCH, len(rows))
        feed.run(lo, hi)
        if hi not in looks:
            continue
        expected = feed.window_by_library(hi, window, least)
        assert feed.results["near"] == expected and len(expected) >= 100
        ranked = sorted(((-s, -a, -b) for (a, b), s in expected.items()))[:50]
        assert sorted((-s, -a, -b) for (a, b), s in feed.results["best"].items()) == ranked
        for newer in {*rng.sample(range(lo, hi), 40), *rng.sample([n for n in feed.told if lo <= n < hi], 20)}:
            assert feed.told.get(newer, []) == feed.by_definition(newer, window, told), newer
    assert feed.counts["accepted"] == len(rows)
    return feed


@pytest.mark.real
def test_near_duplicates_among_the_last_commits(shared_data: Callable[[str], Path]) -> None:
    rows = [Text(author, text) for author, text in data.commit_texts(shared_data("data/commits_anon.tsv.gz"))][40_000:80_000]
    feed = play([r for r in rows if data.WORD.search(r.text)], 10_000, "min_tokens: 1", 0.85, 0.8, {5_000, 20_000, 35_000})
    assert sum(len(m) for m in feed.told.values()) > 2_000


@pytest.mark.slow
@pytest.mark.real
def test_baskets_with_much_in_common(shared_data: Callable[[str], Path]) -> None:
    rows = [Text(str(n), goods) for n, goods in enumerate(data.basket_texts(shared_data("data/baskets.tsv.gz")))][:12_500]
    feed = play(rows, 5_000, "separator: ' '", 0.5, 0.4, {5_000, 10_000, 12_500})
    assert max(map(len, feed.sets)) > 500
