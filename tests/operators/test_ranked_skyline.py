"""The best members of skylines against their definition: after every event, however the stream is cut, saved and restored."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skyband.operators.base import CAUSES, Arrivals, Changes, Column, State, Window
from skyband.operators.single_rows.scores import Linear
from skyband.operators.skyline.chosen import RankedSkyline, RankedSkylineDeletes, RankedSkylineQuery
from skyband.operators.skyline.operator import Dimension, SkylineQuery
from tests.operators import host
from tests.operators.test_skyline import FIELDS
from tests.operators.test_skyline import Case as Plain
from tests.operators.test_skyline_deletes import Case as Deleting
from tests.operators.test_skyline_deletes import WithDeletions
from tests.oracles.events import changes, instants
from tests.oracles.skyline import LogicalQuery, dominance
from tests.seeds import cases, seeds


class Ranked(WithDeletions):
    """The k best members of a skyline by internal scores, larger first; NaN for none."""

    def __init__(self, k: int, scores: Any, *rest: Any) -> None:
        super().__init__(*rest)
        self.k, self.scores = k, scores

    def result(self, t: int) -> list[int]:
        scored = [i for i in super().result(t) if not np.isnan(self.scores[i])]
        return sorted(scored, key=lambda i: (-self.scores[i], -i))[: self.k]


class Case:
    """A stream of the tests of skylines, with deletions or not, and a score per row with many ties."""

    def __init__(self, seed: int, deletes: bool, **fixed: Any) -> None:
        self.stream: Any = Deleting(seed, **fixed) if deletes else Plain(seed, **fixed)
        rng = np.random.default_rng(seed + 1)
        op, n = self.stream.op, len(self.stream.key)
        self.k = [int(rng.choice([1, 2, 3, 8])) for _ in op.queries]
        self.direction = str(rng.choice(["min", "max"]))
        score = rng.integers(-2, int(rng.choice([0, 2, 20])), n) * 1.5
        score[rng.random(n) < 0.1 * (rng.random() < 0.5)] = np.nan
        score[rng.random(n) < 0.03] = -np.inf
        self.score = score
        self.stream.columns["s"] = score
        queries = tuple(RankedSkylineQuery(q.name, q.window, q.every_micros, k) for q, k in zip(op.queries, self.k, strict=True))
        kind = RankedSkylineDeletes if deletes else RankedSkyline
        self.op = kind(
            op.dimensions,
            queries,
            op.window,
            op.band,
            op.distinct,
            levels=op.levels,
            scoring=Linear((("s", 1.0),)),
            direction=self.direction,  # type: ignore[arg-type]
        )
        self.end: int = self.stream.end

    def expected(self) -> list[tuple[Any, ...]]:
        out: list[tuple[Any, ...]] = []
        s = self.stream
        for q, query in enumerate(self.op.queries):
            logical = LogicalQuery(query.window.count, query.window.micros, query.every_micros)
            for k, at in enumerate(s.rows):
                rows = s.of_key[k] if hasattr(s, "of_key") else list(range(len(at)))
                times = s.at[k] if hasattr(s, "at") else s.time[at].tolist()
                own = self.score[at]
                watched = Ranked(
                    self.k[q],
                    -own if self.direction == "min" else own,
                    rows,
                    s.time[at].tolist(),
                    s.dom[k],
                    s.usable[at],
                    self.op.band,
                    logical,
                )
                events = instants(times, s.time[at].tolist(), logical.micros, logical.every, self.end)
                found = changes(events, logical.every, watched)
                out += [(q, k, a, step, pos, sign, CAUSES.index(c), seq, float(own[seq]) + 0.0) for a, step, pos, sign, c, seq in found]
        return out


def play(case: Case, cuts: list[int], restore: bool = False) -> tuple[list[Changes], Any]:
    blocks = [(case.stream.block(lo, hi), hi) for lo, hi in itertools.pairwise(cuts)]
    kept = host.Keeper(case.op, _Stream(case.stream))
    return host.play(case.op, blocks, kept if restore else None)


class _Stream:
    """What ``host.Keeper`` asks of a stream."""

    def __init__(self, stream: Any) -> None:
        self.stream, self.time = stream, stream.time

    def __len__(self) -> int:
        return len(self.stream.time)

    def block(self, lo: int, hi: int) -> Arrivals:
        assert lo == hi == 0
        rows: Arrivals = self.stream.block(0, 0)
        return rows


def tuples(blocks: list[Changes]) -> list[tuple[Any, ...]]:
    """All changes in the order (query, key, step, pos)."""
    rows = [
        r for b in blocks for r in zip(*(getattr(b, f).tolist() for f in FIELDS), b.items[:, 0].tolist(), b.score.tolist(), strict=True)
    ]
    return sorted(rows, key=lambda r: (r[0], r[1], r[3], r[4]))


def check(seed: int, deletes: bool, **fixed: Any) -> int:
    case = Case(seed, deletes, **fixed)
    expected = case.expected()
    whole, logic = play(case, [-1000, case.end])
    assert tuples(whole) == expected, (seed, fixed)
    cut, other = play(case, case.stream.cuts(8), restore=bool(case.stream.rng.integers(2)))
    assert tuples(cut) == expected, (seed, fixed)
    mine, theirs = logic.checkpoint(), other.checkpoint()
    for name in ("ranked_step", "member_start", "member_seq", "member_score"):
        assert mine[name].tobytes() == theirs[name].tobytes(), name
    assert host.band_of(logic) == host.band_of(other)
    return len(expected)


@pytest.mark.parametrize("deletes", [False, True])
@pytest.mark.parametrize("part", range(4))
def test_random_streams_equal_the_definition_at_every_event(part: int, deletes: bool) -> None:
    assert sum(check(seed, deletes, levels=seed % 4 == 3) for seed in seeds(part * 60, part * 60 + 60)) > 0


@given(
    seed=st.integers(0, 2**31), deletes=st.booleans(), band=st.integers(1, 4), d=st.integers(1, 4), values=st.integers(1, 6),
    keys=st.integers(1, 4), window=st.sampled_from(["count", "time", "both"]), shape=st.sampled_from(["random", "anti", "same", "up"]),
)  # fmt: skip
@settings(deadline=None, max_examples=cases(60))
def test_any_configuration(seed: int, deletes: bool, **fixed: Any) -> None:
    check(seed, deletes, **fixed)


@pytest.mark.parametrize("deletes", [False, True])
@pytest.mark.parametrize("window", ["count", "time", "both"])
def test_restored_at_every_instant(window: str, deletes: bool) -> None:
    for seed in range(4):
        case = Case(seed + 7000, deletes, shape="anti", d=2, window=window, n=30, more=2)
        blocks, _ = play(case, [-1000, *range(-21, case.end + 1)], restore=True)
        assert tuples(blocks) == case.expected()


def test_many_members_come_and_go_in_one_step() -> None:
    """Members that nothing but one row kept out enter when it expires, more than are inserted one by one, and expire at one instant."""
    n, window = 60, Window(None, 10)
    rng = np.random.default_rng(3)
    x, y = np.arange(n) - 1.0, n - np.arange(n) - 1.0
    x[0] = y[0] = -1.0
    x[20:25] += 0.5  # of the last instant
    time = np.array([0] + [1] * 19 + [4] * (n - 20), np.int64)
    s = rng.integers(0, 6, n) * 1.0
    s[7] = np.nan
    queries = tuple(RankedSkylineQuery(f"{k}", window, None, k) for k in (1, 5, 100))
    dims = (Dimension(Column("x", "float"), "min"), Dimension(Column("y", "float"), "min"))
    op = RankedSkyline(dims, queries, window, scoring=Linear((("s", 1.0),)), direction="max")
    rows = Arrivals(np.zeros(n, np.int64), np.arange(n), time, {"x": x, "y": y, "s": s})
    found = tuples([op.build(None).advance(rows, 100)])
    usable = np.ones(n, bool)
    dom = dominance(np.column_stack([x, y]), ["min", "min"], usable, False)
    expected: list[tuple[Any, ...]] = []
    for i, q in enumerate(queries):
        watched = Ranked(q.k, s, list(range(n)), time.tolist(), dom, usable, 1, LogicalQuery(None, 10))
        events = instants(time.tolist(), time.tolist(), 10, None, 100)
        expected += [(i, 0, a, step, pos, sign, CAUSES.index(c), q_, s[q_]) for a, step, pos, sign, c, q_ in changes(events, None, watched)]
    assert found == expected
    assert sum(row[2] == 10 and row[0] == 2 and row[5] > 0 for row in found) == n - 2


@pytest.mark.parametrize("deletes", [False, True])
def test_snapshots_of_any_k_and_window(deletes: bool) -> None:
    for seed in seeds(0, 40):
        case = Case(seed + 500, deletes, n=40, keys=2)
        logic = case.op.build(None)
        s = case.stream
        logic.advance(s.block(-1000, case.end), case.end)
        big = case.op.window
        window = Window(big.count and int(s.rng.integers(1, big.count + 1)), big.micros and int(s.rng.integers(1, big.micros + 1)))
        for key, at in enumerate(s.rows):
            rows = s.of_key[key] if deletes else list(range(len(at)))
            own = case.score[at]
            for k in (1, 2, 100):
                watched = Ranked(
                    k, -own if case.direction == "min" else own, rows, s.time[at].tolist(), s.dom[key], s.usable[at], case.op.band,
                    LogicalQuery(window.count, window.micros),
                )  # fmt: skip
                for row in range(len(rows)):
                    watched.enter(row)
                found = logic.snapshot(key, k, window)
                assert found.items[:, 0].tolist() == watched.result(case.end - 1)
                assert found.score.tolist() == own[found.items[:, 0]].tolist()
        with pytest.raises(ValueError, match="k is 0"):
            logic.snapshot(0, 0, window)


@pytest.mark.parametrize("deletes", [False, True])
def test_the_state_of_one_key_goes_on_alone(deletes: bool) -> None:
    for seed in seeds(0, 15):
        case = Case(seed + 900, deletes, n=40, keys=3)
        until = int(case.stream.rng.integers(-10, case.end + 1))
        logic, keeper = case.op.build(None), host.Keeper(case.op, _Stream(case.stream))
        before, rest = case.stream.block(-1000, until), case.stream.block(until, case.end)
        logic.advance(before, until)
        rows = keeper(logic, before, until)
        arrays = {n: a.copy() for n, a in logic.checkpoint().items()}
        whole = tuples([logic.advance(rest, case.end)])
        for key in range(len(arrays["last"])):
            mine, following = host.pick(rows, rows.key == key), host.pick(rest, rest.key == key)
            picked = case.op.state_keys.picked(arrays, np.array([key]))
            alone = case.op.build(State(picked, replace(mine, key=np.zeros(len(mine), np.int64))))
            found = alone.advance(replace(following, key=np.zeros(len(following), np.int64)), case.end)
            assert tuples([found]) == [(q, 0, *r) for q, k, *r in whole if k == key]


def test_rows_without_a_score_keep_others_out_and_are_counted() -> None:
    op = RankedSkyline(
        (Dimension(Column("x", "float"), "min"),), (RankedSkylineQuery("q", Window(10), None, 2),), Window(10),
        scoring=Linear((("s", 1.0),)), direction="max",
    )  # fmt: skip
    logic = op.build(None)
    seq = np.arange(3)
    x, s = np.array([2.0, 1.0, np.nan]), np.array([5.0, np.nan, np.nan])
    found = logic.advance(Arrivals(np.zeros(3, np.int64), seq, seq, {"x": x, "s": s}), 3)
    assert [CAUSES[c] for c in found.cause] == ["arrival", "displaced"] and found.items[:, 0].tolist() == [0, 0]
    assert logic.counters()["unusable:0"] == 2 and logic.counters()["unusable:0"] == 0


def test_a_configuration_that_means_nothing_is_refused() -> None:
    good: dict[str, Any] = {
        "dimensions": (Dimension(Column("a", "float"), "min"),), "queries": (RankedSkylineQuery("q", Window(10), None, 2),),
        "window": Window(10), "scoring": Linear((("a", 1.0),)), "direction": "max",
    }  # fmt: skip
    RankedSkyline(**good)
    for change, message in (
        ({"queries": (RankedSkylineQuery("q", Window(10), None, 0),)}, "k must"),
        ({"queries": (SkylineQuery("q", Window(10)),)}, "k must"),
        ({"direction": "up"}, "direction"),
        ({"band": 0}, "band"),
    ):
        with pytest.raises(ValueError, match=message):
            RankedSkyline(**{**good, **change})
