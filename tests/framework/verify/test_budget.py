"""How much ``verify`` recomputes: limits, time (of a clock that tests move), the order of instants, what the output says of it."""

from __future__ import annotations

import io
import json
import math
import shutil
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from skyband.framework.base.errors import SkybandError
from skyband.framework.console.lines import JsonLines, Lines
from skyband.framework.plan.model import Plan
from skyband.framework.verify import verification
from skyband.framework.verify.brute_force.objects import MAX_PAIRS, Work
from skyband.framework.verify.brute_force.sample import Compared, compare_rows
from skyband.framework.verify.budget import Budget, Progress, Sample
from skyband.framework.verify.differences import Difference
from skyband.framework.verify.replay.causes import Clocks
from skyband.framework.verify.replay.replay import replay
from skyband.framework.verify.shares import Share, summary, total_by_kind
from skyband.framework.verify.stored import Stored
from skyband.jobs.cli import main
from skyband.jobs.reading.verify import lines_of
from tests.framework.verify import small, test_corruptions
from tests.framework.verify.test_corruptions import SOURCE


class Hands:
    """A clock that goes on by ``each`` seconds whenever it is read."""

    def __init__(self, each: float = 0.0) -> None:
        self.now = 0.0
        self.each = each

    def __call__(self) -> float:
        self.now += self.each
        return self.now


@pytest.fixture
def keyed() -> Plan:
    return test_corruptions.job("keyed")


def compared(plan: Plan, sample: Sample, budget: Budget) -> Compared:
    stored = Stored(plan)
    source = small._rows(plan, SOURCE["keyed"]).select([f.name for f in plan.intake.fields])
    return compare_rows(stored, Clocks(stored), source, sample, budget)


@pytest.mark.parametrize(
    ("limits", "said"),
    [
        ({"keys": 0}, "--keys 0 is out of range"),
        ({"keys": 10**7}, "--keys 10,000,000 is out of range"),
        ({"instants": 10**20}, "--instants 100,000,000,000,000,000,000 is out of range"),
        ({"instants": -1}, "--instants -1 is out of range"),
        ({"instants": 10**5000}, "--instants with more than 30 digits is out of range"),
        ({"seconds": 0.0}, "--seconds 0 is out of range"),
        ({"seconds": float("nan")}, "--seconds nan is out of range"),
        ({"seconds": float("inf")}, "--seconds inf is out of range"),
        ({"everything": True, "instants": 3}, "--all cannot be combined with limits"),
        ({"everything": True, "seconds": 3.0}, "--all cannot be combined with limits"),
    ],
)
def test_limits_out_of_range_are_refused(limits: dict[str, Any], said: str) -> None:
    with pytest.raises(SkybandError) as e:
        Sample(**limits)
    assert (e.value.code, e.value.message) == ("SKY-E201", said) and e.value.hint


