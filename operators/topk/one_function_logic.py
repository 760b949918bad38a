"""The state and logic of a top-k of one scoring function."""

from __future__ import annotations

import threading
from collections.abc import Mapping

import numpy as np

from skyband.operators.base import F64, I64, NEVER, NULL, AnyArray, Arrivals, Changes, Instant, Items, State, Window
from skyband.operators.jit import HAVE_NUMBA
from skyband.operators.single_rows.arrays import by_key_and_seq, changes_of, earliest, external, spans, widened
from skyband.operators.single_rows.blocks import Block, columns_of, cut, last_key
from skyband.operators.single_rows.kernels.emit import ChangeRows
from skyband.operators.single_rows.kernels.replay_state import Records
from skyband.operators.single_rows.tombstones import Tombstones
from skyband.operators.topk.kernels.advance import Plain, advance_bands, advance_windows, block_of, mark_deleted, publish
from skyband.operators.topk.kernels.state import Ends, Keys, Members, Queries, Scratch
from skyband.operators.topk.list_sizes import list_sizes
from skyband.operators.topk.one_function_configuration import TopKConfiguration
from skyband.operators.windows import UNBOUNDED, check_window, count_of, micros_of

PIECE: int = 4096
"""Rows scanned for candidates at a time, doubled every time: a refill lowers the cutoff, and candidates found before it are lost."""

FEW_CHANGES = 1024
MANY_CHANGES = 1 << 18

_NONE, _ZERO, _NO_CHANGES = np.empty(0, np.int64), np.zeros(1, np.int64), Changes.empty(1)


class _Scratch(threading.local):
    """Scratch arrays of one ``advance``, kept per thread: new ones would cost a page fault for every 512 rows."""

    def __init__(self) -> None:
        self.score = np.empty(0)
        self.arrays: Plain = tuple(Scratch(_NONE, self.score, _NONE, np.empty((FEW_CHANGES, 8), np.int64), np.empty(FEW_CHANGES)))
        self.keys, self.end, self.first_seq = np.zeros(1, np.int64), np.zeros(1, np.int64), np.zeros(1, np.int64)

    def fit(self, rows: int) -> F64:
        """Make room for ``rows`` rows, and release what is much too large. Return room for their scores."""
        if len(self.score) < rows or len(self.score) > max(16 * rows, 1 << 18):
            self.score = np.empty(rows)
            self.arrays = (np.empty(rows, np.int64), np.empty(rows), np.empty(rows, np.int64), *self.arrays[3:])
        if len(self.arrays[-1]) > MANY_CHANGES:
            self.keep((np.empty((FEW_CHANGES, 8), np.int64), np.empty(FEW_CHANGES)))
        return self.score[:rows]

    def keep(self, changes: Plain) -> None:
        """Keep the room changes were written to (``ChangeRows``), which may be new."""
        if changes[1] is not self.arrays[-1]:
            self.arrays = (*self.arrays[:3], *changes)

    def one_key(self, key: int, rows: int, first_seq: int) -> tuple[I64, I64, I64]:
        """Return ``keys``, ``end`` and ``first_seq`` of a block of one key."""
        self.keys[0], self.end[0], self.first_seq[0] = key, rows, first_seq
        return self.keys, self.end, self.first_seq


_scratch = _Scratch()


def _band_sizes(k: I64, size: I64) -> I64:
    """Return how many members of a k-skyband rank among the first ``size`` of the window: k (1 + ln(size/k)), for random arrivals."""
    return np.minimum(size, np.ceil(k * (1.0 + np.log(size / k)))).astype(np.int64)


def _queries(op: TopKConfiguration) -> Queries:
    """Return the queries as arrays."""
    windows = [q.window.within(op.window) for q in op.queries]
    k = np.array([q.k for q in op.queries], np.int64)
    every = np.array([q.every_micros or 0 for q in op.queries], np.int64)
    limit = list_sizes(k)
    return Queries(
        k=k, count=np.array([count_of(w) for w in windows], np.int64), micros=np.array([micros_of(w) for w in windows], np.int64),
        every=every, limit=limit, limit_at_first=limit if op.deletes else _band_sizes(k, limit),
        floor=np.array([op.floor(q) for q in op.queries], np.float64),
        column=np.concatenate([[0], np.cumsum(np.where(every > 0, k, 0))]).astype(np.int64),
        keep_k=op.keep_k, keep_count=count_of(op.window), keep_micros=micros_of(op.window),
    )  # fmt: skip


