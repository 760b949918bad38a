"""Rows dated too far ahead of the clock: by definition, their place among the reasons, the watermark, and the clocks of an earlier time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import feather

from skyband.framework.base.messages import COUNTS, Tally
from skyband.framework.base.reasons import REASON, TOO_FAR_AHEAD
from skyband.framework.base.types import STAMP
from skyband.framework.plan.model import IntakeNode, Plan
from skyband.framework.rehearsal.rows import Rows
from skyband.framework.sources.protocol import ORIGIN
from skyband.framework.streaming.rows.config import WATERMARK, HostConfig
from skyband.framework.streaming.rows.instants import ahead
from skyband.framework.streaming.rows.pack import Pack
from tests.specs import plan_of_text, spec_text

SECOND = 1_000_000


def plan(max_ahead: str = "10 seconds") -> Plan:
    spec = spec_text(
        "ahead", "{id: bigint, ts: timestamp, key: string, n: bigint, body: string}", path="/nowhere/in", format="json",
        event_time=f"{{column: ts, max_ahead: {max_ahead}}}", partition_by="[key]", sink="{path: /nowhere/out}",
        quality={"rows": ['{name: sane, expect: "n < 100"}']}, window="{time: 1 hour}", transform=["where: \"body <> 'out'\""],
        tokens={"w": "{column: body, max_tokens: 3}"}, scoring={"n": "{expression: n, direction: max}"},
        queries={"best": "{type: topk, scoring: n, k: 1}", "twins": "{type: similar_sets, tokens: w, min_score: 0.5}"},
    )  # fmt: skip
    return plan_of_text(spec)


def node() -> IntakeNode:
    return plan().intake


def rows(times: list[int | None], reasons: list[str | None] | None = None, origins: list[str] | None = None) -> pa.Table:
    return pa.table(
        {
            "ts": pa.array(times, pa.int64()).cast(STAMP),
            REASON: pa.array(reasons or [None] * len(times), pa.string()),
            ORIGIN: pa.array(origins or ["f"] * len(times), pa.string()),
        }
    )


def test_the_default_is_a_day_and_none_turns_it_off() -> None:
    assert plan("1 day").intake.ahead_micros == 86_400 * SECOND
    off = plan("none").intake
    assert off.ahead_micros is None
    assert ahead.judged(rows([2**62]), off, 0)[REASON].to_pylist() == [None]


@given(st.lists(st.tuples(st.integers(0, 30), st.sampled_from([None, "parse", "null_key", "int_range", "filtered"]))), st.integers(0, 20))
def test_a_row_is_too_far_ahead_if_it_is_later_than_clock_and_limit_and_no_reason_stands_before(
    found: list[tuple[int, str | None]], clock: int
) -> None:
    judged = ahead.judged(rows([t * SECOND for t, _ in found], [r for _, r in found]), node(), clock * SECOND)
    later = (None, "null_key", "int_range")
    assert judged[REASON].to_pylist() == [TOO_FAR_AHEAD if t > clock + 10 and r in later else r for t, r in found]


def test_exactly_at_the_limit_a_row_is_accepted_and_a_row_without_a_time_stays_as_it_is() -> None:
    judged = ahead.judged(rows([10 * SECOND, 10 * SECOND + 1, None], [None, None, "null_time"]), node(), 0)
    assert judged[REASON].to_pylist() == [None, TOO_FAR_AHEAD, "null_time"]


def test_without_a_clock_no_row_is_too_far_ahead() -> None:
    assert ahead.task_clock() is None
    assert ahead.judged(rows([2**62]), node(), None)[REASON].to_pylist() == [None]


@given(
    st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 30), st.integers(0, 15)), min_size=1, max_size=8, unique_by=lambda r: r[:2]),
    st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 30)), max_size=12),
)
def test_rows_that_were_rejected_before_are_judged_by_the_clock_of_that_time(
    tmp_path_factory: pytest.TempPathFactory, known: list[tuple[str, int, int]], found: list[tuple[str, int]]
) -> None:
    file = tmp_path_factory.mktemp("recorded") / "clocks.arrow"
    table = pa.table([[o for o, _, _ in known], [t * SECOND for _, t, _ in known], [c * SECOND for *_, c in known]], ahead.RECORDED)
    feather.write_feather(table, str(file))
    judged = ahead.judged(rows([t * SECOND for _, t in found], origins=[o for o, _ in found]), node(), 15 * SECOND, str(file))
    clocks = {(o, t): c for o, t, c in known}
    expected = [TOO_FAR_AHEAD if t > min(15, clocks.get((o, t), 15)) + 10 else None for o, t in found]
    assert judged[REASON].to_pylist() == expected


def row(number: int | None, seconds: int, **values: Any) -> dict[str, Any]:
    return {"id": number, "ts": seconds * SECOND, "key": "k", "n": 1, "body": "a b"} | values


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (row(2, 99), TOO_FAR_AHEAD), (row(2, 99, key=None), TOO_FAR_AHEAD), (row(2, 99, n=-(2**63)), TOO_FAR_AHEAD),
        (row(2, 99, body="a b c d"), TOO_FAR_AHEAD), (row(2, 99, n=200), "rejected_rule"), (row(None, 99), "null_id"),
        (row(2, 300_000_000_000), "time_range"), (row(2, 99, body="out"), "filtered"), (row(2, 9, body="a b c d"), "rejected_tokens"),
    ],
)  # fmt: skip
def test_its_place_among_the_reasons_and_it_moves_no_watermark(bad: dict[str, Any], reason: str) -> None:
    made = plan()
    counts, watermarks = Tally(), []
    table = Rows(made.intake).table([row(1, 5), bad])
    for block in Pack(HostConfig.of(made, (), "test"), clock=lambda: 0)(iter(table.to_batches())):
        watermarks += block[WATERMARK].cast(pa.int64()).to_pylist()
        for kind, data in zip(block["kind"].to_pylist(), block["data"].to_pylist(), strict=True):
            if kind == COUNTS:
                counts.add(data)
    assert counts[reason] == 1 and set(watermarks) == {5 * SECOND}


def test_a_recorded_file_that_is_replaced_is_read_again(tmp_path: Path) -> None:
    file = tmp_path / "clocks.arrow"
    for clock in (0, 5):
        feather.write_feather(pa.table([["f"], [12 * SECOND], [clock * SECOND]], ahead.RECORDED), str(file))
        judged = ahead.judged(rows([12 * SECOND]), node(), 100 * SECOND, str(file))
        assert judged[REASON].to_pylist() == [TOO_FAR_AHEAD if clock == 0 else None]