def test_the_command_refuses_them(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", "none.yaml", "--instants", "1" + "0" * 20]) == 2
    told = capsys.readouterr()
    assert "SKY-E201" in told.err and "Traceback" not in told.err


def test_what_limits_a_sample() -> None:
    assert (Sample().limit, Sample().most_keys) == (30.0, None)
    assert (Sample(instants=5).limit, Sample(instants=5).most_keys) == (None, 5)
    assert (Sample(instants=5, seconds=7).limit, Sample(instants=5, seconds=7).most_keys) == (7, None)
    assert (Sample(keys=3).limit, Sample(keys=3).most_keys) == (30.0, 3)
    assert (Sample(everything=True).limit, Sample(everything=True).most_keys) == (None, None)


def test_samples_get_what_is_left_and_a_third_at_least() -> None:
    clock = Hands()
    budget = Budget(30, clock)
    clock.now = 10
    budget.sampling()
    half = budget.half()
    assert not half() and not budget.late()
    clock.now = 20
    assert half() and not budget.late()
    clock.now = 29
    budget.sampling()
    clock.now = 38.9
    assert not budget.late()
    clock.now = 39
    assert budget.late() and budget.spent == 39
    assert not Budget(None, clock).late()


def test_work_is_refused_once_it_is_late() -> None:
    clock = Hands()
    work = Work(late=lambda: clock.now > 1)
    assert work.take(5) and not work.take(MAX_PAIRS + 1)
    clock.now = 2
    assert not work.take(1)


def test_a_sample_ends_when_its_time_is_over(keyed: Plan) -> None:
    few, more = (compared(keyed, Sample(seconds=s), Budget(s, Hands(1.0))) for s in (300, 1500))
    assert len(keyed.queries) <= few.results < more.results and few.differences == more.differences == []
    of_few, of_more = ({(s.kind, s.query): s for s in c.shares} for c in (few, more))
    assert of_few.keys() == of_more.keys() and all(of_few[k].proven <= of_more[k].proven for k in of_few)
    assert all(s.proven < s.total for s in of_few.values() if s.kind == "results" and s.query not in ("sides", "busy"))
    # Queries take turns: none has been left out.
    assert all(s.proven > 0 for s in of_few.values() if s.kind == "results" and s.query != "many"), of_few


def test_the_same_seed_looks_at_the_same_instants(keyed: Plan) -> None:
    same = [compared(keyed, Sample(instants=4, seed=3), Budget(None)) for _ in range(2)]
    other = compared(keyed, Sample(instants=4, seed=4), Budget(None))
    of_groups = {s.query: s.proven for s in same[0].shares if s.kind == "results" and s.query in ("sides", "busy")}
    events = 4 * 3 * (len(keyed.queries) - len(of_groups)) + sum(of_groups.values())
    assert same[0].shares == same[1].shares and same[0].results == same[1].results == events
    assert other.shares != same[0].shares


def test_one_instant_of_every_query_is_looked_at_however_late_it_is(keyed: Plan) -> None:
    late = Budget(0.001, Hands(1000.0))
    found = compared(keyed, Sample(seconds=0.001), late)
    assert (found.keys, found.results, found.skipped) == (1, len(keyed.queries), 0)


def test_shares_say_what_is_proof_and_what_is_sample() -> None:
    shares = [
        Share("changes", "a", 7, 7), Share("changes", "b", 5, 5), Share("batches", None, 1, 1), Share("scores", "a", 12, 12),
        Share("results", "a", 37, 4600), Share("results", "b", 0, 4600), Share("steps", "a", 4599999, 4600000),
    ]  # fmt: skip
    assert [s.text() for s in total_by_kind(shares)] == [
        "proof: changes replayed: all 12 changes",
        "proof: row counts reconciled: 1 batch",
        "proof: scores of changes recomputed from the source: all 12 changes of a",
        "sample: results recomputed from the source: 37 of 9,200 events (0.4 %)",
        "sample: steps recomputed from the source, event by event: 4,599,999 of 4,600,000 steps (99.9 %) of a",
    ]
    assert summary(shares) == (
        "all 12 changes replayed; sample of results recomputed from the source: a (0.8 % of 4,600 events, scores of all changes proven), "
        "b (0.0 % of 4,600 events)"
    )
    mixed = [*shares[:3], Share("results", "a", 9, 9), Share("results", "b", 1, 10)]
    assert [s.text() for s in total_by_kind(mixed)][-2:] == [
        "proof: results recomputed from the source: all 9 events of a",
        "sample: results recomputed from the source: 1 of 10 events (10.0 %) of b",
    ]
    assert summary(mixed) == (
        "all 12 changes replayed; proof, every result recomputed from the source: a; sample of results recomputed from the source: "
        "b (10.0 % of 10 events)"
    )
    assert (shares[0].text(differs=True), shares[4].text(differs=True).split(":")[0]) == (
        "complete: changes replayed: all 7 changes of a", "sample",
    )  # fmt: skip
    assert shares[4].plain() == {
        "kind": "results", "query": "a", "proven": 37, "of": 4600, "share": 0.008043, "complete": False, "taken": None,
    }  # fmt: skip
    chained = [*shares, Share("results", "c", 3, 4, "a"), Share("results", "d", 1, 1, "b")]
    assert [s.text() for s in total_by_kind(chained)][-2:] == [
        "proof: results recomputed from the results that queries take: 1 event of d",
        "sample: results recomputed from the results that queries take: 3 of 4 events (75.0 %) of c",
    ]
    assert summary(chained).endswith(
        "; proof, every result recomputed from the results that queries take: d; sample of results recomputed from the results that "
        "queries take: c (75.0 % of 4 events)"
    )
    assert Share("results", "a", 1, 10**9).text().endswith("(below 0.1 %) of a") and not Share("results", "a", 0, 5).complete


@pytest.fixture
def without_job_file(keyed: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    """``verify`` as of a job that ran through Spark: its files are as they must be, and its source is at hand."""

    class Kept:
        losses, ahead = (), None

    monkeypatch.setattr(verification.Layout, "known", lambda self: None)
    monkeypatch.setattr(verification, "changed_since", lambda plan, layout: [])
    monkeypatch.setattr(verification, "look", lambda plan, layout, job: Kept)
    source = small._rows(keyed, SOURCE["keyed"]).select([f.name for f in keyed.intake.fields])
    monkeypatch.setattr(
        verification,
        "compare",
        lambda stored, clocks, layout, job, sample, budget, progress: compare_rows(stored, clocks, source, sample, budget),
    )


@pytest.mark.usefixtures("without_job_file")
def test_the_last_line_says_what_share_was_proven(keyed: Plan) -> None:
    out = io.StringIO()
    found = verification.verify(keyed, Sample(instants=2), Lines(io.StringIO(), out))
    lines = out.getvalue().splitlines()
    assert found.ok and [p["said"] for p in found.parts] == lines
    changes = sum(s["proven"] for s in found.shares if s["kind"] == "changes")
    results = {s["query"]: s for s in found.shares if s["kind"] == "results"}
    proofs = [name for name, s in results.items() if s["complete"]]
    assert proofs == ["sides", "busy"]
    assert lines[-1].startswith(
        f"verified: no difference found: all {changes:,} changes replayed; proof, every result recomputed from the source: sides, busy; "
        "sample of results recomputed from the source: "
    )
    for name in results.keys() - {*proofs}:
        assert f"{name} ({100 * results[name]['proven'] / results[name]['of']:.1f} % of {results[name]['of']:,} events" in lines[-1]
    said = [line.split(":")[0] for line in lines[:-1] if line.startswith(("proof", "sample"))]
    assert said == ["proof", "proof", "proof", "proof", "proof", "sample", "proof", "sample", "proof"]
    assert {s["kind"] for s in found.shares} == {"changes", "batches", "rows", "scores", "results", "steps", "points"}


@pytest.mark.usefixtures("without_job_file")
def test_nothing_is_a_proof_where_something_differs(keyed: Plan, tmp_path: Path) -> None:
    shutil.copytree(keyed.sink, tmp_path / "out")
    plan, out = replace(keyed, sink=str(tmp_path / "out")), io.StringIO()
    small.altered(plan, "best", lambda rows: rows[1:])
    found = verification.verify(plan, Sample(instants=2), Lines(io.StringIO(), out))
    assert not found.ok and found.differences and "DIFFERENT" in out.getvalue().splitlines()[-1] and "proof" not in out.getvalue()
    small.altered(plan, "best_changes", lambda rows: [{**r, "step": None} for r in rows])
    found = verification.verify(plan, Sample(instants=2), Lines(io.StringIO(), out := io.StringIO()))
    assert out.getvalue().splitlines()[0] == "DIFFERENT" and "a value is missing: step" in out.getvalue()
    assert out.getvalue().splitlines()[-1] == f"DIFFERENT: {found.differences} difference found"
    assert [(k["count"], k["kind"]) for k in found.kinds] == [(1, "table best_changes: a value is missing: step")]


@pytest.mark.usefixtures("without_job_file")
def test_nothing_is_verified_if_the_time_is_over_before_anything_is_compared(keyed: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    """The replay of a first key is needed for a verdict without the source."""
    monkeypatch.setattr(verification, "compare", lambda *_: Compared(missing="the time was over", out_of_time=True))
    none = verification.verify(keyed, Sample(seconds=1), Lines(io.StringIO(), io.StringIO()), Hands(100.0))
    assert not none.ok and none.unproved == "the time was over before anything was compared"
    assert all(s["proven"] == 0 for s in none.shares if s["kind"] == "changes")
    some = verification.verify(keyed, Sample(seconds=1000), Lines(io.StringIO(), io.StringIO()), Hands(0.01))
    assert some.ok and some.unproved is None


def test_a_file_of_differences_has_lines_of_json() -> None:
    def refused(text: str) -> None:
        raise AssertionError(text)

    at = datetime(2026, 1, 5, 10, tzinfo=UTC)
    row = {"valid_from": at, "day": date(2026, 1, 5), "amount": Decimal("1.50"), "score": math.nan}
    text = lines_of("flights", [Difference("table best", "its score differs", [row], [{**row, "score": math.inf}], 0)])
    head, line = (json.loads(x, parse_constant=refused) for x in text.splitlines())
    assert head == {"verified": "flights", "differences": 1} and line["at"] == "1970-01-01 00:00:00 UTC"
    assert line["expected"] == [{"valid_from": "2026-01-05T10:00:00.000000Z", "day": "2026-01-05", "amount": "1.50", "score": "nan"}]
    assert line["found"][0]["score"] == "inf"


@pytest.mark.usefixtures("without_job_file")
def test_everything_is_a_proof_and_json_has_its_figures(keyed: Plan) -> None:
    err = io.StringIO()
    found = verification.verify(keyed, Sample(everything=True), JsonLines(err))
    told = [json.loads(line) for line in err.getvalue().splitlines()]
    proven = [t for t in told if t["event"] == "proven"]
    assert found.ok and all(s["complete"] for s in found.shares)
    assert all(t["complete"] and t["share"] == 1.0 and t["message"].startswith("proof: ") for t in proven) and len(proven) == 7
    without = verification.verify(keyed, None, JsonLines(io.StringIO()))
    assert without.ok and {s["kind"] for s in without.shares} == {"changes", "batches"}


def test_a_stage_that_takes_long_has_one_line_with_share_and_forecast() -> None:
    err, clock = io.StringIO(), Hands()
    progress = Progress(Lines(err), clock=clock)
    waits = iter([3, 20, 3, 20, 3, 20])
    begun = iter([("first", None, None), None, ("second", lambda: (25, 100), None), None, ("third", lambda: (0, 10), 90.0), None])

    def wait_longer(seconds: float) -> bool:
        stage = next(begun, "over")
        if stage == "over":
            return True
        if stage is not None:
            progress.doing(*stage)
        clock.now += next(waits)
        return False

    progress._wait = wait_longer
    progress.report()
    assert err.getvalue().splitlines() == [
        "verify: first", "verify: second: 25 %, about 9 seconds left", "verify: third: 0 %, about 87 seconds left",
    ]  # fmt: skip
    assert progress.now() == "verify: third: 0 %, about 67 seconds left"


def test_progress_ends_with_what_it_is_about(tmp_path: Path) -> None:
    err = io.StringIO()
    with Progress(Lines(err)) as progress:
        progress.doing("something short")
    assert not progress._thread.is_alive() and err.getvalue() == ""


def test_a_limit_that_was_asked_for_holds_for_everything(keyed: Plan) -> None:
    """The clock goes on by a second whenever it is read: in all of the time, and not much more, something has been done."""
    stored = Stored(keyed)
    source = small._rows(keyed, SOURCE["keyed"]).select([f.name for f in keyed.intake.fields])
    for limit in (20, 200, 2000):
        clock = Hands(1.0)
        budget = Budget(limit, clock, asked=True)
        budget.replaying(alone=False)
        replayed = [replay(stored, q, Clocks(stored), budget) for q in keyed.queries]
        after_replay = clock.now
        found = compare_rows(stored, Clocks(stored), source, Sample(seconds=limit), budget)
        assert after_replay <= limit * 0.75 + 10 and clock.now <= limit * 1.2 + 10, (limit, after_replay, clock.now)
        assert all(not r.differences and r.changes <= r.total for r in replayed) and found.differences == []
        assert any(r.changes < r.total for r in replayed) == (limit < 2000)


def test_a_limit_that_was_not_asked_for_leaves_nothing_out(keyed: Plan) -> None:
    stored, budget = Stored(keyed), Budget(20, Hands(1.0))
    budget.replaying(alone=False)
    assert all(r.changes == r.total for r in (replay(stored, q, Clocks(stored), budget) for q in keyed.queries))
