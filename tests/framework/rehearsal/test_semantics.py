"""What the page on semantics defines, each by a small example that comes out otherwise if the behaviour changes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from skyband.framework.base.errors import SkybandError
from skyband.framework.plan.compile import compile_job
from skyband.framework.queries.set_pairs.brute_force import similarity
from skyband.framework.rehearsal.rehearsal import Rehearsal
from skyband.framework.spec.load import validate_text
from tests.conftest import ROOT

PAGES = [
    *sorted((ROOT / "docs" / "reference").glob("spec*.md")),
    *sorted((ROOT / "docs" / "explanation").glob("semantics*.md")),
    ROOT / "docs" / "reference" / "tables.md",
]
SECOND = 1_000_000
CLOCK = 1_000_000 * SECOND
"""The clock of all batches: rows may be dated a day later."""
SPEC = """\
job: defined
source:
  format: csv
  path: /nowhere/in
  schema: {{id: bigint, ts: timestamp, key: string, x: double, n: bigint, body: string, up: int, what: string, day: date}}
  id: [id]
  event_time: {{column: ts{watermark}}}
  partition_by: [key]
{more}
window: {{time: 1 minute}}
{queries}
sink: {{path: /nowhere/out}}
"""


def rehearsed(queries: str, *drops: Sequence[dict[str, Any]], more: str = "", watermark: str = "") -> Rehearsal:
    """A job after ``drops``, finished."""
    spec, errors = validate_text(SPEC.format(queries=queries, more=more, watermark=watermark), {})
    assert spec is not None, [e.render() for e in errors]
    job = Rehearsal(compile_job(spec), clock=CLOCK)
    for rows in drops:
        job.drop(rows)
    job.finish()
    return job


def row(number: int | None, at: float | None, **values: Any) -> dict[str, Any]:
    same = {"key": "k", "x": 1.0, "n": 1, "body": "a b", "up": 1, "what": "o"}
    return {"id": number, "ts": None if at is None else round(at * SECOND), **same, **values}


def changes(job: Rehearsal, query: str, *columns: str) -> list[tuple[Any, ...]]:
    rows = sorted(job.tables()[f"{query}_changes"].to_pylist(), key=lambda c: (c["key"], c["step"], c["pos"]))
    return [(c["changed_at"].timestamp(), c["step"], c["pos"], c["change"], c["cause"], *(c[n] for n in columns)) for c in rows]


def reasons(job: Rehearsal) -> list[str]:
    return sorted(job.tables()["rejected"]["reason"].to_pylist())


BEST = "scoring: {x: {expression: x, direction: max}}\nqueries: {best: {type: topk, scoring: x, k: 2}}"


@pytest.mark.parametrize(("micros", "late"), [(9_997_999, True), (9_998_000, False)])
def test_the_frontier_counts_milliseconds(micros: int, late: bool) -> None:
    """The newest time is rounded down, 10,000.999 ms to 10,000; a watermark of 2 ms (1.5 rounded up) is taken off."""
    drops = [row(1, 10.000999)], [row(2, micros / SECOND, key="other")]
    job = rehearsed(BEST, *drops, watermark=", watermark: 1500 microseconds")
    assert reasons(job) == (["late"] if late else [])


def test_rows_of_one_batch_are_not_late_because_of_each_other() -> None:
    assert reasons(rehearsed(BEST, [row(1, 100), row(2, 3)])) == []
    assert reasons(rehearsed(BEST, [row(1, 100)], [row(2, 3)])) == ["late"]


EVERYTHING = """\
tokens:
  few: {column: body, min_tokens: 2, short: reject}
  many: {column: body, max_tokens: 0x2}
scoring: {n: {expression: n, direction: max}}
queries:
  best: {type: topk, scoring: n, k: 2}
  known: {type: topk_loyalty, object: what, updates: up, k: 1}
  few: {type: similar_sets, tokens: few, min_score: 0.5}
  many: {type: similar_sets, tokens: many, min_score: 0.5}
