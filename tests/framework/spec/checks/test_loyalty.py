"""Mistakes of entries about loyalty: the code, the marked text, the hint; what they share; what changes a job's state."""

from __future__ import annotations

import pytest

from skyband.framework.plan.compile import compile_job
from skyband.framework.plan.explain import explain
from skyband.framework.plan.fingerprint import compare, fingerprint
from skyband.framework.spec.load import validate_text
from tests.specs import plan_of_text

SPEC = """\
job: rain
source:
  format: json
  path: in
  schema:
    {id: bigint, ts: timestamp, station: string, region: string, mm: double, state: string, on_off: int, wet: boolean, tags: array<string>}
  id: [id]
  event_time: {column: ts}
window: {time: 30 days}
queries:
  rainiest: {type: topk_loyalty, object: station, criteria: mm > 0, stale_after: 2 hours, k: 3}
  steady: {type: threshold_loyalty, object: station, criteria: "mm>0", stale_after: 120 minutes, at_least: 7 days, trace: all}
  daily: {type: topk_loyalty, object: [region, station], updates: on_off, k: 2, window: {time: 1 day}, every: 1 hour}
sink: {path: out}
quality:
  tables:
    - {table: steady_trajectory, expectation: expect_column_values_to_not_be_null, column: slope}
"""

MISTAKES = [
    ("object: station, criteria: mm", "object: statoin, criteria: mm", "SKY-E120", "statoin", "did you mean 'station'?"),
    ("object: [region, station]", "object: [region, statoin]", "SKY-E120", "statoin", "did you mean 'station'?"),
    ("object: [region, station]", "object: []", "SKY-E114", "[]", None),
    ("object: [region, station]", "object: 3", "SKY-E104", "3", "quote it"),
    ("object: station, criteria: mm", "criteria: mm", "SKY-E111", "rainiest", None),
    ("object: [region, station]", "object: [station, station]", "SKY-E125", "station", None),
    ("object: [region, station]", "object: mm", "SKY-E126", "mm", "cast(mm as string)"),
    ("object: [region, station]", "object: tags", "SKY-E126", "tags", None),
    ("criteria: mm > 0", "criteria: mn > 0", "SKY-E130", "mn", None),
    ("criteria: mm > 0", "criteria: mm + 1", "SKY-E130", "mm + 1", None),
    ("criteria: mm > 0, ", "", "SKY-E111", "rainiest", "criteria: temp > 30"),
    ("criteria: mm > 0", "criteria: mm > 0, updates: wet", "SKY-E117", "updates", "keep one"),
    ("updates: on_off", "updates: on_of", "SKY-E120", "on_of", "did you mean 'on_off'?"),
    ("updates: on_off", "updates: state", "SKY-E126", "state", "state = 'on'"),
    ("updates: on_off", "updates: mm", "SKY-E126", "mm", "criteria"),
    ("stale_after: 2 hours", "stale_after: 0 hours", "SKY-E115", "0 hours", "30 seconds"),
    ("stale_after: 2 hours", "stale_after: 2", "SKY-E115", "2", "30 seconds"),
    ("stale_after: 2 hours", "stale: 2 hours", "SKY-E110", "stale", "stale_after"),
    ("updates: on_off, k: 2", "updates: on_off, held: stat, k: 2", "SKY-E120", "stat", "did you mean 'state'?"),
    ("updates: on_off, k: 2", "updates: on_off, held: on_off, k: 2", "SKY-E126", "on_off", "a string column"),
    ("stale_after: 2 hours, k: 3", "stale_after: 2 hours, held: state, k: 3", "SKY-E117", "held", "leave one of them out"),
    ("updates: on_off, k: 2", "updates: on_off, held: state, trace: all, k: 2", "SKY-E117", "held", "leave one of them out"),
    ("updates: on_off, k: 2, window: {time: 1 day}", "updates: on_off, held: state, k: 2", "SKY-E117", "held", "leave one of them out"),
    ("at_least: 7 days", "at_least: 31 days", "SKY-E114", "31 days", "at most 30 days"),
    ("at_least: 7 days", "at_least: 2 days, window: {time: 1 day}", "SKY-E114", "2 days", "at most 1 day"),
    ("at_least: 7 days", "at_least: 0 days", "SKY-E115", "0 days", None),
    ("at_least: 7 days", "at_least: 0.5", "SKY-E115", "0.5", None),
    ("at_least: 7 days, ", "", "SKY-E111", "steady", None),
    ("k: 3", "k: 0", "SKY-E114", "0", None),
    ("k: 3", "k: 3, carry: [mm]", "SKY-E117", "carry", "leave it out"),
    ("k: 3", "k: 3, scoring: x", "SKY-E110", "scoring", None),
    ("k: 3", "k: 3, where: nowhere = 1", "SKY-E130", "nowhere", None),
    ("trace: all", "trace: some", "SKY-E113", "some", None),
    ("window: {time: 1 day}", "window: {time: 31 days}", "SKY-E140", "31 days", None),
    ("window: {time: 1 day}", "window: {count: 10}", "SKY-E117", "10", "time alone"),
    ("window: {time: 30 days}", "window: {time: 30 days, count: 1000}", "SKY-E117", "1000", "time alone"),
    ("window: {time: 30 days}", "window: {count: 1000}", "SKY-E117", "1000", "time alone"),
    ("station: string", "station: string, slope: string", None, None, None),
    ("object: [region, station]", "object: [region, rank]", "SKY-E124", "rank", "another name"),
    ("  id: [id]", "  id: [id]\n  partition_by: [slope]", "SKY-E124", "slope", "another name"),
    ("  daily:", "  steady_trajectory:", "SKY-E123", "steady_trajectory", "rename"),
    ("window: {time: 30 days}", "deletes: mm > 5\nwindow: {time: 30 days}", None, None, None),
    ("table: steady_trajectory", "table: steady_trajektory", "SKY-E122", "steady_trajektory", "steady_trajectory"),
    ("column: slope", "column: slop", "SKY-E120", "slop", "slope"),
]


