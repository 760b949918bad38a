"""Reports that carry held switches: what they mean, and that no cut, restart or forgotten object changes anything, whatever they list."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from skyband.operators.base import Column, Window
from skyband.operators.loyalty import Loyalty, LoyaltyQuery
from skyband.operators.loyalty.logic import instants_of
from tests.edge.loyalty_run import Job, Row, Server, random_rows
from tests.operators.loyalty_host import Host
from tests.seeds import seeds


def with_switches(rows: list[Row], window: int, rng: np.random.Generator) -> list[Row]:
    """Rows of which some carry switches: before their object's last report, before the window, and texts that are no list."""
    found = []
    for row in rows:
        held: str | None = None
        if rng.random() < 0.4:
            some = sorted({int(row["t"]) - int(d) for d in rng.integers(1, int(rng.choice([3, window, 3 * window])) + 1, 3)})
            held = str(rng.choice([" ".join(map(str, some)), "", "x", f"{row['t']}", "5 4"], p=[0.8, 0.05, 0.05, 0.05, 0.05]))
        found.append(row | {"held": held})
    return found


def run(job: Job, rows: list[Row], end: int, few: int, cuts: list[int], restore: bool) -> Any:
    server = Server(Host(job.operator(), few))
    server.take(rows)
    for until in [*cuts, end]:
        server.advance(until)
        server.host.forget()
        if restore:
            server.host.restore()
    unusable = sum(server.host.logic.counters()[f"unusable:{i}"] for i in range(len(job.queries))) if not restore else None
    return server.by_key(), unusable


def test_no_cut_and_no_restart_changes_anything() -> None:
    unusable = 0
    for seed in seeds(0, 20):
        rng = np.random.default_rng(seed)
        window = int(rng.choice([3, 8, 20]))
        job = Job((LoyaltyQuery(int(rng.integers(1, 4))), LoyaltyQuery(None, int(rng.integers(1, window + 1)))), window)
        rows = with_switches(random_rows(rng, 40, int(rng.integers(1, 7)), int(rng.integers(1, 3))), window, rng)
        begin, end = rows[0]["t"], rows[-1]["t"] + 2 * window
        want, count = run(job, rows, end, 64, [], False)
        unusable += count or 0
        for few, share, restore in ((64, 1.0, True), (0, 0.5, True), (2, 0.2, False)):
            cuts = [t for t in range(begin, end) if rng.random() < share]
            assert run(job, rows, end, few, cuts, restore)[0] == want
    assert unusable > 0


def changes(rows: list[Row], k: int = 1, window: int = 100) -> list[Any]:
    """(instant, sign, cause, object, loyalty, slope) of each change."""
    server = Server(Host(Job((LoyaltyQuery(k),), window).operator()))
    server.take([{"id": i, "key": 0, "held": None} | row for i, row in enumerate(rows)])
    server.advance(1000)
    return [(r[2], r[5], r[6], r[7][0], *r[8:]) for r in server.host.changes]


def test_switches_count_from_their_report_on() -> None:
    rows = [{"t": 10, "who": 1, "on": 1}, {"t": 15, "who": 1, "on": 0}, {"t": 60, "who": 2, "on": 0, "held": "20 50"}]
    assert changes(rows) == [
        (10, 1, "arrival", 1, 0, 1), (60, -1, "crossing", 1, 5, 0), (60, 1, "arrival", 2, 30, 0), (150, -1, "expiry", 2, 0, 0),
    ]  # fmt: skip


def test_a_switch_before_the_window_only_says_how_it_began() -> None:
    assert changes([{"t": 10, "who": 1, "on": 0}, {"t": 200, "who": 1, "on": 1, "held": "50"}]) == [(200, 1, "arrival", 1, 100, 0)]
    assert changes([{"t": 200, "who": 1, "on": 0, "held": "50 90"}]) == []


def test_a_switch_that_the_last_report_covers_does_not_count() -> None:
    rows = [{"t": 20, "who": 1, "on": 1}, {"t": 30, "who": 1, "on": 1, "held": "5 20"}]
    assert changes(rows)[0] == (20, 1, "arrival", 1, 0, 1)
    assert len(changes(rows)) == 1


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", ()), (" 1  3 ", (1, 3)), ("-5 0", (-5, 0)), ("3 1", None), ("1 1", None), ("9", (9,)), ("10", None), ("1,2", None),
        ("x", None),         ("1.5", None), ("--1", None), ("²", None), ("9" * 30, None), ("-" + "9" * 19, None), ("1 2 x", None),
    ],
)  # fmt: skip
def test_texts_that_list_instants(text: str, found: tuple[int, ...] | None) -> None:
    assert instants_of(text, 10) == found


def test_wrong_configurations_are_refused() -> None:
    usual: Any = {"object": ("a",), "updates": Column("u", "int"), "window": Window(None, 9), "held": "h"}
    for other in ({"deletes": True}, {"stale_after": 3}, {"queries": (LoyaltyQuery(1, trace_all=True),)}):
        with pytest.raises(ValueError, match="held"):
            Loyalty(**({"queries": (LoyaltyQuery(1),)} | usual | other))
