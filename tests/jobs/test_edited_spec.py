"""Tables asked with a spec that was edited since the last run: an answer, or an error that says so; never a defect."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

import skyband
from skyband.jobs.cli import main
from tests.framework.verify import small
from tests.jobs.test_machines import known
from tests.spark.cuts import stream
from tests.spark.jobs import write_spec

QUERIES = """\
  near: {type: topk_pairs, scoring: near, k: 3, carry: [side]}
  best: {type: topk, scoring: s, k: 3, carry: [x]}
  high: {type: threshold, scoring: s, at_least: 3}
  front: {type: skyline, dimensions: {x: max, y: min}}
"""
PARTITION = "partition_by: [grp]"
EDITS: dict[str, Sequence[tuple[str, str]]] = {
    "k": [("k: 3", "k: 2")],
    "larger k": [("k: 3", "k: 30")],
    "renamed": [("  near:", "  nearer:"), ("  best:", "  better:")],
    "other carry": [("carry: [x]", "carry: [y]"), ("carry: [side]", "carry: [x]")],
    "no carry": [(", carry: [x]", ""), (", carry: [side]", "")],
    "more carry": [("carry: [x]", "carry: [x, y]"), ("carry: [side]", "carry: [side, x]")],
    "no partition": [(PARTITION, "")],
    "other partition": [(PARTITION, "partition_by: [side]"), ("carry: [side]", "carry: [x]")],
    "more partition": [(PARTITION, "partition_by: [grp, side]"), ("carry: [side]", "carry: [x]")],
    "other type": [("best: {type: topk, scoring: s, k: 3", "best: {type: threshold, scoring: s, at_least: 2")],
    "swapped": [("  front:", "  TMP:"), ("  best:", "  front:"), ("  TMP:", "  best:")],
    "direction": [("direction: max}\n\n", "direction: min}\n\n")],
    "added": [("  best:", "  extra: {type: topk, scoring: s, k: 2}\n  best:")],
    "job": [("job: small", "job: other")],
}
TRIED_ALWAYS = ("larger k", "other carry", "other partition", "other type", "swapped", "added")
COMMANDS = [
    *(["query", "{}", q, *more] for q in ("near", "best", "front") for more in ([], ["--k", "1"], ["--at", "2020-01-01T00:10"])),
    ["query", "{}", "best", "--key", "grp=a"], ["query", "{}", "high", "--window", "5 rows", "--limit", "2", "--sql"],
    *(["sql", "{}", f"select * from {t}"] for t in ("best", "best_history", "near_now", "high_summary")), ["sql", "{}", "show tables"],
    ["why", "{}", "best", "3"], ["report", "{}", "--out", "{dir}/r.html"], ["status", "{}"], ["history", "{}"],
    ["verify", "{}", "--replay-only"], ["quality", "{}"], ["views", "{}"], ["rejected", "{}"], ["plan", "{}"],
]  # fmt: skip


@pytest.fixture(scope="module")
def spec(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = write_spec(tmp_path_factory.mktemp("edited"), queries=QUERIES, scoring="  s: {expression: x, direction: max}\n", partition=True)
    known(small.make(path, stream(2, 60)))
    return path


def edited(spec: Path, edit: str) -> Path:
    text = spec.read_text()
    for old, new in EDITS[edit]:
        assert old in text, edit
        text = text.replace(old, new)
    path = spec.with_name(f"{edit.replace(' ', '_')}.yaml")
    path.write_text(text)
    return path


@pytest.mark.parametrize("edit", [pytest.param(e, marks=() if e in TRIED_ALWAYS else pytest.mark.slow) for e in EDITS])
def test_every_command_answers_or_says_what_was_edited(edit: str, spec: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = edited(spec, edit)
    for words in COMMANDS:
        code = main([w.replace("{dir}", str(tmp_path)).replace("{}", str(path)) for w in words])
        err = capsys.readouterr().err
        assert code in (0, 1, 2) and "SKY-E9" not in err and "Traceback" not in err, (words, err)


@pytest.mark.parametrize("edit", ["other carry", "more partition", "other partition", "swapped"])
def test_what_does_not_fit_is_said_to_be_the_edit(edit: str, spec: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = edited(spec, edit)
    assert main(["query", str(path), "best"]) == 2
    err = capsys.readouterr().err
    assert "SKY-E150 the tables are those of another spec: " in err and "ask with the spec of the last run" in err
    job = skyband.load(path)
    for call in (lambda: job.query("best"), lambda: job.ask("best", k=1)):
        with pytest.raises(skyband.SkybandError) as e:
            call()
        assert e.value.code == "SKY-E150"
    assert job.status().wrong and job.table("best").num_rows and not job.plan().fits
    assert main(["query", str(spec), "best"]) == 0
