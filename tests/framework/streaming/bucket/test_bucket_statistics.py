"""A bucket with statistics: cuts, restarts and a journal leave no trace, nor does state that is made again."""

from __future__ import annotations

import random
from typing import Any
from unittest.mock import patch

import pytest

from skyband.framework.plan.model import Plan
from skyband.framework.streaming.bucket import statistics
from tests.framework.streaming.bucket.test_bucket import batches_of, keeping_a_journal
from tests.framework.streaming.bucket.test_bucket_groups import Row, drive, random_rows
from tests.seeds import seeds
from tests.specs import plan_of_text

SPEC = """\
job: statistics
source:
  format: csv
  path: in
  schema: {{id: bigint, ts: timestamp, grp: string, g: string, h: bigint, x: double, d: "decimal(18,2)", gone: boolean}}
  id: [id]
  event_time: {{column: ts, watermark: 5 minutes}}
  partition_by: [grp]
{deletes}window: {window}
stats:
  whole: {{mean: x, stddev: x, min: d, max: h, sum: h, count: g}}
  parts: {{mean: d, stddev: d, max: x, sum: d, count: x, by: [g], window: {own}, at_least: 2}}
scoring:
  newest: {{expression: id, direction: max}}
  odd: {{expression: "abs(a.whole.count - b.whole.max)"}}
queries:
  all: {{type: topk, scoring: newest, k: 1000, carry: [{columns}]}}
  above: {{type: threshold, scoring: newest, at_least: 3, where: "d > parts.mean or x > whole.mean"}}
  near: {{type: topk_pairs, scoring: odd, k: 2, where: "a.whole.count <> b.whole.count"}}
  groups: {{type: topk_groups, group: g, score: "max(whole.count) + sum(coalesce(parts.mean, 1))", k: 2}}
sink: {{path: out}}
"""
COLUMNS = (
    "whole_mean", "whole_stddev", "whole_min", "whole_max", "whole_sum", "whole_count",
    "parts_mean", "parts_stddev", "parts_max", "parts_sum", "parts_count",
)  # fmt: skip
CASES = [
    ("{time: 15 minutes}", "9 minutes", "", ()),
    ("{time: 40 minutes, count: 6}", "{count: 4}", "deletes: gone\n", ("near",)),
    # The operator of the only query left needs no rows but those of its result.
    ("{time: 15 minutes}", "{time: 9 minutes}", "", ("all", "near", "groups")),
]


def sent(plan: Plan, batches: list[list[Row]], restore: bool = False) -> dict[str, list[Any]]:
    """What a bucket sends, without skybands, of which each batch sends the present one."""
    return {kind: rows for kind, rows in drive(plan, batches, restore).items() if not kind.startswith("skyband:")}


@pytest.mark.parametrize(("window", "own", "deletes", "without"), CASES)
def test_cuts_restarts_and_a_journal_leave_no_trace(window: str, own: str, deletes: str, without: tuple[str, ...]) -> None:
    text = SPEC.format(window=window, own=own, deletes=deletes, columns=", ".join(COLUMNS))
    plan = plan_of_text("".join(line for line in text.splitlines(True) if line.strip().split(":")[0] not in without))
    kinds = set[str]()
    for seed in seeds(0, 6):
        rng = random.Random(seed)
        rows = sorted(random_rows(seed), key=lambda r: r["ts"])
        whole = sent(plan, [rows])
        kinds |= set(whole)
        batches = batches_of(rows, [rng.randrange(1, 4) for _ in range(12)])
        assert sent(plan, batches) == whole
        assert sent(plan, batches, restore=True) == whole
        with keeping_a_journal():
            assert sent(plan, batches, restore=True) == whole
        with patch.object(statistics, "_SPARE", -100):  # made again from the window's rows before every batch
            assert sent(plan, batches) == whole
    assert {f"changes:{q.name}" for q in plan.queries} <= kinds
