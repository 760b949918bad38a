"""Commits of which some are amended and some taken back, as a change feed: results are those of what is valid, by definition."""

from __future__ import annotations

import gzip
import json
import os
import random
import re
from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from fractions import Fraction
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.oracles import whole
from tests.spark.cuts import verified
from tests.spark.defined import DAY, EPOCH, Values, defined, mean, of_groups, of_rows, written
from tests.spark.jobs import run, table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.real, pytest.mark.slow]

SPEC = """\
job: commits
source:
  format: json
  path: "{directory}/in"
  schema: {{op: string, version: bigint, committed: bigint, hash: string, author: string, subject: string}}
  id: [hash]
  event_time: {{column: at, watermark: 1 hour, tie_break: [version]}}
  on_duplicate: {on_duplicate}
  op: {{column: op, insert: [c], update: [u], delete: [d], ignore: [t]}}
transform:
  - derive: {{at: {{sql: timestamp_seconds(committed), type: timestamp}}, letters: {{sql: length(subject), type: int}}}}
tokens:
  words: {{column: subject, words: "[a-z0-9]+", min_tokens: 3}}
quality: {{max_rejected: 100%, max_unusable: 100%}}
window: {{time: 20 days}}
scoring:
  letters: {{expression: letters, direction: max}}
queries:
  near: {{type: topk_similar_sets, tokens: words, k: 20, min_score: 0.3, where: "a.author <> b.author"}}
  longest: {{type: topk, scoring: letters, k: 10, carry: [subject]}}
  busiest: {{type: topk_groups, group: author, score: count(), k: 5}}
  wordy: {{type: topk_groups, group: author, score: mean(letters), having: count() >= 2, k: 3, window: {{time: 5 days}}}}
sink: {{path: "{directory}/out"}}
run: {{max_files: 2}}
"""
MICROS = 1_000_000


def feed(path: Path, first: int, many: int, rng: random.Random) -> list[Values]:
    """Changes in their order: some commits come again, with another subject or author, some are deleted, some of these unknown."""
    with gzip.open(path, "rt", newline="") as file:
        commits = [line.rstrip("\n").split("\t") for line in islice(file, first, first + many)]
    changes: list[tuple[int, float, Values]] = []

    def change(op: str, at: int, name: str, author: str | None = None, subject: str | None = None) -> None:
        changes.append((at, rng.random(), {"op": op, "committed": at, "hash": name, "author": author, "subject": subject}))

    for n, (committed, _, name, author, subject) in enumerate(commits):
        at = int(committed)
        change("c", at, name, author, subject)
        # Some amended commits have left the window of 20 days before they come again, and some come in the same second.
        later = at + rng.choice([0, rng.randrange(86_400), rng.randrange(86_400 * 25)])
        chance = rng.random()
        if chance < 0.2:
            other = commits[max(0, n - rng.randrange(1, 200))]
            change(rng.choice("cu"), later, name, rng.choice([author, other[3]]), rng.choice([subject + " again", other[4]]))
        elif chance < 0.28:
            change("d", later, name)
        elif chance < 0.3:
            change("t", later, name)
    changes.sort(key=lambda c: c[:2])
    return [row | {"version": n} for n, (_, _, row) in enumerate(changes)]


def valid(changes: list[Values], on_duplicate: str, window: int) -> tuple[list[whole.Row], Counter[str]]:
    """What a change feed does to the objects of a window, row by row, and how often."""
    known: dict[str, tuple[int, int]] = {}
    made: list[whole.Row] = []
    did: Counter[str] = Counter()
    seq = 0
    for row in changes:
        at = row["committed"] * MICROS
        if row["op"] == "t":
            did["ignored"] += 1
            continue
        target = known.get(row["hash"])
        if target is not None and target[0] <= at - window:
            target = None
        if row["op"] == "d":
            did["deleted" if target else "no_target"] += 1
        elif target is not None and row["op"] == "c" and on_duplicate == "keep_first":
            did["kept_first"] += 1
            continue
        if target is not None:
            did["replaced"] += row["op"] != "d"
            made.append(whole.Row(at, target[1], {}, deletes=True))
            del known[row["hash"]]
        if row["op"] != "d":
            letters = len(row["subject"])
            words = frozenset(re.findall("[a-z0-9]+", row["subject"].lower()))
            values = row | {"letters": letters, "words": words, "at": EPOCH + timedelta(seconds=row["committed"])}
            made.append(whole.Row(at, seq, values))
            known[row["hash"]] = (at, seq)
            seq += 1
    return made, did


