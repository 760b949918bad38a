"""A Delta source whose table is changed, overwritten or created anew after a run: the next one says so, and a retry is not asked for."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from skyband.jobs.cli import main
from tests.spark.jobs import START

pytestmark = pytest.mark.spark

SPEC = """\
job: appended
source:
  format: delta
  path: {directory}/t
  schema: {{id: bigint, ts: timestamp, x: double}}
  id: [id]
  event_time: {{column: ts}}
window: {{count: 50}}
scoring: {{high: {{expression: x, direction: max}}}}
queries: {{top: {{type: topk, scoring: high, k: 3}}}}
sink: {{path: {directory}/out}}
"""


def rows(first: int, end: int) -> pa.Table:
    return pa.Table.from_pylist([{"id": i, "ts": START.replace(minute=i), "x": float(i)} for i in range(first, end)])


def anew(path: str) -> None:
    shutil.rmtree(path)
    write_deltalake(path, rows(10, 20))


@pytest.mark.parametrize(
    ("then", "said"),
    [
        (lambda path: DeltaTable(path).delete("id = 3"), "commit 1 of the table {} changed or removed rows (DELETE)"),
        (lambda path: write_deltalake(path, rows(10, 20), mode="overwrite"), "commit 1 of the table {} changed or removed rows (WRITE)"),
        (anew, "the table {} was recreated"),
    ],
    ids=["delete", "overwrite", "anew"],
)
def test_a_table_that_was_rewritten_is_named(
    spark: object, tmp_path: Path, then: Callable[[str], object], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    table, spec = f"{tmp_path}/t", tmp_path / "spec.yaml"
    write_deltalake(table, rows(0, 10))
    spec.write_text(SPEC.format(directory=tmp_path))
    assert main(["run", str(spec), "--once"]) == 0
    then(table)
    capsys.readouterr()
    assert main(["run", str(spec), "--once"]) == 2
    err = capsys.readouterr().err
    assert f"SKY-E207 {said.format(table)}" in err and "skyband rebuild SPEC" in err and "STREAM_FAILED" not in err
    assert main(["query", str(spec), "top"]) == 0
