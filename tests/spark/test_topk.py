"""Top-k and threshold queries, tables of them, and deletions through the whole job: cuts leave no trace, results are the definition's."""

from __future__ import annotations

import gzip
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pandas as pd
import pytest

from skyband.framework.base.errors import SkybandError, SpecErrors
from skyband.framework.tables.results.reader import Reader
from skyband.jobs.authoring.demo_data import write_landing
from skyband.jobs.spec import load_plan
from skyband.operators.base import Window
from tests.conftest import ROOT
from tests.framework.tables.sql.elsewhere import same_elsewhere
from tests.spark.cuts import same, verified, whole_and_in_parts, write
from tests.spark.jobs import changes, run, table, write_spec
from tests.spark.ranked import NAMES, QUERIES, SCORING, TABLES, deleting_stream, write_queries

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("keyed", [pytest.param(False, marks=pytest.mark.slow), True])
def test_files_restarts_and_partitions_leave_no_trace(spark: SparkSession, tmp_path: Path, keyed: bool) -> None:
    rows = deleting_stream(7)
    keys = ("grp",) if keyed else ()

    whole, parts = whole_and_in_parts(
        spark, tmp_path, rows, keyed, prepare=write_queries, queries=QUERIES, scoring=SCORING, deletes="deletes: side = 'd'"
    )
    for name in NAMES:
        same(whole, parts, name, ("query", *keys) if name in TABLES else keys)
    assert "delete" in set(changes(whole, "best", keys)["cause"].to_pylist())
    runs = table(parts, "runs").to_pylist()
    assert all(r["rows_in"] == r["filtered"] + r["rejected"] + r["accepted"] + r["pending_change"] for r in runs)
    rejected = table(parts, "rejected").to_pylist()
    assert sum(r["rejected_no_target"] for r in runs) == sum(r["reason"] == "no_target" for r in rejected) > 5
    assert sum(r["rejected_duplicate_id"] for r in runs) > 5
    assert verified(whole / "spec.yaml") and verified(parts / "spec.yaml")
    own_results(spark, parts, keys)
    refused_when_the_table_has_changed(spark, parts)


def own_results(spark: SparkSession, directory: Path, keys: tuple[str, ...]) -> None:
    """A query's own result and its first k come from the tables, for all queries of a table or one; SQL gives what the command gives."""
    reader = Reader(load_plan(str(directory / "spec.yaml")))
    sql = duckdb.connect()
    sql.execute("set timezone = 'UTC'")
    for name in NAMES:
        sql.register(f"{name}_now", table(directory, f"{name}_now"))
        everything = reader.as_of(name).rows
        best = reader.snapshot(name, k=1)
        assert best.rows.to_pylist() == [r for r in everything.to_pylist() if r["rank"] == 1]
        assert sql.sql(best.sql).to_arrow_table().select(best.rows.column_names).to_pylist() == best.rows.to_pylist()
        with pytest.raises(SkybandError, match="only its own window"):
            reader.snapshot(name, window=Window(3, None))
    answer = reader.as_of("many", key={"query": "q3"})
    one = answer.rows.to_pylist()
    assert same_elsewhere(reader.plan, "many", answer, spark) == len(one)
    assert one == [r for r in reader.as_of("many").rows.to_pylist() if r["query"] == "q3"] and one
    sql.register("many", table(directory, "many"))
    shown = [c for c in answer.rows.column_names if c != "rank"]
    assert sql.sql(answer.sql).to_arrow_table().select(shown).to_pylist() == [{c: r[c] for c in shown} for r in one]
    for member in reader.query("many").members:
        ranked = [r for r in table(directory, "many_now").to_pylist() if r["query"] == member]
        for key in {tuple(r[c] for c in keys) for r in ranked}:
            mine = sorted((r for r in ranked if tuple(r[c] for c in keys) == key), key=lambda r: r["rank"])
            scores = [r["score"] for r in mine]
            assert scores == sorted(scores, reverse=int(member[1:]) % 3 != 0), member
    # The largest k of the table is not that of each of its queries.
    assert {a.k for a in reader.query("many").asked} == {1, 3, 5}
    assert reader.snapshot("many", k=5, key={"query": next(a.name for a in reader.query("many").asked if a.k == 5)}).rows.num_rows
    with pytest.raises(SkybandError, match="from 1 to 1"):
        reader.snapshot("many", k=5)
    with pytest.raises(SkybandError, match="no query 'q99'"):
        reader.as_of("many", key={"query": "q99"})


def refused_when_the_table_has_changed(spark: SparkSession, directory: Path) -> None:
    path = directory / "queries.csv"
    lines = path.read_text().splitlines()
    path.write_text("\n".join([*lines[:4], lines[4].replace("q3,", "q3,9"), *lines[6:], "extra,1,1,,,"]) + "\n")
    for again in (lambda: run(spark, directory / "spec.yaml"), lambda: verified(directory / "spec.yaml")):
        with pytest.raises(SpecErrors) as e:
            again()
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
  path: "{directory}/in"
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
sink: {{path: "{directory}/out"}}
"""


@pytest.mark.slow
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
    spec.write_text(CONN.format(directory=tmp_path))
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
