"""Real runs with a receiver of OpenLineage events: what it hears, and that a run is the same whatever the receiver does."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from deltalake import DeltaTable

from skyband.framework.observe import chosen
from skyband.framework.observe.observers import Observers
from skyband.jobs.cli import main
from tests.framework.observe.lineage.receiver import check_event, receiver
from tests.spark.jobs import stamp, start_apart, table, write_file, write_spec

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
URL = "SKYBAND_OPENLINEAGE_URL"
QUERIES = "  far3: {type: topk_pairs, scoring: far, k: 3, carry: [grp]}\n"


@pytest.fixture(autouse=True)
def no_standard_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [n for n in os.environ if n.startswith("OPENLINEAGE")]:
        monkeypatch.delenv(name)


def job(directory: Path) -> Path:
    directory.mkdir(exist_ok=True)
    spec = write_spec(directory, watermark="0 seconds", queries=QUERIES)
    write_file(directory, "1.csv", [[i, stamp(i), "p", i % 5 if i else 2_000_000, 1, "a"] for i in range(40)], at=1)
    return spec


def until(done: Callable[[], bool], seconds: float = 300) -> None:
    """Wait for what another process does."""
    end = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < end, "it did not come"
        time.sleep(0.1)


def test_runs_that_succeed_rest_fail_and_are_refused(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    spec = job(tmp_path)
    with receiver() as got:
        monkeypatch.setenv(URL, got.url)
        assert main(["run", str(spec), "--finish", "--quiet"]) == 0
        assert got.kinds() == ["START", "RUNNING", "COMPLETE"]
        for event in got.events:
            check_event(event)
        end = got.events[-1]
        outputs = {d["name"].removeprefix(f"{tmp_path}/out/"): {**d["facets"], **d["outputFacets"]} for d in end["outputs"]}
        assert {"far3", "far3_changes", "far3_now", "rejected", "runs", "heads", "checks", "published"} <= set(outputs)
        for name, facets in outputs.items():
            made = DeltaTable(str(tmp_path / "out" / name))
            assert facets["version"]["datasetVersion"] == str(made.version())
            assert {f["name"]: f["type"] for f in facets["schema"]["fields"]} == {
                f.name: {"long": "bigint", "integer": "int"}.get(f.type.type, f.type.type) for f in made.schema().fields
            }
        assert outputs["far3_changes"]["outputStatistics"]["rowCount"] == table(tmp_path, "far3_changes").num_rows
        counts = end["run"]["facets"]["skyband_rejectedRows"]
        assert (counts["rowsIn"], counts["accepted"], counts["rejected"]) == (40, 39, {"rule:sane_x": 1})
        (source,) = end["inputs"]
        assert (source["namespace"], source["name"]) == ("file", str(tmp_path / "in"))
        assert end["run"]["facets"]["processing_engine"]["version"] == spark.version

        # A run with nothing to do starts no Spark, and changes nothing.
        assert main(["run", str(spec), "--finish", "--quiet"]) == 0
        assert got.kinds()[3:] == ["START", "COMPLETE"] and got.events[-1]["outputs"] == []

        # A run that is refused before it has the lock is none.
        bad = tmp_path / "bad.yaml"
        bad.write_text(spec.read_text().replace("window:", "windo:", 1))
        assert main(["run", str(bad), "--quiet"]) == 2
        assert len(got.events) == 5

        # A cell that stops the run: the error is sent with its code, without values of the environment.
        monkeypatch.setenv("PLACE", str(tmp_path))
        spec.write_text(
            spec.read_text().replace(str(tmp_path), "${PLACE}").replace('expect: "x < 1000000"', 'expect: "x < 1000000", severity: fail')
        )
        write_file(tmp_path, "2.csv", [[99, stamp(99), "p", 3_000_000, 1, "a"]], at=2)
        assert main(["run", str(spec), "--finish", "--quiet"]) == 3
        assert got.kinds()[5:] == ["START", "FAIL"]
        check_event(got.events[-1])
        message = got.events[-1]["run"]["facets"]["errorMessage"]["message"]
        assert message.startswith("SKY-E502 ") and str(tmp_path) not in str(got.events[-2:])
        assert {d["name"] for d in got.events[-2]["inputs"]} == {"${PLACE}/in"}
    assert "OpenLineage" not in capfd.readouterr().err


@pytest.mark.slow
def test_a_run_is_the_same_whatever_the_receiver_does(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(chosen, "Observers", partial(Observers, patience=2.0))
    found = {}
    with receiver() as well, receiver(500) as failing, receiver(hangs=True) as hanging:
        urls = {"off": "", "well": well.url, "down": "http://127.0.0.1:9", "failing": failing.url, "hanging": hanging.url}
        for name, url in urls.items():
            monkeypatch.setenv(URL, url)
            directory = tmp_path / name
            assert main(["run", str(job(directory)), "--finish", "--quiet"]) == 0
            said = capfd.readouterr().err
            assert ("WARNING: OpenLineage: 3 events were not delivered" in said) == (name in ("down", "failing", "hanging")), said
            changes = table(directory, "far3_changes").to_pylist()
            if name == "well":
                assert main(["rebuild", str(directory / "spec.yaml"), "--finish", "--quiet"]) == 0
                end = well.events[-1]
                check_event(end)
                states = {d["facets"]["lifecycleStateChange"]["lifecycleStateChange"] for d in end["outputs"]}
                assert (well.kinds()[3:], states) == (["START", "RUNNING", "COMPLETE"], {"OVERWRITE"})
                for dataset in end["outputs"]:
                    assert dataset["facets"]["version"]["datasetVersion"] == str(DeltaTable(dataset["name"]).version())
                capfd.readouterr()
            found[name] = changes, table(directory, "far3_now").to_pylist(), table(directory, "rejected").num_rows
    assert found["off"][0] and all(one == found["off"] for one in found.values())


@pytest.mark.slow
@pytest.mark.parametrize(("after", "code", "kinds"), [("START", 143, ["START", "ABORT"]), ("RUNNING", 0, ["START", "RUNNING", "COMPLETE"])])
def test_a_continuous_run_that_is_stopped(after: str, code: int, kinds: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While Spark starts, a signal ends the command at once; while batches run, it ends in order."""
    spec = job(tmp_path)
    with receiver() as got:
        monkeypatch.setenv(URL, got.url)
        process = start_apart(spec, "--continuous")
        try:
            until(lambda: after in got.kinds())
            process.send_signal(signal.SIGTERM)
            assert process.wait(120) == code
        finally:
            process.kill()
    assert got.kinds() == kinds
    for event in got.events:
        check_event(event)
    end = got.events[-1]
    assert end["job"]["facets"]["jobType"]["processingType"] == "STREAMING" and "errorMessage" not in end["run"]["facets"]
    assert bool(end["outputs"]) == (code == 0)
