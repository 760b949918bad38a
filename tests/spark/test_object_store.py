"""Source, sink and checkpoint on a server of S3's protocol: killed, paused past its lease and taken over, started twice.

Tables equal those of a job over the same files on this machine, and ``verify`` finds no difference.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from skyband.framework.storage.epochs import LEASE_VARIABLE
from skyband.framework.storage.location import location
from skyband.framework.streaming.rows.outbox import LEAST
from tests.object_store import environment, object_store
from tests.spark import ranked
from tests.spark.cuts import stream, write
from tests.spark.equality import assert_equal_tables
from tests.spark.jobs import COLUMNS, changes, run_apart, table, write_spec
from tests.spark.kinds import KINDS
from tests.spark.standalone import ROOT, Cluster
from tests.spark.standalone import environment as on_cluster

pytestmark = [pytest.mark.spark, pytest.mark.chaos, pytest.mark.slow]

QUERY = "  far5: {type: topk_pairs, scoring: far, k: 5, carry: [x]}\n"
FILES = 4
WAIT = 600


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    with object_store(tmp_path_factory.mktemp("s3") / "server.log") as env, pytest.MonkeyPatch.context() as patch:
        for name, value in env.items():
            patch.setenv(name, value)
        yield env


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The job on this machine, left alone."""
    directory = tmp_path_factory.mktemp("here") / "job"
    directory.mkdir()
    write(directory, stream(11, 160), FILES)
    done = run_apart(write_spec(directory, queries=QUERY, max_files=2), "--finish")
    assert done.returncode == 0, done.stderr
    return directory


@pytest.fixture(scope="module")
def keyed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A job of several keys and buckets on this machine, left alone: small as it is, the driver writes it."""
    directory = tmp_path_factory.mktemp("keyed") / "job"
    spec = KINDS["keyed"].write(directory, max_files=2)
    rows = stream(23, 160)
    for row in rows[::15]:
        row[COLUMNS.index("x")] = 5_000_000  # against the rule of the spec
    write(directory, rows, FILES)
    done = run_apart(spec, "--finish")
    assert done.returncode == 0, done.stderr
    assert all(table(directory, name).num_rows for name in ("rejected", "heads", "far5_changes", "best_changes"))
    return directory


class There:
    """The same job in a directory of the store."""

    def __init__(self, env: dict[str, str], here: Path, directory: Path) -> None:
        self.env = environment(env) | {LEASE_VARIABLE: "4", "SKYBAND_MASTER": "local[2]", "SKYBAND_SHUFFLE_PARTITIONS": "2"}
        self.url = f"s3://bucket/{uuid4().hex}"
        self.spec = directory / "spec.yaml"
        self.spec.write_text((here / "spec.yaml").read_text().replace(str(here), self.url))
        self.log = directory / "said.txt"
        for file in sorted((here / "in").iterdir()):
            (location(self.url) / "in" / file.name).write_bytes(file.read_bytes())
            # The store tells times in seconds.
            time.sleep(1.1)

    def start(self, *words: str, failpoint: str | None = None) -> subprocess.Popen[bytes]:
        env = self.env | ({"SKYBAND_FAILPOINT": failpoint} if failpoint else {})
        with self.log.open("ab") as said:
            command = [sys.executable, "-m", "skyband.jobs.cli", *words]
            return subprocess.Popen(command, stdout=said, stderr=said, env=env, start_new_session=True)

    def run(self, *words: str, failpoint: str | None = None) -> int:
        return self.start(*words, failpoint=failpoint).wait(WAIT)

    def to_the_end(self) -> int:
        return self.run("run", str(self.spec), "--finish")

    def changes(self) -> pa.Table:
        rows = DeltaTable(f"{self.url}/out/far5_changes", storage_options={"allow_http": "true"}).to_pyarrow_table()
        return rows.drop_columns(["batch_id"]).sort_by([("step", "ascending"), ("pos", "ascending")])

    def copied(self, directory: Path) -> Path:
        """The job's tables, in a directory of this machine."""
        directory.mkdir()
        for file in location(self.url).rglob("*"):
            at = directory / file.relative_to(location(self.url))
            at.parent.mkdir(parents=True, exist_ok=True)
            at.write_bytes(file.read_bytes())
        ranked.write_queries(directory)
        (directory / "spec.yaml").write_text(self.spec.read_text().replace(self.url, str(directory)))
        return directory


