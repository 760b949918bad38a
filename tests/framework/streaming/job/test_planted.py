"""A sink is data: a journal, a link or a name that somebody has put there moves, makes and removes nothing."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import stat
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from skyband.framework.base.errors import SkybandError
from skyband.framework.plan.fingerprint import concealed, fingerprint
from skyband.framework.plan.model import Plan
from skyband.framework.storage.sinks import SWAP_JOURNAL
from skyband.framework.streaming.job import generations
from skyband.framework.streaming.job.generations import settle, swap, tables_in
from skyband.framework.streaming.job.layout import JobFile, Layout, check_sink_location
from skyband.framework.streaming.job.locks import one_run
from skyband.framework.tables.delta.ownership import PROPERTY
from skyband.jobs.cli import main
from skyband.jobs.spec import load_plan
from tests.framework.streaming import checkpoints
from tests.framework.verify import small
from tests.spark.cuts import stream
from tests.spark.jobs import write_file, write_spec

NEAR = "  near: {type: topk_pairs, scoring: near, k: 3, carry: [x]}\n"
SHOWING: list[list[str]] = [
    ["status"], ["history"], ["plan"], ["quality"], ["rejected"], ["verify", "--replay-only"], ["query", "near"], ["why", "near", "1"],
    ["sql", "select * from near_now"], ["report", "--out", "{out}"], ["validate"], ["explain"], ["views"], ["graph"],
]  # fmt: skip
"""The commands that show, with what they need."""
READING = SHOWING[:10]
"""Those of them that read the sink."""


def everything(root: Path) -> dict[str, str]:
    """All files, directories and links below ``root``, with what they hold."""
    found = {}
    for path in sorted(root.rglob("*")):
        mode = path.lstat().st_mode
        held = os.readlink(path) if stat.S_ISLNK(mode) else hashlib.sha256(path.read_bytes()).hexdigest() if stat.S_ISREG(mode) else ""
        found[str(path.relative_to(root))] = f"{stat.S_IFMT(mode)} {held}"
    return found


def shown(command: list[str], spec: Path, out: Path, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    """The exit code of a command, and all that it says."""
    name, *rest = command
    code = main([name, str(spec), *(a.format(out=out) for a in rest)])
    told = capsys.readouterr()
    return code, told.out + told.err


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Plan]:
    directory = tmp_path_factory.mktemp("made")
    path = write_spec(directory, queries=NEAR)
    write_file(directory, "0.csv", stream(1, 30), at=0)
    plan = small.make(path, stream(1, 30))
    layout = Layout(plan.sink)
    checkpoints.make(layout.home, batches=small.BATCHES + 1)
    layout.save(JobFile(plan.job, "g", concealed(fingerprint(plan), plan, "s"), 2, None, salt="s"))
    return path, plan


@pytest.fixture
def job(made: tuple[Path, Plan], tmp_path: Path) -> tuple[Path, Layout]:
    """The spec and the sink of a job that has run, with a directory of somebody else's beside it."""
    home = tmp_path / "job"
    shutil.copytree(made[0].parent, home)
    spec = home / made[0].name
    spec.write_text(spec.read_text().replace(str(made[0].parent), str(home)))
    layout = Layout(str(home / Path(made[1].sink).relative_to(made[0].parent)))
    plan = load_plan(str(spec))
    layout.save(JobFile(plan.job, "g", concealed(fingerprint(plan), plan, "s"), 2, None, salt="s"))
    checkpoints.write(tmp_path / "victim" / "_delta_log" / "0.json", "theirs")
    checkpoints.write(tmp_path / "victim" / "_skyband" / "job.json", "theirs")
    return spec, layout


def journal(source: Any = "next", away: Any = "old", out: Any = ((), ()), coming: Any = ((), ())) -> str:
    return json.dumps({"from": source, "to": away, "out": out, "in": coming})


