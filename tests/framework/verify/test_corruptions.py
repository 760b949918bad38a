"""Whatever is altered in a job's tables, replay and books see it: every kind of corruption, made with delta-rs in a small job's tables."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from skyband.framework.plan.model import Plan
from skyband.framework.verify.differences import format_differences
from tests import kept
from tests.framework.verify import small
from tests.spark.kinds import KINDS

Rows = list[dict[str, Any]]
Change = Callable[[Rows], Rows | None]


SOURCE = {name: KINDS[name].rows(3, 300) for name in KINDS}


def make(name: str, directory: Path) -> Plan:
    """A job with late rows."""
    kind = KINDS[name]
    return small.make(replace(kind, more={**kind.more, "watermark": "20 minutes"}).write(directory, 10), SOURCE[name])


@cache
def job(name: str) -> Plan:
    """The job of ``make``, made once in a process: for tests that write nothing into its sink."""
    return make(name, kept.directory() / name)


@pytest.fixture
def made() -> Plan:
    """The job to be damaged: every kind of item, keys, boundaries, lists; late rows and duplicates."""
    return job("keyed")


@pytest.fixture
def plan(made: Plan) -> Plan:
    """The job's tables, to be damaged."""
    return small.copied(made)


@pytest.mark.parametrize("name", sorted(set(KINDS) - {"keyed"}))
def test_what_a_run_leaves_is_as_it_must_be(name: str) -> None:
    assert [d.text() for d in small.found(job(name), SOURCE[name])] == []


def test_what_a_run_with_keys_leaves_is_as_it_must_be(made: Plan) -> None:
    assert [d.text() for d in small.found(made, SOURCE["keyed"])] == []
    assert sum(small.tables_of(made).table(f"{q.name}_changes").num_rows for q in made.queries) > 1500
    assert set(small.tables_of(made).table("rejected")["reason"].to_pylist()) == {"late", "duplicate_id"}


def one(rows: Rows, n: int = 0, **match: Any) -> dict[str, Any]:
    """A row with these values; the ``n``-th of them."""
    return [r for r in rows if all(r[k] == v for k, v in match.items())][n]


def put(n: int = 5, *, by: Callable[[Any], Any], column: str, **match: Any) -> Change:
    """Another value in a column of one row."""

    def change(rows: Rows) -> None:
        row = one(rows, n, **match)
        row[column] = by(row[column])

    return change


def swap(column: str, **match: Any) -> Change:
    """Two rows of one stream and step (or result) exchange what stands in a column."""

    def change(rows: Rows) -> None:
        mine = [r for r in rows if all(r[k] == v for k, v in match.items())]
        a, b = next(
            (a, b) for a in mine for b in mine
            if a["grp"] == b["grp"] and a.get("step") == b.get("step") and a[column] < b[column]
        )  # fmt: skip
        a[column], b[column] = b[column], a[column]

    return change


def gone(n: int = 5, **match: Any) -> Change:
    """A row is missing."""
    return lambda rows: [r for r in rows if r is not one(rows, n, **match)]


def twice(n: int = 5) -> Change:
    """A row is there twice."""
    return lambda rows: [*rows, rows[n]]


def later(t: Any) -> Any:
    return t + timedelta(microseconds=1)


def next_float(x: float) -> float:
    return x + 2**-44


def signs_swapped(rows: Rows) -> None:
    """The last - of a step and its first + exchange their places."""
    minus, plus = next(
        (a, b) for a in rows for b in rows
        if (a["grp"], a["step"], a["pos"] + 1) == (b["grp"], b["step"], b["pos"]) and (a["change"], b["change"]) == ("-", "+")
    )  # fmt: skip
    minus["pos"], plus["pos"] = plus["pos"], minus["pos"]


def score_in_changes(rows: Rows) -> None:
    """An item's score in both of its rows."""
    came = one(rows, 5, change="+")
    for r in rows:
        if all(r[n] == came[n] for n in ("grp", "seq")):
            r["score"] = next_float(r["score"])


