"""Messages and counts as they are on the wire, and the reasons of rejected rows: each said once."""

from __future__ import annotations

import json

import pytest

from skyband.framework.base import reasons
from skyband.framework.base.messages import (
    FRONTIER,
    NEWEST,
    PENDING,
    ROWS_IN,
    Changes,
    Skyband,
    Tally,
    Trajectory,
    parse_kind,
    time_count,
    unusable_count,
)
from skyband.framework.base.reasons import REASONS, count_name
from skyband.framework.tables.schemas import fixed_schema


@pytest.mark.parametrize(
    ("message", "kind"),
    [(Changes("best"), "changes:best"), (Skyband("near", 12), "skyband:near:12"), (Trajectory("loyal"), "trajectory:loyal")],
)
def test_a_message_with_an_address_is_read_back_from_its_kind(message: Changes | Skyband | Trajectory, kind: str) -> None:
    assert message.kind == kind
    assert parse_kind(kind) == message


@pytest.mark.parametrize("kind", ["rows", "counts", "heads", "rejected", "runs"])
def test_the_other_kinds_have_no_address(kind: str) -> None:
    assert parse_kind(kind) is None


def test_counts_are_summed_but_for_instants() -> None:
    tally = Tally()
    for mine in ({ROWS_IN: 3, NEWEST: 20, FRONTIER: 7, PENDING: -1}, {ROWS_IN: 2, NEWEST: 10, PENDING: 4}, {FRONTIER: 9}):
        tally.add(Tally(mine).message())
    assert tally == {"rows_in": 5, "newest": 20, "frontier": 9, "pending": 3}
    assert tally["never counted"] == 0 and "never counted" not in tally


def test_what_has_no_column_of_its_own_is_a_counter() -> None:
    tally = Tally({ROWS_IN: 1, "late": 2, "rejected_rule": 3, "control": 1, "deleted": 4, "best.scanned": 5})
    tally[time_count("load")] = 6
    tally[unusable_count("best")] = 7
    assert tally.unusable() == {"best": 7}
    assert tally.counters() == {"control": 1, "deleted": 4, "best.scanned": 5}
    assert json.loads(tally.message())["us_load"] == 6


def test_every_reason_is_in_one_class_and_in_the_tables_comments() -> None:
    spelled = [r for c in REASONS for r in c.reasons]
    constants = {
        getattr(reasons, n)
        for n in (
            "PARSE", "LATE", "DUPLICATE_ID", "NO_TARGET", "NULL_ID", "NULL_TIME", "NULL_KEY", "TIME_RANGE", "TOO_FAR_AHEAD", "INT_RANGE",
            "BAD_OP", "BAD_FILE",
        )
    }  # fmt: skip
    begun = {"rule:<name>", "empty_set:<name>", "large_set:<name>", "null_object:<column>", "bad_vector:<column>", "no_update:<column>"}
    begun |= {"year_range:<column>"}
    begun |= {"no_match:<name>"}
    assert len(spelled) == len(set(spelled)) and set(spelled) == constants | begun
    assert [count_name(r) for r in ("rule:a,b", "late", "empty_set:w", "large_set:w", "null_object:x", "bad_vector:x", "no_update:x")] == [
        "rejected_rule",
        "late",
        "rejected_tokens",
        "rejected_tokens",
        "null_object",
        "bad_vector",
        "no_update",
    ]
    assert count_name("no_match:x") == "no_match"
    assert {count_name(r) for r in spelled} == {n for c in REASONS for n in c.counts}
    comments = {f.name: f.metadata[b"comment"].decode() for s in (fixed_schema("rejected"), fixed_schema("runs")) for f in s}
    assert comments["reason"] == (
        "parse, rule:<name>, late, duplicate_id, no_target, null_id, null_time, null_key, null_object:<column>, empty_set:<name>, "
        "large_set:<name>, bad_file, time_range, too_far_ahead, int_range, year_range:<column>, bad_op, bad_vector:<column>, "
        "no_update:<column>, no_match:<name>"
    )
    assert {n: c for n, c in comments.items() if n.startswith("rejected_")} == {
        "rejected_parse": "rejected: not parsable",
        "rejected_rule": "rejected: a row rule failed",
        "rejected_late": "rejected: late",
        "rejected_tokens": "rejected: too few or too many tokens",
        "rejected_duplicate_id": "rejected: duplicate_id",
        "rejected_no_target": "rejected: a deletion of no live row",
        "rejected_null": "rejected: id, event time, key or object is null",
        "rejected_bad_file": "rejected: a file that cannot be read, as one row",
        "rejected_other": "rejected: another reason",
    }
