"""Fixed rows are checked and put back without Spark where Arrow reads them, whichever engine runs the job."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from skyband.jobs import cli
from tests.local.jobs import run
from tests.spark.jobs import COLUMNS, by_the_local_engine, stamp, table, write_file, write_spec
from tests.spark.rebuilds import said_of

pytestmark = pytest.mark.long


def fixed(path: Path, *rows: list[object]) -> Path:
    with path.open("w", newline="") as f:
        csv.writer(f).writerows([COLUMNS, *rows])
    return path


@pytest.mark.parametrize("engine", ["local", "spark"])
def test_rows_are_put_back_and_those_that_would_be_rejected_again_are_left_out(
    tmp_path: Path, engine: str, capsys: pytest.CaptureFixture[str]
) -> None:
    spec = write_spec(tmp_path, watermark="10 minutes")
    write_file(tmp_path, "1.csv", [[i, stamp(i), "p", i % 5, 1, "ab"[i % 2]] for i in range(60)], at=1)
    run(spec, finish=False)
    if engine == "local":
        by_the_local_engine(spec)
    file = fixed(
        tmp_path / "fixed.csv", [500, stamp(55), "p", 3, 1, "a"], [501, stamp(56), "p", 5_000_000, 1, "a"], ["", stamp(56), "p", 1, 1, "a"],
        [502, stamp(5), "p", 6, 1.25, ""], [503, "", "p", 6, 1.25, ""],
    )  # fmt: skip
    said = said_of(capsys, "replay-rejected", str(spec), str(file), code=1)
    assert "1 of 5 rows of fixed.csv put back" in said and "1 row that came too late, by 0:44:00" in said
    assert all(f"reason {reason}" in said for reason in ("rule:sane_x", "null_id", "null_time"))
    (placed,) = (tmp_path / "in").glob("replayed-*.csv")
    assert [line.split(",")[0] for line in placed.read_text().splitlines()] == ["id", "500"]
    run(spec)
    accepted = [r["accepted"] for r in table(tmp_path, "runs").sort_by("batch_id").to_pylist()]
    assert sum(accepted) == 61


def test_look_up_tables_are_read_in_memory(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    spec = write_spec(tmp_path, watermark="10 minutes", partition=True)
    lookup = f"lookups:\n  site: {{format: csv, path: {tmp_path}/sites, options: {{header: true}}, schema: {{grp: string, tier: int}}, "
    text = spec.read_text().replace("quality:\n", lookup + "match: {grp: grp}, take: [tier], missing: reject}\nquality:\n", 1)
    spec.write_text(text)
    (tmp_path / "sites").mkdir()
    (tmp_path / "sites" / "1.csv").write_text("grp,tier\np,1\n")
    write_file(tmp_path, "1.csv", [[1, stamp(1), "p", 1, 1, "a"], [2, stamp(2), "q", 1, 1, "a"]], at=1)
    run(spec, finish=False)
    file = fixed(tmp_path / "fixed.csv", [3, stamp(3), "p", 1, 1, "a"], [4, stamp(3), "q", 1, 1, "a"])
    assert cli.main(["replay-rejected", str(spec), str(file)]) == 1
    said = "".join(capsys.readouterr())
    assert "1 of 2 rows of fixed.csv put back" in said and "reason no_match:site" in said