"""
RULES = """\
transform:
  - where: "x <> 9"
quality:
  rows:
    - {name: one, expect: "x <> 8"}
    - {name: two, expect: "x < 8"}
"""
FAULTS: list[tuple[str, dict[str, Any], str | None]] = [
    ("filtered", {"x": 9.0}, None),
    ("rules", {"x": 8.0}, "rule:one,two"),
    ("id", {"id": None}, "null_id"),
    ("time", {"ts": None}, "null_time"),
    ("range", {"ts": -1}, "time_range"),
    ("ahead", {"ts": CLOCK + 86_400 * SECOND + 1}, "too_far_ahead"),
    ("key", {"key": None}, "null_key"),
    ("integer", {"n": -(2**63)}, "int_range"),
    ("years", {"day": 2_932_897}, "year_range:day"),
    ("few", {"body": "a"}, "empty_set:few"),
    ("many", {"body": "a b c"}, "large_set:many"),
    ("object", {"what": None}, "null_object:what"),
    ("update", {"up": 7}, "no_update:up"),
]


@pytest.mark.parametrize("first", range(len(FAULTS)))
def test_a_row_has_the_first_reason_that_applies(first: int) -> None:
    bad = row(7, 5)
    for _, fault, _ in reversed(FAULTS[first:]):
        bad |= fault
    job = rehearsed(EVERYTHING.replace("0x2", "2"), [row(1, 4), bad], more=RULES)
    expected = FAULTS[first][2]
    assert reasons(job) == ([] if expected is None else [expected])
    assert job.counts["filtered"] == (expected is None)


def test_rows_too_far_ahead_of_the_clock_change_nothing() -> None:
    """However they come among the others, one by one or together."""
    times = [3, 40, 41, 90, 95, 130, 131, 200]
    good = [row(i, t, x=float(t % 7)) for i, t in enumerate(times)]
    bad = row(99, CLOCK / SECOND + 86_401), row(98, 252_000_000_000)
    expected = changes(rehearsed(BEST, good), "best", "id")
    for at in range(len(good) + 1):
        assert changes(rehearsed(BEST, [*good[:at], *bad, *good[at:]]), "best", "id") == expected
        drops = [[r] for r in good]
        job = rehearsed(BEST, *drops[:at], [bad[0]], [bad[1]], *drops[at:])
        assert changes(job, "best", "id") == expected and reasons(job) == ["too_far_ahead"] * 2


def test_max_jump_stops_a_batch_whose_newest_rows_stand_apart_and_the_rows_before_it_stay() -> None:
    rows = [row(1, 100), row(2, 130)], [row(3, 131), row(4, 200)]
    assert reasons(rehearsed(BEST, *rows, watermark=", max_jump: 69 seconds")) == []
    with pytest.raises(SkybandError, match=r"newest rows of batch 1 are at 1970-01-01 00:03:20, 69 seconds after") as e:
        rehearsed(BEST, *rows, watermark=", max_jump: 68 seconds")
    assert e.value.code == "SKY-E506"
    # A row that is late stands apart from nothing, and neither does one that is rejected.
    assert reasons(rehearsed(BEST, [row(1, 500)], [row(2, 3), row(None, 9_000), row(3, 501)], watermark=", max_jump: 68 seconds")) == [
        "late",
        "null_id",
    ]


def test_a_late_row_is_late_before_it_is_a_duplicate() -> None:
    assert reasons(rehearsed(BEST, [row(1, 50)], [row(1, 49), row(1, 51)])) == ["duplicate_id", "late"]


def test_leaving_rows_are_in_rank_order_of_the_scores_they_came_with() -> None:
    job = rehearsed(BEST, [row(1, 0, x=1), row(2, 0, x=3), row(3, 60, x=2), row(4, 60, x=4)])
    assert changes(job, "best", "id") == [
        (0, 1, 0, "+", "arrival", 1),
        (0, 2, 0, "+", "arrival", 2),
        # One event: both leave the window, the better one first. Then each arrival is an event.
        (60, 3, 0, "-", "expiry", 2),
        (60, 3, 1, "-", "expiry", 1),
        (60, 4, 0, "+", "arrival", 3),
        (60, 5, 0, "+", "arrival", 4),
    ]


def test_an_insertion_and_a_deletion_of_one_id_at_one_instant() -> None:
    deletes = f"deletes: body = 'gone'\n{BEST}"
    job = rehearsed(deletes, [row(1, 5, body="gone"), row(1, 5)])
    assert changes(job, "best", "id") == [(5, 1, 0, "+", "arrival", 1), (5, 2, 0, "-", "delete", 1)]
    assert reasons(job) == [] and [r["valid_from"] == r["valid_to"] for r in job.tables()["best"].to_pylist()] == [True]
    # Of an id that is alive, the insertion is a duplicate, and the deletion takes the earlier object back.
    job = rehearsed(deletes, [row(1, 1), row(1, 5, body="gone"), row(1, 5, x=9)])
    assert changes(job, "best", "score") == [(1, 1, 0, "+", "arrival", 1.0), (5, 2, 0, "-", "delete", 1.0)]
    assert reasons(job) == ["duplicate_id"]


def test_a_crossing_is_a_change_by_time_alone() -> None:
    known = "queries: {known: {type: topk_loyalty, object: what, updates: up, k: 1, window: {time: 20 seconds}}}"
    # a is on for 4 seconds; b goes on at 10, and has been on for longer than a from 14 on.
    rows = [row(1, 0, what="a", up=1), row(2, 4, what="a", up=0), row(3, 10, what="b", up=1), row(4, 18, what="c", up=0)]
    found = changes(rehearsed(known, rows), "known", "what")
    assert [c[3:] for c in found] == [("+", "arrival", "a"), ("-", "crossing", "a"), ("+", "crossing", "b")]
    assert 14 <= found[1][0] <= 14.000001
    # c goes on at the very instant: then an object has been switched, and the cause is another.
    exactly = [*rows[:3], row(4, found[1][0], what="c", up=1)]
    found = changes(rehearsed(known, exactly), "known", "what")
    assert [c[3:] for c in found] == [("+", "arrival", "a"), ("-", "displaced", "a"), ("+", "promoted", "b")]


def test_a_short_row_takes_its_place_and_no_part() -> None:
    twins = "tokens: {w: {column: body, min_tokens: 2}}\nqueries: {twins: {type: similar_sets, tokens: w, min_score: 0.1}}"
    rows = [row(1, 0), row(2, 1, body="a"), row(3, 2), row(4, 3, body=None)]
    job = rehearsed(twins, rows)
    assert reasons(job) == []
    assert changes(job, "twins", "older_id", "newer_id", "older_seq", "newer_seq") == [(2, 1, 0, "+", "arrival", 1, 3, 0, 2)]
    job = rehearsed(twins.replace("min_tokens: 2", "min_tokens: 2, short: reject"), rows)
    assert reasons(job) == ["empty_set:w", "empty_set:w"]
    assert changes(job, "twins", "older_id", "newer_id", "older_seq", "newer_seq") == [(2, 1, 0, "+", "arrival", 1, 3, 0, 1)]


def test_a_cosine_is_the_root_of_one_quotient_of_whole_numbers() -> None:
    """The documented formula, the operator's and brute force's are the same bits; o / sqrt(ab) is not."""
    assert "sqrt((o * o) / (a * b))" in "".join(page.read_text(encoding="utf-8") for page in PAGES)
    rng = np.random.default_rng(5)
    words = [frozenset(rng.choice(40, int(rng.integers(2, 30)), replace=False).tolist()) for _ in range(40)]
    twins = "tokens: {w: {column: body}}\nqueries: {twins: {type: similar_sets, tokens: w, similarity: cosine, min_score: 0.01}}"
    job = rehearsed(twins, [row(i, i, body=" ".join(map(str, w))) for i, w in enumerate(words)])
    scores = {(c[5], c[6]): c[7] for c in changes(job, "twins", "older_id", "newer_id", "score") if c[3] == "+"}
    assert len(scores) > 700
    others = 0
    for (older, newer), score in scores.items():
        a, b, o = len(words[older]), len(words[newer]), len(words[older] & words[newer])
        documented = math.sqrt((o * o) / (a * b))
        assert (score, similarity("cosine", o, a, b)) == (documented, (-(o * o) / (a * b), documented))
        others += documented != o / math.sqrt(a * b)
    assert others > 100


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_no_page_has_another_formula_of_the_cosine(page: Path) -> None:
    assert "o/sqrt(ab)" not in page.read_text(encoding="utf-8")


MATCHES = """\
scoring: {d: {expression: abs(a.x - b.x)}}
queries:
  m: {type: matches, scoring: d, k: 1, carry: [what]}
  l: {type: topk_loyalty, from: m, object: newer_what, criteria: m_score >= 0, k: 1, window: {time: 30 seconds}}
  s: {type: topk_loyalty, from: m, object: newer_what, criteria: m_score >= 0, stale_after: 10 seconds, k: 1, window: {time: 30 seconds}}
  t: {type: threshold_loyalty, from: m, object: newer_what, criteria: m_score >= 0, at_least: 20 seconds, window: {time: 2 minutes}}
