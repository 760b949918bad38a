"""Look-ups through Spark: the join, tables that change between runs, a repeated batch, and what reads the source again."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake

from skyband.framework.base.errors import SkybandError
from skyband.framework.lookups import in_memory
from skyband.framework.streaming.rows import lookup_tables
from skyband.jobs import cli
from skyband.jobs.spec import load_plan
from tests.spark.jobs import stamp, table, write_file

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

SPEC = """\
job: looked
source:
  format: csv
  path: "{directory}/in"
  schema: {{id: bigint, ts: timestamp, host: string, part: int, x: double}}
  id: [id]
  event_time: {{column: ts}}
lookups:
  site:
    format: csv
    path: "{directory}/sites"
    schema: {{host: string, region: string, tier: int}}
    match: {{host: host}}
    take: [region, tier]
    missing: reject
  price:
    format: parquet
    path: "{directory}/prices"
    schema: {{part: int, cost: double, since: timestamp, until: timestamp}}
    match: {{part: part}}
    take: {{price: cost}}
    as_of: {{from: since, to: until}}
  owner:
    format: delta
    path: "{directory}/owners"
    schema: {{region: string, day: date, who: {{type: string, from: name}}}}
    match: {{region: region}}
    take: [who, day]
transform:
  - derive: {{worth: {{sql: "x * coalesce(price, 1) + tier", type: double}}}}
quality: {{max_rejected: 100%}}
window: {{count: 1000}}
scoring:
  worth: {{expression: worth, direction: max}}
queries:
  best: {{type: topk, scoring: worth, k: 100, carry: [region, price, who, day]}}
