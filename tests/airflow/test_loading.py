"""What Airflow makes of a directory of specs: without Spark, and mostly without the command."""

from __future__ import annotations

import fcntl
import json
import re
from pathlib import Path

import pytest

from tests.airflow.home import ROOT, Home

pytestmark = pytest.mark.airflow

LOAD = """
import json, sys, time
from airflow.sdk import DAG
sys.path.insert(0, {directory!r})
begun = time.perf_counter()
import skyband_dags
took = time.perf_counter() - begun
dags = [v for v in vars(skyband_dags).values() if isinstance(v, DAG)]
print(json.dumps({{
    "took": took,
    "heavy": sorted({{"pyspark", "pandas", "numba", "numpy", "pyarrow", "skyband"}} & {{m.split(".")[0] for m in sys.modules}}),
    "dags": {{d.dag_id: [sorted(d.tags), d.doc_md, list(d.task_dict), d.owner, d.max_active_runs, d.catchup] for d in dags}},
}}))
"""


def loaded(home: Home, directory: Path = ROOT / "airflow_dags") -> dict[str, object]:
    """What importing the loader in Airflow's Python gives."""
    return json.loads(home.python(LOAD.format(directory=str(directory))).splitlines()[-1])  # type: ignore[no-any-return]


def test_a_directory_of_200_specs_is_parsed_without_anything_heavy(home: Home) -> None:
    home.job("j0", files=0)
    text = (home.specs / "j0.yaml").read_text()
    for n in range(1, 200):
        (home.specs / f"j{n}.yaml").write_text(text.replace("job: j0", f"job: j{n}"))
    first, second = loaded(home), loaded(home)
    for got in (first, second):
        assert set(got["dags"]) == {f"j{n}" for n in range(200)} and got["heavy"] == []  # type: ignore[call-overload]
    print(f"200 specs: {first['took']:.2f} s when none is known, {second['took']:.2f} s from then on")
    assert second["dags"] == first["dags"]
    tags, doc, tasks, owner, runs, catchup = first["dags"]["j7"]  # type: ignore[index]
    assert (tags, owner, runs, catchup) == (["skyband"], "skyband", 1, False)
    assert tasks == ["validate", "run", "quality_gate", "publish", "maintain"]
    assert "```mermaid\nflowchart LR" in doc and "job: j7" in doc and "SKY-E" not in doc


def test_a_broken_spec_among_good_ones(home: Home) -> None:
    home.job("good", files=0)
    text = (home.specs / "good.yaml").read_text()
    (home.specs / "bad one.yaml").write_text(text.replace("job: good", "job: bad").replace("k: 5", "k: five"))
    (home.specs / "twin.yaml").write_text(text)
    (home.specs / "not a spec.yaml").write_text("schedule: [\n")
    (home.specs / "unscheduled.yaml").write_text(text.split("schedule:")[0].replace("job: good", "job: quiet"))
    dags = loaded(home)["dags"]
    assert set(dags) == {"good", "broken.bad_one", "broken.twin", "broken.not_a_spec"}  # type: ignore[call-overload]
    tags, doc, tasks, *_ = dags["broken.bad_one"]  # type: ignore[index]
    assert tags == ["broken", "skyband"] and tasks == ["findings"]
    assert f"{home.specs}/bad one.yaml:21:45 SKY-E112 'k' takes a whole number, not 'five'" in doc, doc
    assert "already has" in dags["broken.twin"][1] and "SKY-E101" in dags["broken.not_a_spec"][1]  # type: ignore[index]
    done = home.airflow("dags", "test", "broken.bad_one")
    assert home.states() == {"findings": "failed"} and "SKY-E112 'k' takes a whole number" in done.stdout + done.stderr
    assert home.rows("select is_paused from dag where dag_id = 'broken.bad_one'") == [(1,)]


def test_without_the_command_every_spec_says_so(home: Home) -> None:
    home.job("good", files=0)
    home.more["SKYBAND_COMMAND"] = "/no/such/command"
    dags = loaded(home)["dags"]
    assert set(dags) == {"broken.good"}  # type: ignore[call-overload]
    assert "/no/such/command cannot be run: No such file" in dags["broken.good"][1]  # type: ignore[index]


