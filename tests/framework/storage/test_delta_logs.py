"""Delta tables of others whose log names files elsewhere: nothing of them is read, by any command, and the name is in the error."""

from __future__ import annotations

import ast
import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

import skyband
from skyband.framework.base.errors import SkybandError
from skyband.framework.queries.single_rows.cells import read_cells
from skyband.framework.queries.single_rows.model import QueriesFrom
from skyband.framework.sources.delta.format import DeltaFormat
from skyband.framework.storage.delta_logs import DeltaLog, outside, require_inside
from skyband.jobs import cli
from skyband.jobs.spec import load_plan

ROOT = Path(skyband.__file__).parents[1]
SECRET = 4711.25
SPEC = """\
job: small
source:
  format: delta
  path: {directory}/t
  schema: {{id: bigint, ts: timestamp, x: double}}
  id: [id]
  event_time: {{column: ts}}
window: {{count: 50}}
scoring: {{high: {{expression: x, direction: max}}}}
queries: {{top: {{type: topk, scoring: high, k: 3}}}}
sink: {{path: {directory}/out}}
"""


def rows(x: float) -> pa.Table:
    ts = pa.array([datetime(2024, 1, 1, 12, i, tzinfo=UTC) for i in range(20)], pa.timestamp("us", "UTC"))
    return pa.table({"id": pa.array(range(20), pa.int64()), "ts": ts, "x": [x] * 20})


@pytest.fixture
def made(tmp_path: Path) -> Path:
    """A directory with a table ``t`` and another one, ``victim``."""
    write_deltalake(str(tmp_path / "victim"), rows(SECRET))
    write_deltalake(str(tmp_path / "t"), rows(1.5))
    return tmp_path