JOURNALS = {
    "from elsewhere": journal("../../victim"),
    "from an absolute path": journal("/tmp"),
    "to elsewhere": journal(away="../../../victim"),
    "tables by a path": journal(out=(["../../victim"], [])),
    "tables in": journal(coming=(["../victim"], [])),
    "a part by a path": journal(coming=([], ["../../../victim"])),
    "a part that stays": journal(out=([], ["lock"])),
    "a table of nobody": journal(out=(["theirs"], [])),
    "the job's own tables to where they are removed": journal(away="gone", out=(["near", "heads"], ["checkpoint", "job.json"])),
    "an addition that keeps what leaves": journal("added", out=(["near"], [])),
    "nothing of the new one": journal(out=(["near", "runs"], ["job.json"]), coming=(["near"], ["job.json"])),
    "null": "null", "a list": "[]", "no JSON": "{", "empty": "", "numbers": journal(1, 2, [3, 4], 5), "deep": "[" * 100_000,
    "more fields": journal()[:-1] + ', "and": 1}', "zero bytes": "\0" * 100, "a dot": journal(out=(["."], [".."])),
}  # fmt: skip


def test_a_planted_journal_moves_nothing(job: tuple[Path, Layout], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Any of them in the same sink, which is the same after each."""
    spec, layout = job

    def held() -> dict[str, str]:
        return {path: what for path, what in everything(tmp_path).items() if not path.endswith("lock")}

    for planted, text in JOURNALS.items():
        (layout.home / SWAP_JOURNAL).write_text(text)
        os.utime(layout.home / SWAP_JOURNAL, (1, 1))
        before = everything(tmp_path)
        for command in (["status"], ["query", "near"], ["history"]):
            code, said = shown(command, spec, tmp_path / "r.html", capsys)
            assert code in (1, 2) and "skyband run SPEC, skyband rebuild SPEC or skyband maintain SPEC" in said, (planted, said)
            assert everything(tmp_path) == before, planted
        code, said = shown(["maintain"], spec, tmp_path, capsys)
        assert code == 3 and "SKY-E303" in said and SWAP_JOURNAL in said, (planted, said)
        assert held() == {path: what for path, what in before.items() if not path.endswith("lock")}, planted


@pytest.mark.parametrize("command", READING, ids=lambda c: c[0])
def test_no_command_that_shows_goes_on_with_a_swap(
    job: tuple[Path, Layout], tmp_path: Path, capsys: pytest.CaptureFixture[str], command: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    spec, layout = job
    half(layout, monkeypatch)
    before = everything(tmp_path)
    code, said = shown(command, spec, tmp_path / "r.html", capsys)
    assert everything(tmp_path) == before and "was interrupted" in said and "finishes it" in said
    assert code == (1 if command == ["status"] else 2) and ("SKY-E513" in said) == (code == 2), said


def test_what_writes_goes_on_with_a_swap(
    job: tuple[Path, Layout], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    spec, layout = job
    half(layout, monkeypatch)
    assert shown(["maintain"], spec, tmp_path, capsys)[0] == 0
    assert not (layout.home / SWAP_JOURNAL).exists() and (layout.home / "old" / "near").is_dir() and layout.known().job == "small"
    code, said = shown(["query", "near"], spec, tmp_path, capsys)
    assert code == 0, said


class Killed(BaseException):
    """As a signal would."""


def half(layout: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    """A swap that was killed in its middle; the new generation is a copy of the old one."""
    names = [*tables_in(layout.root), "_skyband"]
    for name in names:
        shutil.copytree(layout.root / name, layout.next / name, ignore=shutil.ignore_patterns("next"))
    hits = 0

    def failpoint(_: str) -> None:
        nonlocal hits
        hits += 1
        if hits == 5:
            raise Killed

    with monkeypatch.context() as m:
        m.setattr(generations, "failpoint", failpoint)
        with pytest.raises(Killed):
            swap(layout)
    os.utime(layout.home / SWAP_JOURNAL, (1, 1))


@pytest.mark.parametrize(
    "place", ["_skyband", "_skyband/checkpoint", "_skyband/lock", "_skyband/job.json", "near_now", "near/_delta_log", "_skyband/next"]
)
def test_a_link_in_a_sink_is_refused_by_name(
    job: tuple[Path, Layout], tmp_path: Path, capsys: pytest.CaptureFixture[str], place: str
) -> None:
    spec, layout = job
    path, elsewhere = layout.root / place, tmp_path / "elsewhere"
    elsewhere.mkdir()
    if path.exists():
        path.rename(elsewhere / "it")
    else:
        checkpoints.write(elsewhere / "it", "theirs")
    path.symlink_to(elsewhere / "it")
    before = everything(tmp_path)
    for command in [*READING, ["maintain"], ["run", "--quiet"], ["rebuild", "--quiet"], ["reset", "--yes"]]:
        code, said = shown(command, spec, tmp_path / "r.html", capsys)
        assert code == 2 and "SKY-E518" in said and str(path) in said, (command, said)
        assert everything(tmp_path) == before


def test_a_pipe_in_a_sink_stops_nobody_for_good(job: tuple[Path, Layout], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    spec, layout = job
    layout.rest.unlink(missing_ok=True)
    os.mkfifo(layout.rest)
    for command in (["status"], ["query", "near"], ["maintain"]):
        code, said = shown(command, spec, tmp_path, capsys)
        assert code == 2 and "SKY-E518" in said and "neither a file nor a directory" in said


def test_names_in_a_job_file_lead_nowhere(tmp_path: Path) -> None:
    """Tables are removed by the names of the job file's queries."""
    layout = Layout(str(tmp_path / "out"))
    checkpoints.write(tmp_path / "victim" / "_delta_log" / "0.json", "theirs")
    said = {
        "job": "j",
        "names": 2,
        "generation": "g",
        "fingerprint": {"queries": {"../victim": {}, "/tmp": {}, "": {}}},
        "partitions": 2,
        "header": None,
    }
    checkpoints.write(layout.file, json.dumps(said))
    assert tables_in(layout.root) == []
    with pytest.raises(SkybandError, match="SKY-E303") as e:
        layout.load()
    assert "is no name of a query" in e.value.message


def test_a_token_in_a_job_file_leads_nowhere(job: tuple[Path, Layout]) -> None:
    _, layout = job
    said = json.loads(layout.file.read_text())
    said.pop("version")
    for filling in ({"token": "x/../../../../victim", "buckets": [0]}, {"token": "x", "buckets": ["../victim"]}, {"token": "x"}):
        layout.file.write_text(json.dumps({**said, "filling": filling}))
        with pytest.raises(SkybandError, match=r"SKY-E303.* filling"):
            layout.load()


@pytest.mark.parametrize(
    "shards",
    [0, -2, 10**9, 10**30, 2.5, "2", True, None, [], [2], [2, 2], {"of": 2}],
    ids=str,
)
def test_numbers_of_shards_that_cannot_be_are_refused(job: tuple[Path, Layout], shards: object) -> None:
    _, layout = job
    said = json.loads(layout.file.read_text())
    layout.file.write_text(json.dumps({**said, "shards": 2}))
    assert layout.known().shards == 2
    layout.file.write_text(json.dumps({**said, "shards": shards}))
    with pytest.raises(SkybandError, match="SKY-E303"):
        layout.load()


def test_settle_of_a_sink_without_a_journal_does_nothing(job: tuple[Path, Layout]) -> None:
    _, layout = job
    before = everything(layout.root)
    with one_run(layout, "small"):
        assert not settle(layout)
    assert {p: w for p, w in everything(layout.root).items() if not p.endswith("lock")} == before


@pytest.mark.parametrize("theirs", ["a table of another job", "a table of another writer", "files"])
@pytest.mark.parametrize("named_by", ["job.json", "added/_skyband/job.json"])
def test_a_planted_journal_moves_no_table_of_others(
    job: tuple[Path, Layout], tmp_path: Path, capsys: pytest.CaptureFixture[str], named_by: str, theirs: str
) -> None:
    """The job file is data, too: it may name a query like a neighbour's directory."""
    spec, layout = job
    directory = layout.root / "theirs"
    if theirs == "files":
        checkpoints.write(directory / "a.csv", "1,2")
    else:
        marked = {PROPERTY: "0" * 32} if theirs == "a table of another job" else {}
        schema = pa.schema([("x", pa.int64())])
        DeltaTable.create(str(directory), schema, configuration=marked, raise_if_key_not_exists=False)
    said = json.loads(layout.file.read_text())
    said["fingerprint"]["queries"]["theirs"] = {}
    checkpoints.write(layout.home / named_by, json.dumps(said))
    checkpoints.write(layout.home / SWAP_JOURNAL, journal("added", "gone", out=(["theirs"], [])))
    before = everything(tmp_path)
    for command in (["maintain"], ["reset", "--yes"], ["rebuild", "--drop-old", "--quiet"]):
        code, text = shown(command, spec, tmp_path, capsys)
        assert code == 2 and "SKY-E205" in text and str(directory) in text, (command, text)
        assert {p: what for p, what in everything(tmp_path).items() if not p.endswith("lock")} == before


@pytest.mark.parametrize("half_done", [False, True])
@pytest.mark.parametrize(
    "command",
    [["run", "--quiet"], ["maintain"], ["reset", "--yes"], ["rebuild", "--quiet"], ["rebuild", "--undo"], ["rebuild", "--drop-old"]],
    ids=" ".join,
)
def test_no_other_job_writes_into_a_sink(
    job: tuple[Path, Layout],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    command: list[str],
    half_done: bool,
) -> None:
    """Nor a record of the run that was refused, nor what a swap of the other job has left to do."""
    spec, layout = job
    if half_done:
        half(layout, monkeypatch)
    other = spec.with_name("other.yaml")
    other.write_text(spec.read_text().replace("job: small", "job: other"))
    before = everything(tmp_path)
    code, said = shown(command, other, tmp_path, capsys)
    assert code == 2 and "SKY-E205" in said and "is that of job 'small'" in said, said
    assert everything(tmp_path) == before


@pytest.mark.parametrize("way", ["a link to next", "a link to the directory that holds it"])
def test_no_link_makes_the_next_generation_of_a_job_the_sink_of_another(job: tuple[Path, Layout], tmp_path: Path, way: str) -> None:
    _, layout = job
    layout.next.mkdir()
    link = tmp_path / "link"
    link.symlink_to(layout.next if way == "a link to next" else layout.home)
    sink = link if way == "a link to next" else link / "next"
    plan = replace(load_plan(str(job[0])), job="other", sink=str(sink))
    with pytest.raises(SkybandError, match="SKY-E205") as e:
        check_sink_location(plan, Layout(plan.sink))
    assert "lies inside the sink of another job" in e.value.message


LOGGED = {
    "a file outside of the table": (
        '{"add": {"path": "../../../victim/x", "partitionValues": PARTS, "size": 1, "modificationTime": 1, "dataChange": true}}'
    ),
    "a transaction that is a list": '{"txn": ["a"]}',
    "deep": '{"commitInfo": ' + "[" * 100_000 + "]" * 100_000 + "}",
}


@pytest.mark.parametrize("table", ["near", "runs"])
@pytest.mark.parametrize("logged", LOGGED)
def test_no_commit_in_a_tables_log_ends_in_a_defect(
    job: tuple[Path, Layout], tmp_path: Path, capsys: pytest.CaptureFixture[str], logged: str, table: str
) -> None:
    spec, layout = job
    opened = DeltaTable(str(layout.root / table))
    parts = json.dumps(dict.fromkeys(opened.metadata().partition_columns, "0"))
    (layout.root / table / "_delta_log" / f"{opened.version() + 1:020}.json").write_text(LOGGED[logged].replace("PARTS", parts))
    for command in (["status"], ["query", "near"], ["verify", "--replay-only"], ["sql", f"select * from {table}"]):
        code, said = shown(command, spec, tmp_path, capsys)
        assert code in (0, 1, 2) and "SKY-E900" not in said, (command, said)