def test_the_installed_loader_is_the_same(home: Home, tmp_path: Path) -> None:
    from skyband.jobs import cli

    home.job("good", files=0)
    assert cli.main(["airflow", "install", str(tmp_path / "dags"), "--specs", str(home.specs)]) == 0
    home.more["SKYBAND_SPECS"] = ""
    assert set(loaded(home, tmp_path / "dags")["dags"]) == {"good"}  # type: ignore[call-overload]


def test_what_a_spec_says_of_its_schedule_is_the_dags(home: Home) -> None:
    said = "{id: x.y, description: a job, owner: me, tags: [a], assets: [up.far5, 's3://b/k'], timeout: 2 hours, paused: true, "
    home.job("good", files=0, schedule=said + "retries: {count: 5, wait: 2 minutes, longest: 10 minutes}}")
    code = LOAD.format(directory=str(ROOT / "airflow_dags")) + (
        "\nd, = dags\nr, p = d.task_dict['run'], d.task_dict['publish']"
        "\nprint(json.dumps([d.dag_id, d.description, d.owner, sorted(d.tags), d.is_paused_upon_creation, r.retries, r.retry_delay.seconds,"
        " r.max_retry_delay.seconds, r.retry_exponential_backoff, r.execution_timeout.seconds, repr(d.schedule),"
        " sorted((o.name, o.uri) for o in p.outlets)]))"
    )
    *got, schedule, outlets = json.loads(home.python(code).splitlines()[-1])
    assert got == ["x.y", "a job", "me", ["a", "skyband"], True, 5, 120, 600, 2.0, 7200]
    assert "up.far5" in schedule and "s3://b/k" in schedule
    assert outlets == [[f"good.{t}", f"skyband://good/{t}"] for t in ("far5", "far5_changes", "far5_now")]


def test_airflow_takes_every_cron_expression_that_validate_takes(home: Home) -> None:
    """Random ones: Airflow's own timetable finds a next time for each that passes."""
    code = (ROOT / "tests" / "airflow" / "crons.py").read_text() + f"\nmain({str(ROOT / 'framework' / 'spec' / 'cron.py')!r}, 3000)\n"
    taken, refused, wrong = json.loads(home.python(code).splitlines()[-1])
    assert taken > 500 and refused > 100 and wrong == []


def test_a_run_beside_another_is_refused_with_its_process_named(home: Home) -> None:
    place = home.job("small", schedule="{cron: '@daily', retries: {count: 1, wait: 1 second}}")
    (place / "out" / "_skyband").mkdir(parents=True)
    with open(place / "out" / "_skyband" / "lock", "w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        held.write("4711")
        held.flush()
        done = home.airflow("dags", "test", "small")
    said = "SKY-E302 another run of job 'small' is writing to this sink (process 4711)"
    assert said in done.stdout + done.stderr
    after = dict.fromkeys(("quality_gate", "publish", "maintain"), "upstream_failed")
    assert home.states() == {"validate": "success", "run": "failed"} | after
    assert home.rows("select try_number from task_instance where task_id = 'run'") == [(2,)]


def test_a_spec_that_is_broken_since_is_refused_before_it_runs(home: Home) -> None:
    """The worker's environment is not the DAG processor's: there the source's place is not set."""
    home.job("small")
    spec = home.specs / "small.yaml"
    spec.write_text(spec.read_text().replace(str(home.directory / "small" / "in"), "${PLACE_OF_ROWS}"))
    loader, command = home.directory / "loader", home.env["SKYBAND_COMMAND"]
    loader.write_text(f'#!/bin/sh\n[ "$1" = airflow ] && export PLACE_OF_ROWS=/somewhere\nexec {command} "$@"\n')
    loader.chmod(0o755)
    home.more["SKYBAND_COMMAND"] = str(loader)
    done = home.airflow("dags", "test", "small")
    assert home.states()["validate"] == "failed" and home.states()["run"] == "upstream_failed"
    assert re.search(rf"{re.escape(str(spec))}:4:\d+ SKY-E106", done.stdout + done.stderr)
    assert home.rows("select try_number from task_instance where task_id = 'validate'") == [(1,)]
