"""Files of a sink with odd content: each is named by an error with a code, or passed over where it is only a hint."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from skyband.framework.base.errors import SkybandError
from skyband.framework.plan.model import Plan
from skyband.framework.sources.files.format import files_to_read
from skyband.framework.sources.files.ledger import Ledger
from skyband.framework.sources.files.log_pruning import pruned
from skyband.framework.sources.logs import last_batch, next_watermark, offset, partitions_of, taken, watermark
from skyband.framework.sources.watermark_caps import WatermarkCaps
from skyband.framework.streaming.job import run_records
from skyband.framework.streaming.job.layout import Layout
from skyband.framework.streaming.job.replay_records import records
from tests.framework.streaming import checkpoints
from tests.framework.streaming.job.test_planted import READING, job, made, shown

__all__ = ["job", "made"]

ODD: dict[str, bytes] = {
    "null": b"null", "list": b"[]", "number": b"1", "text": b'"x"', "empty": b"", "zero bytes": b"\0" * 100, "no UTF-8": b"\xff\xfe",
    "deep": b"[" * 100_000, "deep objects": b'{"a":' * 10_000, "cut": b'{"generation": "g',
    "other keys": b'{"x": 1}', "infinite": b'{"a": 1e999}',
}  # fmt: skip


def put(path: Path, content: bytes | None) -> None:
    """``content`` at ``path``; None: a directory."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if content is None:
        path.unlink(missing_ok=True)
        path.mkdir()
    else:
        path.write_bytes(content)


@pytest.mark.parametrize("odd", [*ODD, "a directory"])
def test_what_a_job_depends_on_is_named(tmp_path: Path, odd: str) -> None:
    layout, content = Layout(str(tmp_path / "out")), ODD.get(odd)
    for name, read in (
        ("files.json", lambda: Ledger.load(layout.home)),
        ("drop.json", lambda: WatermarkCaps.load(layout.home)),
        ("replayed/x.json", lambda: records(layout)),
        ("run.json", lambda: run_records.settle(layout)),
        ("job.json", layout.load),
    ):
        put(layout.home / name, content)
        with pytest.raises(SkybandError) as e:
            read()
        # Of a job file that says no edition nothing is known but that it is no present one.
        assert e.value.code in ("SKY-E303", "SKY-E400") and name in e.value.message and e.value.hint, name
        shutil.rmtree(layout.home)


@pytest.mark.parametrize("odd", [*ODD, "a directory"])
def test_hints_are_passed_over(job: tuple[Path, Layout], tmp_path: Path, capsys: pytest.CaptureFixture[str], odd: str) -> None:
    """Each is passed over by itself: all of one content are there together."""
    spec, layout = job
    for name in ("rest.json", "sent.json", "taken.json", "alerts.json", "logs", "x.json"):
        put(layout.home / name, ODD.get(odd))
    for command in (["status"], ["query", "near"]):
        code, said = shown(command, spec, tmp_path / "r.html", capsys)
        assert code == 0, said


CHANGED: dict[str, Any] = {
    "partitions": ["2", 0, -1, 2.0, None, True, 10**30], "generation": [1, None, "", "../x", "a/b", "x" * 300], "job": [None, "..", []],
    "fingerprint": [None, [], {"queries": []}, {"queries": {"../x": {}}}, {"states": 1}, {"run": []}], "header": ["x", [1], {}],
    "finishes": [[1], [[1]], [[1, 2, 3]], [["a", "b"]], {}, [[1, 10**40]]], "names": ["2", None, 99], "salt": [1, None],
    "new_states": [1, {}, {"batch": "1", "text": "{}"}, *({"batch": 1, "text": t} for t in (2, "[]", '{"x":["a",1]}'))],
    "before": [1, {"state": "elsewhere"}], "version": [0, -1, "2", 1.5, None],
    "columns": [[["a"]], [1], "x"], "stopping": [None, "x", [1]], "from_the_future": [1],
}  # fmt: skip


@pytest.mark.parametrize("key", CHANGED)
def test_a_field_of_the_job_file_that_does_not_fit_is_named(job: tuple[Path, Layout], key: str) -> None:
    _, layout = job
    said = json.loads(layout.file.read_text())
    for value in CHANGED[key]:
        layout.file.write_text(json.dumps({**said, key: value}))
        with pytest.raises(SkybandError) as e:
            layout.load()
        assert e.value.code == "SKY-E303" and str(layout.file) in e.value.message and key in e.value.message, (value, e.value.message)
        assert "skyband rebuild SPEC" in str(e.value.hint)


