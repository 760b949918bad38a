"""A run that has nothing to do starts no engine, and says and does all else that runs do."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from deltalake import DeltaTable

from skyband.framework.streaming.job.idle import at_rest, waiting
from skyband.framework.streaming.job.layout import Layout
from skyband.framework.streaming.run.context import Texts
from skyband.framework.streaming.run.runner import Runner
from skyband.framework.tables.writing.factory import writer_for
from skyband.jobs import cli
from skyband.jobs.spec import load_plan
from tests.local.jobs import local_engine, run
from tests.spark.cuts import stream
from tests.spark.jobs import sorted_rows, table, write_file, write_spec

pytestmark = pytest.mark.long


def test_files_that_come_while_the_end_is_declared_are_not_at_rest(tmp_path: Path) -> None:
    rows = stream(1, 60)
    spec = write_spec(tmp_path)
    plan, layout = load_plan(str(spec)), Layout(load_plan(str(spec)).sink)
    write_file(tmp_path, "0.csv", rows[:40], at=0)

    def arrives(text: str) -> None:
        if text.startswith("finishing"):
            write_file(tmp_path, "1.csv", rows[40:], at=10)

    Runner(local_engine(), plan, writer_for(plan.sink), lambda _: None, Texts(phase=arrives)).run(once=True, finish=True)
    job = layout.known()
    assert waiting(plan.source, layout) == []
    assert at_rest(layout, job, finish=False) and not at_rest(layout, job, finish=True)
    run(spec)
    assert waiting(plan.source, layout) == [] and at_rest(layout, layout.known(), finish=True)


def no_spark(*_: object, **__: object) -> None:
    raise AssertionError("a JVM was started")


def test_a_run_with_nothing_to_do(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    spec, rows, out = write_spec(tmp_path), stream(2, 60), tmp_path / "out"
    write_file(tmp_path, "0.csv", rows[:40], at=0)
    run(spec)
    for name in ("far5", "far5_now"):
        shutil.copytree(out / name, tmp_path / "before" / name)
    write_file(tmp_path, "1.csv", rows[40:], at=10)
    run(spec)
    left = {name: table(tmp_path, name) for name in ("far5_changes", "far5", "far5_now", "runs", "rejected")}
    # As a run that was killed before it made them leaves them: they are behind, and nothing of them is lost.
    notes = json.loads((out / "_skyband" / "tables.json").read_text())
    for name in ("far5", "far5_now"):
        shutil.rmtree(out / name)
        shutil.copytree(tmp_path / "before" / name, out / name)
        notes["made"][name]["version"] = DeltaTable(str(out / name)).version()
    (out / "_skyband" / "tables.json").write_text(json.dumps(notes))
    check = "{table: far5, expectation: expect_table_row_count_to_be_between, min_value: 1}"
    spec.write_text(spec.read_text().replace("quality:\n", f"quality:\n  tables:\n    - {check}\n"))
    outcome = tmp_path / "outcome.json"
    monkeypatch.setattr("skyband.framework.streaming.spark.session.get_session", no_spark)
    assert cli.main(["run", str(spec), "--once", "--finish", "--outcome", str(outcome)]) == 0
    said = capsys.readouterr().err
    assert "done: 0 rows, 0 rejected, 0 changes" in said and "the results up to batch" in said and "are published" in said
    assert json.loads(outcome.read_text())["exit_code"] == 0
    # Results that were behind the changes have been brought up.
    assert {name: sorted_rows(table(tmp_path, name)) for name in left} == {name: sorted_rows(rows) for name, rows in left.items()}
