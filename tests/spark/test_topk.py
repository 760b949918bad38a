"""Top-k and threshold queries, tables of them, and deletions through the whole job: cuts leave no trace, results are the definition's."""

from __future__ import annotations

import argparse
import gzip
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pandas as pd
import pytest

from skyband.framework.catalog.flights import write_landing
from skyband.framework.errors import SkybandError, SpecErrors
from skyband.framework.tables.reader import Reader
from skyband.jobs import verify
from skyband.jobs.spec import load_plan
from skyband.operators.base import Window
from tests.conftest import ROOT
from tests.spark.jobs import changes, run, sorted_rows, stamp, table, write_spec
from tests.spark.test_cuts import without_spark, write

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

SCORING = """\
  high: {expression: "x + y", direction: max}
  plain: {linear: {x: 1, y: -2}, direction: min}
"""
QUERIES = """\
  best: {type: topk, scoring: high, k: 4, carry: [x, y]}
  best20: {type: topk, scoring: high, k: 2, window: {count: 20}, where: "side <> 'b'"}
  hourly: {type: topk, scoring: plain, k: 3, every: 1 hour}
  hot: {type: threshold, scoring: high, at_least: 12, carry: [x]}
  many: {type: topk, k: 3, queries_from: {format: csv, path: queries.csv}, carry: [x]}
  limits: {type: threshold, above: 9, queries_from: {format: csv, path: limits.csv}}
"""
NAMES = ("best", "best20", "hourly", "hot", "many", "limits")
TABLES = ("many", "limits")


def verified(spec: Path) -> bool:
    """What ``skyband verify`` says."""
    return verify.run(argparse.Namespace(spec=str(spec), keys=3, instants=40, seed=1, replay_only=False)) == 0


def deleting_stream(seed: int, n: int = 420) -> list[list[object]]:
    """Rows with ties, nulls, disorder of up to 50 minutes, double ids, and deletions (side d), some of them of nothing."""
    rng = random.Random(seed)
    rows: list[tuple[float, list[object]]] = []
    for i in range(n):
        minute = i * 2 + rng.choice([0, 0, 1])
        side = "d" if rng.random() < 0.2 else rng.choice("ab")
        ident = 10_000 + i - rng.randrange(40) if side == "d" or rng.random() < 0.1 else 10_000 + i
        x = "" if rng.random() < 0.05 else rng.randrange(12)
        rows.append((minute, [ident, stamp(minute), "pqr"[ident % 3], x, rng.randrange(4), side]))
    rows.sort(key=lambda r: r[0] + rng.random() * 50)
    return [r for _, r in rows]


def write_queries(folder: Path) -> None:
    rng = random.Random(3)
    rows = [f"q{i},{rng.randint(-3, 3)},{rng.randint(-3, 3)},{rng.choice(['', 1, 5])},{rng.choice(['', 2])}" for i in range(12)]
    (folder / "queries.csv").write_text("name,weight_x,weight_y,k,min_x\n" + "\n".join(rows) + "\n")
    rows = [f"t{i},{rng.randint(-3, 3)},{rng.randint(-3, 3)},{rng.choice(['', 20])}" for i in range(8)]
    (folder / "limits.csv").write_text("name,weight_x,weight_y,at_most\n" + "\n".join(rows) + "\n")