"""


def test_a_report_on_an_entry_that_never_leaves_is_valid_until_the_next_or_until_it_is_stale() -> None:
    two = [row(1, 0, what="p"), row(2, 1, what="q")]
    job = rehearsed(MATCHES, [*two, row(3, 300_000)])
    assert changes(job, "s", "newer_what") == [(1, 1, 0, "+", "arrival", "q"), (41, 2, 0, "-", "expiry", "q")]
    assert changes(job, "l", "newer_what") == [(1, 1, 0, "+", "arrival", "q")]
    assert changes(job, "t", "newer_what") == [(21, 1, 0, "+", "crossing", "q")]
    # The criterion of the next report on the object does not hold: the score is null, and its row is off.
    job = rehearsed(MATCHES.replace("m_score >= 0", "m_score < 3"), [*two, row(3, 50, what="q", x=6.0), row(4, 300_000)])
    assert changes(job, "l", "newer_what") == [(1, 1, 0, "+", "arrival", "q"), (80, 2, 0, "-", "expiry", "q")]


CHAINED = """\
scoring: {v: {expression: x, direction: max}}
queries:
  a: {type: topk, scoring: v, k: 2, carry: [what]}
  l: {type: threshold_loyalty, from: a, object: what, criteria: a_score > 0, at_least: 2 seconds, window: {time: 5 seconds}}
  s:
    {type: threshold_loyalty, from: a, object: what, criteria: a_score > 0, stale_after: 3 seconds, at_least: 2 seconds,
     window: {time: 5 seconds}}
