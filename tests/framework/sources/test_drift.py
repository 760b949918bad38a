"""Columns that are new, missing, moved or of another type: what is seen in files, what stops a run, what is warned of and kept."""

from __future__ import annotations

from pathlib import Path
from string import Template
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.orc
import pyarrow.parquet
import pytest
from deltalake import write_deltalake

from skyband.framework.base.errors import SkybandError
from skyband.framework.plan.model import Field, SourceNode
from skyband.framework.sources.columnar.file_columns import delta_columns
from skyband.framework.sources.drift import compare, updated
from skyband.framework.sources.registry import source_format
from skyband.framework.spec.models.source import kind_of
from skyband.framework.streaming.job.layout import Layout
from skyband.framework.streaming.run.drift_check import DriftCheck
from skyband.jobs.spec import load_plan
from tests.framework.streaming import checkpoints
from tests.specs import spec_text

SPEC = Template(
    spec_text(
        "drifting",
        "{id: bigint, ts: timestamp, x: {type: double, from: X}}",
        format="$format",
        more="on_drift: $on_drift",
        window="{count: 50}",
        scoring="{high: {expression: x, direction: max}}",
        queries="{top: {type: topk, scoring: high, k: 2}}",
    )
)
FIRST = {"id": "whole numbers", "ts": "instants", "X": "fractions", "note": "text"}


def source(kind: str = "parquet", **columns: str) -> SourceNode:
    fields = columns or {"id": "bigint", "ts": "timestamp", "X": "double"}
    return SourceNode(kind, "in", (("header", "true"),), tuple(Field(n, t, kind_of(t), n) for n, t in fields.items()))


def rows(**columns: Any) -> pa.Table:
    first = {"id": pa.array([1, 2]), "ts": pa.array([0, 1], pa.timestamp("us", "UTC")), "X": [0.5, 1.5], "note": ["a", "b"]}
    return pa.table({n: c for n, c in {**first, **columns}.items() if c is not None})


@pytest.mark.parametrize(
    ("now", "kinds", "harmless"),
    [
        (FIRST, [], True),
        ({"ID": "whole numbers", "ts": "instants", "x": "fractions", "NOTE": "text"}, [], True),
        ({**FIRST, "more": "text"}, ["new more"], True),
        ({n: FIRST[n] for n in ("ts", "id", "X", "note")}, ["moved ts"], True),
        ({n: FIRST[n] for n in ("id", "ts", "X")}, ["missing note"], True),
        ({**FIRST, "note": "bool"}, ["retyped note"], True),
        ({n: FIRST[n] for n in ("id", "ts", "note")}, ["missing X"], False),
        ({**FIRST, "id": "instants"}, ["retyped id"], False),
        ({**FIRST, "X": "null"}, [], True),
        ({"id": "text", "Y": "fractions", "ts": "instants", "note": "text"}, ["retyped id", "missing X", "new Y"], False),
    ],
)
def test_what_has_changed(now: dict[str, str], kinds: list[str], harmless: bool) -> None:
    found = compare(source(), FIRST, now)
    assert [f"{d.kind} {d.column}" for d in found] == kinds
    assert all(d.harmless for d in found) == harmless


def test_columns_of_csv_have_a_place() -> None:
    for now in (("id", "X", "ts"), ("id", "ts"), ("id", "ts", "X", "more"), ("more", "id", "ts", "X")):
        assert all(not d.harmless for d in compare(source("csv"), dict.fromkeys(("id", "ts", "X"), ""), dict.fromkeys(now, ""))), now


def test_what_is_accepted_is_what_is_compared_with() -> None:
    now = {"ID": "text", "more": "text", "ts": "null"}
    after = updated(FIRST, now)
    assert after == {**FIRST, "id": "text", "more": "text"}
    assert [d.kind for d in compare(source(), after, {**after, "note": "null"})] == []


def test_files_and_tables_say_their_columns(tmp_path: Path) -> None:
    made = rows(note=pa.array(["a", "b"]).dictionary_encode(), n=pa.array([1, 2], pa.uint8()), l=[[1], []], d=pa.array([1, 2], pa.date32()))
    pyarrow.parquet.write_table(made, tmp_path / "a.parquet")
    said = {**FIRST, "n": "whole numbers", "l": "lists of whole numbers", "d": "date32[day]"}
    assert source_format("parquet").file_columns(source(), str(tmp_path / "a.parquet")) == said
    pyarrow.orc.write_table(rows(), str(tmp_path / "a.orc"))
    assert source_format("orc").file_columns(source("orc"), str(tmp_path / "a.orc")) == FIRST
    write_deltalake(str(tmp_path / "delta"), rows())
    assert delta_columns(str(tmp_path / "delta")) == FIRST
    (tmp_path / "a.csv").write_text("id,ts,X\n1,2,3\n")
    assert source_format("csv").file_columns(source("csv"), str(tmp_path / "a.csv")) == {"id": "", "ts": "", "X": ""}
    for kind in ("parquet", "orc", "json"):
        assert source_format(kind).file_columns(source(kind), str(tmp_path / "a.csv")) is None
    assert delta_columns(str(tmp_path)) is None and source_format("parquet").file_columns(source(), str(tmp_path / "gone")) is None


def test_orc_files_without_names_are_known() -> None:
    assert source_format("orc").columns_unnamed({"_col0": "text", "_col1": "text"})
    assert not source_format("orc").columns_unnamed({"_col0": "text", "id": "text"})
    assert not source_format("parquet").columns_unnamed({"_col0": "text"})


