"""The state of ``Loyalty``: objects, switches to come back and reports that become stale, for all queries."""

from __future__ import annotations

from itertools import groupby
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np

from skyband.operators.base import (
    CHARACTERS,
    DELETION_TARGET,
    I64,
    NEVER,
    NULL,
    AnyArray,
    Arrivals,
    Changes,
    Instant,
    Items,
    State,
    Traces,
    Window,
)
from skyband.operators.loyalty.configuration import LoyaltyConfiguration
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
from skyband.operators.single_rows.arrays import widened

NONE: I64 = np.empty(0, np.int64)

# Keep events that come back after a fixed time: switches as echoes, reports as stale.


class Pending:
    """A queue ordered by time: int64 ``time`` and ``object``, the live entries from ``head`` up to ``tail``."""

    def __init__(self, time: I64 = NONE, place: I64 = NONE) -> None:
        self.time, self.object = time, place
        self.head, self.tail = 0, len(time)

    def live(self) -> Past:
        """Return all entries still to come, in order of time."""
        return Past(self.time[self.head : self.tail], self.object[self.head : self.tail])

    def first(self) -> int:
        """Return the time of the first entry, or ``FAR``."""
        return int(self.time[self.head]) if self.head < self.tail else FAR

    def due(self, until: int, key_of: I64) -> tuple[Past, I64]:
        """Take the entries before ``until``, by key and then by time, with their keys. ``key_of``: keys of the objects."""
        end = self.head + int(np.searchsorted(self.time[self.head : self.tail], until))
        time, place = self.time[self.head : end], self.object[self.head : end]
        self.head = end
        key = key_of[place]
        if len(key) and (key != key[0]).any():
            order = np.argsort(key, kind="stable")
            time, place, key = time[order], place[order], key[order]
        return Past(time, place), key

    def add(self, time: I64, place: I64, since: int, keys: int) -> None:
        """Append the entries of ``since`` or later; ``time`` ascends within each of the ``keys``, and none precedes a stored entry."""
        if keys > 1:
            order = np.argsort(time, kind="stable")
            time, place = time[order], place[order]
        first = np.searchsorted(time, since)
        time, place = time[first:], place[first:]
        if self.tail + len(time) > len(self.time):
            live = self.live()
            room = 2 * (len(live.time) + len(time)) + 64
            self.time, self.object = (np.concatenate([array, np.empty(room - len(array), np.int64)]) for array in live)
            self.head, self.tail = 0, len(live.time)
        self.time[self.tail : self.tail + len(time)], self.object[self.tail : self.tail + len(time)] = time, place
        self.tail += len(time)

    def insert(self, time: I64, place: I64) -> None:
        """Add entries among those still to come, wherever they belong. O(entries)."""
        live = self.live()
        all_times, places = np.concatenate([live.time, time]), np.concatenate([live.object, place])
        order = np.argsort(all_times, kind="stable")
        self.time, self.object, self.head, self.tail = all_times[order], places[order], 0, len(order)

    def keep(self, new_place: I64) -> Pending:
        """Return the queue with its objects at ``new_place``, without those of negative places."""
        live = self.live()
        place = new_place[live.object]
        return Pending(live.time[place >= 0], place[place >= 0])


def span_of_keys(key: I64) -> I64:
    """Return the distinct keys of an ascending column."""
    if len(key) == 0 or key[0] == key[-1]:
        return key[:1]
    return key[np.flatnonzero(np.concatenate([[True], key[1:] != key[:-1]]))]


# Deletions of reports: which of them delete the report that is valid for its object, and so switch the object off (docs/semantics 12).

DELETION = 2
"""``Rows.on`` of a deletion: it switches its object off and is no report."""