"""


def test_the_window_of_loyalty_is_that_of_its_time_and_its_entries_stay_as_long_as_their_items() -> None:
    """The row of o is in the result for a minute, for days with a window of rows: it is on all the time, and off when it leaves."""
    job = rehearsed(CHAINED, [row(1, 0), row(2, 100)])
    assert changes(job, "l", "what") == [(2, 1, 0, "+", "crossing", "o"), (63, 2, 0, "-", "crossing", "o")]
    # What is stale stays so: nothing enters a report again.
    assert changes(job, "s", "what") == [(2, 1, 0, "+", "crossing", "o"), (6, 2, 0, "-", "crossing", "o")]
    days = [row(1, 0, x=2.0), row(2, 10 * 86_400, x=0.0, what="late")]
    spec, errors = validate_text(SPEC.format(queries=CHAINED, more="", watermark="").replace("{time: 1 minute}", "{count: 10}"), {})
    assert spec is not None, [e.render() for e in errors]
    job = Rehearsal(compile_job(spec), clock=CLOCK)
    job.drop(days)
    job.finish()
    assert changes(job, "l", "what") == [(2, 1, 0, "+", "crossing", "o")]
    assert changes(job, "s", "what") == [(2, 1, 0, "+", "crossing", "o"), (6, 2, 0, "-", "crossing", "o")]


RENEWED = """\
scoring: {v: {expression: x, direction: max}, d: {expression: abs(a.a_score - b.a_score)}, s: {expression: a_score, direction: max}}
queries:
  a: {type: topk, scoring: v, k: 2}
  b: {type: topk_pairs, from: a, scoring: d, k: 1}
  t: {type: topk, from: a, scoring: s, k: 2}
  g: {type: topk_groups, from: a, group: id, score: count(), k: 2}
  y: {type: skyline, from: a, dimensions: {a_score: max}}
