"""Plans of queries over queries: fingerprints, growth, the text of ``explain``, the chart, edges."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from skyband.framework.base.errors import SkybandError
from skyband.framework.edges.message import message_of
from skyband.framework.plan.explain import explain, tables_of
from skyband.framework.plan.facts import facts
from skyband.framework.plan.fingerprint import compare, concealed, fingerprint
from skyband.framework.plan.graph import edges, mermaid, tables_of_query
from skyband.framework.plan.growth import additions, growth
from skyband.framework.plan.model import Plan
from tests.specs import plan_of_text

QUERIES = """\
  best: {type: topk, scoring: x, k: 3, carry: [user, x]}
  busy: {type: topk_groups, group: user, score: sum(x), k: 2}
  worst: {type: topk, from: best, scoring: again, k: 1, carry: [best_cause]}
  high: {type: threshold, from: best, scoring: again, at_least: 1}
  late: {type: topk, from: best, scoring: again, k: 2, where: "user <> 'me'", window: {time: 3 minutes}}
  steady: {type: topk_loyalty, of: busy, k: 1, window: {time: 30 minutes}}
  steadier: {type: topk_loyalty, of: steady, k: 1, window: {time: 50 minutes}}
"""
SPEC = f"""\
job: chains
source:
  format: csv
  path: in
  schema: {{id: bigint, ts: timestamp, grp: string, user: string, x: double}}
  id: [id]
  event_time: {{column: ts, watermark: 5 minutes}}
  partition_by: [grp]
window: {{time: 1 day}}
scoring:
  x: {{expression: x}}
  again: {{expression: best_score, direction: min}}