class Job:
    """A job over a directory of files, without its engine; batch n reads file n."""

    def __init__(self, directory: Path, kind: str = "parquet", on_drift: str = "stop") -> None:
        (directory / "in").mkdir(exist_ok=True)
        self.directory, self.warned = directory, list[str]()
        self.respell(kind, on_drift)
        self.layout = Layout(self.plan.sink)
        self.job = self.layout.create(self.plan, 2, ["id", "ts", "X"] if kind == "csv" else None)
        checkpoints.make(self.layout.home, batches=0)

    def respell(self, kind: str = "parquet", on_drift: str = "stop") -> None:
        (self.directory / "spec.yaml").write_text(SPEC.substitute(format=kind, on_drift=on_drift))
        self.plan = load_plan(str(self.directory / "spec.yaml"))

    def put(self, number: int, table: pa.Table, kind: str = "parquet") -> None:
        write = pyarrow.parquet.write_table if kind == "parquet" else pyarrow.orc.write_table
        write(table, str(self.directory / "in" / f"{number}.{kind}"))

    def run(self, *batches: int, kind: str = "parquet") -> list[list[str]]:
        """The drifts of each batch of a run that goes on from what is on the disk."""
        pieces: Any = SimpleNamespace(files=lambda batch: [(self.directory / "in" / f"{batch}.{kind}").as_uri()])
        job = self.layout.load()
        assert job is not None
        drifts, found = DriftCheck(self.plan, self.layout, job, pieces, self.warned.append), []
        for batch in batches:
            found.append(drifts.before_commit(batch))
            drifts.committed()
            checkpoints.write(
                self.layout.checkpoint / "sources" / "0" / str(batch),
                f'v1\n{{"path":"{(self.directory / "in" / f"{batch}.{kind}").as_uri()}","timestamp":1,"batchId":{batch}}}',
            )
        return found


def test_what_is_harmless_is_told_once_and_kept_with_its_batch(tmp_path: Path) -> None:
    job = Job(tmp_path)
    job.put(0, rows())
    assert job.run(0) == [[]] and job.warned == []
    job.put(1, rows(more=[1, 2]))
    job.put(2, rows(more=[1, 2]).select(["more", "X", "id", "ts"]))
    assert job.run(1, 2) == [
        ["1.parquet: column 'more' is new"],
        ["2.parquet: column 'note' is missing", "2.parquet: the columns have another order, from 'more' on"],
    ]
    assert len(job.warned) == 3 and job.warned[0] == "1.parquet: column 'more' is new"
    job.put(3, rows(more=[1, 2]))
    assert job.run(3) == [[]]
    kept = job.layout.load()
    assert kept is not None and kept.columns == [[n, t] for n, t in {**FIRST, "more": "whole numbers"}.items()]


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"X": None}, "column 'X' is missing"),
        ({"id": pa.array([0, 1], pa.timestamp("us"))}, "column 'id' is times without a zone, was"),
    ],
)
def test_what_is_grave_stops_the_run_unless_it_is_accepted(tmp_path: Path, changed: dict[str, Any], said: str) -> None:
    job = Job(tmp_path)
    job.put(0, rows())
    job.run(0)
    job.put(1, rows(**changed))
    for batches in ((), (1,)):
        with pytest.raises(SkybandError) as e:
            job.run(*batches)
        assert (
            e.value.code == "SKY-E308" and f"{tmp_path}/in/1.parquet: {said}" in e.value.message and "on_drift: warn" in str(e.value.hint)
        )
    job.respell(on_drift="warn")
    ((text,),) = job.run(1)
    assert text.startswith(f"1.parquet: {said}") and job.warned[0].endswith("which the spec accepts (source.on_drift)")


def test_a_file_of_the_same_batch_is_held_against_the_first_one(tmp_path: Path) -> None:
    job = Job(tmp_path)
    job.put(0, rows())
    job.put(1, rows(X=["text", "too"]))
    with pytest.raises(SkybandError, match=r"1\.parquet: column 'X' is text, was fractions"):
        job.run(0, 1)


def test_columns_without_names_are_never_read(tmp_path: Path) -> None:
    job = Job(tmp_path, "orc", "warn")
    job.put(0, pa.table({"_col0": [1], "_col1": ["a"]}), "orc")
    with pytest.raises(SkybandError, match="so they cannot be matched"):
        job.run(0, kind="orc")


def test_another_header_is_seen_before_the_first_batch(tmp_path: Path) -> None:
    job = Job(tmp_path, "csv", "warn")
    (tmp_path / "in" / "0.csv").write_text("id,ts,X\n")
    assert job.run(kind="csv") == []
    (tmp_path / "in" / "1.csv").write_text("id,X,ts,more\n")
    with pytest.raises(SkybandError) as e:
        job.run(kind="csv")
    assert "1.csv: column 'more' is new; the columns have another order, from 'X' on" in e.value.message
    assert "by the position of columns" in str(e.value.hint)


def test_a_delta_table_is_looked_at_when_a_run_starts(tmp_path: Path) -> None:
    job = Job(tmp_path, "delta")
    (tmp_path / "in").rmdir()
    write_deltalake(str(tmp_path / "in"), rows())
    assert job.run(0, kind="delta") == [[]]
    write_deltalake(str(tmp_path / "in"), rows(more=["a", "b"]), mode="append", schema_mode="merge")
    assert job.run(1, kind="delta") == [["in: column 'more' is new"]]
    write_deltalake(str(tmp_path / "in"), rows(X=["a", "b"]), mode="overwrite", schema_mode="overwrite")
    with pytest.raises(SkybandError, match="column 'X' is text, was fractions"):
        job.run(kind="delta")
