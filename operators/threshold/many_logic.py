"""The state and logic of ``ManyThreshold``: a list of members per query and key that ever had one, and the influence grid."""

from __future__ import annotations

import numpy as np

from skyband.operators.base import F64, I64, NEVER, NULL, AnyArray, Arrivals, Changes, Instant, Items, State, Window
from skyband.operators.jit import HAVE_NUMBA
from skyband.operators.single_rows.arrays import changes_of, earliest, extent, external, spans, widened
from skyband.operators.single_rows.blocks import DELETION_COLUMN, Block, columns_of, cut, last_key
from skyband.operators.single_rows.kernels.arrays import grown, grown_rows
from skyband.operators.single_rows.score_programs import ScoreProgram, program_scores
from skyband.operators.single_rows.scores import as_floats
from skyband.operators.single_rows.tombstones import Tombstones
from skyband.operators.threshold.many_configuration import ManyThresholdConfiguration
from skyband.operators.threshold.many_kernels import (
    AT,
    COLUMNS,
    END,
    ENTRIES,
    FILLS,
    FULL,
    HEAD,
    HI,
    KEY,
    LISTS,
    LIVE,
    LO,
    NEW,
    NEWEST,
    OUTSIDE,
    QUERY,
    ROOM,
    SAVED,
    SHOWN,
    TESTS,
    WILD,
    BlockEvents,
    InfluenceGrid,
    ListTable,
    Members,
    RowLog,
    Thresholds,
    Windows,
    chained,
    deleted_from,
    due_lists,
    find_passes,
    forget_rows,
    grouped,
    hashed,
    note_rows,
    packed,
    replay_lists,
    spot,
)
from skyband.operators.windows import UNBOUNDED, check_window, count_of

# Find the thresholds that rows pass: by influence grid where that pays, else by scoring every row for every query.

MAX_ENTRIES = 8_000_000
CELLS = 16_384
MORE_CELLS = 65_536
MIN_QUERIES = 16
SAMPLE = 256
CHUNK = 4_000_000