"""


@pytest.mark.parametrize("restarts", [False, True])
def test_an_entry_is_renewed_after_the_changes_of_its_instant_by_a_deletion_and_an_arrival(restarts: bool) -> None:
    day = 86_400
    spec, errors = validate_text(SPEC.format(queries=RENEWED, more="", watermark="").replace("{time: 1 minute}", "{count: 10}"), {})
    assert spec is not None, [e.render() for e in errors]
    job = Rehearsal(compile_job(spec), clock=CLOCK)
    # At the instant of the first renewal row 3 takes the place of row 1, whose row has left then: only that of row 2 is renewed, later.
    for drop in ([row(1, 0, x=1.0), row(2, 5, x=2.0)], [row(3, day, x=3.0)], [row(4, 2 * day, x=0.0)]):
        job.drop(drop)
        if restarts:
            job.restart()
    job.finish()
    assert changes(job, "t", "id", "seq") == [
        (0, 1, 0, "+", "arrival", 1, 0), (5, 2, 0, "+", "arrival", 2, 1),
        (day, 3, 0, "-", "delete", 1, 0), (day, 4, 0, "+", "arrival", 3, 2),
        (day + 5, 5, 0, "-", "delete", 2, 1), (day + 5, 6, 0, "+", "arrival", 2, 3),
        (2 * day, 7, 0, "-", "delete", 3, 2), (2 * day, 8, 0, "+", "arrival", 3, 4),
    ]  # fmt: skip
    assert [c[:5] for c in changes(job, "g")] == [c[:5] for c in changes(job, "t")]
    assert changes(job, "b", "older_id", "newer_id")[-2:] == [
        (2 * day, 6, 0, "-", "delete", 3, 2), (2 * day, 7, 0, "+", "arrival", 2, 3),
    ]  # fmt: skip
    # Between the two, the other row is the best.
    assert changes(job, "y", "id")[-4:] == [
        (2 * day, 4, 0, "-", "delete", 3), (2 * day, 4, 1, "+", "promoted", 2),
        (2 * day, 5, 0, "-", "displaced", 2), (2 * day, 5, 1, "+", "arrival", 3),
    ]  # fmt: skip


POINTS = """\
scoring: {s: {expression: g_score, direction: max}}
queries:
  g: {type: topk_groups, group: what, score: sum(x), k: 3}
  t: {type: threshold, from: g, scoring: s, at_least: 0}