CORRUPTIONS: dict[str, tuple[str, Change, str]] = {
    "a + with another score": ("best_changes", put(by=next_float, column="score", change="+"), "score"),
    "a - with another score": ("best_changes", put(by=next_float, column="score", change="-"), "other values than it entered with"),
    "an item's score in all its changes": ("best_changes", score_in_changes, "score"),
    "a pair's score": ("far5_changes", put(by=next_float, column="score", change="+"), "score"),
    "an id": ("best_changes", put(by=lambda v: v + 1, column="id", change="+"), "id"),
    "an id of a pair that leaves": (
        "far5_changes",
        put(by=lambda v: v + 1, column="newer_id", change="-"),
        "other values than it entered with",
    ),
    "a place in the order": ("best_changes", put(by=lambda v: v + 1, column="seq", change="+"), "seq"),
    "an object's instant": ("best_changes", put(by=later, column="time", change="+"), "time"),
    "a carried column": ("best_changes", put(by=lambda v: v + 1, column="y", change="+"), "y"),
    "a carried column, to null": ("far5_changes", put(by=lambda v: None, column="older_x", change="+"), "older_x"),
    "a key": ("best_changes", put(by=lambda v: "q" if v == "p" else "p", column="grp", change="+"), "does not follow"),
    "an instant": ("best_changes", put(50, by=later, column="changed_at", change="+"), "valid_from"),
    "a step": ("best_changes", put(by=lambda v: v + 1, column="step", change="+"), "does not follow"),
    "a sign": ("best_changes", put(by=lambda v: "-", column="change", change="+"), "its item is not in the result"),
    "a cause that has another sign": ("best_changes", put(by=lambda v: "arrival", column="cause", cause="displaced"), "cause arrival"),
    "arrival for promoted": ("best_changes", put(by=lambda v: "arrival", column="cause", cause="promoted"), "cause arrival"),
    "displaced for expiry": ("best_changes", put(by=lambda v: "displaced", column="cause", cause="expiry"), "cause displaced"),
    "expiry for displaced": ("best_changes", put(by=lambda v: "expiry", column="cause", cause="displaced"), "cause expiry"),
    "deletion where there is none": ("best_changes", put(by=lambda v: "delete", column="cause", cause="expiry"), "cause delete"),
    "arrival for boundary": ("parted_changes", put(by=lambda v: "arrival", column="cause", cause="boundary"), "cause arrival"),
    "a cause that there is not": ("sky_changes", put(by=lambda v: "whim", column="cause", change="+"), "cause whim"),
    "two + in the other order": ("sky_changes", swap("pos", change="+"), "not in rank order"),
    "two - in the other order": ("far5_changes", swap("pos", change="-"), "not in rank order"),
    "a - and a + in the other order": ("best_changes", signs_swapped, "follows a + of the same step"),
    "another batch": ("best_changes", put(by=lambda v: v - 1 if v else 1, column="batch_id", change="+"), "batch"),
    "a change less": ("best_changes", gone(), "tables of changes have"),
    "a change twice": ("best_changes", twice(), "does not follow"),
    "a change of a list's query": ("many_changes", put(by=next_float, column="score", change="+"), "score"),
    "a score of a result": ("best", put(by=next_float, column="score"), "score"),
    "an id of a result": ("best", put(by=lambda v: v + 1, column="id"), "id"),
    "a carried column of a result": ("best", put(by=lambda v: v + 1, column="y"), "y"),
    "the end of a result": ("best", put(by=later, column="valid_to", is_current=False), "valid_to"),
    "the beginning of a result": ("best", put(by=later, column="valid_from"), "valid_from"),
    "a result less": ("best", gone(), "a row is missing"),
    "a result twice": ("best", twice(), "a row that the changes do not give"),
    "a pair's score in a result": ("far5", put(by=next_float, column="score"), "score"),
    "a column of a list's result": ("limits", put(by=lambda v: v + 1, column="id"), "id"),
    "ranks swapped": ("best_now", swap("rank"), "differs from the changes"),
    "a rank": ("sky_now", put(0, by=lambda v: v + 7, column="rank"), "rank"),
    "a row of now less": ("best_now", gone(2), "a row is missing"),
    "a row of now twice": ("best_now", twice(1), "a row that the changes do not give"),
    "a score of now": ("best_now", put(1, by=next_float, column="score"), "score"),
    "a carried column of now": ("best_now", put(1, by=lambda v: v + 1, column="y"), "y"),
    "as_of of now": ("best_now", put(1, by=later, column="as_of"), "as_of"),
    "last_seq of a key": ("heads", put(0, by=lambda v: v + 1, column="last_seq"), "objects"),
    "last_time of a key": ("heads", put(0, by=later, column="last_time"), "last_time"),
    "as_of of a key, later": ("heads", put(0, by=lambda t: t + timedelta(hours=9), column="as_of"), "as_of"),
    "as_of of a key, by a moment": ("heads", put(0, by=lambda t: t - timedelta(microseconds=1), column="as_of"), "as_of"),
    "a key less": ("heads", gone(0), "the key has changes, but no row"),
    "a key twice": ("heads", twice(0), "2 rows"),
    "a rejected row less": ("rejected", gone(0, reason="late"), "rejected_late"),
    "a rejected row twice": ("rejected", twice(0), "table rejected has"),
    "a reason": ("rejected", put(0, by=lambda v: "late", column="reason", reason="duplicate_id"), "rejected_late"),
    "the batch of a rejected row": ("rejected", put(0, by=lambda v: v + 1, column="batch_id", reason="late"), "rejected_late"),
    "rows_in": ("runs", put(1, by=lambda v: v + 1, column="rows_in"), "rows_in"),
    "accepted": ("runs", put(1, by=lambda v: v - 1, column="accepted"), "accepted"),
    "rejected by reason": ("runs", put(1, by=lambda v: v + 1, column="rejected_late"), "rejected_late"),
    "changes of a batch": ("runs", put(1, by=lambda v: v + 1, column="changes"), "changes"),
    "what waits": ("runs", put(1, by=lambda v: v + 1, column="pending"), "pending"),
    "a frontier": ("runs", put(0, by=lambda t: t - timedelta(days=2), column="frontier", batch_id=3), "frontier is earlier"),
    "a batch less": ("runs", gone(0, batch_id=2), "missing"),
    "the first batch less": ("runs", gone(0, batch_id=0), "first row is of batch 1"),
    "a batch twice": ("runs", twice(1), "two rows"),
}


