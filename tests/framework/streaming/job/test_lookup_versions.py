"""The versions of look-up tables that batches have used: what a run pins, what it keeps, and damage to it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, cast

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from skyband.framework.base.errors import SkybandError
from skyband.framework.lookups.in_memory import of_rows
from skyband.framework.lookups.table import nodes
from skyband.framework.plan.model import Plan
from skyband.framework.sources.registry import source_format
from skyband.framework.sources.several.format import SEVERAL
from skyband.framework.streaming.job.layout import Layout, check_sink_location
from skyband.framework.streaming.job.lookup_versions import LookupVersions, version_of
from tests.framework.lookups.test_rehearsed import text
from tests.specs import plan_of_text

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Job:
    """A job's checkpoint, with as many batches as a test plans, each of one file."""

    def __init__(self, directory: Path) -> None:
        self.plan: Plan = plan_of_text(text(directory))
        self.layout = Layout(self.plan.sink)
        self.layout.create(self.plan, 1, None)
        self.kept = LookupVersions(self.plan, self.layout)
        self.reads = 0
        self.warned: list[str] = []

    def table(self, region: str) -> pa.Table:
        ((node, source),) = nodes(self.plan)
        return of_rows(node, source, [{"host": "a", "region": region, "tier": 1}])

    def pin(self, region: str) -> str:
        """The region that a run takes which begins while the table holds ``region``."""

        def read() -> Mapping[str, pa.Table]:
            self.reads += 1
            return {"site": self.table(region)}

        return str(self.kept.pin(read, self.warned.append)["site"]["region"][0].as_py())

    def batch(self, number: int, done: bool = True) -> None:
        checkpoint = self.layout.checkpoint
        write(checkpoint / "offsets" / str(number), f'v1\n{{"batchWatermarkMs":0}}\n{{"logOffset":{number}}}\n-')
        entry = json.dumps({"path": f"file:///in/{number}.csv", "timestamp": 1, "batchId": number})
        write(checkpoint / "sources" / "0" / str(number), f"v1\n{entry}")
        if done:
            write(checkpoint / "commits" / str(number), 'v1\n{"nextBatchWatermarkMs":0}')

    def snapshots(self) -> int:
        return len(list(self.layout.lookups.glob("*.parquet")))


def write(path: Path, content: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)


@pytest.fixture
def job(tmp_path: Path) -> Job:
    return Job(tmp_path)


def test_a_run_reads_and_an_unfinished_batch_keeps_what_it_began_with(job: Job) -> None:
    assert job.pin("one") == "one" and job.pin("two") == "two" and job.snapshots() == 1, "no batch used the first one"
    job.batch(0)
    assert job.pin("three") == "three"
    job.batch(1, done=False)
    assert job.pin("four") == "three" and len(job.warned) == 1
    job.batch(1)
    assert job.pin("four") == "four"
    assert [(v.batch, v.after) for v in job.kept.known()] == [(0, -1), (1, 0), (2, 1)]
    assert [job.kept.tables(v)["site"]["region"][0].as_py() for v in job.kept.known()] == ["two", "three", "four"]
    assert job.pin("four") == "four" and len(job.kept.known()) == 3, "the same table is the same version"
    assert [version_of(job.kept.known(), number) for number in (0, 1, 2, 9)] == [0, 1, 2, 2]


def test_versions_without_files_are_removed_and_nothing_else(job: Job) -> None:
    for number in range(4):
        job.pin(str(number))
        job.batch(number)
    foreign = [job.layout.lookups / name for name in ("notes.txt", f"{'0' * 64}.parquet", "x.parquet")]
    for path in foreign:
        path.write_text("mine")
    (job.layout.lookups / f"{'1' * 64}.parquet").symlink_to(job.layout.file)
    for number in (1, 2):
        (job.layout.checkpoint / "sources" / "0" / str(number)).unlink()
    job.pin("4")
    assert [job.kept.tables(v)["site"]["region"][0].as_py() for v in job.kept.known()] == ["0", "3", "4"]
    assert all(path.exists() for path in foreign) and job.snapshots() == 3 + 3 and job.layout.file.exists()


