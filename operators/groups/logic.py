"""The state of a bucket: rows of the window, aggregates of their groups, and the result of each query.

A call runs in stages: ``advance`` makes a record of every group that an event touched, the expressions give the groups' values, and for
each query ``rank`` turns these into changes and points. All of it follows from the rows of the window, the results shown, and, for
thresholds, membership: a restore adds the rows again.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from skyband.operators.base import F64, I64, NEVER, NULL, AnyArray, Arrivals, Changes, Instant, Items, Named, State, Window
from skyband.operators.groups import arrays, growth
from skyband.operators.groups.arrays import NONE
from skyband.operators.groups.carry import Carry
from skyband.operators.groups.configuration import GroupsConfiguration, GroupsQuery
from skyband.operators.groups.deletions import Deletions
from skyband.operators.groups.expressions import Expressions
from skyband.operators.groups.kernels import tables
from skyband.operators.groups.kernels.advance import DONE, EVENTS, RECORDS, add_rows, advance, look
from skyband.operators.groups.kernels.heaps import MEMBERS, NOWHERE
from skyband.operators.groups.kernels.rank import CHANGES, EVENT, FINALS, JOB, POINTS, Output, Query, Values, place_all, rank
from skyband.operators.groups.layout import layout_of
from skyband.operators.groups.output import Columns
from skyband.operators.groups.sessions import in_session, next_ends
from skyband.operators.loyalty.names import NOBODY, Names, Numbers
from skyband.operators.ranges import ranges
from skyband.operators.windows import count_of, expiries


class Kept(NamedTuple):
    """Rows by key and seq, with their ``expiry``, the ``number`` of their group and ``cells`` (arguments, rows)."""

    key: I64
    seq: I64
    expiry: I64
    number: I64
    cells: I64


class GroupsLogic:
    """See ``Logic``. Groups are numbered by *place*: 0, 1, 2, ... in order of appearance; gone ones are dropped when they are many."""

    def __init__(self, configuration: GroupsConfiguration, state: State | None) -> None:
        self.configuration = configuration
        self.layout = layout_of(configuration)
        self.window, self.count = configuration.window, count_of(configuration.window)
        self.expressions = Expressions(configuration)
        self.carry = Carry(configuration)
        self.until = NULL
        self.rows = 0
        self.eligible = self.unusable = 0
        self.deletions = Deletions(configuration.deletes)
        self._clear()
        if state is not None:
            self.deletions.load(state.arrays)
            self._load(state.arrays, self._kept(state.rows))

    def _clear(self) -> None:
        """Begin without groups."""
        self.n = 0
        self.state = arrays.empty_state(self.layout, self.window.session)
        self.names, self.numbers = Names(NONE, np.empty((0, 0), np.int64)), Numbers(NONE)
        self.number, self.key = NONE, NONE
        self.boards = [arrays.empty_board(len(self.carry.names), self.carry.traces(q)) for q in self.configuration.queries]
        self.heap_room, self.of_key, self.heap_end = NONE, NONE, 0
        self.members = NONE

    # ---------------------------------------------------------------- rows in

    def advance(self, arrivals: Arrivals, until: Instant) -> Changes:
        """See ``Logic.advance``. O(log groups) an arrival or expiry, and O(keys) a call."""
        if self.until == NULL and len(arrivals):
            self.until = int(arrivals.time.min())
        if self.until == NULL:
            return self._columns.empty()
        self.until = max(self.until, until)
        self._grow(int(arrivals.key.max(initial=-1)) + 1)
        place, cells = self._meet(arrivals)
        feed = self._feed(arrivals, place, cells)
        events = self._events(feed)
        self._advance(feed, events)
        values = self._values(feed, events)
        return self._columns.changes_of(*self._rank(values))

    @property
    def _columns(self) -> Columns:
        return Columns(self.number, self.names.rank, self.expressions.shown, self.carry, self.window.tumbling)

    def _meet(self, arrivals: Arrivals) -> tuple[I64, I64]:
        """Return the group of every row, -1 for rows of no group, and the arguments' values; new groups get places."""
        n = len(arrivals)
        cells = self.expressions.cells(arrivals.columns, n)
        if n == 0:
            return NONE, cells
        name = self.configuration.object_column.name
        number, asked = arrivals.columns[name], self.expressions.selected(arrivals.columns, n)
        if self.deletions.active:
            deletion = self.deletions.of(arrivals)
            asked, n = asked & ~deletion, n - int(np.count_nonzero(deletion))
        self.rows += n
        usable = asked & (number != NULL)
        self.eligible += int(np.count_nonzero(asked))
        self.unusable += int(np.count_nonzero(asked)) - int(np.count_nonzero(usable))
        place = self.numbers.places(number if usable.all() else np.where(usable, number, NULL))
        new = np.flatnonzero(usable & (place == NOBODY))
        if len(new):
            self._name(arrivals.named[name], number[new], arrivals.key[new])
            place[new] = self.numbers.places(number[new])
        return place, cells

    def _name(self, named: Named, number: I64, key: I64) -> None:
        """Append the groups that rows with ``number`` and ``key`` belong to."""
        numbers, first = np.unique(number, return_index=True)
        which = np.flatnonzero(np.isin(named.number, numbers))
        if len(which) < len(numbers):
            raise ValueError("a row belongs to a group without a name")
        given = named.number[which]
        self._append(given, key[first[np.searchsorted(numbers, given)]])
        others_change = self.names.add(named, which)
        self._rank_by_name(0 if others_change else self.n - len(which))

    def _rank_by_name(self, first: int) -> None:
        """Take over the ranks by name of the groups from ``first`` on."""
        for board in self.boards:
            board.groups["name"][first : self.n] = self.names.rank[first : self.n]

    def _feed(self, arrivals: Arrivals, place: I64, cells: I64) -> tables.Feed:
        """Return the rows of the call, and the keys with rows, expiries or boundaries."""
        due = np.zeros(len(self.of_key), bool)
        if self._timed and len(self.state.rows.expiry):
            head = self.state.keys.head
            due |= (head >= 0) & (self.state.rows.expiry[np.maximum(head, 0)] < self.until)
        if self.window.session is not None:
            due |= next_ends(self.state.sessions) < self.until
        for board in self.boards:
            due |= board.next < self.until
        due[arrivals.key] = True
        job = np.flatnonzero(due)
        first, end = np.searchsorted(arrivals.key, job), np.searchsorted(arrivals.key, job, "right")
        target = self.deletions.targets(arrivals)
        time, seq = np.ascontiguousarray(arrivals.time), np.ascontiguousarray(arrivals.seq)
        return tables.Feed(time, expiries(self.window, time), seq, place, cells, target, job, first, end)

    def _events(self, feed: tables.Feed) -> tables.Events:
        """Return room for the events and records of a call."""
        rows, n = self.state.rows, len(feed.time)
        expiring = len(rows.expiry) - int(rows.spare[0]) + n if self._timed and len(feed.job) else 0
        self.state = growth.for_rows(self.state, int(np.count_nonzero(feed.group >= 0)), self.deletions.active)
        return growth.empty_events(self.layout, self.n, n + expiring, 2 * n + expiring, len(feed.job))

    def _advance(self, feed: tables.Feed, events: tables.Events) -> None:
        """Process the rows and expiries of a call; sums and sets get more room as needed."""
        window = tables.Window(self.count, self.until)
        while (why := advance(self.state, feed, window, events)) != DONE:
            self.state = growth.for_another(self.state, why)

    @property
    def _timed(self) -> bool:
        """Whether rows leave at instants, not only as others arrive."""
        return self.window.micros is not None or self.window.tumbling is not None

    # ---------------------------------------------------------------- values of groups

    def _values(self, feed: tables.Feed, events: tables.Events) -> Values:
        """Return the records with the internal value of each group."""
        e, r = int(events.counts[EVENTS]), int(events.counts[RECORDS])
        aggregates = events.values[:, :r]
        score = self.expressions.scores(aggregates)
        self._count_unusable(score, events)
        value = self.expressions.internal(score, aggregates)
        return Values(
            feed.job, events.first_of_key, events.at[:e], events.arrived[:e], events.record[: e + 1], events.group[:r], events.alive[:r],
            value, self.carry.of(events, r),
        )  # fmt: skip

    def _count_unusable(self, score: F64, events: tables.Events) -> None:
        """Count the rows after which their group has a null or NaN score."""
        bad = np.flatnonzero(np.isnan(score) & (events.alive[: len(score)] > 0))
        if len(bad):
            event = np.searchsorted(events.record[: events.counts[EVENTS] + 1], bad, side="right") - 1
            self.unusable += int(np.count_nonzero(events.arrived[event] == events.group[bad]))

    def _rank(self, values: Values) -> tuple[Output, list[tuple[int, int, int]]]:
        """Return the changes and points of all queries, and how many changes, points and finals there are after each query."""
        queries, records = self.configuration.queries, len(values.group)
        room = [4 * records + 1 + (self.n if q.every else 0) for q in queries]
        closing = len(queries) * records if self.window.tumbling is not None else 0
        traced = any(q.traces for q in queries)
        out, ends = arrays.empty_output(sum(room), closing, len(self.carry.names), self.members, traced), []
        for needed, q, board in zip(room, queries, self.boards, strict=True):
            query = self._query(q)
            out.counts[[JOB, EVENT]] = 0
            out = arrays.more_output(out, max(int(out.counts[CHANGES]), int(out.counts[POINTS])) + needed)
            while not rank(board, query, values, out):
                out = arrays.more_output(out, 2 * len(out.key) + query.room)
            ends.append((int(out.counts[CHANGES]), int(out.counts[POINTS]), int(out.counts[FINALS])))
        return out, ends

    def _query(self, q: GroupsQuery) -> Query:
        closes = int(self.window.tumbling is not None)
        return Query(q.k or 0, *self.expressions.bounds(q), q.every or 0, closes, self.until, int(q.ties), 2 * self.n)

    # ---------------------------------------------------------------- groups and keys

    def _grow(self, keys: int) -> None:
        """Make room for so many keys."""
        if keys <= len(self.of_key):
            return
        self.state = growth.for_keys(self.state, keys)
        self.boards = [arrays.more_keys_of_board(b, keys) for b in self.boards]
        self.of_key, self.heap_room = arrays.lengthened(self.of_key, keys), arrays.lengthened(self.heap_room, keys)

    def _append(self, number: I64, key: I64) -> None:
        """Append groups without rows."""
        first, end = self.n, self.n + len(number)
        if end > len(self.number):
            size = 2 * end + 16
            self.number, self.key, self.members = (arrays.lengthened(a, size) for a in (self.number, self.key, self.members))
            self.state = growth.for_groups(self.state, size)
            self.boards = [arrays.more_of_board(b, size) for b in self.boards]
        self.number[first:end], self.key[first:end] = number, key
        self.n = end
        self.numbers = self.numbers.extended(self.number[:end])
        self._make_heaps(key)

    def _make_heaps(self, key: I64) -> None:
        """Make room for more groups of the keys in the heaps of the boards: a stretch of twice the size at the end."""
        np.add.at(self.of_key, key, 1)
        short = np.unique(key)
        short = short[self.of_key[short] > self.heap_room[short]]
        if not len(short) or all(q.k is None for q in self.configuration.queries):
            return
        room = 2 * self.of_key[short]
        start = self.heap_end + np.cumsum(room) - room
        self.heap_end += int(room.sum())
        for i, b in enumerate(self.boards):
            heap = b.heap if b.heap.shape[1] >= self.heap_end else arrays.lengthened(b.heap, 2 * self.heap_end)
            old = self.heap_room[short]
            heap[:, ranges(start, old)] = heap[:, ranges(b.start[short], old)]
            b.start[short] = start
            self.boards[i] = b._replace(heap=heap)
        self.heap_room[short] = room

    def objects(self) -> I64:
        """See ``ObjectLogic.objects``: the groups that have rows or are shown. The others are dropped when they are many. O(groups)."""
        needed = self._needed()
        gone = self.n - len(needed)
        rows = self.state.rows
        number = self.number[needed].copy()
        if gone > len(needed) + 64 and 4 * gone > len(rows.expiry) - int(rows.spare[0]):
            saved, kept = self.checkpoint(), self._held()
            self._clear()
            self._load(saved, kept)
        return number

    def _needed(self) -> I64:
        needed = self.state.groups.alive[: self.n] > 0
        for board in self.boards:
            needed |= board.groups["shown"][: self.n] != 0
        return np.flatnonzero(needed)

    # ---------------------------------------------------------------- what is kept

    def _held(self) -> Kept:
        """Return the rows of the state."""
        rows = self.state.rows
        used = np.ones(len(rows.expiry), bool)
        used[rows.free[: rows.spare[0]]] = False
        which = np.flatnonzero(used)
        key = self.key[rows.group[which]]
        order = np.lexsort((rows.seq[which], key))
        which = which[order]
        return Kept(key[order], rows.seq[which], rows.expiry[which], self.number[rows.group[which]], rows.cells[:, which])

    def _kept(self, rows: Arrivals) -> Kept:
        """Return the host's rows that belong to a group."""
        number = rows.columns[self.configuration.object_column.name]
        mine = (number != NULL) & self.expressions.selected(rows.columns, len(rows))
        cells = self.expressions.cells(rows.columns, len(rows))
        mine &= self.deletions.alive(rows.key, rows.seq)
        expiry = expiries(self.window, rows.time[mine])
        return Kept(rows.key[mine], rows.seq[mine], expiry, number[mine], np.ascontiguousarray(cells[:, mine]))

    def checkpoint(self) -> dict[str, AnyArray]:
        """See ``Logic.checkpoint``: groups with their names, what is shown of them, and steps. O(groups + keys)."""
        needed = self._needed()
        names = self.names.keep(needed)
        saved: dict[str, AnyArray] = {
            "until": np.array([self.until]), "number": self.number[needed], "key": self.key[needed],
            "name_length": names.length, "name_words": names.words, "next_seq": self.state.keys.next_seq.copy(),
        }  # fmt: skip
        for name, field in (("shown", "shown"), ("shown_value", "shown_value"), ("member", "place")):
            saved[name] = np.array([b.groups[field][needed] for b in self.boards])
        saved["shown"] = saved["shown"].astype(np.int64)
        if self.configuration.carries_former:
            former = [self.boards[q].shown_carried[:, needed] for q in self.configuration.regular]
            saved["shown_carried"] = np.concatenate(former)
        saved["member"] = ((saved["member"] != NOWHERE) & (saved["member"] & 1 == MEMBERS)).astype(np.int64)
        for name in ("step", "next"):
            saved[name] = np.array([getattr(b, name) for b in self.boards])
        if self.deletions.active:
            saved |= self.deletions.saved(self.state.keys.next_seq, self.until, self.configuration.window)
            saved["deleted"] = (self.boards[0].groups["rows"][needed] == tables.DELETED).astype(np.int64)
        return saved

    def _load(self, saved: Mapping[str, AnyArray], kept: Kept) -> None:
        self.until = int(saved["until"][0])
        self._grow(len(saved["next_seq"]))
        self.state.keys.next_seq[:] = saved["next_seq"]
        self.names = Names(np.array(saved["name_length"], np.int64), np.array(saved["name_words"], np.int64))
        self._append(np.array(saved["number"], np.int64), np.array(saved["key"], np.int64))
        self._rank_by_name(0)
        self._add(kept)
        events = growth.empty_events(self.layout, self.n, 1, self.n, 0)
        look(self.state, events)
        value, r = np.full(self.n, math.nan), int(events.counts[RECORDS])
        aggregates = events.values[:, :r]
        value[events.group[:r]] = self.expressions.internal(self.expressions.scores(aggregates), aggregates)
        rows = self.state.groups.alive[: self.n].copy()
        if self.deletions.active:
            rows[(rows == 0) & (saved["deleted"] != 0)] = tables.DELETED
        carried = len(self.carry.names)
        for q, board in enumerate(self.boards):
            for name in ("step", "next"):
                getattr(board, name)[:] = saved[name][q]
            groups, asked = board.groups[: self.n], self.configuration.queries[q]
            groups["shown"], groups["shown_value"] = saved["shown"][q], saved["shown_value"][q]
            groups["value"], groups["rows"] = value, rows
            board.carried[:, : self.n] = self.carry.of_empty[:, None]
            board.carried[:, events.group[:r]] = self.carry.of(events, r)
            board.shown_carried[:, : self.n] = board.carried[:, : self.n]
            if carried and asked.every is not None:
                first = carried * self.configuration.regular.index(q)
                board.shown_carried[:, : self.n] = saved["shown_carried"][first : first + carried]
            if asked.k is None:
                groups["place"] = np.where(saved["member"][q], MEMBERS, NOWHERE)
            place_all(board, self._query(asked), self.key[: self.n])

    def _add(self, kept: Kept) -> None:
        """Add the rows that are in the window."""
        place = self.numbers.places(kept.number)
        alive = (kept.seq >= self.state.keys.next_seq[kept.key] - self.count) & (kept.expiry >= self.until)
        mine, time = np.flatnonzero(alive & (place != NOBODY)), NONE
        if self.window.session is not None:
            time = kept.expiry[mine] - (self.window.micros or 0)
            alive = in_session(place[mine], time, self.window.session, self.until)
            mine, time = mine[alive], time[alive]
        self.state = growth.for_rows(self.state, len(mine), self.deletions.active)
        cells = np.ascontiguousarray(kept.cells[:, mine])
        feed = tables.Feed(time, kept.expiry[mine], kept.seq[mine], place[mine], cells, NONE, NONE, NONE, NONE)
        while (why := add_rows(self.state, feed, kept.key[mine])) != DONE:
            self.state = growth.for_another(self.state, why)

    def wake(self) -> Instant | None:
        """Return the next expiry or boundary."""
        first = min((int(b.next.min(initial=NEVER)) for b in self.boards), default=NEVER)
        if self._timed:
            head = self.state.keys.head
            first = min(first, int(self.state.rows.expiry[head[head >= 0]].min(initial=NEVER)))
        if self.window.session is not None:
            first = min(first, int(next_ends(self.state.sessions).min(initial=NEVER)))
        return None if first == NEVER else first

    def retained(self) -> tuple[I64, I64]:
        """Return no rows: none outside the window is needed."""
        return NONE, NONE

    def snapshot(self, key: int, k: int, window: Window, query: int = 0) -> Items:
        """Return the first ``k`` groups of the query's result. Raise ValueError for another window, or beyond the query's k."""
        asked, board = self.configuration.queries[query], self.boards[query]
        if window != self.configuration.window:
            raise ValueError(f"groups are kept for {self.configuration.window} alone, not for {window}")
        if k < 1 or (asked.k is not None and k > asked.k):
            raise ValueError(f"k = {k}: between 1 and {asked.k}")
        groups = board.groups[: self.n]
        place, value = groups["place"], groups["value"]
        mine = np.flatnonzero((self.key[: self.n] == key) & (place != NOWHERE) & (place & 1 == MEMBERS))
        best = mine[np.lexsort((groups["name"][mine], -value[mine]))]
        best = best[(np.arange(len(best)) < k) | (asked.ties & (value[best] == value[best[:k][-1:]]))]
        score = self.expressions.shown(value[best])
        return Items(np.full(len(best), key), self.number[best].reshape(-1, 1), score, {})

    def skyband(self) -> Items:
        """Return nothing: any group may come into a result."""
        return Items(NONE, np.empty((0, 1), np.int64), np.empty(0))

    def counters(self) -> dict[str, int]:
        """Return the rows and unusable rows since the last call, the groups, and the rows in the window that belong to one."""
        rows = self.state.rows
        found = {"rows": self.rows, "groups": self.n, "window_rows": len(rows.expiry) - int(rows.spare[0])}
        for i in range(len(self.boards)):
            found |= {f"unusable:{i}": self.unusable, f"asked:{i}": self.eligible}
        self.rows = self.unusable = self.eligible = 0
        return found
