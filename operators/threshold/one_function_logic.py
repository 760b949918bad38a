"""The state and logic of threshold queries over one scoring function."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from skyband.operators.base import F64, I64, NEVER, NULL, AnyArray, Arrivals, Changes, Instant, Items, State, Window
from skyband.operators.single_rows.arrays import changes_of, earliest, external, widened
from skyband.operators.single_rows.blocks import Block, columns_of, cut, last_key
from skyband.operators.single_rows.kernels.emit import ChangeRows
from skyband.operators.single_rows.tombstones import Tombstones
from skyband.operators.threshold.kernels.one_function import ThresholdQueries, replay_block
from skyband.operators.threshold.one_function_configuration import ThresholdConfiguration
from skyband.operators.windows import UNBOUNDED, check_window, count_of, micros_of


class Kept(NamedTuple):
    """Objects between blocks, by key and then in seq order, (objects,) each: int64 ``key``, float64 internal ``score``, int64 ``seq``,
    ``time`` and ``deleted_at``, the instant of deletion or ``NEVER``."""

    key: I64
    score: F64
    seq: I64
    time: I64
    deleted_at: I64


class ThresholdLogic:
    """State of one bucket: per key the passing objects in seq order (score, seq, time, instant of deletion)."""

    _SAVED = ("next_seq", "step", "wake_at", "due", "shown_at", "shown_seq")

    def __init__(self, op: ThresholdConfiguration, state: State | None) -> None:
        self.op = op
        qs = op.queries
        w = [q.window.within(op.window) for q in qs]
        both = np.array([q.interval() for q in qs], np.float64)
        if op.direction == "min":
            both = -both[:, ::-1]
        self.queries = ThresholdQueries(
            np.ascontiguousarray(both[:, 0]), np.ascontiguousarray(both[:, 1]), np.array([count_of(x) for x in w], np.int64),
            np.array([micros_of(x) for x in w], np.int64), np.array([q.every_micros or 0 for q in qs], np.int64),
        )  # fmt: skip
        some = self.queries.low <= self.queries.high
        self.hull = (self.queries.low[some].min(), self.queries.high[some].max()) if some.any() else (np.inf, -np.inf)
        self.rows = self.unusable = self.eligible = 0
        empty = np.empty(0, np.int64)
        self.until, self.next_seq = NULL, empty
        self.step, self.wake_at, self.due, self.shown_at, self.shown_seq = (np.empty((len(qs), 0), np.int64) for _ in range(5))
        self.kept = Kept(empty, np.empty(0, np.float64), empty, empty, empty)
        self.tombs = Tombstones.empty()
        if state is not None:
            self._restore(state)

    def _restore(self, state: State) -> None:
        a, rows = state.arrays, state.rows
        self.until = int(a["until"][0])
        for name in self._SAVED:
            setattr(self, name, np.array(a[name]))
        self.tombs = Tombstones(np.array(a["tomb_key"]), np.array(a["tomb_seq"]), np.array(a["tomb_time"]))
        score, _ = self.op.scores({c.name: rows.columns[c.name] for c in self.op.scores.columns}, len(rows))
        key, seq, time = (np.asarray(x, np.int64) for x in (rows.key, rows.seq, rows.time))
        self._keep(key, score, seq, time, self.tombs.times(key, seq))

    def _keep(self, key: I64, score: F64, seq: I64, time: I64, dead: I64) -> None:
        """Keep what is alive or still has to be reported as gone by a query with boundaries."""
        keep = (dead == NEVER) & (seq >= self.next_seq[key] - count_of(self.op.window))
        if self.op.window.micros is not None and len(key):
            keep &= time >= self.until - self.op.window.micros
        for q in np.flatnonzero(self.queries.every):
            b, newest = self.shown_at[q][key], self.shown_seq[q][key]
            was = (self.due[q][key] < NEVER) & (b != NULL) & (time <= b) & (seq > newest - self.queries.count[q]) & (dead > b)
            keep |= was & ((time > b - self.queries.micros[q]) if self.queries.micros[q] < UNBOUNDED else True)
        keep &= self._passes(score)
        self.kept = Kept(key[keep], score[keep], seq[keep], time[keep], dead[keep])

    def _passes(self, score: F64) -> AnyArray:
        """Return True if a score may pass some query (exact for one query, the hull of their intervals for more)."""
        passes: AnyArray = (score >= self.hull[0]) & (score <= self.hull[1])
        return passes

    def _grow(self, keys: int) -> None:
        if keys <= len(self.next_seq):
            return
        self.next_seq = widened(self.next_seq, keys, 0, 0)
        self.step, self.shown_seq = widened(self.step, keys, 0, 1), widened(self.shown_seq, keys, -1, 1)
        self.wake_at, self.due = widened(self.wake_at, keys, NEVER, 1), widened(self.due, keys, NEVER, 1)
        self.shown_at = widened(self.shown_at, keys, NULL, 1)

    def advance(self, arrivals: Arrivals, until: Instant) -> Changes:
        """See ``Logic.advance``. O(rows) for the scores, then O(passing objects) per query."""
        op = self.op
        self._grow(last_key(arrivals) + 1)
        also = np.flatnonzero(self.wake_at.min(axis=0) < until) if self.next_seq.size else np.empty(0, np.int64)
        block, objects = cut(arrivals, self.next_seq, also, op.deletes)
        rows = len(block.time)
        score, unusable = op.scores(columns_of(arrivals, objects, tuple(c.name for c in op.scores.columns)), rows)
        self.rows += rows
        self.unusable += unusable
        self.eligible += unusable + rows - int(np.count_nonzero(np.isnan(score)))
        key, sc, seq, time, dead = self._items(block, score)
        moff = np.concatenate([np.searchsorted(key, block.keys), [0]])
        moff[-1] = 0 if not len(block.keys) else np.searchsorted(key, block.keys[-1], "right")
        ends = np.searchsorted(key, block.keys, "right")
        mine = np.zeros(len(key) + 1, np.int64)  # only items of the block's keys, packed
        np.add.at(mine, moff[:-1], 1)
        np.subtract.at(mine, ends, 1)
        here = np.flatnonzero(np.cumsum(mine)[:-1] > 0)
        packed = np.concatenate([[0], np.cumsum(ends - moff[:-1])]).astype(np.int64)
        items = (packed, sc[here], seq[here], time[here], dead[here])
        records = (self.step, self.wake_at, self.due, self.shown_at, self.shown_seq)
        found, n = replay_block(tuple(self.queries), tuple(block), items, records, self.until, until)
        self.next_seq[block.keys] = block.first_seq + block.end - block.begin
        self.until = until
        self._keep(key, sc, seq, time, dead)
        return changes_of(ChangeRows(*found), n, op.direction == "min")

    def _items(self, block: Block, score: F64) -> tuple[I64, F64, I64, I64, I64]:
        """Return kept and newly passing objects of all keys by (key, seq), with their instants of deletion."""
        rows = np.flatnonzero(self._passes(score))
        of = np.searchsorted(block.end, rows, "right")
        key = np.concatenate([self.kept.key, block.keys[of]])
        sc = np.concatenate([self.kept.score, score[rows]])
        seq = np.concatenate([self.kept.seq, block.first_seq[of] + rows - block.begin[of]])
        time = np.concatenate([self.kept.time, block.time[rows]])
        dead = np.concatenate([self.kept.deleted_at, np.full(len(rows), NEVER)])
        if len(block.keys) and (len(block.keys) > 1 or len(self.kept.key)):
            order = np.argsort(key, kind="stable")
            key, sc, seq, time, dead = key[order], sc[order], seq[order], time[order], dead[order]
        if len(block.deletion_row):
            new = Tombstones(np.repeat(block.keys, block.deletion_end - block.deletion_begin), block.deletion_seq, block.deletion_time)
            dead = np.minimum(dead, new.times(key, seq))
            self.tombs = self.tombs.with_(new)
        return key, sc, seq, time, dead

    def wake(self) -> Instant | None:
        """Return the next expiry of a result object or the next boundary at which a query has changes."""
        return earliest(self.wake_at)

    def checkpoint(self) -> dict[str, AnyArray]:
        """Return steps, clocks and deleted seqs; scores are computed again from the kept rows."""
        saved = {"until": np.array([self.until], np.int64)}
        saved.update({name: np.array(getattr(self, name)) for name in self._SAVED})
        kept = Tombstones(self.kept.key, self.kept.seq, self.kept.deleted_at)
        self.tombs = kept.where(self.kept.deleted_at < NEVER).with_(self.tombs.alive(self.next_seq, self.until, self.op.window))
        saved.update(tomb_key=self.tombs.key, tomb_seq=self.tombs.seq, tomb_time=self.tombs.time)
        return saved

    def retained(self) -> tuple[I64, I64]:
        """Return the objects that are or may become part of a result, or still have to be reported as gone."""
        return self.kept.key.copy(), self.kept.seq.copy()

    def snapshot(self, key: int, k: int, window: Window, query: int = 0) -> Items:
        """Return the first k of the result for any window n <= N, in rank order."""
        if k < 1:
            raise ValueError(f"k = {k}: at least 1")
        check_window(window, self.op.window, "snapshot")
        w = window.within(self.op.window)
        kept, queries = self.kept, self.queries
        keep = (kept.key == key) & (kept.deleted_at == NEVER) & (kept.score >= queries.low[query]) & (kept.score <= queries.high[query])
        if keep.any():
            keep &= kept.seq >= self.next_seq[key] - count_of(w)
            if w.micros is not None:
                keep &= kept.time >= self.until - w.micros
        score, seq = kept.score[keep], kept.seq[keep]
        best = np.lexsort((seq, score))[::-1][:k]
        return Items(np.full(len(best), key, np.int64), seq[best].reshape(-1, 1), external(score[best], self.op.direction == "min"))

    def skyband(self) -> Items:
        """Return all alive objects that pass some query, grouped by key, in seq order."""
        kept = self.kept
        keep = (kept.deleted_at == NEVER) & (kept.seq >= self.next_seq[kept.key] - count_of(self.op.window))
        if self.op.window.micros is not None and len(keep):
            keep &= kept.time >= self.until - self.op.window.micros
        return Items(kept.key[keep], kept.seq[keep].reshape(-1, 1), external(kept.score[keep], self.op.direction == "min"))

    def counters(self) -> dict[str, int]:
        """Return rows, and objects that queries cannot use, since the last call."""
        found = {"rows": self.rows}
        for i in range(len(self.op.queries)):
            found |= {f"unusable:{i}": self.unusable, f"asked:{i}": self.eligible}
        self.rows = self.unusable = self.eligible = 0
        return found
