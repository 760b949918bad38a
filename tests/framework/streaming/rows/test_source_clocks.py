"""The watermark of several sources, by its definition: a function of the rows alone, that makes no row late which comes in time."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from skyband.framework.base.messages import NEWEST_OF, Tally
from skyband.framework.plan.nodes import SourceClock
from skyband.framework.streaming.rows.instants.source_clocks import contributions, frontier, holding_back
from skyband.framework.streaming.rows.instants.source_times import SourceTimes

MS = 1000
NAMES = ("asks", "bids", "news")
clocks = st.lists(st.tuples(st.integers(0, 5), st.none() | st.integers(1, 9)), min_size=1, max_size=3).map(
    lambda found: tuple(SourceClock(NAMES[i], d * MS, None if idle is None else idle * MS) for i, (d, idle) in enumerate(found))
)
rows = st.lists(st.tuples(st.sampled_from(NAMES), st.integers(100, 140)), max_size=12)


def by_definition(sources: tuple[SourceClock, ...], newest: dict[str, int]) -> int | None:
    """Return the least of max(w(s), lead - idle(s)) in milliseconds, where w of a source without rows is before everything."""
    before = -(10**9)
    w = {c.name: newest[c.name] // MS - c.delay_ms if c.name in newest else before for c in sources}
    lead = max(w.values())
    each = [w[c.name] if c.idle_micros is None or lead == before else max(w[c.name], lead - c.idle_micros // MS) for c in sources]
    return None if min(each) == before else min(each)


@given(clocks, rows, st.lists(st.integers(0, 12), max_size=3))
def test_the_frontier_is_that_of_the_definition_however_rows_are_cut(
    sources: tuple[SourceClock, ...], arrived: list[tuple[str, int]], cuts: list[int]
) -> None:
    mine = [(name, at * MS) for name, at in arrived if name in {c.name for c in sources}]
    whole: dict[str, int] = {}
    for name, at in mine:
        whole[name] = max(whole.get(name, at), at)
    expected = by_definition(sources, whole)
    assert frontier(sources, whole) == (None if expected is None else expected * MS)
    times = SourceTimes(sources, [])
    edges = sorted({0, len(mine), *(c for c in cuts if c <= len(mine))})
    reached = -1
    for batch, (first, end) in enumerate(pairwise(edges)):
        before, counts = times.before(batch, capped=False), Tally()
        for name, at in mine[first:end]:
            (alone,) = contributions(sources, before, name, np.array([at])).tolist()
            reached = max(reached, alone)
            counts[NEWEST_OF + name] = max(counts.get(NEWEST_OF + name, at), at)
        times.add(batch, counts)
        repeated = Tally({n: at for n, at in counts.items()})
        times.add(batch, repeated)
        assert repeated == counts
        due = times.due()
        # No row moves the watermark further than all rows so far do.
        assert reached <= (-1 if due is None else due)
    assert times.due() == (None if expected is None or not mine else expected * MS)
    resumed = SourceTimes(sources, [{"batch_id": 7, "counters": _json(counts)}] if mine else [])
    assert resumed.due() == times.due()


@given(clocks, st.dictionaries(st.sampled_from(NAMES), st.integers(100, 140).map(lambda at: at * MS)))
def test_the_source_that_holds_others_back_is_one_whose_rows_move_the_frontier(
    sources: tuple[SourceClock, ...], newest: dict[str, int]
) -> None:
    """It is named exactly if a source is further, and then rows of all other sources up to its own time move nothing."""
    newest = {c.name: newest[c.name] for c in sources if c.name in newest}
    held, now = holding_back(sources, newest), frontier(sources, newest)
    reached = {c.name: newest[c.name] - 1000 * c.delay_ms for c in sources if c.name in newest}
    assert (held is None) == (not reached or now == max(reached.values()))
    if held is not None:
        lead = max(reached.values())
        assert held.name not in reached or reached[held.name] <= (lead if now is None else now)
        others = {c.name: lead + 1000 * c.delay_ms for c in sources if c is not held}
        mine = {held.name: newest[held.name]} if held.name in newest else {}
        # However far the others come, short of the lead, the frontier stays: it is that source's.
        assert held.idle_micros is not None or frontier(sources, others | mine) == reached.get(held.name)
        assert frontier(sources, others | {held.name: lead + 1000 * held.delay_ms}) == lead


@given(clocks, st.data())
def test_a_source_in_order_is_never_late_for_another_that_waits(sources: tuple[SourceClock, ...], data: st.DataObject) -> None:
    sources = tuple(SourceClock(c.name, c.delay_micros, None) for c in sources)
    times, reached, last = SourceTimes(sources, []), -1, dict.fromkeys(NAMES, 100)
    for batch in range(6):
        counts, before = Tally(), times.before(batch, capped=False)
        for clock in data.draw(st.lists(st.sampled_from(sources), max_size=3)):
            at = (last[clock.name] + data.draw(st.integers(-clock.delay_ms, 8))) * MS
            assert at >= reached, "late"
            last[clock.name] = max(last[clock.name], at // MS)
            counts[NEWEST_OF + clock.name] = last[clock.name] * MS
        moved = [
            contributions(sources, before, c.name, np.array([counts[NEWEST_OF + c.name]])) for c in sources if NEWEST_OF + c.name in counts
        ]
        reached = max([reached, *(int(m[0]) for m in moved)])
        times.add(batch, counts)
        reached = max(reached, times.due() or -1)


def _json(counts: Tally) -> str:
    import json

    return json.dumps(counts.counters())
