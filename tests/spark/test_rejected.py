"""Bad rows are never lost and never fatal: each lands in ``rejected`` with its reason, and the sums add up."""

from __future__ import annotations

import json
from collections import Counter
from datetime import timedelta

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.framework.streaming.bucket.test_large_sets import MEGABYTES, MILLION, names
from tests.spark.cuts import verified
from tests.spark.jobs import START, run, stamp, table, write_file, write_spec

pytestmark = pytest.mark.spark


def test_every_bad_row_is_in_rejected_with_its_reason(spark, tmp_path):
    spec = write_spec(tmp_path, watermark="10 minutes", max_files=1)
    good = [[i, stamp(i), "p", i % 5, 1, "ab"[i % 2]] for i in range(40)]
    bad = [
        ["", stamp(5), "p", 1, 1, "a"],  # null id
        [500, "", "p", 1, 1, "a"],  # null time
        [501, stamp(6), "p", "many", 1, "a"],  # not a number
        [502, "yesterday", "p", 1, 1, "a"],  # not a time
        [503, stamp(7), "p", 5_000_000, 1, "a"],  # breaks a row rule
        [504, "9999-12-31T12:00:00Z", "p", 1, 1, "a"],  # beyond every calendar
        [505, "1969-12-31T23:00:00Z", "p", 1, 1, "a"],  # before the watermark's
        [7, stamp(8), "p", 3, 1, "a"],  # an id that is alive
    ]
    write_file(tmp_path, "1.csv", good + bad, at=1)
    write_file(tmp_path, "2.csv", [[600, stamp(60), "p", 1, 1, "a"]], at=2)
    # What lies there when a run starts is never late because of each other: the late row comes for the second run.
    run(spark, spec, finish=False)
    write_file(tmp_path, "3.csv", [[601, stamp(3), "p", 2, 1, "a"], [602, stamp(61), "q", 2, 1, "b"]], at=3)
    run(spark, spec)
    rejected = table(tmp_path, "rejected").to_pylist()
    assert Counter(r["reason"] for r in rejected) == {
        "null_id": 1,
        "null_time": 1,
        "parse": 2,
        "rule:sane_x": 1,
        "time_range": 2,
        "duplicate_id": 1,
        "late": 1,
    }
    by_reason = {r["reason"]: r for r in rejected}
    assert json.loads(by_reason["late"]["text"])["id"] == 601
    assert by_reason["late"]["origin"] == "3.csv"
    assert json.loads(by_reason["duplicate_id"]["text"])["id"] == 7
    assert {r["text"].split(",")[0] for r in rejected if r["reason"] == "parse"} == {"501", "502"}
    runs = table(tmp_path, "runs").to_pylist()
    assert all(r["rows_in"] == r["filtered"] + r["rejected"] + r["accepted"] + r["pending_change"] for r in runs)
    assert sum(r["rows_in"] for r in runs) == 51
    assert sum(r["accepted"] for r in runs) == 42
    assert runs and max(runs, key=lambda r: r["batch_id"])["pending"] == 0


def test_text_that_is_no_utf8_is_rejected_repaired_and_verified(spark, tmp_path):
    spec = write_spec(
        tmp_path,
        scoring="tokens:\n  words: {column: side, short: reject}",
        queries="  twins: {type: similar_sets, tokens: words, min_score: 0.5}\n",
    )
    spec.write_text(spec.read_text().replace("format: csv", "format: parquet").replace("  options: {header: true}\n", ""))
    texts = [b"a b", b"\xff! a", None, b"b a", b"a \xc3\xa9"]
    side = pa.Array.from_buffers(pa.string(), len(texts), pa.array(texts, pa.binary()).buffers())
    n = range(len(texts))
    numbers = {"x": pa.array([1.0 * i for i in n]), "y": pa.array([1.0] * len(n))}
    times = pa.array([START + timedelta(minutes=i) for i in n], pa.timestamp("us", "UTC"))
    (tmp_path / "in").mkdir()
    pq.write_table(
        pa.table({"id": pa.array(n), "ts": times, "grp": ["p"] * len(n), **numbers, "side": side}), tmp_path / "in" / "1.parquet"
    )
    run(spark, spec)
    rejected = {json.loads(r["text"])["id"]: r for r in table(tmp_path, "rejected").to_pylist()}
    assert {i: r["reason"] for i, r in rejected.items()} == {1: "parse", 2: "empty_set:words"}
    assert json.loads(rejected[1]["text"])["side"] == "\ufffd! a"
    assert [(r["older_id"], r["newer_id"], r["score"]) for r in table(tmp_path, "twins_now").to_pylist()] == [(0, 3, 1.0)]
    assert verified(spec)


LEAST = -(2**63)
EDGES = """\
job: edges
source:
  format: {format}
  path: "{directory}/in"
  schema: {{id: bigint, ts: timestamp, n: bigint, m: bigint, seen: timestamp, day: date, side: bigint}}
  id: [id]
  event_time: {{column: ts}}
transform:
  - derive: {{derived: "if(n = 3, -9223372036854775807L - 1, n)"}}
deletes: "m = 77"
window: {{count: 50}}
scoring:
  by_n: {{expression: "n", direction: max}}
  by_derived: {{expression: "derived", direction: max}}
queries:
  top: {{type: topk, scoring: by_n, k: 50, where: "seen is null or seen > ts - 1 day or day is not null"}}
  all: {{type: threshold, scoring: by_derived, at_least: -9223372036854775808}}
sink: {{path: "{directory}/out"}}
run: {{trigger: once}}
"""


