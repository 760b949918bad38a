"""What is said about windows that a query cannot have, and about good ones."""

from __future__ import annotations

import pytest

from skyband.framework.plan.compile import compile_job
from skyband.framework.plan.fingerprint import compare, fingerprint
from skyband.framework.spec.load import validate_text
from skyband.framework.tables.schemas import changes_schema, trajectory_schema
from skyband.operators.base import Calendar, Window
from skyband.operators.hopping import Hopping
from skyband.operators.per_window import PerWindow

SPEC = """\
job: small
source:
  format: csv
  path: in
  schema: {id: bigint, ts: timestamp, host: string, x: double}
  id: [id]
  event_time: {column: ts}
window: {time: 1 day}
scoring:
  far: {expression: abs(a.x - b.x)}
  high: {expression: x}
queries:
  q: {ENTRY}
sink: {path: out}
"""
GROUPS = "type: topk_groups, group: host, score: count(), k: 3, window: "


@pytest.mark.parametrize(
    ("entry", "code", "said"),
    [
        (GROUPS + "{tumbling: 1 hour, time: 1 hour}", "SKY-E117", "'tumbling' and 'time' are windows of two kinds"),
        (GROUPS + "{session: 1 hour, tumbling: 1 hour}", "SKY-E117", "'tumbling' and 'session' are windows of two kinds"),
        (GROUPS + "{session: 1 hour, count: 3}", "SKY-E117", "'session' and 'count' are windows of two kinds"),
        (GROUPS + "{time: 1 hour, zone: Europe/Berlin}", "SKY-E117", "'zone' is of tumbling windows"),
        (GROUPS + "{session: 1 hour, offset: 5 minutes}", "SKY-E117", "'offset' is of tumbling windows"),
        (GROUPS + "{tumbling: 1 hour, zone: Europe/Berlim}", "SKY-E113", "unknown time zone"),
        (GROUPS + "{tumbling: 1 hour, zone: ../zone}", "SKY-E113", "unknown time zone"),
        (GROUPS + "{tumbling: 1 hour, zone: localtime}", "SKY-E113", "unknown time zone"),
        (GROUPS + "{tumbling: 1 hour, zone: Factory}", "SKY-E113", "unknown time zone"),
        (GROUPS + "{tumbling: 1 hour, zone: right/Europe/Berlin}", "SKY-E113", "unknown time zone"),
        (GROUPS + "{tumbling: 1 hour, offset: 1 hour}", "SKY-E114", "'offset' moves windows by less than their length (1 hour)"),
        (GROUPS + "{tumbling: 2 days}", "SKY-E140", "larger than the job's window (1 day)"),
        (GROUPS + "{session: 25 hours}", "SKY-E140", "larger than the job's window (1 day)"),
        (GROUPS + "{tumbling: 1 day, zone: Europe/Berlin}", "SKY-E140", "a window has 25 hours"),
        (GROUPS + "{tumbling: 1 month}", "SKY-E140", "larger than the job's window (1 day)"),
        (GROUPS + "{tumbling: 0 months}", "SKY-E115", "must be 1 month to 100 years"),
        (GROUPS + "{hop: {size: 2 days, every: 1 hour}}", "SKY-E140", "larger than the job's window (1 day)"),
        (GROUPS + "{hop: {size: 1 hour}}", "SKY-E111", "'every'"),
        (GROUPS + "{hop: {size: 1 hour, every: 1 hour}, time: 1 hour}", "SKY-E117", "'hop' and 'time' are windows of two kinds"),
        (GROUPS + "{hop: {size: 1 hour, every: 1 hour}}, every: 1 hour", "SKY-E117", "'every' and 'hop' both say when results change"),
        ("type: topk, scoring: high, k: 3, every: 1 hour, window: {tumbling: 1 hour}", "SKY-E117", "only queries about groups have both"),
        ("type: matches, scoring: far, k: 3, window: {hop: {size: 1 hour, every: 1 hour}}", "SKY-E142", "matches takes no hopping windows"),
        (
            "type: threshold_loyalty, object: host, criteria: x > 1, at_least: 1 hour, window: {tumbling: 1 hour}",
            "SKY-E142",
            "threshold_loyalty takes no tumbling windows",
        ),
        (GROUPS + "{zone: Europe/Berlin}", "SKY-E111", "a window needs 'count', 'time' or both"),
        (GROUPS.replace("group: host", "group: window_start") + "{tumbling: 1 hour}", "SKY-E124", "collides"),
    ],
)
def test_mistakes(entry: str, code: str, said: str) -> None:
    spec = SPEC.replace("ENTRY", entry)
    if "window_start" in entry:
        spec = spec.replace("host: string", "window_start: string")
    _, errors = validate_text(spec, {})
    assert [e.code for e in errors] == [code], errors
    assert said in errors[0].message and (errors[0].hint is not None or code == "SKY-E114")


