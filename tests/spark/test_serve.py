"""``skyband serve``: a JDBC client (Hive's own, which Spark ships) sees the tables and views, and the server ends when it is told to."""

from __future__ import annotations

import csv
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyspark
import pytest
from deltalake import DeltaTable, write_deltalake

from skyband.framework.java import find_java_home
from skyband.framework.tables.duck import Statements
from skyband.framework.tables.schemas import tables
from skyband.framework.tables.views import views
from skyband.jobs.cli import main
from tests.framework.streaming.test_bucket_loyalty import SPEC
from tests.framework.tables.test_motion import plan_at, rows_of, write

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])


@pytest.fixture
def served(tmp_path: Path) -> Iterator[tuple[subprocess.Popen[str], int, list[str]]]:
    """A server of a job with tables, its port, and what it said before it was ready."""
    write(plan_at(tmp_path / "out"), rows_of(1, 90), [10, 40], {0, 1})
    (tmp_path / "cuts.yaml").write_text(SPEC.replace("{path: out}", f"{{path: {tmp_path / 'out'}}}"))
    port = free_port()
    command = [Path(sys.executable).parent / "python", "-m", "skyband.jobs.cli", "serve", tmp_path / "cuts.yaml", "--port", str(port)]
    env = {**os.environ, "SKYBAND_MASTER": "local[2]"}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=env)
    said: list[str] = []
    try:
        assert process.stdout is not None
        for line in process.stdout:
            said.append(line.strip())
            if line.startswith("jdbc:"):
                break
        yield process, port, said
    finally:
        process.kill()
        process.wait()


def by_jdbc(port: int, statement: str) -> list[dict[str, str]]:
    home = find_java_home()
    jars = Path(pyspark.__file__).parent / "jars" / "*"
    done = subprocess.run(
        [
            f"{home}/bin/java", "-Duser.timezone=UTC", "-cp", str(jars), "org.apache.hive.beeline.BeeLine", "--silent=true",
            "--outputformat=csv2", "-u", f"jdbc:hive2://127.0.0.1:{port}/cuts", "-e", statement,
        ],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    # It draws its prompt before an answer.
    lines = [line for line in re.sub(r"(?m)^\d+: jdbc:\S*> ?", "", done.stdout).splitlines() if line.strip()]
    rows = list(csv.DictReader(lines))
    assert rows, done.stdout + done.stderr
    return rows


def test_a_jdbc_client_reads_tables_and_views(
    served: tuple[subprocess.Popen[str], int, list[str]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    process, port, said = served
    plan = plan_at(tmp_path / "out")
    assert said == [
        f"database cuts: {len(tables(plan))} tables, {len(views(plan))} views",
        f"jdbc:hive2://127.0.0.1:{port}/ (no password; Ctrl-C ends it)",
    ]  # fmt: skip
    asked = Statements(plan).ask('select grp, side, "rank" from two_now order by all').to_pylist()
    found = by_jdbc(port, "select grp, side, `rank` from two_now order by grp, side, `rank`")
    assert [(r["grp"], r["side"], int(r["rank"])) for r in found] == [tuple(r.values()) for r in asked] and asked
    summary = Statements(plan).ask("select grp, entries, longest_seconds from two_summary order by grp").to_pylist()
    found = by_jdbc(port, "select grp, entries, longest_seconds from two_summary order by grp")
    assert [(r["grp"], int(r["entries"]), float(r["longest_seconds"])) for r in found] == [tuple(r.values()) for r in summary]
    comments = {r["col_name"]: r["comment"] for r in by_jdbc(port, "describe two") if r["comment"]}
    assert comments["valid_from"] == "event time from which the item was in the result"
    # What is committed later is seen by the next question.
    (before,) = by_jdbc(port, "select count(*) as n from two_changes")
    folder = str(tmp_path / "out" / "two_changes")
    write_deltalake(folder, DeltaTable(folder).to_pyarrow_table().slice(0, 3), mode="append")
    (after,) = by_jdbc(port, "select count(*) as n from two_changes")
    assert int(after["n"]) == int(before["n"]) + 3
    # Only this machine is listened to, and no second server takes the port.
    with socket.socket() as s, pytest.raises(OSError):
        s.connect(("127.0.0.2", port))
    assert main(["serve", str(tmp_path / "cuts.yaml"), "--port", str(port)]) == 2
    assert "SKY-E201 port" in capsys.readouterr().err
    process.send_signal(signal.SIGTERM)
    assert process.wait(30) == 0


def test_without_tables_and_for_no_port_it_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "cuts.yaml").write_text(SPEC)
    assert main(["serve", str(tmp_path / "cuts.yaml"), "--port", "0"]) == 2
    assert "SKY-E201 --port 0 is no port" in capsys.readouterr().err