class Deletions:
    """Per object the seq of its last report, ``last`` (room,), -1 before the first one. Without deletions every method does nothing."""

    def __init__(self, active: bool, last: I64 = NONE) -> None:
        self.active, self.last = active, last

    def objects(self, arrivals: Arrivals) -> AnyArray:
        """Return which rows are no deletions, (rows,) bool."""
        return arrivals.columns[DELETION_TARGET] == NULL if self.active and len(arrivals) else np.ones(len(arrivals), bool)

    def ensure_capacity(self, room: int) -> None:
        """Make room for ``room`` objects."""
        if self.active and room > len(self.last):
            self.last = widened(self.last, 2 * room, -1, 0)

    def keep(self, places: I64) -> None:
        """Keep only the objects at ``places``, in this order."""
        if self.active:
            self.last = self.last[places]

    def saved(self, count: int) -> dict[str, I64]:
        """Return the arrays of a checkpoint."""
        return {"last": self.last[:count].copy()} if self.active else {}

    def effective(self, arrivals: Arrivals, reports: I64, place: I64, key_of: I64) -> tuple[I64, I64]:
        """Return (row, place of the object) of every deletion of the report that is valid for its object, and note the new last reports.

        ``reports``: the rows that are usable reports, ascending; ``place`` (rows,): the places of their objects; ``key_of``: keys of the
        objects. A report that is not its object's last one had ended before. O(objects log deletions + rows log rows), without deletions
        O(reports).
        """
        if not self.active:
            return NONE, NONE
        seq = np.asarray(arrivals.seq, np.int64)
        gone = np.flatnonzero(arrivals.columns[DELETION_TARGET] != NULL)
        if len(gone) == 0 or len(key_of) == 0:
            self.last[place[reports]] = seq[reports]  # of several reports on an object the last one counts
            return NONE, NONE
        key, target = np.asarray(arrivals.key, np.int64), np.asarray(arrivals.columns[DELETION_TARGET], np.int64)[gone]
        of = self._earlier(key[gone], target, key_of)
        row = _row_of(key, seq, key[gone], target)
        usable = np.zeros(len(arrivals) + 1, bool)  # one more for deletions of rows of earlier calls, which are at -1
        usable[reports] = True
        now = usable[row] & (row < gone)
        of[now] = place[row[now]]
        # The last report on the same object before the deletion, in this call, or else in an earlier one.
        span = len(arrivals) + 1
        order = np.sort(np.append(place[reports] * span + reports, -span))
        before = np.searchsorted(order, of * span + gone) - 1
        latest, here = self.last[of], order[before] // span == of
        latest[here & (of >= 0)] = seq[order[before[here & (of >= 0)]] % span]
        hit = (of >= 0) & (latest == target)
        self.last[place[reports]] = seq[reports]
        return gone[hit], of[hit]

    def _earlier(self, key: I64, target: I64, key_of: I64) -> I64:
        """Return the place of the object whose last report was ``target`` of ``key`` when the call began, or -1."""
        order = np.lexsort((target, key))
        key, target = key[order], target[order]
        last = self.last[: len(key_of)]
        some = np.sort(target)
        candidates = np.flatnonzero(some[np.minimum(np.searchsorted(some, last), len(some) - 1)] == last)
        # Deletions first, then candidates: each candidate follows the deletion of its report, if there is one.
        both_key, both_seq = np.concatenate([key, key_of[candidates]]), np.concatenate([target, last[candidates]])
        merged = np.lexsort((np.arange(len(both_key)), both_seq, both_key))
        before, after = merged[:-1], merged[1:]
        same = (before < len(key)) & (after >= len(key)) & (both_key[before] == both_key[after]) & (both_seq[before] == both_seq[after])
        of = np.full(len(key), -1)
        of[order[before[same]]] = candidates[after[same] - len(key)]
        return of


def _row_of(key: I64, seq: I64, of_key: I64, target: I64) -> I64:
    """Return the row of the object ``target`` of ``of_key``, or -1 if it came in an earlier call. Rows are sorted by key and order."""
    objects = np.flatnonzero(seq >= 0)
    if len(objects) == 0:
        return np.full(len(target), -1)
    first = np.minimum(np.searchsorted(key[objects], of_key), len(objects) - 1)
    index = first + target - seq[objects[first]]
    inside = (target >= seq[objects[first]]) & (index < len(objects)) & (key[objects[first]] == of_key)
    index = np.where(inside, index, 0)
    row = objects[index]
    return np.where(inside & (key[row] == of_key) & (seq[row] == target), row, -1)