queries:
{QUERIES}run: {{buckets: 4}}
sink: {{path: out}}
"""


def differences(old: str, new: str) -> list[str]:
    assert old in SPEC
    kept = json.loads(json.dumps(fingerprint(plan_of_text(SPEC))))
    return compare(kept, fingerprint(plan_of_text(SPEC.replace(old, new, 1))))


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("again, k: 1", "again, k: 2", ["queries.worst.k was 1, now 2"]),
        ("{time: 3 minutes}", "{time: 4 minutes}", ["queries.late.window.time was 3 minutes, now 4 minutes"]),
        (", window: {time: 3 minutes}", "", ["queries.late.window was given, now while in best"]),
        (
            "of: busy, k", "of: best, object: user, k",
            ["queries.steady.of was busy, now best", "queries.steady.updates.name was in_busy, now in_best"],
        ),
        ("carry: [user, x]", "carry: [user]", ["queries.best.carry was [user, x], now [user]"]),
        ("user <> 'me'", "user <> 'you'", ["queries.late.where was user <> 'me', now user <> 'you'"]),
    ],
)  # fmt: skip
def test_a_change_of_a_chained_query_is_named(old: str, new: str, said: list[str]) -> None:
    assert differences(old, new) == said


def test_entries_may_change_places() -> None:
    lines = QUERIES.splitlines(keepends=True)
    moved = "".join([lines[1], lines[0], lines[6], lines[5], lines[4], lines[3], lines[2]])
    plan = plan_of_text(SPEC.replace(QUERIES, moved))
    assert differences(QUERIES, moved) == []
    assert {s.name for s in plan.streams} == {s.name for s in plan_of_text(SPEC).streams}


def test_a_stream_is_part_of_the_fingerprint_and_a_job_without_one_has_none() -> None:
    found = fingerprint(plan_of_text(SPEC))
    assert found["streams"]["best.high"] == {
        "of": "best", "takes": "entries", "objects": [], "window": {"count": None, "time": "86,400,000,001 microseconds"},
        "renewed": "86,400,000,001 microseconds", "texts": ["-"],
    }  # fmt: skip
    assert found["streams"]["best.late"]["texts"] == ["-", "me"] and found["streams"]["busy.steady"]["objects"] == ["user"]
    changed = json.loads(json.dumps(found))
    changed["streams"]["best.high"]["renewed"] = "1 day"
    assert compare(changed, found) == ["streams.best.high.renewed was 1 day, now 86,400,000,001 microseconds"]
    text = SPEC.replace(QUERIES, "".join(QUERIES.splitlines(keepends=True)[:2]))
    own = plan_of_text(text.replace("  again: {expression: best_score, direction: min}\n", ""))
    assert "streams" not in fingerprint(own)


def test_what_a_chained_query_takes_from_the_environment_is_concealed() -> None:
    plan = replace(plan_of_text(SPEC), variables=((("queries", "late", "where"), "${WHERE}"),))
    kept = json.dumps(concealed(fingerprint(plan), plan, "salt"))
    assert "'me'" not in kept and '"me"' not in kept
    assert compare(json.loads(kept), concealed(fingerprint(plan), plan, "salt"), "salt") == []


def test_a_job_with_streams_cannot_be_split() -> None:
    plan, more = plan_of_text(SPEC), plan_of_text(SPEC.replace("buckets: 4", "buckets: 8"))
    found = growth(concealed(fingerprint(plan), plan, "s"), more, "s")
    assert found is not None and found.error is not None and found.error.code == "SKY-E650"
    said = (
        "run.buckets was 4, now 8: the states of queries over the results of others (worst, high, late, steady, steadier) cannot be divided"
    )
    assert found.error.message == said and found.error.hint == "skyband rebuild SPEC takes any number"


def test_additions_know_chained_queries() -> None:
    before = plan_of_text(SPEC.replace(QUERIES.splitlines()[6] + "\n", ""))
    found = additions(concealed(fingerprint(before), before, "s"), plan_of_text(SPEC), "s")
    assert found is not None and found.queries == found.states == ("steadier",) and not found.again


def test_explain_shows_what_each_query_takes() -> None:
    plan = plan_of_text(SPEC)
    text = explain(plan)
    columns = (
        "grp string, id bigint, best_seq bigint, best_time timestamp, user string, x double, best_score double, best_change string, "
        "best_cause string, best_at timestamp"
    )
    for part in (
        f"result   best: entries as rows, for worst, high\n         columns {columns}\n         window while in best; 3 items per key",
        "window 3 minutes, and while in best; 3 items per key at a time\n  state late: topk, K = 2, N = 3 minutes",
        "state worst: topk, K = 1, while in best",
        "answers   worst: k = 1, while in best, changes after every event",
        "result   busy: members as reports on user, for steady\n         columns grp string, user string, in_busy boolean, busy_at",
        "on        while in busy",
        "answers   steady: k = 1, window 30 minutes",
        "keeps     the stream's rows; no skyband table",
    ):
        assert part in text, part
    assert "1,000 years" not in text and "microsecond" not in text
    assert tables_of(plan)[-8:-5] == ["steadier_now", "steadier_trajectory", "heads"]


def test_a_program_sees_the_streams() -> None:
    found = facts(plan_of_text(SPEC))
    streams: dict[str, Any] = {s["name"]: s for s in found["streams"]}
    assert list(streams) == ["best.high", "best.late", "busy.steady", "steady.steadier"]
    assert [s["window"] for s in streams.values()] == [None, {"rows": None, "seconds": 180.0}, None, None]
    assert streams["busy.steady"] | {"columns": 0} == {
        "name": "busy.steady", "of": "busy", "takes": "members", "objects": ["user"], "columns": 0, "window": None, "queries": ["steady"],
    }  # fmt: skip
    queries = {q["name"]: q for q in found["queries"]}
    assert [q["stream"] for q in queries.values()] == [
        None, None, "best.high", "best.high", "best.late", "busy.steady", "steady.steadier",
    ]  # fmt: skip
    assert queries["worst"]["window"] is None and queries["steady"]["window"] == {"rows": None, "seconds": 1800.0}
    assert {s["name"]: s["stream"] for s in found["states"]}["late"] == "best.late"


def test_entries_that_loyalty_takes_stay_as_long_as_their_items() -> None:
    loyal = "type: topk_loyalty, object: user, k: 1, window: {time: 3 minutes}, "
    more = f"  liked: {{{loyal}from: best, criteria: best_score > 1}}\n  pairs: {{type: matches, scoring: gap, k: 1, carry: [user]}}\n"
    more += f"  met: {{{loyal.replace('user', 'newer_user')}from: pairs, criteria: pairs_score > 1}}\n"
    plan = plan_of_text(SPEC.replace("run:", f"{more}run:").replace("  x: {", "  gap: {expression: abs(a.x - b.x)}\n  x: {"))
    streams = {s.name: s for s in plan.streams}
    assert all(streams[n].renewed is None and not streams[n].bounded for n in ("best.liked", "pairs.met"))
    text = explain(plan)
    assert "best: entries as rows, for liked" in text and "         window while in best; 3 items per key at a time\n  state liked" in text
    assert "         window none: items of pairs never leave\n  state met: topk_loyalty, K = 1, N = 3 minutes" in text
    assert [s["window"] for s in facts(plan)["streams"] if s["name"] in ("best.liked", "pairs.met")] == [None, None]
    assert [q["window"]["seconds"] for q in facts(plan)["queries"] if q["name"] in ("liked", "met")] == [180.0, 180.0]


def test_the_chart_has_an_edge_from_a_query_to_the_states_over_its_result() -> None:
    plan = plan_of_text(SPEC)
    drawn = {(e.start.lines[0], e.end.lines[0]) for e in edges(plan)}
    takes = [(s.of, f"state {o.name}") for s in plan.streams for o in s.plan.operators]
    assert {("best", "state worst"), ("best", "state late"), ("steady", "state steadier")} <= {*takes} <= drawn
    assert {(q.name, tables_of_query(q)[0]) for q in plan.every_query} <= drawn
    assert 'query1 --> state5["state steady<br/>takes members"]' in mermaid(plan)


def test_an_edge_does_not_filter_for_chained_queries() -> None:
    with pytest.raises(SkybandError, match="it has queries over the results of others") as found:
        message_of(plan_of_text(SPEC))
    assert found.value.code == "SKY-E704"


def test_every_query_is_in_one_plan() -> None:
    plan: Plan = plan_of_text(SPEC)
    assert [q.name for q in plan.every_query] == ["best", "busy", "worst", "high", "late", "steady", "steadier"]
    assert all(q in plan.of(q.name).queries for q in plan.every_query)
