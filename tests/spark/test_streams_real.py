"""Streams as people have them, on real data: look-ups, several sources, corrections and statistics, against definitions in plain Python."""

from __future__ import annotations

import csv
import gzip
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

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


# Prices, with a table of sectors

SECTORS = ("Energy", "Financials", "Health", "Industrials", "Materials", "Staples", "Utilities")
MONTHS = ("2015-05", "2015-06", "2015-07")
PRICES = """\
job: prices
source:
  format: csv
  path: "{directory}/in"
  options: {{header: true}}
  schema:
    day: {{type: timestamp, from: date}}
    open: double
    close: double
    volume: bigint
    ticker: {{type: string, from: Name}}
  id: [day, ticker]
  event_time: {{column: day}}
  {keyed}
lookups:
  company:
    format: {format}
    path: "{directory}/companies.{format}"
    schema: {{name: string, sector: string, board: string, since: timestamp, until: timestamp}}
    match: {{ticker: name}}
    take: [sector, board]
    {join}
quality: {{max_rejected: 100%, max_unusable: 100%}}
window: {{time: 10 days}}
scoring:
  gain: {{expression: "(close - open) / open", direction: max}}
queries:
  best: {{type: topk, scoring: gain, k: 5, carry: [sector]}}
  energy: {{type: topk, scoring: gain, k: 10, where: "sector = 'Energy'", window: {{time: 5 days}}, carry: [sector]}}
  dear: {{type: topk_groups, group: sector, score: mean(close), k: 3}}
  traded: {{type: topk_groups, group: sector, score: sum(volume), k: 4, window: {{time: 5 days}}}}
sink: {{path: "{directory}/out"}}
"""


def companies(tickers: Iterable[str], number: int, as_of: bool) -> list[Values]:
    """The table of run ``number``: one ticker of seven is missing, and some change their sector from table to table, or at an instant."""
    made = []
    for n, ticker in enumerate(sorted(tickers)):
        sector, moved = SECTORS[n % 7], SECTORS[(n + (n % 5 == 0) * number + (n % 5 == 1 and as_of)) % 7]
        row = {"name": ticker, "sector": moved, "board": "new york" if n % 3 else "nasdaq", "since": None, "until": None}
        if n % 7 == number % 2 + 2:
            continue
        if as_of and n % 5 == 1:
            # The second interval begins where the first one ends, or some days later.
            made.append(row | {"sector": sector, "until": "2015-06-10"})
            row["since"] = "2015-06-10" if n % 2 else "2015-06-16"
        made.append(row)
    return made


def put_companies(directory: Path, rows: list[Values], format: str) -> None:
    path = directory / f"companies.{format}"
    if format == "csv":
        with path.open("w", newline="") as file:
            out = csv.DictWriter(file, list(rows[0]))
            out.writeheader()
            out.writerows(rows)
        return
    stamps = pa.timestamp("us", "UTC")
    moments = {n: pa.array([None if r[n] is None else instant(r[n]) for r in rows], stamps) for n in ("since", "until")}
    pq.write_table(pa.table({n: [r[n] for r in rows] for n in ("name", "sector", "board")} | moments), path)


def looked_up(rows: list[Values], ticker: str, at: int) -> Values | None:
    """The row of a table for a ticker at an instant."""
    for row in rows:
        begins, ends = (row[n] and instant(row[n]) for n in ("since", "until"))
        if row["name"] == ticker and (begins is None or begins <= at) and (ends is None or at < ends):
            return row
    return None


@pytest.mark.parametrize("how", ["null", "reject", "as_of"])
def test_prices_beside_a_table_of_sectors(spark: SparkSession, tmp_path: Path, shared_data: Callable[[str], Path], how: str) -> None:
    with gzip.open(shared_data("data/sp500_5yr.csv.gz"), "rt", newline="") as file:
        prices = [r for r in csv.DictReader(file) if r["date"][:7] in MONTHS and "05" <= r["date"][8:] <= "17"]
    tickers = {r["Name"] for r in prices}
    join = {"null": "missing: null", "reject": "missing: reject"}.get(how, "missing: reject\n    as_of: {from: since, to: until}")
    keyed = how == "reject"
    accepted: list[tuple[int, Values]] = []
    rejected = 0
    (tmp_path / "in").mkdir()
    for number, month in enumerate(MONTHS):
        # The table may also come in another format from run to run.
        format = ("csv", "parquet", "csv")[number]
        spec = tmp_path / "spec.yaml"
        spec.write_text(PRICES.format(directory=tmp_path, format=format, join=join, keyed="partition_by: [board]" if keyed else ""))
        known = companies(tickers, number, how == "as_of")
        put_companies(tmp_path, known, format)
        rows = [r for r in prices if r["date"].startswith(month)]
        for part in range(2):
            with (tmp_path / "in" / f"{month}.{part}.csv").open("w", newline="") as file:
                out = csv.DictWriter(file, list(rows[0]))
                out.writeheader()
                out.writerows(rows[part::2])
        run(spark, spec, finish=month == MONTHS[-1])
        for r in rows:
            at = instant(r["date"])
            company = looked_up(known, r["Name"], at)
            if company is None and how != "null":
                rejected += 1
                continue
            values: Values = {n: number_or_null(r[n]) for n in ("open", "close")} | {"day": EPOCH + timedelta(microseconds=at)}
            values |= {"volume": int(r["volume"]), "ticker": r["Name"]}
            accepted.append((at, values | {n: company and company[n] for n in ("sector", "board")}))
    assert Counter(table(tmp_path, "rejected")["reason"].to_pylist()) == ({"no_match:company": rejected} if rejected else {})
    assert (rejected > 1_500) == (how != "null")
    accepted.sort(key=lambda r: (r[0], r[1]["ticker"]))
    split: defaultdict[str | None, list[tuple[int, Values]]] = defaultdict(list)
    for at, values in accepted:
        split[values["board"] if keyed else None].append((at, values))
    streams = {key: whole.numbered(rows) for key, rows in split.items()}

    def gain(v: whole.Values) -> float | None:
        return None if v["open"] is None else (v["close"] - v["open"]) / v["open"]

    def of_energy(v: whole.Values) -> float | None:
        return gain(v) if v["sector"] == "Energy" else None

    key = "board" if keyed else None
    columns = ("day", "ticker", "sector")
    compared = 0
    for query, k, days, score in (("best", 5, 10, gain), ("energy", 10, 5, of_energy)):
        want = defined(streams, days * DAY, lambda e: whole.first(e, k, whole.rows_by(score)), of_rows(*columns))  # noqa: B023
        assert written(tmp_path, query, ("seq", *columns), key) == want
        compared += len(want)
    for query, k, days, column, aggregate in (("dear", 3, 10, "close", mean), ("traded", 4, 5, "volume", total)):
        want = defined(
            streams, days * DAY,
            lambda e: whole.groups(e, k, lambda v: v["sector"], lambda v: v[column], aggregate), of_groups,  # noqa: B023
        )  # fmt: skip
        assert written(tmp_path, query, ("sector",), key) == want
        compared += len(want)
    assert compared > 1_000
    assert verified(spec)