def alike(older: whole.Values, newer: whole.Values) -> float | None:
    x, y = older["words"], newer["words"]
    if x.isdisjoint(y) or older["author"] == newer["author"] or len(x) < 3 or len(y) < 3:
        return None
    common = len(x & y)
    similar = common / (len(x) + len(y) - common)
    return similar if similar >= 0.3 else None


def put(directory: Path, rows: list[Values], number: int) -> None:
    directory.mkdir(exist_ok=True)
    path = directory / f"{number}.json"
    path.write_text("".join(json.dumps(r) + "\n" for r in rows))
    os.utime(path, (1_600_000_000 + number, 1_600_000_000 + number))


@pytest.mark.parametrize("on_duplicate", ["replace", "keep_first"])
def test_amended_commits(spark: SparkSession, tmp_path: Path, shared_data: Callable[[str], Path], on_duplicate: str) -> None:
    rng = random.Random(7)
    changes = feed(shared_data("data/commits_anon.tsv.gz"), 30_000, 5_000, rng)
    spec = tmp_path / "spec.yaml"
    spec.write_text(SPEC.format(directory=tmp_path, on_duplicate=on_duplicate))
    arriving = sorted(changes, key=lambda r: r["committed"] + rng.randrange(3_000))
    size = -(-len(changes) // 9)
    for part in range(3):
        for number in range(3 * part, 3 * part + 3):
            put(tmp_path / "in", arriving[size * number : size * (number + 1)], number)
        run(spark, spec, finish=part == 2)

    rows, did = valid(changes, on_duplicate, 20 * DAY)
    rejected = Counter(table(tmp_path, "rejected")["reason"].to_pylist())
    assert rejected == {"no_target": did["no_target"]}
    counters = [json.loads(r["counters"]) for r in table(tmp_path, "runs").to_pylist()]
    for name in ("replaced", "kept_first"):
        assert sum(c.get(name, 0) for c in counters) == did[name]
    assert min(did["no_target"], did["deleted"], did["replaced"]) > 50
    streams: dict[str | None, list[whole.Row]] = {None: rows}

    def at_least_two(totals: whole.Totals) -> Fraction | None:
        return mean(totals) if totals.rows >= 2 else None

    def author(v: whole.Values) -> Any:
        return v["author"]

    def letters(v: whole.Values) -> Any:
        return v["letters"]

    want = {
        "near": defined(streams, 20 * DAY, lambda e: whole.first(e, 20, whole.pairs_by(alike)), of_rows("hash")),
        "longest": defined(streams, 20 * DAY, lambda e: whole.first(e, 10, whole.rows_by(letters)), of_rows("hash", "at", "subject")),
        "busiest": defined(streams, 20 * DAY, lambda e: whole.groups(e, 5, author, letters, lambda t: t.rows), of_groups),
        "wordy": defined(streams, 5 * DAY, lambda e: whole.groups(e, 3, author, letters, at_least_two), of_groups),
    }
    columns: dict[str, tuple[str, ...]] = {
        "near": ("older_seq", "older_hash", "newer_seq", "newer_hash"), "longest": ("seq", "hash", "time", "subject"),
        "busiest": ("author",), "wordy": ("author",),
    }  # fmt: skip
    for query, changed in want.items():
        assert written(tmp_path, query, columns[query]) == changed, query
    assert all(len(c) > 200 for c in want.values())
    assert {c[-1] for c in want["near"]} == {"arrival", "promoted", "displaced", "delete", "expiry"}
    assert verified(spec)
