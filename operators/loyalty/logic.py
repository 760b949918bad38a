"""The moving part of ``Loyalty``: one state of objects, switches to come back and reports to go stale, for all queries."""

from __future__ import annotations

from typing import Any

import numpy as np

from skyband.operators.base import I64, NEVER, NULL, AnyArray, Arrivals, Changes, Instant, Items, State, Traces, Window
from skyband.operators.loyalty.configuration import LoyaltyConfiguration
from skyband.operators.loyalty.kernels.driver import drive, enlist
from skyband.operators.loyalty.kernels.heaps import watch_room
from skyband.operators.loyalty.kernels.tables import (
    FAR,
    HEAD,
    HORIZON,
    IN,
    KEY_COLUMNS,
    LOG_END,
    LOW,
    MEMBERS,
    MOVING,
    NEXT,
    OBJECTS,
    PLACES,
    PROGRESS,
    STEP,
    TOLD,
    WATCHED,
    Bends,
    Clock,
    Feed,
    Instants,
    Job,
    Marks,
    Objects,
    Past,
    Progress,
    Queries,
    Rows,
)
from skyband.operators.loyalty.kernels.tell import CHANGE_COLUMNS, POINT_COLUMNS, Told
from skyband.operators.loyalty.names import NOBODY, Names, Numbers
from skyband.operators.loyalty.pending import Pending, span_of_keys

FEW = 64
"""Keys with so many objects at most watch all of them."""

NONE: I64 = np.empty(0, np.int64)
SAVED = {"step": STEP, "next": NEXT, "members": MEMBERS}


def _nothing(room: int) -> Told:
    """Nothing told yet."""
    return Told(np.empty((room, CHANGE_COLUMNS), np.int64), np.empty((room, POINT_COLUMNS), np.int64), np.zeros(2, np.int64))


