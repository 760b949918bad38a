"""``id: position`` through Spark: the numbers of ``preview`` for files that Spark would split, and the same tables after a kill."""

from __future__ import annotations

import gzip
import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.orc
import pyarrow.parquet as pq
import pytest

from skyband.framework.preview.judged import judged
from skyband.framework.preview.spark_rows import rows_by_spark
from skyband.framework.tables.sql.statements import Statements
from skyband.jobs.spec import load_plan
from tests.framework.sources.test_position import csv_text, plan_of
from tests.spark.jobs import run, run_apart, table, verified_apart
from tests.specs import spec_text

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

QUERIES = {"best": "{type: topk, scoring: x, k: 3}", "sky": "{type: skyline, dimensions: {x: max}}"}
ROWS = 60
CELLS = ["", "x", *map(str, range(ROWS))]
LINES = [json.dumps({"ts": "2024-01-01 00:00:00", "x": i}) for i in range(ROWS)]
STAMPS = pa.array([1_704_067_200_000_000 + i for i in range(ROWS)], pa.timestamp("us", "UTC"))
TABLE = pa.table({"ts": STAMPS, "x": [float(i) for i in range(ROWS)]})


def csv_of(blank: str = "\n") -> bytes:
    return ("title\nts,x\n" + "".join(f"2024-01-01 00:00:00,{c}\n{blank}" for c in CELLS)).encode()


def write(directory: Path, form: str) -> tuple[str, str | None]:
    """Files of that form; the format and the options."""
    directory.mkdir()
    for name in ("b c", "a"):
        file = directory / name
        if form == "csv":
            file.with_suffix(".csv").write_bytes(csv_of()[6:])
        elif form == "titles":
            file.with_suffix(".csv").write_bytes(csv_of())
        elif form == "packed":
            file.with_suffix(".csv.gz").write_bytes(gzip.compress(csv_of()[6:]))
        elif form == "plain":
            file.with_suffix(".json").write_text("\n".join(LINES))
        elif form == "lists":
            file.with_suffix(".json").write_text("\n".join([*LINES[:9], "", "[" + ",".join(LINES[9:30]) + "]", "no json", *LINES[30:]]))
        elif form == "whole":
            file.with_suffix(".json").write_text("[" + ",\n".join(LINES) + "]")
        elif form == "parquet":
            pq.write_table(TABLE, file.with_suffix(".parquet"), row_group_size=7)
        else:
            pa.orc.write_table(TABLE, str(file.with_suffix(".orc")), stripe_size=100)
    formats = {"csv": "csv", "titles": "csv", "packed": "csv", "plain": "json", "lists": "json", "whole": "json"}
    return formats.get(form, form), {"titles": "{skip_lines: 1}", "whole": "{multiLine: true}"}.get(form)


@pytest.mark.parametrize("form", ["csv", "titles", "packed", "plain", "lists", "whole", "parquet", "orc"])
def test_spark_numbers_rows_as_preview_does(spark: SparkSession, tmp_path: Path, form: str) -> None:
    plan = plan_of(tmp_path / "in", *write(tmp_path / "in", form))
    for name in ("spark.sql.files.maxPartitionBytes", "spark.sql.files.openCostInBytes"):
        spark.conf.set(name, "100")  # splits all but packed files, unless the reader prevents it
    found, theirs = judged(plan, results=False), rows_by_spark(plan, 1_000, spark)[1]
    columns = ["file", "file_row", "x", "__reason"]
    mine = found.rows.select(columns).to_pylist()
    assert found.first.doubtful == 0 and len(mine) >= 2 * ROWS
    key = lambda r: (r["file"], r["file_row"])  # noqa: E731
    assert sorted(theirs.select(columns).to_pylist(), key=key) == sorted(mine, key=key)
    assert [key(r) for r in mine if r["file"].startswith("a.")] == [(mine[-1]["file"], i + 1) for i in range(len(mine) // 2)]


@pytest.mark.long
def test_a_killed_run_comes_to_the_tables_of_one_left_alone(spark: SparkSession, tmp_path: Path) -> None:
    """One batch of all files in this process; a batch a file, killed between two tables, in others. Arrow reads some, Spark the rest."""
    for name, files in (("one", 100), ("many", 1)):
        directory = tmp_path / name
        shutil.copytree(tmp_path / "one" / "in", directory / "in") if name == "many" else (directory / "in").mkdir(parents=True)
        for n, cells in enumerate((["1", "5", "5"], ["5", "2"], ["x", "4", "", "5"])):
            if name == "one":
                (directory / "in" / f"{'cab'[n]}.csv").write_text(csv_text(cells, blank="\n"))
        (directory / "spec.yaml").write_text(
            spec_text(
                "trades", "{ts: timestamp, x: double}", path=f'"{directory}/in"', id="position", window="{count: 5}",
                event_time="{column: ts, watermark: 1 hour}", scoring="{x: {expression: x, direction: max}}",
                quality="{max_rejected: 100%}", queries=QUERIES,
                sink=f'{{path: "{directory}/out"}}', run=f"{{max_files: {files}}}",
            )
        )  # fmt: skip
    run(spark, tmp_path / "one" / "spec.yaml")
    killed = run_apart(tmp_path / "many" / "spec.yaml", "--finish", failpoint="sink.between:2")
    assert killed.returncode == -9
    again = run_apart(tmp_path / "many" / "spec.yaml", "--finish")
    assert again.returncode == 0, again.stderr
    for name in ("best_changes", "sky_changes", "best_now", "rejected"):
        found = [table(tmp_path / d, name).drop_columns(["batch_id"]).to_pylist() for d in ("one", "many")]
        assert sorted(map(repr, found[0])) == sorted(map(repr, found[1])) and found[0], name
    rows = Statements(load_plan(str(tmp_path / "many" / "spec.yaml"))).ask("select * from best_rows").to_pylist()
    assert rows and all((r["source_rows"], r["x"]) == (1, r["score"]) for r in rows)
    assert verified_apart(tmp_path / "many" / "spec.yaml")
