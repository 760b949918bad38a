"""Polars in a loop: the window is a frame; after every batch its answer replaces the one in a Delta table.

It reuses what ``duck.py`` reuses. Joins take a thousand rows at a time, so that they stay in the caches.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import polars as pl

from bench.against.payments import HOUR, K

PART = 1_000
PAIR = {"market": pl.Int64, "older": pl.Int64, "newer": pl.Int64, "score": pl.Float64, "paid_at": pl.Datetime("us", "UTC")}
ATTRIBUTES = ("amount", "fee", "wait")


class Polars:
    """One query after every batch; the answer's table is ``out``."""

    def __init__(self, query: str, out: Path) -> None:
        self.query, self.out = query, out
        self.recent: pl.DataFrame | None = None
        self.pairs = pl.DataFrame(schema=PAIR)

    def batch(self, path: Path) -> None:
        """Takes a file; when it returns the answer can be read."""
        fresh = pl.read_parquet(path)
        low = pl.lit(fresh["paid_at"].max() - timedelta(microseconds=HOUR))
        before = fresh.clear() if self.recent is None else self.recent.filter(pl.col("paid_at") > low)
        fresh = fresh.filter(pl.col("paid_at") > low)
        if self.query == "topk":
            self.recent = pl.concat([before, fresh])
            said = ranked(self.recent, ["amount", "id"], [True, True], ["id"])
        elif self.query == "topk_pairs":
            self.pairs = self.pairs.filter(pl.col("paid_at") > low)
            for part in parts(fresh):
                before = pl.concat([before, part])
                self.pairs = best_of_each(pl.concat([self.pairs, new_pairs(before, part)]))
            self.recent = before
            said = ranked(self.pairs, ["score", "older", "newer"], [False, True, True], ["older", "newer"])
        else:
            for part in parts(fresh):
                both = pl.concat([before, part])
                before = without_beaten(both, by=both, newer=True)
            self.recent = before
            said = without_beaten(before, by=before, newer=False).select("market", "id")
        said.write_delta(str(self.out), mode="overwrite")


def parts(fresh: pl.DataFrame) -> Iterator[pl.DataFrame]:
    return fresh.iter_slices(PART)


def ranked(rows: pl.DataFrame, by: list[str], descending: list[bool], item: list[str]) -> pl.DataFrame:
    """The k first of every market, with their rank."""
    return (
        rows.sort(by, descending=descending)
        .group_by("market", maintain_order=True)
        .head(K)
        .select("market", pl.int_range(1, pl.len() + 1).over("market").alias("rank"), *item)
    )


def new_pairs(recent: pl.DataFrame, fresh: pl.DataFrame) -> pl.DataFrame:
    """Of every older row the k best pairs with new ones."""
    older = recent.lazy().select("market", "paid_at", "amount", "wait", older="id")
    newer = fresh.lazy().select("market", "amount", "wait", newer="id")
    apart = (pl.col("amount") - pl.col("amount_right")).abs() + (pl.col("wait") - pl.col("wait_right")).abs()
    joined = older.join(newer, on="market").filter(pl.col("older") < pl.col("newer"))
    return best_of_each(joined.select("market", "older", "newer", "paid_at", score=apart).collect()).select(*PAIR)


def best_of_each(pairs: pl.DataFrame) -> pl.DataFrame:
    """The k best pairs of every older row."""
    best = pl.struct("market", "newer", "score", "paid_at").bottom_k_by(["score", "newer"], K, reverse=[False, True])
    return pairs.group_by("older").agg(best.alias("best")).explode("best").unnest("best").select(*PAIR)


def without_beaten(rows: pl.DataFrame, by: pl.DataFrame, newer: bool) -> pl.DataFrame:
    """Rows that no row of ``by`` beats (``newer``: no newer one)."""
    amount, fee, wait = (pl.col(n) for n in ATTRIBUTES)
    amount_b, fee_b, wait_b = (pl.col(f"{n}_right") for n in ATTRIBUTES)
    beats = (amount_b >= amount) & (fee_b <= fee) & (wait_b <= wait) & ((amount_b > amount) | (fee_b < fee) | (wait_b < wait))
    if newer:
        beats &= pl.col("id_right") > pl.col("id")
    beaten = rows.lazy().join(by.lazy(), on="market").filter(beats).select("id").unique().collect()
    return rows.join(beaten, on="id", how="anti")
