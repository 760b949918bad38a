"""Top-k pairs against brute force after every event: ties, NaN, infinities, predicates, sides, boundaries, cuts, restarts, snapshots."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from tests.operators.pairs_host import Case, band_of, cuts_of, drive, random_case, text_of
from tests.oracles import pairs as oracle


def check(case: Case, seed: int, sub_batch: int | None = None) -> None:
    rng = np.random.default_rng(seed + 1)
    want = text_of(case.expected())
    whole, logic = drive(case, [])
    assert text_of(whole) == want
    check_state(case, logic)
    assert text_of(drive(case, cuts_of(case.stream, rng, 1.0))[0]) == want
    assert text_of(drive(case, cuts_of(case.stream, rng, 0.2))[0]) == want
    assert text_of(drive(case, cuts_of(case.stream, rng, 0.7), restore=True, loose=int(rng.integers(0, 4)))[0]) == want


def check_state(case: Case, logic: object) -> None:
    """Snapshots and skyband by definition, as of the end."""
    op = case.op
    lowest = max((q.min_score for q in op.queries if q.min_score is not None), default=None) if op.direction == "min" else None
    highest = max((q.max_score for q in op.queries if q.max_score is not None), default=None) if op.direction == "max" else None
    for key in range(int(case.stream.key.max()) + 1):
        stream = case.key_stream(key)
        n = len(stream.times)
        for i, q in enumerate(op.queries):
            got = logic.snapshot(key, op.keep_k, q.window, i)  # type: ignore[attr-defined]
            want = oracle.snapshot(stream, dataclasses.replace(case.query(q), k=op.keep_k), case.end - 1, n)
            assert list(zip(*got.items.T.tolist(), got.score.tolist(), strict=True)) == want
        largest = oracle.Query(
            op.keep_k, op.window.count, op.window.micros, -np.inf if lowest is None else lowest, np.inf if highest is None else highest
        )
        band = [r[1:] for r in band_of(logic) if r[0] == key]
        assert len(set(band)) == len(band)
        assert set(band) == oracle.skyband(stream, op.keep_k, largest, case.end - 1, n)


@pytest.mark.parametrize("part", range(10))
def test_brute_force(part: int) -> None:
    for seed in range(part * 30, part * 30 + 30):
        check(random_case(seed), seed)