def test_job_files_of_earlier_versions_are_read(job: tuple[Path, Layout]) -> None:
    _, layout = job
    said = json.loads(layout.file.read_text())
    for gone in ("stopping", "columns", "engine_reads", "new_states", "before", "shards", "version", "rules"):
        said.pop(gone)
        layout.file.write_text(json.dumps(said))
        assert layout.known().generation == "g"
    said.pop("names")
    layout.file.write_text(json.dumps({**said, "a_field_of_then": 1}))
    with pytest.raises(SkybandError, match="SKY-E307"):
        layout.load()


@pytest.mark.parametrize("odd", [*ODD, "a directory", "lines of null", "lines of lists", "other types"])
def test_sparks_own_logs_are_read_with_care(tmp_path: Path, odd: str) -> None:
    home = tmp_path / "out" / "_skyband"
    lines = {"lines of null": b"v1\nnull\nnull\nnull", "lines of lists": b"v1\n[]\n[]\n[]",
             "other types": b'v1\n{"batchWatermarkMs":"x","nextBatchWatermarkMs":[],"conf":1,"path":{},"batchId":null}'
                            b'\n{"logOffset":1e400}\n-'}  # fmt: skip
    content = lines.get(odd, ODD.get(odd))
    readers = {
        "offsets": (lambda c: offset(c, 0), lambda c: partitions_of(c, 0), watermark), "commits": (next_watermark,),
        "sources/0": (lambda c: taken(c / "sources" / "0"),),
    }  # fmt: skip
    for log, read in readers.items():
        for reader in read:
            checkpoints.make(home, batches=1)
            put(home / "checkpoint" / log / "0", content)
            try:
                reader(home / "checkpoint")
            except SkybandError as e:
                assert e.code == "SKY-E303" and f"{log}/0" in e.message and e.hint
            shutil.rmtree(home)
    put(home / "checkpoint" / "sources" / "0" / "9.compact", content or b"{")
    try:
        assert pruned(home / "checkpoint") == 0
    except SkybandError as e:
        assert e.code == "SKY-E303"


def test_numbers_that_int_does_not_take_are_no_batches(tmp_path: Path) -> None:
    for name in ("1²", "2٣", "99999999999999999999999", "3"):
        checkpoints.write(tmp_path / "offsets" / name, "x")
    assert last_batch(tmp_path / "offsets") == 3


@pytest.mark.parametrize("url", ["file:///etc/passwd", "file:///{}/in/../../victim/x.csv", "http://[", "s3://b/x", "file:///{}/in2/x.csv"])
def test_no_file_outside_of_the_source_is_read_because_a_checkpoint_names_it(
    job: tuple[Path, Layout], made: tuple[Path, Plan], url: str
) -> None:
    _, layout = job
    source = made[1].source
    there = str(source.path).removeprefix("/").removesuffix("/in")
    line = json.dumps({"path": url.format(there), "timestamp": 0, "batchId": 0})
    checkpoints.write(layout.checkpoint / "sources" / "0" / "0", f"v1\n{line}")
    for path in (layout.checkpoint / "sources" / "0").iterdir():
        if path.name != "0":
            path.unlink()
    with pytest.raises(SkybandError, match="SKY-E303") as e:
        files_to_read(source, layout.checkpoint)
    assert "not in the source" in e.value.message
    checkpoints.write(
        layout.checkpoint / "sources" / "0" / "0", f"v1\n{json.dumps({'path': f'file://{source.path}/a%20b.csv', 'batchId': 0})}"
    )
    assert len(files_to_read(source, layout.checkpoint)) == 1


TABLES = ("runs", "near", "near_now", "near_changes", "heads", "rejected", "checks", "published", "job_runs")


@pytest.mark.parametrize("every", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.parametrize("table", TABLES)
def test_a_table_of_something_else_is_named(
    job: tuple[Path, Layout], tmp_path: Path, capsys: pytest.CaptureFixture[str], table: str, every: bool
) -> None:
    """By every command that reads; not slow: by a third of them for each table, and by all for two."""
    spec, layout = job
    number = TABLES.index(table)
    reading = READING if every or number < 2 else READING[number % 3 :: 3]
    shutil.rmtree(layout.root / table)
    write_deltalake(str(layout.root / table), pa.table({"batch_id": ["x"], "theirs": [1.5]}))
    codes = set()
    for command in [*reading, ["maintain"], ["run", "--quiet"]]:
        code, said = shown(command, spec, tmp_path / "r.html", capsys)
        assert "SKY-E900" not in said and "Traceback" not in said, (command, said)
        codes.add(code)
        assert code == 0 or table in said or "SKY-E" in said or "WRONG" in said, (command, said)
    assert codes != {0}
