"""Runs of a spec's DAG in a real Airflow, with real Spark and Delta: what comes out, and what other DAGs are told."""

from __future__ import annotations

from pathlib import Path

import pytest
from deltalake import DeltaTable

from skyband.jobs.authoring.demo_data import write_landing
from tests.airflow.home import CHECK, COMMAND, FAR, ROOT, ROWS, Home
from tests.spark.jobs import changes, run_apart, sorted_rows, table, write_file, write_spec

pytestmark = [pytest.mark.airflow, pytest.mark.spark, pytest.mark.slow]
TABLES = ("far5", "far5_changes", "far5_now")


def test_a_run_publishes_after_the_gate_and_only_news(home: Home) -> None:
    place = home.job("small", check=CHECK.format(most=10))
    write_file(place, "late.csv", [[9000, "2020-01-01T00:00:00.000000Z", "g", 2e6, 0, "a"]], at=9)
    done = home.airflow("dags", "test", "small")
    assert home.states() == dict.fromkeys(("validate", "run", "quality_gate", "publish", "maintain"), "success"), done.stdout + done.stderr
    # The run's lines as they came, and what it came to.
    assert "batch 0: 50 rows" in done.stdout and "batch 1: 50 rows" in done.stdout and "done: 101 rows in" in done.stdout
    runs = table(place, "runs").sort_by("batch_id").to_pylist()
    events = home.events()
    assert set(events) == {f"small.{t}" for t in TABLES}
    for name in TABLES:
        event = events[f"small.{name}"]
        opened = DeltaTable(str(place / "out" / name))
        assert event["versions"] == {"from": None, "to": opened.version(), "id": str(opened.metadata().id)}
        assert event["changes"] == table(place, "far5_changes").num_rows > 0
        assert event["rejected"] == {"rule:sane_x": 1} and event["batches"] == {"count": len(runs), "first": 0, "last": len(runs) - 1}
        (check,) = [c for c in event["checks"] if c["expectation"].startswith("expect_")]
        assert (check["table_name"], check["severity"], check["success"]) == ("far5", "critical", True)
    outcome = home.rows("select value from xcom where key = 'return_value' and task_id = 'run'")
    assert len(outcome) == 1 and '"status": "done"' in str(outcome[0][0]).replace('\\"', '"')
    assert "files on disk after" in done.stdout
    # Nothing new: the gate looks again, nothing is told, and the tables have been tidied only now.
    home.airflow("dags", "test", "small")
    assert home.states() == {"validate": "success", "run": "success", "quality_gate": "success"} | dict.fromkeys(
        ("publish", "maintain"), "skipped"
    )
    assert len(home.rows("select 1 from asset_event")) == len(TABLES)


def test_the_demo_runs_and_tells_of_its_tables(home: Home) -> None:
    """The spec as it is in the checkout, over three weeks of the demo's flights."""
    write_landing(home.directory / "landing", days=21)
    home.more |= {
        "LANDING": str(home.directory / "landing"),
        "WAREHOUSE": str(home.directory / "tables"),
        "SKYBAND_SPECS": str(ROOT / "specs"),
    }
    done = home.airflow("dags", "test", "flights")
    assert home.states() == dict.fromkeys(("validate", "run", "quality_gate", "publish", "maintain"), "success"), done.stdout + done.stderr
    events = home.events()
    assert set(events) == {f"flights.{q}{t}" for q in ("parted", "parted_today") for t in ("", "_changes", "_now")}
    tables = home.directory / "tables" / "flights"
    for name, event in events.items():
        query = name.removeprefix("flights.").removesuffix("_changes").removesuffix("_now")
        assert event["versions"]["to"] == DeltaTable(str(tables / name.removeprefix("flights."))).version()
        assert event["changes"] == DeltaTable(str(tables / f"{query}_changes")).to_pyarrow_table().num_rows > 10
        rejected = DeltaTable(str(tables / "rejected")).to_pyarrow_table()
        assert sum(event["rejected"].values()) == rejected.num_rows > 0
    runs = DeltaTable(str(tables / "runs")).to_pyarrow_table().to_pylist()
    assert sum(r["rows_in"] for r in runs) == sum(len(f.read_text().splitlines()) - 1 for f in (home.directory / "landing").iterdir())


def test_a_failing_gate_fails_the_run_and_tells_nobody(home: Home) -> None:
    place = home.job("small", check=CHECK.format(most=0.5))
    done = home.airflow("dags", "test", "small")
    after = dict.fromkeys(("publish", "maintain"), "upstream_failed")
    assert home.states() == {"validate": "success", "run": "success", "quality_gate": "failed"} | after
    assert home.rows("select state from dag_run") == [("failed",)] and home.events() == {}
    assert "SKY-E500 critical check failed on table far5" in done.stdout + done.stderr
    # All is written: it is the data that are not good.
    checks = {c["expectation"]: c["success"] for c in table(place, "checks").to_pylist()}
    assert table(place, "far5_now").num_rows == 5 and not checks["expect_column_values_to_be_between"]


