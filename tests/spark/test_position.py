"""``id: position`` through Spark: the numbers of ``preview`` for files that Spark would split."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.orc
import pyarrow.parquet as pq
import pytest

from skyband.framework.preview.judged import judged
from skyband.framework.preview.spark_rows import rows_by_spark
from tests.framework.sources.test_position import plan_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

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
    first = [key(r) for r in mine if r["file"].startswith("a.")]
    assert first == [(first[0][0], i + 1) for i in range(len(mine) // 2)]
