"""What a range of batches has written, compared with the rows of the tables."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from skyband.framework.plan.model import Plan
from skyband.framework.storage.delta_read import open_table, read
from skyband.framework.tables.batch_figures import BEGINNING, batch_figures, newest_batch
from skyband.jobs.cli import main
from tests.framework.verify import small
from tests.jobs.test_machines import NEAR, known
from tests.spark.cuts import stream
from tests.spark.jobs import write_spec


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Plan]:
    """The spec and the plan of a small job whose tables are there."""
    spec = write_spec(tmp_path_factory.mktemp("figures"), queries=NEAR)
    plan = small.make(spec, stream(3, 120))
    known(plan)
    return spec, plan


def test_ranges_are_counted_as_the_tables_have_them(job: tuple[Path, Plan]) -> None:
    _, plan = job
    root = Path(plan.sink)
    last = newest_batch(root)
    assert last is not None and last > 2
    rows = {name: read(open_table(root, name)).to_pylist() for name in ("runs", "near_changes", "rejected")}
    for after in (BEGINNING, -1, 0, 1, last):
        for upto in range(last + 1):
            inside = {name: [r for r in found if after < r["batch_id"] <= upto] for name, found in rows.items()}
            found = batch_figures(root, plan, after, upto)
            batches = sorted(r["batch_id"] for r in inside["runs"])
            assert (found.count, found.first, found.last) == (len(batches), min(batches, default=None), max(batches, default=None))
            assert found.changes == {"near": len(inside["near_changes"])}
            assert found.rejected == Counter(r["reason"] for r in inside["rejected"])


def test_the_command_counts_a_range(job: tuple[Path, Plan], capsys: pytest.CaptureFixture[str]) -> None:
    spec, plan = job
    last = newest_batch(Path(plan.sink))
    assert last is not None
    for words, after, upto in (
        ([], BEGINNING, last),
        (["--after", "0", "--upto", "2"], 0, 2),
        (["--after", "1", "--upto", "9999"], 1, last),
    ):
        capsys.readouterr()
        assert main(["airflow", "batches", str(spec), *words, "--format", "json"]) == 0
        assert json.loads(capsys.readouterr().out) == batch_figures(Path(plan.sink), plan, after, upto).document()
    assert main(["airflow", "batches", str(spec), "--after", "0", "--upto", "0"]) == 0
    assert capsys.readouterr().out == "0 batches; changes: near 0; rejected: 0\n"
