"""What is wrong in all tables alike: replay and books find nothing, the source shows it. For every query type and every corruption."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator
from datetime import timedelta
from itertools import pairwise
from typing import Any

import pytest

from skyband.framework.queries.registry import QUERY_TYPES
from tests.framework.verify import consistent, small
from tests.framework.verify.test_corruptions import SOURCE, job
from tests.spark.kinds import KINDS

QUERIES = [
    (kind, name)
    for kind, names in {
        "pairs": ("far3", "near4", "hourly"),
        "keyed": ("far5", "parted", "best", "many", "limits", "sky", "odd"),
        "corrections": ("best20", "hot"),
        "deletions": (
            "best20",
            "hot",
            "totals",
            "ends",
            "busy",
            "varied",
            "cents",
            "paid",
            "spread",
            "odd",
            "close",
            "apart",
            "next",
            "twins",
            "angles",
            "alike",
            "seen",
            "peaks",
            "layers",
            "crest",
            "far5",
            "parted",
            "spaced",
        ),
        "skylines": ("hourly", "band", "first", "tops", "prior"),
        "sets": ("twins", "angles", "alike", "seen", "close", "apart", "next"),
        "loyalty": ("loyal", "fresh", "steady", "slowly"),
        "switched": ("loyal", "fresh", "steady"),
        "groups": ("totals", "means", "busy", "varied", "tied", "widest", "hours", "quarters", "visits"),
    }.items()
    for name in names
]
"""(kind of job, query): every type, with keys, boundaries, lists, sides."""


def test_every_query_type_is_there() -> None:
    asked = {q.type for kind, name in QUERIES for q in job(kind).queries if q.name == name}
    assert asked == set(QUERY_TYPES.all())


@pytest.mark.parametrize(("kind", "name"), QUERIES)
def test_everything_of_a_good_job_is_proven(kind: str, name: str) -> None:
    plan = small.copied(job(kind))
    consistent.write(consistent.changes_of(plan, name))
    assert [d.text() for d in small.of_tables(plan, name)] == []
    found = small.of_source(plan, name, SOURCE[kind])
    assert [d.text() for d in found.differences] == []
    assert found.shares and all(s.complete and s.total for s in found.shares), found.shares


MOVING = [(kind, name) for kind, name in QUERIES if kind in ("loyalty", "switched")]
DELETED = [("deletions", name) for name in ("totals", "ends", "busy", "varied", "cents", "paid", "spread")]
GROUPS = [*DELETED, *(("groups", name) for kind, name in QUERIES if kind == "groups")]
UNSCORED = [
    *MOVING,
    ("keyed", "sky"),
    ("skylines", "hourly"),
    ("skylines", "band"),
    ("skylines", "prior"),
    ("deletions", "peaks"),
    ("deletions", "layers"),
]
CARRYING = [
    ("deletions", "hot"),
    ("corrections", "best20"),
    ("deletions", "close"),
    ("deletions", "next"),
    ("deletions", "seen"),
    ("deletions", "peaks"),
    ("keyed", "far5"),
    ("keyed", "best"),
    ("keyed", "many"),
    ("keyed", "odd"),
    ("sets", "seen"),
    ("sets", "close"),
    ("sets", "next"),
    ("groups", "totals"),
    ("deletions", "ends"),
]
OF_ONE_SCORE = [
    ("pairs", "hourly"),
    ("sets", "alike"),
    ("deletions", "alike"),
    ("sets", "close"),
    ("deletions", "close"),
    ("groups", "busy"),
    ("groups", "varied"),
    ("groups", "visits"),
    ("deletions", "busy"),
    ("deletions", "parted"),
]
CHANGING_ALWAYS = [
    ("pairs", "hourly"),
    ("keyed", "parted"),
    ("skylines", "hourly"),
    ("deletions", "layers"),
    ("sets", "angles"),
    ("deletions", "angles"),
    ("sets", "apart"),
    ("groups", "varied"),
    ("groups", "widest"),
    ("deletions", "parted"),
]
"""At every boundary: no step can be at the next one."""
REPORTED = [("sets", "seen"), ("sets", "next"), ("deletions", "next"), ("deletions", "seen")]
"""Matches: reported once."""
TAKEN_BACK = [q for q in QUERIES if q not in [*MOVING, *GROUPS, *REPORTED]]
APPLIES: dict[str, list[tuple[str, str]]] = {
    "an item less": QUERIES,
    "an item stays longer": TAKEN_BACK,
    "a step comes later": [q for q in QUERIES if q not in CHANGING_ALWAYS],
    "a score": [q for q in QUERIES if q not in UNSCORED],
    "two scores exchanged": [q for q in QUERIES if q not in [*UNSCORED, *OF_ONE_SCORE]],
    "a carried column": CARRYING,
    "an item of another row": [q for q in QUERIES if q not in [*MOVING, *GROUPS]],
    "two objects exchanged": [*MOVING, *GROUPS],
}
"""To which queries a corruption applies."""


OFTEN = [("deletions", "cents"), ("groups", "totals"), ("groups", "hours")]
"""The queries about groups that are damaged in every run of the tests."""
SLOW = [q for q in QUERIES if q not in OFTEN and (q in GROUPS or (q[0] == "deletions" and q[1] != "hot"))]
"""Each takes seconds: a job with deletions has all the query types of the others again."""


def damaged(query: tuple[str, str], *which: str, often: bool = True) -> Any:
    """Return the parameters of a test that damages a query's tables."""
    return pytest.param(*which, *query, marks=pytest.mark.slow if query in SLOW or not often else ())


