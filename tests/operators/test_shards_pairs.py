"""Top-k pairs by shards and a merge, plain and capped: the changes, the state and the skyband of the operator's own logic."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skyband.operators import shards
from skyband.operators.base import Arrivals, State, Window
from skyband.operators.contract import random_rows
from skyband.operators.expressions import parse
from skyband.operators.found_pairs import FoundPairs
from skyband.operators.pair_rows.queries import PairQuery
from skyband.operators.pair_rows.zone_maps import maps
from skyband.operators.shards import Shardable, Share
from skyband.operators.topk_pairs.operator import TopKPairs
from tests.operators.pairs_host import SCHEMA, random_case
from tests.operators.sharded import SHARDS, cuts_of, plain_changes, sharded_changes
from tests.operators.test_capped_pairs import capped_case, with_cap
from tests.seeds import seeds


def check(operator: Any, seed: int, of: int, block: int, rows: int = 90, keys: int = 3) -> int:
    """Compare shards and merge, cut and restored at random, with the operator's own logic in one call; return the pairs found.

    What the state of capped pairs keeps depends on the cuts, so only its changes are compared.
    """
    rng = np.random.default_rng(seed)
    stream = random_rows(operator, rng, rows, keys)
    want = plain_changes(operator, stream)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shards, "BLOCK", block)
        found = 0
        for restored in (None, rng):
            got = sharded_changes(operator, stream, of, cuts_of(stream, rng, 0.3), restored)
            assert got.changes == want.changes
            assert (got.unusable, got.wake) == (want.unusable, want.wake)
            if type(operator) is TopKPairs:
                assert got.checkpoint == want.checkpoint
                assert got.skyband == want.skyband
            found += got.found
    return found


@pytest.mark.parametrize("of", SHARDS)
@pytest.mark.parametrize("make", [random_case, capped_case])
def test_any_number_of_shards_gives_the_same_bytes(make: Any, of: int) -> None:
    found = 0
    for seed in seeds(0, 10):
        found += check(make(1000 * of + seed).op, seed, of, block=1 + seed % 4)
    assert found > 0


@given(st.integers(0, 2**32), st.integers(1, 40), st.integers(1, 6), st.sampled_from((1, 2, 3, 8, 64)))
def test_small_streams(seed: int, rows: int, of: int, block: int) -> None:
    check((random_case, capped_case)[seed % 2](seed).op, seed, of, block, rows, keys=2)


def closest(window: Window, k: int) -> TopKPairs:
    score = parse("abs(a.x - b.x) + abs(a.y - b.y)", SCHEMA)
    return TopKPairs(score, "min", None, None, (PairQuery("q", k, window),), k, window)


def rows_of(rng: np.random.Generator, start: int, size: int) -> Arrivals:
    seq = np.arange(start, start + size)
    return Arrivals(np.zeros(size, np.int64), seq, seq, {"x": rng.random(size), "y": rng.random(size)})


@pytest.mark.parametrize("cap", [None, 2])
def test_shards_with_zone_maps_give_the_same_bytes(cap: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(maps, "LEAST_OBJECTS", 2048)
    whole = closest(Window(4000), 5)
    operator: Any = whole if cap is None else with_cap(whole, cap)
    rng = np.random.default_rng(3)
    plain, merge, parts = operator.build(None), operator.build_merge(None), [operator.build_shard(Share(i, 2), None) for i in range(2)]
    found = 0
    for start in range(0, 8000, 1000):
        arrivals = rows_of(rng, start, 1000)
        pairs = joined([part.find(arrivals, start + 1000) for part in parts])
        got, want = (logic.advance(replace(arrivals, found=p), start + 1000) for logic, p in ((merge, pairs), (plain, None)))
        for name in ("query", "key", "at", "step", "pos", "sign", "cause", "score", "items"):
            assert getattr(got, name).tobytes() == getattr(want, name).tobytes()
        found += len(pairs)
    assert sum(part.counters()["skipped"] for part in parts) > 0
    if cap is None:
        assert found < 8000 * 4 * np.sqrt(2 * 5 * 2), "of the order of 2 sqrt(2 K p) pairs an arrival"


def joined(parts: list[FoundPairs]) -> FoundPairs:
    return FoundPairs(*(np.concatenate([getattr(p, name) for p in parts]) for name in ("query", "key", "older", "newer", "score")))


def test_a_shard_searches_for_its_blocks_only() -> None:
    rng, operator = np.random.default_rng(1), closest(Window(None, 10_000), 3)
    arrivals, scored = rows_of(rng, 0, 1000), []
    for i in range(4):
        part = operator.build_shard(Share(i, 4), None)
        found = part.find(arrivals, 1000)
        assert set((found.newer // 2 // shards.BLOCK % 4).tolist()) == {i}
        scored.append(part.counters()["scored"])
    assert sum(scored) <= 1000 * 999 // 2
    assert min(scored) > 0.7 * sum(scored) / 4


def test_a_merge_refuses_arrivals_without_pairs_and_pairs_of_others() -> None:
    arrivals, merge = rows_of(np.random.default_rng(1), 0, 4), closest(Window(9), 3).build_merge(None)
    with pytest.raises(ValueError, match="without the pairs"):
        merge.advance(arrivals, 4)
    one = np.ones(1, np.int64)
    for key, newer in ((0, 8), (1, 2), (-1, 2), (0, -2)):
        pairs = FoundPairs(0 * one, key * one, 0 * one, newer * one, np.ones(1))
        with pytest.raises(ValueError, match="other arrivals"):
            closest(Window(9), 3).build_merge(None).advance(replace(arrivals, found=pairs), 4)


def test_operators_with_deletions_are_not_sharded() -> None:
    for operator in (closest(Window(9), 3), with_cap(closest(Window(9), 3), 1)):
        assert isinstance(operator, Shardable)
        assert operator.can_be_sharded
        assert not replace(operator, deletes=True).can_be_sharded


def test_a_shard_keeps_no_progress() -> None:
    operator = closest(Window(9), 3)
    part = operator.build_shard(Share(0, 1), None)
    arrivals = rows_of(np.random.default_rng(1), 0, 20)
    part.find(arrivals, 20)
    saved = part.checkpoint()
    assert set(saved) == {"until", "next", "sky_key", "sky_score", "sky_older", "sky_newer"}
    kept = Arrivals(arrivals.key[11:], arrivals.seq[11:], arrivals.time[11:], {n: c[11:] for n, c in arrivals.columns.items()})
    again = operator.build_shard(Share(0, 1), State(saved, kept))
    more = rows_of(np.random.default_rng(2), 20, 20)
    found, found_again = part.find(more, 40), again.find(more, 40)
    assert all(getattr(found, name).tobytes() == getattr(found_again, name).tobytes() for name in ("older", "newer", "score"))
    assert len(found)
