"""Corrected rows and change feeds: what ``on_duplicate`` and ``op`` of a source mean, each by a small example."""

from __future__ import annotations

from typing import Any

import pytest

from skyband.framework.rehearsal.rehearsal import Rehearsal
from skyband.framework.spec.load import validate_text
from tests.framework.rehearsal.test_semantics import BEST, SPEC, changes, reasons, rehearsed, row
from tests.specs import plan_of_text

REPLACE = "  on_duplicate: replace"
FEED = "  op: {column: body, insert: [c, r], update: [u], delete: [d], ignore: [before]}"


def entries(job: Rehearsal) -> list[tuple[Any, ...]]:
    return [(at, change, cause, *rest) for at, _, _, change, cause, *rest in changes(job, "best", "id", "seq", "score")]


def test_a_newer_row_takes_the_place_of_the_one_in_the_window() -> None:
    job = rehearsed(BEST, [row(1, 0, x=1), row(2, 1, x=2), row(1, 5, x=9)], more=REPLACE)
    assert entries(job) == [
        (0, "+", "arrival", 1, 0, 1.0),
        (1, "+", "arrival", 2, 1, 2.0),
        (5, "-", "delete", 1, 0, 1.0),
        (5, "+", "arrival", 1, 2, 9.0),
    ]
    assert [r["id"] for r in job.tables()["best_now"].to_pylist()] == [1, 2]
    assert {n: job.counts[n] for n in ("accepted", "replaced", "deleted", "rejected_other")} == {
        "accepted": 3, "replaced": 1, "deleted": 0, "rejected_other": 0,
    }  # fmt: skip


def test_an_older_correction_changes_nothing() -> None:
    """Before the frontier it is late; after it, it has its turn before the newer row, whichever arrives first."""
    assert reasons(rehearsed(BEST, [row(1, 9, x=1)], [row(1, 8, x=2)], more=REPLACE)) == ["late"]
    job = rehearsed(BEST, [row(1, 9, x=1), row(1, 8, x=2)], more=REPLACE)
    assert [(r["id"], r["score"]) for r in job.tables()["best_now"].to_pylist()] == [(1, 1.0)]


def test_rows_of_one_instant_are_ordered_by_tie_break() -> None:
    rows = [row(1, 5, n=2, x=7), row(1, 5, n=1, x=8)]
    first = {by: rehearsed(BEST, rows, more=REPLACE, watermark=f", tie_break: [{by}]").tables()["best_now"] for by in ("n", "x")}
    assert {by: t["score"].to_pylist() for by, t in first.items()} == {"n": [7.0], "x": [8.0]}


def test_an_id_is_known_as_long_as_its_object_is_in_the_window() -> None:
    """The window is a minute: a row that comes exactly then is a new object."""
    job = rehearsed(BEST, [row(1, 0, x=1), row(1, 60, x=2)], more=REPLACE)
    assert [c[1:3] for c in entries(job)] == [("+", "arrival"), ("-", "expiry"), ("+", "arrival")] and job.counts["replaced"] == 0


def test_a_replaced_row_keeps_its_position_in_a_count_window() -> None:
    text = SPEC.format(queries=BEST, more=REPLACE, watermark="").replace("{time: 1 minute}", "{count: 2}")
    job = Rehearsal(plan_of_text(text))
    job.drop([row(1, 0), row(2, 1), row(2, 2)])
    job.finish()
    # The two newest are both of id 2, the older of them deleted: 1 has left.
    assert [r["id"] for r in job.tables()["best_now"].to_pylist()] == [2]


def test_keep_first_counts_later_rows_as_filtered() -> None:
    job = rehearsed(BEST, [row(1, 0, x=1), row(1, 5, x=9)], more="  on_duplicate: keep_first")
    assert entries(job) == [(0, "+", "arrival", 1, 0, 1.0)] and reasons(job) == []
    assert (job.counts["filtered"], job.counts["kept_first"], job.counts["accepted"]) == (1, 1, 1)


def test_a_change_feed() -> None:
    feed = [
        row(1, 0, body="c", x=1), row(1, 1, body="before", x=1), row(1, 1, body="u", x=2), row(2, 2, body="u", x=3),
        row(1, 3, body="r", x=4), row(1, 4, body="d"), row(1, 5, body="d"), row(3, 6, body="?"), row(3, 6, body=None),
        row(None, None, body="before"),
    ]  # fmt: skip
    job = rehearsed(BEST, feed, more=FEED)
    assert entries(job) == [
        (0, "+", "arrival", 1, 0, 1.0),
        (1, "-", "delete", 1, 0, 1.0),
        (1, "+", "arrival", 1, 1, 2.0),
        (2, "+", "arrival", 2, 2, 3.0),  # an update of an id that is not alive brings it
        (4, "-", "delete", 1, 1, 2.0),
    ]
    assert reasons(job) == ["bad_op", "bad_op", "duplicate_id", "no_target"] and job.counts["filtered"] == 2


