"""What a task gives the watermark: the event times of its rows that nothing rejects as they are read, their caps, and control rows."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from skyband.framework.base.messages import ASIDE, COUNTS, FLUSH, GREATEST, HOST, ROWS, Tally
from skyband.framework.base.reasons import CONTROL, REASON
from skyband.framework.base.types import STAMP
from skyband.framework.rehearsal.rows import Rows
from skyband.framework.streaming.rows.config import CAPPED, WATERMARK, HostConfig
from skyband.framework.streaming.rows.pack import Pack
from tests.specs import plan_of_text, spec_text

SPEC = spec_text(
    "ahead",
    "{id: bigint, ts: timestamp, body: string, up: int, what: string}",
    path="/nowhere/in",
    format="json",
    sink="{path: /nowhere/out}",
    transform=["where: \"body <> 'out'\""],
    quality={"rows": ['{name: sane, expect: "up < 100"}', '{name: warned, expect: "up < 50", severity: warn}']},
    window="{time: 1 hour}",
    tokens={
        "w": "{column: body, min_tokens: 2, max_tokens: 3, short: reject}",
        "skipped": "{column: body, min_tokens: 3}",
    },
    queries={
        "twins": "{type: similar_sets, tokens: w, min_score: 0.5}",
        "known": '{type: topk_loyalty, object: what, updates: up, k: 1, where: "up < 10"}',
    },
)


def config() -> HostConfig:
    return HostConfig.of(plan_of_text(SPEC), (), "test")


def row(number: int | None, micros: int, body: str = "a b", up: int = 1, what: str | None = "o") -> dict[str, Any]:
    return {"id": number, "ts": micros, "body": body, "up": up, "what": what}


def packed(rows: pa.Table) -> tuple[int | None, Tally]:
    """(what the task gives the watermark with its last block, its counts)."""
    counts, last = Tally(), None
    for block in Pack(config())(iter(rows.to_batches(max_chunksize=1))):
        last = block[WATERMARK].cast(pa.int64())[-1].as_py()
        for kind, data in zip(block["kind"].to_pylist(), block["data"].to_pylist(), strict=True):
            if kind == COUNTS:
                counts.add(data)
    return last, counts


AHEAD = [
    (row(2, 900, body="a"), False), (row(2, 900, body="a b c d"), False), (row(2, 900, up=7), False), (row(2, 900, what=None), False),
    (row(None, 900), False), (row(2, 900, up=200), False), (row(2, 900, body="out"), False), (row(2, 900, up=60), True),
    (row(2, 900), True),
]  # fmt: skip


@pytest.mark.parametrize(("ahead", "moves"), AHEAD)
@pytest.mark.parametrize("capped", [False, True])
def test_rows_that_nothing_rejects_as_they_are_read_move_the_watermark(ahead: dict[str, Any], moves: bool, capped: bool) -> None:
    rows = Rows(config().intake).table([row(1, 5), ahead, row(3, 4)])
    if capped:
        cap = pc.if_else(pc.is_null(rows[REASON]), pc.min_element_wise(rows["ts"].cast(pa.int64()), 100), pa.scalar(None, pa.int64()))
        rows = rows.append_column(CAPPED, cap.cast(STAMP))
    last, counts = packed(rows)
    assert last == ((100 if capped else 900) if moves else 5)
    assert counts.get(GREATEST) == ((900 if moves else 5) if capped else None)


def test_rows_of_the_control_source_move_it_by_their_own_instant() -> None:
    rows = Rows(config().intake).table([row(1, 5), row(2, 900)])
    rows = rows.set_column(rows.column_names.index(REASON), REASON, pa.array([None, CONTROL], pa.string()))
    last, counts = packed(rows.append_column(WATERMARK, pa.array([None, 77], STAMP)))
    assert (last, counts["rows_in"], counts[CONTROL]) == (77, 1, 1)


@pytest.mark.parametrize("reason", [FLUSH, CONTROL])
def test_a_row_of_the_control_source_that_asks_for_a_flush_is_counted(reason: str) -> None:
    """By its count the driver runs every bucket (tests/framework/streaming/bucket/test_calls.py): no message goes to them."""
    rows = Rows(config().intake).table([row(1, 5), row(2, 900)])
    rows = rows.set_column(rows.column_names.index(REASON), REASON, pa.array([None, reason], pa.string()))
    rows = rows.append_column(WATERMARK, pa.array([None, 0], STAMP))
    last, counts = packed(rows)
    assert (last, counts["rows_in"], counts[reason], {FLUSH, CONTROL} & set(counts)) == (5, 1, 1, {reason})
    blocks = [b for block in Pack(config())(iter(rows.to_batches())) for b in block.to_pylist()]
    assert [b["kind"] for b in blocks if b["node"] == HOST] == [ROWS] and {b["node"] for b in blocks} == {HOST, ASIDE}
