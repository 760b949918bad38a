"""The log of changes replayed on columns is the log replayed one change after the other."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from skyband.framework.tables.results.timeline import Timeline, in_result
from skyband.framework.tables.schemas import changes_schema, results_schema
from tests.framework.tables.plans import DAY, make_plan, random_changes, to_table, without
from tests.seeds import cases

Row = dict[str, Any]


def logged(seed: int, keyed: bool, sided: bool) -> tuple[Timeline, list[Row], pa.Table, pa.Table]:
    """A timeline, its changes as rows and as a table, and an empty table of its intervals."""
    plan = make_plan("unused", ("grp",) if keyed else (), ("a", "b") if sided else ("older", "newer"))
    query = plan.queries[0]
    rows = [row for batch in random_changes(plan, seed, 3, 25, 6) for row in batch["near"]]
    table = to_table(rows, without(changes_schema(plan, query), "batch_id"))
    return Timeline.of(plan, query), rows, table, results_schema(plan, query).empty_table()


def item(row: Row) -> tuple[int, ...]:
    return tuple(v for name, v in row.items() if name.endswith("seq"))


def result(rows: list[Row], **until: int) -> dict[Any, set[tuple[int, ...]]]:
    """The items in the result of every key after all changes whose columns are at most ``until``."""
    found: dict[Any, set[tuple[int, ...]]] = defaultdict(set)
    for row in rows:
        if all(row[name] <= last for name, last in until.items()):
            (found[row.get("grp")].add if row["change"] == "+" else found[row.get("grp")].remove)(item(row))
    return {key: items for key, items in found.items() if items}


flags = st.booleans()


@settings(max_examples=cases(30))
@given(seed=st.integers(0, 10_000), keyed=flags, sided=flags)
def test_spans_are_the_stays_of_the_changes_one_by_one(seed: int, keyed: bool, sided: bool) -> None:
    timeline, rows, table, _ = logged(seed, keyed, sided)
    spans = timeline.spans(table)
    open_: dict[Any, int] = {}
    expected = {}
    for i, row in enumerate(rows):
        if row["change"] == "+":
            open_[row.get("grp"), item(row)] = i
            expected[i] = -1
        else:
            expected[open_.pop((row.get("grp"), item(row)))] = i
    assert dict(zip(spans.entered.tolist(), spans.left.tolist(), strict=True)) == expected
    assert spans.entered.tolist() == sorted(expected)


@settings(max_examples=cases(30))
@given(seed=st.integers(0, 10_000), keyed=flags, sided=flags)
def test_the_result_as_of_an_instant_is_that_after_all_its_changes(seed: int, keyed: bool, sided: bool) -> None:
    timeline, rows, table, empty = logged(seed, keyed, sided)
    intervals = timeline.intervals(empty, table)
    for at in range(DAY - 1, max((r["changed_at"] for r in rows), default=DAY) + 2, 250_000):
        found: dict[Any, set[tuple[int, ...]]] = defaultdict(set)
        for row in intervals.filter(pa.array(in_result(intervals, at))).to_pylist():
            found[row.get("grp")].add(item(row))
        assert found == result(rows, changed_at=at)


@settings(max_examples=cases(30))
@given(seed=st.integers(0, 10_000), keyed=flags, sided=flags)
def test_ranks_of_a_stay_are_those_after_each_of_its_steps(seed: int, keyed: bool, sided: bool) -> None:
    timeline, rows, table, _ = logged(seed, keyed, sided)
    spans = timeline.spans(table)
    order = timeline.ranked(table.take(pa.array(spans.entered)))
    place: dict[Any, list[tuple[int, ...]]] = defaultdict(list)
    for row in order.to_pylist():
        place[row.get("grp")].append(item(row))
    for n, found in enumerate(timeline.stay_ranks(table, spans, range(len(spans.entered)))):
        row, left = rows[spans.entered[n]], spans.left[n]
        mine = [r for r in rows if r.get("grp") == row.get("grp")]
        last = rows[left]["step"] if left >= 0 else mine[-1]["step"] + 1
        ranks = []
        for step in range(row["step"], last):
            inside = result(mine, step=step)[row.get("grp")]
            ranks.append(sorted(inside, key=place[row.get("grp")].index).index(item(row)) + 1)
        assert found == (ranks[0], min(ranks), ranks[-1])


@settings(max_examples=cases(30))
@given(seed=st.integers(0, 10_000), keyed=flags)
def test_the_last_change_of_each_item(seed: int, keyed: bool) -> None:
    timeline, rows, table, _ = logged(seed, keyed, False)
    last = {(row.get("grp"), item(row)): (row["step"], row["pos"]) for row in rows}
    found = timeline.last(table, ("step", "pos")).to_pylist()
    assert {(row.get("grp"), item(row)): (row["step"], row["pos"]) for row in found} == last and len(found) == len(last)