"""


def test_points_of_one_instant_make_rows_in_the_order_of_the_names_of_their_groups() -> None:
    first = [row(n, 0, what=w, x=x) for n, w, x in ((1, "b", 5), (2, "c", 1), (3, "\U0001f600", 9), (4, "\uffff", 4))]
    second = [row(10 + n, 30, what=w, x=10 * n) for n, w in enumerate(("\U0001f600", "c", "b"), 1)]
    job = rehearsed(POINTS.replace("k: 3", "k: 4"), [*first, *second, row(20, 100, x=-1, what="b")])
    # At 60 the first row of each of them leaves the window. Texts are in the order of their UTF-8 bytes.
    at_60 = [(c[3], c[5], c[6]) for c in changes(job, "t", "what", "seq") if c[0] == 60]
    assert [name for sign, name, _ in at_60 if sign == "+"] == ["b", "c", "\U0001f600"]
    assert [seq for sign, _, seq in at_60 if sign == "+"] == sorted(seq for sign, _, seq in at_60 if sign == "+")


def test_a_group_that_enters_and_leaves_at_one_instant_has_no_point() -> None:
    queries = "queries:\n  g: {type: threshold_groups, group: what, score: sum(x), above: 2}"
    rows = [
        row(1, 0, what="b", x=5),
        row(2, 0, what="b", x=-5),
        row(3, 0, what="b", x=7),
        row(4, 10, what="z", x=5),
        row(5, 10, what="z", x=-5),
    ]
    job = rehearsed(queries, rows)
    assert [c[:4] for c in changes(job, "g")] == [(0, 1, 0, "+"), (0, 2, 0, "-"), (0, 3, 0, "+"), (10, 4, 0, "+"), (10, 5, 0, "-")]
    points = job.tables()["g_trajectory"].to_pylist()
    assert [(p["valid_from"].timestamp(), p["what"], p["score"]) for p in points] == [(0, "b", 7.0)]


BOUNDARIES = """\
scoring: {x: {expression: x, direction: max}, d: {expression: abs(a.x - b.x)}}
deletes: what = 'd'
queries:
  topk: {type: topk, scoring: x, k: 2, every: 1 minute, window: {time: 20 seconds}}
  threshold: {type: threshold, scoring: x, at_least: 0, every: 1 minute, window: {time: 20 seconds}}
  skyline: {type: skyline, dimensions: {x: max}, every: 1 minute, window: {time: 20 seconds}}
  pairs: {type: topk_pairs, scoring: d, k: 2, every: 1 minute, window: {time: 20 seconds}}
  groups: {type: topk_groups, group: id, score: sum(x), k: 2, every: 1 minute, window: {time: 20 seconds}}
"""


@pytest.mark.parametrize("at", [65, 75, None])
def test_the_cause_at_a_boundary_of_what_left_the_window_and_was_deleted_by_then(at: int | None) -> None:
    """The rows leave the queries' window at 70; the better one is deleted before, after, or not at all."""
    deleted = [] if at is None else [row(1, at, what="d")]
    job = rehearsed(BOUNDARIES, [row(1, 50, x=5), row(2, 50, x=4), *deleted, row(3, 200)])
    cause = "expiry" if at is None else "delete"
    left = {q: [c[4] for c in changes(job, q) if c[0] == 120] for q in ("topk", "threshold", "skyline", "pairs", "groups")}
    assert left == {
        "topk": [cause, "expiry"], "threshold": [cause, "expiry"], "skyline": [cause], "pairs": [cause],
        # Of a group: what removed its last row.
        "groups": ["delete" if at == 65 else "expiry", "expiry"],
    }  # fmt: skip


def test_bounds_of_groups_are_judged_at_every_event_also_with_every() -> None:
    queries = "queries:\n  g: {type: threshold_groups, group: what, score: last(x), above: 2, below: 1, every: 1 minute}"
    rows = [row(1, 10, what="a", x=3), row(2, 20, what="a", x=1.5), row(3, 25, what="c", x=1.5), row(4, 200, what="b", x=0)]
    found = rehearsed(queries, rows).tables(results=False)["g_changes"].to_pylist()
    assert [(c["changed_at"].timestamp(), c["change"], c["what"], c["score"], c["cause"]) for c in found] == [
        (60, "+", "a", 1.5, "boundary"), (120, "-", "a", 1.5, "expiry"),
    ]  # fmt: skip
