"""Requests for live queries: what is written, what is refused, and what a boundary makes of them. Without Spark."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

import skyband
from skyband.framework.base.errors import SkybandError, SpecErrors
from skyband.framework.plan.fingerprint import concealed, fingerprint
from skyband.framework.plan.live import NO_LIVE, Live, LiveQuery
from skyband.framework.plan.model import Plan
from skyband.framework.streaming.job.consistency import check
from skyband.framework.streaming.job.layout import JobFile, Layout, changed_since, fitting_job
from skyband.framework.streaming.job.live_requests import AHEAD, Request, any_waiting, now, peek, put, waiting
from skyband.framework.streaming.run.context import OpenedJob, RunContext, Texts
from skyband.framework.streaming.run.live_queries import LiveQueries
from skyband.framework.tables.writing.factory import writer_for
from skyband.framework.tables.writing.sink import Sink
from skyband.jobs import cli
from skyband.jobs.spec import SpecText, load_plan
from tests.framework.streaming import checkpoints
from tests.framework.verify import small
from tests.spark.kinds import KINDS

FIRST = "  far5: {type: topk_pairs, scoring: far, k: 5, carry: [x]}\n  near: {type: topk_pairs, scoring: near, k: 3, window: {count: 20}}\n"
BEST = "queries:\n  best: {type: topk, scoring: steep, k: 2}\nscoring:\n  steep: {expression: x, direction: max}\n"


class Made:
    """A job that has run, with the states of its buckets."""

    def __init__(self, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        of = KINDS["pairs"]
        self.rows = of.rows(4, 60)
        self.spec = of.write(directory / "job", 1)
        text = self.spec.read_text()
        self.spec.write_text(text[: text.index("queries:\n")] + "queries:\n" + FIRST + text[text.index("sink:") :])
        plan = small.make(self.spec, self.rows, states=True)
        self.layout = Layout(plan.sink)
        self.layout.save(JobFile(plan.job, "g", concealed(fingerprint(plan), plan, "s"), 2, None, salt="s"))
        for batch in range(small.BATCHES + 1):
            checkpoints.write(self.layout.root.parent / "in" / f"{batch}.csv", "")
        checkpoints.make(self.layout.home, batches=small.BATCHES + 1)
        self.warned: list[str] = []
        self.told: list[str] = []

    def boundary(self) -> Plan:
        """Take what waits, and return the plan."""
        text = SpecText(str(self.spec))
        plan, job = text.plan(), self.layout.known()
        writer = writer_for(plan.sink)
        context = RunContext(
            cast("Any", SimpleNamespace(session=None, local=False)),
            self.layout,
            writer,
            lambda _: None,
            Texts(self.warned.append, tell=self.told.append),
            lambda _: None,
        )
        live = LiveQueries(context, text.with_live)
        new = live.take(OpenedJob(plan, job, Sink(plan, writer, job.generation), False))
        assert new == load_plan(str(self.spec)) and fitting_job(new, self.layout) is not None
        assert check(new, self.layout, self.layout.known()).losses == []
        return new

    def file(self, text: str) -> str:
        path = self.spec.parent / "more.yaml"
        path.write_text(text)
        return str(path)

    def add(self, text: str = BEST, *how: str) -> int:
        return cli.main(["queries", "add", str(self.spec), self.file(text), *how])

    def listed(self, capsys: pytest.CaptureFixture[str]) -> dict[str, dict[str, Any]]:
        capsys.readouterr()
        assert cli.main(["queries", "list", str(self.spec), "--format", "json"]) == 0
        return {q["name"]: q for q in json.loads(capsys.readouterr().out)["queries"]}


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Made:
    return Made(tmp_path, monkeypatch)


def test_a_query_comes_is_exported_becomes_the_specs_own_and_goes(made: Made, capsys: pytest.CaptureFixture[str]) -> None:
    tables = {p.name for p in made.layout.root.iterdir()}
    assert made.add(BEST, "--from-now") == 0
    assert made.listed(capsys)["best"]["state"] == "waiting to be added"
    assert load_plan(str(made.spec)).live == NO_LIVE
    plan = made.boundary()
    assert [q.name for q in plan.queries] == ["far5", "near", "best"] and made.told[0].startswith("1 live query after batch 5: +best")
    assert not any_waiting(made.layout) and made.layout.known().new_states is not None
    row = made.listed(capsys)["best"]
    assert (row["origin"], row["state"], row["start"], row["changes"]) == ("live", "running", "from_now", 0)
    assert cli.main(["queries", "export", str(made.spec)]) == 0
    exported = capsys.readouterr().out
    assert "where: ts >= timestamp '" in exported
    text = made.spec.read_text()
    queries = exported[exported.index("queries:\n") + len("queries:\n") :]
    scoring = exported[exported.index("scoring:\n") + len("scoring:\n") : exported.index("queries:\n")]
    made.spec.write_text(text.replace("scoring:\n", f"scoring:\n{scoring}", 1).replace("queries:\n", f"queries:\n{queries}", 1))
    now_own = load_plan(str(made.spec))
    assert [q.in_spec for q in now_own.live.queries] == [True] and changed_since(now_own, made.layout) == []
    assert made.listed(capsys)["best"]["origin"] == "spec"
    made.layout.renew(now_own, made.layout.known())
    made.spec.write_text(text)
    assert changed_since(load_plan(str(made.spec)), made.layout) == ["queries.best was topk, now removed"]
    made.layout.renew(plan, made.layout.known())
    assert cli.main(["queries", "remove", str(made.spec), "best", "near"]) == 0
    plan = made.boundary()
    assert [q.name for q in plan.queries] == ["far5"] and plan.live.removed == ("near",) and plan.live.removed_at == small.BATCHES
    assert made.listed(capsys)["near"]["state"] == "removed"
    assert {p.name for p in made.layout.root.iterdir()} == {t for t in tables if not t.startswith("near")}
    assert made.add("queries:\n  near: {type: topk_pairs, scoring: far, k: 1}\n") == 2
    assert "SKY-E102" in (said := capsys.readouterr().err) or "SKY-E591 the spec still has the query 'near'" in said


def test_python_requests_the_same(made: Made) -> None:
    job = skyband.load(str(made.spec))
    job.add_query("best", {"type": "topk", "scoring": "steep", "k": 2}, {"steep": {"expression": "x", "direction": "max"}}, from_now=True)
    with pytest.raises(SpecErrors, match="SKY-E110"):
        job.add_query("other", {"type": "topk", "scoring": "steep", "kk": 2})
    job.remove_query("near")
    made.boundary()
    assert job.queries == ("far5", "best") and [q.state for q in job.live_queries()] == ["running", "running", "removed"]
    with pytest.raises(SkybandError, match="SKY-E591 the job has no query 'near'"):
        job.remove_query("near")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (BEST.replace("k: 2", "k: none"), "more.yaml:2:"),
        ("queries:\n  far5: {type: topk, scoring: steep, k: 2}\n" + BEST.partition("k: 2}\n")[2], "more.yaml:2:3"),
        (BEST + "source: {path: /etc}\n", "more.yaml:5:1 SKY-E590 a file of live queries has no section 'source'"),
        (BEST + "sink: {path: /tmp}\n", "SKY-E590"),
        (BEST + "include: [a.yaml]\n", "SKY-E590"),
        (BEST.replace("k: 2", "queries_from: {format: csv, path: /etc/passwd}"), "takes no table of queries"),
        (BEST.replace("k: 2", "k: '${HOME}'"), "takes no variables"),
        ("scoring: {}\n", "no section 'queries'"),
        ("queries: []\n", "SKY-E590"),
        ("- queries\n", "is a mapping"),
        ("queries: {best: {type: topk, scoring: nothing, k: 2}}\n", "more.yaml:1:"),
        ("queries:\n  best: {type: topk, scoring: steep, k: 2}\n", "more.yaml:2:"),
        (
            "queries:\n  stay: {type: topk_loyalty, of: near, object: older_id, k: 2, window: {time: 1 hour}}\n",
            "SKY-E591 query 'stay' takes the result of 'near'",
        ),
    ],
)
def test_what_is_wrong_with_a_file_is_reported_at_its_place_and_nothing_is_requested(
    made: Made, text: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert made.add(text) == 2
    assert said in capsys.readouterr().err.replace(f"{made.spec.parent}/", "") and not any_waiting(made.layout)


def test_a_job_that_is_not_there_takes_no_requests(made: Made, capsys: pytest.CaptureFixture[str]) -> None:
    made.layout.file.unlink()
    assert made.add() == 2 and "SKY-E591 the job has not run yet" in capsys.readouterr().err
    for names in (["nothing"], ["far5", "near"]):
        made.layout.save(JobFile("small", "g", {}, 2, None))
        assert cli.main(["queries", "remove", str(made.spec), *names]) == 2
        assert "SKY-E591" in capsys.readouterr().err
    assert made.add(str(made.spec) + ": [") == 2
    assert cli.main(["queries", "add", str(made.spec), "nowhere.yaml"]) == 2
    assert "SKY-E590 nowhere.yaml: no such file" in capsys.readouterr().err


def test_requests_that_no_longer_fit_are_refused_alone(made: Made, capsys: pytest.CaptureFixture[str]) -> None:
    at, text = now(), json.dumps({"queries": {"far5": {"type": "topk_pairs", "scoring": "far", "k": 2}}})
    ok = json.dumps({"queries": {"far1": {"type": "topk_pairs", "scoring": "far", "k": 1}}})
    put(made.layout, [Request("add", "far5", at, text), Request("remove", "gone", at), Request("add", "far1", at, ok, "from_now")], 0)
    (made.layout.requests / "9.json").write_text('{"do": "add", "name": "../x"}')
    plan = made.boundary()
    assert plan.live.names == ("far1",) and plan.live.taken == 3 and len(made.warned) == 2
    listed = made.listed(capsys)
    assert listed["far1"]["state"] == "running" and "already" in listed["far5"]["reason"]
    assert [r.number for r in peek(made.layout, 3)] == [1, 2] and (made.layout.requests / "9.json").exists()


def test_a_name_that_is_removed_comes_again_at_the_boundary_after(made: Made) -> None:
    assert made.add(BEST, "--from-now") == 0
    made.boundary()
    assert cli.main(["queries", "remove", str(made.spec), "best"]) == 0
    assert made.add(BEST.replace("k: 2", "k: 3"), "--from-now") == 0
    assert made.boundary().live.names == ()
    assert [q.k for q in made.boundary().queries] == [5, 3, 3] and not any_waiting(made.layout)


def test_numbers_are_not_given_again(made: Made) -> None:
    first = put(made.layout, [Request("remove", "near", now())] * 2, 0)
    job = made.layout.known()
    job.live = Live(taken=7)
    made.layout.save(job)
    assert first == [1, 2] and put(made.layout, [Request("remove", "near", now())], 0) == [8]
    assert [r.number for r in waiting(made.layout, 7)] == [8] and len(list(made.layout.requests.glob("*.json"))) == 1


def _query(**of: Any) -> LiveQuery:
    return LiveQuery(**({"name": "a", "text": '{"queries": {"a": {}}}', "start": "backfill", "since": "2026-01-01T00:00:00Z"} | of))


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: _query(name="a/b"),
        lambda: _query(text="x"),
        lambda: _query(text='{"queries": {"a": {}}, "source": {}}'),
        lambda: _query(text='{"queries": {"b": {}}}'),
        lambda: _query(text='{"queries": {"a": "' + "x" * 20_000 + '"}}'),
        lambda: _query(since="now"),
        lambda: Live((_query(), _query())),
        lambda: Live(removed=("..",)),
        lambda: Live(taken=-1),
    ],
)
def test_what_is_read_from_a_sink_is_bounded(wrong: Callable[[], object]) -> None:
    assert _query().name == "a"
    with pytest.raises(ValueError, match=r"."):
        wrong()


def test_a_job_file_with_other_sections_is_not_used(made: Made, capsys: pytest.CaptureFixture[str]) -> None:
    job = json.loads(made.layout.file.read_text())
    job["live"]["queries"] = [{"name": "a", "text": '{"queries": {"a": {}}, "source": {"path": "/"}}', "start": "backfill", "since": now()}]
    made.layout.file.write_text(json.dumps(job))
    assert cli.main(["status", str(made.spec)]) != 0
    assert "SKY-E303" in capsys.readouterr().err


GOOD = json.dumps(asdict(Request("remove", "near", "2026-01-01T00:00:00.000000Z")))
REFUSED = json.dumps(asdict(Request("remove", "gone", "2026-01-01T00:00:00.000000Z", refused="SKY-E591 it is gone")))
PLANTED = {
    "999999999999999999.refused.json": REFUSED, "9999999999999999999.refused.json": REFUSED, "999999999999999999.json": GOOD,
    "4611686018427387905.json": GOOD, "3000000.json": GOOD, "999999999999999999.refused.refused.json": "", f"{10**100}.json": GOOD,
    "0.json": GOOD, "01.json": GOOD, "1\u00b2.json": GOOD, "\u0661.json": GOOD, "-1.json": GOOD, "1.json.json": GOOD,
    "1.refused.json": "{}", "1.json": None, "2.json": "{", "3.json": REFUSED, "1.refused.json ": "", "2.refused.json": None,
    "4.refused.json": GOOD, "999999.json": "[]",
}  # fmt: skip
"""Name -> content (None: a directory)."""
ALONE = [name for name in PLANTED if name[0] in "1234" and len(name.partition(".")[0]) == 1]
"""The names of the next requests and of their notes: these would decide about each other."""
TOGETHER = [[name for name in PLANTED if name not in ALONE], *([name] for name in ALONE)]


@pytest.mark.parametrize("names", TOGETHER, ids=lambda names: names[0])
def test_what_is_no_request_is_left_alone_and_decides_nothing(made: Made, names: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    paths = {made.layout.requests / name: PLANTED[name] for name in names}
    made.layout.requests.mkdir()
    for path, text in paths.items():
        path.mkdir() if text is None else path.write_text(text)
    assert waiting(made.layout, 0) == []
    assert made.add(BEST, "--from-now") == 0
    assert made.listed(capsys)["best"]["state"] == "waiting to be added"
    plan = made.boundary()
    assert [q.name for q in plan.queries] == ["far5", "near", "best"] and 0 < plan.live.taken < 10
    assert made.listed(capsys)["best"]["state"] == "running" and waiting(made.layout, plan.live.taken) == []
    assert all(path.is_dir() if text is None else path.read_text() == text for path, text in paths.items())
    assert cli.main(["queries", "remove", str(made.spec), "best"]) == 0
    assert [q.name for q in made.boundary().queries] == ["far5", "near"]


def test_a_request_far_above_the_others_uses_up_no_numbers(made: Made) -> None:
    made.layout.requests.mkdir()
    (made.layout.requests / f"{AHEAD}.json").write_text(GOOD)
    with pytest.raises(SkybandError, match=rf"SKY-E591 .* has request {AHEAD}, and the last that the job has taken is 0"):
        put(made.layout, [Request("remove", "far5", now())], 0)
    assert made.boundary().live.taken == AHEAD
    assert put(made.layout, [Request("remove", "far5", now())], AHEAD) == [AHEAD + 1]


@pytest.mark.parametrize("planted", ["a file in the place of the directory", "a directory in the place of a note"])
def test_what_is_in_the_way_of_requests_is_named(made: Made, planted: str, capsys: pytest.CaptureFixture[str]) -> None:
    at = made.layout.requests
    if planted.startswith("a file"):
        at.write_text("")
        assert made.add() == 2 and f"SKY-E203 {at} cannot be written" in capsys.readouterr().err
    else:
        put(made.layout, [Request("remove", "gone", now())], 0)
        (at / "1.refused.json").mkdir()
        with pytest.raises(SkybandError, match=r"SKY-E203 .*1\.refused\.json cannot be written"):
            made.boundary()


def test_a_sink_on_object_storage_has_no_requests() -> None:
    layout = Layout("s3://bucket/job/out")
    assert not any_waiting(layout) and waiting(layout, 0) == [] and peek(layout, 0) == []


def test_a_name_that_a_live_query_has_is_said_to_be_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    made = Made(tmp_path, monkeypatch)
    (tmp_path / "best.yaml").write_text("# a line more\n" + BEST)
    assert cli.main(["queries", "add", str(made.spec), str(tmp_path / "best.yaml")]) == 0
    capsys.readouterr()
    assert cli.main(["queries", "add", str(made.spec), str(tmp_path / "best.yaml")]) == 2
    said = capsys.readouterr().err
    assert "best.yaml:3:3 SKY-E102 two queries named 'best', the first is a live query of the job" in said and "in line" not in said
    (tmp_path / "near.yaml").write_text("queries:\n  near: {type: topk, scoring: x, k: 2}\n")
    assert cli.main(["queries", "add", str(made.spec), str(tmp_path / "near.yaml")]) == 2
    line = made.spec.read_text().partition("  near: {type")[0].count("\n") + 1
    assert f"two queries named 'near', the first in {made.spec}:{line}" in capsys.readouterr().err
