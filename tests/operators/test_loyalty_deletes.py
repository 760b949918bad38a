"""Loyalty with deleted reports against brute force by the definition: changes and trajectories, however the stream is cut."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skyband.operators.base import DELETION_TARGET, NULL
from skyband.operators.loyalty import LoyaltyQuery
from tests.operators.loyalty_host import Case, random_case, run, with_deletions
from tests.operators.test_loyalty import case_of, changes_of, check
from tests.seeds import cases, seeds


@pytest.mark.parametrize("part", range(2))
def test_brute_force(part: int) -> None:
    for seed in seeds(part * 12, part * 12 + 12):
        check(with_deletions(random_case(seed), seed), seed)


@given(st.integers(0, 2**32), st.integers(1, 30), st.integers(1, 5))
@settings(deadline=None, max_examples=cases(12))
def test_brute_force_drawn(seed: int, rows: int, objects: int) -> None:
    check(with_deletions(random_case(seed, rows, objects), seed), seed)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(6))
def test_brute_force_more(part: int) -> None:
    for seed in range(part * 200, part * 200 + 200):
        check(with_deletions(random_case(10**6 + seed, 70, 12), seed), seed)


def test_without_deletions_the_changes_are_those_of_the_plain_operator() -> None:
    for seed in seeds(0, 15):
        case = random_case(seed + 300)
        s = case.stream
        seq = np.array([int(np.count_nonzero(s.key[:i] == k)) for i, k in enumerate(s.key.tolist())], np.int64)
        columns = s.columns | {DELETION_TARGET: np.full(len(s), NULL)}
        stream = replace(s, columns=columns, seq=seq, deletes=np.full(len(s), -1))
        found = run(replace(case, stream=stream, op=replace(case.op, deletes=True)), [])
        plain = run(case, [])
        assert (found.changes, found.points) == (plain.changes, plain.points)


def deleting(rows: list[tuple[int, int, int]], deletions: dict[int, int], stale: int | None = None) -> Case:
    """Rows (time, object, on) of one key with k = 1; ``deletions``: the number of a row that deletes to that of the row it deletes."""
    case = case_of(rows, 100, (LoyaltyQuery(1),), 220, stale)
    n = len(rows)
    deletes = np.array([deletions.get(i, -1) for i in range(n)])
    seq = np.array([-1 if i in deletions else i - sum(d < i for d in deletions) for i in range(n)])
    columns: dict[str, Any] = case.stream.columns | {DELETION_TARGET: np.where(deletes >= 0, seq[deletes], NULL)}
    return replace(case, stream=replace(case.stream, columns=columns, seq=seq, deletes=deletes), op=replace(case.op, deletes=True))


def test_a_deleted_report_ends_and_the_time_before_stays() -> None:
    assert changes_of(deleting([(10, 1, 1), (14, 9, 0)], {1: 0})) == [(10, 1, "arrival", 1, 0, 1), (114, -1, "expiry", 1, 0, 0)]


def test_a_report_that_another_one_has_ended_is_deleted_without_effect() -> None:
    rows = [(10, 1, 1), (12, 1, 1), (14, 9, 0), (20, 1, 0)]
    assert changes_of(deleting(rows, {2: 0})) == [(10, 1, "arrival", 1, 0, 1), (120, -1, "expiry", 1, 0, 0)]


def test_a_report_deleted_at_its_own_instant_never_counts() -> None:
    assert changes_of(deleting([(10, 1, 1), (10, 9, 0), (20, 2, 1)], {1: 0})) == [(20, 1, "arrival", 2, 0, 1)]


def test_of_two_reports_of_one_instant_only_the_last_can_be_deleted_with_effect() -> None:
    rows = [(10, 1, 1), (10, 1, 1), (14, 9, 0), (20, 1, 0)]
    assert changes_of(deleting(rows, {2: 0}))[-1] == (120, -1, "expiry", 1, 0, 0)
    assert changes_of(deleting(rows, {2: 1}))[-1] == (114, -1, "expiry", 1, 0, 0)


def test_a_stale_report_is_deleted_without_effect() -> None:
    assert changes_of(deleting([(10, 1, 1), (30, 9, 0)], {1: 0}, stale=5))[-1] == (115, -1, "expiry", 1, 0, 0)