@pytest.mark.parametrize("kind", ["parquet", "delta"])
def test_what_stands_for_null_inside_is_rejected_and_never_taken_for_it(spark, tmp_path, kind):
    """The least bigint, the least instant, a date beyond all instants: in any column that a query or ``deletes`` reads, and in no other."""
    rows = pa.table(
        {
            "id": pa.array([LEAST, 2, 3, 4, 5, 6, 7, 8], pa.int64()),
            "ts": pa.array([START + timedelta(minutes=i) for i in range(8)], pa.timestamp("us", "UTC")),
            "n": pa.array([LEAST + 1, LEAST, 3, None, 5, 6, 7, 2**63 - 1], pa.int64()),
            "m": pa.array([1, 1, 1, 1, LEAST, 1, 1, None], pa.int64()),
            "seen": pa.array([None, 0, 0, 0, 0, LEAST, 0, 0], pa.int64()).cast(pa.timestamp("us", "UTC")),
            "day": pa.array([0, 0, 0, 0, 0, 0, 2**31 - 1, 1], pa.int32()).cast(pa.date32()),
            "side": pa.array([LEAST] * 8, pa.int64()),  # no query reads it
        }
    )
    landing = tmp_path / ("in" if kind == "parquet" else "rows")
    landing.mkdir()
    pq.write_table(rows, landing / "1.parquet")
    if kind == "delta":  # delta-rs knows no such dates
        spark.read.parquet(str(landing)).write.format("delta").save(str(tmp_path / "in"))
    spec = tmp_path / "spec.yaml"
    spec.write_text(EDGES.format(directory=tmp_path, format=kind))
    run(spark, spec)
    rejected = table(tmp_path, "rejected").to_pylist()
    assert Counter((r["reason"], json.loads(r["text"])["id"]) for r in rejected) == {("int_range", i): 1 for i in (2, 3, 5, 6, 7)}
    assert json.loads(rejected[0]["text"])["side"] == LEAST
    assert sorted((r["id"], r["score"]) for r in table(tmp_path, "top_now").to_pylist()) == [(LEAST, -(2.0**63)), (8, 2.0**63)]
    assert sorted((r["id"], r["score"]) for r in table(tmp_path, "all_now").to_pylist()) == [(LEAST, -(2.0**63)), (8, 2.0**63)]
    runs = table(tmp_path, "runs").to_pylist()
    assert [sum(r[n] for r in runs) for n in ("rejected_other", "rejected", "accepted")] == [5, 5, 3]
    assert verified(spec)


@pytest.mark.slow
def test_sets_of_a_million_tokens_long_texts_and_lists_that_are_no_text_are_rejected(spark, tmp_path):
    spec = write_spec(
        tmp_path, scoring="tokens:\n  words: {column: side}\n  tags: {column: tags, short: reject}", window="{count: 5}",
        queries="  seen: {type: matches, tokens: tags, k: 2}\n  alike: {type: similar_sets, tokens: words, min_score: 0.5}\n",
    )  # fmt: skip
    text = spec.read_text().replace("format: csv", "format: parquet").replace("  options: {header: true}\n", "")
    spec.write_text(text.replace("side: string}", "side: string, tags: array<string>}"))
    tags = [[b"a", b"b"], [b"a", b"\xff!"], [n.encode() for n in names(0, MILLION)], [b"x"], None, [b"b", None, b"a"]]
    flat = pa.array([t for row in tags for t in row or []], pa.binary())
    texts = pa.Array.from_buffers(pa.string(), len(flat), flat.buffers(), null_count=1)
    ends = pa.array([sum(len(t or []) for t in tags[:i]) for i in range(len(tags) + 1)], pa.int32())
    lists = pa.ListArray.from_arrays(ends, texts, mask=pa.array([t is None for t in tags]))
    side = [" ".join(names(0, MEGABYTES // 8)) if i == 3 else "one two" for i in range(len(tags))]
    n = range(len(tags))
    numbers = {"x": pa.array([1.0 * i for i in n]), "y": pa.array([1.0] * len(n))}
    times = pa.array([START + timedelta(minutes=i) for i in n], pa.timestamp("us", "UTC"))
    (tmp_path / "in").mkdir()
    rows = pa.table({"id": pa.array(n), "ts": times, "grp": ["p"] * len(n), **numbers, "side": side, "tags": lists})
    pq.write_table(rows, tmp_path / "in" / "1.parquet")
    run(spark, spec)
    rejected = {json.loads(r["text"])["id"]: r for r in table(tmp_path, "rejected").to_pylist()}
    assert {i: r["reason"] for i, r in rejected.items()} == {
        1: "parse", 2: "large_set:tags", 3: "large_set:words", 4: "empty_set:tags",
    }  # fmt: skip
    assert json.loads(rejected[1]["text"])["tags"] == ["a", "\ufffd!"]
    assert len(json.loads(rejected[2]["text"])["tags"]) == MILLION and json.loads(rejected[3]["text"])["side"] == side[3]
    assert [(r["older_id"], r["newer_id"], r["score"]) for r in table(tmp_path, "seen_changes").to_pylist()] == [(0, 5, 1.0)]
    assert verified(spec)
