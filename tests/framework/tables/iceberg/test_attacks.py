"""Exports of a table withstand kills, damaged and forged metadata, and readers that are slower than the job."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from skyband.framework.base.errors import SkybandError
from skyband.framework.console.lines import Lines
from skyband.framework.tables.iceberg import export, exported
from skyband.framework.tables.iceberg.export import TableExport
from skyband.framework.tables.iceberg.exported import Exports, exported_tables, exported_versions, remove_exports
from skyband.framework.tables.iceberg.publishing import export_published
from skyband.framework.tables.schemas import TableSpec, batch_tables
from skyband.framework.tables.writing.driver_writer import DriverWriter
from tests.framework.tables.iceberg.readers import delta_rows, files, opened, rows
from tests.framework.tables.plans import make_plan
from tests.framework.tables.writing import test_published

at_once = test_published.at_once
SCHEMA = pa.schema([("n", pa.int64()), ("grp", pa.string())])
SPEC = TableSpec("t", SCHEMA, "")


class Table:
    """A table that every step replaces, so that upkeep removes the files of earlier versions."""

    def __init__(self, root: Path) -> None:
        self.root, self.writer, self.steps = root, DriverWriter(root), 0
        self.writer.ensure(SPEC)
        self.owner = self.writer.owner.made_id()

    @property
    def metadata(self) -> Path:
        return self.root / "_iceberg" / "t" / "metadata"

    @property
    def exports(self) -> Exports:
        return Exports(self.root, "t", self.owner)

    def step(self) -> None:
        self.steps += 1
        self.writer.overwrite("t", pa.Table.from_pylist([{"n": self.steps, "grp": "a"}], SCHEMA), "a", self.steps)

    def export(self) -> None:
        TableExport(self.root, "t", None, "job", self.owner).run()


@pytest.fixture
def table(tmp_path: Path) -> Table:
    made = Table(tmp_path)
    made.step()
    made.export()
    return made


class Killed(BaseException):
    """The process ends here."""


def killing(monkeypatch: pytest.MonkeyPatch, at: str) -> None:
    def die(name: str) -> None:
        if name == at:
            raise Killed

    for module in (export, exported):
        monkeypatch.setattr(module, "failpoint", die)


@pytest.mark.usefixtures("at_once")
def test_what_readers_see_stays_although_every_later_run_is_killed(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exported, "GRACE", -60.0)
    before = rows(table.root, "t")
    with monkeypatch.context() as patch:
        killing(patch, "iceberg.metadata")
        for _ in range(4):
            table.step()
            with pytest.raises(Killed):
                table.export()
            table.writer.tidy(SPEC)
            assert rows(table.root, "t") == before
    reader = opened(table.root, "t")
    table.step()
    table.export()
    # A reader that has begun finishes, and a new one sees the newest version.
    assert sorted(map(repr, reader.scan().to_arrow().to_pylist())) == before
    assert rows(table.root, "t") == delta_rows(table.root, "t") != before
    for _ in range(2):
        table.step()
        table.export()
    assert len(list(table.metadata.glob("v*.metadata.json"))) == 2


@pytest.mark.usefixtures("at_once")
def test_a_reader_may_begin_before_a_publish_and_end_after_it_at_any_time(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exported, "GRACE", -60.0)
    monkeypatch.setattr(export, "MOST_MANIFESTS", 3)
    for _ in range(15):
        reader, expected = opened(table.root, "t"), table.steps
        table.step()
        table.export()
        table.writer.tidy(SPEC)
        assert reader.scan().to_arrow()["n"].to_pylist() == [expected]
    assert len(files(table.root, "t")) < 10


def test_names_of_files_that_only_look_like_the_jobs_stay(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exported, "GRACE", -60.0)
    mark = table.owner[:16]
    foreign = {"v01.metadata.json", "v\u0661.metadata.json", "v1.metadata.json.bak", f"skyband-{mark}-\u0661-list.avro", "V1.metadata.json"}
    for name in foreign:
        (table.metadata / name).write_text("theirs")
    for _ in range(3):
        table.step()
        table.export()
    remove_exports(table.root)
    assert set(files(table.root, "t")) == foreign


def test_a_foreign_file_with_the_last_number_does_not_stop_exports(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exported, "GRACE", -60.0)
    for name in ("v999999999.metadata.json", "v3.metadata.json"):
        (table.metadata / name).write_text("{}")
    for number in (2, 4, 5):
        table.step()
        reader = opened(table.root, "t")
        table.export()
        assert (table.metadata / "version-hint.text").read_text() == str(number)
        assert rows(table.root, "t") == delta_rows(table.root, "t") and reader.scan().to_arrow().num_rows == 1


def changed(**properties: Any) -> Callable[[str], str]:
    return lambda text: json.dumps(json.loads(text) | properties)


@pytest.mark.parametrize(
    "damage",
    [
        changed(snapshots=[]), changed(snapshots=None), changed(snapshots=[{}]), changed(schemas=[]), changed(schemas="x"),
        changed(**{"current-schema-id": 7}), changed(**{"last-column-id": "x"}), changed(**{"format-version": 9}),
        changed(padding=" " * (17 << 20)), lambda _: "[" * 100_000, lambda text: text[:100], lambda _: "",
    ],
)  # fmt: skip
def test_damaged_metadata_is_replaced(table: Table, damage: Callable[[str], str]) -> None:
    path = table.metadata / "v1.metadata.json"
    path.write_text(damage(path.read_text()))
    table.step()
    table.export()
    assert rows(table.root, "t") == delta_rows(table.root, "t")


def test_damaged_manifests_are_replaced(table: Table) -> None:
    for _ in range(2):
        table.writer.append("t", pa.Table.from_pylist([{"n": 7, "grp": None}], SCHEMA), "b", table.steps)
        for path in table.metadata.glob("*.avro"):
            path.write_bytes(path.read_bytes()[:40])
        table.steps += 1
        table.export()
        assert rows(table.root, "t") == delta_rows(table.root, "t")


def test_no_name_of_a_manifest_comes_again(table: Table) -> None:
    before = {n for n in files(table.root, "t") if n.endswith(".avro")}
    remove_exports(table.root)
    table.export()
    after = {n for n in files(table.root, "t") if n.endswith(".avro")}
    assert len(before) == len(after) == 2 and not before & after


def test_a_hint_that_leads_elsewhere_is_replaced(table: Table) -> None:
    for text in ("../../../else", "-1", "1\u0000", "9" * 5000, ""):
        (table.metadata / "version-hint.text").write_text(text)
        assert exported_versions(table.root, "t", str(table.writer.opened("t").metadata().id), table.owner) == [1]
        table.export()
        assert (table.metadata / "version-hint.text").read_text() == "1"


@pytest.mark.usefixtures("at_once")
def test_a_link_stops_neither_upkeep_nor_the_other_tables(tmp_path: Path) -> None:
    plan = replace(make_plan(str(tmp_path), ("grp",)), iceberg=True)
    writer = DriverWriter(tmp_path)
    for spec in batch_tables(plan):
        writer.ensure(spec)
    elsewhere = tmp_path.parent / "elsewhere"
    elsewhere.mkdir(exist_ok=True)
    for linked in ("theirs", "runs"):
        (tmp_path / "_iceberg" / linked).mkdir(parents=True)
        (tmp_path / "_iceberg" / linked / "metadata").symlink_to(elsewhere)

    def said(**more: Any) -> str:
        err = io.StringIO()
        export_published(replace(plan, **more), Lines(err, err))
        return err.getvalue()

    assert "table 'runs', and 1 more table could not be exported" in said()
    assert {"heads", "rejected", "checks"} <= set(exported_tables(tmp_path))
    runs = next(s for s in batch_tables(plan) if s.name == "runs")
    for _ in range(3):
        writer.maintain(runs)
        writer.tidy(runs)
    assert "table 'runs', and 1 more table could not be withdrawn from Iceberg readers" in said(iceberg=False)
    assert set(exported_tables(tmp_path)) == {"runs", "theirs"} and list(elsewhere.iterdir()) == []
    with pytest.raises(SkybandError):
        Exports(tmp_path, "runs", "0" * 32)


@pytest.mark.slow
def test_a_process_that_is_killed_leaves_a_complete_export(table: Table) -> None:
    code = f"""
import sys
from pathlib import Path
from tests.framework.tables.iceberg.test_attacks import Table
table = Table(Path({str(table.root)!r}))
table.steps = int(sys.argv[1])
table.step()
table.export()
"""
    for n, point in enumerate(("iceberg.manifests", "iceberg.listed", "iceberg.metadata", "iceberg.pointed", "")):
        before = rows(table.root, "t")
        done = subprocess.run(
            [sys.executable, "-c", code, str(10 + n)], env=os.environ | {"SKYBAND_FAILPOINT": point}, check=False, capture_output=True,
            cwd=Path(__file__).parents[4],
        )  # fmt: skip
        assert done.returncode == (-signal.SIGKILL if point else 0), done.stderr
        assert rows(table.root, "t") == (before if n < 3 else delta_rows(table.root, "t"))
    assert rows(table.root, "t") != before
