"""The state of ``Loyalty``: objects, switches to come back and reports that become stale, for all queries."""

from __future__ import annotations

from itertools import groupby
from operator import attrgetter
from typing import Any

import numpy as np

from skyband.operators.base import I64, NEVER, NULL, AnyArray, Arrivals, Changes, Instant, Items, State, Traces, Window
from skyband.operators.loyalty.configuration import LoyaltyConfiguration
from skyband.operators.loyalty.deletions import DELETION, Deletions
from skyband.operators.loyalty.held import Held, held_switches, move_lines
from skyband.operators.loyalty.kernels.driver import add_objects, drive
from skyband.operators.loyalty.kernels.emit import CHANGE_COLUMNS, POINT_COLUMNS, Output
from skyband.operators.loyalty.kernels.heaps import new_watch
from skyband.operators.loyalty.kernels.tables import (
    CURSORS,
    EMITTED,
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
    PROGRESS,
    STEP,
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
    Tables,
)
from skyband.operators.loyalty.names import NOBODY, Names, Numbers
from skyband.operators.loyalty.pending import Pending, span_of_keys

FEW = 64
"""Keys with so many objects at most watch all of them."""

NONE: I64 = np.empty(0, np.int64)
SAVED = {"step": STEP, "next": NEXT, "members": MEMBERS}


def joined(outputs: list[Output]) -> Output:
    """Return the outputs of consecutive stretches of time as one."""
    changes = np.concatenate([o.changes[: o.counts[0]] for o in outputs])
    points = np.concatenate([o.points[: o.counts[1]] for o in outputs])
    return Output(changes, points, np.array([len(changes), len(points)], np.int64))


def _nothing(room: int) -> Output:
    """Return an output with room for ``room`` rows."""
    return Output(np.empty((room, CHANGE_COLUMNS), np.int64), np.empty((room, POINT_COLUMNS), np.int64), np.zeros(2, np.int64))