class TopKLogic:
    """State of one bucket: per key the skyband in rank order or, with deletions, all alive candidates in seq order; per query and key the
    step, the next instant that matters and what was shown."""

    # Names in checkpoints, and fields.
    _CLOCKS = (("step", "step"), ("wake_at", "wake"), ("due", "due"), ("rep_n", "shown"))
    _SHOWN = (("rep_q", "shown_seq"), ("rep_t", "shown_time"), ("rep_d", "shown_deleted"))
    _MEMBERS = (("cs", "score"), ("cq", "seq"), ("ct", "time"), ("cd", "dominators"))

    def __init__(self, op: TopKConfiguration, state: State | None) -> None:
        self.op = op
        self.queries = _queries(op)
        self.ceiling = op.ceiling(op.queries[0])
        self.clocked = bool(self.queries.micros.min() < UNBOUNDED) or bool(self.queries.every.any())
        self.unusable = self.eligible = self.rows = self.refills = 0
        self.until = NULL
        self._queries: Plain = tuple(self.queries)
        self._keys: Plain = tuple(Keys(*(np.empty(0, np.int64) for _ in range(4))))
        self.end = 0
        self._members: Plain = (np.empty(0, np.float64), *(np.empty(0, np.int64) for _ in range(3)))
        width = int(self.queries.column[-1])
        self._records: Plain = (
            *(np.empty((len(op.queries), 0), np.int64) for _ in range(4)),
            np.empty((0, width), np.float64), *(np.empty((0, width), np.int64) for _ in range(3)),
        )  # fmt: skip
        self.tombs = Tombstones.empty()
        self._living: tuple[I64, I64] | None = None
        if state is not None:
            self._restore(state)

    @property
    def keys(self) -> Keys:
        """Return every key's next seq and members; what kernels get is the plain tuple."""
        return Keys(*self._keys)

    @property
    def members(self) -> Members:
        """Return the candidates between blocks."""
        return Members(*self._members)

    @property
    def records(self) -> Records:
        """Return what every query has reported of every key."""
        return Records(*self._records)

    def _restore(self, state: State) -> None:
        a = state.arrays
        self.until = int(a["until"][0])
        known = {field: np.array(a[name], np.int64) for name, field in self._CLOCKS + self._SHOWN}
        self._records = tuple(Records(shown_score=np.array(a["rep_s"]), **known))
        next_seq = np.array(a["next_seq"])
        if self.op.deletes:
            self.tombs = Tombstones(np.array(a["tomb_key"]), np.array(a["tomb_seq"]), np.array(a["tomb_time"]))
            self._pack(next_seq, *self._alive_rows(state.rows, next_seq))
        else:
            self._pack(next_seq, np.array(a["length"]), Members(*(np.array(a[name]) for name, _ in self._MEMBERS)))

    def _alive_rows(self, rows: Arrivals, next_seq: I64) -> tuple[I64, Members]:
        """Return the candidates among kept rows that are alive, and how many of every key."""
        score = self._score(rows.columns, len(rows))
        self.unusable = self.eligible = 0  # these rows were counted when they came
        key, seq, time = (np.asarray(x, np.int64) for x in (rows.key, rows.seq, rows.time))
        keep = ~np.isnan(score) & (self.tombs.times(key, seq) == NEVER) & (seq >= next_seq[key] - count_of(self.op.window))
        if self.op.window.micros is not None:
            keep &= time >= self.until - self.op.window.micros
        length = np.bincount(key[keep], minlength=len(next_seq)).astype(np.int64)
        return length, Members(score[keep], seq[keep], time[keep], np.empty(0, np.int64))

    def _pack(self, next_seq: I64, length: I64, members: Members) -> None:
        """Take members that stand one key after the other."""
        self._keys, self._members = tuple(Keys(next_seq, np.cumsum(length) - length, length, length.copy())), tuple(members)
        self.end = int(length.sum())

    def _score(self, columns: Mapping[str, AnyArray], rows: int) -> F64:
        score, unusable = self.op.scores(columns, rows, _scratch.fit(rows))
        self.unusable += unusable
        self.eligible += unusable + rows - int(np.count_nonzero(np.isnan(score)))
        if self.ceiling < np.inf:
            score = np.where(score > self.ceiling, np.nan, score)
        return score

    def _grow(self, keys: int) -> None:
        if keys <= len(self._keys[0]):
            return
        self._keys = tuple(widened(a, keys, 0, 0) for a in self._keys)
        step, wake, due, shown, *last = self._records
        self._records = (
            widened(step, keys, 0, 1), widened(wake, keys, NEVER, 1), widened(due, keys, NEVER, 1), widened(shown, keys, 0, 1),
            *(widened(a, keys, 0, 0) for a in last),
        )  # fmt: skip

    def _cut(self, arrivals: Arrivals, until: Instant) -> tuple[Block, I64 | None]:
        """Return the keys with something to do and their rows, and the positions of the objects (see ``cut``)."""
        also = _NONE
        if self.clocked and self.keys.next_seq.size:
            also = np.flatnonzero(self.records.wake.min(axis=0) < until)
        if self.op.deletes or not HAVE_NUMBA:
            return cut(arrivals, self.keys.next_seq, also, self.op.deletes)
        key, seq = np.asarray(arrivals.key, np.int64), np.asarray(arrivals.seq, np.int64)
        time = np.ascontiguousarray(arrivals.time, np.int64)
        if len(key) and key[0] == key[-1] and (len(also) == 0 or (len(also) == 1 and also[0] == key[0])):  # one global stream
            keys, end, first_seq = _scratch.one_key(key[0], len(key), seq[0])
            return Block(keys, _ZERO, end, _ZERO, _ZERO, first_seq, time, _NONE, _NONE, _NONE), None
        return block_of(key, seq, time, also, self.keys.next_seq), None

    def advance(self, arrivals: Arrivals, until: Instant) -> Changes:
        """Process every event < ``until``. O(rows) block compares per query, O(k) per change, one skyband pass at the end."""
        op, self._living = self.op, None
        self._grow(last_key(arrivals) + 1)
        block, objects = self._cut(arrivals, until)
        rows = len(block.time)
        columns = arrivals.columns if objects is None else columns_of(arrivals, objects, tuple(c.name for c in op.scores.columns))
        scores = self._score(columns, rows)
        self.rows += rows
        given = self._queries, tuple(block), scores, self._keys, self._members
        rest = self._records, _scratch.arrays, (self.until, until, PIECE)
        if op.deletes:
            found, changes, refills, self._members = advance_windows(*given, self._ends(block, rows), *rest)
        else:
            found, changes, refills, self._members, self.end = advance_bands(*given, self.end, *rest)
        self.refills += int(refills)
        self.until = until
        _scratch.keep(found)
        if changes == 0:
            return _NO_CHANGES
        negate = op.direction == "min"
        return Changes(*publish(found[0], found[1], changes, negate)) if HAVE_NUMBA else changes_of(ChangeRows(*found), changes, negate)

    def _ends(self, block: Block, rows: int) -> Plain:
        """Return which deletion ends which row and which member (``Ends``)."""
        ends = Ends(True, np.full(rows, NEVER), np.full(len(self.members.seq), NEVER))
        if len(block.deletion_row):
            mark_deleted(block, self.keys, self.members.seq, ends)
            key = np.repeat(block.keys, block.deletion_end - block.deletion_begin)
            self.tombs = self.tombs.with_(Tombstones(key, block.deletion_seq, block.deletion_time))
        return tuple(ends)

    def wake(self) -> Instant | None:
        """Return the next expiry of a list member or the next boundary at which a query has changes."""
        return earliest(self.records.wake) if self.clocked else None

    def checkpoint(self) -> dict[str, AnyArray]:
        """Return skyband, steps and shown lists; with deletions the deleted seqs instead of the skyband."""
        records, keys, members = self.records, self.keys, self.members
        saved: dict[str, AnyArray] = {"until": np.array([self.until], np.int64)}
        saved.update(next_seq=keys.next_seq.copy(), rep_s=records.shown_score.copy())
        saved.update({name: getattr(records, field).copy() for name, field in self._CLOCKS + self._SHOWN})
        if self.op.deletes:
            self.tombs = self.tombs.alive(keys.next_seq, self.until, self.op.window)
            saved.update(tomb_key=self.tombs.key, tomb_seq=self.tombs.seq, tomb_time=self.tombs.time)
        else:
            key, at = self._alive()
            saved.update(length=np.bincount(key, minlength=len(keys.next_seq)).astype(np.int64))
            saved.update({name: getattr(members, field)[at] for name, field in self._MEMBERS})
        return saved

    def _alive(self) -> tuple[I64, I64]:
        """Return key and place of every member that is alive now, by key. O(members) once per ``advance``."""
        if self._living is None:
            self._living = self._find_alive()
        return self._living

    def _find_alive(self) -> tuple[I64, I64]:
        keys, members, window = self.keys, self.members, self.op.window
        key = np.repeat(np.arange(len(keys.next_seq)), keys.length)
        at = spans(keys.start, keys.length)
        keep = members.seq[at] >= keys.next_seq[key] - count_of(window)
        if window.micros is not None and len(key):
            keep &= members.time[at] >= self.until - window.micros
        return key[keep], at[keep]

    def retained(self) -> tuple[I64, I64]:
        """Return the objects of the skyband, and those a query with boundaries has shown and may still have to report as gone."""
        queries, records = self.queries, self.records
        key, at = self._alive()
        keys, seqs = [key], [self.members.seq[at]]
        for q in np.flatnonzero(queries.every):
            shown = np.arange(queries.k[q]) < records.shown[q][:, None]
            keys.append(np.nonzero(shown)[0])
            seqs.append(records.shown_seq[:, queries.column[q] : queries.column[q + 1]][shown])
        if len(keys) == 1:
            return keys[0], seqs[0]
        both = np.unique(np.stack([np.concatenate(keys), np.concatenate(seqs)]), axis=1)
        return both[0], both[1]

    def snapshot(self, key: int, k: int, window: Window, query: int = 0) -> Items:
        """Return the best k <= K of any window n <= N within the query's score bounds."""
        if not 1 <= k <= self.op.keep_k:
            raise ValueError(f"k = {k}: this state answers 1 to {self.op.keep_k}")
        check_window(window, self.op.window, "snapshot")
        keys, members = self.keys, self.members
        if not 0 <= key < len(keys.next_seq):
            return Items(np.empty(0, np.int64), np.empty((0, 1), np.int64), np.empty(0, np.float64))
        mine = slice(int(keys.start[key]), int(keys.start[key] + keys.length[key]))
        s, q, t = members.score[mine], members.seq[mine], members.time[mine]
        w = window.within(self.op.window)
        keep = (q >= keys.next_seq[key] - count_of(w)) & (s >= self.queries.floor[query])
        if w.micros is not None and len(t):
            keep &= t >= self.until - w.micros
        s, q = s[keep], q[keep]
        best = np.lexsort((q, s))[::-1][:k]
        return Items(np.full(len(best), key, np.int64), q[best].reshape(-1, 1), external(s[best], self.op.direction == "min"))

    def skyband(self) -> Items:
        """Return the skyband of every key (with deletions: all alive candidates), grouped by key, in seq order."""
        key, at = self._alive()
        members = self.members
        at = at[by_key_and_seq(key, members.seq[at])]
        return Items(key, members.seq[at].reshape(-1, 1), external(members.score[at], self.op.direction == "min"))

    def counters(self) -> dict[str, int]:
        """Return rows, objects that queries cannot use, and refills since the last call."""
        found = {"rows": self.rows, "refills": self.refills}
        for i in range(len(self.op.queries)):
            found |= {f"unusable:{i}": self.unusable, f"asked:{i}": self.eligible}
        self.rows = self.unusable = self.eligible = self.refills = 0
        return found
