"""Skylines over rows that can be deleted against their definition: after every event, however the stream is cut, saved and restored."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skyband.operators.base import CAUSES, DELETION_TARGET, NULL, AnyArray, Arrivals, Changes, Column, State, Window
from skyband.operators.skyline.operator import Dimension, Skyline, SkylineDeletes, SkylineQuery
from tests.operators import host
from tests.operators.test_skyline import FIELDS, sample, sets, tuples
from tests.operators.test_skyline import Case as Stream
from tests.oracles.events import changes, instants
from tests.oracles.skyline import LogicalQuery, Watched, dominance, members
from tests.seeds import cases, seeds


class WithDeletions(Watched):
    """A query over one key's rows, each the number of an object, or -1 - n for the deletion of object n."""

    def __init__(self, rows: Sequence[int], times: Sequence[int], dom: AnyArray, usable: AnyArray, band: int, query: LogicalQuery) -> None:
        super().__init__(times, dom, usable, band, query)
        self.rows, self.deleted = rows, np.zeros(len(times), bool)

    def enter(self, row: int) -> None:
        if self.rows[row] >= 0:
            super().enter(self.rows[row])
        else:
            self.deleted[-1 - self.rows[row]] = True

    def result(self, t: int) -> list[int]:
        return sorted(members(self.dom, self.usable, self.alive(t) & ~self.deleted, self.band), reverse=True)

    def left(self, item: int, t: int) -> str:
        return "delete" if self.deleted[item] else super().left(item, t)

    def brought(self, item: int, row: int) -> bool:
        return item == self.rows[row]


class Case(Stream):
    """A stream of ``test_skyline`` with deletions among its rows: of any object that came before, in a window or not."""

    def __init__(self, seed: int, share: float = 0.3, **fixed: Any) -> None:
        super().__init__(seed, **fixed)
        op = self.op
        self.op: Any = SkylineDeletes(op.dimensions, op.queries, op.window, op.band, op.distinct, levels=op.levels)
        self.of_key: list[list[int]] = []
        self.at: list[list[int]] = []
        for at in self.rows:
            rows, times, gone = [], [], set()
            for n, time in enumerate(self.time[at].tolist()):
                rows.append(n)
                times.append(time)
                while self.rng.random() < share:
                    target = int(self.rng.integers(max(0, n - 12), n + 1))
                    if target not in gone:
                        gone.add(target)
                        rows.append(-1 - target)
                        following = self.time[at[n + 1]] if n + 1 < len(at) else time + 5
                        times.append(int(self.rng.integers(times[-1], following + 1)))
            self.of_key.append(rows)
            self.at.append(times)
        self.end = max([self.end, *(t + 1 for times in self.at for t in times)])

    def expected(self) -> list[tuple[int, ...]]:
        out: list[tuple[int, ...]] = []
        for q, query in enumerate(self.op.queries):
            logical = LogicalQuery(query.window.count, query.window.micros, query.every_micros)
            for k, at in enumerate(self.rows):
                watched = WithDeletions(self.of_key[k], self.time[at].tolist(), self.dom[k], self.usable[at], self.op.band, logical)
                events = instants(self.at[k], self.time[at].tolist(), logical.micros, logical.every, self.end)
                found = changes(events, logical.every, watched)
                out += [(q, k, a, step, pos, sign, CAUSES.index(cause), seq) for a, step, pos, sign, cause, seq in found]
        return out

    def block(self, lo: int, hi: int) -> Arrivals:
        key, seq, target, time, source = [], [], [], [], []
        for k, at in enumerate(self.rows):
            for row, t in zip(self.of_key[k], self.at[k], strict=True):
                if lo <= t < hi:
                    key.append(k)
                    time.append(t)
                    seq.append(max(row, -1))
                    target.append(NULL if row >= 0 else -1 - row)
                    source.append(int(at[max(row, 0)]))
        columns = {n: c[source] for n, c in self.columns.items()} | {DELETION_TARGET: np.array(target, np.int64)}
        return Arrivals(np.array(key, np.int64), np.array(seq, np.int64), np.array(time, np.int64), columns)


