"""Operators about pairs of sets with deletions: the contract, and brute force after every event."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skyband.operators.base import CAUSES, DELETION_TARGET, NULL, Arrivals, Window
from skyband.operators.contract import Rows, check_operator, random_rows
from skyband.operators.matches.operator import Matches
from skyband.operators.pair_rows.queries import PairQuery
from skyband.operators.set_index.kernels.tables import CLOCK, LAST_CLOCK
from skyband.operators.topk_similar_sets import deletes as logic
from skyband.operators.topk_similar_sets.operator import TopKSimilarSetsDeletes
from tests.operators.host import in_order
from tests.operators.pairs_host import changes_of_some_keys, text_of
from tests.operators.sets_host import Case, ragged, random_case, random_matches_case, random_pairs_case
from tests.oracles import sets as oracle
from tests.seeds import least, seeds

CASES: dict[str, Any] = {"pairs": random_pairs_case, "matches": random_matches_case, "topk": random_case}


def deletable(kind: str, seed: int) -> Case:
    """A random job whose rows may be deletions."""
    case: Case = CASES[kind](seed, 10)
    op = case.op
    if kind != "topk":
        return replace(case, op=replace(op, deletes=True))
    given = {f.name: getattr(op, f.name) for f in fields(op) if f.name != "deletes"}
    return replace(case, op=TopKSimilarSetsDeletes(**given))


@pytest.fixture(params=[(4, 16), (2, 0)], ids=["long", "short"])
def _places(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lists of the usual length, and such that are soon full and soon too short."""
    monkeypatch.setattr(logic, "PLACES", request.param)


def key_rows(case: Case, stream: Rows, key: int) -> oracle.Stream:
    """One key's rows as the oracle takes them."""
    mine = np.flatnonzero(stream.key == key)
    objects = mine[stream.seq[mine] >= 0].tolist()
    between = case.op.between
    sides = None if between is None else (between.column, *case.op.side_codes())
    columns = [{n: stream.column(n, np.array([i]), stream.first_codes())[0].item() for n in stream.values} for i in objects]
    sets = [frozenset(stream.sets["tokens"][i].tolist()) for i in objects]
    times = [int(stream.time[i]) for i in objects]
    events = [(int(stream.time[i]), None if stream.seq[i] >= 0 else int(stream.target[i])) for i in mine.tolist()]
    return oracle.Stream(times, columns, sets, case.op.similarity, case.where, sides, events)


def check(case: Case, seed: int, rows: int) -> int:
    """Compare the changes, the snapshots and the state of one run with the definition; return the number of changes."""
    op = case.op
    stream = random_rows(op, np.random.default_rng(seed), rows, 3)
    logic = op.build(None)
    changes = logic.advance(stream.block(np.arange(len(stream)), stream.first_codes()), stream.end)
    keys = [key_rows(case, stream, key) for key in range(int(stream.key.max()) + 1)]
    want, replay = [], oracle.matches if isinstance(op, Matches) else oracle.replay
    for i, q in enumerate(op.queries):
        asked = case.query(q)
        for key, mine in enumerate(keys):
            want += replay(i, key, mine, asked, stream.end)
            if not isinstance(op, Matches):
                shown = oracle.snapshot(mine, asked, stream.end - 1, len(mine.times))
                got = logic.snapshot(key, asked.k, q.window, i)
                assert list(zip(*got.items.T.tolist(), got.score.tolist(), strict=True)) == shown
    assert text_of(in_order([changes])) == text_of(want)
    return len(changes)


@pytest.mark.usefixtures("_places")
@pytest.mark.parametrize("kind", CASES)
def test_brute_force(kind: str) -> None:
    assert sum(check(deletable(kind, seed), seed, 70) for seed in seeds(0, 60)) >= least(1)


@given(st.sampled_from(sorted(CASES)), st.integers(0, 2**32), st.integers(1, 40))
def test_brute_force_drawn(kind: str, seed: int, rows: int) -> None:
    check(deletable(kind, seed), seed, rows)


@pytest.mark.usefixtures("_places")
@pytest.mark.parametrize("kind", CASES)
def test_the_contract_holds(kind: str) -> None:
    assert sum(check_operator(deletable(kind, seed).op, seed) for seed in seeds(0, 15)) >= least(1)


def rows_of(sets: list[list[int]], deleted: list[int], first: int = 0) -> Arrivals:
    """Rows with ``sets``, numbered from ``first`` on, and after them deletions."""
    n, m = len(sets), len(deleted)
    seq, target = np.arange(first, first + n), np.array(deleted, np.int64)
    return Arrivals(
        np.zeros(n + m, np.int64), np.concatenate([seq, np.full(m, -1)]), np.full(n + m, first),
        {DELETION_TARGET: np.concatenate([np.full(n, NULL), target])}, {"tokens": ragged(sets + [[]] * m)},
    )  # fmt: skip


@pytest.mark.parametrize("clock", [None, LAST_CLOCK - 6])
def test_a_list_that_deletions_leave_short_is_filled_from_the_window(monkeypatch: pytest.MonkeyPatch, clock: int | None) -> None:
    """Pairs that were cut off come back as promoted, in rank order; every deletion is a step of its own.

    A join does not let the clock of the index run over.
    """
    monkeypatch.setattr(logic, "PLACES", (2, 0))
    window = Window(20)
    queries = (PairQuery("q", 1, window),)
    state = TopKSimilarSetsDeletes(tokens="tokens", similarity="jaccard", window=window, queries=queries, keep_k=1).build(None)
    state.advance(rows_of([[1, 2]] * 5, []), 1)
    assert state.snapshot(0, 1, window).items.tolist() == [[3, 4]]
    if clock is not None:
        state.sets.index.scalars[CLOCK] = clock
    changes = state.advance(rows_of([], [4, 3, 2, 1], 5), 6)
    assert [CAUSES[c] for c in changes.cause] == ["delete", "promoted"] * 3 + ["delete"]
    assert changes.items.tolist() == [[3, 4], [2, 3], [2, 3], [1, 2], [1, 2], [0, 1], [0, 1]]
    assert state.counters()["refills"] > 0
    assert state.sets.index.scalars[CLOCK] < 100


@pytest.mark.usefixtures("_places")
@pytest.mark.parametrize("kind", CASES)
def test_a_state_is_divided_by_keys(kind: str) -> None:
    assert sum(changes_of_some_keys(deletable(kind, seed).op, seed) for seed in seeds(100, 115)) >= least(1)
