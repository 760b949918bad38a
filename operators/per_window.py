"""Tumbling windows and sessions of rows: any operator over rows or pairs of them, restarted in each window.

Within one such window nothing leaves before its end, except by the bounds of count and time that the window inherits. So the operator
inside sees each window of each key as a key of its own, with rows numbered from 0, and this logic adds what happens at the end of a
window: all items of the result leave, as one step (docs/semantics 2: phase 0), and make up the final result. Windows that have closed
cost nothing: the logic inside that only knows closed windows is dropped (``_Generation``).

Per call O(rows log rows + changes log changes) besides the operator inside, and O(items in results) where windows close.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final, NamedTuple, cast

import numpy as np
import numpy.typing as npt

from skyband.operators.around import Around, chosen_rows
from skyband.operators.base import (
    CHANGE_COLUMNS,
    DELETION_TARGET,
    EXPIRY,
    F64,
    I64,
    NULL,
    AnyArray,
    Arrivals,
    Calendar,
    Changes,
    Finals,
    Instant,
    Items,
    Logic,
    Ragged,
    State,
    Window,
)
from skyband.operators.calendar import window_ends, window_starts
from skyband.operators.single_rows.blocks import last_key
from skyband.operators.state_keys import Divisible, HoldsCodes
from skyband.operators.windows import micros_of

_NONE: Final = np.empty(0, np.int64)

FORGET: Final = 1024
"""Closed windows that one logic inside knows before the next windows get a new one."""
GENERATIONS: Final = 8
"""The most logics inside; sessions that last keep theirs."""


@dataclass(frozen=True)
class PerWindow(Around):
    """``inner`` restarted in each window: in those of ``calendar``, or in each session of a key, which ends ``session`` microseconds after
    its last row. Exactly one of both is given.

    ``largest``: of each query, or of all, whether large scores rank first. ``lasting``: whether items stay in a result until they leave;
    else nothing leaves.

    Raises ValueError unless exactly one of ``calendar`` and ``session`` is given, for a part of an item that is no row, and for an operator
    whose state cannot be divided by keys.
    """

    calendar: Calendar | None
    session: int | None
    largest: tuple[bool, ...]
    lasting: bool = True

    state_format: ClassVar[str] = "PerWindow"

    def __post_init__(self) -> None:
        if (self.calendar is None) == (self.session is None):
            raise ValueError("a window per calendar or per session, not both or neither")
        if any(c.kind == "object" for c in self.inner.columns):
            raise ValueError("objects that rows report on are not restarted in each window")
        super().__post_init__()

    @property
    def state_keys(self) -> Divisible:
        """Return how the state is divided by keys."""
        return _Keys(self.divisible)

    def codes_in(self, arrays: Mapping[str, AnyArray]) -> I64:
        """Return the codes of texts in the arrays of a checkpoint, each once."""
        inner, parts = cast(HoldsCodes, self.inner), _inside(arrays)
        return np.unique(np.concatenate([_NONE, *(inner.codes_in(part) for part in parts)]))

    def build(self, state: State | None) -> PerWindowLogic:
        """Return a logic that continues ``state`` bit for bit, or an empty one."""
        return PerWindowLogic(self, state)


class _Open(NamedTuple):
    """The open window of every key; int64 (keys,). ``name`` is -1 where a key has none.

    ``base``: the seq of its first row. ``start``, ``end``: its instants. ``last``: the instant of its last row.
    """

    name: I64
    base: I64
    start: I64
    end: I64
    last: I64

    def widened(self, keys: int) -> _Open:
        """Return the open windows of at least ``keys`` keys."""
        more = max(0, keys - len(self.name))
        return _Open(*(np.concatenate([a, np.full(more, -1, np.int64)]) for a in self)) if more else self


class _Windows(NamedTuple):
    """The windows that a call concerns, by key and then by time; int64 (n,). ``was_open``: before the call."""

    key: I64
    name: I64
    base: I64
    start: I64
    end: I64
    was_open: npt.NDArray[np.bool_]

    def at(self, chosen: AnyArray) -> _Windows:
        """Return the chosen windows."""
        return _Windows._make(a[chosen] for a in self)

    def places(self, name: I64) -> I64:
        """Return the place of each window of ``name``, -1 for those that are not among these."""
        if not len(self.name):
            return np.full(len(name), -1)
        order = np.argsort(self.name)
        at = order[np.minimum(np.searchsorted(self.name, name, sorter=order), len(order) - 1)]
        return np.where(self.name[at] == name, at, -1)


class _Shown(NamedTuple):
    """Items that have entered (``sign`` 1) or left (-1) results of windows, in the order in which they did.

    ``query`` int16, ``window`` int64 (its name), ``sign`` int8, ``score`` float64 (n,); ``items`` int64 (n, roles), the key's seqs.
    """

    query: npt.NDArray[np.int16]
    window: I64
    sign: npt.NDArray[np.int8]
    score: F64
    items: I64

    def at(self, chosen: AnyArray) -> _Shown:
        """Return the chosen rows."""
        return _Shown._make(a[chosen] for a in self)

    def followed_by(self, other: _Shown) -> _Shown:
        """Return these rows and then ``other``."""
        return _Shown._make(np.concatenate([getattr(self, field), getattr(other, field)]) for field in self._fields)

    def standing(self) -> _Shown:
        """Return the items that have not left since they entered last. O(n log n)."""
        order = np.lexsort((np.arange(len(self.query)), *self.items.T[::-1], self.query, self.window))
        mine = self.at(order)
        same = (mine.query[1:] == mine.query[:-1]) & (mine.window[1:] == mine.window[:-1]) & (mine.items[1:] == mine.items[:-1]).all(axis=1)
        last = np.concatenate([~same, np.ones(min(1, len(order)), bool)])
        return mine.at(last & (mine.sign > 0))


@dataclass(slots=True)
class _Generation:
    """A logic inside. Its key i is the window with the name ``first`` + i; it knows ``count`` of them."""

    logic: Logic
    first: int
    count: int = 0


class PerWindowLogic:
    """The logics inside, the open windows, and what is in their results."""

    def __init__(self, op: PerWindow, state: State | None) -> None:
        self.op = op
        self._width = len(op.roles)
        self._open = _Open(*(_NONE for _ in _Open._fields))
        self._steps = np.zeros((0, 0), np.int64)
        """int64 (queries, keys): the last step."""
        self._before = np.zeros((0, 0), np.int64)
        """int64 (queries, keys): the last step before the open window."""
        none, width = np.empty(0, np.int64), self._width
        self._shown = _Shown(np.empty(0, np.int16), none, np.empty(0, np.int8), np.empty(0), np.empty((0, width), np.int64))
        self._standing = 0
        """Rows of ``_shown`` when it last held only what is in results."""
        self._generations = [_Generation(op.inner.build(None), 0)]
        self._counted: dict[str, int] = {}
        """Counters of logics that have been dropped."""
        self._until = NULL
        self._shortest = _shortest(op.inner)
        if state is not None:
            self._restore(state)

    # From rows to windows.

    def advance(self, arrivals: Arrivals, until: Instant) -> Changes:
        """Process every event < ``until``, as ``Logic.advance``."""
        self._open = self._open.widened(last_key(arrivals) + 1)
        windows, of = self._assigned(arrivals)
        found, name = self._advanced(arrivals, windows, of, until)
        windows = self._concerned(windows, name, until)
        place = windows.places(name)
        # What the logics inside still do in a window that has ended is not of this stream.
        kept = (place >= 0) & (found.at < windows.end[place]) if len(windows.key) else np.zeros(len(place), bool)
        place, name = place[kept], name[kept]
        found = Changes(*(getattr(found, column)[kept] for column in CHANGE_COLUMNS))
        items = found.items + windows.base[place][:, None]
        left = self._left(windows, until, _Shown(found.query, name, found.sign, found.score, items))
        changes = self._in_steps(windows, found, place, items, left)
        self._forget(windows, until)
        self._until = until
        return changes

    def _assigned(self, arrivals: Arrivals) -> tuple[_Windows, I64]:
        """Return the windows of the arrivals' keys, those that begin among them, and the window of each arrival; -1 for a deletion of an
        object that has left with its window."""
        key, seq = np.asarray(arrivals.key, np.int64), np.asarray(arrivals.seq, np.int64)
        time = np.asarray(arrivals.time, np.int64)
        objects = np.flatnonzero(seq >= 0)
        begins, start, end = self._beginnings(key[objects], time[objects])
        opened = objects[begins]
        keys = np.unique(key)
        known = keys[self._open.name[keys] >= 0]
        newest = self._newest(len(opened))
        names = np.arange(newest.first + newest.count, newest.first + newest.count + len(opened))
        newest.count += len(opened)
        o = self._open
        was_open = np.arange(len(known) + len(opened)) < len(known)
        both = (
            (known, key[opened]), (o.name[known], names), (o.base[known], seq[opened]), (o.start[known], start[begins]),
            (o.end[known], end[begins]),
        )  # fmt: skip
        # By key: first the window that is open, then those that begin, in the order of their rows.
        order = np.argsort(np.concatenate(both[0]), kind="stable")
        key_, name, base, begin, until = (np.concatenate(pair)[order] for pair in both)
        windows = _Windows(key_, name, base, begin, until, was_open[order])
        begun = np.zeros(len(key), np.int64)
        begun[opened] = 1
        begun = np.cumsum(begun)
        mine = np.searchsorted(key, key)
        # So many windows of its key are there up to each row.
        there = begun - np.where(mine > 0, begun[mine - 1], 0) + (self._open.name[key] >= 0)
        of = np.where(there > 0, np.searchsorted(windows.key, key) + there - 1, -1)
        if self.op.session is not None:
            np.maximum.at(windows.end, of[objects], time[objects] + self.op.session)
        if len(objects) < len(key):
            target = np.asarray(arrivals.columns[DELETION_TARGET], np.int64)
            gone = (of < 0) | (target < windows.base[of]) | (time >= windows.end[of]) if len(windows.key) else np.ones(len(key), bool)
            of = np.where((seq < 0) & gone, -1, of)
        self._take_over(windows, key[objects], time[objects], of[objects])
        return windows, of

    def _beginnings(self, key: I64, time: I64) -> tuple[npt.NDArray[np.bool_], I64, I64]:
        """Return which objects begin a window, and the start and the end of the window that each would begin."""
        first = np.concatenate([np.ones(min(1, len(key)), bool), key[1:] != key[:-1]])
        o, before = self._open, np.concatenate([time[:1], time[:-1]])
        before[first] = o.last[key[first]]
        none = first & (o.name[key] < 0)
        if self.op.session is not None:
            return none | (time - before >= self.op.session), time, time + self.op.session
        assert self.op.calendar is not None
        start, end = window_starts(self.op.calendar, time), window_ends(self.op.calendar, time)
        last = np.concatenate([start[:1], start[:-1]])
        last[first] = o.start[key[first]]
        return none | (start != last), start, end

    def _newest(self, windows: int) -> _Generation:
        """Return the generation that takes ``windows`` new ones: a new one where the last knows too many that have closed."""
        newest = self._generations[-1]
        still_open = int(np.count_nonzero(self._open.name >= newest.first))
        closed = newest.count - still_open
        if windows and closed > max(FORGET, still_open) and len(self._generations) < GENERATIONS:
            newest = _Generation(self.op.inner.build(None), newest.first + newest.count)
            self._generations.append(newest)
        return newest

    def _take_over(self, windows: _Windows, key: I64, time: I64, of: I64) -> None:
        """Make the windows of the last objects of keys the open ones. ``of``: the window of each object."""
        last = np.flatnonzero(np.concatenate([key[1:] != key[:-1], np.ones(min(1, len(key)), bool)]))
        mine = windows.at(of[last])
        for array, values in zip(self._open, (mine.name, mine.base, mine.start, mine.end, time[last]), strict=True):
            array[key[last]] = values

    # The logics inside.

    def _advanced(self, arrivals: Arrivals, windows: _Windows, of: I64, until: Instant) -> tuple[Changes, I64]:
        """Return the changes of all logics inside, and the name of the window of each."""
        rows = np.flatnonzero(of >= 0)
        name = windows.name[of[rows]]
        order = np.argsort(name, kind="stable")
        rows, name = rows[order], name[order]
        given = _chosen(arrivals, rows, windows.base[of[rows]])
        parts, names = [], []
        for g in self._generations:
            mine = slice(*np.searchsorted(name, [g.first, g.first + g.count]))
            found = g.logic.advance(_sliced(given, mine, name[mine] - g.first), until)
            if len(found):
                parts.append(found)
                names.append(found.key + g.first)
        if not parts:
            return Changes.empty(self._width), _NONE
        return Changes(*(np.concatenate([getattr(p, column) for p in parts]) for column in CHANGE_COLUMNS)), np.concatenate(names)

    def _concerned(self, windows: _Windows, name: I64, until: Instant) -> _Windows:
        """Return ``windows`` and the other open ones that end before ``until`` or whose ``name`` is given, by key and time."""
        o = self._open
        concerned = (o.name >= 0) & (o.end < until)
        if len(name):
            by_name = np.argsort(o.name)
            at = by_name[np.minimum(np.searchsorted(o.name, name, sorter=by_name), len(by_name) - 1)]
            concerned[at[o.name[at] == name]] = True
        concerned[windows.key] = False
        key = np.flatnonzero(concerned)
        if not len(key):
            return windows
        more = _Windows(key, o.name[key], o.base[key], o.start[key], o.end[key], np.ones(len(key), bool))
        both = _Windows._make(np.concatenate([getattr(windows, field), getattr(more, field)]) for field in windows._fields)
        return both.at(np.lexsort((both.base, both.key)))

    # The ends of windows.

    def _left(self, windows: _Windows, until: Instant, entered: _Shown) -> _Shown:
        """Take what has entered and left results. Return what is in the results of windows as they end before ``until``, by query and
        place of the window among ``windows`` (its ``window``), in rank order."""
        if not self.op.lasting:
            return self._shown
        shown = self._shown.followed_by(entered) if len(entered.query) else self._shown
        place = np.full(len(shown.query), -1)
        if len(windows.key) and (windows.end < until).any():
            place = windows.at(windows.end < until).places(shown.window)
        closing = shown.at(place >= 0).standing()
        shown = shown.at(place < 0) if len(closing.query) or (place >= 0).any() else shown
        if len(shown.query) > 2 * self._standing + FORGET:
            shown = shown.standing()
            self._standing = len(shown.query)
        self._shown = shown
        closing = closing._replace(window=windows.places(closing.window))
        largest = np.array(self.op.largest)[closing.query if len(self.op.largest) > 1 else np.zeros(len(closing.query), np.int64)]
        better = np.where(largest, -closing.score, closing.score)
        # Newer first: by the older row, then by the newer one (docs/semantics 6).
        return closing.at(np.lexsort((-closing.items.max(axis=1), -closing.items.min(axis=1), better, closing.window, closing.query)))

    def _in_steps(self, windows: _Windows, found: Changes, place: I64, items: I64, left: _Shown) -> Changes:
        """Return the changes in the steps of keys: those of the windows of a key follow each other, each with its end."""
        queries = int(max(found.query.max(initial=-1), left.query.max(initial=-1))) + 1
        shape = (max(queries, len(self._steps)), len(self._open.name))
        self._steps, self._before = _padded(self._steps, shape), _padded(self._before, shape)
        n, key = len(windows.key), windows.key
        if not n:
            return Changes.empty(self._width)
        used = np.zeros((shape[0], n), np.int64)
        used[:, windows.was_open] = (self._steps - self._before)[:, key[windows.was_open]]
        np.maximum.at(used, (found.query, place), found.step)
        ends = np.zeros(used.shape, bool)
        ends[left.query, left.window] = True
        total = used + ends
        first = np.searchsorted(key, key)
        so_far = np.cumsum(total, axis=1) - total
        begin = np.where(windows.was_open[first], self._before[:, key], self._steps[:, key])
        before = begin + so_far - so_far[:, first]
        last = np.flatnonzero(np.concatenate([key[1:] != key[:-1], [True]]))
        self._before[:, key[last]] = before[:, last]
        self._steps[:, key[last]] = (before + total)[:, last]
        result = left.query.astype(np.int64) * n + left.window
        pos = np.arange(len(result)) - np.searchsorted(result, result)
        ended = Changes(
            left.query, key[left.window], windows.end[left.window], (before + total)[left.query, left.window], pos.astype(np.int32),
            np.full(len(pos), -1, np.int8), np.full(len(pos), EXPIRY, np.int8), left.score, left.items,
        )  # fmt: skip
        inside = replace(found, key=key[place], step=found.step + before[found.query, place], items=items)
        joined = [np.concatenate([getattr(inside, column), getattr(ended, column)]) for column in CHANGE_COLUMNS]
        query, key_, _, step, at = joined[:5]
        order = np.lexsort((at, step, key_, query))
        return Changes(*(a[order] for a in joined), finals=self._finals(windows, left, pos))

    def _finals(self, windows: _Windows, left: _Shown, pos: I64) -> Finals | None:
        """Return the final results of the windows that have ended; ``pos``: the place of each item in its result."""
        if not len(left.query):
            return None
        w = left.window
        return Finals(
            left.query, windows.key[w], windows.start[w], windows.end[w], pos + 1, left.items, {"score": left.score}
        )  # fmt: skip

    def _forget(self, windows: _Windows, until: Instant) -> None:
        """Forget the windows that have ended, and logics without an open one."""
        o = self._open
        ended = windows.at(windows.end < until)
        current = o.name[ended.key] == ended.name
        o.name[ended.key[current]] = -1
        for g in self._generations[:-1]:
            if not ((o.name >= g.first) & (o.name < g.first + g.count)).any():
                self._count(g)
                self._generations.remove(g)

    # Saving and restoring, and what else a logic answers.

    def wake(self) -> Instant | None:
        """Return the next end of a window, or the next instant if rows may leave one before it ends."""
        o = self._open
        mine = o.name >= 0
        if not mine.any():
            return None
        end, leaves = o.end[mine], o.start[mine] + self._shortest
        return int(np.minimum(end, np.where(leaves < end, np.maximum(leaves, self._until), end)).min())

    def checkpoint(self) -> dict[str, AnyArray]:
        """Return the open windows, the steps, what is in results, and the arrays of the logics inside for the windows that are open."""
        o, divisible = self._open, self.op.divisible
        names = np.sort(o.name[o.name >= 0])
        parts, counts = [], []
        for g in self._generations:
            mine = names[(names >= g.first) & (names < g.first + g.count)]
            parts.append(divisible.picked(g.logic.checkpoint(), mine - g.first))
            counts.append(len(mine))
        shown = self._shown.standing()
        # Windows get other names, as the logics inside then number them.
        renamed = o._replace(name=np.where(o.name >= 0, np.searchsorted(names, o.name), -1))
        saved: dict[str, AnyArray] = {f"open_{field}": array.copy() for field, array in zip(o._fields, renamed, strict=True)}
        saved |= {"shown_query": shown.query, "shown_window": np.searchsorted(names, shown.window)}
        saved |= {"shown_score": shown.score, "shown_items": shown.items}
        saved |= {"until": np.array([self._until]), "windows": np.array(counts, np.int64)}
        saved |= {"steps": self._steps.copy(), "steps_before": self._before.copy()}
        return saved | _joined(parts)

    def _restore(self, state: State) -> None:
        a = state.arrays
        self._open = _Open(*(np.array(a[f"open_{field}"], np.int64) for field in _Open._fields))
        self._steps, self._before = np.array(a["steps"], np.int64), np.array(a["steps_before"], np.int64)
        self._until = int(a["until"][0])
        query, window, score, items = (np.array(a[f"shown_{field}"]) for field in ("query", "window", "score", "items"))
        self._shown = _Shown(query, window, np.ones(len(query), np.int8), score, items)
        self._standing = len(query)
        counts = a["windows"].tolist()
        rows, first = state.rows, 0
        key, seq = np.asarray(rows.key, np.int64), np.asarray(rows.seq, np.int64)
        mine = np.flatnonzero((key < len(self._open.name)) & (seq >= 0))
        mine = mine[(self._open.name[key[mine]] >= 0) & (seq[mine] >= self._open.base[key[mine]])]
        mine = mine[np.argsort(self._open.name[key[mine]], kind="stable")]
        name = self._open.name[key[mine]]
        given = _chosen(rows, mine, self._open.base[key[mine]])
        self._generations = []
        for count, arrays in zip(counts, _inside(a), strict=True):
            part = slice(*np.searchsorted(name, [first, first + count]))
            logic = self.op.inner.build(State(arrays, _sliced(given, part, name[part] - first)))
            self._generations.append(_Generation(logic, first, count))
            first += count

    def _outside(self, g: _Generation, number: I64) -> tuple[I64, I64, npt.NDArray[np.bool_]]:
        """Return key and base of the windows that are keys of a logic inside, and which of them are open; the others have no meaning."""
        o = self._open
        key = np.full(g.count, -1)
        mine = np.flatnonzero((o.name >= g.first) & (o.name < g.first + g.count))
        key[o.name[mine] - g.first] = mine
        key = key[number]
        return key, o.base[key] if len(o.base) else key, key >= 0

    def retained(self) -> tuple[I64, I64]:
        """Return the rows that the logics inside need for open windows."""
        keys, seqs = [_NONE], [_NONE]
        for g in self._generations:
            number, seq = g.logic.retained()
            key, base, kept = self._outside(g, number)
            keys.append(key[kept])
            seqs.append((seq + base)[kept])
        return np.concatenate(keys), np.concatenate(seqs)

    def snapshot(self, key: int, k: int, window: Window, query: int = 0) -> Items:
        """Return the snapshot of the key's open window."""
        name = int(self._open.name[key]) if 0 <= key < len(self._open.name) else -1
        for g in self._generations:
            if g.first <= name < g.first + g.count:
                found = g.logic.snapshot(name - g.first, k, Window(window.count, window.micros), query)
                return replace(found, key=np.full(len(found), key), items=found.items + self._open.base[key])
        return Items(_NONE, np.empty((0, self._width), np.int64), np.empty(0))

    def skyband(self) -> Items:
        """Return the items that can still enter a result of an open window, grouped by key."""
        parts = []
        for g in self._generations:
            found = g.logic.skyband()
            key, base, kept = self._outside(g, found.key)
            extra = {name: a[kept] for name, a in found.extra.items()}
            parts.append(Items(key[kept], (found.items + base[:, None])[kept], found.score[kept], extra))
        key = np.concatenate([p.key for p in parts])
        order = np.argsort(key, kind="stable")
        extra = {name: np.concatenate([p.extra[name] for p in parts])[order] for name in parts[0].extra}
        return Items(key[order], np.concatenate([p.items for p in parts])[order], np.concatenate([p.score for p in parts])[order], extra)

    def _count(self, g: _Generation) -> None:
        for name, n in g.logic.counters().items():
            self._counted[name] = self._counted.get(name, 0) + n

    def counters(self) -> dict[str, int]:
        """Return the sums of the counters of the logics inside since the last call, and reset them."""
        for g in self._generations:
            self._count(g)
        found, self._counted = self._counted, {}
        return found