def test_of_several_sources_only_whether_tables_have_changed_is_known(job: Job) -> None:
    own = job.plan.source
    parts = (("asks", own), ("bids", replace(own, format="json", number=1)))
    job.plan = replace(job.plan, source=replace(own, format=SEVERAL, parts=parts))
    job.kept = LookupVersions(job.plan, job.layout)
    for number in range(4):
        job.pin(str(number))
        job.batch(number, done=number < 3)
    assert job.pin("4") == "3" and len(job.warned) == 1
    versions = job.kept.known()
    assert [job.kept.tables(v)["site"]["region"][0].as_py() for v in versions] == ["0", "3"]
    cuts = [v.after for v in versions[1:]]
    with pytest.raises(SkybandError) as e:
        source_format(SEVERAL).again_in_parts(cast("SparkSession", None), job.plan.source, None, job.layout.checkpoint, cuts)
    assert e.value.code == "SKY-E301" and "look-up tables have changed" in e.value.message and "asks (csv), bids (json)" in e.value.message


def test_a_batch_that_is_taken_back_leaves_no_version(job: Job) -> None:
    job.pin("one")
    job.batch(0)
    job.pin("two")
    assert job.pin("three") == "three"
    assert [v.batch for v in job.kept.known()] == [0, 1]


@pytest.mark.parametrize("damage", ["gone", "changed", "link", "no record", "bad record"])
def test_damage_is_found(job: Job, damage: str) -> None:
    job.pin("one")
    job.batch(0, done=False)
    (snapshot,) = job.layout.lookups.glob("*.parquet")
    if damage == "gone":
        snapshot.unlink()
    elif damage == "changed":
        snapshot.write_bytes(snapshot.read_bytes()[:-1] + b"x")
    elif damage == "link":
        moved = snapshot.rename(job.layout.root / "elsewhere.parquet")
        snapshot.symlink_to(moved)
    elif damage == "no record":
        job.kept.file.unlink()
    else:
        job.kept.file.write_text('{"versions": [{"batch": 0, "after": -1, "tables": {"site": "../../secret"}}]}')
    with pytest.raises(SkybandError) as e:
        job.pin("two")
    assert e.value.code == ("SKY-E518" if damage == "link" else "SKY-E303") and not job.warned[1:]


@pytest.mark.parametrize("planted", [{"host": ["a"]}, {"x": [1], "y": [2], "z": [3]}, {}, None])
def test_a_planted_table_with_the_right_hash_and_other_columns_is_damage(job: Job, planted: dict[str, list[object]] | None) -> None:
    job.pin("north")
    (path,) = job.layout.lookups.glob("*.parquet")
    out = pa.BufferOutputStream()
    if planted is not None:
        pq.write_table(pa.table(planted), out)
    data = out.getvalue().to_pybytes()
    name = hashlib.sha256(data).hexdigest()
    (job.layout.lookups / f"{name}.parquet").write_bytes(data)
    file = job.layout.lookups / "versions.json"
    file.write_text(file.read_text().replace(path.stem, name))
    with pytest.raises(SkybandError, match="does not hold the columns") as e:
        job.kept.tables(job.kept.known()[0])
    assert e.value.code == "SKY-E303"


def test_the_directory_is_no_link(job: Job, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    job.layout.lookups.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(SkybandError) as e:
        job.pin("one")
    assert e.value.code == "SKY-E518" and not list((tmp_path / "elsewhere").iterdir())


def test_a_table_below_the_sink_is_refused(tmp_path: Path) -> None:
    plan = plan_of_text(text(tmp_path).replace("/sites", "/out/best"))
    with pytest.raises(SkybandError) as e:
        check_sink_location(plan, Layout(plan.sink))
    assert e.value.code == "SKY-E205" and "look-up site" in e.value.message
