"""Jobs written by a former version go on: their states and tables are read, and end as those of a job that has known no other version.

``sinks_of_2026_11.tar.xz`` holds three jobs of ``tests.spark.kinds`` as commit 1b8e382 left them after two batches: spec, source files
(``in``), sink (``out``) and the files that arrive next (``later``). Paths in it begin with ``/tmp/fx``, where they were made.
"""

from __future__ import annotations

import json
import shutil
import tarfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from skyband.framework.plan.fingerprint import concealed, fingerprint
from skyband.framework.streaming.rows.tokens import key_of
from skyband.jobs.spec import load_plan
from tests.spark.cuts import verified
from tests.spark.equality import assert_equal_tables
from tests.spark.jobs import run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ARCHIVE = Path(__file__).with_name("sinks_of_2026_11.tar.xz")
MADE_IN = b"/tmp/fx"


def unpacked(directory: Path) -> Path:
    """Unpack the jobs below ``directory`` as if they had been written there."""
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(directory, filter="data")
    for path in directory.rglob("*"):
        if path.is_file() and MADE_IN in (content := path.read_bytes()):
            path.write_bytes(content.replace(MADE_IN, str(directory).encode()))
            path.with_name(f".{path.name}.crc").unlink(missing_ok=True)  # Hadoop's sum over the former bytes
    for job in directory.iterdir():
        move(job)
    return directory


def move(job: Path) -> None:
    """Adapt the hashes of paths in the job file, which keeps no path in the clear: of the source, and of the key of token codes.

    A job file of that version has no ``token_key``: the key was made of the checkpoint's path. All else stays as it was written.
    """
    file = job / "out" / "_skyband" / "job.json"
    content, plan = json.loads(file.read_text()), load_plan(str(job / "spec.yaml"))
    assert "token_key" not in content
    content["fingerprint"]["source"]["path"] = concealed(fingerprint(plan), plan, content["salt"])["source"]["path"]
    content["token_key"] = key_of(f"{MADE_IN.decode()}/{job.name}/out/_skyband/checkpoint/{content['generation']}")
    file.write_text(json.dumps(content))


@pytest.mark.spark
@pytest.mark.parametrize("kind", ["keyed", *(pytest.param(kind, marks=pytest.mark.slow) for kind in ("loyalty", "sets"))])
def test_a_job_of_a_former_version_goes_on(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    former = unpacked(tmp_path / "former") / kind
    alone = unpacked(tmp_path / "alone") / kind
    shutil.rmtree(alone / "out")
    for job in (former, alone):
        for file in sorted((job / "later").iterdir()):
            file.rename(job / "in" / file.name)
    # The first two batches are committed: only the files that came later are read.
    assert sum(batch.get("rows_in") for batch in run(spark, former / "spec.yaml")) == 120
    assert sum(batch.get("rows_in") for batch in run(spark, alone / "spec.yaml")) == 240
    assert_equal_tables(former, alone)
    assert verified(former / "spec.yaml")
