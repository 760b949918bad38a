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
from skyband.framework.tables.read_only import REFUSED
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


def beeline(url: str, *statements: str) -> subprocess.CompletedProcess[str]:
    """Goes on after a statement that fails."""
    home = find_java_home()
    jars = Path(pyspark.__file__).parent / "jars" / "*"
    return subprocess.run(
        [
            f"{home}/bin/java", "-Duser.timezone=UTC", "-cp", str(jars), "org.apache.hive.beeline.BeeLine", "--silent=true", "--force=true",
            "--outputformat=csv2", "-u", url, *(word for s in statements for word in ("-e", s)),
        ],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=400, check=False,
    )  # fmt: skip


def by_jdbc(port: int, statement: str) -> list[dict[str, str]]:
    done = beeline(f"jdbc:hive2://127.0.0.1:{port}/cuts", statement)
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


WRITES = (
    "insert into two_now select * from two_now", "insert overwrite two select * from two", "delete from two",
    "update two_now set `rank` = 1",
    "drop table two_now", "drop view two_summary", "truncate table runs", "create table made (a int) using parquet",
    "create table copied using delta as select * from two", "create temporary view two_now as select 1", "create database another",
    "drop database cuts cascade", "alter table two set tblproperties ('delta.appendOnly' = 'true')", "optimize two", "vacuum two",
    "merge into two using two_now on two.grp = two_now.grp when matched then delete",
    "with x as (select * from two) insert into two select * from x",
    "insert overwrite directory '{folder}/made' using csv select * from two", "set spark.sql.runSQLOnFiles = true",
    "add jar {folder}/made.jar", "create function f as 'java.lang.Math'", "execute immediate 'drop table two'", "begin drop table two; end",
)  # fmt: skip
"""What would change a table, the catalog, a file or the session."""
REACHES = (
    "select * from text.`{folder}/secret`", "select * from delta.`{folder}/out/two`",
    "select reflect('java.lang.System', 'getProperty', 'user.home')",
    "select java_method('java.lang.System', 'exit', 3)", "select try_reflect('java.lang.System', 'getProperty', 'user.home')",
)  # fmt: skip
"""What would read beside the tables, or call anything of the engine's."""
SHOWS = ("show tables", "show databases", "describe extended two", "explain select * from two", "set", "use cuts")


def files_of(folder: Path) -> dict[str, int]:
    return {str(p): p.stat().st_mtime_ns for p in folder.rglob("*") if p.is_file() and "_skyband" not in p.parts}


def test_nothing_is_written_through_the_server(served: tuple[subprocess.Popen[str], int, list[str]], tmp_path: Path) -> None:
    process, port, _ = served
    (tmp_path / "secret").write_text("of somebody\n")
    url, before = f"jdbc:hive2://127.0.0.1:{port}/cuts", files_of(tmp_path)
    done = beeline(url, *(s.format(folder=tmp_path) for s in WRITES))
    said = done.stdout + done.stderr
    # What fails while it is analysed never comes to the rule.
    assert said.count(f"{REFUSED} (") >= len(WRITES) - 3, said
    assert len(re.findall(r"(?m)^(?:Error|.*Error: )", said)) >= len(WRITES), said
    done = beeline(url, *(s.format(folder=tmp_path) for s in REACHES))
    assert "of somebody" not in done.stdout and str(Path.home()) not in done.stdout, done.stdout
    # Nor by what a connection may ask for as it begins.
    done = beeline(f"{url}?spark.sql.runSQLOnFiles=true", REACHES[0].format(folder=tmp_path), "select count(*) as n from two")
    assert "of somebody" not in done.stdout and "stays off here" in done.stdout + done.stderr
    assert files_of(tmp_path) == before and process.poll() is None
    names = {r["tableName"] for r in by_jdbc(port, "show tables")}
    assert {"two", "two_now", "two_summary", "runs"} <= names and not {"made", "copied"} & names
    for statement in SHOWS[:-1]:
        assert by_jdbc(port, statement), statement
    assert "rror" not in beeline(url, SHOWS[-1]).stderr


def test_without_tables_and_for_no_port_it_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "cuts.yaml").write_text(SPEC)
    assert main(["serve", str(tmp_path / "cuts.yaml"), "--port", "0"]) == 2
    assert "SKY-E201 --port 0 is no port" in capsys.readouterr().err
