"""The logs of a checkpoint that this process writes: what reads Spark's logs reads them, and they are merged where Spark merges its own."""

from __future__ import annotations

import json
import os
import time
import uuid
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skyband.framework.sources.files.log_pruning import pruned
from skyband.framework.sources.logs import (
    FORGOTTEN,
    Taken,
    files_log_damage,
    last_batch,
    next_watermark,
    offset,
    partitions_of,
    planned_at,
    source_numbers,
    taken,
    watermark,
)
from skyband.framework.streaming.job import checkpoint as checkpoints
from skyband.framework.streaming.local.logs import Logs


def file(n: int, name: str = "{n} é %.csv") -> Taken:
    return Taken(Path(f"/data/{name.replace('{n}', str(n))}").as_uri(), 1_600_000_000_000 + n, -1)


def numbered(files: list[Taken], number: int) -> list[Taken]:
    return [Taken(f.url, f.modified_ms, number) for f in files]


def entries(directory: Path) -> set[str]:
    return {p.name for p in directory.iterdir()}


def test_a_new_checkpoint_is_as_sparks_before_the_first_batch(tmp_path: Path) -> None:
    checkpoint = tmp_path / "checkpoint"
    logs = Logs(checkpoint)
    assert entries(checkpoint) == {"metadata", "offsets", "commits", "sources"} and source_numbers(checkpoint) == [0, 1]
    said = json.loads((checkpoint / "metadata").read_text())
    assert list(said) == ["id"] and str(uuid.UUID(said["id"])) == said["id"]
    assert [logs.last(log) for log in ("offsets", "commits")] == [-1, -1]
    assert (watermark(checkpoint), next_watermark(checkpoint)) == (0, 0)
    assert [taken(checkpoint / "sources" / str(n)) for n in (0, 1)] == [[], []]
    # Another run of the job: it is the same checkpoint.
    Logs(checkpoint)
    assert json.loads((checkpoint / "metadata").read_text()) == said


def test_a_batch_is_read_as_it_was_planned(tmp_path: Path) -> None:
    logs = Logs(tmp_path)
    first = [file(3), file(1), file(2)]
    assert logs.take(0, first, -1) == 0
    assert taken(tmp_path / "sources" / "0") == numbered(first, 0)
    before = time.time_ns() // 1_000_000
    logs.plan(0, 1_234, 0, -1)
    after = time.time_ns() // 1_000_000
    assert (offset(tmp_path, 0), offset(tmp_path, 0, 1), offset(tmp_path, -1), offset(tmp_path, 1)) == (0, -1, -1, -1)
    assert watermark(tmp_path) == 1_234 and before <= planned_at(tmp_path, 0) <= after and partitions_of(tmp_path, 0) == 2
    assert (logs.last("offsets"), logs.last("commits")) == (0, -1)
    logs.done(0, 5_678)
    assert (logs.last("commits"), watermark(tmp_path), next_watermark(tmp_path)) == (0, 1_234, 5_678)
    # A batch without files, as of an earlier version, and one of a control row.
    logs.plan(1, 5_678, 0, -1)
    assert (offset(tmp_path, 1), offset(tmp_path, 1, 1), watermark(tmp_path)) == (0, -1, 5_678)
    logs.done(1, 5_678)
    assert logs.take(1, [file(9)], -1) == 0 and logs.take(0, [file(4)], 0) == 1
    logs.plan(2, 5_678, 1, 0)
    assert (offset(tmp_path, 2), offset(tmp_path, 2, 1)) == (1, 0)
    assert taken(tmp_path / "sources" / "0", 0) == numbered([file(4)], 1)
    assert taken(tmp_path / "sources" / "1") == numbered([file(9)], 0)


def test_the_texts_are_those_of_spark(tmp_path: Path) -> None:
    logs = Logs(tmp_path)
    logs.take(0, [Taken("file:///data/a%20b.csv", 1_600_000_000_123, -1)], -1)
    logs.plan(0, 7, 0, -1)
    logs.done(0, 8)
    line = '{"path":"file:///data/a%20b.csv","timestamp":1600000000123,"batchId":0}'
    assert (tmp_path / "sources" / "0" / "0").read_text() == f"v1\n{line}"
    version, said, files, control = (tmp_path / "offsets" / "0").read_text().split("\n")
    assert (version, json.loads(files), control) == ("v1", {"logOffset": 0}, "-")
    at = json.loads(said)
    assert set(at) == {"batchWatermarkMs", "batchTimestampMs", "conf"} and at["batchWatermarkMs"] == 7
    assert at["conf"] == {"spark.sql.shuffle.partitions": "2"}
    assert (tmp_path / "commits" / "0").read_text() == 'v1\n{"nextBatchWatermarkMs": 8}'


