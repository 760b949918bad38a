"""The moving part of ``ManyThreshold``: one list of members per query and key that ever had one, and the influence grid."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from skyband.operators.base import F64, I64, NEVER, NULL, AnyArray, Arrivals, Changes, Instant, Items, State, Window
from skyband.operators.single_rows.arrays import earliest, spans, widened
from skyband.operators.single_rows.blocks import DELETION_COLUMN, columns_of, cut, last_key
from skyband.operators.single_rows.changes import changes_of, external
from skyband.operators.single_rows.kernels.arrays import grown, grown_rows
from skyband.operators.single_rows.kernels.emit import ChangeRows
from skyband.operators.single_rows.scores import as_floats
from skyband.operators.single_rows.tombstones import Tombstones
from skyband.operators.threshold.kernels.many import run
from skyband.operators.threshold.kernels.many_lists import (
    AT,
    COLUMNS,
    HEAD,
    HI,
    KEY,
    LO,
    NEWEST,
    QUERY,
    ROOM,
    SAVED,
    SHOWN,
    chained,
    deleted_from,
    due_lists,
    forget_rows,
    grouped,
    hashed,
    note_rows,
    packed,
    spot,
)
from skyband.operators.threshold.many_grid import Influence
from skyband.operators.windows import UNBOUNDED, check_window, count_of, within

if TYPE_CHECKING:
    from skyband.operators.threshold.many import ManyThreshold

NONE: I64 = np.empty(0, np.int64)
SLACK = 4096


class ManyThresholdLogic:
    """State of one bucket: slots and pool of the lists (see the kernel), per key the next instant and seq at which one of them changes."""

    _KEYED = ("next_seq", "k_wake", "k_leave")

    def __init__(self, op: ManyThreshold, state: State | None) -> None:
        self.op = op
        self.n, self.micros, self.every, where = op.filled()
        self.sign = -1.0 if op.direction == "min" else 1.0
        low, high = op.intervals()
        both = (low, high) if op.direction == "max" else (-high, -low)
        self.influence = Influence(np.ascontiguousarray(op.weights * self.sign, np.float64), *both, op.low, op.high, where)
        self.until, self.rows = NULL, 0
        self.next_seq = self.k_wake = self.k_leave = self.first = NONE
        self.slots, self.count, self.table = np.empty((0, COLUMNS), np.int64), 0, np.full(4, -1)
        self.live = self.end = 0
        self.ps, self.pq = np.empty(16, np.float64), np.empty(16, np.int64)
        self.pt = np.empty(0 if op.window.micros is None else 16, np.int64)
        self.pd = np.empty(16 if op.deletes else 0, np.int64)
        self.tombs, self.fresh_tombs, self.fresh = Tombstones.empty(), [Tombstones.empty()], 0
        self.log, self.noted, self.log_table = np.zeros((1, 3), np.int64), 0, np.full(4, -1)
        self.listed, self.log_end, self.log_kept = NONE, 0, 0
        if state is not None:
            self._restore(state)

    # ---------------------------------------------------------------- events

    def advance(self, arrivals: Arrivals, until: Instant) -> Changes:
        """See ``Logic.advance``. O(rows) look-ups, O(queries a row's cell can reach), O(log) per change and list visited."""
        op = self.op
        self._grow(last_key(arrivals) + 1)
        also = np.flatnonzero(self.k_wake < until)
        block, objects = cut(arrivals, self.next_seq, also, op.deletes)
        rows, groups = len(block.time), len(block.keys)
        self.rows += rows
        of, row, score = self._passes(columns_of(arrivals, objects, tuple(c.name for c in op.columns)), rows)
        if op.deletes and len(of):
            at = row if objects is None else objects[row]
            self._note(of, np.asarray(arrivals.key, np.int64)[at], np.asarray(arrivals.seq, np.int64)[at])
        q = len(self.n)
        found_at, order = grouped(q, of, len(of))
        del_at = due_at = np.zeros(q + 1, np.int64)
        deletions = due_groups = NONE
        if len(block.deletion_row):
            dof, dat, m = deleted_from(
                block.keys, block.deletion_begin, block.deletion_end, block.deletion_seq, self.log, self.log_table, self.listed
            )
            del_at, by_query = grouped(q, dof, m)
            deletions = dat[by_query]
            self.fresh_tombs.append(
                Tombstones(np.repeat(block.keys, block.deletion_end - block.deletion_begin), block.deletion_seq, block.deletion_time)
            )
            self.fresh += len(block.deletion_row)
        if groups:
            uof, uat, m = due_lists(
                block.keys, block.begin, block.end, block.first_seq, self.first, self.k_wake, self.k_leave, self.slots, self.n, self.micros,
                self.pq, self.pt, until,
            )  # fmt: skip
            due_at, by_query = grouped(q, uof, m)
            due_groups = uat[by_query]
        self._slot_room(min(len(of), q * groups))
        oi, os, n, self.ps, self.pq, self.pt, self.pd, self.end, self.live, self.count = run(
            self.n, self.micros, self.every, block.keys, block.begin, block.end, block.deletion_begin, block.deletion_end,
            block.first_seq, block.time,
            block.deletion_row, block.deletion_time, block.deletion_seq,
            found_at, row[order], score[order], del_at, deletions, due_at, due_groups,
            self.first, self.k_wake, self.k_leave, self.slots, self.count, self.table, self.live,
            self.ps, self.pq, self.pt, self.pd, self.end, until,
        )  # fmt: skip
        self.next_seq[block.keys] = block.first_seq + block.end - block.begin
        self.until = until
        self._tidy()
        return changes_of(ChangeRows(oi, os), n, self.op.direction == "min")

    def _passes(self, columns: dict[str, AnyArray], rows: int) -> tuple[I64, I64, F64]:
        """(query, row, score) of every row that passes, by row and then by query."""
        op = self.op
        x = np.empty((len(op.attributes), rows), np.float64)
        for i, a in enumerate(op.attributes):
            x[i] = as_floats(columns[a])
        return self.influence.find(x, op.flags(columns, rows))

    def _grow(self, keys: int) -> None:
        if keys <= len(self.next_seq):
            return
        self.next_seq, self.first = widened(self.next_seq, keys, 0, 0), widened(self.first, keys, -1, 0)
        self.k_wake, self.k_leave = widened(self.k_wake, keys, NEVER, 0), widened(self.k_leave, keys, NEVER, 0)

    def _slot_room(self, more: int) -> None:
        """Room for ``more`` new lists."""
        need = self.count + more
        if need > len(self.slots):
            self.slots = grown_rows(self.slots, 2 * need)
        if 2 * need > len(self.table):
            self.table = hashed(self.slots, self.count, 1 << (4 * need).bit_length())

    def _note(self, of: I64, key: I64, seq: I64) -> None:
        """Note which queries take which rows, so that a deletion finds them."""
        need, queries = self.noted + len(of) + 1, self.log_end + len(of)
        if need > len(self.log):
            self.log = grown_rows(self.log, 2 * need)
        if queries > len(self.listed):
            self.listed = grown(self.listed, 2 * queries)
        if 2 * need > len(self.log_table):
            self.log_table = hashed(self.log, self.noted, 1 << (4 * need).bit_length())
        self.noted, self.log_end = note_rows(of, key, seq, len(of), self.log, self.noted, self.log_table, self.listed, self.log_end)

    def _tidy(self) -> None:
        """Close gaps once most of the pool, of the noted rows or of the deletions is no longer needed: amortised O(1) per event."""
        if self.end > 4 * self.live + 8 * self.count + SLACK:
            self.ps, self.pq, self.pt, self.pd, self.end = packed(self.slots, self.count, self.live, self.ps, self.pq, self.pt, self.pd)
        if self.noted > 2 * self.log_kept + SLACK:
            self.noted, self.log_end = forget_rows(self.log, self.noted, self.listed, self.slots, self.table, self.pq)
            self.log_kept = self.noted
            need = self.noted + 512
            self.log, self.listed = self.log[: self.noted + 1].copy(), self.listed[: self.log_end].copy()
            self.log_table = hashed(self.log, self.noted, 1 << (4 * need).bit_length())
        if self.fresh > len(self.tombs.key) + SLACK:
            self._merge_tombs()

    def _merge_tombs(self) -> None:
        """Keep only deletions whose object could still be alive."""
        parts = [self.tombs, *self.fresh_tombs]
        self.tombs = Tombstones(*(np.concatenate([getattr(t, f) for t in parts]) for f in ("key", "seq", "time")))
        self.tombs = self.tombs.alive(self.next_seq, self.until, self.op.window)
        self.fresh_tombs, self.fresh = [], 0

    # ---------------------------------------------------------------- state

    def _members(self) -> tuple[I64, I64, AnyArray, I64]:
        """Slot and pool position of every member, whether it is in the result, and which have left and are to be reported as gone."""
        t = self.slots[: self.count]
        m = t[:, HI] - t[:, LO]
        slot = np.repeat(np.arange(self.count), m)
        at = spans(t[:, AT] + t[:, LO], m)
        here: AnyArray = at >= np.repeat(t[:, AT] + t[:, HEAD], m)
        if self.op.deletes:
            here &= self.pd[at] == NEVER
        gone = np.flatnonzero(~here & np.repeat(self.every[t[:, QUERY]] > 0, m))
        of, q, where = t[slot[gone]], t[slot[gone], QUERY], at[gone]
        b, newest, seq = of[:, SHOWN], of[:, NEWEST], self.pq[where]
        shown = (b != NULL) & (seq <= newest) & (seq > newest - self.n[q])
        if len(self.pt):
            shown &= self.pt[where] > b - self.micros[q]
        if self.op.deletes:
            shown &= self.pd[where] > b
        return slot, at, here, gone[shown]

    def checkpoint(self) -> dict[str, AnyArray]:
        """Steps and clocks of the lists, deletions, who is still to be reported as gone; members are found again among the kept rows."""
        saved: dict[str, AnyArray] = {"until": np.array([self.until], np.int64)}
        saved.update({name: np.array(getattr(self, name)) for name in self._KEYED})
        t = self.slots[: self.count]
        saved["lists"] = t[np.lexsort((t[:, KEY], t[:, QUERY])), :SAVED].copy()
        slot, at, _, gone = self._members()
        slot, at = slot[gone], at[gone]
        dead = self.pd[at] if self.op.deletes else np.full(len(at), NEVER)
        saved["gone"] = np.stack([t[slot, QUERY], t[slot, KEY], self.pq[at], dead], axis=1)
        if self.op.deletes:
            self._merge_tombs()
            saved.update(tomb_key=self.tombs.key, tomb_seq=self.tombs.seq, tomb_time=self.tombs.time)
        return saved

    def _restore(self, state: State) -> None:
        a, rows, op = state.arrays, state.rows, self.op
        self.until = int(a["until"][0])
        for name in self._KEYED:
            setattr(self, name, np.array(a[name]))
        saved = np.asarray(a["lists"], np.int64).reshape(-1, SAVED)
        self.count = len(saved)
        self.slots = np.zeros((self.count + 1, COLUMNS), np.int64)
        self.slots[: self.count, :SAVED] = saved
        self.table = hashed(self.slots, self.count, 1 << (4 * self.count + 4).bit_length())
        self.first = np.full(len(self.next_seq), -1)
        chained(self.slots, self.count, self.first)
        key, seq, time = (np.asarray(v, np.int64) for v in (rows.key, rows.seq, rows.time))
        of, row, score = self._passes({c.name: rows.columns[c.name] for c in op.columns if c != DELETION_COLUMN}, len(rows))
        self.influence.unusable[:] = 0
        alive = seq[row] >= self.next_seq[key[row]] - self.n[of]
        if len(self.pt):
            alive &= time[row] + self.micros[of] >= self.until
        dead = np.full(len(of), NEVER)
        if op.deletes:
            self.tombs = Tombstones(np.array(a["tomb_key"]), np.array(a["tomb_seq"]), np.array(a["tomb_time"]))
            alive &= (self.tombs.times(key, seq) == NEVER)[row]
            self._note(of, key[row], seq[row])
        gone = np.asarray(a["gone"], np.int64).reshape(-1, 4)
        if len(gone):  # each is one of the passes: look it up by (query, key, seq)
            mine = np.stack([of, key[row], seq[row]], axis=1)
            both = np.concatenate([gone[:, :3], mine])
            _, code = np.unique(both, axis=0, return_inverse=True)
            code = code.reshape(-1)
            died = np.full(int(code.max()) + 1, NULL)
            died[code[: len(gone)]] = gone[:, 3]
            when = died[code[len(gone) :]]
            dead = np.where(when > NULL, when, NEVER)
            pick = alive | (when > NULL)
        else:
            pick = alive
        self._fill(of[pick], key[row[pick]], seq[row[pick]], time[row[pick]], score[pick], dead[pick], alive[pick])

    def _fill(self, of: I64, key: I64, seq: I64, time: I64, score: F64, dead: I64, alive: AnyArray) -> None:
        """Put members (by key and seq within a query) into the restored lists, which stand by query and key."""
        t = self.slots[: self.count]
        slot = np.searchsorted(t[:, QUERY] * len(self.next_seq) + t[:, KEY], of * len(self.next_seq) + key)
        order = np.argsort(slot, kind="stable")
        slot, alive = slot[order], alive[order]
        m = np.bincount(slot, minlength=self.count).astype(np.int64)
        begin = np.cumsum(m) - m
        t[:, AT], t[:, ROOM], t[:, HI], t[:, HEAD] = begin, m, m, m
        np.minimum.at(t[:, HEAD], slot[alive], np.flatnonzero(alive) - begin[slot[alive]])
        self.live = self.end = len(slot)
        room = len(slot) + 1
        self.ps, self.pq = grown(score[order], room), grown(seq[order], room)
        self.pt = grown(time[order], room) if len(self.pt) else self.pt
        self.pd = grown(dead[order], room) if len(self.pd) else self.pd

    def wake(self) -> Instant | None:
        """The next expiry of a member or the next boundary of a list with something to tell."""
        return earliest(self.k_wake)

    def retained(self) -> tuple[I64, I64]:
        """The objects in some result, and those still to be reported as gone. O(members) + O(rows between a key's oldest and newest)."""
        slot, at, here, gone = self._members()
        here[gone] = True
        t, keys = self.slots[: self.count], len(self.next_seq)
        some = np.flatnonzero(t[:, HI] > t[:, LO])
        low, high = np.full(keys, NEVER), np.full(keys, -1)
        np.minimum.at(low, t[some, KEY], self.pq[t[some, AT] + t[some, LO]])
        np.maximum.at(high, t[some, KEY], self.pq[t[some, AT] + t[some, HI] - 1])
        low[high < 0] = 0
        begin = np.concatenate([[0], np.cumsum(high + 1 - low)])
        marked = np.zeros(int(begin[-1]), bool)
        shift = begin[:-1] - low
        marked[self.pq[at[here]] + shift[t[slot[here], KEY]]] = True
        found = np.flatnonzero(marked)
        key = np.searchsorted(begin, found, "right") - 1
        return key, found - shift[key]

    def snapshot(self, key: int, k: int, window: Window, query: int = 0) -> Items:
        """The first k of one query's result for any window up to the query's own, in rank order."""
        if k < 1:
            raise ValueError(f"k = {k}: at least 1")
        n, micros = int(self.n[query]), int(self.micros[query])
        own = Window(n if n < UNBOUNDED else None, micros if micros < UNBOUNDED else None)
        check_window(window, own, "snapshot")
        w = within(window, own)
        s = int(self.table[spot(self.table, self.slots, key, query)]) if 0 <= key < len(self.next_seq) else -1
        if s < 0:
            return Items(NONE, np.empty((0, 1), np.int64), np.empty(0, np.float64))
        at = np.arange(self.slots[s, AT] + self.slots[s, HEAD], self.slots[s, AT] + self.slots[s, HI])
        keep = self.pq[at] >= self.next_seq[key] - count_of(w)
        if w.micros is not None:
            keep &= self.pt[at] >= self.until - w.micros
        if self.op.deletes:
            keep &= self.pd[at] == NEVER
        at = at[keep]
        best = at[np.lexsort((self.pq[at], self.ps[at]))[::-1][:k]]
        return Items(np.full(len(best), key, np.int64), self.pq[best].reshape(-1, 1), external(self.ps[best], self.op.direction == "min"))

    def skyband(self) -> Items:
        """Nothing: a result per query is what the snapshots are."""
        return Items(NONE, np.empty((0, 1), np.int64), np.empty(0, np.float64))

    def counters(self) -> dict[str, int]:
        """Rows, tests by the grid's lists, rows tested against all queries, and unusable objects per query since the last call."""
        found = {"rows": self.rows, **self.influence.counters()}
        found.update({f"unusable:{i}": n for i, n in enumerate(self.influence.unusable.tolist())})
        self.rows = 0
        self.influence.unusable[:] = 0
        return found
