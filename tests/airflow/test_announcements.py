"""What events of tables cover, without Airflow: everything since the last event, whatever failed, was killed or found nothing between."""

from __future__ import annotations

import json
import random
from itertools import pairwise
from typing import Any

import pytest

from skyband.airflow_dags.skyband_airflow.announcements import Announced, announcement, event, figures_of_run, last_announced


class Table:
    """A table with its batches, and the events of its asset. Batch n has n + 1 changes; ``backfilled``: changes before all batches."""

    backfilled = 0

    def __init__(self, made: str = "made") -> None:
        self.id, self.version, self.batches = made, 0, 0
        self.began: int | None = None
        self.events: list[dict[str, Any]] = []

    def run(self, batches: int, killed: bool = False) -> dict[str, Any] | None:
        """Commit batches as a run does; return its outcome, None of a killed one."""
        before, first = self.began, self.batches
        self.batches += batches
        self.version += batches
        self.began = self.version
        return None if killed else self.outcome(before, first)

    def outcome(self, before: int | None, first: int) -> dict[str, Any]:
        own = range(first, self.batches)
        return {
            "job": "small", "last_batch": self.batches - 1 if self.batches else None, "ended_at": "2024-01-01T00:00:00", "checks": [],
            "batches": {"count": len(own), "first": first if own else None, "last": self.batches - 1 if own else None},
            "tables": {"far": {"from": before, "to": self.version, "id": self.id}},
            "changes": {"far": sum(n + 1 for n in own)}, "rows": {"rejected": {"late": len(own)} if own else {}},
        }  # fmt: skip

    def count(self, after: int | None, upto: int | None) -> dict[str, Any]:
        """What the command counts."""
        found = [n for n in range(self.batches) if (after is None or n > after) and upto is not None and n <= upto]
        span = {"count": len(found), "first": found[0] if found else None, "last": found[-1] if found else None}
        filled = self.backfilled if after is None else 0
        return {"batches": span, "changes": {"far": filled + sum(n + 1 for n in found)}, "rejected": {"late": len(found)} if found else {}}

    def publish(self, outcome: dict[str, Any]) -> dict[str, Any] | None:
        """What the task does; None: skipped. Events come back from Airflow as JSON."""
        new = announcement(outcome["tables"]["far"], outcome["last_batch"], last_announced(reversed(self.events)))
        if new.is_empty:
            return None
        made = event(outcome, "far", "far", new, self.count)
        self.events.append(json.loads(json.dumps(made)))
        return made


def test_a_run_after_one_whose_gate_failed_covers_both() -> None:
    table = Table()
    first = table.run(1)
    assert first is not None and table.publish(first) is not None
    table.run(1)  # its gate fails, so nothing is published
    fixed = table.run(1)
    assert fixed is not None
    made = table.publish(fixed)
    assert made is not None and made["versions"] == {"from": 1, "to": 3, "id": "made"}
    assert made["batches"] == {"count": 2, "first": 1, "last": 2} and made["changes"] == 5 and made["rejected"] == {"late": 2}


def test_a_run_that_finds_nothing_announces_what_a_killed_one_has_committed() -> None:
    table = Table()
    table.run(3, killed=True)
    idle = table.run(0)
    assert idle is not None and idle["batches"]["count"] == 0
    made = table.publish(idle)
    assert made is not None and made["versions"]["from"] is None and made["changes"] == 6 and made["last_batch"] == 2
    again = table.run(0)
    assert again is not None and table.publish(again) is None


def test_maintenance_announces_nothing() -> None:
    """`skyband maintain` writes a version of the table, and no rows."""
    table = Table()
    first = table.run(2)
    assert first is not None and table.publish(first) is not None
    table.version += 1
    idle = table.run(0)
    assert idle is not None and table.publish(idle) is None
    later = table.run(1)
    assert later is not None
    made = table.publish(later)
    assert made is not None and made["versions"] == {"from": 2, "to": 4, "id": "made"} and made["changes"] == 3


def test_the_first_event_counts_backfilled_rows() -> None:
    table = Table()
    table.backfilled = 7
    first = table.run(2)
    assert first is not None
    made = table.publish(first)
    assert made is not None and made["versions"]["from"] is None and made["changes"] == 7 + 3


@pytest.mark.parametrize("seed", range(30))
def test_events_follow_each_other_and_leave_nothing_out(seed: int) -> None:
    """Runs whose gate fails, killed ones, idle ones and those whose events are published twice, in any order."""
    rng = random.Random(seed)
    table = Table()
    for _ in range(6):
        outcome = table.run(rng.randrange(3), killed=rng.random() < 0.3)
        table.version += rng.random() < 0.2  # maintenance
        for _ in range(rng.choice([0, 1, 1, 2])):
            if outcome is not None:
                table.publish(outcome)
    last = table.run(0)
    assert last is not None
    table.publish(last)
    if not table.batches:
        assert all(e["versions"]["from"] is None for e in table.events)
        return
    spans = [(e["versions"]["from"], e["versions"]["to"]) for e in table.events]
    assert spans[0][0] is None and spans[-1][1] <= table.version
    assert all(a[1] == b[0] for a, b in pairwise(spans))
    assert sum(e["changes"] for e in table.events) == sum(n + 1 for n in range(table.batches))
    assert sum(e["batches"]["count"] for e in table.events) == table.batches


def test_an_earlier_run_that_is_published_again_announces_nothing_twice() -> None:
    table = Table()
    first = table.run(2)
    assert first is not None and table.publish(first) is not None
    assert table.publish(first) is None


@pytest.mark.parametrize("change", [{"id": "rebuilt"}, {"version": 1}, {"batches": 1}])
def test_a_table_that_is_another_is_announced_as_a_whole(change: dict[str, Any]) -> None:
    """Rebuilt or reset (another id), or restored from a backup (an earlier version or batch)."""
    table = Table()
    outcome = table.run(4)
    assert outcome is not None and table.publish(outcome) is not None
    for name, value in change.items():
        setattr(table, name, value)
    made = table.publish(table.outcome(table.version, table.batches))
    assert made is not None and made["versions"]["from"] is None
    assert made["changes"] == sum(n + 1 for n in range(table.batches))


def test_only_events_of_this_form_count() -> None:
    good = {"versions": {"from": 1, "to": 2, "id": "made"}, "last_batch": 5}
    others: list[Any] = [
        None, {}, {"from_rest_api": True}, {"versions": {"from": 1, "to": 9}}, {"versions": {"from": 1, "to": 9, "id": "made"}},
        {**good, "versions": {"to": True, "id": "made"}}, {**good, "versions": {"to": "9", "id": "made"}}, {**good, "last_batch": "5"},
        {**good, "versions": None}, {**good, "versions": {"to": 9, "id": 3}}, [], "text",
    ]  # fmt: skip
    assert last_announced([*others, good]) == Announced("made", 2, 5)
    assert last_announced(others) is None


def test_the_runs_own_figures_are_used_where_they_are_those_of_the_event() -> None:
    table = Table()
    outcome = table.run(2)
    assert outcome is not None
    assert figures_of_run(outcome, None) is None and figures_of_run(outcome, 0) is None
    later = table.run(2)
    assert later is not None and figures_of_run(later, 1) == table.count(1, 3) and figures_of_run(later, None) is None
