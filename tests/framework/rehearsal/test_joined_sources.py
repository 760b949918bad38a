"""Rows of two sources joined by a key: bids with the auctions that they name, while these are open (as in Nexmark's query 20)."""

from __future__ import annotations

import random
from typing import Any

import pytest

from skyband.framework.rehearsal.rehearsal import Rehearsal
from skyband.operators.pair_rows.hash_index import index
from tests.framework.rehearsal.test_several_sources import MINUTE, plan_of
from tests.seeds import seeds

SPEC = """\
job: auctions
source:
  id: [id]
  event_time: {column: at, watermark: 3 minutes}
sources:
  auctions: {format: csv, path: /nowhere/auctions, schema: {id: bigint, at: timestamp, expires: timestamp, reserve: double}}
  bids: {format: csv, path: /nowhere/bids, schema: {id: bigint, at: timestamp, auction: bigint, price: double}}
window: {time: 1 hour}
scoring:
  above: {expression: b.price - a.reserve}
queries:
  open:
    type: threshold_pairs
    scoring: above
    min_score: 0
    between: {source: [auctions, bids]}
    where: a.id = b.auction and a.expires >= b.at
  dearest:
    type: topk_pairs
    scoring: above
    k: 4
    between: {source: [auctions, bids]}
    where: a.id = b.auction and a.expires >= b.at
  first: {type: matches, scoring: above, k: 1, between: {source: [auctions, bids]}, where: a.id = b.auction}
sink: {path: /nowhere/out}
"""


def rows_of(rng: random.Random) -> list[dict[str, Any]]:
    """Auctions and bids, some of them before their auction, after its end, or of none, each at an instant of its own."""
    found: list[dict[str, Any]] = []
    for n in range(160):
        at = n * MINUTE
        if rng.random() < 0.3:
            auction = {"source": "auctions", "id": n, "expires": at + rng.randint(5, 90) * MINUTE, "reserve": float(rng.randint(0, 9))}
            found.append(auction | {"at": at})
        else:
            named = rng.choice([None, n + rng.randint(-25, 3), *(r["id"] for r in found[-25:] if r["source"] == "auctions")])
            found.append({"source": "bids", "id": n, "auction": named, "price": float(rng.randint(0, 20)), "at": at})
    return found


def joined(rows: list[dict[str, Any]], every: bool) -> set[tuple[int, int, float]]:
    """Every auction and bid of it that are in the window together, with the score; ``every``: whatever the score and the end."""
    pairs = set()
    for a in rows:
        for b in rows:
            both = a["source"] == "auctions" and b["source"] == "bids" and b["auction"] == a["id"] and abs(a["at"] - b["at"]) < 60 * MINUTE
            if both and (every or (a["expires"] >= b["at"] and b["price"] >= a["reserve"])):
                pairs.add((a["id"], b["id"], b["price"] - a["reserve"]))
    return pairs


@pytest.mark.parametrize("seed", seeds(0, 6))
def test_bids_are_joined_with_their_auctions(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(seed)
    rows = rows_of(rng)
    runs = []
    for least in (0, 2**60):
        monkeypatch.setattr(index, "LEAST_OBJECTS", least)
        monkeypatch.setattr(index, "SHARE", 1)
        job = Rehearsal(plan_of(SPEC))
        for at in range(0, len(rows), 40):
            job.drop(rows[at : at + 40])
            if rng.random() < 0.5:
                job.restart()
        job.finish()
        runs.append({name: job.tables()[f"{name}_changes"].drop_columns(["batch_id"]).to_pylist() for name in ("open", "dearest", "first")})
    assert runs[0] == runs[1]
    entered = {(r["a_id"], r["b_id"], r["score"]) for r in runs[0]["open"] if r["change"] == "+"}
    assert entered == joined(rows, every=False)
    assert len(entered) > 10
    assert len(runs[0]["dearest"]) > 10
    assert {(r["a_id"], r["b_id"], r["score"]) for r in runs[0]["first"]} <= joined(rows, every=True)
