"""Departures of three airports as three sources of different formats, with tables of planes and fleets: as one source has them all."""

from __future__ import annotations

import csv
import gzip
import json
from collections.abc import Callable
from datetime import timedelta
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.oracles import whole
from tests.spark.cuts import verified
from tests.spark.defined import DAY, EPOCH, Values, defined, instant, mean, number_or_null, of_groups, of_rows, total, written
from tests.spark.jobs import run, table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.real, pytest.mark.slow]

FLOWN = ("left", "carrier", "flight", "dest", "source")
AIRPORTS = """\
sources:
  ewr:
    format: csv
    path: "{directory}/ewr"
    idle_after: 3 days
    schema:
      left: {{type: timestamp, from: dep_utc}}
      carrier: string
      flight: int
      tailnum: string
      dest: string
      delay: {{type: double, from: dep_delay}}
      distance: int
  jfk:
    format: json
    path: "{directory}/jfk"
    watermark: 1 hour
    schema:
      left: {{type: timestamp, from: at}}
      carrier: {{type: string, from: plane.carrier}}
      flight: int
      tailnum: {{type: string, from: plane.tailnum}}
      dest: string
      delay: double
      distance: int
  lga:
    format: parquet
    path: "{directory}/lga"
    schema: {{left: timestamp, carrier: string, flight: int, tailnum: string, dest: string, delay: double}}
"""
TOGETHER = """\
  format: parquet
  path: "{directory}/all"
  schema: {{left: timestamp, carrier: string, flight: int, tailnum: string, dest: string, source: string, delay: double, distance: int}}
"""
DEPARTURES = """\
job: departures
source:
  id: [{id}]
  event_time: {{column: left}}
{one}{several}lookups:
  plane:
    format: csv
    path: "{directory}/planes.csv"
    schema: {{number: string, seats: int, maker: string}}
    match: {{tailnum: number}}
    take: [seats, maker]
  fleet:
    format: parquet
    path: "{directory}/fleets.parquet"
    schema: {{code: string, alliance: string}}
    match: {{carrier: code}}
    take: {{partners: alliance}}
    missing: reject
quality: {{max_rejected: 100%, max_unusable: 100%}}
window: {{time: 12 hours}}
scoring:
  crowd: {{expression: delay * seats, direction: max}}
  delay: {{expression: delay, direction: max}}
  gap: {{expression: "abs(a.delay - b.delay) + abs(a.distance - b.distance) / 100", direction: min}}
queries:
  crowds: {{type: topk, scoring: crowd, k: 10, carry: [maker, partners]}}
  laguardia: {{type: topk, scoring: delay, k: 5, {of_lga}}}
  makers: {{type: topk_groups, group: maker, score: mean(delay), k: 3}}
  partners: {{type: topk_groups, group: partners, score: sum(seats), where: "delay > 0", k: 2, window: {{time: 3 hours}}}}
  close: {{type: topk_pairs, scoring: gap, k: 5, between: {between}, window: {{time: 1 hour}}}}
sink: {{path: "{directory}/out"}}
run: {{max_files: 2}}
"""


def put_departures(directory: Path, source: str, number: int, rows: list[Values]) -> None:
    """One file of a source in its own format, or of the one that has all of them."""
    (directory / source).mkdir(exist_ok=True)
    path = directory / source / f"{number}.{'csv' if source == 'ewr' else 'json' if source == 'jfk' else 'parquet'}"
    times = [f"{r['left']:%Y-%m-%dT%H:%M:%SZ}" for r in rows]
    if source == "ewr":
        with path.open("w", newline="") as file:
            out = csv.writer(file)
            out.writerow(["dep_utc", "carrier", "flight", "tailnum", "dest", "dep_delay", "distance"])
            out.writerows(
                [t, *(r[n] for n in ("carrier", "flight", "tailnum", "dest", "delay", "distance"))]
                for t, r in zip(times, rows, strict=True)
            )
    elif source == "jfk":
        nested = (
            {"at": t, "plane": {n: r[n] for n in ("carrier", "tailnum")}} | {n: r[n] for n in ("flight", "dest", "delay", "distance")}
            for t, r in zip(times, rows, strict=True)
        )
        path.write_text("".join(json.dumps(r) + "\n" for r in nested))
    else:
        types = {"left": pa.timestamp("us", "UTC"), "flight": pa.int32(), "delay": pa.float64(), "distance": pa.int32()}
        names = ["left", "carrier", "flight", "tailnum", "dest", "delay", *(["source", "distance"] if source == "all" else [])]
        pq.write_table(pa.table({n: pa.array([r[n] for r in rows], types.get(n, pa.string())) for n in names}), path)


def departures(path: Path, many: int) -> list[Values]:
    """The first rows of the file, in canonical order; one airport says nothing of distances."""
    made = []
    with gzip.open(path, "rt", newline="") as file:
        for r in islice(csv.DictReader(file), many):
            row: Values = {n: r[n] or None for n in ("carrier", "tailnum", "dest")} | {
                "flight": int(r["flight"]),
                "source": r["origin"].lower(),
            }
            row |= {"left": EPOCH + timedelta(microseconds=instant(r["dep_utc"].rstrip("Z"))), "delay": number_or_null(r["dep_delay"])}
            made.append(row | {"distance": None if r["origin"] == "LGA" else int(r["distance"])})
    return sorted(made, key=lambda r: [r[n] for n in FLOWN])