class LoyaltyLogic:
    """State of one bucket. ``table`` and ``marks`` have room for more than the ``n`` objects there are."""

    def __init__(self, configuration: LoyaltyConfiguration, state: State | None) -> None:
        self.configuration = c = configuration
        qs = c.queries
        self.window, self.stale_after = int(c.window.micros or 0), c.stale_after or 0
        self.queries = Queries(*(np.array(a, np.int64) for a in (
            [q.k or 0 for q in qs], [q.at_least or 0 for q in qs], [q.every or 0 for q in qs], [int(q.trace_all) for q in qs],
        )))  # fmt: skip
        self.few = FEW
        self.rows = self.unusable = self.asked = 0
        self.until = NULL
        self.n = 0
        self.table = Objects(*(NONE for _ in Objects._fields))
        self.marks = Marks(np.zeros((len(qs), 0), np.int32), np.zeros((len(qs), 0), np.int32))
        self.progress = Progress(np.zeros((0, KEY_COLUMNS), np.int64), np.zeros((len(qs), 0, PROGRESS), np.int64))
        self.echoes, self.stale = Pending(), Pending()
        self.names, self.numbers = Names(NONE, np.empty((0, 0), np.int64)), Numbers(NONE)
        self.watch = watch_room(64)
        if state is not None:
            self._restore(state.arrays)

    # ---------------------------------------------------------------- rows in

    def advance(self, arrivals: Arrivals, until: Instant) -> Changes:
        """See ``Logic.advance``. O(rows + echoes + objects that may meet a border), now and then O(objects) of a key."""
        if self.until == NULL and len(arrivals):
            self.until = int(arrivals.time.min())
        since = self.until
        if since == NULL:
            return self._changes(_nothing(0))
        self.until = max(since, until)
        key, rows = self._reports(arrivals, self._meet(arrivals))
        clock = Clock(self.window, self.stale_after, since, self.until, self.few, self.n if len(self.progress.keys) == 1 else 0)
        echoes, echo_key = self.echoes.due(self.until - self.window, self.table.key)
        stale, stale_key = self.stale.due(self.until - self.stale_after, self.table.key) if self.stale_after else (Past(NONE, NONE), NONE)
        job = self._job(key, echo_key, stale_key)
        feed = self._feed(rows, echoes, stale)
        if len(job.key):
            self._room(int(self.progress.keys[job.key, OBJECTS].max()))
        told = drive(self.queries, self.table, self.marks, self.progress, job, feed, clock, self.watch, _nothing(64))
        self._keep(feed, rows)
        return self._changes(told)

    def _meet(self, arrivals: Arrivals) -> I64:
        """The place of every row's object, or ``NOBODY``; new objects and keys get theirs."""
        self._grow(int(arrivals.key.max(initial=-1)) + 1)
        column = self.configuration.object_column.name
        if len(arrivals) == 0:
            return NONE
        held = np.ascontiguousarray(arrivals.columns[column])
        named = arrivals.named.get(column)
        which = np.flatnonzero(self.numbers.places(named.number) == NOBODY) if named is not None and len(named.number) else NONE
        if named is None or len(which) == 0:
            return self.numbers.places(held)
        first, number = self.n, named.number[which]
        self._make_room(number)
        place = self.numbers.places(held)
        rows = np.flatnonzero(place >= first)
        self.table.key[place[rows]] = arrivals.key[rows]
        all_ranks = self.names.add(named, which)
        changed = slice(0 if all_ranks else first, self.n)
        self.table.rank[changed] = self.names.rank[changed]
        enlist(self.table, self.marks, self.progress, first, self.n)
        return place

    def _grow(self, keys: int) -> None:
        """Room for so many keys."""
        have = len(self.progress.keys)
        if keys <= have:
            return
        more = np.zeros((keys - have, KEY_COLUMNS), np.int64)
        more[:, HEAD] = -1
        fresh = np.zeros((len(self.queries.k), keys - have, PROGRESS), np.int64)
        fresh[:, :, NEXT], fresh[:, :, HORIZON], fresh[:, :, WATCHED] = NEVER, -FAR, -1
        self.progress = Progress(np.concatenate([self.progress.keys, more]), np.concatenate([self.progress.queries, fresh], axis=1))

    def _make_room(self, number: I64) -> None:
        """Append objects that are off."""
        first, end = self.n, self.n + len(number)
        if end > len(self.table.word):
            room = 2 * end
            self.table = Objects(*(np.concatenate([a[:first], np.zeros(room - first, np.int64)]) for a in self.table))
            self.marks = Marks(*(
                np.concatenate([a[:, :first], np.zeros((len(a), room - first), np.int32)], axis=1) for a in self.marks
            ))  # fmt: skip
        o = self.table
        o.word[first:end], o.report[first:end], o.bend[first:end], o.number[first:end] = 0, -FAR, -1, number
        self.marks.where[:, first:end] = 0
        self.n = end
        self.numbers = self.numbers.with_(o.number[:end])

    def _reports(self, arrivals: Arrivals, place: I64) -> tuple[I64, Rows]:
        """Keys and rows of the usable reports; the others are counted."""
        c, rows = self.configuration, len(arrivals)
        self.rows += rows
        if rows == 0:
            return NONE, Rows(NONE, NONE, NONE)
        columns: dict[str, Any] = dict(arrivals.columns)
        asked = c.kernels[0].passes(columns, rows) if c.where is not None else np.ones(rows, bool)
        if c.updates is not None:
            said = np.asarray(columns[c.updates.name], np.int64)
            on, off = said == 1, said == 0
        else:
            on, off = (kernel.passes(columns, rows) for kernel in c.kernels[-2:])
        number = columns[c.object_column.name]
        usable = asked & (on | off) & (number != NULL)
        self.asked += int(np.count_nonzero(asked))
        self.unusable += int(np.count_nonzero(asked)) - int(np.count_nonzero(usable))
        if usable.all():
            which: Any = slice(None)
        else:
            which = np.flatnonzero(usable)
        place = place[which]
        if len(place) and int(place.min()) == NOBODY:
            raise ValueError("a row reports on an object without a name")
        return arrivals.key[which], Rows(np.ascontiguousarray(arrivals.time[which]), place, on[which].astype(np.int64))

    def _job(self, key: I64, echo_key: I64, stale_key: I64) -> Job:
        """The keys with events or crossings before ``until``, and where their events are."""
        due = np.flatnonzero(self.progress.queries[:, :, NEXT].min(axis=0) < self.until)
        keys = np.unique(np.concatenate([span_of_keys(k) for k in (key, echo_key, stale_key)] + [due]))
        ends = [(np.searchsorted(k, keys), np.searchsorted(k, keys, "right")) for k in (key, echo_key, stale_key)]
        return Job(keys, *(e for pair in ends for e in pair))

    def _feed(self, rows: Rows, echoes: Past, stale: Past) -> Feed:
        """Room for all events of a call."""
        switches = 2 * len(rows.time) + len(stale.time)
        room = 2 * switches + len(echoes.time) + 1
        return Feed(
            rows, echoes, stale, Past(np.empty(switches, np.int64), np.empty(switches, np.int64)),
            Bends(*(np.empty(room, np.int64) for _ in range(4))), Instants(np.empty(room, np.int64)), np.zeros(PLACES, np.int64),
        )  # fmt: skip

    def _room(self, objects: int) -> None:
        if objects > len(self.watch.cells):
            self.watch = watch_room(2 * objects)

    def _keep(self, feed: Feed, rows: Rows) -> None:
        """Switches of this call that come back later, and reports that may become stale later."""
        made = feed.at[LOG_END]
        time, place = feed.log.time[:made], feed.log.object[:made]
        self.echoes.add(time, place, self.until - self.window, len(self.progress.keys))
        if self.stale_after:
            o = self.table
            last = (rows.on != 0) & (o.report[rows.object] == rows.time) & (o.word[rows.object] & 1 != 0)
            self.stale.add(rows.time[last], rows.object[last], self.until - self.stale_after, len(self.progress.keys))

    # ---------------------------------------------------------------- changes out

    def _changes(self, told: Told) -> Changes:
        """What was told, as columns."""
        c, p = told.changes[: told.counts[0]], told.points[: told.counts[1]]
        if len(self.progress.keys) > 1 or len(self.queries.k) > 1:
            c, p = (rows[np.lexsort((rows[:, 1], rows[:, 0]))] for rows in (c, p))
        traces = Traces(
            p[:, 0].astype(np.int16), p[:, 1].copy(), p[:, 2].copy(), p[:, 3:4].copy(),
            {"loyalty_seconds": p[:, 4] / 1e6, "slope": p[:, 5].copy()},
        )  # fmt: skip
        return Changes(
            query=c[:, 0].astype(np.int16), key=c[:, 1].copy(), at=c[:, 2].copy(), step=c[:, 3].copy(), pos=c[:, 4].astype(np.int32),
            sign=c[:, 5].astype(np.int8), cause=c[:, 6].astype(np.int8), score=np.zeros(len(c)), items=c[:, 7:8].copy(),
            values={"loyalty_seconds": c[:, 8] / 1e6, "slope": c[:, 9].copy()}, traces=traces,
        )  # fmt: skip

    def wake(self) -> Instant | None:
        """The next echo, stale report, crossing or boundary; or when it has to be looked for crossings again."""
        first = int(self.progress.queries[:, :, NEXT].min(initial=NEVER))
        first = min(first, self.echoes.first() + self.window, self.stale.first() + self.stale_after)
        return None if first >= FAR else first

    # ---------------------------------------------------------------- what is kept

    def _needed(self) -> AnyArray:
        """Which objects (n,) are on, have loyalty, or are in a told result."""
        needed: AnyArray = (self.table.word[: self.n] != 0) | ((self.marks.where[:, : self.n] & TOLD) != 0).any(axis=0)
        return needed

    def objects(self) -> I64:
        """See ``ObjectLogic.objects``. The others are dropped when they are many. O(objects)."""
        needed = self._needed()
        places = np.flatnonzero(needed)
        number = self.table.number[places].copy()
        if self.n - len(places) > len(places) // 4 + 64:
            self._compact(places)
        return number

    def _compact(self, places: I64) -> None:
        """Keep only those objects."""
        new_place = np.full(self.n, NOBODY)
        new_place[places] = np.arange(len(places))
        self.echoes, self.stale = self.echoes.keep(new_place), self.stale.keep(new_place)
        self.names = self.names.keep(places)
        told = self.marks.where[:, places] & (IN | TOLD)
        word, report = self.table.word[places], self.table.report[places]
        self._take(self.table.number[places], self.table.key[places], word, report, told)

    def _take(self, number: I64, key: I64, word: I64, report: I64, told: AnyArray) -> None:
        """Start the tables of objects anew with these, whose names are there; nobody is watched yet."""
        self.n = 0
        self.table = Objects(*(NONE for _ in Objects._fields))
        self.marks = Marks(*(np.zeros((len(told), 0), np.int32) for _ in Marks._fields))
        keys, queries = self.progress
        keys[:, HEAD], keys[:, OBJECTS] = -1, 0
        queries[:, :, HORIZON], queries[:, :, LOW], queries[:, :, WATCHED] = -FAR, FAR, -1
        self.numbers = Numbers(NONE)
        self._make_room(number)
        n, o = self.n, self.table
        o.key[:n], o.word[:n], o.report[:n], o.rank[:n], self.marks.where[:, :n] = key, word, report, self.names.rank[:n], told
        enlist(o, self.marks, self.progress, 0, n)

    def checkpoint(self) -> dict[str, AnyArray]:
        """The objects with their names, what is still to come back, and steps and clocks. O(objects + switches in T)."""
        o, n, p = self.table, self.n, self.progress.queries
        saved: dict[str, AnyArray] = {
            "until": np.array([self.until]), "number": o.number[:n].copy(), "key": o.key[:n].copy(), "word": o.word[:n].copy(),
            "report": o.report[:n].copy(), "told": (self.marks.where[:, :n] & (IN | TOLD)).astype(np.uint8),
            "name_length": self.names.length[:n].copy(), "name_words": self.names.words[:n].copy(),
            "moving": self.progress.keys[:, MOVING].copy(),
        }  # fmt: skip
        saved.update({name: p[:, :, column].copy() for name, column in SAVED.items()})
        for name, pending in (("echo", self.echoes), ("stale", self.stale)):
            live = pending.live()
            saved |= {f"{name}_time": live.time.copy(), f"{name}_object": live.object.copy()}
        return saved

    def _restore(self, a: Any) -> None:
        self.until = int(a["until"][0])
        moving = np.array(a["moving"], np.int64)
        self._grow(len(moving))
        self.progress.keys[:, MOVING] = moving
        for name, column in SAVED.items():
            self.progress.queries[:, :, column] = a[name]
        self.names = Names(np.array(a["name_length"], np.int64), np.array(a["name_words"], np.int64))
        number, key, word, report = (np.array(a[name], np.int64) for name in ("number", "key", "word", "report"))
        self._take(number, key, word, report, np.array(a["told"], np.int32))
        self.echoes, self.stale = (
            Pending(np.array(a[f"{name}_time"], np.int64), np.array(a[f"{name}_object"], np.int64)) for name in ("echo", "stale")
        )

    def retained(self) -> tuple[I64, I64]:
        """No rows."""
        return NONE, NONE

    def snapshot(self, key: int, k: int, window: Window, query: int = 0) -> Items:
        """The first k of the query's result at the last instant before ``until``, in rank order. Raises ValueError for another window."""
        if k < 1:
            raise ValueError(f"k = {k}: at least 1")
        if window != self.configuration.window:
            raise ValueError(f"loyalty is kept for {self.configuration.window} alone, not for {window}")
        o, n, at = self.table, self.n, self.until - 1
        mine = np.flatnonzero(o.key[:n] == key)
        slope = (o.word[mine] & 1) - ((o.word[mine] >> 1) & 1)
        now = (o.word[mine] >> 2) + slope * at
        theta = int(self.queries.at_least[query])
        good = (now > theta) | ((now == theta) & (slope >= 0)) if theta else (now > 0) | (slope > 0)
        order = np.lexsort((o.rank[mine], -slope, -now))
        best = order[good[order]][: k if theta else min(k, int(self.queries.k[query]))]
        extra = {"loyalty_seconds": now[best] / 1e6, "slope": slope[best]}
        return Items(np.full(len(best), key), o.number[mine[best]].reshape(-1, 1), np.zeros(len(best)), extra)

    def skyband(self) -> Items:
        """Nothing: any object may come into a result."""
        return Items(NONE, np.empty((0, 1), np.int64), np.empty(0))

    def counters(self) -> dict[str, int]:
        """Rows and unusable reports since the last call, objects and switches held."""
        live = self.echoes.live()
        found = {"rows": self.rows, "objects": self.n, "switches": len(live.time)}
        for i in range(len(self.queries.k)):
            found |= {f"unusable:{i}": self.unusable, f"asked:{i}": self.asked}
        self.rows = self.unusable = self.asked = 0
        return found
