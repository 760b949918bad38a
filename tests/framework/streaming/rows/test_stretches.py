"""Stretches of event times, by definition and over any division into tasks; the jumps between them."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skyband.framework.streaming.job.jumps import Jump, longest_jump, stopped_by_jump
from skyband.framework.streaming.rows.instants import stretches
from skyband.framework.streaming.rows.instants.stretches import Stretches, of_tables
from tests.specs import plan_of_text, spec_text

SECOND = 1_000_000


def defined(instants: list[int], limit: int) -> list[tuple[int, int]]:
    """The stretches of ``instants`` by definition."""
    found: list[list[int]] = []
    for at in sorted(instants):
        if not found or at - found[-1][1] > limit:
            found.append([at, at])
        found[-1][1] = at
    return [(first, last) for first, last in found]


def pairs(found: Stretches) -> list[tuple[int, int]]:
    return list(zip(found.first.tolist(), found.last.tolist(), strict=True))


@given(st.lists(st.lists(st.lists(st.integers(0, 60), max_size=6), max_size=4), max_size=3), st.integers(1, 12))
def test_stretches_are_those_of_all_instants_whatever_tasks_and_blocks_they_came_in(tasks: list[list[list[int]]], limit: int) -> None:
    tables = []
    for blocks in tasks:
        task = Stretches(limit)
        for block in blocks:
            task.add(np.array(block, np.int64))
        tables.append(task.table())
        assert pairs(task) == defined([at for block in blocks for at in block], limit)
    assert pairs(of_tables(tables, limit)) == defined([at for blocks in tasks for block in blocks for at in block], limit)


def test_a_task_keeps_the_longest_gaps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stretches, "_MOST", 3)
    found = Stretches(1)
    found.add(np.cumsum([0, 10, 50, 20, 40, 30]))
    assert len(found.first) <= 3
    assert {(10, 60), (80, 120)} <= {(a[1], b[0]) for a, b in pairwise(pairs(found))}


def plan(window: str = "{time: 10 seconds}", jump: str = "20 seconds"):
    spec = spec_text(
        "jumps", "{id: bigint, ts: timestamp}", path="/nowhere/in", format="json", sink="{path: /nowhere/out}", window=window,
        event_time=f"{{column: ts{', max_jump: ' + jump if jump else ''}}}", scoring={"n": "{expression: id, direction: max}"},
        queries={"best": "{type: topk, scoring: n, k: 1}"},
    )  # fmt: skip
    return plan_of_text(spec)


def of(*seconds: int, limit: int = 10) -> Stretches:
    found = Stretches(limit * SECOND)
    found.add(np.array(seconds, np.int64) * SECOND)
    return found


@given(st.lists(st.integers(0, 99), min_size=1, max_size=8), st.none() | st.integers(0, 99))
def test_a_batch_stops_exactly_if_rows_that_are_not_late_are_further_apart(seconds: list[int], frontier: int | None) -> None:
    stopped = stopped_by_jump(plan(), 7, of(*seconds), None if frontier is None else frontier * SECOND)
    on_time = sorted(s for s in seconds if frontier is None or s >= frontier)
    assert (stopped is not None) == any(b - a > 20 for a, b in pairwise(on_time))
    assert stopped is None or (stopped.code == "SKY-E506" and "batch 7" in stopped.message)


def test_the_error_names_the_instants() -> None:
    stopped = stopped_by_jump(plan(), 0, of(1, 5, 40, 100, 104), None)
    assert stopped is not None
    said = "from 1970-01-01 00:01:40 to 1970-01-01 00:01:44, 60 seconds after all its others, the last of which is at 1970-01-01 00:00:40"
    assert said in stopped.message and "allows 20 seconds" in stopped.message


@given(st.lists(st.integers(0, 99), max_size=8), st.none() | st.integers(0, 99))
def test_the_longest_jump_of_the_watermark_is_the_longest_time_without_a_row(seconds: list[int], newest: int | None) -> None:
    found = longest_jump(plan(), of(*seconds), None if newest is None else newest * SECOND)
    moved = sorted({s for s in seconds if newest is None or s >= newest} | ({newest} if newest is not None else set()))
    longest = max((b - a for a, b in pairwise(moved)), default=0)
    assert (0 if found is None else found.micros // SECOND) == (longest if longest > 10 else 0)


def test_jumps_are_not_reported_without_max_jump_and_a_window_of_time() -> None:
    rows = plan("{count: 5}", "")
    assert stretches.limit_of(rows.intake, rows.window) is None
    assert longest_jump(rows, of(0, 99), None) is None and stopped_by_jump(rows, 0, of(0, 99), None) is None
    assert longest_jump(plan(), of(0, 99), None) == Jump(0, 99 * SECOND)
