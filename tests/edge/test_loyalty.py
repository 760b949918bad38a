"""The edge filter of loyalty: the server's changes are those of the unfiltered stream, whatever is delayed, lost or restarted."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skyband.edge import Border, EdgeFilter, Message, Query
from skyband.edge.message import text_of
from skyband.operators.loyalty import LoyaltyQuery
from tests.edge.loyalty_run import Edge, Job, Server, filtered, random_rows, unfiltered
from tests.operators.loyalty_host import Host
from tests.oracles import loyalty as oracle
from tests.seeds import cases, seeds


def random_job(rng: np.random.Generator) -> Job:
    """One to three queries: top-k, at boundaries too, and bounds."""
    window = int(rng.choice([5, 8, 20, 60, 200]))
    queries = [LoyaltyQuery(int(rng.choice([1, 1, 2, 3, 5])))]
    if rng.random() < 0.2:
        queries.append(LoyaltyQuery(2, None, int(rng.choice([2, 7]))))
    if rng.random() < 0.4:
        queries.append(LoyaltyQuery(None, int(rng.integers(1, window + 1))))
    return Job(tuple(queries[-1:] if rng.random() < 0.2 else queries), window)


def compared(seed: int, rows: int = 80, objects: int = 9) -> list[Edge]:
    """Compare one random stream, filtered and not; return the edges."""
    rng = np.random.default_rng(seed)
    job = random_job(rng)
    stream = random_rows(rng, rows, int(rng.integers(1, objects)), int(rng.integers(1, 3)))
    end = stream[-1]["t"] + 2 * job.window + 3
    whole = unfiltered(job, stream, end)
    server, edges = filtered(job, stream, end, rng, int(rng.integers(1, 4)), bool(rng.random() < 0.7))
    assert server.by_key() == whole.by_key()
    return edges


def test_changes_are_those_of_the_unfiltered_stream() -> None:
    # Of two or three streams all rows may have to be sent.
    edges = [edge for seed in sorted({*seeds(0, 25), *range(10)}) for edge in compared(seed)]
    assert sum(e.filter.sent for e in edges) < sum(e.filter.offered for e in edges)


@given(st.integers(0, 2**32), st.integers(1, 60), st.integers(2, 9))
@settings(deadline=None, max_examples=cases(15))
def test_changes_are_those_of_the_unfiltered_stream_drawn(seed: int, rows: int, objects: int) -> None:
    compared(seed, rows, objects)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(4))
def test_changes_are_those_of_the_unfiltered_stream_more(part: int) -> None:
    for seed in range(part * 150, part * 150 + 150):
        compared(10**6 + seed, 150, 12)


def test_unfiltered_changes_are_those_of_the_definition() -> None:
    for seed in seeds(0, 6):
        rng = np.random.default_rng(seed)
        job, rows = Job((LoyaltyQuery(2), LoyaltyQuery(None, 4)), 20), random_rows(rng, 40, 5, 1)
        end = rows[-1]["t"] + 43
        reports = [oracle.Report(r["t"], (r["who"],), bool(r["on"])) for r in rows]
        found = [r for r in unfiltered(job, rows, end).host.changes if r[0] == 0]
        want = oracle.changes(reports, None, 20, oracle.Query(2), range(rows[0]["t"], end))
        causes = {"displaced": "crossing", "promoted": "crossing"}
        assert [(*r[2:6], r[6], *r[7:]) for r in found] == [(*c[:4], causes.get(c.cause, c.cause), *c[5:]) for c in want]


def filter_with(border: int, as_of: int = 0, window: int = 100, at_least: int | None = None) -> EdgeFilter:
    found = EdgeFilter(complete=True)
    borders = () if at_least is not None else (Border((), border),)
    query = Query("q", window, at_least, borders)
    assert found.receive(text_of(Message("j", as_of, "t", ("who",), "on", "held", (query,), ("id",)))) == []
    return found


def row(t: int, who: int, on: int, number: int = 0) -> dict[str, int]:
    return {"t": t, "id": number or t, "who": who, "on": on}


def test_an_update_is_held_back_until_its_object_could_reach_the_border() -> None:
    edge = filter_with(60)
    assert edge.offer(row(10, 1, 1)) == []  # rises from 0 at 10, the border falls from 50: they meet at 35
    assert edge.advance(34) == []
    assert edge.advance(40) == [{"t": 34, "id": 10, "who": 1, "on": 1, "held": "10"}]
    assert edge.offer(row(50, 1, 0)) == [row(50, 1, 0) | {"held": None}]
    assert edge.counters == {"offered": 2, "sent": 2, "saved": 0, "held": 0}


def test_updates_that_the_object_takes_back_are_never_sent() -> None:
    edge = filter_with(60)
    assert [edge.offer(row(t, 1, t % 2)) for t in range(1, 10)] == [[]] * 9
    assert edge.counters == {"offered": 9, "sent": 0, "saved": 9, "held": 1}


def test_one_row_carries_all_switches_before_it() -> None:
    edge = filter_with(30)
    assert [edge.offer(row(t, 1, on)) for t, on in ((1, 1), (3, 0), (5, 1))] == [[], [], []]
    assert edge.flush() == [row(5, 1, 1) | {"held": "1 3"}]


def test_a_bound_needs_no_border() -> None:
    edge = filter_with(0, at_least=20)
    assert edge.offer(row(10, 1, 1)) == []
    assert edge.advance(29) == []
    assert [r["t"] for r in edge.advance(31)] == [29]  # in the result from 30 on


def test_without_a_message_or_a_border_everything_is_sent() -> None:
    edge = EdgeFilter()
    assert edge.offer(row(1, 1, 1)) == [row(1, 1, 1)]
    edge = EdgeFilter(complete=True)
    edge.receive(text_of(Message("j", 0, "t", ("who",), "on", "held", (Query("q", 100),), ("id",))))
    assert edge.offer(row(1, 1, 1)) == [row(1, 1, 1) | {"held": None}]


def test_rows_that_are_no_reports_are_sent_as_they_are() -> None:
    edge = filter_with(60)
    for odd in (row(1, 1, 2), {"t": 1, "id": 1, "who": None, "on": 1}, {"id": 1, "who": 1}):
        assert edge.offer(odd) == [odd]


def test_an_older_border_arriving_late_changes_nothing() -> None:
    edge, late = filter_with(60, as_of=50), filter_with(60, as_of=50)
    late.receive(text_of(Message("j", 0, "t", ("who",), "on", "held", (Query("q", 100, None, (Border((), 20),)),), ("id",))))
    for t in range(50, 90, 3):
        assert edge.offer(row(t, 1, t % 2)) == late.offer(row(t, 1, t % 2))


def test_a_margin_sends_before_it_must() -> None:
    edge = filter_with(60)
    edge.margin = 10
    edge.offer(row(10, 1, 1))
    assert edge.advance(24) == []
    assert [r["t"] for r in edge.advance(26)] == [25]


def test_a_heartbeat_moves_the_time_of_the_server() -> None:
    edge = filter_with(90)
    edge.heartbeat = 5
    assert edge.offer(row(1, 2, 2)) == [row(1, 2, 2)]
    assert edge.offer(row(2, 1, 1)) == []
    assert [r["t"] for r in edge.advance(9)] == [8]
    assert edge.advance(12) == []


def test_a_row_of_the_instant_of_a_heartbeat_is_sent() -> None:
    edge = filter_with(0, at_least=15)
    edge.heartbeat = 5
    assert edge.offer(row(1, 2, 2)) == [row(1, 2, 2)]
    assert edge.offer(row(10, 1, 0, 1)) == [row(10, 1, 0, 1)]  # of no effect: a heartbeat
    assert edge.offer(row(10, 1, 1, 2)) == [row(10, 1, 1, 2) | {"held": None}]


def test_a_row_of_the_instant_of_a_flush_is_sent() -> None:
    edge = filter_with(0, at_least=15)
    assert edge.offer(row(10, 1, 0, 1)) == []
    assert edge.flush() == [row(10, 1, 0, 1)]
    assert edge.offer(row(10, 1, 1, 2)) == [row(10, 1, 1, 2) | {"held": None}]


def test_a_row_of_an_instant_that_other_objects_have_passed_is_sent_if_one_before_was() -> None:
    edge = EdgeFilter(complete=True)
    edge.receive(text_of(Message("j", 0, "t", ("who",), "on", "held", (Query("q", 100),), ("id",))))  # no border yet
    assert [edge.offer(r) != [] for r in (row(20, 2, 0), row(10, 1, 0, 1))] == [True, True]
    edge.receive(text_of(Message("j", 5, "t", ("who",), "on", "held", (Query("q", 100, None, (Border((), 60),)),), ("id",))))
    assert edge.offer(row(10, 1, 1, 2)) == [row(10, 1, 1, 2) | {"held": None}]


def test_a_restart_sends_what_lost_heartbeats_may_have_sent() -> None:
    """Heartbeats tell the job that 1 and 2 are on. After the restart one would do, and the job would not hear that 2 is off."""
    job = Job((LoyaltyQuery(None, 50),), 100)
    reports = [*((t, 0, 1) for t in range(-60, 2)), (2, 1, 1), (3, 2, 1), (13, 1, 0), (13, 2, 0), *((t, 0, 1) for t in range(14, 90))]
    rows = [{"t": t, "id": i, "key": 0, "who": who, "on": on, "held": None} for i, (t, who, on) in enumerate(reports)]
    edge, again = (EdgeFilter(complete=True, heartbeat=5) for _ in range(2))
    sent = edge.receive(text_of(job.message(None)))
    sent += [found for r in rows[:62] for found in edge.offer(r)]
    saved = edge.save()
    assert [found for r in rows[62:64] for found in edge.offer(r)] == []
    beats = edge.advance(7) + edge.advance(12)
    assert [(r["who"], r["t"]) for r in beats] == [(1, 6), (2, 11)]
    again.load(saved)
    sent += beats + [found for r in rows[62:64] for found in again.offer(r)] + again.advance(12)
    sent += [found for r in rows[64:] for found in again.offer(r)] + again.flush()
    server = Server(Host(job.operator()))
    server.take(sent)
    server.advance(300)
    assert server.by_key() == unfiltered(job, rows, 300).by_key()


def test_objects_are_forgotten_after_a_window_if_no_row_of_their_last_instant_can_come() -> None:
    edge = filter_with(90, as_of=10**6)
    for who in range(50):
        edge.offer(row(who, who, 1))
        edge.offer(row(who + 1, who, who % 2))
    edge.advance(60)
    assert len(edge._lines) == 50
    edge.advance(160)
    assert set(edge._lines) == {((), (who,)) for who in range(1, 50, 2)}
    edge.advance(10_000)
    assert len(edge._lines) == 25


def test_memory_is_bounded_by_the_window() -> None:
    edge = filter_with(90, as_of=10**6)
    for t in range(2000):
        edge.offer(row(t, t % 500, (t // 500) % 2))
    assert all(len(line.switches) <= 100 for line in edge._lines.values())
    assert len(edge._due) <= 2 * len(edge._lines)