@pytest.mark.parametrize("which", CORRUPTIONS)
def test_a_corruption_is_seen(plan: Plan, which: str) -> None:
    table, change, said = CORRUPTIONS[which]
    small.altered(plan, table, change)
    texts = [d.text() for d in small.found(plan)]
    assert any(said in t for t in texts), texts


def in_all(tables: list[str], column: str, by: Callable[[Any], Any], seq: str = "seq") -> dict[str, Change]:
    """What one object has in a column, in all ``tables``: they agree with each other, not with the source."""
    chosen: list[tuple[Any, Any]] = []

    def change(rows: Rows) -> None:
        if not chosen:
            row = max((r for r in rows if r["change"] == "+"), key=lambda r: sum(o[seq] == r[seq] and o["grp"] == r["grp"] for o in rows))
            chosen.append((row["grp"], row[seq]))
        for r in rows:
            if (r["grp"], r[seq]) == chosen[0]:
                r[column] = by(r[column])

    return dict.fromkeys(tables, change)


def one_more_accepted(rows: Rows) -> None:
    """Batch 1 has taken in a row more."""
    row = one(rows, batch_id=1)
    row["accepted"] += 1
    row["rows_in"] += 1


BEST = ["best_changes", "best", "best_now"]
ROWS = [f"{t}{n}" for t in ("best", "many", "sky", "limits") for n in ("_changes", "", "_now")]
AGREED: dict[str, tuple[dict[str, Change], str]] = {
    "promoted for arrival": (
        {"far5_changes": put(by=lambda v: "promoted", column="cause", cause="arrival")},
        "cause promoted: its object arrived at this step",
    ),
    "a carried column everywhere": (in_all(BEST, "y", lambda v: v + 1), "differs from its object: y"),
    "an id everywhere": (in_all(ROWS, "id", lambda v: -v), "differs from its object: id"),
    "scores everywhere": (
        {t: lambda rows: [{**r, "score": r["score"] * 2} for r in rows] for t in BEST},
        "differs from the definition",
    ),
    "where a key stands, and the sum": (
        {"heads": put(0, by=lambda v: v + 1, column="last_seq"), "runs": one_more_accepted},
        "not those of the key's last object",
    ),
}


@pytest.mark.parametrize("which", AGREED)
def test_what_tables_agree_on_is_held_against_the_source(plan: Plan, which: str) -> None:
    changes, said = AGREED[which]
    for table, change in changes.items():
        small.altered(plan, table, change)
    texts = [d.text() for d in small.found(plan, SOURCE["keyed"])]
    assert any(said in t for t in texts), texts


def test_a_difference_is_told_in_words_and_instants_with_its_rows(plan: Plan) -> None:
    small.altered(plan, "best_now", swap("rank"))
    (first, second) = [d for d in small.found(plan)]
    lines = format_differences([first, second, second]).splitlines()
    assert re.fullmatch(r"    table best_now, grp '[pqr]': differs from the changes: (id, seq, time, .*|rank)", lines[0])
    row = r"grp '.', rank \d, id \d+, seq \d+, time 2020-01-01 \d\d:\d\d:00 UTC, x [\d.]+, y [\d.]+, score [\d.]+, as_of 2020-.* UTC"
    assert re.fullmatch("      expected  " + row, lines[1]) and re.fullmatch("      found  " + row, lines[2])
    assert lines[3:] == ["    and 2 more differences of this kind"]
