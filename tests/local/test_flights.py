"""Top-k, threshold queries and skylines over real rows: the specs that come with Skyband, and network flows, beside the definitions."""

from __future__ import annotations

import gzip
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from skyband.framework.tables.results.reader import Reader
from skyband.jobs.authoring.demo_data import write_landing
from skyband.jobs.spec import load_plan
from tests.conftest import ROOT
from tests.local.jobs import run
from tests.spark.cuts import verified
from tests.spark.jobs import table


def ran(name: str, directory: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, pd.DataFrame]:
    """Run a spec over a week of flights, prove it, and return its path and the flights that departed."""
    write_landing(directory / "landing", 7)
    monkeypatch.setenv("LANDING", str(directory / "landing"))
    monkeypatch.setenv("WAREHOUSE", str(directory / "tables"))
    spec = ROOT / "specs" / name
    run(spec)
    assert verified(spec)
    flights = pd.concat([pd.read_csv(p) for p in sorted((directory / "landing").iterdir())], ignore_index=True)
    flights["departed"] = pd.to_datetime(flights["departed"])
    return spec, flights[flights["departed"].notna()]


def test_the_flights_top_k_is_the_definitions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec, flights = ran("topk_flights.yaml", tmp_path, monkeypatch)
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


def test_the_flights_skyline_is_the_definitions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec, flights = ran("skyline_flights.yaml", tmp_path, monkeypatch)
    last = flights["departed"].max()
    identity = ["date", "carrier", "flight", "origin"]
    for query, days in (("unlucky", 2.0), ("unlucky_today", 0.5)):
        alive = flights[(flights["departed"] > last - pd.Timedelta(days=days)) & flights["arr_delay"].notna()]
        expected = []
        for _, airport in alive.groupby("origin"):
            late, far = airport["arr_delay"].to_numpy(), airport["distance"].to_numpy()
            beaten = [bool(np.any((late >= a) & (far <= d) & ((late > a) | (far < d)))) for a, d in zip(late, far, strict=True)]
            expected += airport.loc[~np.array(beaten), identity].to_numpy().tolist()
        rows = Reader(load_plan(str(spec))).as_of(query).rows.to_pylist()
        assert sorted([r[c] for c in identity] for r in rows) == sorted(expected), query
        assert [r["seq"] for r in rows] == sorted((r["seq"] for r in rows), reverse=True)


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
def test_network_flows(tmp_path: Path, shared_data: Callable[[str], Path]) -> None:
    source = shared_data("data/conn.csv.gz")
    (tmp_path / "in").mkdir()
    with gzip.open(source) as packed, open(tmp_path / "in" / "conn.csv", "wb") as plain:
        shutil.copyfileobj(packed, plain)
    rng = random.Random(5)
    rows = [f"p{i},{rng.random():.3f},{-rng.random():.3f},{100 * rng.random():.2f},{rng.choice(['', 1])}" for i in range(40)]
    (tmp_path / "profiles.csv").write_text("name,weight_sent,weight_received,weight_duration,min_duration\n" + "\n".join(rows) + "\n")
    spec = tmp_path / "spec.yaml"
    spec.write_text(CONN.format(directory=tmp_path))
    run(spec)
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