def play(case: Case, cuts: list[int], restore: bool = False) -> tuple[list[Changes], Any]:
    blocks = [(case.block(lo, hi), hi) for lo, hi in itertools.pairwise(cuts)]
    seen = [case.block(0, 0)]

    def kept(logic: Any, block: Arrivals, until: int) -> Arrivals:
        seen[0] = host.joined(seen[0], block)
        return seen[0]

    return host.play(case.op, blocks, kept if restore else None)


def check(seed: int, **fixed: Any) -> None:
    case = Case(seed, **fixed)
    expected = case.expected()
    assert tuples(play(case, [-1000, case.end])[0]) == expected
    assert tuples(play(case, case.cuts(8), restore=bool(case.rng.integers(2)))[0]) == expected


@pytest.mark.parametrize("part", range(4))
def test_random_streams_equal_the_definition_at_every_event(part: int) -> None:
    for seed in seeds(part * 60, part * 60 + 60):
        check(seed)


def test_levels_of_dimensions_equal_their_definition() -> None:
    for seed in seeds(0, 100):
        check(seed, levels=True)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(20))
def test_thousands_of_random_streams(part: int) -> None:
    for seed in range(10_000 + part * 100, 10_000 + part * 100 + 100):
        check(seed)


@pytest.mark.parametrize("window", ["count", "time", "both"])
def test_restored_at_every_instant(window: str) -> None:
    for seed in range(4):
        case = Case(seed + 7000, window=window, n=30, more=2)
        blocks, _ = play(case, [-1000, *range(-21, case.end + 1)], restore=True)
        assert tuples(blocks) == case.expected()


@given(
    seed=st.integers(0, 2**31), band=st.integers(1, 6), d=st.integers(1, 6), values=st.integers(1, 6), keys=st.integers(1, 4),
    window=st.sampled_from(["count", "time", "both"]), share=st.sampled_from([0.02, 0.3, 0.6]),
)  # fmt: skip
@settings(deadline=None, max_examples=cases(40))
def test_any_configuration(seed: int, band: int, d: int, values: int, window: str, keys: int, share: float) -> None:
    check(seed, band=band, d=d, values=values, window=window, keys=keys, share=share)


def test_without_deletions_the_changes_are_those_of_the_plain_operator() -> None:
    for seed in seeds(0, 100):
        case = Case(seed + 500, share=0.0)
        plain = Skyline(case.op.dimensions, case.op.queries, case.op.window, case.op.band, case.op.distinct)
        block = case.block(-1000, case.end)
        expected = tuples([plain.build(None).advance(block, case.end)])
        assert tuples([case.op.build(None).advance(block, case.end)]) == expected


def test_snapshots_of_any_band_and_window() -> None:
    for seed in seeds(0, 60):
        case = Case(seed + 500, n=40, keys=2)
        logic = case.op.build(None)
        until = int(case.rng.integers(-10, case.end + 1))
        logic.advance(case.block(-1000, until), until)
        big = case.op.window
        window = Window(big.count and int(case.rng.integers(1, big.count + 1)), big.micros and int(case.rng.integers(1, big.micros + 1)))
        for key, at in enumerate(case.rows):
            logical = LogicalQuery(window.count, window.micros)
            for k in range(1, case.op.band + 1):
                watched = WithDeletions(case.of_key[key], case.time[at].tolist(), case.dom[key], case.usable[at], k, logical)
                for row, t in enumerate(case.at[key]):
                    if t < until:
                        watched.enter(row)
                assert logic.snapshot(key, k, window).items[:, 0].tolist() == watched.result(until - 1)