@pytest.fixture
def there(store: dict[str, str], here: Path, tmp_path: Path) -> There:
    return There(store, here, tmp_path)


def stopped(process: subprocess.Popen[bytes]) -> bool:
    """Whether the process has been stopped; waits for it."""
    until = time.monotonic() + WAIT
    while time.monotonic() < until and process.poll() is None:
        if Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0] == "T":
            return True
        time.sleep(0.1)
    return False


def same(there: There, here: Path) -> None:
    assert there.changes().equals(changes(here, "far5")), there.log.read_text()
    assert there.run("verify", str(there.spec)) == 0, there.log.read_text()


def test_killed_wherever_it_is_it_goes_on(there: There, here: Path) -> None:
    for point in ("run.locked", "state.after", "sink.between", "sink.after:2"):
        assert there.run("run", str(there.spec), failpoint=point) == -signal.SIGKILL, (point, there.log.read_text())
    assert there.to_the_end() == 0, there.log.read_text()
    same(there, here)


@pytest.mark.parametrize("point", ["state.after", "sink.between"])
def test_a_run_that_is_paused_past_its_lease_commits_nothing_when_it_wakes(there: There, here: Path, point: str) -> None:
    first = there.start("run", str(there.spec), "--finish", failpoint=f"{point}@STOP")
    try:
        assert stopped(first), there.log.read_text()
        assert there.to_the_end() == 0, there.log.read_text()
        before = there.changes()
        assert before.equals(changes(here, "far5"))
        os.kill(first.pid, signal.SIGCONT)
        assert first.wait(WAIT) == 3
    finally:
        first.kill()
    said = there.log.read_text()
    assert "SKY-E631" in said and "SKY-E900" not in said, said
    same(there, here)


def test_of_two_runs_at_once_one_is_refused(there: There) -> None:
    first = there.start("run", str(there.spec))
    until = time.monotonic() + WAIT
    while not (location(there.url) / "out" / "_skyband" / "lock").exists() and time.monotonic() < until:
        time.sleep(0.1)
    assert there.run("run", str(there.spec)) == 3
    assert "SKY-E302 another run is writing" in there.log.read_text()
    assert first.wait(WAIT) == 0, there.log.read_text()


def same_by_tasks(there: There, keyed: Path, directory: Path, same_cuts: bool = True) -> None:
    copy = there.copied(directory)
    tables = {f.relative_to(copy / "out").parts[0] for f in copy.rglob("*.parquet") if re.match(r"part-\d{8}-\d+-", f.name)}
    assert tables >= {"rejected", "heads", "far5_changes", "best_changes"} and any(name.endswith("_skyband") for name in tables)
    assert_equal_tables(copy, keyed, same_cuts=same_cuts, same_files=False)


@pytest.mark.parametrize("points", [(), ("state.after", "sink.between", "sink.after:2")])
def test_files_that_tasks_put_there_are_the_rows_of_a_directory(
    store: dict[str, str], keyed: Path, tmp_path: Path, points: tuple[str, ...]
) -> None:
    ranked.write_queries(tmp_path)
    there = There(store, keyed, tmp_path)
    there.env[LEAST] = "0"
    for point in points:
        assert there.run("run", str(there.spec), failpoint=point) == -signal.SIGKILL, (point, there.log.read_text())
    assert there.to_the_end() == 0, there.log.read_text()
    same_by_tasks(there, keyed, tmp_path / "copy", same_cuts=not points)
    assert there.run("verify", str(there.spec)) == 0, there.log.read_text()


def test_executors_of_a_cluster_put_files_with_credentials_of_their_own(store: dict[str, str], keyed: Path, tmp_path: Path) -> None:
    ranked.write_queries(tmp_path)
    there = There(store, keyed, tmp_path)
    with pytest.MonkeyPatch.context() as patch:
        # These the driver tells them.
        for name in ("AWS_ENDPOINT_URL", "AWS_REGION"):
            patch.delenv(name)
        cluster = Cluster(tmp_path / "cluster", workers=1, python_path=str(ROOT))
    try:
        there.env = on_cluster(cluster) | {name: there.env[name] for name in store} | {LEAST: "0", LEASE_VARIABLE: "30"}
        assert there.to_the_end() == 0, there.log.read_text()
    finally:
        cluster.close()
    same_by_tasks(there, keyed, tmp_path / "copy")
