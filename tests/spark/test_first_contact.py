"""A stranger's directory: modules named as Python's own lie in it, paths are relative, and the rows are not what the spec says they are."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from deltalake import DeltaTable

from skyband.jobs import cli
from tests.spark.jobs import stamp, table, write_file
from tests.specs import spec_text

pytestmark = pytest.mark.spark

SPEC = spec_text(
    "strange",
    "{id: bigint, ts: timestamp, x: double}",
    sink="{path: ./out}",
    window="{count: 50}",
    scoring="{high: {expression: x, direction: max}}",
    queries="{top: {type: topk, scoring: high, k: 2}}",
)
COLUMNS = ("id", "ts", "x")


def test_a_run_from_a_directory_full_of_pythons_names(tmp_path: Path) -> None:
    directory, here = tmp_path / "job", tmp_path / "here"
    here.mkdir()
    for name in ("queue", "types", "random", "json", "numpy", "pyarrow"):
        (here / f"{name}.py").write_text("raise ImportError('a module of the working directory')\n")
    rows: list[list[object]] = [[i, stamp(i) if i % 10 else f"{1_577_836_800 + i}", i] for i in range(100)]
    write_file(directory, "a.csv", rows, at=0, columns=COLUMNS)
    (directory / "spec.yaml").write_text(SPEC)
    environment = {**os.environ, "SKYBAND_MASTER": "local[2]"}
    done = subprocess.run(
        [Path(sys.executable).parent / "skyband", "run", "../job/spec.yaml", "--outcome", "../job/out.json"],
        capture_output=True, text=True, timeout=300, env=environment, check=False, cwd=here,
    )  # fmt: skip
    said = [line for line in done.stderr.splitlines() if not line.startswith("kernels are being compiled")]
    assert done.returncode == 4, done.stderr
    assert said[:2] == ["starting ../job/spec.yaml", f"job strange: 1 query over csv in {directory}/in, into {directory}/out"]
    assert said[2].startswith("batch 0: 100 rows, ") and not [line for line in said if " 0 rows" in line]
    end, log, parse, error, _, quality = said[-6:]
    assert end.startswith("done: 100 rows") and "; 1 row waits, at 2020-01-01 01:39:00, the newest row's time" in end
    assert log.startswith(f"Spark's log is {directory}/out/_skyband/logs/")
    assert parse.startswith(
        "WARNING: 10 of the 100 rows of this run (10.0 %) were rejected, reason parse: column 'ts' (timestamp) holds '15778"
    )
    assert "epoch seconds" in parse and "timestamp_seconds(ts)" in parse
    assert quality.startswith("quality: ") and quality.endswith("not published: critical skyband_max_rejected")
    assert error.startswith("SKY-E501 10 of the 100 rows of this run (10.0 %) were rejected")
    outcome = json.loads((directory / "out.json").read_text())
    assert (outcome["status"], outcome["exit_code"]) == ("too_many_rejected", 4) and [e["code"] for e in outcome["errors"]] == ["SKY-E501"]
    made = table(directory, "runs").to_pylist()
    assert outcome["batches"] == {"count": len(made), "first": 0, "last": len(made) - 1}
    assert outcome["rows"] == {"in": 100, "filtered": 0, "accepted": 89, "rejected": {"parse": 10}, "pending": 1}
    assert outcome["changes"] == {"top": table(directory, "top_changes").num_rows} and table(directory, "top_changes").num_rows
    for name, span in outcome["tables"].items():
        opened = DeltaTable(str(directory / "out" / name))
        assert span == {"from": None, "to": opened.version(), "id": str(opened.metadata().id)}
    assert outcome["last_batch"] == len(made) - 1
    assert set(outcome["tables"]) | {"job_runs"} == {p.name for p in (directory / "out").iterdir() if (p / "_delta_log").is_dir()}
    assert table(directory, "top_now").num_rows == 2 and table(directory, "runs").num_rows > 0
    assert sorted(p.name for p in here.iterdir()) == [f"{n}.py" for n in ("json", "numpy", "pyarrow", "queue", "random", "types")]


def test_nothing_is_shown_by_a_job_whose_rows_were_all_rejected(spark: object, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_file(tmp_path, "a.csv", [[i, 1_577_836_800 + i, i] for i in range(50)], at=0, columns=COLUMNS)
    (tmp_path / "spec.yaml").write_text(SPEC)
    assert cli.main(["run", str(tmp_path / "spec.yaml"), "--finish"]) == 4
    assert "50 of the 50 rows of this run (100.0 %)" in capsys.readouterr().err
    assert cli.main(["verify", str(tmp_path / "spec.yaml"), "--replay-only"]) == 1
    assert "NOTHING SHOWN: the tables hold no change of any result" in capsys.readouterr().out
    assert cli.main(["verify", str(tmp_path / "spec.yaml")]) == 1
    out = capsys.readouterr().out
    assert "NOTHING SHOWN: the job has accepted no row of the source" in out and "no difference found" not in out
