"""Catalogs in whole runs: what commands do to entries, and that no catalog delays or loses rows."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from deltalake import DeltaTable

from skyband.framework.tables.schemas import tables
from skyband.jobs import cli
from skyband.jobs.spec import load_plan
from tests.framework.catalogs.jobs import TOKEN
from tests.framework.catalogs.unity_server import Server, unity_server
from tests.spark.catalog_jobs import flows, write_spec
from tests.spark.cuts import stream
from tests.spark.jobs import write_file
from tests.spark.jobs import write_spec as csv_spec

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    with unity_server(TOKEN) as found:
        monkeypatch.setenv("SKYBAND_UNITY_URL", found.url)
        monkeypatch.setenv("SKYBAND_UNITY_TOKEN", TOKEN)
        yield found


def names(spec: Path) -> set[str]:
    return {t.name for t in tables(load_plan(str(spec)))}


def no_spark(*_: object, **__: object) -> None:
    raise AssertionError("a JVM was started")


def test_a_catalog_that_fails_loses_no_rows_and_a_run_without_spark_registers(
    spark: SparkSession, tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    spec = csv_spec(tmp_path)
    write_file(tmp_path, "0.csv", stream(1, 40), at=0)
    spec.write_text(spec.read_text().replace('/out"}', '/out", catalog: main.rankings}'))
    server.fail = 500
    assert cli.main(["run", str(spec), "--once"]) == 0
    said = capsys.readouterr().err
    assert "are not registered in main.rankings" in said and TOKEN not in said and server.tables == {}
    assert DeltaTable(str(tmp_path / "out" / "far5_changes")).to_pandas().shape[0] > 0
    server.fail = None
    monkeypatch.setattr("skyband.framework.streaming.spark.session.get_session", no_spark)
    assert cli.main(["run", str(spec), "--once"]) == 0
    assert server.names("main.rankings") == names(spec)
    asked = len(server.requests)
    assert cli.main(["run", str(spec), "--once"]) == 0
    assert len(server.requests) == asked


def test_commands_keep_the_catalog_right(
    spark: SparkSession, tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    flows(tmp_path / "flows", range(20))
    server.schemas["main.prod"] = {"name": "prod"}
    server.tables["main.prod.flows"] = {
        "name": "flows", "table_type": "EXTERNAL", "data_source_format": "DELTA", "storage_location": (tmp_path / "flows").as_uri(),
    }  # fmt: skip
    spec = write_spec(tmp_path, "table: main.prod.flows", "main.rankings", ["best"])

    # A name is taken: nothing is written.
    server.schemas["main.rankings"] = {"name": "rankings"}
    server.tables["main.rankings.runs"] = {"name": "runs", "table_type": "EXTERNAL", "storage_location": "file:///theirs"}
    assert cli.main(["run", str(spec)]) == 2
    assert "SKY-E682" in capsys.readouterr().err and not (tmp_path / "out" / "best").exists()
    del server.tables["main.rankings.runs"]

    assert cli.main(["run", str(spec), "--finish"]) == 0
    assert server.names("main.rankings") == names(spec)
    assert DeltaTable(str(tmp_path / "out" / "best_now")).to_pandas()["id"].tolist() == [10, 11, 12]
    kept = {name: t["table_id"] for name, t in server.tables.items() if name.startswith("main.rankings.")}

    # A rebuild has the same paths, so the entries stay; an added live query gets entries, a removed one loses them.
    assert cli.main(["rebuild", str(spec), "--finish", "--quiet"]) == 0
    assert {name: server.tables[name]["table_id"] for name in kept} == kept
    more = tmp_path / "more.yaml"
    more.write_text("queries: {other: {type: topk, scoring: high, k: 2}}\n")
    assert cli.main(["queries", "add", str(spec), str(more), "--from-now"]) == 0
    flows(tmp_path / "flows", range(20, 25))
    assert cli.main(["run", str(spec), "--quiet"]) == 0
    assert server.names("main.rankings") == names(spec) and "other_now" in names(spec)
    assert cli.main(["queries", "remove", str(spec), "other"]) == 0
    flows(tmp_path / "flows", range(25, 30))
    assert cli.main(["run", str(spec), "--quiet"]) == 0
    assert server.names("main.rankings") == names(spec) and "other_now" not in names(spec)
    assert cli.main(["maintain", str(spec)]) == 0

    # What the catalog proves to be of others stays, whatever is reset.
    server.tables["main.rankings.best"]["properties"] = {"skyband.job": "0" * 32}
    capsys.readouterr()
    assert cli.main(["reset", str(spec), "--yes"]) == 0
    assert "main.rankings.best is left alone" in capsys.readouterr().out and server.names("main.rankings") == {"best"}
    assert "main.prod.flows" in server.tables and TOKEN not in "".join(p.read_text() for p in tmp_path.rglob("*.json"))


@pytest.mark.slow
def test_the_hive_metastore(tmp_path: Path) -> None:
    command = [sys.executable, "-P", "-m", "tests.spark.hive_metastore", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=environment(), timeout=900, check=False)
    found = {f["step"]: f for line in done.stdout.splitlines() if line.startswith("FOUND ") for f in [json.loads(line[6:])]}
    assert done.returncode == 0, done.stderr[-3000:]
    first = found["first run"]
    assert first["code"] == 0 and first["entries"] and first["kind"] == "EXTERNAL"
    assert first["rank"] == ["int", "place in the result, from 1"] and first["comment"] == "Current result of best."
    assert first["properties"] == {
        "skyband.job": first["job"], "skyband.name": "flights", "skyband.query": "best", "skyband.table": "current results",
        "skyband.key": "rank",
    }  # fmt: skip
    assert found["removed query"]["code"] == 0 and found["removed query"]["entries"]
    taken = found["taken name"]
    assert taken["location"].endswith("/theirs") and "other_now" in done.stderr
    named = found["named source"]
    assert named["code"] == 0 and named["path"] == str(tmp_path / "flows") and named["rows"] == [20, 21, 22]
    assert found["reset"]["code"] == 0 and found["reset"]["entries"] == ["other_now"] and found["reset"]["theirs"]


@pytest.mark.slow
def test_a_metastore_that_is_down_loses_no_rows(tmp_path: Path) -> None:
    flows(tmp_path / "flows", range(30))
    spec = write_spec(tmp_path, "path: flows", "rankings", ["best"])
    conf = "spark.sql.catalogImplementation=hive\nspark.hadoop.hive.metastore.uris=thrift://127.0.0.1:1"
    command = [sys.executable, "-P", "-m", "skyband.jobs.cli", "run", str(spec), "--finish"]
    done = subprocess.run(
        command, capture_output=True, text=True, cwd=tmp_path, env={**environment(), "SKYBAND_CONF": conf}, timeout=900, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert "the tables are not registered in spark_catalog.rankings" in done.stderr
    assert DeltaTable(str(tmp_path / "out" / "best_now")).to_pandas()["id"].tolist() == [20, 21, 22]


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT), "SKYBAND_MASTER": "local[2]", "SKYBAND_CONFIG": ""}