def _joined(parts: list[dict[str, AnyArray]]) -> dict[str, AnyArray]:
    """Return the arrays of the logics inside under names that say which has which."""
    return {f"inside {number}:{name}": a for number, arrays in enumerate(parts) for name, a in arrays.items()}


def _inside(arrays: Mapping[str, AnyArray]) -> list[dict[str, AnyArray]]:
    """Return the arrays of each logic inside."""
    found: list[dict[str, AnyArray]] = [{} for _ in arrays["windows"]]
    for name, a in arrays.items():
        if name.startswith("inside "):
            number, _, own = name.removeprefix("inside ").partition(":")
            found[int(number)][own] = a
    return found


def _shortest(operator: Any) -> int:
    """Return the shortest time that a row may be in a window of the operator's queries, in microseconds; large if only counts bound it."""
    parts: tuple[Any, ...] = getattr(operator, "parts", ())
    if parts:
        return min(_shortest(part) for part in parts)
    own: list[int | None] = [q.window.micros for q in getattr(operator, "queries", ()) if getattr(q, "window", None) is not None]
    lists = getattr(operator, "micros", None)
    own += [m for m in lists.tolist() if m] if lists is not None else []
    return min([micros_of(operator.window), *(m for m in own if m is not None)])


def _chosen(arrivals: Arrivals, rows: I64, base: I64) -> Arrivals:
    """Return the chosen arrivals, with seqs counted from ``base``; their keys are still those of the stream."""
    chosen = chosen_rows(arrivals, rows)
    columns = dict(chosen.columns)
    if DELETION_TARGET in columns:
        target = columns[DELETION_TARGET]
        columns[DELETION_TARGET] = np.where(target == NULL, NULL, target - base)
    return replace(chosen, seq=np.where(chosen.seq < 0, chosen.seq, chosen.seq - base), columns=columns)