# Held switches: a report may carry earlier switches of its object, which an edge held back (docs/semantics 12).
#
# A report of the instant t with the switches h_1 < ... < h_n < t moves the line of its object, just before t, to what it would be if the
# object had been switched then. The result does not change in the past.

LARGEST = 2**62
"""Held instants lie within this distance of 1970."""
LONGEST = 20
"""The longest text of an instant that is read."""


class Held(NamedTuple):
    """The reports of one call that carry switches: (``time``, ``place`` of the object, its ``switches``), by time, then as they came."""

    time: int
    place: int
    switches: tuple[int, ...]


def instants_of(text: str, before: int) -> tuple[int, ...] | None:
    """Return the instants that ``text`` lists, separated by spaces; None unless they ascend and lie before the instant ``before``."""
    words = text.split()
    if any(len(word) > LONGEST or not word.removeprefix("-").isdecimal() or not word.isascii() for word in words):
        return None
    found = tuple(int(word) for word in words)
    ascending = all(a < b for a, b in zip(found, (*found[1:], before), strict=True)) if found else True
    return found if ascending and all(h > -LARGEST for h in found) else None


def held_switches(arrivals: Arrivals, column: str) -> tuple[dict[int, tuple[int, ...]], AnyArray]:
    """Return the switches by row, of rows that carry any, and which rows (rows,) bool have a text that lists none.

    O(rows + characters).
    """
    text = arrivals.ragged[CHARACTERS + column]
    length = np.diff(text.start)
    malformed = np.zeros(len(arrivals), bool)
    found: dict[int, tuple[int, ...]] = {}
    first = text.values[np.minimum(text.start[:-1], max(len(text.values) - 1, 0))] if len(text.values) else length
    for row in np.flatnonzero((length > 1) | ((length == 1) & (first != NULL))).tolist():
        letters = "".join(map(chr, text.values[text.start[row] : text.start[row + 1]].tolist()))
        switches = instants_of(letters, int(arrivals.time[row]))
        if switches is None:
            malformed[row] = True
        elif switches:
            found[row] = switches
    return found, malformed


def move_line(objects: Objects, progress: Progress, window: int, held: Held) -> I64:
    """Move the line of one object by its held switches; return those that come back as echoes.

    A switch at or before the object's last report does not count, nor how long ago one before the window was.
    """
    time, place = held.time, held.place
    word, report, key = int(objects.word[place]), int(objects.report[place]), int(objects.key[place])
    on, old, gained = word & 1, (word >> 1) & 1, 0
    begin = time - window
    echoes = []
    for switch in held.switches:
        if begin < report and switch <= report:
            continue
        if switch > begin:
            echoes.append(switch)
        else:
            old = 1 - old
        gained += (1 - 2 * on) * (time - max(switch, begin))
        on = 1 - on
    slope = (word & 1) - ((word >> 1) & 1)  # not by the kernels' functions, which Python must not call
    now = (word >> 2) + slope * time + gained
    progress.keys[key, MOVING] += abs(on - old) - abs(slope)
    objects.word[place] = ((now - (on - old) * time) << 2) | (old << 1) | on
    progress.queries[:, key, HORIZON] = np.minimum(progress.queries[:, key, HORIZON], time)  # lists of watched objects do not hold any more
    return np.array(echoes, np.int64)


def move_lines(objects: Objects, progress: Progress, window: int, echoes: Pending, held: list[Held]) -> None:
    """Move the lines of all objects of ``held``, which are of one instant, and add their switches to ``echoes``."""
    times = [move_line(objects, progress, window, one) for one in held]
    places = np.repeat(np.array([one.place for one in held], np.int64), [len(t) for t in times])
    echoes.insert(np.concatenate(times), places)


FEW = 64
"""Keys with so many objects at most watch all of them."""

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
        """Process every event < ``until``. O(rows + echoes + objects near a border), now and then O(objects) of a key."""
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
        logged = feed.cursors[LOG_END]
        time, place = feed.log.time[:logged], feed.log.object[:logged]
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