def test_settings_that_spark_has_planned_with_stay(tmp_path: Path) -> None:
    """Spark reads its batches' settings back: another number of tasks, or none, would change a query that it goes on with."""
    logs = Logs(tmp_path)
    conf = {"spark.sql.shuffle.partitions": "7", "spark.sql.streaming.stateStore.providerClass": "some.Provider"}
    said = {"batchWatermarkMs": 5, "batchTimestampMs": 6, "conf": conf}
    (tmp_path / "offsets" / "3").write_text("\n".join(["v1", json.dumps(said), '{"logOffset":0}', "-"]))
    for batch in (4, 5):
        logs.plan(batch, 7, 0, -1)
        assert json.loads((tmp_path / "offsets" / str(batch)).read_text().splitlines()[1])["conf"] == conf
        assert partitions_of(tmp_path, batch) == 7
    # Without a batch before it, or with one that says nothing, as of an earlier version of this engine.
    for before in (None, "v1", 'v1\n{"batchWatermarkMs":5,"conf":{}}', 'v1\n{"conf":[]}', "v1\n{"):
        if before is not None:
            (tmp_path / "offsets" / "8").write_text(before)
        logs.plan(9, 7, 0, -1)
        assert partitions_of(tmp_path, 9) == 2


def test_the_log_of_files_is_merged_at_every_tenth_entry(tmp_path: Path) -> None:
    """At 9, 19, ...: Spark looks for them there."""
    logs, log = Logs(tmp_path), tmp_path / "sources" / "0"
    expected: list[Taken] = []
    for n in range(31):
        files = [file(10 * n + i) for i in range(n % 3 + 1)]
        assert logs.take(0, files, n - 1) == n
        expected += numbered(files, n)
        merged = n % 10 == 9
        path = log / (f"{n}.compact" if merged else str(n))
        assert path.exists() and not (log / (str(n) if merged else f"{n}.compact")).exists()
        lines = path.read_text().split("\n")
        mine = [t for t in expected if merged or t.number == n]
        assert lines[0] == "v1" and [json.loads(line) for line in lines[1:]] == [
            {"path": t.url, "timestamp": t.modified_ms, "batchId": t.number} for t in mine
        ]
        assert sorted(taken(log), key=lambda t: (t.number, t.modified_ms)) == expected
        assert [t for t in taken(log, n - 1)] == numbered(files, n)
        assert files_log_damage(log, n) is None and files_log_damage(log, n + 1) == f"sources/0/{n + 1} is gone"
    assert {name for name in entries(log) if name.endswith(".compact")} >= {"29.compact"}


def test_a_merged_entry_alone_has_all_before_it(tmp_path: Path) -> None:
    """Spark removes what it has merged, as does pruning."""
    logs, log = Logs(tmp_path), tmp_path / "sources" / "0"
    for n in range(20):
        logs.take(0, [file(n)], n - 1)
    for path in log.iterdir():
        if path.name != "19.compact":
            path.unlink()
    everything = [t for n in range(20) for t in numbered([file(n)], n)]
    assert sorted(taken(log), key=lambda t: t.number) == everything
    assert files_log_damage(log, 19) is None and taken(log, 18) == everything[19:]
    for n in range(20, 30):
        logs.take(0, [file(n)], n - 1)
    everything += [t for n in range(20, 30) for t in numbered([file(n)], n)]
    assert sorted(taken(log), key=lambda t: t.number) == everything
    lines = (log / "29.compact").read_text().split("\n")[1:]
    assert [json.loads(line)["batchId"] for line in lines] == list(range(30))


@pytest.mark.parametrize("name", ["{n}.csv", "{n} #?é%20.csv", '{n}".csv', "{n}\\n.csv", "{n}\u2028.csv", "{n}\x85.csv", "{n}\n.csv"])
def test_any_name_of_a_file_comes_back(tmp_path: Path, name: str) -> None:
    logs, log = Logs(tmp_path), tmp_path / "sources" / "0"
    for n in range(11):
        logs.take(0, [file(n, name)], n - 1)
    assert sorted(taken(log), key=lambda t: t.number) == [t for n in range(11) for t in numbered([file(n, name)], n)]


