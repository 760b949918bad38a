"""Long runs of arrivals with a cutoff: brute force's changes and the state of a run without, however often a cutoff stops serving."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skyband.operators import threads
from skyband.operators.base import Window
from skyband.operators.pair_rows import segments
from skyband.operators.pair_rows.kernels.tables import SKYBAND_LENGTH, SKYBAND_START
from skyband.operators.pair_rows.queries import PairQuery
from skyband.operators.topk_pairs import long_runs
from skyband.operators.topk_pairs.operator import TopKPairs
from tests.operators.pairs_host import SHAPES, Case, cuts_of, drive, random_case, random_stream, text_of
from tests.operators.test_topk_pairs import closest, rows_from
from tests.seeds import least, seeds

COLUMNS = ("query", "at", "step", "pos", "sign", "cause", "score", "items")


def note_cutoffs(patch: pytest.MonkeyPatch) -> list[tuple[float, int, bool]]:
    """(cutoff, arrivals it served, whether to the end) of every use of one, from now on."""
    found: list[tuple[float, int, bool]] = []
    reach = long_runs._Run._reach

    def noted(self: Any, cutoff: float) -> None:
        begun = self.at
        reach(self, cutoff)
        found.append((cutoff, self.at - begun, self.at == self.stop))

    patch.setattr(long_runs._Run, "_reach", noted)
    return found


def one_key(case: Case, seed: int) -> Case:
    """The same job on a stream of one key."""
    rng = np.random.default_rng(seed)
    stream = random_stream(rng, len(case.stream), 1, str(rng.choice(SHAPES)))
    return dataclasses.replace(case, stream=stream, end=int(stream.time[-1]) + int(rng.choice([1, 3, 200])))


def any_length(patch: pytest.MonkeyPatch, seed: int) -> None:
    """From now on a run of a row is long, every cutoff pays that serves a row, and a cutoff is some score of the skyband's pairs."""
    rng = np.random.default_rng(seed)
    chosen = long_runs._Run._cutoff

    def drawn(self: Any) -> float:
        start, length = self.bucket.keys[0, SKYBAND_START], self.bucket.keys[0, SKYBAND_LENGTH]
        scores = self.bucket.skyband.score[start : start + length]
        return float(rng.choice(scores)) if length and rng.random() < 0.7 else chosen(self)

    patch.setattr(long_runs._Run, "_cutoff", drawn)
    for module in (long_runs, segments):
        patch.setattr(module, "LEAST_ROWS", 1)
        patch.setattr(module, "LEAST_TURNOVERS", 0)
    patch.setattr(long_runs, "SUB_BATCH", 2)


@pytest.mark.parametrize("part", range(4))
def test_brute_force(part: int, monkeypatch: pytest.MonkeyPatch) -> None:
    used = []
    for seed in seeds(part * 80, part * 80 + 80):
        case, rng = one_key(random_case(seed, 150), seed), np.random.default_rng(seed + 3)
        cuts, want = cuts_of(case.stream, rng, 0.1), text_of(case.expected())
        rows, plain = drive(case, cuts)
        assert text_of(rows) == want
        with monkeypatch.context() as patch:
            any_length(patch, seed)
            found = note_cutoffs(patch)
            rows, logic = drive(case, cuts)
            assert text_of(rows) == want
            assert {n: a.tolist() for n, a in logic.checkpoint().items()} == {n: a.tolist() for n, a in plain.checkpoint().items()}
            assert text_of(drive(case, cuts, restore=True, loose=2)[0]) == want
            assert not found or not any(q.every_micros for q in case.op.queries)
        used += found
    assert sum(whole for _, _, whole in used) >= least(2) and sum(not rows for _, rows, _ in used) >= least(2)


@given(st.integers(0, 2**32), st.integers(1, 60), st.integers(1, 3), st.integers(1, 20))
def test_brute_force_drawn(seed: int, rows: int, count: int, together: int) -> None:
    case = one_key(random_case(seed, rows), seed)
    with pytest.MonkeyPatch.context() as patch:
        any_length(patch, seed)
        patch.setattr(long_runs, "SUB_BATCH", together)
        threads.allow(count)
        try:
            assert text_of(drive(case, [])[0]) == text_of(case.expected())
        finally:
            threads.allow(1)


def changes_of(operator: TopKPairs, x: Any, y: Any, cuts: list[int]) -> list[Any]:
    """Changes and state, arrivals taken up to each of ``cuts``."""
    logic = operator.build(None)
    changes = [logic.advance(rows_from(x[a:b], y[a:b], a), b) for a, b in zip([0, *cuts], [*cuts, len(x)], strict=True)]
    # Steps are one sequence, however a stream is cut.
    rows = [np.concatenate([getattr(c, column) for c in changes]).tolist() for column in COLUMNS]
    return [sorted(zip(*rows, strict=True)), {n: a.tolist() for n, a in logic.checkpoint().items()}]


ROWS = 30_000
STREAMS: dict[str, Any] = {
    "even": lambda rng: rng.random(ROWS),
    "shrinking": lambda rng: rng.random(ROWS) * np.exp(-np.arange(ROWS) / 3_000),
    "growing": lambda rng: rng.random(ROWS) * np.exp(np.arange(ROWS) / 3_000),
    "tied": lambda rng: np.round(rng.random(ROWS) * 5),
    "outliers": lambda rng: rng.standard_cauchy(ROWS),
    "quiet, then wild": lambda rng: np.where(np.arange(ROWS) % 12_000 < 6_000, 1e-6, 1.0) * rng.random(ROWS),
}


@pytest.mark.parametrize("direction", ["min", "max"])
@pytest.mark.parametrize("shape", STREAMS)
def test_runs_of_any_length_give_the_same_bytes(shape: str, direction: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(7)
    x, y = STREAMS[shape](rng), STREAMS[shape](rng)
    whole = closest(Window(300), 8)
    queries = (PairQuery("all", 8, Window(300)), PairQuery("few", 3, Window(120)), PairQuery("near", 8, Window(300), None, 0.01))
    if direction == "max":
        queries = (*queries[:2], PairQuery("far", 8, Window(300), 1.5, None))
    operator = TopKPairs(whole.scoring, direction, whole.where, None, queries, 8, Window(300))
    short = [changes_of(operator, x, y, list(range(1_000, ROWS, 1_000)))]
    found = note_cutoffs(monkeypatch)
    assert changes_of(operator, x, y, []) == changes_of(operator, x, y, [14_321]) == short[0]
    served = [rows for _, rows, whole in found if not whole]
    if shape == "even":
        assert max(rows for _, rows, _ in found) > 10_000
    elif shape in ("growing", "shrinking", "quiet, then wild"):
        assert any(served), "a cutoff that served for a while and then no longer"


def test_a_short_run_has_no_cutoff(monkeypatch: pytest.MonkeyPatch) -> None:
    found, rng = note_cutoffs(monkeypatch), np.random.default_rng(1)
    x, y = rng.random(60_000), rng.random(60_000)
    changes_of(closest(Window(500), 5), x, y, list(range(4_000, 60_000, 4_000)))
    assert not found
    changes_of(closest(Window(20_000), 5), x, y, [])
    assert not found
    changes_of(closest(Window(500), 5), x, y, [30_000])
    # The first window is taken without; from there on one cutoff serves to the end, and one the second run.
    assert [(rows, whole) for _, rows, whole in found] == [(30_000 - 4_096, True), (30_000, True)]
