"""A bucket with groups: cuts, restarts and a journal leave no trace, with deletions, calendar windows, sessions and decimals."""

from __future__ import annotations

import random
from collections import defaultdict
from decimal import Decimal
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pytest

from skyband.framework.plan.model import Plan
from skyband.framework.streaming.bucket.bucket import Bucket
from skyband.framework.streaming.rows.blocks import bytes_table, table_bytes
from skyband.framework.streaming.rows.config import HostConfig
from tests.framework.streaming.bucket.test_bucket import MINUTE, batches_of, keeping_a_journal
from tests.seeds import seeds
from tests.specs import plan_of_text

SPEC = """\
job: groups
source:
  format: csv
  path: in
  schema: {{id: bigint, ts: timestamp, grp: string, g: string, h: bigint, x: double, d: "decimal(18,2)", gone: boolean}}
  id: [id]
  event_time: {{column: ts, watermark: 5 minutes}}
  partition_by: [grp]
{deletes}window: {window}
queries:
  sums: {{type: topk_groups, group: g, score: sum(d), k: 1, ties: include, carry: [count(d), last(g)]}}
  spread: {{type: topk_groups, group: g, score: var_samp(d), k: 2, ties: include, window: {{tumbling: 10 minutes}}}}
  daily:
   {{type: topk_groups, group: [g, h], score: stddev_pop(x), k: 2, window: {{tumbling: 7 minutes, offset: 1 minutes, zone: Europe/Berlin}}}}
{sessions}  texts: {{type: topk_groups, group: h, score: distinct(g), having: count() > 1, k: 2, every: 3 minutes, carry: [first(g)]}}
  odd: {{type: topk_groups, group: g, score: "max(x) - min(x)", where: "g <> 'a'", k: 9}}
sink: {{path: out}}
"""
SESSIONS = "  busy: {type: threshold_groups, group: g, score: mean(d), above: 0.1, below: 0.05, window: {session: 4 minutes}}\n"
CASES = [("{time: 15 minutes}", "", SESSIONS), ("{time: 40 minutes, count: 6}", "deletes: gone\n", "")]
X = [None, 0.0, -0.0, float("nan"), 1.5, float("inf"), 1e308, -2.0]
D = [None, "0.10", "-0.10", "9999999999999999.99", "-9999999999999999.99", "0.05", "9007199254740993.01"]
Row = dict[str, Any]


def random_rows(seed: int) -> list[Row]:
    rng = random.Random(seed)
    rows: list[Row] = []
    for i in range(rng.randrange(1, 40)):
        d = rng.choice(D)
        made = {"id": i, "ts": MINUTE * (i + rng.randrange(4)) // rng.choice([1, 2]), "grp": rng.choice("pq"),
                "g": rng.choice(["a", "b", "", None]),
                "h": rng.choice([None, 0, -7]), "x": rng.choice(X), "d": None if d is None else Decimal(d), "gone": False}  # fmt: skip
        rows.append(made)
        if rng.random() < 0.3:
            rows.append({**rng.choice(rows), "ts": made["ts"], "gone": True})
    return rows


def table_of(config: HostConfig, rows: list[Row]) -> pa.Table:
    schema = config.row_schema()
    made = [{**r, "__k1": ord(r["grp"]), "__k2": ord(r["grp"]), "__h1": r["id"], "__h2": r["id"]} for r in rows]
    columns = {f.name: [m.get(f.name) for m in made] for f in schema}
    kinds = {f.name: pa.timestamp("us", "UTC") if f.name == "ts" else f.type for f in schema}
    return pa.table({n: pa.array(columns[n], pa.decimal128(18, 2) if n == "d" else kinds[n]) for n in columns}).cast(schema)


def drive(plan: Plan, batches: list[list[Row]], restore: bool) -> dict[str, list[Any]]:
    """Return what a bucket sends, as texts in order, but counters and instants of ``heads``."""
    config = HostConfig.of(plan, (), "test")
    bucket, state, out = Bucket(config, 0), dict[str, bytes](), defaultdict[str, list[str]](list)
    heads: dict[str, str] = {}
    watermark, newest = 0, 0
    for batch in [*batches, []]:
        if not batch:
            watermark = newest // 1000 + 1
        for kind, block in bucket.run([table_bytes(table_of(config, batch))] if batch else [], watermark, flush=not batch):
            if kind == "heads":
                heads |= {r["grp"]: repr(r) for r in bytes_table(block).drop_columns("as_of").to_pylist()}
            elif kind != "counts":
                out[kind] += map(repr, bytes_table(block).to_pylist())
        newest = max([newest, *(r["ts"] for r in batch)])
        watermark = max(watermark, newest // 1000 - plan.intake.delay_micros // 1000, 0)
        values, dropped = bucket.save()
        state |= values
        for name in dropped:
            del state[name]
        if restore:
            bucket = Bucket.restore(config, 0, state.get)
    return {kind: sorted(rows) for kind, rows in out.items()} | {"heads": sorted(heads.values())}


@pytest.mark.parametrize(("window", "deletes", "sessions"), CASES)
def test_cuts_restarts_and_a_journal_leave_no_trace(window: str, deletes: str, sessions: str) -> None:
    plan = plan_of_text(SPEC.format(window=window, deletes=deletes, sessions=sessions))
    kinds = set()
    for seed in seeds(0, 8):
        rows, rng = random_rows(seed), random.Random(seed)
        # Late rows depend on cuts.
        rows = sorted(rows, key=lambda r: r["ts"])
        whole = drive(plan, [rows], restore=False)
        kinds |= set(whole)
        batches = batches_of(rows, [rng.randrange(1, 4) for _ in range(12)])
        assert drive(plan, batches, restore=True) == whole
        with keeping_a_journal():
            assert drive(plan, batches, restore=False) == whole
            assert drive(plan, batches, restore=True) == whole
            crowded = [rng.random() < 0.3 for _ in range(100)]
            with patch.object(Bucket, "crowded", property(lambda _: crowded.pop())):  # noqa: B023 - used at once
                assert drive(plan, batches, restore=True) == whole
    assert {"final:spread", "final:daily", "trajectory:sums", "changes:odd", "heads"} <= kinds


@pytest.mark.parametrize("g", [None, "a"])
def test_groups_that_are_not_shown_yet_have_no_texts_to_keep(g: str | None) -> None:
    """A bucket is saved before the first boundary, with a text or without any."""
    queries = "  held: {type: topk_groups, group: h, score: count(), k: 1, every: 3 minutes, carry: [last(g)]}\n"
    head, tail = SPEC.format(window="{time: 15 minutes}", deletes="", sessions="").split("queries:\n")
    plan = plan_of_text(f"{head}queries:\n{queries}sink{tail.partition('sink')[2]}")
    plain = {"grp": "p", "g": g, "x": 1.0, "d": None, "gone": False}
    rows = [{"id": i, "ts": t * MINUTE, "h": i % 2, **plain} for i, t in enumerate([4, 5, 5, 20])]
    kept = drive(plan, [[row] for row in rows], restore=True)
    assert kept == drive(plan, [rows], restore=False) and kept["changes:held"]
