"""The rows, the three queries and the form of an answer, the same for all alternatives.

Payments of eight markets, evenly spread over event time, a window of an hour. Amounts follow a random walk, so results change all the
time. A file is a batch; the first one fills the window.
"""

from __future__ import annotations

import itertools
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

HOUR = 3_600_000_000
START = 1_600_000_000_000_000 // HOUR * HOUR
"""Microseconds; whole hours, so that hopping windows end where batches do."""
MARKETS = 8
K = 10
WALK = 0.7
"""Standard deviation of the level of log amounts after a window's rows."""

QUERIES = {
    "topk": "{type: topk, scoring: amount, k: 10}",
    "topk_pairs": "{type: topk_pairs, scoring: apart, k: 10}",
    "skyline": "{type: skyline, dimensions: {amount: max, fee: min, wait: min}}",
}
"""Of every market: the ten largest payments, the ten pairs most alike, and those that no other beats in amount, fee and wait."""

SPEC = """\
job: {query}
source:
  format: parquet
  path: "{files}"
  schema: {{id: bigint, paid_at: timestamp, market: bigint, amount: double, fee: double, wait: double}}
  id: [id]
  event_time: {{column: paid_at}}
  partition_by: [market]
window: {{time: 1 hour}}
scoring:
  amount: {{expression: amount, direction: max}}
  apart: {{expression: "abs(a.amount - b.amount) + abs(a.wait - b.wait)", direction: min}}
queries:
  answer: {asked}
sink: {{path: "{sink}"}}
run: {{max_bytes: 32m}}
"""

ITEM = {"topk": ("id",), "topk_pairs": ("older", "newer"), "skyline": ("id",)}
"""The columns that name an item of an answer, besides the market and, but for the skyline, its rank."""
COLUMNS = {q: ("market", *([] if q == "skyline" else ["rank"]), *item) for q, item in ITEM.items()}

Answer = frozenset[tuple[int, ...]]
"""Rows of the columns ``COLUMNS`` of a query."""


def spec(query: str, files: Path, sink: Path) -> str:
    """The job of one of ``QUERIES``; its tables are called ``answer...``."""
    return SPEC.format(query=query.replace("_", "-"), files=files, sink=sink, asked=QUERIES[query])


def rows(count: int, window: int, seed: int = 1) -> pa.Table:
    """``count`` payments, ``window`` of them an hour."""
    rng = np.random.default_rng(seed)
    pace = HOUR // window
    at = START + pace * np.arange(count) + rng.integers(0, pace, count)
    level = np.cumsum(rng.normal(0, WALK / np.sqrt(window), (count, MARKETS)), 0)
    market = rng.integers(0, MARKETS, count)
    return pa.table(
        {
            "id": np.arange(count),
            "paid_at": pa.array(at.astype("datetime64[us]"), pa.timestamp("us", "UTC")),
            "market": market,
            "amount": 100 * np.exp(level[np.arange(count), market] + rng.normal(0, 0.4, count)),
            "fee": rng.random(count),
            "wait": rng.exponential(1, count),
        }
    )


@dataclass(frozen=True)
class Batches:
    """Files of ``size`` rows after one that fills the window; ``ends``: the instant of each one's last row, in microseconds."""

    directory: Path
    size: int
    files: list[Path]
    ends: list[int]


def batches(table: pa.Table, window: int, size: int, most: int, directory: Path) -> Batches:
    """Writes a file of ``window`` rows and up to ``most`` of ``size`` rows."""
    directory.mkdir(parents=True, exist_ok=True)
    files, ends = [], []
    edges = [0, *range(window, min(window + size * most, len(table)) + 1, size)]
    for i, (low, high) in enumerate(itertools.pairwise(edges)):
        part = table.slice(low, high - low)
        files.append(write(part, directory / f"{i:05}.parquet", i))
        ends.append(pc.max(part["paid_at"].cast(pa.int64())).as_py())
    return Batches(directory, size, files, ends)


def write(table: pa.Table, path: Path, number: int) -> Path:
    """Write a whole file, with modification times in the order of numbers: all systems read in that order."""
    temporary = path.with_name("_" + path.name)
    pq.write_table(table, temporary)
    os.utime(temporary, (1_600_000_000 + number, 1_600_000_000 + number))
    temporary.rename(path)
    return path


def answer(query: str, table: Any) -> Answer:
    """What a table (of Arrow) of an answer says."""
    return frozenset(zip(*(table[c].cast(pa.int64()).to_pylist() for c in COLUMNS[query]), strict=True)) if len(table) else frozenset()


def unranked(query: str, said: Answer) -> Answer:
    """An answer without its ranks: what enters and leaves."""
    return said if query == "skyline" else frozenset((t[0], *t[2:]) for t in said)