class LoyaltyLogic:
    """The state of one bucket. ``table`` and ``marks`` have room for more than its ``n`` objects."""

    def __init__(self, configuration: LoyaltyConfiguration, state: State | None) -> None:
        self.configuration, queries = configuration, configuration.queries
        self.window, self.stale_after = int(configuration.window.micros or 0), configuration.stale_after or 0
        self.queries = Queries(*(np.array(a, np.int64) for a in (
            [q.k or 0 for q in queries], [q.at_least or 0 for q in queries], [q.every or 0 for q in queries],
            [int(q.trace_all) for q in queries],
        )))  # fmt: skip
        self.few = FEW
        self.rows = self.unusable = self.matching = 0
        self.until = NULL
        self.n = 0
        self.table = Objects(*(NONE for _ in Objects._fields))
        self.marks = Marks(*(np.zeros((len(queries), 0), np.int32) for _ in Marks._fields))
        self.progress = Progress(np.zeros((0, KEY_COLUMNS), np.int64), np.zeros((len(queries), 0, PROGRESS), np.int64))
        self.echoes, self.stale = Pending(), Pending()
        self.names, self.numbers = Names(NONE, np.empty((0, 0), np.int64)), Numbers(NONE)
        self.deletions = Deletions(configuration.deletes)
        self.watch = new_watch(64)
        if state is not None:
            self._restore(state.arrays)

    # ---------------------------------------------------------------- rows in

    def advance(self, arrivals: Arrivals, until: Instant) -> Changes:
        """See ``Logic.advance``. O(rows + echoes + objects near a border), now and then O(objects) of a key."""
        if self.until == NULL and len(arrivals):
            self.until = int(arrivals.time.min())
        since = self.until
        if since == NULL:
            return self._changes(_nothing(0))
        key, rows, held = self._reports(arrivals, self._meet(arrivals))
        if not held:
            return self._changes(self._step(key, rows, max(since, until), False))
        outputs, moved = [], False
        for time, together in groupby(held, key=attrgetter("time")):
            # Up to the instant of the switches, their object is where it was; then its line moves.
            before = rows.time < time
            outputs.append(self._step(key[before], Rows(*(column[before] for column in rows)), time, moved))
            key, rows = key[~before], Rows(*(column[~before] for column in rows))
            move_lines(self.table, self.progress, self.window, self.echoes, list(together))
            moved = True
        outputs.append(self._step(key, rows, max(since, until), moved))
        return self._changes(joined(outputs))

    def _step(self, key: I64, rows: Rows, until: Instant, moved: bool) -> Output:
        """Process all events before ``until``; ``rows`` are the reports among them, with their keys. ``moved``: see ``Clock``."""
        since, self.until = self.until, until
        alone = self.n if len(self.progress.keys) == 1 else 0
        holds = int(self.configuration.held is not None)
        clock = Clock(self.window, self.stale_after, since, until, self.few, alone, holds, int(moved))
        echoes, echo_key = self.echoes.due(self.until - self.window, self.table.key)
        stale, stale_key = self.stale.due(self.until - self.stale_after, self.table.key) if self.stale_after else (Past(NONE, NONE), NONE)
        job = self._job(key, echo_key, stale_key)
        feed = self._feed(rows, echoes, stale)
        most = int(self.progress.keys[job.key, OBJECTS].max(initial=0))
        if most > len(self.watch.cells):
            self.watch = new_watch(2 * most)
        output = drive(Tables(self.queries, self.table, self.marks, self.progress), job, feed, clock, self.watch, _nothing(64))
        self._keep(feed, rows)
        return output

    def _meet(self, arrivals: Arrivals) -> I64:
        """Return the place of every row's object, or ``NOBODY``; add new objects and keys."""
        self._grow(int(arrivals.key.max(initial=-1)) + 1)
        column = self.configuration.object_column.name
        if len(arrivals) == 0:
            return NONE
        numbers = np.ascontiguousarray(arrivals.columns[column])
        named = arrivals.named.get(column)
        which = np.flatnonzero(self.numbers.places(named.number) == NOBODY) if named is not None and len(named.number) else NONE
        if named is None or len(which) == 0:
            return self.numbers.places(numbers)
        first, number = self.n, named.number[which]
        self._make_room(number)
        place = self.numbers.places(numbers)
        rows = np.flatnonzero(place >= first)
        self.table.key[place[rows]] = arrivals.key[rows]
        all_ranks = self.names.add(named, which)
        changed = slice(0 if all_ranks else first, self.n)
        self.table.rank[changed] = self.names.rank[changed]
        add_objects(self.table, self.marks, self.progress, first, self.n)
        return place

    def _grow(self, keys: int) -> None:
        """Make room for so many keys."""
        have = len(self.progress.keys)
        if keys <= have:
            return
        more = np.zeros((keys - have, KEY_COLUMNS), np.int64)
        more[:, HEAD] = -1
        fresh = np.zeros((len(self.queries.k), keys - have, PROGRESS), np.int64)
        fresh[:, :, NEXT], fresh[:, :, HORIZON] = NEVER, -FAR
        fresh[:, :, WATCHED] = -1
        self.progress = Progress(np.concatenate([self.progress.keys, more]), np.concatenate([self.progress.queries, fresh], axis=1))

    def _make_room(self, number: I64) -> None:
        """Append objects that are off."""
        first, end = self.n, self.n + len(number)
        if end > len(self.table.word):
            room = 2 * end
            self.table = Objects(*(np.concatenate([array[:first], np.zeros(room - first, np.int64)]) for array in self.table))
            self.marks = Marks(*(
                np.concatenate([array[:, :first], np.zeros((len(array), room - first), np.int32)], axis=1) for array in self.marks
            ))  # fmt: skip
        self.deletions.ensure_capacity(end)
        objects = self.table
        objects.word[first:end], objects.report[first:end] = 0, -FAR
        objects.bend[first:end], objects.number[first:end] = -1, number
        self.marks.where[:, first:end] = 0
        self.n = end
        self.numbers = self.numbers.extended(objects.number[:end])

    def _reports(self, arrivals: Arrivals, place: I64) -> tuple[I64, Rows, list[Held]]:
        """Return keys and rows of the usable reports and of the deletions that switch an object off, and count the other reports.

        Also return the switches that usable reports carry, by time.
        """
        configuration, rows = self.configuration, len(arrivals)
        self.rows += rows
        if rows == 0:
            return NONE, Rows(NONE, NONE, NONE), []
        columns: dict[str, Any] = dict(arrivals.columns)
        matching = self.deletions.objects(arrivals)
        if configuration.where is not None:
            matching &= configuration.kernels[0].passes(columns, rows)
        if configuration.updates is not None:
            update = np.asarray(columns[configuration.updates.name], np.int64)
            on, off = update == 1, update == 0
        else:
            on, off = (kernel.passes(columns, rows) for kernel in configuration.kernels[-2:])
        number = columns[configuration.object_column.name]
        usable = matching & (on | off) & (number != NULL)
        switches: dict[int, tuple[int, ...]] = {}
        if configuration.held is not None:
            switches, malformed = held_switches(arrivals, configuration.held)
            usable &= ~malformed
        self.matching += int(np.count_nonzero(matching))
        self.unusable += int(np.count_nonzero(matching)) - int(np.count_nonzero(usable))
        which: Any = slice(None) if usable.all() else np.flatnonzero(usable)
        mine = place[which]
        if len(mine) and int(mine.min()) == NOBODY:
            raise ValueError("a row reports on an object without a name")
        if configuration.deletes:
            gone, of = self.deletions.effective(arrivals, np.flatnonzero(usable), place, self.table.key[: self.n])
            place, on = place.copy(), on.astype(np.int64)
            place[gone], on[gone] = of, DELETION
            which = np.flatnonzero(usable | (on == DELETION))
        held = sorted((Held(int(arrivals.time[r]), int(place[r]), h) for r, h in switches.items() if usable[r]), key=attrgetter("time"))
        place = place[which]
        return arrivals.key[which], Rows(np.ascontiguousarray(arrivals.time[which]), place, on[which].astype(np.int64)), held

    def _job(self, key: I64, echo_key: I64, stale_key: I64) -> Job:
        """Return the keys with events or crossings before ``until``, and the bounds of their events."""
        due = np.flatnonzero(self.progress.queries[:, :, NEXT].min(axis=0) < self.until)
        keys = np.unique(np.concatenate([span_of_keys(column) for column in (key, echo_key, stale_key)] + [due]))
        ends = [(np.searchsorted(column, keys), np.searchsorted(column, keys, "right")) for column in (key, echo_key, stale_key)]
        return Job(keys, *(bound for pair in ends for bound in pair))

    def _feed(self, rows: Rows, echoes: Past, stale: Past) -> Feed:
        """Return arrays for all events of a call."""
        switches = 2 * len(rows.time) + len(stale.time)
        room = 2 * switches + len(echoes.time) + 1
        return Feed(
            rows, echoes, stale, Past(np.empty(switches, np.int64), np.empty(switches, np.int64)),
            Bends(*(np.empty(room, np.int64) for _ in range(4))), Instants(np.empty(room, np.int64)), np.zeros(CURSORS, np.int64),
        )  # fmt: skip

    def _keep(self, feed: Feed, rows: Rows) -> None:
        """Store the switches of this call that come back later, and the reports that may become stale later."""
        made = feed.cursors[LOG_END]
        time, place = feed.log.time[:made], feed.log.object[:made]
        self.echoes.add(time, place, self.until - self.window, len(self.progress.keys))
        if self.stale_after:
            report, word = self.table.report[rows.object], self.table.word[rows.object]
            last = (rows.on == 1) & (report == rows.time) & (word & 1 != 0)
            self.stale.add(rows.time[last], rows.object[last], self.until - self.stale_after, len(self.progress.keys))

    # ---------------------------------------------------------------- changes out

    def _changes(self, output: Output) -> Changes:
        """Return the output of the kernels as columns."""
        changes, points = output.changes[: output.counts[0]], output.points[: output.counts[1]]
        if len(self.progress.keys) > 1 or len(self.queries.k) > 1:
            changes, points = (rows[np.lexsort((rows[:, 1], rows[:, 0]))] for rows in (changes, points))
        traces = Traces(
            points[:, 0].astype(np.int16), points[:, 1].copy(), points[:, 2].copy(), points[:, 3:4].copy(),
            {"loyalty_seconds": points[:, 4] / 1e6, "slope": points[:, 5].copy()},
        )  # fmt: skip
        return Changes(
            query=changes[:, 0].astype(np.int16), key=changes[:, 1].copy(), at=changes[:, 2].copy(), step=changes[:, 3].copy(),
            pos=changes[:, 4].astype(np.int32), sign=changes[:, 5].astype(np.int8), cause=changes[:, 6].astype(np.int8),
            score=np.zeros(len(changes)), items=changes[:, 7:8].copy(),
            values={"loyalty_seconds": changes[:, 8] / 1e6, "slope": changes[:, 9].copy()}, traces=traces,
        )  # fmt: skip

    def wake(self) -> Instant | None:
        """Return the instant of the next echo, stale report, crossing, boundary, or search for crossings."""
        first = int(self.progress.queries[:, :, NEXT].min(initial=NEVER))
        first = min(first, self.echoes.first() + self.window, self.stale.first() + self.stale_after)
        return None if first >= FAR else first

    # ---------------------------------------------------------------- state

    def objects(self) -> I64:
        """Return the numbers of the objects in use, see ``ObjectLogic.objects``. Compact the tables if many are not. O(objects)."""
        # An object is in use while it is on, has loyalty, or is in an emitted result.
        emitted = ((self.marks.where[:, : self.n] & EMITTED) != 0).any(axis=0)
        needed = (self.table.word[: self.n] != 0) | emitted
        if self.configuration.held is not None:  # switches before the last report do not count, as long as these are in the window
            needed |= self.table.report[: self.n] > self.until - self.window
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
        self.deletions.keep(places)
        emitted = self.marks.where[:, places] & (IN | EMITTED)
        word, report = self.table.word[places], self.table.report[places]
        self._take(self.table.number[places], self.table.key[places], word, report, emitted)

    def _take(self, number: I64, key: I64, word: I64, report: I64, emitted: AnyArray) -> None:
        """Fill the tables of objects with these alone, whose names are known already; nobody is watched yet."""
        self.n = 0
        self.table = Objects(*(NONE for _ in Objects._fields))
        self.marks = Marks(*(np.zeros((len(emitted), 0), np.int32) for _ in Marks._fields))
        keys, queries = self.progress
        keys[:, HEAD], keys[:, OBJECTS] = -1, 0
        queries[:, :, HORIZON], queries[:, :, LOW] = -FAR, FAR
        queries[:, :, WATCHED] = -1
        self.numbers = Numbers(NONE)
        self._make_room(number)
        table, count = self.table, self.n
        table.key[:count], table.word[:count], table.report[:count] = key, word, report
        table.rank[:count], self.marks.where[:, :count] = self.names.rank[:count], emitted
        add_objects(table, self.marks, self.progress, 0, count)

    def checkpoint(self) -> dict[str, AnyArray]:
        """Return the objects with their names, the pending events, and steps and clocks. O(objects + switches in T)."""
        table, count, queries = self.table, self.n, self.progress.queries
        saved: dict[str, AnyArray] = {
            "until": np.array([self.until]), "number": table.number[:count].copy(), "key": table.key[:count].copy(),
            "word": table.word[:count].copy(), "report": table.report[:count].copy(),
            "told": (self.marks.where[:, :count] & (IN | EMITTED)).astype(np.uint8),
            "name_length": self.names.length[:count].copy(), "name_words": self.names.words[:count].copy(),
            "moving": self.progress.keys[:, MOVING].copy(),
        }  # fmt: skip
        saved.update({name: queries[:, :, column].copy() for name, column in SAVED.items()})
        saved |= self.deletions.saved(count)
        for name, pending in (("echo", self.echoes), ("stale", self.stale)):
            live = pending.live()
            saved |= {f"{name}_time": live.time.copy(), f"{name}_object": live.object.copy()}
        return saved

    def _restore(self, arrays: Any) -> None:
        self.until = int(arrays["until"][0])
        moving = np.array(arrays["moving"], np.int64)
        self._grow(len(moving))
        self.progress.keys[:, MOVING] = moving
        for name, column in SAVED.items():
            self.progress.queries[:, :, column] = arrays[name]
        self.names = Names(np.array(arrays["name_length"], np.int64), np.array(arrays["name_words"], np.int64))
        number, key, word, report = (np.array(arrays[name], np.int64) for name in ("number", "key", "word", "report"))
        self.deletions = Deletions(self.configuration.deletes, np.array(arrays.get("last", NONE), np.int64))
        self._take(number, key, word, report, np.array(arrays["told"], np.int32))
        self.echoes, self.stale = (
            Pending(np.array(arrays[f"{name}_time"], np.int64), np.array(arrays[f"{name}_object"], np.int64)) for name in ("echo", "stale")
        )

    def retained(self) -> tuple[I64, I64]:
        """Return no rows."""
        return NONE, NONE

    def snapshot(self, key: int, k: int, window: Window, query: int = 0) -> Items:
        """Return the first k of the query's result at the last instant before ``until``, in rank order.

        Raise ValueError for another window.
        """
        if k < 1:
            raise ValueError(f"k = {k}: at least 1")
        if window != self.configuration.window:
            raise ValueError(f"loyalty is kept for {self.configuration.window} alone, not for {window}")
        table, count, at = self.table, self.n, self.until - 1
        mine = np.flatnonzero(table.key[:count] == key)
        slope = (table.word[mine] & 1) - ((table.word[mine] >> 1) & 1)
        now = (table.word[mine] >> 2) + slope * at
        theta = int(self.queries.at_least[query])
        good = (now > theta) | ((now == theta) & (slope >= 0)) if theta else (now > 0) | (slope > 0)
        order = np.lexsort((table.rank[mine], -slope, -now))
        best = order[good[order]][: k if theta else min(k, int(self.queries.k[query]))]
        extra = {"loyalty_seconds": now[best] / 1e6, "slope": slope[best]}
        return Items(np.full(len(best), key), table.number[mine[best]].reshape(-1, 1), np.zeros(len(best)), extra)

    def skyband(self) -> Items:
        """Return nothing: any object may come into a result."""
        return Items(NONE, np.empty((0, 1), np.int64), np.empty(0))

    def counters(self) -> dict[str, int]:
        """Return rows and unusable reports since the last call, and the numbers of objects and switches."""
        live = self.echoes.live()
        found = {"rows": self.rows, "objects": self.n, "switches": len(live.time)}
        for i in range(len(self.queries.k)):
            found |= {f"unusable:{i}": self.unusable, f"asked:{i}": self.matching}
        self.rows = self.unusable = self.matching = 0
        return found