@pytest.mark.parametrize(("twice", "score"), [("replace", 4.0), ("keep_first", 1.0)])
def test_an_insertion_of_an_id_in_the_window_does_what_on_duplicate_says(twice: str, score: float) -> None:
    job = rehearsed(BEST, [row(1, 0, body="c", x=1), row(1, 1, body="r", x=4)], more=f"{FEED}\n  on_duplicate: {twice}")
    assert reasons(job) == [] and job.tables()["best_now"]["score"].to_pylist() == [score]


def test_at_one_instant_insertions_come_first_and_deletions_last() -> None:
    job = rehearsed(BEST, [row(1, 5, body="d"), row(1, 5, body="u", x=2), row(1, 5, body="c", x=3)], more=FEED)
    assert [c[1:] for c in entries(job)] == [
        ("+", "arrival", 1, 0, 3.0), ("-", "delete", 1, 0, 3.0), ("+", "arrival", 1, 1, 2.0), ("-", "delete", 1, 1, 2.0),
    ]  # fmt: skip


def test_whole_numbers_say_what_a_row_does() -> None:
    """As in SQL Server's change tables: 1 deletes, 2 inserts, 3 and 4 are a row before and after an update."""
    feed = "  op: {column: up, insert: [2], update: [4], delete: [1], ignore: [3]}"
    job = rehearsed(BEST, [row(1, 0, up=2), row(1, 1, up=3), row(1, 1, up=4, x=5), row(2, 2, up=2), row(2, 3, up=1)], more=feed)
    assert [(r["id"], r["score"]) for r in job.tables()["best_now"].to_pylist()] == [(1, 5.0)] and reasons(job) == []


def test_rows_to_ignore_move_no_frontier() -> None:
    job = rehearsed(BEST, [row(1, 0, body="c")], [row(1, 50, body="before"), row(1, 50, body="?")], [row(2, 10, body="c")], more=FEED)
    assert reasons(job) == ["bad_op"]


MISTAKES = [
    (f"{FEED}\ndeletes: up = 1", "SKY-E117", "op and deletes cannot be used together"),
    ("  unique: assumed\n  on_duplicate: replace", "SKY-E117", "on_duplicate: replace needs checked ids"),
    ("  unique: assumed\n  on_duplicate: keep_first", "SKY-E117", "on_duplicate: keep_first needs checked ids"),
    (f"  unique: assumed\n{FEED}", "SKY-E117", "source.op needs checked ids"),
    ("  op: {column: bodi, insert: [c]}", "SKY-E120", "unknown column 'bodi'"),
    ("  op: {column: x, insert: [c]}", "SKY-E126", "op needs a text or a whole number, but 'x' is double"),
    ("  op: {column: body, insert: [c], update: [u, c]}", "SKY-E125", "'c' is listed under insert already"),
    ("  op: {column: body, delete: [d]}", "SKY-E111", "op lists no value of rows that bring objects"),
    ("  on_duplicate: latest", "SKY-E113", "on_duplicate"),
]


@pytest.mark.parametrize(("more", "code", "said"), MISTAKES)
def test_mistakes_of_specs(more: str, code: str, said: str) -> None:
    _, errors = validate_text(SPEC.format(queries=BEST, more=more, watermark=""), {})
    assert [e.code for e in errors] == [code] and said in errors[0].message, [e.render() for e in errors]


@pytest.mark.parametrize(("more", "said"), [(REPLACE, "on_duplicate: replace"), (FEED, "source.op"), ("deletes: up = 1", "deletes")])
def test_query_types_without_deletions_are_named(monkeypatch: pytest.MonkeyPatch, more: str, said: str) -> None:
    from skyband.framework.queries.topk.query_type import TopKType

    monkeypatch.setattr(TopKType, "takes_deletions", False)
    _, errors = validate_text(SPEC.format(queries=BEST, more=more, watermark=""), {})
    assert [(e.code, e.message) for e in errors] == [("SKY-E117", f"topk cannot be used with {said}")]


def test_a_replacing_row_that_a_query_cannot_use_counts_once() -> None:
    queries = (
        f"{BEST[:-1]}, hot: {{type: threshold, scoring: x, above: 0}}, sums: {{type: topk_groups, group: what, score: sum(x), k: 1}}}}"
    )
    job = rehearsed(queries, [row(1, 0, x=1), row(1, 5, x=None), row(2, 6)], more=REPLACE)
    # The sum over the group is null, too, until the last row.
    assert [job.counts[f"unusable:{name}"] for name in ("best", "hot", "sums")] == [1, 1, 1]
    assert job.tables()["sums_now"]["score"].to_pylist() == [1.0]
