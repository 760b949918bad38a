"""A stand-in for the host of any operator: blocks of a stream in, the state saved and restored the way the host does it."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import Any, Protocol

import numpy as np

from skyband.operators.base import CAUSES, Arrivals, Changes, State

Row = tuple[Any, ...]
"""A change: (query, key, at, step, pos, sign, cause, the item's seqs..., score)."""

Kept = Callable[[Any, Arrivals, int], Arrivals]
"""(logic, its last block, until) to the rows that the host gives back with the state."""

NO_ROWS = Arrivals(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.int64), {})


class Timed(Protocol):
    """A stream of rows in time order."""

    time: Any

    def __len__(self) -> int: ...

    def block(self, lo: int, hi: int) -> Arrivals:
        """Rows lo, ..., hi - 1 by key."""
        ...


def blocks_of(stream: Timed, cuts: Iterable[int], end: int) -> list[tuple[Arrivals, int]]:
    """(rows, until) of the stream cut before the rows ``cuts``."""
    edges = [0, *sorted(set(cuts)), len(stream)]
    return [(stream.block(lo, hi), int(stream.time[hi]) if hi < len(stream) else end) for lo, hi in pairwise(edges)]


def cuts_of(stream: Timed, rng: np.random.Generator, share: float) -> list[int]:
    """Random places where time moves on (a cut may not fall between equal times: until is strict)."""
    moves = np.flatnonzero(np.diff(stream.time) > 0) + 1
    return [int(i) for i in moves[rng.random(len(moves)) < share]]


def play(
    op: Any, blocks: Iterable[tuple[Arrivals, int]], kept: Kept | None = None, prepare: Callable[[Any], None] | None = None
) -> tuple[list[Changes], Any]:
    """The changes of every block and the logic at the end; with ``kept`` the logic is restored after every block."""
    logic = op.build(None)
    out = []
    for block, until in blocks:
        if prepare is not None:
            prepare(logic)
        woken = logic.wake()
        changes = logic.advance(block, until)
        places = list(zip(*(getattr(changes, f).tolist() for f in ("query", "key", "step", "pos")), strict=True))
        assert places == sorted(places)
        assert len(block) or not len(changes) or (woken is not None and woken < until)
        out.append(changes)
        wake = logic.wake()
        assert wake is None or wake >= until
        if kept is not None:
            band = repr(band_of(logic))
            logic = restored(op, logic, kept(logic, block, until))
            assert logic.wake() == wake
            assert repr(band_of(logic)) == band
    return out, logic


def restored(op: Any, logic: Any, rows: Arrivals = NO_ROWS) -> Any:
    """A logic built from what the other one saves, through pickle, in fresh arrays."""
    arrays = pickle.loads(pickle.dumps(dict(logic.checkpoint())))
    return pickle.loads(pickle.dumps(op)).build(State(arrays, rows))


def rows_of(changes: Changes) -> list[Row]:
    """The changes in the order they came."""
    body = [c.tolist() for c in (changes.query, changes.key, changes.at, changes.step, changes.pos, changes.sign)]
    return list(zip(*body, [CAUSES[c] for c in changes.cause], *changes.items.T.tolist(), changes.score.tolist(), strict=True))


def in_order(blocks: Sequence[Changes]) -> list[Row]:
    """All changes by (query, key, step, pos)."""
    return sorted((r for b in blocks for r in rows_of(b)), key=lambda r: (r[0], r[1], r[3], r[4]))


def band_of(logic: Any) -> list[Row]:
    """(key, the item's seqs..., score) of the skyband."""
    band = logic.skyband()
    return list(zip(band.key.tolist(), *band.items.T.tolist(), band.score.tolist(), strict=True))


def pick(rows: Arrivals, keep: Any) -> Arrivals:
    """Some of the rows."""
    return Arrivals(rows.key[keep], rows.seq[keep], rows.time[keep], {n: c[keep] for n, c in rows.columns.items()})


def joined(a: Arrivals, b: Arrivals) -> Arrivals:
    """Objects of both, by (key, seq); deletions are not kept."""
    key, seq, time = np.concatenate([a.key, b.key]), np.concatenate([a.seq, b.seq]), np.concatenate([a.time, b.time])
    columns = {n: np.concatenate([a.columns[n], b.columns[n]]) for n in b.columns}
    order = np.lexsort((seq, key))
    order = order[seq[order] >= 0]
    return Arrivals(key[order], seq[order], time[order], {n: c[order] for n, c in columns.items()})


class Keeper:
    """The rows the host keeps for an operator: all it has seen, what ``retained`` names, or none."""

    def __init__(self, op: Any, stream: Timed) -> None:
        self.keeps = op.keeps
        self.rows = stream.block(0, 0)

    def __call__(self, logic: Any, block: Arrivals, until: int) -> Arrivals:
        if self.keeps == "none":
            return self.rows
        self.rows = joined(self.rows, block)
        if self.keeps == "retained":
            want = set(zip(*(a.tolist() for a in logic.retained()), strict=True))
            have = list(zip(self.rows.key.tolist(), self.rows.seq.tolist(), strict=True))
            assert want <= set(have)
            self.rows = pick(self.rows, np.array([p in want for p in have], bool))
        return self.rows


def check_kept_pairs(case: Any, logic: Any, asked: Any, loosest: Any, snapshot: Any) -> None:
    """Snapshots of every query, and all pairs kept, are those by definition (``snapshot``) as of the end.

    ``asked``: the queries as the oracle takes them; ``loosest``: one for all that is kept.
    """
    for key in range(int(case.stream.key.max()) + 1):
        stream = case.key_stream(key)
        n = len(stream.times)
        for i, q in enumerate(case.op.queries):
            got = logic.snapshot(key, 10**9, q.window, i)
            assert list(zip(*got.items.T.tolist(), got.score.tolist(), strict=True)) == snapshot(stream, asked[i], case.end - 1, n)
        band = [r[1:] for r in band_of(logic) if r[0] == key]
        assert sorted(band) == sorted(snapshot(stream, loosest, case.end - 1, n))
