"""Random keyed streams for operators of single objects, and a run of them (see ``host``)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from skyband.operators.base import DELETION_TARGET, NULL, Arrivals
from tests.operators.host import Keeper, blocks_of, in_order, play
from tests.operators.host import cuts_of as cuts_of
from tests.operators.host import joined as joined
from tests.operators.host import pick as pick
from tests.operators.host import rows_of as rows_of
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


def drive(op: Any, stream: Stream, cuts: list[int], end: int, restore: bool) -> tuple[list[Row], Any]:
    """Feed the stream cut before the rows ``cuts``, optionally saving and restoring at every cut; returns ordered changes and the logic."""
    blocks, logic = play(op, blocks_of(stream, cuts, end), Keeper(op, stream) if restore else None)
    return in_order(blocks), logic