@pytest.mark.parametrize("keyed", [False, True])
def test_files_restarts_and_partitions_leave_no_trace(spark: SparkSession, tmp_path: Path, keyed: bool) -> None:
    rows = deleting_stream(7)
    keys = ("grp",) if keyed else ()

    def one(name: str, partitions: int, max_files: int, files: int, restart: bool) -> Path:
        folder = tmp_path / name
        folder.mkdir()
        write_queries(folder)
        spec = write_spec(
            folder, queries=QUERIES, partition=keyed, max_files=max_files, buckets=3 if keyed else None, scoring=SCORING,
            deletes="deletes: side = 'd'",
        )  # fmt: skip
        if restart:
            write(folder, rows, files, slice(0, files // 2))
            run(spark, spec, finish=False, partitions=partitions)
            write(folder, rows, files, slice(files // 2, None))
        else:
            write(folder, rows, files)
        run(spark, spec, partitions=partitions)
        return folder

    whole = one("whole", partitions=1, max_files=100, files=1, restart=False)
    parts = one("parts", partitions=2, max_files=3, files=9, restart=True)
    for name in NAMES:
        streams = ("query", *keys) if name in TABLES else keys
        expected = changes(whole, name, streams)
        assert expected.num_rows > 25
        assert changes(parts, name, streams).equals(expected), name
        assert expected.equals(without_spark(whole, name, streams)), name
        for of in (name, f"{name}_now"):
            assert sorted_rows(table(parts, of)) == sorted_rows(table(whole, of)), of
    assert "delete" in set(changes(whole, "best", keys)["cause"].to_pylist())
    runs = table(parts, "runs").to_pylist()
    assert all(r["rows_in"] == r["filtered"] + r["rejected"] + r["accepted"] + r["pending_change"] for r in runs)
    rejected = table(parts, "rejected").to_pylist()
    assert sum(r["rejected_no_target"] for r in runs) == sum(r["reason"] == "no_target" for r in rejected) > 5
    assert sum(r["rejected_duplicate_id"] for r in runs) > 5
    assert verified(whole / "spec.yaml") and verified(parts / "spec.yaml")
    own_results(parts, keys)
    refused_when_the_table_has_changed(spark, parts)


def own_results(folder: Path, keys: tuple[str, ...]) -> None:
    """A query's own result and its first k come from the tables, for all queries of a table or one; SQL gives what the command gives."""
    reader = Reader(load_plan(str(folder / "spec.yaml")))
    sql = duckdb.connect()
    sql.execute("set timezone = 'UTC'")
    for name in NAMES:
        sql.register(f"{name}_now", table(folder, f"{name}_now"))
        everything = reader.as_of(name).rows
        best = reader.snapshot(name, k=1)
        assert best.rows.to_pylist() == [r for r in everything.to_pylist() if r["rank"] == 1]
        assert sql.sql(best.sql).to_arrow_table().select(best.rows.column_names).to_pylist() == best.rows.to_pylist()
        with pytest.raises(SkybandError, match="only its own window"):
            reader.snapshot(name, window=Window(3, None))
    one = reader.as_of("many", key={"query": "q3"}).rows.to_pylist()
    assert one == [r for r in reader.as_of("many").rows.to_pylist() if r["query"] == "q3"] and one
    with pytest.raises(SkybandError, match="no query 'q99'"):
        reader.as_of("many", key={"query": "q99"})


def refused_when_the_table_has_changed(spark: SparkSession, folder: Path) -> None:
    path = folder / "queries.csv"
    lines = path.read_text().splitlines()
    path.write_text("\n".join([*lines[:4], lines[4].replace("q3,", "q3,9"), *lines[6:], "extra,1,1,,"]) + "\n")
    with pytest.raises(SpecErrors) as e:
        run(spark, folder / "spec.yaml")
    assert {x.message for x in e.value.errors} == {
        "queries.many.queries_from.q3 has changed", "queries.many.queries_from.q4 has been removed",
        "queries.many.queries_from.extra is new",
    }  # fmt: skip


def test_a_skyband_is_kept_without_deletions_and_answers_other_windows(spark: SparkSession, tmp_path: Path) -> None:
    write_queries(tmp_path)
    spec = write_spec(tmp_path, queries=QUERIES, scoring=SCORING)
    write(tmp_path, deleting_stream(8), 3)
    run(spark, spec)
    assert verified(spec)
    reader = Reader(load_plan(str(spec)))
    rows = pd.read_csv(tmp_path / "in" / "000.csv")
    accepted = pd.concat([rows, *(pd.read_csv(tmp_path / "in" / f"00{i}.csv") for i in (1, 2))])
    assert len(accepted) == 420
    sql = duckdb.connect()
    sql.execute("set timezone = 'UTC'")
    for name in ("heads", "best_skyband"):
        sql.register(name, table(tmp_path, name))
    for k, window in ((4, Window(7, None)), (2, Window(None, 3_600_000_000)), (3, Window(30, 5_400_000_000))):
        answer = reader.snapshot("best", k, window)
        assert answer.rows.num_rows == k
        assert sql.sql(answer.sql).to_arrow_table().select(answer.rows.column_names).to_pylist() == answer.rows.to_pylist()
        scores = answer.rows["score"].to_pylist()
        assert scores == sorted(scores, reverse=True)


def test_the_flights_top_k_is_the_definitions(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_landing(tmp_path / "landing", 7)
    monkeypatch.setenv("LANDING", str(tmp_path / "landing"))
    monkeypatch.setenv("WAREHOUSE", str(tmp_path / "tables"))
    spec = ROOT / "specs" / "topk_flights.yaml"
    run(spark, spec)
    assert verified(spec)
    flights = pd.concat([pd.read_csv(p) for p in sorted((tmp_path / "landing").iterdir())], ignore_index=True)
    flights["departed"] = pd.to_datetime(flights["departed"])
    flights = flights[flights["departed"].notna()]
    last = flights["departed"].max()
    reader = Reader(load_plan(str(spec)))

    def alive(days: float) -> Any:
        return flights[flights["departed"] > last - pd.Timedelta(days=days)]

    assert _scores(reader, "latest") == sorted(alive(7)["arr_delay"].dropna(), reverse=True)[:10]
    assert _scores(reader, "latest_today") == sorted(alive(1)["arr_delay"].dropna(), reverse=True)[:3]
    assert _scores(reader, "very_late") == sorted((x for x in alive(2)["arr_delay"] if x >= 240), reverse=True)
    jfk = alive(1)[alive(1)["origin"] == "JFK"]
    assert _scores(reader, "watch", "late_jfk_today") == sorted((jfk["dep_delay"] + jfk["arr_delay"]).dropna(), reverse=True)[:10]
    assert {r["query"] for r in reader.as_of("watch").rows.to_pylist()} == set(
        pd.read_csv(ROOT / "specs" / "topk_flights_watch.csv")["name"]
    )


def _scores(reader: Reader, query: str, member: str | None = None) -> list[float]:
    found: list[float] = reader.as_of(query, key={"query": member} if member else None).rows["score"].to_pylist()
    return found


CONN = """\
job: network-flows
source:
  format: csv
  path: "{folder}/in"
  options: {{header: true}}
  schema:
    start: {{type: double, from: ts}}
    uid: string
    source: {{type: string, from: id.orig_h}}
    target: {{type: string, from: id.resp_h}}
    proto: string
    service: string
    duration: double
    sent: {{type: double, from: orig_bytes}}
    received: {{type: double, from: resp_bytes}}
    sent_packets: {{type: bigint, from: orig_pkts}}
    received_packets: {{type: bigint, from: resp_pkts}}
    capture: string
  id: [capture, uid]
  event_time: {{column: began, watermark: 1 hour}}
transform:
  - derive:
      began: {{sql: "timestamp_micros(cast(round(start * 1e6) as bigint))", type: timestamp}}
      packets: {{sql: "sent_packets + received_packets", type: bigint}}
window: {{count: 5000}}
scoring:
  throughput: {{expression: "(sent + received) / duration", direction: max}}
  packets: {{expression: packets, direction: min}}
  bytes: {{linear: {{sent: 1, received: 1}}}}
queries:
  fastest: {{type: topk, scoring: throughput, k: 10, carry: [source, target, duration]}}
  fastest_tcp: {{type: topk, scoring: throughput, k: 5, where: "proto = 'tcp' and duration > 0.01", window: {{count: 1000}}}}
  fewest_packets: {{type: topk, scoring: packets, k: 10, where: "service is not null"}}
  large: {{type: threshold, scoring: bytes, above: 100000, carry: [source, target]}}
  profiles: {{type: topk, k: 5, queries_from: {{format: csv, path: profiles.csv}}}}
sink: {{path: "{folder}/out"}}
"""


@pytest.mark.real
def test_network_flows(spark: SparkSession, tmp_path: Path, shared_data: Callable[[str], Path]) -> None:
    source = shared_data("data/conn.csv.gz")
    (tmp_path / "in").mkdir()
    with gzip.open(source) as packed, open(tmp_path / "in" / "conn.csv", "wb") as plain:
        shutil.copyfileobj(packed, plain)
    rng = random.Random(5)
    rows = [f"p{i},{rng.random():.3f},{-rng.random():.3f},{100 * rng.random():.2f},{rng.choice(['', 1])}" for i in range(40)]
    (tmp_path / "profiles.csv").write_text("name,weight_sent,weight_received,weight_duration,min_duration\n" + "\n".join(rows) + "\n")
    spec = tmp_path / "spec.yaml"
    spec.write_text(CONN.format(folder=tmp_path))
    run(spark, spec)
    assert verified(spec)
    flows = pd.read_csv(source, low_memory=False).sort_values(["ts", "capture", "uid"], kind="stable")
    assert sum(r["accepted"] for r in table(tmp_path, "runs").to_pylist()) == len(flows) == 46_662
    last = flows.tail(5000)
    reader = Reader(load_plan(str(spec)))
    total = last["orig_bytes"] + last["resp_bytes"]
    speed = (total / last["duration"]).dropna()
    assert _scores(reader, "fastest") == sorted(speed, reverse=True)[:10]
    assert _scores(reader, "large") == sorted((x for x in total if x > 100_000), reverse=True)
    few = last[last["service"].notna()]
    assert _scores(reader, "fewest_packets") == sorted(few["orig_pkts"] + few["resp_pkts"])[:10]
    runs = table(tmp_path, "runs").to_pylist()
    assert all("duration" not in r["unusable"] for r in runs) and any('"fastest":' in r["unusable"] for r in runs)
