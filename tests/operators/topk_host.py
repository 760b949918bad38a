"""A stand-in for the host: random keyed streams, cut at will, with the state saved and restored the way the host does it."""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from skyband.operators.base import CAUSES, DELETION_TARGET, NULL, Arrivals, Changes, State
from tests.oracles.topk import Event, Row


@dataclass
class Stream:
    """Rows in time order over all keys: (time, key, seq or -1, target or NULL, x values)."""

    time: Any
    key: Any
    seq: Any
    target: Any
    x: Any
    deletes: bool

    def __len__(self) -> int:
        return len(self.time)

    def block(self, lo: int, hi: int) -> Arrivals:
        order = lo + np.argsort(self.key[lo:hi], kind="stable")
        columns = {f"x{i}": self.x[order, i] for i in range(self.x.shape[1])}
        if self.deletes:
            columns[DELETION_TARGET] = self.target[order]
        return Arrivals(self.key[order], self.seq[order], self.time[order], columns)

    def events(self, key: int, score: Any) -> list[Event]:
        """The key's events; ``score`` holds one value per stream row."""
        return [
            Event(int(self.time[i]), target=int(self.target[i])) if self.seq[i] < 0 else Event(int(self.time[i]), float(score[i]))
            for i in np.flatnonzero(self.key == key)
        ]


def random_stream(rng: np.random.Generator, rows: int, keys: int, d: int, shape: str, deletes: bool, nulls: float = 0.05) -> Stream:
    """Tie-heavy rows: ``shape`` is one of few, equal, rising, falling, real, walk, infinite."""
    x = {
        "few": lambda: rng.integers(0, 4, (rows, d)).astype(float),
        "equal": lambda: np.ones((rows, d)),
        "rising": lambda: np.arange(rows)[:, None] // 2 * np.ones(d),
        "falling": lambda: -(np.arange(rows)[:, None] // 2) * np.ones(d),
        "real": lambda: rng.normal(size=(rows, d)),
        "walk": lambda: np.round(np.cumsum(rng.normal(size=(rows, d)), 0)),
        "infinite": lambda: rng.choice([-np.inf, np.inf, -0.0, 0.0, 1.0], (rows, d)),
    }[shape]()
    x[rng.random((rows, d)) < nulls] = np.nan
    time = np.cumsum(rng.choice([0, 0, 1, 2, 7], rows)) + 100
    key = np.sort(rng.integers(0, keys, rows)) if rng.random() < 0.1 else rng.integers(0, keys, rows)
    _, key = np.unique(key, return_inverse=True)
    first = {int(k): i for i, k in reversed(list(enumerate(key)))}
    order = {k: n for n, k in enumerate(sorted(first, key=lambda k: first[k]))}
    key = np.array([order[int(k)] for k in key], np.int64)
    seq, target = np.empty(rows, np.int64), np.full(rows, NULL)
    count: dict[int, int] = {}
    gone: set[tuple[int, int]] = set()
    share = rng.choice([0.1, 0.4]) if deletes else 0.0
    for i, k in enumerate(key.tolist()):
        live = [s for s in range(max(0, count.get(k, 0) - 12), count.get(k, 0)) if (k, s) not in gone]
        if live and rng.random() < share:
            s = int(rng.choice(live))
            gone.add((k, s))
            seq[i], target[i] = -1, s
        else:
            seq[i] = count.get(k, 0)
            count[k] = int(seq[i]) + 1
    return Stream(time.astype(np.int64), key, seq, target, x, deletes)


def rows_of(changes: Changes) -> list[Row]:
    cols = (changes.query, changes.key, changes.at, changes.step, changes.pos, changes.sign)
    body = [c.tolist() for c in cols]
    return list(zip(*body, [CAUSES[c] for c in changes.cause], changes.items[:, 0].tolist(), changes.score.tolist(), strict=True))


def drive(op: Any, stream: Stream, cuts: list[int], end: int, restore: bool, window_rows: bool = False) -> tuple[list[Row], Any]:
    """Feed the stream cut before the rows ``cuts``, optionally saving and restoring at every cut; returns ordered changes and the logic."""
    logic = op.build(None)
    out: list[Row] = []
    edges = [0, *sorted(set(cuts)), len(stream)]
    kept = stream.block(0, 0)
    for lo, hi in pairwise(edges):
        block = stream.block(lo, hi)
        until = int(stream.time[hi]) if hi < len(stream) else end
        got = rows_of(logic.advance(block, until))
        assert [(r[0], r[1], r[3], r[4]) for r in got] == sorted((r[0], r[1], r[3], r[4]) for r in got)
        out += got
        w = logic.wake()
        assert w is None or w >= until
        if restore:
            kept = joined(kept, block)
            if op.keeps == "retained":
                want = set(zip(*(a.tolist() for a in logic.retained()), strict=True))
                have = set(zip(kept.key.tolist(), kept.seq.tolist(), strict=True))
                assert want <= have
                kept = pick(kept, np.array([p in want for p in zip(kept.key.tolist(), kept.seq.tolist(), strict=True)], bool))
            elif op.keeps == "none":
                kept = stream.block(0, 0)
            arrays = pickle.loads(pickle.dumps(dict(logic.checkpoint())))
            logic = pickle.loads(pickle.dumps(op)).build(State(arrays, kept))
            assert logic.wake() == w
    out.sort(key=lambda r: (r[0], r[1], r[3], r[4]))
    return out, logic


def pick(rows: Arrivals, keep: Any) -> Arrivals:
    return Arrivals(rows.key[keep], rows.seq[keep], rows.time[keep], {n: c[keep] for n, c in rows.columns.items()})


def joined(a: Arrivals, b: Arrivals) -> Arrivals:
    """Objects of both, by (key, seq); deletions are not kept."""
    key, seq, time = np.concatenate([a.key, b.key]), np.concatenate([a.seq, b.seq]), np.concatenate([a.time, b.time])
    columns = {n: np.concatenate([a.columns[n], b.columns[n]]) for n in b.columns}
    order = np.lexsort((seq, key))
    order = order[seq[order] >= 0]
    return Arrivals(key[order], seq[order], time[order], {n: c[order] for n, c in columns.items()})


def cuts_of(stream: Stream, rng: np.random.Generator, share: float) -> list[int]:
    """Random places where time moves on (a cut may not fall between equal times: until is strict)."""
    moves = np.flatnonzero(np.diff(stream.time) > 0) + 1
    return [int(i) for i in moves[rng.random(len(moves)) < share]]
