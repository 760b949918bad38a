"""``skyband plan``: what it says of an edited spec is what the next run does."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from skyband.framework.base.errors import SkybandError, SpecErrors
from skyband.framework.plan.growth import Additions
from skyband.framework.plan.model import Plan
from skyband.framework.streaming.job import edits
from skyband.framework.streaming.job.accepting_rules import rules_of
from skyband.framework.streaming.job.edits import SAYS, addable, edited
from skyband.framework.streaming.job.layout import JobFile, Layout, changed_since
from skyband.jobs.cli import main
from skyband.jobs.spec import load_plan
from tests.framework.verify import small
from tests.spark.cuts import stream
from tests.spark.jobs import write_spec
from tests.specs import plan_of_text

NEAR = "  near: {type: topk_pairs, scoring: near, k: 3, carry: [x]}\n"
FAR = "  far: {type: topk_pairs, scoring: far, k: 2}\n"
ROWS = 60


@pytest.fixture(scope="module")
def spec(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from skyband.framework.plan.fingerprint import concealed, fingerprint

    path = write_spec(tmp_path_factory.mktemp("edits"), queries=NEAR + FAR)
    plan = small.make(path, stream(3, ROWS))
    kept = concealed(fingerprint(plan), plan, "s")
    Layout(plan.sink).save(JobFile(plan.job, "g", kept, 2, None, salt="s", rules=rules_of(plan, "s"), escape='"'))
    return path


@pytest.mark.parametrize(
    ("old", "new", "verdict", "added", "removed"),
    [
        ("max_files: 100", "max_files: 7", "nothing", [], []),
        ("quality:", "schedule: {cron: '0 5 * * *'}\nquality:", "nothing", [], []),
        ("x < 1000000", "x < 1000", "rules", [], []),
        ("{header: true}", "{header: true, sep: ','}", "rules", [], []),
        (NEAR, NEAR + "  hourly: {type: topk_pairs, scoring: near, k: 3, every: 1 hour}\n", "added", ["hourly"], []),
        (FAR, "", "queries", [], ["far"]),
        (FAR, FAR.replace("far:", "apart:"), "queries", ["apart"], ["far"]),
        ("k: 3", "k: 4", "state", [], []),
        ("carry: [x]", "carry: [y]", "state", [], []),
        (FAR, FAR.replace("far:", "apart:").replace("k: 2", "k: 2, window: {count: 9}"), "queries", ["apart"], ["far"]),
        ("watermark: 1 hour", "watermark: 2 hours", "state", [], []),
    ],
)
def test_what_an_edit_does_is_what_the_next_run_says(
    spec: Path, tmp_path: Path, old: str, new: str, verdict: str, added: list[str], removed: list[str]
) -> None:
    text = spec.read_text()
    assert old in text
    changed = tmp_path / "spec.yaml"
    changed.write_text(text.replace(old, new))
    plan = load_plan(str(changed))
    found = edited(plan)
    assert (found.verdict, found.added, found.removed) == (verdict, added, removed)
    assert found.differences == changed_since(plan, Layout(plan.sink)) and found.fits == (not found.differences)
    if found.fits:
        assert found.cost is None
    else:
        assert found.cost is not None and (found.cost.rows, found.cost.batches) == (ROWS, small.BATCHES + 1)


def test_the_command_says_what_to_do(spec: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", str(spec)]) == 0
    assert capsys.readouterr().out == f"job small: {SAYS['nothing']}\n"
    changed = tmp_path / "spec.yaml"
    changed.write_text(spec.read_text().replace(NEAR, NEAR.replace("k: 3", "k: 4")))
    before = sorted((p, p.stat().st_mtime_ns) for p in spec.parent.rglob("*"))
    assert main(["plan", str(changed)]) == 1
    head, difference, cost, do = capsys.readouterr().out.splitlines()
    assert head == f"job small: {SAYS['state']}" and difference == "  queries.near.k was 3, now 4"
    assert re.fullmatch(
        rf"a rebuild reads everything again: so far {ROWS} rows were read, in {small.BATCHES + 1} batches that took [\d.,]+ s in total",
        cost,
    )
    assert f"skyband rebuild {changed}" in do
    assert main(["plan", str(changed), "--format", "json"]) == 1
    assert json.loads(capsys.readouterr().out)["verdict"] == "state"
    assert sorted((p, p.stat().st_mtime_ns) for p in spec.parent.rglob("*")) == before


def test_a_query_that_comes_is_made_alone_if_nothing_stands_in_the_way(
    spec: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    changed = tmp_path / "spec.yaml"
    changed.write_text(spec.read_text().replace(FAR, FAR + "  close: {type: topk_pairs, scoring: near, k: 7}\n"))
    assert main(["plan", str(changed)]) == 1
    head, difference, cost, shared, do = capsys.readouterr().out.splitlines()
    assert head == f"job small: {SAYS['added']}" and difference.startswith("  queries.close is new")
    assert cost == f"backfilling reads {ROWS} rows again, and runs 1 state (near) over the accepted rows; other queries are not affected"
    assert shared == "  shared with near, whose tables stay unchanged" and f"skyband rebuild {changed} --added" in do
    plan = load_plan(str(changed))
    layout = Layout(plan.sink)
    monkeypatch.setattr(edits, "last_batch", lambda log: 4 if log.name == "offsets" else 3)
    assert main(["plan", str(changed), "--format", "json"]) == 1
    said = json.loads(capsys.readouterr().out)
    assert (said["verdict"], said["added"], said["states"], said["again"]) == ("added", ["close"], ["near"], ["near"])
    assert said["stands_in_the_way"] == "batch 4 is unfinished: run the job once with its former spec"
    with pytest.raises(SkybandError, match=r"SKY-E580.*batch 4"):
        addable(plan, layout, layout.known())
    monkeypatch.undo()
    monkeypatch.setattr(edits, "batches_behind", lambda _: 1)
    with pytest.raises(SkybandError, match=r"SKY-E580.*the last run was stopped before its end: run the job once"):
        addable(plan, layout, layout.known())
    monkeypatch.undo()
    monkeypatch.setattr(edits, "gone_files", lambda _: (1, 3))
    with pytest.raises(SkybandError, match=r"SKY-E580.*1 of the 3 files"):
        addable(plan, layout, layout.known())
    monkeypatch.undo()
    delta = replace(plan, source=replace(plan.source, format="delta"))
    monkeypatch.setattr(edits, "changed_since", lambda *_: ["queries.close is new"])
    monkeypatch.setattr(edits, "additions", lambda *_: Additions(("close",), ("near",), ("near",), ()))
    with pytest.raises(SkybandError, match=r"SKY-E580.*not read again"):
        addable(delta, layout, layout.known())
    monkeypatch.undo()
    changed.write_text(changed.read_text().replace("k: 3", "k: 4"))
    with pytest.raises(SpecErrors) as refused:
        addable(load_plan(str(changed)), layout, layout.known())
    assert [e.message for e in refused.value.errors] == ["not only queries have come: queries.near.k was 3, now 4"]
    assert addable(load_plan(str(spec)), layout, layout.known()) is None


def test_before_the_first_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", str(write_spec(tmp_path))]) == 0
    assert capsys.readouterr().out == f"job small: {SAYS['first run']}\n"
    assert not (tmp_path / "out").exists()
    bad = write_spec(tmp_path)
    bad.write_text(bad.read_text().replace("k: 5", "k: 0"))
    with pytest.raises(SpecErrors):
        load_plan(str(bad))


CHAINED = """\
job: chained
source: {{format: csv, path: {path}/in, schema: {{id: bigint, ts: timestamp, x: double}}, id: [id], event_time: {{column: ts}}}}
window: {{time: 1 day}}
scoring: {{x: {{expression: x}}}}
queries:
  best: {{type: topk, scoring: x, k: 3}}
{more}sink: {{path: {path}/out}}
"""


def test_queries_over_results_are_not_made_alone(tmp_path: Path) -> None:
    from skyband.framework.plan.fingerprint import concealed, fingerprint

    def plan_of(*more: str) -> Plan:
        return plan_of_text(CHAINED.format(path=tmp_path, more="".join(f"  {line}\n" for line in more)))

    durable, high = (
        "durable: {type: threshold_loyalty, of: best, object: id, share: 80%}",
        "high: {type: threshold, scoring: x, at_least: 1}",
    )
    for before, after, added in (
        ([], [durable], ["durable"]),
        ([durable], [durable, high], ["high"]),
    ):
        was, now = plan_of(*before), plan_of(*after)
        layout = Layout(was.sink)
        layout.save(JobFile(was.job, "g", concealed(fingerprint(was), was, "s"), 2, None, salt="s", rules=rules_of(was, "s"), escape='"'))
        found = edited(now)
        assert (found.verdict, found.added) == ("added", added) and not found.fits
        said = "the job has queries over the results of others (durable), whose states are made with all others: skyband rebuild does that"
        assert found.stands_in_the_way == said
        job = layout.load()
        assert job is not None
        with pytest.raises(SkybandError, match="cannot be made alone: the job has queries over the results of others") as refused:
            addable(now, layout, job)
        assert refused.value.code == "SKY-E580"
    gone = edited(plan_of(high))
    assert (gone.verdict, gone.added, gone.removed) == ("queries", ["high"], ["durable"])