sink: {{path: "{directory}/out"}}
"""
COLUMNS = ("id", "ts", "host", "part", "x")


class Job:
    """A job of which each run gets a file of three rows: of host a at two instants, and of a host that no table has."""

    def __init__(self, directory: Path) -> None:
        self.directory, self.spec = directory, directory / "spec.yaml"
        self.spec.write_text(SPEC.format(directory=directory))
        self.files = 0
        prices = {"part": [1, 1, 2], "cost": [2.0, 3.0, 5.0], "since": [None, 30 * 60_000_000, None], "until": [30 * 60_000_000, None, 0]}
        stamps = {
            n: pa.array([None if v is None else v + self.origin() for v in prices[n]], pa.timestamp("us", "UTC"))
            for n in ("since", "until")
        }
        (directory / "prices").mkdir()
        pq.write_table(
            pa.table({"part": pa.array(prices["part"], pa.int32()), "cost": prices["cost"], **stamps}), directory / "prices" / "1.parquet"
        )
        write_deltalake(
            str(directory / "owners"), pa.table({"region": ["r1", "r2"], "name": ["ann", "bob"], "day": pa.array([1, None], pa.date32())})
        )

    @staticmethod
    def origin() -> int:
        return 1_577_836_800_000_000  # 2020-01-01, the start of ``stamp``

    def sites(self, region: str, more: str = "") -> None:
        (self.directory / "sites").mkdir(exist_ok=True)
        (self.directory / "sites" / "1.csv").write_text(f"host,region,tier\na,{region},7\n{more}")

    def arrive(self) -> None:
        n = 10 * self.files
        rows = [(n, stamp(n), "a", 1, 10), (n + 1, stamp(n + 1), "a", 2, 10), (n + 2, stamp(n + 2), "z", 1, 10)]
        write_file(self.directory, f"{self.files}.csv", rows, at=self.files, columns=COLUMNS)
        self.files += 1

    def run(self, *words: str, command: str = "run", engine: str = "spark") -> int:
        return cli.main([command, str(self.spec), *words, *(["--engine", engine] if engine != "spark" else [])])

    def regions(self, query: str = "best") -> dict[int, str]:
        return {r["id"]: r["region"] for r in table(self.directory, query).to_pylist()}


SPARK, LOCAL = "spark", "local"
SLOW = [pytest.param(engines, marks=pytest.mark.slow) for engines in ((SPARK,) * 4, (LOCAL, LOCAL, SPARK, LOCAL))]


@pytest.mark.parametrize("engines", [(SPARK, SPARK, LOCAL, LOCAL), *SLOW])
def test_rows_keep_the_tables_of_their_batch(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], engines: tuple[str, ...]
) -> None:
    job, engine = Job(tmp_path), iter(engines)
    job.sites("r1")
    plan = load_plan(str(job.spec))
    assert lookup_tables.read_tables(spark, plan) == in_memory.read_tables(plan)
    job.arrive()
    assert job.run("--quiet", "--finish", engine=next(engine)) == 0

    # A batch that fails after its tasks is repeated with the table that it began with.
    job.sites("r2")
    job.arrive()
    with monkeypatch.context() as patched:
        patched.setattr("skyband.framework.streaming.run.commit.failpoint", _fail)
        assert job.run("--quiet", "--finish", engine=next(engine)) == 3
    job.sites("r3")
    job.arrive()
    capsys.readouterr()
    assert job.run("--finish", engine=next(engine)) == 0
    assert "look-up tables stay as they were" in capsys.readouterr().err
    job.arrive()
    assert job.run("--quiet", "--finish", engine=next(engine)) == 0
    found = {0: "r1", 1: "r1", 10: "r2", 11: "r2", 20: "r2", 21: "r2", 30: "r3", 31: "r3"}
    assert job.regions() == found

    rows = {r["id"]: r for r in table(tmp_path, "best").to_pylist()}
    # Part 1 costs 2, from minute 30 on 3; the price of part 2 ended at minute 0.
    assert [rows[i]["price"] for i in found] == [2, None, 2, None, 2, None, 3, None]
    assert [rows[i]["score"] for i in found] == [27, 17, 27, 17, 27, 17, 37, 17]
    assert [rows[i]["who"] for i in found] == ["ann", "ann", "bob", "bob", "bob", "bob", None, None]
    assert [str(rows[i]["day"]) for i in (0, 10)] == ["1970-01-02", "None"]
    rejected = table(tmp_path, "rejected").to_pylist()
    assert [r["reason"] for r in rejected] == ["no_match:site"] * 4 and '"region":null' in rejected[0]["text"]

    # All that reads the source again sees the same tables.
    assert job.run("--all", command="verify") == 0
    assert "no difference found" in capsys.readouterr().out
    assert cli.main(["why", str(job.spec), "best", "10"]) == 0
    job.spec.write_text(
        job.spec.read_text().replace("queries:\n", "queries:\n  least: {type: topk, scoring: worth, k: 100, carry: [region]}\n")
    )
    assert job.run("--quiet", "--added", command="rebuild") == 0
    assert job.regions("least") == found

    # A table without one row for each key stops a run before it writes anything.
    job.sites("r4", "a,r5,1\n")
    job.arrive()
    capsys.readouterr()
    assert job.run("--quiet", engine=engines[0]) == 3
    assert "SKY-E320 look-up site: two rows have the key host = 'a'" in capsys.readouterr().err
    assert job.regions() == found
    with pytest.raises(SkybandError, match="two rows have the key"):
        lookup_tables.read_tables(spark, load_plan(str(job.spec)))

    # A rebuild takes the tables as they are now.
    job.sites("r9")
    assert job.run("--quiet", command="rebuild", engine=engines[0]) == 0
    assert job.regions() == dict.fromkeys([*found, 40], "r9")  # row 41, the newest, waits
    assert len(list((tmp_path / "out" / "_skyband" / "lookups").glob("*.parquet"))) == 3
    shutil.rmtree(tmp_path / "sites")
    assert job.run(command="verify") == 0


def _fail(name: str) -> None:
    if name == "state.after":
        raise RuntimeError("as if the process had died")