def test_what_was_forgotten_stays_forgotten(tmp_path: Path) -> None:
    logs, log = Logs(tmp_path), tmp_path / "sources" / "0"
    for n in range(10):
        logs.take(0, [file(n)], n - 1)
    # As pruning leaves it: the files of 0 to 6 are gone for good, and the entries that were merged.
    for path in log.iterdir():
        path.unlink()
    gone = {"path": f"{FORGOTTEN}7", "timestamp": 0, "batchId": 0}
    kept = [{"path": file(n).url, "timestamp": file(n).modified_ms, "batchId": n} for n in (7, 8, 9)]
    (log / "9.compact").write_text("\n".join(["v1", *(json.dumps(line, separators=(",", ":")) for line in (gone, *kept))]))
    for n in range(10, 30):
        assert pruned(tmp_path) == 7
        logs.take(0, [file(n)], n - 1)
        assert [t.number for t in sorted(taken(log), key=lambda t: t.number)] == list(range(7, n + 1))
    for merged in (19, 29):
        lines = [json.loads(line) for line in (log / f"{merged}.compact").read_text().split("\n")[1:]]
        assert lines[0] == gone and [line["batchId"] for line in lines[1:]] == list(range(7, merged + 1))


def test_the_log_of_files_does_not_keep_every_list_for_ever(tmp_path: Path) -> None:
    """A merged list has all lines: keeping each would take space as the square of the batches. Spark removes those merged a while ago."""
    logs, log = Logs(tmp_path), tmp_path / "sources" / "0"
    for n in range(200):
        logs.take(0, [file(n)], n - 1)
        for path in log.iterdir():
            os.utime(path, (1_600_000_000, 1_600_000_000))
    assert sorted(taken(log), key=lambda t: t.number) == [t for n in range(200) for t in numbered([file(n)], n)]
    assert len(list(log.glob("*.compact"))) <= 3 and len(entries(log)) <= 40


def test_only_the_last_hundred_batches_stay_in_the_logs_of_batches(tmp_path: Path) -> None:
    logs = Logs(tmp_path)
    (tmp_path / "offsets" / "notes.txt").write_text("theirs")
    (tmp_path / "commits" / "1.bak").write_text("theirs")
    for batch in range(251):
        logs.plan(batch, batch, -1, -1)
        logs.done(batch, batch + 1)
        for log in ("offsets", "commits"):
            there = sorted(int(name) for name in entries(tmp_path / log) if name.isdigit())
            # Never fewer than Spark keeps, and at most a few more.
            assert there == list(range(there[0], batch + 1)) and max(0, batch - 110) <= there[0] <= max(0, batch - 99)
            assert last_batch(tmp_path / log) == batch
    assert (tmp_path / "offsets" / "notes.txt").read_text() == "theirs" and (tmp_path / "commits" / "1.bak").read_text() == "theirs"
    assert (watermark(tmp_path), next_watermark(tmp_path)) == (250, 251)


@given(st.lists(st.tuples(st.integers(0, 3), st.booleans(), st.integers(-5, 10**15)), min_size=1, max_size=25))
def test_a_checkpoint_is_complete_after_every_step(tmp_path_factory: pytest.TempPathFactory, batches: list[tuple[int, bool, int]]) -> None:
    """Files, whether there is a control row, and the watermark of each batch."""
    root = tmp_path_factory.mktemp("checkpoint")
    checkpoint, control = root / "checkpoint", root / "control"
    control.mkdir()
    logs = Logs(checkpoint)
    last = [-1, -1]
    for batch, (many, ordered, at) in enumerate(batches):
        for source, files in ((0, [file(100 * batch + i) for i in range(many)]), (1, [file(batch)] if ordered else [])):
            if files:
                last[source] = logs.take(source, files, last[source])
        assert checkpoints._spark_logs(checkpoint, batch - 1, batch - 1) is None
        logs.plan(batch, at, *last)
        assert checkpoints._spark_logs(checkpoint, batch, batch - 1) is None
        assert checkpoints._control(checkpoint, control, batch, []) is None
        assert files_log_damage(checkpoint / "sources" / "0", offset(checkpoint, batch)) is None
        assert [offset(checkpoint, batch, source) for source in (0, 1)] == last and watermark(checkpoint) == at
        before = offset(checkpoint, batch - 1)
        assert [t.url for t in taken(checkpoint / "sources" / "0", before)] == [file(100 * batch + i).url for i in range(many)]
        logs.done(batch, at + 1)
        assert checkpoints._spark_logs(checkpoint, batch, batch) is None and next_watermark(checkpoint) == at + 1
    assert not [p for p in checkpoint.rglob(".*") if p.is_file()]
