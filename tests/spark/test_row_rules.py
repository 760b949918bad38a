"""Row rules of every severity through a run: what is used, what is rejected, what stops it, and how it goes on."""

from __future__ import annotations

import json
import signal
from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from skyband.framework.base.errors import SkybandError
from skyband.framework.quality.rejections import demoted
from skyband.framework.streaming.run.batch import Batch
from skyband.framework.streaming.run.runner import Runner
from skyband.framework.streaming.run.spark_engine import SparkEngine
from skyband.framework.tables.writing.factory import writer_for
from skyband.jobs.spec import load_plan
from tests.spark.cuts import verified
from tests.spark.jobs import changes, run_apart, sorted_rows, stamp, table, write_file, write_spec

pytestmark = pytest.mark.spark

RULES = """\
    - {name: sane_x, expect: "x < 1000000"}
    - {name: known_side, expect: "side in ('a', 'b')", severity: %s}
    - {expectation: expect_column_values_to_be_between, column: y, max_value: 5, severity: warn}
    - {expectation: expect_column_values_to_not_be_null, column: grp}
"""
QUERIES = "  far5: {type: topk_pairs, scoring: far, k: 5, carry: [x]}\n"


def spec_of(directory: Path, severity: str, sides: str = "'a', 'b'") -> Path:
    directory.mkdir(exist_ok=True)
    spec = write_spec(directory, queries=QUERIES, watermark="10 minutes", max_files=1)
    rules = (RULES % severity).replace("'a', 'b'", sides)
    spec.write_text(spec.read_text().replace('    - {name: sane_x, expect: "x < 1000000"}\n', rules))
    return spec


def write_files(directory: Path) -> None:
    """Three files; the second has rows of unknown sides, one of them with an x that is not sane and no group."""
    for n in range(3):
        rows = [[i, stamp(i), "p", i % 7, i % 8, "ab"[i % 2]] for i in range(20 * n, 20 * n + 20)]
        if n == 1:
            rows[5][3:] = [2_000_000, 1, "c"]
            rows[5][2] = ""
            rows[7][5] = "d"
            rows[9][3] = 3_000_000
        write_file(directory, f"{n}.csv", rows, at=n)


def run(spark: SparkSession, spec: Path, *demote: str) -> list[Batch]:
    plan = demoted(load_plan(str(spec)), demote)
    batches: list[Batch] = []
    spark.conf.set("spark.sql.shuffle.partitions", "2")
    Runner(SparkEngine(spark), plan, writer_for(plan.sink, spark), batches.append).run(once=True, finish=True)
    return batches


def rows_of(directory: Path) -> list[list[str]]:
    """What a job has told, but for how its batches were cut."""
    told = sorted_rows(changes(directory, "far5"))
    return [told, sorted_rows(table(directory, "far5_now")), sorted_rows(table(directory, "rejected"), ["batch_id"])]


def test_a_rule_stops_the_run_until_it_is_demoted_or_mended(spark: SparkSession, tmp_path: Path) -> None:
    stops, rejects = tmp_path / "stops", tmp_path / "rejects"
    spec = spec_of(stops, "fail")
    write_files(stops)
    for _ in range(2):
        with pytest.raises(SkybandError) as e:
            run(spark, spec)
        assert e.value.code == "SKY-E502"
        assert e.value.message.startswith(
            "2 rows of batch 1 break rules of severity fail; one breaks known_side (side in ('a', 'b')), in 1.csv: "
        )
        assert json.loads(e.value.message.partition("1.csv: ")[2])["id"] in (25, 27)
        assert "--demote known_side" in str(e.value.hint)
        # The batch before it is there, of its own nothing.
        assert {r["batch_id"] for r in table(stops, "runs").to_pylist()} == {0}
        assert table(stops, "rejected").num_rows == 0
        assert set(table(stops, "far5_changes")["batch_id"].to_pylist()) == {0}
    batches = run(spark, spec, "known_side")
    write_files(rejects)
    run(spark, spec_of(rejects, "reject"))
    assert rows_of(stops) == rows_of(rejects)
    reasons = Counter(r["reason"] for r in table(stops, "rejected").to_pylist())
    assert reasons == {"rule:sane_x,known_side,grp_not_null": 1, "rule:known_side": 1, "rule:sane_x": 1}
    assert sum(b.counts.warned().get("y_between", 0) for b in batches) == sum(y % 8 > 5 for y in range(20, 60) if y not in (25, 27, 29))
    runs = table(stops, "runs").to_pylist()
    assert sum(json.loads(r["warned"] or "{}").get("y_between", 0) for r in runs) == 14
    assert all(r["rows_in"] == r["filtered"] + r["rejected"] + r["accepted"] + r["pending_change"] for r in runs)
    assert sum(r["rejected_rule"] for r in runs) == 3 and "warned" not in "".join(r["counters"] for r in runs)
    assert verified(spec)


@pytest.mark.slow
def test_the_rule_itself_may_be_mended(spark: SparkSession, tmp_path: Path) -> None:
    stops, fresh = tmp_path / "stops", tmp_path / "fresh"
    spec = spec_of(stops, "fail")
    write_files(stops)
    with pytest.raises(SkybandError):
        run(spark, spec)
    run(spark, spec_of(stops, "fail", sides="'a', 'b', 'c', 'd'"))
    write_files(fresh)
    run(spark, spec_of(fresh, "fail", sides="'a', 'b', 'c', 'd'"))
    assert rows_of(stops) == rows_of(fresh)
    assert verified(spec)


@pytest.mark.chaos
@pytest.mark.slow
def test_killed_while_a_demoted_batch_is_written_it_goes_on_as_it_began(tmp_path: Path) -> None:
    stops, rejects = tmp_path / "stops", tmp_path / "rejects"
    spec = spec_of(stops, "fail")
    write_files(stops)
    stopped = run_apart(spec, "--finish")
    assert stopped.returncode == 3 and "SKY-E502" in stopped.stderr and "Traceback" not in stopped.stderr
    killed = run_apart(spec, "--finish", "--demote", "known_side", failpoint="sink.between")
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    stricter = run_apart(spec, "--finish")
    assert stricter.returncode == 2 and "SKY-E150 rule known_side has severity fail now while batch 1 is unfinished" in stricter.stderr
    again = run_apart(spec, "--finish", "--demote", "known_side")
    assert again.returncode == 0, again.stderr
    assert "rows of this run break y_between" in again.stderr and "they are used" in again.stderr
    write_files(rejects)
    assert run_apart(spec_of(rejects, "reject"), "--finish").returncode == 0
    assert rows_of(stops) == rows_of(rejects)
