"""Skylines against their definition: after every event, however the stream is cut, saved and restored."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from tests.oracles.skyline import Asked, dominance, members, stream

from skyband.operators.base import NULL, Arrivals, Changes, Column, State, Window
from skyband.operators.skyline import Dimension, Skyline, SkylineQuery

FIELDS = ("query", "key", "at", "step", "pos", "sign", "cause")


class Case:
    """One random stream of several keys with the operator that watches it."""

    def __init__(self, seed: int, **given: Any) -> None:
        rng = np.random.default_rng(seed)
        pick = lambda name, options: given[name] if name in given else options[rng.integers(len(options))]  # noqa: E731
        self.keys = pick("keys", [1, 1, 2, 5])
        n = pick("n", [0, 1, 5, 25, 40, 60])
        d = pick("d", [1, 2, 2, 3, 3, 4, 5, 6])
        values = pick("values", [2, 3, 5, 20])
        self.band = pick("band", [1, 1, 2, 3, 5])
        self.distinct = bool(pick("distinct", [False, True]))
        window = pick("window", ["count", "time", "both"])
        shape = pick("shape", ["random", "random", "up", "down", "same", "anti"])
        gap = pick("gap", [1, 2, 5, 30])
        big = Window(
            int(rng.integers(1, 31)) if window != "time" else None,
            int(rng.integers(1, 40)) if window != "count" else None,
        )
        queries = [SkylineQuery("q0", big)]
        for i in range(int(pick("more", [0, 0, 1, 3]))):
            smaller = Window(
                None if big.count is None else int(rng.integers(1, big.count + 1)),
                None if big.micros is None else int(rng.integers(1, big.micros + 1)),
            )
            queries.append(SkylineQuery(f"q{i + 1}", smaller, int(rng.integers(1, 20)) if rng.random() < 0.4 else None))
        kinds = [str(rng.choice(["float", "float", "int", "time", "bool"])) for _ in range(d)]
        self.directions = [str(rng.choice(["min", "min", "max"])) for _ in range(d)]
        if d > 1 and rng.random() < given.get("equal", 0.3):
            self.directions[-1] = "equal"
            kinds[-1] = str(rng.choice(["text", "int", "float", "bool"]))
        dims = tuple(
            Dimension(Column(f"c{j}", k), q)  # type: ignore[arg-type]
            for j, (k, q) in enumerate(zip(kinds, self.directions, strict=True))
        )
        self.op = Skyline(dims, tuple(queries), big, self.band, self.distinct)
        self.key = np.sort(rng.integers(0, self.keys, n))
        self.seq, self.time = np.zeros(n, np.int64), np.zeros(n, np.int64)
        self.columns: dict[str, Any] = {}
        raw = rng.integers(0, values, (n, d))
        if shape in ("up", "down"):
            raw = np.arange(n)[:, None] // 2 + raw % 2
            raw = raw if shape == "up" else n - raw
        elif shape == "same":
            raw = np.zeros((n, d), np.int64)
        elif shape == "anti" and d > 1:
            raw[:, 0] = values * (d - 1) - raw[:, 1:].sum(1) + raw[:, 0] % 2
        self.usable = np.ones(n, bool)
        exact = np.empty((n, d), object)
        for j, kind in enumerate(kinds):
            column = raw[:, j] % 2 if kind == "bool" else raw[:, j]
            null = rng.random(n) < 0.05 * (rng.random() < 0.5)
            if kind == "float":
                x = (column - 1) * np.float64(rng.choice([1.0, 0.1, 1e-300, 1e300]))
                x = np.where((x == 0) & (rng.random(n) < 0.5), -0.0, x)
                x = np.where(rng.random(n) < 0.03, rng.choice([np.inf, -np.inf], n), x)
                x[null] = np.nan
                self.columns[f"c{j}"] = x
                exact[:, j] = x.tolist()
            else:
                shift = 0 if kind == "bool" else int(rng.choice([0, 2**53, 2**62, -(2**62)]))
                y = column.astype(np.int64) + shift
                y[null] = NULL
                self.columns[f"c{j}"] = y
                exact[:, j] = y.tolist()
            self.usable &= ~null
        self.dom = []
        self.rows = [np.flatnonzero(self.key == k) for k in range(self.keys)]
        for at in self.rows:
            self.seq[at] = np.arange(len(at))
            self.time[at] = -20 + np.cumsum(rng.integers(0, gap + 1, len(at)) * (rng.random(len(at)) < 0.6))
            self.dom.append(dominance(exact[at], self.directions, self.usable[at], self.distinct))
        self.end = int(self.time.max(initial=0)) + int(rng.integers(1, 60))
        self.rng = rng

    def expected(self) -> list[tuple[int, ...]]:
        out = []
        for q, query in enumerate(self.op.queries):
            asked = Asked(query.window.count, query.window.micros, query.every_micros)
            for k, at in enumerate(self.rows):
                changes = stream(self.time[at].tolist(), self.dom[k], self.usable[at], self.band, asked, self.end)
                out += [(q, k, *c) for c in changes]
        return out

    def block(self, lo: int, hi: int) -> Arrivals:
        """Arrivals with lo <= time < hi."""
        at = np.flatnonzero((self.time >= lo) & (self.time < hi))
        return Arrivals(self.key[at], self.seq[at], self.time[at], {n: c[at] for n, c in self.columns.items()})

    def cuts(self, most: int) -> list[int]:
        inner = self.rng.integers(-25, self.end + 1, self.rng.integers(0, most + 1))
        return [-1000, *sorted(inner.tolist()), self.end]


def restored(op: Skyline, logic: Any) -> Any:
    """A logic built from what the other one saves, through pickle, in fresh arrays."""
    arrays = pickle.loads(pickle.dumps(logic.checkpoint()))
    none = np.empty(0, np.int64)
    return pickle.loads(pickle.dumps(op)).build(State(arrays, Arrivals(none, none, none, {})))


def play(case: Case, cuts: list[int], restore: bool = False, logic: Any = None) -> tuple[list[Changes], Any]:
    logic = case.op.build(None) if logic is None else logic
    blocks = []
    for lo, hi in zip(cuts, cuts[1:], strict=False):
        wake = logic.wake()
        block = case.block(lo, hi)
        changes = logic.advance(block, hi)
        if len(block) == 0 and len(changes):
            assert wake is not None and wake < hi
        blocks.append(changes)
        if restore:
            logic = restored(case.op, logic)
    return blocks, logic


def tuples(blocks: list[Changes]) -> list[tuple[int, ...]]:
    """All changes in the order (query, key, step, pos)."""
    rows = [r for b in blocks for r in zip(*(getattr(b, f).tolist() for f in FIELDS), b.items[:, 0].tolist(), strict=True)]
    for b in blocks:
        assert b.items.shape == (len(b), 1) and np.isnan(b.score).all() and b.score.dtype == np.float64
    return sorted(rows, key=lambda r: (r[0], r[1], r[3], r[4]))


def check(seed: int, **given: Any) -> None:
    case = Case(seed, **given)
    expected = case.expected()
    whole, logic = play(case, [-1000, case.end])
    assert tuples(whole) == expected, (seed, given)
    if len(whole[0]):
        order = np.lexsort((whole[0].pos, whole[0].step, whole[0].key, whole[0].query))
        assert (order == np.arange(len(order))).all()
    cut, other = play(case, case.cuts(8), restore=bool(case.rng.integers(2)))
    assert tuples(cut) == expected, (seed, given)
    for name, array in logic.checkpoint().items():
        assert name == "due" or array.tobytes() == other.checkpoint()[name].tobytes(), name
    a, b = logic.skyband(), other.skyband()
    assert (a.items == b.items).all() and (a.key == b.key).all() and (a.extra["pred"] == b.extra["pred"]).all()


@pytest.mark.parametrize("part", range(8))
def test_random_streams_equal_the_definition_at_every_event(part: int) -> None:
    for seed in range(part * 100, part * 100 + 100):
        check(seed)