def test_what_failed_gates_and_other_runs_have_committed_is_announced(home: Home) -> None:
    """The events of an asset follow each other without a gap, whatever the runs between them came to."""
    place = home.job("small", check=CHECK.format(most=1e9))
    spec = home.specs / "small.yaml"
    good = spec.read_text()
    home.airflow("dags", "test", "small")
    first, known = home.events(), max(r["batch_id"] for r in table(place, "runs").to_pylist())
    # The gate fails: one more batch is in the tables, and nobody hears of it.
    write_file(place, "a.csv", ROWS[100:150], at=5)
    spec.write_text(good.replace(CHECK.format(most=1e9), CHECK.format(most=0.5)))
    home.airflow("dags", "test", "small")
    assert home.states()["quality_gate"] == "failed" and home.events() == first
    # A run outside of Airflow, as one whose task was killed, commits a batch and then finds nothing.
    spec.write_text(good)
    write_file(place, "b.csv", ROWS[150:200], at=6)
    assert run_apart(spec).returncode == 0
    done = home.airflow("dags", "test", "small")
    assert home.states()["publish"] == "success" and "0 rows in 0 batches" in done.stdout, done.stdout + done.stderr
    events, rows = home.events(), table(place, "far5_changes").to_pylist()
    new = sorted(r["batch_id"] for r in table(place, "runs").to_pylist() if r["batch_id"] > known)
    assert len(new) >= 2
    for name in TABLES:
        opened = DeltaTable(str(place / "out" / name))
        event, before = events[f"small.{name}"], first[f"small.{name}"]
        assert event["versions"] == {"from": before["versions"]["to"], "to": opened.version(), "id": str(opened.metadata().id)}
        assert (before["last_batch"], event["last_batch"]) == (known, new[-1])
        assert event["batches"] == {"count": len(new), "first": new[0], "last": new[-1]}
        assert event["changes"] == sum(r["batch_id"] > known for r in rows) and event["changes"] + before["changes"] == len(rows)
    # Everything is announced now.
    home.airflow("dags", "test", "small")
    assert home.states()["publish"] == "skipped" and home.events() == events


def test_a_run_that_is_killed_is_tried_again_and_the_tables_are_exact(home: Home, tmp_path: Path) -> None:
    place = home.job("small", files=4)
    alone = tmp_path / "alone"
    (alone / "in").mkdir(parents=True)
    for file in (place / "in").iterdir():
        (alone / "in" / file.name).hardlink_to(file)
    left_alone = run_apart(write_spec(alone, max_files=1, job="small", queries=FAR))
    assert left_alone.returncode == 0, left_alone.stderr
    # The first run kills itself between two tables of its second batch.
    once, killing = tmp_path / "once", tmp_path / "killing"
    killing.write_text(
        f'#!/bin/sh\n[ "$1" = run ] && mkdir "{once}" 2>/dev/null && export SKYBAND_FAILPOINT=sink.between:2\nexec {COMMAND} "$@"\n'
    )
    killing.chmod(0o755)
    home.more["SKYBAND_COMMAND"] = str(killing)
    done = home.airflow("dags", "test", "small")
    assert home.states() == dict.fromkeys(("validate", "run", "quality_gate", "publish", "maintain"), "success"), done.stdout + done.stderr
    assert once.exists() and "the run was killed before it wrote an outcome" in done.stdout + done.stderr
    assert changes(place, "far5").equals(changes(alone, "far5"))
    for name in ("far5", "far5_now", "heads"):
        assert sorted_rows(table(place, name), ("batch_id",)) == sorted_rows(table(alone, name), ("batch_id",))
    assert set(home.events()) == {f"small.{t}" for t in TABLES}


def test_a_run_that_is_asked_to_rebuild_makes_all_tables_anew(home: Home, tmp_path: Path) -> None:
    """By its ``conf``, which an edited spec needs; what follows is as after every run, and of the tables of before nobody is told."""
    place = home.job("small")
    assert run_apart(home.specs / "small.yaml").returncode == 0
    spec = home.specs / "small.yaml"
    spec.write_text(spec.read_text().replace("k: 5", "k: 7"))
    refused = home.airflow("dags", "test", "small")
    assert home.states()["run"] == "failed" and "skyband rebuild" in refused.stdout + refused.stderr
    done = home.airflow("dags", "test", "small", "--conf", '{"rebuild": true}')
    assert home.states() == dict.fromkeys(("validate", "run", "quality_gate", "publish", "maintain"), "success"), done.stdout + done.stderr
    assert "swapped in" in done.stdout and (place / "out" / "_skyband" / "old" / "far5_changes").is_dir()
    assert table(place, "far5_now").num_rows == 7
    for name, event in home.events().items():
        opened = DeltaTable(str(place / "out" / name.partition(".")[2]))
        assert event["versions"] == {"from": None, "to": opened.version(), "id": str(opened.metadata().id)}
        assert event["changes"] == table(place, "far5_changes").num_rows
    assert [(r["command"], r["status"]) for r in sorted(table(place, "job_runs").to_pylist(), key=lambda r: r["run_id"])] == [
        ("run", "done"), ("run", "refused"), ("rebuild", "done")
    ]  # fmt: skip