def test_windows_without_a_time_in_the_job() -> None:
    for kind in ("tumbling: 1 hour", "session: 1 hour"):
        _, errors = validate_text(SPEC.replace("{time: 1 day}", "{count: 10}").replace("ENTRY", GROUPS + "{" + kind + "}"), {})
        assert [e.code for e in errors] == ["SKY-E141"] and "need a job's window with a time" in errors[0].message


def test_tumbling_windows_of_the_job() -> None:
    _, errors = validate_text(SPEC.replace("{time: 1 day}", "{tumbling: 1 day}").replace("ENTRY", GROUPS + "{session: 1 hour}"), {})
    assert [(e.code, e.hint) for e in errors if e.code == "SKY-E110"] == [("SKY-E110", "'tumbling' belongs under the window of a query")]


def test_a_test_cannot_expect_final_results_of_other_windows() -> None:
    tests = "tests: [{name: t, rows: [{id: 1, ts: 2020-01-01 00:00}], expect: {q_final: []}}]\n"
    for window, codes in (("{tumbling: 1 hour}", []), ("{session: 1 hour}", ["SKY-E122"])):
        assert [e.code for e in validate_text(SPEC.replace("ENTRY", GROUPS + window) + tests, {})[1]] == codes


def test_a_test_names_columns_that_its_table_has() -> None:
    entry = "type: topk_groups, group: host, score: count(), k: 3, carry: [count(), sum(x)]"
    tests = "tests: [{name: t, rows: [{id: 1, ts: 2020-01-01 00:00}], expect: {TABLE: [{host: a, count: 1}]}}]\n"
    for table in ("q_trajectory", "q_changes"):
        job, errors = validate_text(SPEC.replace("ENTRY", entry) + tests.replace("TABLE", table), {})
        assert errors == [] and job is not None
        plan = compile_job(job)
        schema = {"q_trajectory": trajectory_schema, "q_changes": changes_schema}[table](plan, plan.queries[0])
        assert {"host", "count", "sum_x"} <= set(schema.names)


def test_a_query_with_a_wrong_type_is_one_mistake() -> None:
    tests = "tests: [{name: t, rows: [{id: 1, ts: 2020-01-01 00:00}], expect: {q_now: []}}]\n"
    _, errors = validate_text(SPEC.replace("ENTRY", "type: topk_group, group: host, score: count(), k: 3") + tests, {})
    assert [(e.code, e.hint) for e in errors] == [("SKY-E113", "did you mean 'topk_groups'?")]


def test_names_of_final_tables_are_reserved() -> None:
    more = "\n  q_final: {type: topk_groups, group: host, score: count(), k: 3}"
    _, errors = validate_text(SPEC.replace("{ENTRY}", "{" + GROUPS + "{tumbling: 1 hour}}" + more), {})
    assert [e.code for e in errors] == ["SKY-E123"]
    assert validate_text(SPEC.replace("{ENTRY}", "{" + GROUPS + "{time: 1 hour}}" + more), {})[1] == []


@pytest.mark.parametrize(
    ("window", "expected"),
    [
        ("{tumbling: 1 day}", Window(None, 86_400_000_000, Calendar(86_400_000_000))),
        (
            "{tumbling: 6 hours, zone: Europe/Berlin, offset: 90 minutes}",
            Window(None, 86_400_000_000, Calendar(21_600_000_000, "Europe/Berlin", 5_400_000_000)),
        ),
        ("{session: 30 minutes}", Window(None, 86_400_000_000, None, 1_800_000_000)),
    ],
)
def test_good_windows(window: str, expected: Window) -> None:
    job, errors = validate_text(SPEC.replace("ENTRY", GROUPS + window), {})
    assert job is not None and errors == []
    plan = compile_job(job)
    assert plan.queries[0].window == plan.operators[0].window == plan.operators[0].operator.window == expected
    assert plan.queries[0].item.closes == (expected.tumbling is not None)