class Influence:
    """Finds the queries a row passes. Scores are internal, -0.0 folded into 0.0.

    ``program`` and its constants ``weights`` (Q, constants): of weighted sums, the weights (Q, d). ``least``/``most`` (Q,) the closed
    interval that passes, ``low``/``high`` (Q, d) closed boxes or None, ``where`` (Q,) the bit of a row's flags that must be set, -1 for
    none; ``d`` attributes. What is found never depends on the grid.
    """

    def __init__(
        self, program: ScoreProgram, weights: F64, d: int, least: F64, most: F64, low: F64 | None, high: F64 | None, where: I64
    ) -> None:  # fmt: skip
        q = len(weights)
        self.weights, self.d = weights, d
        box_low = np.empty((0, d)) if low is None else np.ascontiguousarray(low, np.float64)
        box_high = np.empty((0, d)) if high is None else np.ascontiguousarray(high, np.float64)
        bounded = (box_low > -np.inf) | (box_high < np.inf)
        boxed: AnyArray = np.asarray(bounded.any(axis=1)) if len(box_low) else np.zeros(q, bool)
        packed = np.ascontiguousarray(np.concatenate([weights, least[:, None], most[:, None]], axis=1))
        self.table = Thresholds(least, most, box_low, box_high, np.ascontiguousarray(weights.T), packed, boxed, where, program)
        self.unusable = np.zeros(q, np.int64)
        self.tests = self.wild = 0
        self.cells, self.margin, self.rest = CELLS, 0.02, 0
        self.patience = 65_536
        self._forget()

    def _forget(self) -> None:
        """Discard the grid; the next rows are sampled first."""
        d = self.d
        self._lay(0, np.zeros(d), np.ones(d))
        self.rows = self.passed = 0
        self.sample: list[F64] = []

    def _lay(self, g: int, low: F64, step: F64) -> None:
        """Create a grid of g cells an axis from ``low`` (d,) on, of width ``step`` (d,), no cell of which has been touched; g = 0: none."""
        cells = g ** len(low) if g else 0
        marks = np.full(cells + 1, NEW, np.uint8)
        marks[-1] = OUTSIDE
        with np.errstate(over="ignore"):  # a width can be too small for its inverse: then all rows are outside
            scale, pad = 1.0 / step, 1e-9 * (abs(low) + step * g)
        begin, length = np.zeros(cells, np.int64), np.zeros(cells, np.int64)
        self.grid = InfluenceGrid(g, MAX_ENTRIES, low, step, scale, pad, begin, length, marks, np.zeros(5, np.int64))
        self.entries: AnyArray = np.empty(4096 if g else 0, np.int32)

    def find(self, x: F64, flags: I64) -> tuple[I64, I64, F64]:
        """Return (query, row, score) of every pass among the rows x (d, n), by row, then query; count objects without score."""
        if x.shape[1] == 0:
            return np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.float64)
        if not HAVE_NUMBA:
            return self._all_numpy(x, flags)
        self._fit(x)
        counters = self.grid.counters
        tests, wild = int(counters[TESTS]), int(counters[WILD])
        found, m, self.entries = find_passes(self.table, x, flags, self.grid, self.entries, self.unusable)
        self.rows += x.shape[1]
        self.passed += m
        self.tests += int(counters[TESTS]) - tests
        self.wild += int(counters[WILD]) - wild
        self._judge()
        return found.query[:m].astype(np.int64), found.row[:m], found.score[:m]

    def _fit(self, x: F64) -> None:
        """Lay a grid over the range of the rows seen since there was none, if they are enough."""
        q, d = len(self.weights), self.d
        if self.grid.cells or q < MIN_QUERIES or self.cells < 2**d:
            return
        if self.rest > 0:
            self.rest -= x.shape[1]
            return
        self.sample.append(x)
        if sum(s.shape[1] for s in self.sample) < SAMPLE:
            return
        with np.errstate(all="ignore"):
            low, high = extent(np.concatenate(self.sample, axis=1) if len(self.sample) > 1 else x)
            self.sample = []
            width = high - low
            margin = np.where(width > 0, width * self.margin, np.maximum(1.0, abs(low)) * 1e-6)
            g = max(2, min(4096, int(self.cells ** (1 / d) + 1e-9)))
            step = (width + 2 * margin) / g
            reach = np.maximum(abs(low), abs(high)) + margin + step
            if self.table.program.result < 0:
                reach = (abs(self.weights) * reach).sum(axis=1)
        if not (reach < 1e300).all() or not (step > 0).all():  # a sum could overflow within a cell
            self.rest, self.patience = self.patience, 2 * self.patience
            return
        self._forget()
        self._lay(g, low - margin, step)

    def _judge(self) -> None:
        """Discard the grid if the data have left it, if it is too fine or too coarse, or if lists are as long as Q."""
        if not self.grid.cells:
            return
        s, q = self.grid.counters, len(self.weights)
        if s[FULL]:
            self.cells = min(self.cells, CELLS) // 8
            self._forget()
        elif s[WILD] > max(64, int(s[FILLS]) // 4) and 64 * s[WILD] > self.rows:
            self.margin = min(0.25, 2 * self.margin)
            self._forget()
        elif self.cells == CELLS and self.rows > 16 * s[FILLS] + 4096 and s[TESTS] - self.passed > 16 * self.rows:
            self.cells = MORE_CELLS  # most tests fail, and the lists have paid for themselves
            self._forget()
        elif self.rows > 4096 and 3 * s[TESTS] > q * self.rows:
            self._forget()
            self.rest, self.patience = self.patience, 2 * self.patience

    def _all_numpy(self, x: F64, flags: I64) -> tuple[I64, I64, F64]:
        """Return every row for every query, in NumPy: the same operations in the same order."""
        table, q, (d, rows) = self.table, len(self.weights), x.shape
        found = []
        size = max(1, CHUNK // q)
        for a in range(0, rows, size):
            part = x[:, a : a + size]
            with np.errstate(all="ignore"):
                if table.program.result >= 0:
                    y = program_scores(table.program, [*part[:, :, None], *table.columns])
                else:
                    y = part[0][:, None] * table.columns[0]
                    for t in range(1, d):
                        y += part[t][:, None] * table.columns[t]
                    y += 0.0
                ok: AnyArray = (y >= table.least) & (y <= table.most)
            bad = np.isnan(y)
            for t in range(d if len(table.low) else 0):
                v = part[t][:, None]
                free = np.isnan(v) & (table.low[:, t] == -np.inf) & (table.high[:, t] == np.inf)
                here = free | ((table.low[:, t] <= v) & (v <= table.high[:, t]))
                ok &= here
                bad &= here
            if len(flags):
                true = (table.where < 0) | ((flags[a : a + size, None] >> np.maximum(table.where, 0)) & 1 == 1)
                ok &= true
                bad &= true
            self.unusable += bad.sum(axis=0)
            row, of = np.nonzero(ok)
            found.append((of, row + a, y[row, of]))
        of, row, score = (np.concatenate([f[i] for f in found]) for i in range(3))
        return of, row, score

    def counters(self) -> dict[str, int]:
        """Return tests by lists and rows tested against all queries since the last call."""
        found = {"tests": self.tests, "wild": self.wild, "grid": int(self.grid.counters[ENTRIES])}
        self.tests = self.wild = 0
        return found


NONE: I64 = np.empty(0, np.int64)
SLACK = 4096


class ManyThresholdLogic:
    """State of one bucket.

    ``lists`` and ``members``: one list per query and key that ever had a member; ``next_seq`` int64 (keys,) the seq each key's next object
    has; ``tombs`` and ``fresh_tombs`` the deletions, ``log`` the queries that a row passed; ``influence`` finds them.
    """

    def __init__(self, op: ManyThresholdConfiguration, state: State | None) -> None:
        self.op = op
        count, micros, every, where = op.filled()
        self.windows = Windows(count, micros, every)
        self.sign = -1.0 if op.direction == "min" else 1.0
        low, high = op.intervals()
        both = (low, high) if op.direction == "max" else (-high, -low)
        program, weights = op.functions(np.full(len(op.names), self.sign))
        self.influence = Influence(program, weights, len(op.attributes), *both, op.low, op.high, where)
        self.until, self.rows, self.next_seq = NULL, 0, NONE
        self.lists = ListTable(np.empty((0, COLUMNS), np.int64), np.full(4, -1), np.zeros(3, np.int64), first=NONE, wake=NONE, leave=NONE)
        time, deleted = np.empty(0 if op.window.micros is None else 16, np.int64), np.empty(16 if op.deletes else 0, np.int64)
        self.members = Members(np.empty(16, np.float64), np.empty(16, np.int64), time, deleted)
        self.tombs, self.fresh_tombs, self.fresh = Tombstones.empty(), [Tombstones.empty()], 0
        self.log, self.log_kept = RowLog(np.zeros((1, 3), np.int64), np.full(4, -1), NONE, np.zeros(2, np.int64)), 0
        if state is not None:
            self._restore(state)

    # ---------------------------------------------------------------- events

    def advance(self, arrivals: Arrivals, until: Instant) -> Changes:
        """Process every event < ``until``. O(rows) look-ups, O(queries a row's cell can reach), O(log) per change and list visited."""
        op = self.op
        self._grow(last_key(arrivals) + 1)
        also = np.flatnonzero(self.lists.wake < until)
        block, objects = cut(arrivals, self.next_seq, also, op.deletes)
        rows = len(block.time)
        self.rows += rows
        of, row, score = self._passes(columns_of(arrivals, objects, tuple(c.name for c in op.columns)), rows)
        if op.deletes and len(of):
            at = row if objects is None else objects[row]
            self._note(of, np.asarray(arrivals.key, np.int64)[at], np.asarray(arrivals.seq, np.int64)[at])
        events = self._events(block, of, row, score, until)
        self._slot_room(min(len(of), len(self.windows.counts) * len(block.keys)))
        found, changes, self.members = replay_lists(self.windows, block, events, self.lists, self.members, until)
        self.next_seq[block.keys] = block.first_seq + block.end - block.begin
        self.until = until
        self._tidy()
        return changes_of(found, changes, op.direction == "min")

    def _events(self, block: Block, of: I64, row: I64, score: F64, until: Instant) -> BlockEvents:
        """Group the block's events by query: the rows ``row`` that pass ``of``, deletions, and lists that change by themselves."""
        q = len(self.windows.counts)
        begin, order = grouped(q, of, len(of))
        deletion_begin = due_begin = np.zeros(q + 1, np.int64)
        deletions = due = NONE
        if len(block.deletion_row):
            takers, deletion, m = deleted_from(block, self.log)
            deletion_begin, by_query = grouped(q, takers, m)
            deletions = deletion[by_query]
            keys = np.repeat(block.keys, block.deletion_end - block.deletion_begin)
            self.fresh_tombs.append(Tombstones(keys, block.deletion_seq, block.deletion_time))
            self.fresh += len(block.deletion_row)
        if len(block.keys):
            owners, group, m = due_lists(block, self.lists, self.members, self.windows.counts, self.windows.micros, until)
            due_begin, by_query = grouped(q, owners, m)
            due = group[by_query]
        return BlockEvents(begin, row[order], score[order], deletion_begin, deletions, due_begin, due)

    def _passes(self, columns: dict[str, AnyArray], rows: int) -> tuple[I64, I64, F64]:
        """Return (query, row, score) of every row that passes, by row and then by query."""
        op = self.op
        x = np.empty((len(op.attributes), rows), np.float64)
        for i, a in enumerate(op.attributes):
            x[i] = as_floats(columns[a])
        return self.influence.find(x, op.flags(columns, rows))

    def _grow(self, keys: int) -> None:
        """Make room for ``keys`` keys."""
        if keys <= len(self.next_seq):
            return
        lists = self.lists
        self.next_seq = widened(self.next_seq, keys, 0, 0)
        self.lists = lists._replace(
            first=widened(lists.first, keys, -1, 0), wake=widened(lists.wake, keys, NEVER, 0), leave=widened(lists.leave, keys, NEVER, 0)
        )

    def _slot_room(self, more: int) -> None:
        """Make room for ``more`` new lists."""
        count = int(self.lists.totals[LISTS])
        need = count + more
        if need > len(self.lists.slots):
            self.lists = self.lists._replace(slots=grown_rows(self.lists.slots, 2 * need))
        if 2 * need > len(self.lists.hashed):
            self.lists = self.lists._replace(hashed=hashed(self.lists.slots, count, 1 << (4 * need).bit_length()))

    def _note(self, of: I64, key: I64, seq: I64) -> None:
        """Note which queries take which rows, so that a deletion finds them."""
        noted, end = self.log.totals.tolist()
        need, queries = noted + len(of) + 1, end + len(of)
        if need > len(self.log.rows):
            self.log = self.log._replace(rows=grown_rows(self.log.rows, 2 * need))
        if queries > len(self.log.queries):
            self.log = self.log._replace(queries=grown(self.log.queries, 2 * queries))
        if 2 * need > len(self.log.hashed):
            self.log = self.log._replace(hashed=hashed(self.log.rows, noted, 1 << (4 * need).bit_length()))
        note_rows(of, key, seq, self.log)

    def _tidy(self) -> None:
        """Close gaps once most of the pool, of the noted rows or of the deletions is no longer needed: amortised O(1) per event."""
        count, live, end = self.lists.totals.tolist()
        if end > 4 * live + 8 * count + SLACK:
            self.members = packed(self.lists.slots, self.members, self.lists.totals)
        if self.log.totals[0] > 2 * self.log_kept + SLACK:
            forget_rows(self.log, self.lists, self.members)
            kept, queries = self.log.totals.tolist()
            self.log_kept = kept
            rows = self.log.rows[: kept + 1].copy()
            table = hashed(rows, kept, 1 << (4 * (kept + 512)).bit_length())
            self.log = RowLog(rows, table, self.log.queries[:queries].copy(), self.log.totals)
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
        """Return slot and pool position of every member, whether it is in the result, and whether its leaving is unreported."""
        t = self.lists.slots[: self.lists.totals[LISTS]]
        m = t[:, HI] - t[:, LO]
        slot = np.repeat(np.arange(len(t)), m)
        at = spans(t[:, AT] + t[:, LO], m)
        here: AnyArray = at >= np.repeat(t[:, AT] + t[:, HEAD], m)
        if self.op.deletes:
            here &= self.members.deleted[at] == NEVER
        gone = np.flatnonzero(~here & np.repeat(self.windows.every[t[:, QUERY]] > 0, m))
        of, q, where = t[slot[gone]], t[slot[gone], QUERY], at[gone]
        b, newest, seq = of[:, SHOWN], of[:, NEWEST], self.members.seq[where]
        shown = (b != NULL) & (seq <= newest) & (seq > newest - self.windows.counts[q])
        if len(self.members.time):
            shown &= self.members.time[where] > b - self.windows.micros[q]
        if self.op.deletes:
            shown &= self.members.deleted[where] > b
        return slot, at, here, gone[shown]

    def checkpoint(self) -> dict[str, AnyArray]:
        """Return steps, clocks, deletions and members still to be reported as gone; the kept rows give the members again."""
        saved: dict[str, AnyArray] = {"until": np.array([self.until], np.int64)}
        saved.update(next_seq=np.array(self.next_seq), k_wake=np.array(self.lists.wake), k_leave=np.array(self.lists.leave))
        t = self.lists.slots[: self.lists.totals[LISTS]]
        saved["lists"] = t[np.lexsort((t[:, KEY], t[:, QUERY])), :SAVED].copy()
        slot, at, _, gone = self._members()
        slot, at = slot[gone], at[gone]
        dead = self.members.deleted[at] if self.op.deletes else np.full(len(at), NEVER)
        saved["gone"] = np.stack([t[slot, QUERY], t[slot, KEY], self.members.seq[at], dead], axis=1)
        if self.op.deletes:
            self._merge_tombs()
            saved.update(tomb_key=self.tombs.key, tomb_seq=self.tombs.seq, tomb_time=self.tombs.time)
        return saved

    def _restore(self, state: State) -> None:
        a, rows, op = state.arrays, state.rows, self.op
        self.until = int(a["until"][0])
        self.next_seq = np.array(a["next_seq"])
        saved = np.asarray(a["lists"], np.int64).reshape(-1, SAVED)
        count = len(saved)
        slots, first = np.zeros((count + 1, COLUMNS), np.int64), np.full(len(self.next_seq), -1)
        slots[:count, :SAVED] = saved
        chained(slots, count, first)
        table = hashed(slots, count, 1 << (4 * count + 4).bit_length())
        totals = np.array([count, 0, 0], np.int64)
        self.lists = ListTable(slots, table, totals, first, np.array(a["k_wake"]), np.array(a["k_leave"]))
        key, seq, time = (np.asarray(v, np.int64) for v in (rows.key, rows.seq, rows.time))
        of, row, score = self._passes({c.name: rows.columns[c.name] for c in op.columns if c != DELETION_COLUMN}, len(rows))
        self.influence.unusable[:] = 0
        alive = seq[row] >= self.next_seq[key[row]] - self.windows.counts[of]
        if len(self.members.time):
            alive &= time[row] + self.windows.micros[of] >= self.until
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
        t = self.lists.slots[: self.lists.totals[LISTS]]
        slot = np.searchsorted(t[:, QUERY] * len(self.next_seq) + t[:, KEY], of * len(self.next_seq) + key)
        order = np.argsort(slot, kind="stable")
        slot, alive = slot[order], alive[order]
        m = np.bincount(slot, minlength=len(t)).astype(np.int64)
        begin = np.cumsum(m) - m
        t[:, AT], t[:, ROOM], t[:, HI], t[:, HEAD] = begin, m, m, m
        np.minimum.at(t[:, HEAD], slot[alive], np.flatnonzero(alive) - begin[slot[alive]])
        self.lists.totals[LIVE] = self.lists.totals[END] = len(slot)
        old, room = self.members, len(slot) + 1
        self.members = Members(
            grown(score[order], room), grown(seq[order], room), grown(time[order], room) if len(old.time) else old.time,
            grown(dead[order], room) if len(old.deleted) else old.deleted,
        )  # fmt: skip

    def wake(self) -> Instant | None:
        """Return the next expiry of a member or the next boundary at which a list has changes."""
        return earliest(self.lists.wake)

    def retained(self) -> tuple[I64, I64]:
        """Return the objects in some result, and those still to be reported as gone. O(members + rows since a key's oldest)."""
        slot, at, here, gone = self._members()
        here[gone] = True
        t, keys = self.lists.slots[: self.lists.totals[LISTS]], len(self.next_seq)
        some = np.flatnonzero(t[:, HI] > t[:, LO])
        low, high = np.full(keys, NEVER), np.full(keys, -1)
        np.minimum.at(low, t[some, KEY], self.members.seq[t[some, AT] + t[some, LO]])
        np.maximum.at(high, t[some, KEY], self.members.seq[t[some, AT] + t[some, HI] - 1])
        low[high < 0] = 0
        begin = np.concatenate([[0], np.cumsum(high + 1 - low)])
        marked = np.zeros(int(begin[-1]), bool)
        shift = begin[:-1] - low
        marked[self.members.seq[at[here]] + shift[t[slot[here], KEY]]] = True
        found = np.flatnonzero(marked)
        key = np.searchsorted(begin, found, "right") - 1
        return key, found - shift[key]

    def snapshot(self, key: int, k: int, window: Window, query: int = 0) -> Items:
        """Return the first k of one query's result for any window up to the query's own, in rank order."""
        if k < 1:
            raise ValueError(f"k = {k}: at least 1")
        n, micros = int(self.windows.counts[query]), int(self.windows.micros[query])
        own = Window(n if n < UNBOUNDED else None, micros if micros < UNBOUNDED else None)
        check_window(window, own, "snapshot")
        w = window.within(own)
        slots, table = self.lists.slots, self.lists.hashed
        s = int(table[spot(table, slots, key, query)]) if 0 <= key < len(self.next_seq) else -1
        if s < 0:
            return Items(NONE, np.empty((0, 1), np.int64), np.empty(0, np.float64))
        at = np.arange(slots[s, AT] + slots[s, HEAD], slots[s, AT] + slots[s, HI])
        keep = self.members.seq[at] >= self.next_seq[key] - count_of(w)
        if w.micros is not None:
            keep &= self.members.time[at] >= self.until - w.micros
        if self.op.deletes:
            keep &= self.members.deleted[at] == NEVER
        at = at[keep]
        best = at[np.lexsort((self.members.seq[at], self.members.score[at]))[::-1][:k]]
        score = external(self.members.score[best], self.op.direction == "min")
        return Items(np.full(len(best), key, np.int64), self.members.seq[best].reshape(-1, 1), score)

    def skyband(self) -> Items:
        """Return no items: each query has a result of its own."""
        return Items(NONE, np.empty((0, 1), np.int64), np.empty(0, np.float64))

    def counters(self) -> dict[str, int]:
        """Return rows, tests by the grid, rows tested against all queries, and unusable objects per query since the last call."""
        found = {"rows": self.rows, **self.influence.counters()}
        found.update({f"unusable:{i}": n for i, n in enumerate(self.influence.unusable.tolist())})
        self.rows = 0
        self.influence.unusable[:] = 0
        return found