def _sliced(arrivals: Arrivals, part: slice, key: I64) -> Arrivals:
    """Return some neighbouring arrivals under other keys."""
    columns = {name: a[part] for name, a in arrivals.columns.items()}
    ragged = {name: Ragged(a.start[part.start : part.stop + 1] - a.start[part.start], a.values[a.start[part.start] : a.start[part.stop]])
              for name, a in arrivals.ragged.items()}  # fmt: skip
    return Arrivals(key, arrivals.seq[part], arrivals.time[part], columns, ragged)


def _padded(array: I64, shape: tuple[int, int]) -> I64:
    """Return the array with zeros up to ``shape``."""
    if array.shape == shape:
        return array
    out = np.zeros(shape, np.int64)
    out[: array.shape[0], : array.shape[1]] = array
    return out


@dataclass(frozen=True, slots=True)
class _Keys:
    """How the state of ``PerWindow`` is divided by keys. ``inner``: how that of the operator inside is."""

    inner: Divisible

    def picked(self, arrays: Mapping[str, AnyArray], keys: I64) -> dict[str, AnyArray]:
        """Return the arrays of some keys, as ``Divisible.picked``."""
        mine = keys[: np.searchsorted(keys, len(arrays["open_name"]))]
        found = {f"open_{field}": arrays[f"open_{field}"][mine] for field in _Open._fields}
        found |= {name: arrays[name][:, mine] for name in ("steps", "steps_before")}
        names = np.sort(found["open_name"][found["open_name"] >= 0])
        first, parts, counts = 0, [], []
        for count, part in zip(arrays["windows"].tolist(), _inside(arrays), strict=True):
            of_part = names[(names >= first) & (names < first + count)]
            parts.append(self.inner.picked(part, of_part - first))
            counts.append(len(of_part))
            first += count
        found["open_name"] = np.where(found["open_name"] >= 0, np.searchsorted(names, found["open_name"]), -1)
        shown = np.flatnonzero(np.isin(arrays["shown_window"], names))
        found |= {f"shown_{field}": arrays[f"shown_{field}"][shown] for field in ("query", "score", "items")}
        found["shown_window"] = np.searchsorted(names, arrays["shown_window"][shown])
        found |= {"windows": np.array(counts, np.int64), "until": arrays["until"]}
        return found | _joined(parts)
