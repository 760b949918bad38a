"""Rows in, ordered, numbered and checked arrivals out: without operators, and across a restart."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest

from skyband.framework.base.messages import COUNTS, GREATEST, REJECTED, Tally
from skyband.framework.base.reasons import REASON
from skyband.framework.sources.protocol import CORRUPT, ORIGIN
from skyband.framework.streaming.bucket.sequencer import Sequenced, Sequencer
from skyband.framework.streaming.bucket.store import Segment, address
from skyband.framework.streaming.rows.blocks import bytes_table, table_bytes
from skyband.framework.streaming.rows.columns import TextCodes
from skyband.framework.streaming.rows.config import CAPPED, HostConfig
from skyband.framework.streaming.rows.outbox import Outbox
from skyband.framework.streaming.rows.pack import Pack
from tests.framework.streaming.bucket.test_bucket import MINUTE, table_of
from tests.specs import plan_of_text, spec_text

SPEC = spec_text(
    "order",
    "{id: bigint, ts: timestamp, grp: string, x: double, side: string}",
    event_time="{column: ts, watermark: 5 minutes}",
    partition_by="[grp]",
    deletes="side = 'd'",
    window="{count: 3}",
    scoring={"high": "{expression: x, direction: max}"},
    queries={"best": "{type: topk, scoring: high, k: 1}"},
)


@pytest.fixture(scope="module")
def config() -> HostConfig:
    return HostConfig.of(plan_of_text(SPEC), (), "test")


def take(
    sequencer: Sequencer, config: HostConfig, rows: list[Any], late: int | None, frontier: int | None = None
) -> tuple[Sequenced, list[str], Outbox]:
    out = Outbox()
    due, limit = sequencer.due_rows([table_bytes(table_of(config, rows))] if rows else [], late, frontier, out)
    taken = sequencer.sequence(due, TextCodes(config.texts), out)
    sequencer.close(taken, limit, 0, out, whole=True)
    reasons = [r["reason"] for kind, data in out.blocks if kind == REJECTED for r in bytes_table(data).to_pylist()]
    return taken, reasons, out


def test_rows_wait_for_the_frontier_and_are_numbered_in_order(config: HostConfig) -> None:
    sequencer = Sequencer(config)
    rows = [(9, 4, "q", 1.0, "u"), (2, 2, "p", 1.0, "u"), (1, 1, "q", 1.0, "u"), (3, 3, "q", 1.0, "u")]
    taken, reasons, out = take(sequencer, config, rows, None)
    # Of the rows that are due, one of key p came first. The row of minute 9 waits for minute 14.
    assert (taken.key.tolist(), taken.seq.tolist(), taken.rows["id"].to_pylist()) == ([0, 1, 1], [0, 0, 1], [2, 1, 3])
    assert (reasons, sequencer.waiting(), sequencer.until) == ([], [9 * MINUTE], 4 * MINUTE)
    assert out.counts == {"accepted": 3, "pending": 1, "newest": 9 * MINUTE}
    taken, reasons, out = take(sequencer, config, [(3, 5, "p", 1.0, "u")], 10 * MINUTE)
    assert (taken.seq.tolist(), taken.rows["id"].to_pylist(), reasons) == ([2], [4], ["late"])
    assert out.counts == {"late": 1, "accepted": 1, "pending": -1, "newest": 9 * MINUTE}


def test_rows_of_a_batch_are_judged_by_the_frontier_before_it_and_taken_up_to_the_one_after_it(config: HostConfig) -> None:
    sequencer = Sequencer(config)
    rows = [(9, 4, "q", 1.0, "u"), (2, 2, "p", 1.0, "u"), (1, 1, "q", 1.0, "u"), (7, 3, "q", 1.0, "u")]
    # Other buckets have a row of minute 13: the one of minute 9 alone would make 4 minutes due.
    taken, reasons, out = take(sequencer, config, rows, 2 * MINUTE, 8 * MINUTE)
    assert (taken.rows["id"].to_pylist(), reasons, sequencer.waiting(), sequencer.until) == ([2, 3], ["late"], [9 * MINUTE], 8 * MINUTE)
    assert out.counts == {"late": 1, "accepted": 2, "pending": 1, "newest": 9 * MINUTE}
    # Nothing is late that comes with what makes it due; what has waited is taken too, and rows at the frontier wait.
    rows = [(8, 5, "q", 1.0, "u"), (19, 6, "q", 1.0, "u"), (20, 7, "q", 1.0, "u")]
    taken, reasons, out = take(sequencer, config, rows, 8 * MINUTE, 20 * MINUTE)
    assert (taken.rows["id"].to_pylist(), reasons, sequencer.waiting(), sequencer.until) == ([5, 4, 6], [], [20 * MINUTE], 20 * MINUTE)
    # A bucket that has got further (by rows under other caps, say) does not go back.
    taken, reasons, out = take(sequencer, config, [(19, 8, "q", 1.0, "u")], 8 * MINUTE, 9 * MINUTE)
    assert (taken.rows.num_rows, reasons, sequencer.until) == (0, ["late"], 20 * MINUTE)
    # Without a frontier before it nothing is late.
    first = Sequencer(config)
    assert take(first, config, [(-40, 1, "q", 1.0, "u"), (9, 4, "q", 1.0, "u")], None, 5 * MINUTE)[1] == [] and first.until == 5 * MINUTE


def test_rows_under_caps_move_nothing_past_them(config: HostConfig) -> None:
    sequencer, out = Sequencer(config), Outbox()
    rows = table_of(config, [(20, 1, "p", 1.0, "u"), (9, 2, "q", 1.0, "u"), (2, 3, "q", 1.0, "u")])
    capped = rows.append_column(CAPPED, pa.array([10 * MINUTE, 9 * MINUTE, 2 * MINUTE], pa.timestamp("us", "UTC")))
    due, limit = sequencer.due_rows([table_bytes(capped)], None, None, out)
    # As far as the watermark will go: minute 10 less the delay.
    assert (limit, due["id"].to_pylist(), due.schema) == (5 * MINUTE, [3], config.row_schema())
    assert sequencer.pending.schema == config.row_schema() and sequencer.waiting() == [9 * MINUTE]


def test_what_caps_keep_from_the_watermark_is_counted(config: HostConfig) -> None:
    rows = table_of(config, [(20, 1, "p", 1.0, "u"), (30, 2, "q", 1.0, "u"), (2, 3, "q", 1.0, "u")])
    nulls = pa.nulls(3, pa.string())
    for name, column in ((CORRUPT, nulls), (REASON, pa.array([None, "null_id", None])), (ORIGIN, nulls)):
        rows = rows.drop_columns([name]) if name in rows.column_names else rows
        rows = rows.append_column(name, column)
    counted = []
    capped = rows.append_column(CAPPED, pa.array([5, None, 2], pa.timestamp("us", "UTC")))
    for table in (rows, capped):
        counts = Tally()
        for batch in Pack(config)(iter(table.combine_chunks().to_batches())):
            for kind, data in zip(batch["kind"].to_pylist(), batch["data"].to_pylist(), strict=True):
                if kind == COUNTS:
                    counts.add(data)
        counted.append((counts["rows_in"], counts["null_id"], counts.get(GREATEST)))
        assert GREATEST not in counts.counters()
    assert counted == [(3, 1, None), (3, 1, 20 * MINUTE)]


@pytest.mark.parametrize("restart", [False, True])
def test_ids_and_deletions_survive_a_restart(config: HostConfig, restart: bool) -> None:
    sequencer = Sequencer(config)
    take(sequencer, config, [(t, t, "p", 1.0, "u") for t in range(1, 5)] + [(5, 3, "p", 1.0, "d")], None)
    taken, reasons, _ = take(sequencer, config, [], 6 * MINUTE)
    assert (taken.seq.tolist(), taken.target[-1], reasons) == ([0, 1, 2, 3, -1], 2, [])
    if restart:
        core: dict[str, Any] = {}
        values = sequencer.save(core)
        assert set(values) == {"keys", "key_rows", "pending", "deleted"} and set(core) == {"until"}
        sequencer = Sequencer.restore(config, json.loads(json.dumps(core)), values.get)
        made = taken.seq >= 0
        at = address(taken.key[made], taken.seq[made])
        alive = slice(1, None)  # the window: the newest three
        rows = taken.rows.slice(1, 3)
        sequencer.recognise(Segment(at[alive], taken.time[made][alive], rows), values["deleted"])
    # 1 has left the window, 4 is in it, 3 has been deleted: its id is free, and there is nothing to delete a second time.
    again = [(7, 1, "p", 1.0, "u"), (7, 4, "p", 1.0, "u"), (8, 3, "p", 1.0, "d"), (9, 3, "p", 1.0, "u")]
    take(sequencer, config, again, None)
    taken, reasons, _ = take(sequencer, config, [], 10 * MINUTE)
    assert (taken.rows["id"].to_pylist(), taken.seq.tolist(), sorted(reasons)) == ([1, 3], [4, 5], ["duplicate_id", "no_target"])