def test_another_window_is_another_state() -> None:
    """An edit of any field of a window is named; a job without the new fields has the fingerprint it had."""
    prints = {}
    for window in (
        "{time: 1 hour}",
        "{tumbling: 1 hour}",
        "{tumbling: 1 hour, offset: 5 minutes}",
        "{session: 1 hour}",
        "{session: 2 hours}",
    ):
        job, _ = validate_text(SPEC.replace("ENTRY", GROUPS + window), {})
        assert job is not None
        prints[window] = fingerprint(compile_job(job))
    assert prints["{time: 1 hour}"]["queries"]["q"]["window"] == {"count": None, "time": "1 hour"}
    assert compare(prints["{tumbling: 1 hour}"], prints["{tumbling: 1 hour, offset: 5 minutes}"]) == [
        "queries.q.window.offset was 0 seconds, now 5 minutes"
    ]
    assert compare(prints["{session: 1 hour}"], prints["{session: 2 hours}"]) == ["queries.q.window.session was 1 hour, now 2 hours"]
    assert compare(prints["{session: 1 hour}"], prints["{tumbling: 1 hour}"])


ROWS = (
    "type: topk, scoring: high, k: 3",
    "type: threshold, scoring: high, above: 3",
    "type: skyline, dimensions: {x: min, id: max}",
    "type: topk_pairs, scoring: far, k: 3",
    "type: threshold_pairs, scoring: far, min_score: 3",
    "type: matches, scoring: far, k: 3",
)


@pytest.mark.parametrize("entry", ROWS)
@pytest.mark.parametrize("window", ["{tumbling: 1 hour}", "{session: 1 hour}"])
def test_rows_and_pairs_have_an_operator_that_is_begun_restarted(entry: str, window: str) -> None:
    job, errors = validate_text(SPEC.replace("ENTRY", f"{entry}, window: {window}"), {})
    assert job is not None and errors == []
    plan = compile_job(job)
    (node,) = plan.operators
    assert isinstance(node.operator, PerWindow) and node.inner is node.operator.inner and not node.skyband
    assert (node.operator.calendar is None, node.operator.session is None) == ("session" in window, "tumbling" in window)
    assert plan.queries[0].item.closes == ("matches" not in entry)


def test_queries_of_one_calendar_share_a_state() -> None:
    entry = "type: topk, scoring: high, k: 3, window: {tumbling: 1 hour}"
    more = [("r", "k: 3", "k: 5"), ("s", "1 hour", "2 hours"), ("t", "tumbling", "session")]
    queries = "".join(f"\n  {name}: {{{entry.replace(old, new)}}}" for name, old, new in more)
    job, errors = validate_text(SPEC.replace("{ENTRY}", "{" + entry + "}" + queries), {})
    assert job is not None and errors == []
    assert [node.queries for node in compile_job(job).operators] == [("q", "r"), ("s",), ("t",)]


def test_a_hop_has_boundaries_and_their_bounds() -> None:
    job, errors = validate_text(SPEC.replace("ENTRY", f"{ROWS[0]}, window: {{hop: {{size: 2 hours, every: 1 hour}}}}"), {})
    assert job is not None and errors == []
    plan = compile_job(job)
    assert isinstance(plan.operators[0].operator, Hopping)
    query = plan.queries[0]
    assert (query.every_micros, query.window, query.item.closes) == (3_600_000_000, Window(None, 7_200_000_000, hopping=True), False)


def test_sessions_of_rows_cannot_be_used_with_deletions() -> None:
    spec = SPEC.replace("ENTRY", f"{ROWS[0]}, window: {{session: 1 hour}}") + "deletes: x < 0\n"
    _, errors = validate_text(spec, {})
    assert [e.code for e in errors] == ["SKY-E117"] and "sessions cannot be used with deletions" in errors[0].message


def test_months_quarters_and_years() -> None:
    spec = SPEC.replace("{time: 1 day}", "{time: 400 days}")
    for text, months, most in (("1 month", 1, 31), ("1 quarter", 3, 92), ("2 quarters", 6, 184), ("1 year", 12, 366)):
        job, errors = validate_text(spec.replace("ENTRY", GROUPS + f"{{tumbling: {text}, zone: Europe/Berlin}}"), {})
        assert job is not None and errors == []
        plan = compile_job(job)
        assert plan.queries[0].window.tumbling == Calendar(most * 86_400_000_000, "Europe/Berlin", 0, months)
        shown = {"2 quarters": "2 quarters"}.get(text, text)
        assert fingerprint(plan)["queries"]["q"]["window"]["tumbling"] == shown
