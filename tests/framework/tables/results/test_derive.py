"""Intervals are the changes replayed, however they are cut; ranks are those of the definition."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from deltalake import DeltaTable, write_deltalake
from hypothesis import given, settings
from hypothesis import strategies as st

from skyband.framework.base.errors import SkybandError
from skyband.framework.storage import delta_read
from skyband.framework.tables.results import derive as module
from skyband.framework.tables.results.timeline import Timeline
from skyband.framework.tables.schemas import changes_schema, results_schema
from skyband.framework.tables.writing.driver_writer import DriverWriter
from skyband.framework.tables.writing.sink import Sink
from tests.framework.tables.plans import make_plan, random_changes, to_table, without
from tests.framework.tables.writing.test_sink import NAMES, commit, flat, replay
from tests.seeds import cases

SCORES = [-1.0, 0.0, 2.5, float("inf"), -float("inf")]


@settings(max_examples=cases(40))
@given(
    seed=st.integers(0, 10_000), batches=st.integers(1, 6), steps=st.integers(0, 20), items=st.integers(2, 6),
    keyed=st.booleans(), sided=st.booleans(),
)  # fmt: skip
def test_intervals_by_definition(seed: int, batches: int, steps: int, items: int, keyed: bool, sided: bool) -> None:
    keys = ("grp",) if keyed else ()
    roles = ("a", "b") if sided else ("older", "newer")
    plan = make_plan("unused", keys, roles)
    changes = random_changes(plan, seed, batches, steps, items)
    names = [*keys, *(f"{r}_{c}" for r in roles for c in ("id", "seq", "time", "x", "price")), *NAMES[4:]]
    query = plan.queries[0]
    schema = results_schema(plan, query)
    timeline, opened, closed = Timeline.of(plan, query), schema.empty_table(), []
    for batch in changes:
        rows = timeline.intervals(opened, to_table(batch["near"], without(changes_schema(plan, query), "batch_id")))
        opened = rows.filter(rows["is_current"])
        closed.append(rows.filter(pc.invert(rows["is_current"])))
    found = pa.concat_tables([*closed, opened]).to_pylist()
    for r in found:
        r |= {f"{role}_price": None if (p := r[f"{role}_price"]) is None else str(p) for role in roles}
    assert flat(found, names) == flat(replay(plan, changes, "near"), names)


def test_changes_that_do_not_replay_are_a_defect() -> None:
    plan = make_plan("unused")
    query = plan.queries[0]
    good = random_changes(plan, 1, 1, 200)[0]["near"]
    schema = without(changes_schema(plan, query), "batch_id")
    empty = results_schema(plan, query).empty_table()
    twice = [*good, {**next(r for r in good if r["change"] == "+"), "step": 0}]
    with pytest.raises(SkybandError, match="SKY-E900"):
        Timeline.of(plan, query).intervals(empty, to_table(twice, schema))
    leaves = [r for r in good if r["change"] == "-"][:1]
    with pytest.raises(SkybandError, match="SKY-E900"):
        Timeline.of(plan, query).intervals(empty, to_table(leaves, schema))


@given(
    rows=st.lists(
        st.tuples(st.sampled_from("ab"), st.integers(0, 6), st.integers(0, 6), st.sampled_from(SCORES)),
        unique_by=lambda r: r[:3], max_size=30,
    ),
    sided=st.booleans(), direction=st.sampled_from(["min", "max"]),
)  # fmt: skip
def test_rank_by_definition(rows: list[tuple[str, int, int, float]], sided: bool, direction: str) -> None:
    rows = [r for r in rows if r[1] != r[2]] if sided else [r for r in rows if r[1] < r[2]]
    roles = ("a", "b") if sided else ("older", "newer")
    query = make_plan("unused", ("grp",), roles, direction).queries[0]  # type: ignore[arg-type]
    kinds = [("grp", pa.string()), (f"{roles[0]}_seq", pa.int64()), (f"{roles[1]}_seq", pa.int64()), ("score", pa.float64())]
    table = pa.Table.from_pylist([dict(zip([k for k, _ in kinds], r, strict=True)) for r in rows], pa.schema(kinds))
    ordered = Timeline(query, ("grp",), ()).ranked(table)
    found = {}
    for r in ordered.to_pylist():
        found[tuple(v for name, v in r.items() if name != "rank")] = r["rank"]
    sign = 1 if direction == "min" else -1
    for key in "ab":
        mine = sorted((r for r in rows if r[0] == key), key=lambda r: (sign * r[3], -min(r[1:3]), -max(r[1:3])))
        assert [found[r] for r in mine] == list(range(1, len(mine) + 1))


def test_results_far_behind_are_derived_in_slices(tmp_path, monkeypatch) -> None:
    plan = make_plan(str(tmp_path))
    changes = random_changes(plan, seed=8, batches=9, steps=20)
    sink = Sink(plan, DriverWriter(tmp_path), "g")
    sink.ensure_all()
    for n in range(9):
        commit(sink, changes, n)
    monkeypatch.setattr(module, "MAX_ROWS", 15)
    before = len(sink.writer.read("runs"))
    module.derive(sink, 8)
    assert before == 9
    assert flat(sink.writer.read("near").to_pylist(), NAMES) == flat(replay(plan, changes, "near"), NAMES)
    # Several commits: creation, then more than one slice.
    from deltalake import DeltaTable

    assert DeltaTable(str(tmp_path / "near")).version() > 2


def test_rows_of_batches_are_counted_by_files_or_by_rows(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    batches = [rng.integers(2, 9, n) for n in (1, 5, 40)]
    for ids in (np.array([4]), np.array([7, 7]), np.array([5] * 9), np.array([4, 4])):
        write_deltalake(tmp_path / "one", pa.table({"batch_id": ids, "x": ids * 2}), mode="append")
    for ids in batches:
        write_deltalake(tmp_path / "merged", pa.table({"batch_id": ids, "x": ids * 2}), mode="append")
    assert delta_read.batches(DeltaTable(tmp_path / "one"), 4, 6) == [(5, 9)]
    assert delta_read.batches(DeltaTable(tmp_path / "one"), -1, 9) == [(4, 3), (5, 9), (7, 2)]
    all_ids = np.concatenate(batches).tolist()
    for after, upto in ((-1, 20), (3, 6), (6, 6), (7, 8)):
        expected = [(b, all_ids.count(b)) for b in sorted(set(all_ids)) if after < b <= upto]
        assert delta_read.batches(DeltaTable(tmp_path / "merged"), after, upto) == expected
    # Old files that upkeep has merged are not asked.
    write_deltalake(tmp_path / "merged", pa.table({"batch_id": [11, 11], "x": [1, 2]}), mode="append")
    assert delta_read.batches(DeltaTable(tmp_path / "merged"), 10, 20) == [(11, 2)]