@pytest.mark.parametrize(("old", "new", "code", "marked", "hint"), MISTAKES, ids=[m[1][:40] for m in MISTAKES])
def test_mistakes_are_told_where_they_stand(old: str, new: str, code: str | None, marked: str | None, hint: str | None) -> None:
    assert SPEC.count(old) >= 1
    more = next((c for c in ("rank", "slope") if f"{c}]" in new), "other")
    text = SPEC.replace("region: string", f"region: string, {more}: string", 1) if f"{more}]" in new else SPEC
    text = text.replace(old, new, 1)
    _, errors = validate_text(text, {}, "rain.yaml")
    if code is None:
        assert errors == []
        return
    found = [e for e in errors if e.code == code]
    assert found, [e.render() for e in errors]
    where = found[0].where
    assert where is not None and where.text is not None
    assert where.text[where.col - 1 :].startswith(marked or ""), found[0].render()
    assert hint is None or hint in (found[0].hint or ""), found[0].render()


def test_a_query_called_like_a_table_of_another_is_fine_where_that_one_has_no_trajectories() -> None:
    more = "  x: {type: topk, scoring: mm, k: 1}\n  x_trajectory: {type: topk, scoring: mm, k: 2}\n"
    text = SPEC.replace("queries:\n", f"scoring: {{mm: {{expression: mm}}}}\nqueries:\n{more}", 1)
    _, errors = validate_text(text, {})
    assert errors == [], [e.render() for e in errors]


def test_queries_of_equal_reports_and_window_share_a_state_whatever_their_type() -> None:
    plan = plan_of_text(SPEC)
    assert {o.name: o.queries for o in plan.operators} == {"rainiest": ("rainiest", "steady"), "daily": ("daily",)}
    assert len(plan.intake.reports) == 2
    explained = explain(plan)
    for line in (
        "reports on station: reject rows where station is null\n",
        "reports on region, station: reject rows where region or station is null, or on_off neither on nor off\n",
        "state rainiest: topk_loyalty and threshold_loyalty, K = 3, N = 30 days\n",
        "on        where mm > 0, until the object's next report, for 2 hours at most\n",
        "at least  7 days for steady\n",
        "traces    members of rainiest; all objects, for steady\n",
        "shared by 2 queries: same object, criteria (or updates), where, stale_after, held and window\n",
        "steady_trajectory\n",
    ):
        assert line in explained, line


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("k: 3", "k: 4", "queries.rainiest.k was 3, now 4"),
        ("trace: all", "trace: members", "queries.steady.trace_all was True, now False"),
        ("at_least: 7 days", "at_least: 8 days", "queries.steady.at_least was 7 days, now 8 days"),
        ("mm > 0,", "mm > 1,", "queries.rainiest.criteria was mm > 0, now mm > 1"),
        ("stale_after: 2 hours", "stale_after: 3 hours", "queries.rainiest.stale_after was 2 hours, now 3 hours"),
        ("updates: on_off", "updates: wet", "queries.daily.updates.name was on_off, now wet"),
        ("object: [region, station]", "object: [station, region]", "queries.daily.object was [region, station], now [station, region]"),
        ("[region, station]", "[ station ]", "queries.daily.object was [region, station], now [station]"),
    ],
)
def test_what_shapes_the_state_is_part_of_the_fingerprint(old: str, new: str, reason: str) -> None:
    before, after = (validate_text(text, {})[0] for text in (SPEC, SPEC.replace(old, new, 1)))
    assert before is not None and after is not None
    found = compare(fingerprint(compile_job(before)), fingerprint(compile_job(after)))
    assert found and any(reason in f for f in found), found