def alter(directory: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Change the file's action in the log of ``t``."""
    (log,) = (directory / "t" / "_delta_log").glob("*.json")
    actions = [json.loads(line) for line in log.read_text().splitlines()]
    for action in actions:
        if "add" in action:
            change(action["add"])
    log.write_text("\n".join(map(json.dumps, actions)))


def victim(directory: Path) -> Path:
    (found,) = (directory / "victim").glob("*.parquet")
    return found


def vector(kind: str, name: str) -> Callable[[Path], dict[str, Any]]:
    return lambda _: {"deletionVector": {"storageType": kind, "pathOrInlineDv": name, "offset": 1, "sizeInBytes": 10, "cardinality": 1}}


LOGS: dict[str, Callable[[Path], dict[str, Any]]] = {
    "above": lambda d: {"path": f"../victim/{victim(d).name}"},
    "above, encoded": lambda d: {"path": f"%2e%2e/victim/{victim(d).name}"},
    "through itself": lambda d: {"path": f"x/../../victim/{victim(d).name}"},
    "absolute": lambda d: {"path": str(victim(d))},
    "absolute, encoded": lambda d: {"path": quote(str(victim(d)), safe="")},
    "a URL": lambda d: {"path": f"file://{victim(d)}"},
    "a URL without slashes": lambda d: {"path": f"file:{victim(d)}"},
    "a URL of a store": lambda _: {"path": "s3://bucket/victim.parquet"},
    "a deletion vector of a shallow clone": vector("p", "file:///tmp/victim.bin"),
    "a deletion vector above": vector("u", "../../victim/ab^-aqEH.-t@S}K{vb[*k^"),
    "a deletion vector of an unknown kind": vector("z", "../x"),
}


@pytest.mark.parametrize("name", LOGS)
def test_no_command_reads_what_a_log_names_elsewhere(made: Path, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    alter(made, lambda add: add.update(LOGS[name](made)))
    spec = made / "spec.yaml"
    spec.write_text(SPEC.format(directory=made))
    for words in (
        ["preview", str(spec)],
        ["validate", str(spec), "--data"],
        ["init", str(made / "new.yaml"), "--from", str(made / "t")],
        ["run", str(spec)],
    ):
        assert cli.main(words) == 2, words
        out = "".join(capsys.readouterr())
        assert "SKY-E208" in out and "names a file outside of it" in out and "4711" not in out and "SKY-E900" not in out, (words, out)
    with pytest.raises(SkybandError, match="SKY-E208"):
        DeltaFormat().dataset(load_plan(str(spec)).source, [])
    with pytest.raises(SkybandError, match="names a file outside of it"):
        read_cells(QueriesFrom(format="delta", path=str(made / "t")))


def test_a_lookup_is_not_read_either(made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_deltalake(str(made / "source"), rows(1.0))
    alter(made, lambda add: add.update(LOGS["above"](made)))
    text = SPEC.format(directory=made).replace(f"path: {made}/t", f"path: {made}/source")
    lookup = f'lookups:\n  other: {{format: delta, path: {made}/t, schema: {{id: bigint, x: double}}, "on": {{id: id}}, take: {{y: x}}}}\n'
    spec = made / "spec.yaml"
    spec.write_text(text.replace("window:", f"{lookup}window:"))
    assert cli.main(["preview", str(spec)]) == 3
    out = "".join(capsys.readouterr())
    assert "SKY-E321 look-up other: the Delta table" in out and "names a file outside of it" in out and "4711" not in out, out


def test_tables_of_their_own_are_read(made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    spec = made / "spec.yaml"
    spec.write_text(SPEC.format(directory=made))
    table = DeltaTable(str(made / "t"))
    write_deltalake(table, rows(2.5), mode="append")
    table.create_checkpoint()
    write_deltalake(table, rows(3.5), mode="append")
    assert cli.main(["preview", str(spec)]) == 0 and cli.main(["validate", str(spec), "--data"]) == 0
    text = pa.table({"at": pa.array(["12:00:00/../x", "s3://b/c", "%2e%2e"]), "path": ["/etc", "..", "file:x"]})
    write_deltalake(str(made / "odd"), text, partition_by=["at"])
    write_deltalake(str(made / "odder"), text, partition_by=["path"])
    for name in ("odd", "odder"):
        require_inside(made / name)
    capsys.readouterr()


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("00000000000000000001.json", '{"cdc": {"path": "/victim/x", "partitionValues": {}, "size": 1}}'),
        ("00000000000000000001.json", '{"remove": {"path": "../x"}}'),
        ("00000000000000000001.json", '{"ADD": {"PATH": "../x"}}'),
        ("00000000000000000001.json", '{"add": {"path": "../x", "path": "x"}}'),
        ("00000000000000000001.json", '{"add": {"path": "../x"}, "add": {"path": "x"}}'),
        ("00000000000000000001.json", '{"add": ' + "[" * 100_000),
        ("00000000000000000001.json", "[1]"),
        ("00000000000000000000.00000000000000000001.compacted.json", '{"add": {"path": "../x"}}'),
        ("00000000000000000001.checkpoint.80a083e8-7026-4e79-81be-64bd76c43a11.json", '{"sidecar": {"path": "../../x.parquet"}}'),
        ("_last_checkpoint", '{"version": 1, "v2Checkpoint": {"path": "x", "sidecarFiles": [{"path": "file:///x"}]}}'),
        ("00000000000000000001.crc", '{"allFiles": [{"path": "../x"}], "numFiles": 1}'),
        ("_staged_commits/00000000000000000001.x.json", '{"add": {"path": "../x"}}'),
        ("00000000000000000001.checkpoint.parquet", "no Parquet"),
    ],
)
def test_every_file_of_a_log_is_looked_at(made: Path, name: str, content: str) -> None:
    path = made / "t" / "_delta_log" / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(content)
    with pytest.raises(SkybandError, match="SKY-E208"):
        require_inside(made / "t")


@pytest.mark.parametrize("directory", ["", "_sidecars"])
def test_checkpoints_are_looked_at(made: Path, directory: str) -> None:
    at = made / "t" / "_delta_log" / directory
    at.mkdir(exist_ok=True)
    good = [{"add": {"path": "x"}, "metaData": None}, {"add": None, "metaData": {"id": "../x"}}]
    pq.write_table(pa.Table.from_pylist(good), at / "1.checkpoint.parquet")
    require_inside(made / "t")
    bad = [*good, {"add": {"path": "x", "deletionVector": {"storageType": "p", "pathOrInlineDv": "/x"}}, "metaData": None}]
    for actions in ([*good, {"add": {"path": "../x"}}], [{"sidecar": {"path": "../x"}}], [bad[-1]]):
        pq.write_table(pa.Table.from_pylist(actions), at / "1.checkpoint.parquet")
        with pytest.raises(SkybandError, match="SKY-E208"):
            require_inside(made / "t")


def test_commits_that_come_later_are_looked_at(made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = DeltaLog.of(str(made / "t"))
    assert log is not None
    log.require_inside()
    looked: list[str] = []
    check = log._check
    monkeypatch.setattr(log, "_check", lambda path: (looked.append(path.name), check(path)))
    write_deltalake(str(made / "t"), rows(2.0), mode="append")
    log.require_inside()
    assert looked == [f"{1:020}.json"], "what has been looked at is not read again"
    (made / "t" / "_delta_log" / f"{2:020}.json").write_text('{"add": {"path": "../x"}}')
    with pytest.raises(SkybandError, match="SKY-E208"):
        log.require_inside()


def test_names_of_files() -> None:
    inside = [
        "a.parquet",
        "d=1/a.parquet",
        "d=12:00/a",
        "d=12%3A00/a",
        "d=%252Fetc/a",
        "d=%252F..%252Fetc/a",
        "%252e%252e/a",
        "a..b/c",
        "d=a%252Fb/x",
    ]
    assert not [n for n in inside if outside(n)]
    for name in ("", "/", "/a", "\\a", "..", "a/..", "a\\..\\b", "s3:a", "C:\\a", "%2Fa", "a/%2e%2e/b", "x\x00y", "%00"):
        assert outside(name), name


READERS = {
    "storage/delta_logs.py",
    "storage/delta_read.py",
    "tables/writing/published.py",
    "tables/iceberg/export.py",
    "tables/writing/spark_writer.py",
    "tables/writing/driver_writer.py",
}
"""Open tables: one those of others, which it has checked, the rest those of the job's own sink, whose rows only ``delta_read`` reads."""


def test_tables_are_opened_in_one_place() -> None:
    found = set()
    for path in (p for part in ("framework", "jobs") for p in (ROOT / part).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and "DeltaTable" in ast.unparse(node.func).split("."):
                found.add(path.relative_to(ROOT / "framework").as_posix())
    assert found == READERS
