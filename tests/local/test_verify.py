"""The proof of jobs with filters, derived columns and row rules starts no Spark, and sees a row that was judged otherwise."""

from __future__ import annotations

from pathlib import Path

import pytest

from skyband.jobs import cli
from tests.local.jobs import run
from tests.spark.cuts import stream
from tests.spark.jobs import table, write_file, write_spec

QUERIES = "  best: {type: topk, scoring: high, k: 3, carry: [x]}\n  far5: {type: topk_pairs, scoring: far, k: 5}\n"


@pytest.fixture
def spec(tmp_path: Path) -> Path:
    """A job that has run: odd values of y are filtered, and large ones of x are rejected."""
    rows = stream(12, 200)
    for i, row in enumerate(rows):
        row[3] = 5_000_000 + i if i % 11 == 0 else row[3]
    spec = write_spec(tmp_path, queries=QUERIES, scoring="  high: {expression: twice, direction: max}\n", max_files=1)
    more = 'transform:\n  - where: "y % 2 = 0"\n  - derive: {twice: "2 * x"}\nquality:'
    spec.write_text(spec.read_text().replace("quality:", more))
    for i in range(4):
        write_file(tmp_path, f"{i}.csv", rows[50 * i : 50 * (i + 1)], at=10 * i)
    run(spec)
    assert {r["reason"] for r in table(tmp_path, "rejected").to_pylist()} >= {"rule:sane_x"}
    assert sum(r["filtered"] for r in table(tmp_path, "runs").to_pylist()) > 50
    return spec


def test_everything_is_proven_in_this_process(spec: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["verify", str(spec), "--keys", "3", "--instants", "40", "--seed", "1"]) == 0
    said = capsys.readouterr().out
    assert "not compared" not in said and "source: " in said


def test_a_row_that_the_source_no_longer_passes_is_a_difference(spec: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for path in sorted((spec.parent / "in").glob("*.csv")):
        # Every row is filtered now.
        lines = path.read_text().splitlines()
        path.write_text("\n".join([lines[0], *(",".join([*c[:4], "7", *c[5:]]) for c in (line.split(",") for line in lines[1:]))]) + "\n")
    assert cli.main(["verify", str(spec), "--keys", "3", "--instants", "40", "--seed", "1"]) == 1
    assert "DIFFERENT" in capsys.readouterr().out