def corruptions() -> Iterator[Any]:
    """Yield the parameters of every corruption of every query; those are not slow that are the first of their query type, or query."""
    types, queries = set[tuple[str, str]](), set[tuple[str, str]]()
    for which, applies in APPLIES.items():
        for kind, name in applies:
            entry = re.search(rf"^  {name}: {{type: (\w+)", KINDS[kind].queries, re.MULTILINE)
            assert entry is not None
            often = (kind, name) not in queries or (which, entry[1]) not in types
            if (kind, name) not in SLOW and often:
                queries.add((kind, name))
                types.add((which, entry[1]))
            yield damaged((kind, name), which, often=often)


def test_every_corruption_applies_to_something() -> None:
    assert set(APPLIES) == set(consistent.ALTERED) and all(APPLIES.values())


@pytest.mark.parametrize(("which", "kind", "name"), [*corruptions()])
def test_what_is_wrong_in_all_tables_is_found(kind: str, name: str, which: str) -> None:
    plan = small.copied(job(kind))
    changes = consistent.changes_of(plan, name)
    assert consistent.ALTERED[which](changes)
    consistent.write(changes)
    assert small.of_source(plan, name, SOURCE[kind]).differences, [d.text() for d in small.of_tables(plan, name)]


@pytest.mark.parametrize("name", ["loyal", "steady"])
def test_a_crossing_that_comes_a_tenth_of_a_second_later_is_found(name: str) -> None:
    """Between two rows an object overtakes another, or reaches the bound: the tables agree on another instant."""
    plan = small.copied(job("loyalty"))
    changes = consistent.changes_of(plan, name)
    crossing = [s for s in changes.steps() if {r["cause"] for r in s} == {"crossing"}]
    consistent.moved(changes, crossing[len(crossing) // 2], timedelta(milliseconds=100))
    consistent.write(changes)
    assert [d.text() for d in small.of_tables(plan, name)] == []
    found = small.of_source(plan, name, SOURCE["loyalty"]).differences
    steps = [d for d in found if "its changes at this instant" in d.what]
    assert {d.at for d in steps} >= {consistent.instant(crossing[len(crossing) // 2][0]["changed_at"])}
    assert any(r["cause"] == "crossing" for d in steps for r in d.expected or ())


def test_a_trajectory_of_an_object_outside_the_result_is_found() -> None:
    """``trace: all`` writes trajectories of objects that no change names: here without its last bend."""
    plan = small.copied(job("loyalty"))

    def without_last(rows: consistent.Rows) -> consistent.Rows:
        line = sorted((r for r in rows if r["who"] == rows[0]["who"] and r["side"] == rows[0]["side"]), key=lambda r: r["valid_from"])
        last = next(b for a, b in reversed(list(pairwise(line))) if b["slope"] == 0 and a["slope"] > 0)
        return [r for r in rows if r is not last and (r not in line or r["valid_from"] <= last["valid_from"])]

    small.altered(plan, "fresh_trajectory", without_last)
    found = small.of_source(plan, "fresh", SOURCE["loyalty"]).differences
    assert any(d.where.startswith("table fresh_trajectory") and "differs from the definition" in d.what for d in found)


@pytest.mark.parametrize("which", ["a partner less", "a partner more", "another partner"])
def test_partners_that_are_not_the_best_are_found(which: str) -> None:
    plan = small.copied(job("sets"))
    changes = consistent.changes_of(plan, "seen")
    step = next(s for s in reversed(changes.steps()) if len(s) == 2 and s[0]["older_seq"] > 3)
    if which == "a partner less":
        changes.rows.remove(step[1])
    elif which == "a partner more":
        changes.rows.append({**step[1], "pos": 2, "older_seq": step[1]["older_seq"] - 1})
    else:
        step[1]["older_seq"] = next(s for s in range(step[0]["newer_seq"]) if s not in (step[0]["older_seq"], step[1]["older_seq"]))
    consistent.write(changes)
    found = small.of_source(plan, "seen", SOURCE["sets"]).differences
    (result,) = [d for d in found if "differs from the definition" in d.what]
    assert result.at == consistent.instant(step[0]["changed_at"])


@pytest.mark.parametrize(
    ("kind", "reason"), [("keyed", "late"), ("keyed", "duplicate_id"), ("deletions", "no_target"), ("corrections", "duplicate_id")]
)
@pytest.mark.parametrize("more", [False, True])
def test_rejected_rows_that_are_gone_or_made_up_are_found(kind: str, reason: str, more: bool) -> None:
    """With the counts of ``runs`` that go with them."""
    plan = small.copied(job(kind))
    chosen: list[consistent.Row] = []

    def change(rows: consistent.Rows) -> consistent.Rows:
        chosen.append(next(r for r in rows if r["reason"] == reason))
        made_up = {**chosen[0], "text": chosen[0]["text"].replace('"x":', '"x":1')}
        return [*rows, made_up] if more else [r for r in rows if r is not chosen[0]]

    def count(rows: consistent.Rows) -> None:
        (row,) = [r for r in rows if r["batch_id"] == chosen[0]["batch_id"]]
        for n in ("rows_in", "rejected", f"rejected_{reason}"):
            row[n] += 1 if more else -1

    small.altered(plan, "rejected", change)
    small.altered(plan, "runs", count)
    name = plan.queries[0].name
    assert [d.text() for d in small.of_tables(plan, name)] == []
    said = "not in the source:" if more else "missing:"
    found = [d.text() for d in small.of_source(plan, name, SOURCE[kind]).differences]
    # Without its row in ``rejected`` a late row counts as accepted.
    assert any(said in text or (reason == "late" and "table heads" in text) for text in found), found


@pytest.mark.parametrize(("kind", "name"), [damaged(q) for q in QUERIES if q not in REPORTED])
def test_another_cause_is_found(kind: str, name: str) -> None:
    """Every cause that occurs changed to every other of its sign: what the tables cannot know, the source does.

    The source is compared once for as many of them as there are instants with such a cause: each is to be found at its own.
    """
    pairs = deque(consistent.causes(consistent.changes_of(job(kind), name)))
    assert pairs
    unseen: deque[tuple[str, str]] = deque()
    while pairs:
        pair = pairs.popleft()
        plan = small.copied(job(kind))
        changes = consistent.changes_of(plan, name)
        assert consistent.another_cause(changes, *pair, set()) is not None
        small.altered(plan, f"{name}_changes", lambda _, rows=changes.rows: rows)  # type: ignore[misc]
        if not small.of_tables(plan, name):
            unseen.append(pair)
    while unseen:
        plan, places = small.copied(job(kind)), dict[int, tuple[str, str]]()
        changes = consistent.changes_of(plan, name)
        for pair in [unseen.popleft() for _ in range(len(unseen))]:
            place = consistent.another_cause(changes, *pair, set(places))
            if place is None:
                unseen.append(pair)
            else:
                places[place] = pair
        small.altered(plan, f"{name}_changes", lambda _, rows=changes.rows: rows)  # type: ignore[misc]
        texts = [(d.at, d.text()) for d in small.of_source(plan, name, SOURCE[kind]).differences]
        found = {at for at, text in texts if "its changes at this instant" in text or "cause" in text}
        assert {pair for place, pair in places.items() if place not in found} == set()