def test_departures_of_three_airports(spark: SparkSession, tmp_path: Path, shared_data: Callable[[str], Path]) -> None:
    rows = departures(shared_data("data/departures_stream.csv.gz"), 9_000)
    numbers = sorted({r["tailnum"] for r in rows if r["tailnum"]})
    planes = {
        t: (50 + 7 * n % 300, ("airbus", "boeing", "bombardier", "embraer", "mcdonnell")[n % 5]) for n, t in enumerate(numbers) if n % 8
    }
    fleets = {c: ("one", "sky", "star")[n % 3] for n, c in enumerate(sorted({r["carrier"] for r in rows} - {"YV", "WN"}))}
    several, one = tmp_path / "several", tmp_path / "one"
    for directory in (several, one):
        directory.mkdir()
        lines = [f"{t},{seats},{maker}\n" for t, (seats, maker) in planes.items()]
        (directory / "planes.csv").write_text("number,seats,maker\n" + "".join(lines))
        pq.write_table(pa.table({"code": list(fleets), "alliance": list(fleets.values())}), directory / "fleets.parquet")
    (one / "spec.yaml").write_text(DEPARTURES.format(
        directory=one, one=TOGETHER.format(directory=one), several="", of_lga="where: \"source = 'lga'\"",
        between="{column: source, a: ewr, b: jfk}", id=", ".join(FLOWN),
    ))  # fmt: skip
    (several / "spec.yaml").write_text(DEPARTURES.format(
        directory=several, one="", several=AIRPORTS.format(directory=several), of_lga="from: lga",
        between="{source: [ewr, jfk]}", id=", ".join(FLOWN[:-1]),
    ))  # fmt: skip
    # In each of three runs, one airport has come further than the others, another less far.
    for number, ends in enumerate(((0.3, 0.4, 0.2), (0.6, 0.5, 0.7), (1, 1, 1))):
        for source, end, begin in zip(("ewr", "jfk", "lga"), ends, [(0, 0, 0), (0.3, 0.4, 0.2), (0.6, 0.5, 0.7)][number], strict=True):
            mine = [r for r in rows if r["source"] == source]
            mine = mine[int(begin * len(mine)) : int(end * len(mine))]
            for part in range(2):
                put_departures(several, source, 2 * number + part, mine[part::2])
        run(spark, several / "spec.yaml", finish=number == 2)
    put_departures(one, "all", 0, rows)
    run(spark, one / "spec.yaml")

    accepted = []
    for r in rows:
        seats, maker = planes.get(r["tailnum"], (None, None))
        if r["carrier"] in fleets:
            at = (r["left"] - EPOCH) // timedelta(microseconds=1)
            accepted.append((at, r | {"seats": seats, "maker": maker, "partners": fleets[r["carrier"]]}))
    streams = {None: whole.numbered(accepted)}
    hour = DAY // 24

    def crowd(v: whole.Values) -> float | None:
        return None if v["seats"] is None or v["delay"] is None else v["delay"] * v["seats"]

    def gap(older: whole.Values, newer: whole.Values) -> float | None:
        # The difference is the same for both orders of the two.
        if {older["source"], newer["source"]} != {"ewr", "jfk"} or None in (older["delay"], newer["delay"]):
            return None
        return abs(older["delay"] - newer["delay"]) + abs(older["distance"] - newer["distance"]) / 100

    def ends(objects: list[Values], seqs: tuple[Any, ...]) -> tuple[Any, ...]:
        a, b = sorted(seqs, key=lambda s: objects[s]["source"])
        return of_rows("left", "carrier", "flight")(objects, (a, b))

    def late_partners(v: whole.Values) -> str | None:
        return v["partners"] if (v["delay"] or 0) > 0 else None

    late = whole.rows_by(lambda v: v["delay"] if v["source"] == "lga" else None)
    want = {
        "crowds": defined(streams, 12 * hour, lambda e: whole.first(e, 10, whole.rows_by(crowd)), of_rows(*FLOWN, "maker", "partners")),
        "laguardia": defined(streams, 12 * hour, lambda e: whole.first(e, 5, late), of_rows(*FLOWN)),
        "makers": defined(streams, 12 * hour, lambda e: whole.groups(e, 3, lambda v: v["maker"], lambda v: v["delay"], mean), of_groups),
        "partners": defined(streams, 3 * hour, lambda e: whole.groups(e, 2, late_partners, lambda v: v["seats"], total), of_groups),
        "close": defined(streams, hour, lambda e: whole.first(e, 5, whole.pairs_by(gap, 1)), ends),
    }
    columns: dict[str, tuple[str, ...]] = {
        "crowds": ("seq", *FLOWN, "maker", "partners"), "laguardia": ("seq", *FLOWN), "makers": ("maker",), "partners": ("partners",),
        "close": tuple(f"{side}_{n}" for side in "ab" for n in ("seq", "left", "carrier", "flight")),
    }  # fmt: skip
    for directory in (one, several):
        assert set(table(directory, "rejected")["reason"].to_pylist()) == {"no_match:fleet"}
        assert table(directory, "rejected").num_rows == len(rows) - len(accepted) > 50
        for query, changes in want.items():
            assert written(directory, query, columns[query]) == changes, query
    assert all(len(c) > 200 for c in want.values())
    assert verified(several / "spec.yaml")
