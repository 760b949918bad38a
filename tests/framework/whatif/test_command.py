"""The command ``skyband whatif`` and ``Job.whatif``: answers, ranges, mistakes, and what cannot be known."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import skyband
from skyband.framework.base.errors import SkybandError, SpecErrors
from skyband.framework.streaming.spark import session
from skyband.jobs.cli import main
from tests.conftest import ROOT
from tests.framework.verify.small import altered
from tests.framework.whatif import ran

PAGE = (ROOT / "docs" / "how-to" / "what-if.md").read_text(encoding="utf-8")


def blocks(kind: str) -> list[str]:
    return re.findall(rf"^```{kind}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of the job of the page, which has read its two files."""
    directory = tmp_path_factory.mktemp("readings")
    (directory / "readings.yaml").write_text(blocks("yaml")[0])
    ran.make(directory / "readings.yaml", blocks("text"), finish=False)
    return directory


@pytest.fixture
def spec(directory: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Its spec. Nothing below its directory changes."""
    monkeypatch.chdir(directory)
    before = ran.content(directory)
    yield "readings.yaml"
    assert ran.content(directory) == before


def answer(capsys: pytest.CaptureFixture[str], *argv: str) -> tuple[int, Any]:
    capsys.readouterr()
    code = main(["whatif", *argv, "--format", "json"])
    return code, json.loads(capsys.readouterr().out)


def test_the_page_shows_what_the_commands_print(spec: str, capsys: pytest.CaptureFixture[str]) -> None:
    shown = [c for block in blocks("console") for c in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]]
    assert len(shown) == 4
    for text in shown:
        command, _, output = text.partition("\n")
        words = re.findall(r'"([^"]*)"|(\S+)', command)
        capsys.readouterr()
        assert main([quoted or word for quoted, word in words][1:]) == 0
        assert capsys.readouterr().out == output


def test_the_answer_for_programs_and_for_people(spec: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, found = answer(capsys, spec, "--with", "rejected", "--query", "highest")
    assert code == 0 and found["change"] == ["--with rejected"]
    assert [(r["reason"], r["rows"], r["accepted"], r["rejected"], r["not_found"]) for r in found["rejected"]] == [
        ("late", 1, 1, {}, 0), ("parse", 1, 0, {"parse": 1}, 0), ("rule:plausible", 1, 1, {}, 0),
    ]  # fmt: skip
    assert found["rows"] == [
        {"was": "late", "would_be": "accepted", "rows": 1},
        {"was": "rule:plausible", "would_be": "accepted", "rows": 1},
    ]
    entered = [d for d in found["differences"] if d["kind"] == "entered"]
    assert sorted((d["item"]["id"], d["from"], d["after"], [r["was"] for r in d["by"]]) for d in entered) == [
        (3, "2025-03-01T12:20:00.000000Z", {"rank": 1, "score": 140.0, "sensor": "north"}, ["rule:plausible"]),
        (5, "2025-03-01T12:05:00.000000Z", {"rank": 1, "score": 50.0, "sensor": "south"}, ["late"]),
        (5, "2025-03-01T12:20:00.000000Z", {"rank": 2, "score": 50.0, "sensor": "south"}, ["late"]),
    ]
    assert all(d["by_rows"] for d in found["differences"])
    assert main(["whatif", spec, "--with", "rejected", "--limit", "1"]) == 0
    told = capsys.readouterr().out
    assert "parse: of 1 row 0 would be accepted, 1 stays rejected (their text does not parse)" in told
    assert f"  and {len(found['differences']) - 1} more differences (--limit)" in told


def test_python_returns_the_document(spec: str, capsys: pytest.CaptureFixture[str]) -> None:
    job = skyband.load(spec)
    for arguments, argv in (
        ({"with_rejected": True}, ["--with", "rejected"]),
        ({"with_rejected": ["late"]}, ["--with", "rejected:late"]),
        ({"without": ["2"], "begin": "2025-03-01T12:30"}, ["--without", "2", "--from", "2025-03-01T12:30"]),
        ({"settings": {"queries.highest.k": "3"}, "query": "highest"}, ["--set", "queries.highest.k=3", "--query", "highest"]),
    ):
        assert job.whatif(**arguments) == answer(capsys, spec, *argv)[1]  # type: ignore[arg-type]
    with pytest.raises(SkybandError, match="without takes a list of texts"):
        job.whatif(without="2")


def test_a_range_cuts_the_differences(spec: str) -> None:
    job = skyband.load(spec)
    whole = job.whatif(without=["2"])["differences"]
    for begin, end in (("12:00", "12:09"), ("12:10", "12:10"), ("12:15", "12:25"), ("12:30", "12:34")):
        first, last = (f"2025-03-01T{t}:00.000000Z" for t in (begin, end))
        expected = [
            {**d, "from": max(d["from"], first), "to": d["to"] if d["to"] is not None and d["to"] <= last else None}
            for d in whole
            if d["from"] <= last and (d["to"] is None or d["to"] > first)
        ]
        found = job.whatif(without=["2"], begin=f"2025-03-01T{begin}", end=f"2025-03-01T{end}")
        expected.sort(key=lambda d: (d["from"], d["kind"], repr(d["item"])))
        assert sorted(found["differences"], key=lambda d: (d["from"], d["kind"], repr(d["item"]))) == expected
        assert (found["from"], found["to"]) == (first, last)
        assert bool(expected) == (end >= "12:10")


MISTAKES = {
    "nothing": ([], "nothing is to be other"),
    "with what": (["--with", "filtered"], "--with takes rejected or rejected:REASON, not 'filtered'"),
    "no such reason": (["--with", "rejected:lat"], "no row was rejected for 'lat'"),
    "no such row": (["--without", "99"], "no row of the source has id 99"),
    "no id": (["--without", "1,2"], "--without '1,2' names no row: it takes a value of id"),
    "no such column": (["--without", "sensr=north"], "did you mean 'sensor'?"),
    "not a value": (["--without", "id=one"], "'one' is not a value of id, which is bigint"),
    "no path": (["--set", "queries"], "--set takes PATH=VALUE, not 'queries'"),
    "the source": (["--set", "source.path=/etc"], "source.path cannot be set: it does more than change results"),
    "lateness": (["--set", "source.event_time.watermark=1 hour"], "--with rejected:late puts these rows back"),
    "the sink": (["--set", "sink.path=/tmp"], "sink.path cannot be set"),
    "a variable": (["--set", "queries.highest.k=${HOME}"], "the value of --set queries.highest.k refers to a variable"),
    "no item": (["--set", "quality.rows.7.expect=true"], "quality.rows is a list of 1 item, and has no '7'"),
    "no fields": (["--set", "queries.highest.k.x=1"], "queries.highest.k is a single value, without fields"),
    "a new query": (["--set", "queries.new={type: topk, scoring: value, k: 1}"], "the job has no query new to compare with"),
    "no such query": (["--without", "2", "--query", "higest"], "did you mean 'highest'?"),
    "no instant": (["--without", "2", "--from", "soon"], "--from takes an instant, not 'soon'"),
    "turned around": (["--without", "2", "--from", "2025-03-02", "--to", "2025-03-01"], "--from is after --to"),
    "too early": (["--without", "2", "--to", "2025-03-05"], "SKY-E402 results are complete only up to"),
    "too late": (["--without", "2", "--from", "2025-03-05"], "is after the end of the range"),
    "a wrong value": (["--set", "queries.highest.k=0"], "--set queries.highest.k=0:1:1"),
    "an unknown field": (["--set", "queries.highest.kk=3"], "unknown field 'kk' in queries.highest"),
    "wrong SQL": (["--set", "quality.rows.0.expect=valu < 3"], "did you mean 'value'?"),
    "not YAML": (["--set", "window={time: 1 hour"], "--set window={time: 1 hour:1:14 SKY-E101"),
}


@pytest.mark.parametrize("argv,said", MISTAKES.values(), ids=MISTAKES)
def test_mistakes_are_told(spec: str, argv: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["whatif", spec, *argv]) == 2
    told = capsys.readouterr().err
    assert said in told and "SKY-E" in told and "SKY-E9" not in told


def test_before_the_first_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "new.yaml").write_text(blocks("yaml")[0])
    assert main(["whatif", str(tmp_path / "new.yaml"), "--with", "rejected"]) == 2
    assert "SKY-E402" in capsys.readouterr().err


def test_an_edited_spec_is_refused(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    edited = directory.parent / f"{directory.name}-edited.yaml"
    text = (
        blocks("yaml")[0]
        .replace("k: 2", "k: 4")
        .replace("path: in", f"path: {directory}/in")
        .replace("path: tables", f"path: {directory}/tables")
    )
    edited.write_text(text)
    assert main(["whatif", str(edited), "--without", "2"]) == 2
    assert "SKY-E150" in capsys.readouterr().err
    job = skyband.load(edited)
    edited.write_text(text.replace("k: 4", "k: 2"))
    with pytest.raises(SkybandError, match="has been edited since it was loaded"):
        job.whatif(without=["2"])


def made(tmp_path: Path) -> Path:
    (tmp_path / "readings.yaml").write_text(blocks("yaml")[0])
    ran.make(tmp_path / "readings.yaml", blocks("text"), finish=False)
    return tmp_path / "readings.yaml"


def test_tables_that_the_source_does_not_give_are_not_answered_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    spec = made(tmp_path)
    (tmp_path / "in" / "000.csv").write_text(blocks("text")[0].replace("south,35", "south,36"))
    code, found = answer(capsys, str(spec), "--without", "1")
    said = "table highest_changes has 1 row that the rows of the source do not give, and lacks 1 row that they give"
    assert (code, found["differences"], found["queries"]) == (1, [], [{"query": "highest", "differences": 0, "unknown": said}])
    assert f"the results of highest: {said}" in found["cannot_know"]
    assert main(["whatif", str(spec), "--without", "1"]) == 1
    assert f"highest: cannot be known: {said}" in capsys.readouterr().out


def test_a_table_that_has_lost_rows_is_not_answered_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    spec = made(tmp_path)
    altered(skyband.load(spec)._plan, "highest_changes", lambda rows: rows[1:])
    code, found = answer(capsys, str(spec), "--without", "1")
    assert code == 1 and "and lacks 1 row that they give" in found["queries"][0]["unknown"]


def test_rows_that_are_gone_from_the_source_need_spark_which_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = made(tmp_path)
    (tmp_path / "in" / "001.csv").unlink()

    def started(*_: Any, **__: Any) -> Any:
        raise SkybandError("SKY-E301", "Spark has been asked")

    monkeypatch.setattr("skyband.framework.whatif.rows.get_session", started)
    assert session.get_session is not started
    with pytest.raises(SkybandError, match="Spark has been asked"):
        skyband.load(spec).whatif(without=["1"])


def test_settings_reach_what_aliases_and_merges_hold(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = blocks("yaml")[0].replace(
        "  highest: {type: topk, scoring: value, k: 2, carry: [sensor]}\n",
        "  highest: &all {type: topk, scoring: value, k: 2}\n  again: *all\n  merged: {<<: *all, carry: [sensor]}\n",
    )
    spec = tmp_path / "readings.yaml"
    spec.write_text(text)
    ran.make(spec, blocks("text"), finish=False)
    job = skyband.load(spec)
    for name in job.queries:
        found = job.whatif(settings={f"queries.{name}.k": "3"})
        assert {d["query"] for d in found["differences"]} == {name}
    with pytest.raises(SpecErrors, match="has no value"):
        job.whatif(settings={"queries.highest.k": " "})


def test_rejected_rows_after_the_range_are_no_rows_that_are_gone(spec: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, found = answer(capsys, spec, "--with", "rejected", "--to", "2025-03-01T12:10")
    assert code == 0 and found["cannot_know"] == []
    assert [(r["reason"], r["rows"], r["accepted"], r["later"], r["not_found"]) for r in found["rejected"]] == [
        ("late", 1, 1, 0, 0), ("parse", 1, 0, 0, 0), ("rule:plausible", 1, 0, 1, 0),
    ]  # fmt: skip
    assert found["rows"] == [{"was": "late", "would_be": "accepted", "rows": 1}]
    assert main(["whatif", spec, "--with", "rejected:rule", "--to", "2025-03-01T12:10"]) == 0
    assert "rule:plausible: of 1 row 0 would be accepted, 1 is later than the range" in capsys.readouterr().out


def test_rejected_rows_that_are_gone_end_with_code_1(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    spec = made(tmp_path)

    def more(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return [*rows, *(r | {"text": r["text"].replace("140", "141")} for r in rows if r["reason"] == "rule:plausible")]

    altered(skyband.load(spec)._plan, "rejected", more)
    code, found = answer(capsys, str(spec), "--with", "rejected:rule")
    assert code == 1 and found["cannot_know"] == ["what 1 rejected row would have done: it is not in the source that can be read"]
    assert main(["whatif", str(spec), "--with", "rejected:rule"]) == 1
    assert "cannot be known: what 1 rejected row" in capsys.readouterr().out
