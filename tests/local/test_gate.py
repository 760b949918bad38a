"""A run whose gate fails has written everything and published nothing; the next one that passes publishes what there is."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from deltalake import DeltaTable

from skyband.framework.streaming.job.layout import Layout
from skyband.framework.streaming.run.results import GateSchedule, Results
from skyband.framework.tables.writing.factory import writer_for
from skyband.framework.tables.writing.sink import Sink
from skyband.jobs.cli import main
from skyband.jobs.spec import load_plan
from tests.local.jobs import LOCAL
from tests.spark.jobs import stamp, table, write_file, write_spec

pytestmark = pytest.mark.long

CHECK = "  tables:\n    - {table: far3_changes, expectation: expect_column_values_to_be_between, column: score, max_value: MOST}\nwindow:"


def quality(spec: Path, most: int) -> None:
    text = spec.read_text()
    head, _, rest = text.partition("window:")
    head = head.split("  tables:")[0]
    spec.write_text(head + CHECK.replace("MOST", str(most)) + rest)


def published(directory: Path) -> dict[str, int]:
    return {r["table_name"]: r["version"] for r in table(directory, "published").to_pylist()}


def test_a_run_whose_gate_fails_writes_all_and_publishes_nothing(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    spec = write_spec(tmp_path, watermark="0 seconds", queries="  far3: {type: topk_pairs, scoring: far, k: 3}\n")
    quality(spec, most=0)
    write_file(tmp_path, "1.csv", [[i, stamp(i), "p", i % 5, 1, "a"] for i in range(40)], at=1)
    tell = f"dd of='{tmp_path}/told.json' status=none"
    assert main(["run", str(spec), *LOCAL, "--finish", "--quiet", "--notify-command", tell]) == 1
    outcome = json.loads((tmp_path / "told.json").read_text())
    assert outcome["status"] == "checks_failed" and [c["success"] for c in outcome["checks"]].count(False) == 1
    told = capfd.readouterr().err
    assert "SKY-E500 critical check failed on table far3_changes" in told and "not published: critical" in told
    assert table(tmp_path, "far3").num_rows > 3 and table(tmp_path, "far3_now").num_rows == 3
    assert published(tmp_path) == {}
    (failed,) = [r for r in table(tmp_path, "checks").to_pylist() if not r["success"]]
    assert failed["table_version"] is not None and failed["first_batch_id"] == 0 and failed["unexpected"] > 0

    assert main(["quality", str(spec), "--docs", str(tmp_path / "docs")]) == 1
    assert "nothing is published" in capfd.readouterr().out and (tmp_path / "docs" / "far3_changes.html").is_file()

    quality(spec, most=1_000)
    write_file(tmp_path, "2.csv", [[100 + i, stamp(50 + i), "p", i % 7, 1, "a"] for i in range(20)], at=2)
    assert main(["run", str(spec), *LOCAL, "--finish", "--quiet"]) == 0
    first = published(tmp_path)
    assert set(first) == {"far3_changes", "far3", "far3_now"}
    # What fails next does not move it, and what was published is read as it was.
    quality(spec, most=0)
    write_file(tmp_path, "3.csv", [[200 + i, stamp(90 + i), "p", 100 * i, 1, "a"] for i in range(20)], at=3)
    before = table(tmp_path, "far3").num_rows
    assert main(["run", str(spec), *LOCAL, "--finish", "--quiet"]) == 1
    assert published(tmp_path) == first and table(tmp_path, "far3").num_rows > before
    held = DeltaTable(str(tmp_path / "out" / "far3"), version=first["far3"]).to_pyarrow_table()
    assert held.num_rows == before


def test_a_continuous_run_passes_the_gate_every_so_many_batches(tmp_path: Path) -> None:
    plan = dataclasses.replace(load_plan(str(write_spec(tmp_path))), check_every=3)
    done: list[str] = []
    context: Any = SimpleNamespace(phase=lambda _: None, gate=lambda _: done.append("gate"))
    opened: Any = SimpleNamespace(plan=plan, sink=Sink(plan, writer_for(plan.sink), "g"))
    late: list[int] = []
    results: Any = SimpleNamespace(derive=lambda: done.append("derive"), ready=lambda: not late)
    gate = GateSchedule(context, opened, results, plan.check_every, 5)
    passed = []
    for batch in range(6, 16):
        gate.batch_done(batch)
        passed.append(len(done))
    assert done == ["derive", "gate"] * 3 and passed == [0, 0, 2, 2, 2, 4, 4, 4, 6, 6]
    GateSchedule(context, opened, results, None, 5).batch_done(20)
    assert len(done) == 6
    # It waits for tables that are behind.
    late.append(1)
    assert not gate.batch_done(17) and not gate.batch_done(18) and len(done) == 6
    late.clear()
    assert gate.batch_done(19) and not gate.batch_done(21) and gate.batch_done(22) and len(done) == 10


def test_tables_that_are_behind_are_ordered_before_results_are_derived(tmp_path: Path) -> None:
    layout = Layout(str(tmp_path))
    layout.control.mkdir(parents=True)
    context: Any = SimpleNamespace(layout=layout, derive_seconds=1e9)
    totals: Any = SimpleNamespace(behind=2, last_batch=7)
    results = Results(context, cast(Any, SimpleNamespace(sink=None)), totals)
    assert not results.ready() and not results.ready()
    assert [json.loads(p.read_text())["flush"] for p in layout.control.iterdir()] == [True]
    assert {p.name for p in layout.control.iterdir()} == {"flush-7.json"}
    totals.behind, totals.last_batch = 3, 8
    assert not results.ready() and {p.name for p in layout.control.iterdir()} == {"flush-7.json"}
    # Batch 9 has flushed, batch 10 deferred again: what batch 9 has read is removed.
    totals.behind, totals.last_batch = 1, 10
    assert not results.ready() and {p.name for p in layout.control.iterdir()} == {"flush-10.json"}
    totals.behind = 0
    assert results.ready() and len(list(layout.control.iterdir())) == 1
