"""``skyband why`` of queries over queries: each change names the change of the taken query that caused it, down to the source's rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from skyband.framework.plan.model import Plan
from skyband.framework.streaming.job.layout import Layout
from skyband.framework.verify.brute_force.query_rows import Results
from skyband.framework.verify.brute_force.stream_rows import StreamRows
from skyband.framework.verify.stored import Stored
from skyband.framework.why import history as module
from skyband.framework.why.chain import Cause, Chain
from skyband.framework.why.history import StreamAnswers
from skyband.framework.why.item import item_of
from tests.framework.verify import chained, small
from tests.spark.jobs import stamp, write_spec

Row = dict[str, Any]
TALKERS = """\
  talkers: {type: topk_groups, group: side, score: sum(x), k: 1}
  steady: {type: topk_loyalty, of: talkers, k: 1, window: {time: 90 minutes}}
  latest: {type: topk, from: talkers, scoring: newest, k: 1}
"""
SCORING = '  newest: {expression: "talkers_score"}\n'


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> Plan:
    return chained.make(tmp_path_factory.mktemp("why") / "job", chained.rows_of(1))


def query(plan: Plan, name: str) -> Any:
    return next(q for q in plan.every_query if q.name == name)


def lines(plan: Plan, name: str, item: str, rows: list[list[object]], monkeypatch: pytest.MonkeyPatch) -> module.History:
    source = small._rows(plan, rows).select([f.name for f in plan.intake.fields])
    monkeypatch.setattr(module, "taken_rows", lambda *_: source)
    found = item_of(plan.of(name), query(plan, name), [item])
    return module.history(plan, query(plan, name), found, None, Layout(plan.sink), None, None)  # type: ignore[arg-type]


def test_the_history_names_causes_down_to_the_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows: list[list[object]] = [[1, stamp(0), "p", 5, 0, "a"], [2, stamp(10), "p", 7, 0, "b"], [3, stamp(100), "p", 1, 0, "b"]]
    spec = write_spec(tmp_path, "{time: 60 minutes}", TALKERS, "0 minutes", scoring=SCORING)
    plan = small.make(spec, rows)
    found = lines(plan, "latest", "a", rows, monkeypatch)
    assert found.lines[:7] == [
        "2020-01-01 00:00:00 UTC  entered at rank 1 (arrival): side a; score 5",
        "    because it entered talkers (arrival) at this instant",
        "        when the row arrived with id 1",
        "    best rank 1, before it left 1",
        "2020-01-01 00:00:00 UTC  in the result, at rank 1 of 1; score 5",
        "2020-01-01 00:10:00 UTC  left (delete)",
        "    because it left talkers (displaced) at this instant",
    ]
    assert found.lines[7] == "        when the row arrived with id 2"
    assert [(b["change"], b["cause"], b["because"][0]["query"]) for b in found.because] == [
        ("+", "arrival", "talkers"), ("-", "delete", "talkers"),
    ]  # fmt: skip
    steady = lines(plan, "steady", "a", rows, monkeypatch).lines
    assert steady[0].startswith("2020-01-01 00:00:00 UTC  entered (")
    assert "    because it entered talkers (arrival) at this instant" in steady
    assert any("    it left talkers (displaced) at 2020-01-01 00:10:00 UTC" in line for line in steady)
    never = lines(plan, "latest", "c", rows, monkeypatch).lines
    assert never == ["never in the result", "it never was in the result of talkers, which latest takes"]


def test_rows_that_the_job_rejected_are_named_and_change_no_verdict(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    good: list[list[object]] = [[1, stamp(0), "p", 5, 0, "a"], [2, stamp(10), "p", 7, 0, "b"], [3, stamp(100), "p", 1, 0, "b"]]
    late: list[object] = [4, stamp(5), "p", 9, 0, "a"]
    pairs = "  high: {type: topk, scoring: far1, k: 2, carry: [side]}\n  two: {type: topk_pairs, from: high, scoring: gap, k: 1}\n"
    scoring = SCORING + '  far1: {expression: "x"}\n  gap: {expression: "abs(a.high_score - b.high_score)"}\n'
    found = {}
    for name, rows in (("good", good), ("bad", [*good, [2, stamp(101), "p", 7, 0, "b"], late])):
        (tmp_path / name).mkdir()
        plan = small.make(write_spec(tmp_path / name, "{time: 200 minutes}", TALKERS + pairs, "0 minutes", scoring=scoring), rows)
        reasons = Stored(plan).table("rejected")["reason"].to_pylist()
        assert sorted(reasons) == ([] if name == "good" else ["duplicate_id", "late"])
        asked = (("latest", "a"), ("steady", "a"), ("two", "1"), ("talkers", "a"))
        found[name] = {q: lines(plan, q, item, rows, monkeypatch).lines for q, item in asked}
    said = "was rejected, reason late"
    for name, those in found["bad"].items():
        told = [line for line in those if said in line]
        assert len(told) == (name != "two")
        if name != "two":  # two has the newest instant of the job in its verdict
            assert [line for line in those if line not in told][:3] == found["good"][name][:3]


def entered(cause: Cause) -> bool:
    return cause.change == "+"


def test_causes_are_changes_of_the_same_instant_and_item(plan: Plan) -> None:
    stored = Stored(plan)
    chain = Chain(stored, None)
    seen = set()
    for name in ("worst", "third", "late", "shown", "high"):
        taken = next(s.of for s in plan.streams if any(q.name == name for q in s.plan.queries))
        rows = chain._of(name).stream
        for i, row in enumerate(rows.rows.to_pylist()):
            causes = chain.causes(name, i)
            if row["cause"] in ("arrival", "delete") and causes:
                seen.add((name, row["cause"]))
                (one,) = causes
                assert one.same and entered(one) == (row["cause"] == "arrival") and one.at == rows.at[i] and one.query == taken
                assert all(row[c] == v for c, v in one.item.items() if c in row)
            elif row["cause"] in ("arrival", "delete"):
                # A group whose score is another: its row gives way to another row at an instant at which it neither enters nor leaves.
                said = chain.replaced(name, i) or ""
                assert said.startswith("its score in busy changed" if name == "high" else "its row was entered again"), (name, said)
            assert all(c.at <= rows.at[i] for c in causes)
    assert {("worst", "arrival"), ("worst", "delete"), ("third", "arrival"), ("high", "arrival")} <= seen
    deep = [c for i in range(chain._of("third").stream.rows.num_rows) for c in chain.causes("third", i) if c.because]
    assert any(c.query == "worst" and c.because[0].query == "best" for c in deep)


@pytest.mark.parametrize("name", ["worst", "late", "high", "third"])
def test_verdicts_are_those_of_the_tables(plan: Plan, name: str) -> None:
    node = next(s for s in plan.streams if any(q.name == name for q in s.plan.queries))
    stored = Stored(plan).part(node.plan)
    made = StreamRows(stored, node)
    answers, results = StreamAnswers(stored, query(plan, name), made), Results(stored, query(plan, name))
    (logical,) = query(plan, name).asked or (None,)
    checked = set()
    for key in stored.until:
        time = made.accepted(key).time
        for at in sorted(set(time))[:12]:
            inside = {item for item, _ in results.at(key, at)}
            for seq in range(len(time)):
                verdict = answers.verdict(key, [seq], at, logical)
                assert verdict.inside == ((seq,) in inside), (key, seq, at, verdict.said)
                checked.add(verdict.said.split()[0])
    assert len(checked) > 2


def test_a_query_that_takes_the_source_has_no_causes_in_results(plan: Plan) -> None:
    assert Chain(Stored(plan), None).causes("best", 0) == ()