@pytest.mark.parametrize(("kind", "d", "band"), [("ind", 3, 1), ("ant", 3, 2), ("cor", 2, 3)])
@pytest.mark.parametrize("window", [Window(300), Window(None, 320)])
def test_long_windows_are_compared_chunk_by_chunk(kind: str, d: int, band: int, window: Window) -> None:
    rng, n = np.random.default_rng(d * band), 900
    x = sample(kind, d, n, band, 0.02)
    gone = rng.random(n) < 0.2
    gone[0] = False
    seq = np.where(gone, -1, np.cumsum(~gone) - 1)
    target, alive, dead = np.full(n, NULL), set[int](), np.full(n, n)
    for t in range(n):
        if gone[t]:
            target[t] = rng.choice(sorted(alive)[-280:])
            alive.remove(int(target[t]))
            dead[target[t]] = t
        else:
            alive.add(int(seq[t]))
    dims = tuple(Dimension(Column(f"c{j}", "float"), "min") for j in range(d))
    op = SkylineDeletes(dims, (SkylineQuery("q", window),), window, band)
    columns = {f"c{j}": x[:, j].copy() for j in range(d)} | {DELETION_TARGET: target}
    rows = Arrivals(np.zeros(n, np.int64), seq, np.arange(n), columns)
    logic = op.build(None)
    cut = [host.pick(rows, slice(a, a + 300)) for a in range(0, n, 300)]
    results = sets([logic.advance(block, int(block.time[-1]) + 1) for block in cut], n)
    time, values = np.flatnonzero(~gone), x[~gone]
    usable = np.ones(len(time), bool)
    dom = dominance(values, ["min"] * d, usable, False)
    for t in range(0, n, 7):
        newest = int(np.count_nonzero(time <= t)) - 1
        living = (time <= t) & (dead[: len(time)] > t) & (np.arange(len(time)) > newest - (window.count or n))
        living &= time + (window.micros or n) > t
        assert results[t] == members(dom, usable, living, band)


def test_the_state_of_one_key_goes_on_alone() -> None:
    for seed in seeds(0, 20):
        case = Case(seed + 900, n=40, keys=3)
        until = int(case.rng.integers(-10, case.end + 1))
        logic = case.op.build(None)
        before, rest = case.block(-1000, until), case.block(until, case.end)
        logic.advance(before, until)
        arrays, rows = {n: a.copy() for n, a in logic.checkpoint().items()}, host.joined(case.block(0, 0), before)
        whole = tuples([logic.advance(rest, case.end)])
        for key in range(len(arrays["last"])):
            mine = host.pick(rows, rows.key == key)
            alone = case.op.build(
                State(case.op.state_keys.picked(arrays, np.array([key])), replace(mine, key=np.zeros(len(mine), np.int64)))
            )
            following = host.pick(rest, rest.key == key)
            found = alone.advance(replace(following, key=np.zeros(len(following), np.int64)), case.end)
            assert tuples([found]) == [(q, 0, *r) for q, k, *r in whole if k == key]


def test_a_deleted_dominator_brings_back_what_it_alone_dominated() -> None:
    dims = Stream(1, d=2, equal=0.0).op.dimensions[:1]
    op: Any = SkylineDeletes(dims, (SkylineQuery("q", Window(10)),), Window(10))
    x = np.array([3, 2, 1, 0, 0]) * (1 if dims[0].direction == "min" else -1)
    column = x.astype(np.float64) if dims[0].column.kind == "float" else x
    columns = {dims[0].column.name: column, DELETION_TARGET: np.array([NULL, NULL, NULL, 2, 1])}
    at = np.arange(5)
    found = op.build(None).advance(Arrivals(np.zeros(5, np.int64), np.array([0, 1, 2, -1, -1]), at, columns), 5)
    rows = list(zip(*(getattr(found, f).tolist() for f in FIELDS), found.items[:, 0].tolist(), strict=True))
    assert [(r[2], r[5], CAUSES[r[6]], r[7]) for r in rows] == [
        (0, 1, "arrival", 0), (1, -1, "displaced", 0), (1, 1, "arrival", 1), (2, -1, "displaced", 1), (2, 1, "arrival", 2),
        (3, -1, "delete", 2), (3, 1, "promoted", 1), (4, -1, "delete", 1), (4, 1, "promoted", 0),
    ]  # fmt: skip
