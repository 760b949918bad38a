"""A stand-in for the host of an operator that shards search for: all its changes, with shards and merge restored at random cuts."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from skyband.operators.base import Arrivals, Changes, State
from skyband.operators.contract import Rows
from skyband.operators.found_pairs import FoundPairs
from skyband.operators.shards import Share
from tests.operators.host import Row, band_of, in_order

SHARDS = (1, 2, 3, 5)
"""Numbers of shards that a run changes to."""


@dataclass(frozen=True)
class Outcome:
    """What a run of a stream leaves; values of two runs compare as bytes."""

    changes: str
    """One line per change, by (query, key, step, pos)."""
    checkpoint: dict[str, tuple[str, tuple[int, ...], bytes]]
    skyband: str
    unusable: dict[str, int]
    """The counters ``objects``, ``unusable:i`` and ``asked:i`` of the whole run."""
    wake: int | None
    found: int
    """Pairs that shards found."""


def plain_changes(operator: Any, stream: Rows, cuts: Sequence[int] = ()) -> Outcome:
    """The run of the operator's own logic, in one call unless there are ``cuts``."""
    logic, codes, counted = operator.build(None), stream.first_codes(), dict[str, int]()
    made = []
    for at, until in blocks(stream, cuts):
        made.append(logic.advance(stream.block(at, codes), until))
        count(counted, logic)
    return outcome(made, logic, counted, 0)


def sharded_changes(operator: Any, stream: Rows, of: int, cuts: Sequence[int], rng: np.random.Generator | None = None) -> Outcome:
    """The run of ``of`` shards and a merge, cut before the rows ``cuts``; with ``rng`` some of them are restored at cuts.

    They are restored from their own checkpoints, or the shards, perhaps of another number, from that of the merge; or the operator's own
    logic takes a block from the merge and hands back to both.
    """
    host, made, counted, found = _Host(operator, stream, of), list[Changes](), dict[str, int](), 0
    for at, until in blocks(stream, cuts):
        arrivals = host.block(at)
        if rng is not None and rng.random() < 0.15:
            logic = operator.build(host.state(host.merge.checkpoint()))
            made.append(logic.advance(arrivals, until))
            count(counted, logic)
            host.go_on(at, until)
            host.merge = operator.build_merge(host.state(logic.checkpoint()))
            host.start(int(rng.choice(SHARDS)), logic.checkpoint())
            continue
        pairs = host.find(arrivals, until)
        found += len(pairs)
        wake = host.merge.wake()
        changes = host.merge.advance(replace(arrivals, found=pairs), until)
        assert len(arrivals) or not len(changes) or (wake is not None and wake < until)
        made.append(changes)
        count(counted, host.merge)
        host.go_on(at, until)
        if rng is not None:
            host.restore(rng)
    return outcome(made, host.merge, counted, found)


def cuts_of(stream: Rows, rng: np.random.Generator, share: float) -> list[int]:
    """Random positions at which time moves on."""
    moves = np.flatnonzero(np.diff(stream.time) > 0) + 1
    return [int(i) for i in moves[rng.random(len(moves)) < share]]


def blocks(stream: Rows, cuts: Sequence[int]) -> list[tuple[Any, int]]:
    """(positions, until) of the stream cut before the rows ``cuts``, and a call without rows at the end."""
    edges = [0, *sorted(set(cuts)), len(stream)]
    limits = [int(stream.time[hi]) if hi < len(stream) else int(stream.time[-1]) + 1 for hi in edges[1:]]
    return [*((np.arange(lo, hi), until) for lo, hi, until in zip(edges, edges[1:], limits, strict=False)), (np.arange(0), stream.end)]


def count(counted: dict[str, int], logic: Any) -> None:
    """Add the counters that do not depend on the search."""
    for name, n in logic.counters().items():
        if name == "objects" or name.startswith(("unusable:", "asked:")):
            counted[name] = counted.get(name, 0) + int(n)


def outcome(made: list[Changes], logic: Any, counted: dict[str, int], found: int) -> Outcome:
    """What a run leaves with the ``logic`` at its end."""
    arrays = {name: (a.dtype.str, a.shape, a.tobytes()) for name, a in logic.checkpoint().items()}
    rows: list[Row] = in_order(made)
    return Outcome("\n".join(map(repr, rows)), arrays, repr(band_of(logic)), counted, logic.wake(), found)


class _Host:
    """Shards and merge of one bucket, and what the host knows of the stream."""

    def __init__(self, operator: Any, stream: Rows, of: int) -> None:
        self.operator, self.stream, self.codes = operator, stream, stream.first_codes()
        self.fed, self.until = 0, 0
        self.order = np.random.default_rng(of)
        self.merge = operator.build_merge(None)
        self.shards = [operator.build_shard(Share(i, of), None) for i in range(of)]

    def block(self, at: Any) -> Arrivals:
        return self.stream.block(at, self.codes)

    def go_on(self, at: Any, until: int) -> None:
        self.fed, self.until = self.fed + len(at), until

    def find(self, arrivals: Arrivals, until: int) -> FoundPairs:
        """What all shards find, each pair of its own share, in any order."""
        parts = []
        for i, shard in enumerate(self.shards):
            part = shard.find(arrivals, until)
            assert Share(i, len(self.shards)).mine(part.key, part.newer >> 1).all()
            assert (part.older < part.newer >> 1).all() and not np.isnan(part.score).any()
            shard.counters()
            parts.append(part)
        order = self.order.permutation(sum(map(len, parts)))
        names = ("query", "key", "older", "newer", "score")
        return FoundPairs(*(np.concatenate([getattr(p, name) for p in parts])[order] for name in names))

    def restore(self, rng: np.random.Generator) -> None:
        """Restore none, the merge, the shards, or other shards from the merge's checkpoint."""
        drawn = int(rng.integers(0, 5))
        if drawn == 1:
            self.merge = self.operator.build_merge(self.state(self.merge.checkpoint()))
        elif drawn == 2:
            own = [self.state(shard.checkpoint()) for shard in self.shards]
            self.shards = [self.operator.build_shard(Share(i, len(own)), state) for i, state in enumerate(own)]
        elif drawn == 3:
            self.start(int(rng.choice(SHARDS)), self.merge.checkpoint())

    def start(self, of: int, arrays: dict[str, Any]) -> None:
        """Start other shards from the state of a whole bucket."""
        self.shards = [self.operator.build_shard(Share(i, of), self.state(arrays)) for i in range(of)]

    def state(self, arrays: dict[str, Any]) -> State:
        """Return the state with the rows that the host has kept, in fresh arrays."""
        keep = self.alive() if self.operator.keeps == "window" else np.arange(0)
        return State(pickle.loads(pickle.dumps(dict(arrays))), self.block(keep))

    def alive(self) -> Any:
        """Return the positions of the objects alive in the operator's window."""
        s, window = self.stream, self.operator.window
        keep = s.seq[: self.fed] >= 0
        if window.count is not None:
            next_seq = np.zeros(int(s.key.max(initial=0)) + 1, np.int64)
            np.maximum.at(next_seq, s.key[: self.fed], s.seq[: self.fed] + 1)
            keep &= s.seq[: self.fed] >= next_seq[s.key[: self.fed]] - window.count
        if window.micros is not None:
            keep &= s.time[: self.fed] + window.micros >= self.until
        return np.flatnonzero(keep)
