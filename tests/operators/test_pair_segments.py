"""Arrivals cut into segments that threads take side by side: brute force's changes, and the state that one thread leaves."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skyband.operators import threads
from skyband.operators.base import Window
from skyband.operators.pair_rows import segments
from tests.operators import pairs_host, sets_host
from tests.operators.pairs_host import cuts_of, text_of
from tests.operators.test_topk_pairs import closest, rows_from
from tests.seeds import least, seeds


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    yield
    threads.allow(1)


KINDS = {
    "pairs": (pairs_host.random_case, pairs_host.drive, "skyband.operators.topk_pairs.logic.run_segments"),
    "sets": (sets_host.random_case, sets_host.drive, "skyband.operators.topk_similar_sets.logic.run_segments"),
}


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Segments of a row and more; how many of every ``advance`` that has some."""
    found: list[int] = []
    whole = segments.run_segments

    def noted(*given: Any) -> Any:
        found.append(len(given[-2]))
        return whole(*given)

    monkeypatch.setattr(segments, "LEAST_ROWS", 1)
    monkeypatch.setattr(segments, "LEAST_TURNOVERS", 0)
    for _, _, place in KINDS.values():
        monkeypatch.setattr(place, noted)
    return found


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("part", range(4))
def test_brute_force(part: int, kind: str, taken: list[int]) -> None:
    random_case, drive, _ = KINDS[kind]
    several = 0
    for seed in seeds(part * 80, part * 80 + 80):
        case, rng = random_case(seed), np.random.default_rng(seed + 3)
        cuts, want = cuts_of(case.stream, rng, 0.1), text_of(case.expected())
        threads.allow(1)
        rows, alone = drive(case, cuts)
        assert text_of(rows) == want
        for count in (2, 3, 7):
            threads.allow(count)
            taken.clear()
            rows, logic = drive(case, cuts)
            assert text_of(rows) == want
            assert not taken or not any(q.every_micros for q in case.op.queries)
            several += len(taken)
            assert {n: a.tolist() for n, a in logic.checkpoint().items()} == {n: a.tolist() for n, a in alone.checkpoint().items()}
            assert text_of(drive(case, cuts, restore=True, loose=2)[0]) == want
    assert several >= least(11)


@pytest.mark.parametrize("kind", KINDS)
@given(st.integers(0, 2**32), st.integers(1, 40), st.integers(2, 6))
def test_brute_force_drawn(kind: str, seed: int, rows: int, count: int) -> None:
    random_case, drive, _ = KINDS[kind]
    case = random_case(seed, rows)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(segments, "LEAST_ROWS", 1)
        patch.setattr(segments, "LEAST_TURNOVERS", 0)
        threads.allow(count)
        assert text_of(drive(case, [])[0]) == text_of(case.expected())


def test_a_long_run_is_cut_and_a_short_one_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    parts: list[int] = []
    whole = segments.run_segments
    monkeypatch.setattr("skyband.operators.topk_pairs.logic.run_segments", lambda *given: parts.append(len(given[-2])) or whole(*given))
    rng = np.random.default_rng(1)
    x, y = rng.random(40_000), rng.random(40_000)
    found = []
    for count in (1, 3):
        threads.allow(count)
        logic = closest(Window(500, 900), 5).build(None)
        changes = [logic.advance(rows_from(x[a:b], y[a:b], a), b) for a, b in ((0, 30_000), (30_000, 33_000), (33_000, 40_000))]
        rows = [[getattr(c, f).tolist() for f in ("at", "step", "pos", "sign", "cause", "score", "items")] for c in changes]
        found.append((rows, {n: a.tolist() for n, a in logic.checkpoint().items()}, logic.counters()["objects"]))
    assert found[0] == found[1] and found[0][2] == 40_000
    # Three threads take the first; the second is too short to be cut, the third long enough for one cut only.
    assert parts == [3]


def test_what_fails_in_a_thread_is_raised() -> None:
    with pytest.raises(ZeroDivisionError):
        threads.side_by_side([lambda: 1, lambda: 1 // 0])
    assert threads.side_by_side([lambda: 1, lambda: 2]) == [1, 2]
