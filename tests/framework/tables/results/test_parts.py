"""Results derived part by part of the keys are those derived at once."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from skyband.framework.plan.model import Field, Plan
from skyband.framework.tables.results import derive as parts
from skyband.framework.tables.results.derive import Made, Make, Part, cut, derive, in_process
from skyband.framework.tables.writing.driver_writer import DriverWriter
from skyband.framework.tables.writing.sink import Sink
from tests.framework.tables.plans import batch_blocks, make_plan, random_changes
from tests.framework.tables.writing.test_sink import NAMES, commit, flat, replay


def sorted_rows(sink: Sink, name: str) -> list[str]:
    return sorted(map(repr, sink.writer.read(name).to_pylist()))


@pytest.mark.parametrize("part_rows", [1, 7, 40])
def test_parts_come_to_the_same_tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, part_rows: int) -> None:
    monkeypatch.setattr(parts, "PART_ROWS", part_rows)
    spread: list[int] = []

    def counted(sink: Sink, make: Make, of: list[Part]) -> list[Made]:
        spread.append(len(of))
        return in_process(sink, make, of)

    sinks = []
    for name in ("parts", "whole"):
        plan = make_plan(str(tmp_path / name), ("grp",))
        sink = Sink(plan, DriverWriter(tmp_path / name), "g1")
        sink.ensure_all()
        sinks.append(sink)
    by_part, whole = sinks
    changes = random_changes(whole.plan, seed=3, batches=6, steps=40)
    for n in range(6):
        for sink in sinks:
            commit(sink, changes, n)
        if n % 2:
            derive(by_part, n, counted)
            derive(by_part, n, counted)
            with monkeypatch.context() as m:
                m.setattr(parts, "PART_ROWS", 10**6)
                derive(whole, n)
    assert max(spread) == 4 if part_rows == 1 else 1 < max(spread) <= 4
    for q in whole.plan.queries:
        rows = by_part.writer.read(q.name).to_pylist()
        assert flat(rows, ["grp", *NAMES]) == flat(replay(whole.plan, changes, q.name), ["grp", *NAMES])
        for name in (q.name, f"{q.name}_now"):
            assert sorted_rows(by_part, name) == sorted_rows(whole, name) != []
    assert by_part.writer.read("checks").num_rows == 0


def keyed_by(plan: Plan, type_: str) -> Plan:
    fields = tuple(Field("grp", type_, "float", "grp") if f.name == "grp" else f for f in plan.intake.fields)
    return replace(plan, intake=replace(plan.intake, fields=fields))


def test_every_row_is_in_one_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "PART_ROWS", 1)
    plan = keyed_by(make_plan(str(tmp_path), ("grp",)), "double")
    sink = Sink(plan, DriverWriter(tmp_path), "g1")
    sink.ensure_all()
    values = [math.nan, -math.inf, -1.5, -0.0, 0.0, 2.5, 3.0, math.inf, 1e300]
    heads = pa.table({"grp": values, "bucket": pa.array([0] * len(values), pa.int32())})
    sink.commit(0, {"heads": heads})
    made = cut(sink, 5)
    assert len(made) > 3
    found = [v for part in made for v in sink.writer.read("heads", where=part.of(sink))["grp"].to_pylist()]
    assert sorted(map(repr, found)) == sorted(map(repr, values))


def test_one_part_is_enough_without_keys_or_without_many_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "PART_ROWS", 10)
    for keys, rows in (((), 1000), (("grp",), 10), (("grp",), 1000)):
        plan = make_plan(str(tmp_path / "s"), keys)
        sink = Sink(plan, DriverWriter(tmp_path / f"{keys}{rows}"), "g1")
        sink.ensure_all()
        # No key is known yet.
        assert cut(sink, rows) == [Part()]
    sink.commit(0, {"heads": batch_blocks(plan, random_changes(plan, 1, 1, 0)[0], 0)["heads"]})
    assert len(cut(sink, 1000)) == 2
