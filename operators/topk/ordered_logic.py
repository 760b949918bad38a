"""The state and logic of a top-k by several sort keys: rows as words that rank them, and what each query has shown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from skyband.operators.base import (
    DELETION_TARGET,
    F64,
    I64,
    NEVER,
    NULL,
    AnyArray,
    Arrivals,
    Changes,
    Column,
    Instant,
    Items,
    Ragged,
    State,
    Window,
)
from skyband.operators.expressions import compile_row
from skyband.operators.single_rows.arrays import earliest, spans, widened
from skyband.operators.single_rows.blocks import Block, cut, last_key
from skyband.operators.single_rows.tombstones import Tombstones
from skyband.operators.topk.kernels.ordered import DENSE, EXCLUDE, INCLUDE, Asked, Clocks, Deletions, Part, Ranking, keep_rows, replay
from skyband.operators.topk.ordered_configuration import SCORE, OrderedConfiguration
from skyband.operators.windows import check_window, count_of, micros_of

# Sort keys as words: int64 numbers of which the smaller ranks first. A null has the largest.

_NONE = np.empty(0, np.int64)
_MODES = {"break": EXCLUDE, "include": INCLUDE, "dense": DENSE, "exclude": EXCLUDE}
_SIGN = np.int64(2**63 - 1)
_PACKED = 3
"""Characters in a word of a text: 21 bits each, 0 after the end."""


def words_of_floats(x: F64, largest: bool) -> I64:
    """Return the words of float64 values, NaN last; ``largest``: the largest value first. -0.0 is 0.0."""
    bits = np.asarray(x + 0.0, np.float64).view(np.int64)
    word = np.where(bits < 0, bits ^ _SIGN, bits)
    return np.where(np.isnan(x), NEVER, ~word if largest else word)


def floats_of_words(word: I64, largest: bool) -> F64:
    """Return the values whose words ``words_of_floats`` gave."""
    given = ~word if largest else word
    value = np.where(given < 0, given ^ _SIGN, given).view(np.float64)
    return np.where(word == NEVER, np.nan, value)


def words_of_ints(x: I64, largest: bool) -> I64:
    """Return the words of int64 values, ``NULL`` last."""
    return np.where(x == NULL, NEVER, ~x if largest else x - (x != NULL))


@dataclass(frozen=True, slots=True)
class Texts:
    """Texts as words that compare like their characters: text i has ``length[i]`` of ``words``, -1 for null."""

    length: I64
    words: I64

    @classmethod
    def of(cls, given: Ragged) -> Texts:
        """Return the texts of a column of characters. O(characters)."""
        length = np.diff(given.start)
        null = np.zeros(len(length), bool)
        one = length == 1
        null[one] = given.values[given.start[:-1][one]] == NULL
        sizes = np.where(null, 0, -(-length // _PACKED))
        padded = np.zeros(int(sizes.sum()) * _PACKED, np.int64)
        there = ~null
        first = (np.cumsum(sizes) - sizes) * _PACKED
        padded[spans(first[there], length[there])] = given.values[spans(given.start[:-1][there], length[there])] + 1
        words = padded.reshape(-1, _PACKED)
        return cls(np.where(null, -1, sizes), (words[:, 0] << 42) | (words[:, 1] << 21) | words[:, 2])

    @classmethod
    def joined(cls, parts: Sequence[Texts]) -> Texts:
        """Return the texts of all ``parts``."""
        return cls(np.concatenate([p.length for p in parts]), np.concatenate([p.words for p in parts]))

    def take(self, at: I64) -> Texts:
        """Return the texts at the places ``at``."""
        sizes = np.maximum(self.length, 0)
        start = np.cumsum(sizes) - sizes
        return Texts(self.length[at], self.words[spans(start[at], sizes[at])])

    def ranked(self, largest: bool) -> I64:
        """Return a word of each text: equal for equal texts, in their order. O(words log texts).

        All texts begin as one class, numbered by its first place in the order. The texts of a class are divided by their next word, as
        long as there are several of them that go on.
        """
        n = len(self.length)
        sizes = np.maximum(self.length, 0)
        start = np.cumsum(sizes) - sizes
        found, left, depth = np.zeros(n, np.int64), np.arange(n), 0
        while len(left):
            goes_on = sizes[left] > depth
            word = np.full(len(left), -1)
            word[goes_on] = self.words[start[left[goes_on]] + depth]
            order = np.lexsort((word, found[left]))
            left, word = left[order], word[order]
            of = found[left]
            begins_class = np.append(True, of[1:] != of[:-1])
            begins = begins_class | np.append(True, word[1:] != word[:-1])
            places = np.arange(len(left))
            first_of_class = np.maximum.accumulate(np.where(begins_class, places, 0))
            found[left] = of + np.maximum.accumulate(np.where(begins, places, 0)) - first_of_class
            several = ~(begins & np.append(begins[1:], True))
            left = left[several & (word >= 0)]
            depth += 1
        return np.where(self.length < 0, NEVER, ~found if largest else found)


# Rows with their words.


class Rows(NamedTuple):
    """Rows by key and seq. int64 (rows,): ``key``, ``seq``, ``time``. ``words`` int64 (rows, terms): of text terms only ``NEVER`` for null;
    ``texts``: of every text term."""

    key: I64
    seq: I64
    time: I64
    words: I64
    texts: tuple[Texts, ...]

    def __len__(self) -> int:
        return len(self.seq)

    def take(self, at: AnyArray) -> Rows:
        """Return the rows at the places ``at``."""
        return Rows(self.key[at], self.seq[at], self.time[at], self.words[at], tuple(t.take(at) for t in self.texts))


def _joined(first: Rows, second: Rows) -> tuple[Rows, I64]:
    """Return the rows of both by key, those of ``first`` before those of ``second``, and where each was in both, one after the other."""
    texts = tuple(Texts.joined(both) for both in zip(first.texts, second.texts, strict=True))
    both = [np.concatenate([a, b]) for a, b in zip(first[:4], second[:4], strict=True)]
    order = np.argsort(both[0], kind="stable")
    return Rows(both[0], both[1], both[2], both[3], texts).take(order), order


class _Terms:
    """What ranks rows: the sort keys, then the columns of ``tie_break``."""

    def __init__(self, op: OrderedConfiguration) -> None:
        self.op = op
        self.largest = [*(k.direction == "max" for k in op.keys), *(False for _ in op.tie_break)]
        self.columns: list[Column | None] = [*(k.of if isinstance(k.of, Column) else None for k in op.keys), *op.tie_break]
        self.text_of = {i: n for n, i in enumerate(i for i, c in enumerate(self.columns) if c is not None and c.kind == "characters")}
        self.plain = [c.name for c in op.columns if c.kind != "characters" and c.name != DELETION_TARGET]
        self.where = None if op.where is None else compile_row(None, op.where, False, {t: i for i, t in enumerate(op.texts)})
        self.ceiling = self._bound(op.ceiling(op.queries[0]), -(2**63))

    def _bound(self, score: float | None, otherwise: int) -> int:
        return otherwise if score is None else int(words_of_floats(np.array([float(score)]), self.largest[0])[0])

    def floors(self) -> I64:
        """Return the word of each query's bound on the worse side, ``NEVER`` for none."""
        return np.array([self._bound(self.op.floor(q), NEVER) for q in self.op.queries], np.int64)

    def no_rows(self) -> Rows:
        """Return no rows."""
        return Rows(_NONE, _NONE, _NONE, np.empty((0, len(self.columns)), np.int64), (Texts(_NONE, _NONE),) * len(self.text_of))

    def rows(self, arrivals: Arrivals, objects: I64 | None) -> tuple[Rows, AnyArray, int, int]:
        """Return the objects among ``arrivals`` (None: all are) with their words, whether each is a candidate, and how many satisfy
        ``where``, and of these how many have no value of the first sort key that is needed. O(rows), and O(characters) of texts."""
        at = slice(None) if objects is None else objects
        key, seq, time = (np.ascontiguousarray(a, np.int64)[at] for a in (arrivals.key, arrivals.seq, arrivals.time))
        columns: Mapping[str, AnyArray] = {name: arrivals.columns[name][at] for name in self.plain}
        n = len(seq)
        words, texts = np.empty((n, len(self.columns)), np.int64), []
        for i, (column, largest) in enumerate(zip(self.columns, self.largest, strict=True)):
            if column is None:
                words[:, i] = words_of_floats(self.op.functions[i](columns, n)[0], largest)
            elif column.kind == "characters":
                every = Texts.of(arrivals.ragged[column.name])
                texts.append(every if objects is None else every.take(objects))
                words[:, i] = np.where(texts[-1].length < 0, NEVER, 0)
            elif column.kind == "float":
                words[:, i] = words_of_floats(np.asarray(columns[column.name], np.float64), largest)
            else:
                words[:, i] = words_of_ints(np.asarray(columns[column.name], np.int64), largest)
        good = np.ones(n, bool) if self.where is None else np.asarray(self.where.passes(columns, n), bool)
        selected, unusable = int(np.count_nonzero(good)), 0
        if not self.op.nulls_last:
            there = words[:, 0] != NEVER
            unusable = int(np.count_nonzero(good & ~there))
            good = good & there
        return Rows(key, seq, time, words, tuple(texts)), good & (words[:, 0] >= self.ceiling), selected, unusable

    def order(self, rows: Rows) -> tuple[I64, AnyArray]:
        """Return the order of rows by key and rank, and for each in that order whether it begins a group. O(rows log rows)."""
        n = len(self.op.keys)
        by = [
            rows.texts[self.text_of[i]].ranked(largest) if i in self.text_of else rows.words[:, i] for i, largest in enumerate(self.largest)
        ]
        age = rows.seq if self.op.oldest else -rows.seq
        order = np.lexsort((age, *by[::-1], rows.key))
        begins = np.ones(len(rows), bool)
        if self.op.ties != "break" and len(rows):
            begins[1:] = False
            for column in (rows.key, *by[:n]):
                ordered = column[order]
                begins[1:] |= ordered[1:] != ordered[:-1]
        return order, begins

    def values(self, rows: Rows) -> tuple[F64, dict[str, AnyArray]]:
        """Return the score of each row, NaN for none, and the other values that results show."""
        found = {
            key.name: floats_of_words(rows.words[:, i], self.largest[i]) + 0.0 for i, key in enumerate(self.op.keys) if key.name
        }  # fmt: skip
        return found.pop(SCORE, np.full(len(rows), np.nan)), dict(found)


class OrderedLogic:
    """State of one bucket: per key the rows that can still enter a result (*members*) or, with deletions, all alive candidates; per query
    and key the step, the next instant that matters, and what the last boundary showed."""

    def __init__(self, op: OrderedConfiguration, state: State | None) -> None:
        self.op = op
        self.terms = _Terms(op)
        self.mode = _MODES[op.ties]
        windows = [q.window.within(op.window) for q in op.queries]
        self.asked = Asked(
            np.array([q.k for q in op.queries], np.int64), np.array([count_of(w) for w in windows], np.int64),
            np.array([micros_of(w) for w in windows], np.int64), np.array([q.every_micros or 0 for q in op.queries], np.int64),
            self.terms.floors(),
        )  # fmt: skip
        self.clocked = any(w.micros is not None for w in windows) or bool(self.asked.every.any())
        self.until = NULL
        self.next_seq = _NONE
        none = np.empty((len(op.queries), 0), np.int64)
        self.clocks = Clocks(none, none, none)
        self.held, self.member = self.terms.no_rows(), np.empty(0, bool)
        """Members and rows that are shown, by key and seq; whether each is a member."""
        self.shown = np.empty((0, 4), np.int64)
        """What queries with boundaries show: query, key, seq, 1 if it has been deleted since."""
        self.tombs = Tombstones.empty()
        self.rows_in = self.unusable = self.selected = 0
        if state is not None:
            self._restore(state)

    def _restore(self, state: State) -> None:
        a = {name: np.array(x, np.int64) for name, x in state.arrays.items()}
        self.until, self.next_seq = int(a["until"][0]), a["next_seq"]
        self.clocks = Clocks(a["step"], a["wake_at"], a["due"])
        self.shown = np.stack([a["shown_query"], a["shown_key"], a["shown_seq"], a["shown_deleted"]], axis=1)
        rows, good, _, _ = self.terms.rows(state.rows, None)
        if self.op.deletes:
            self.tombs = Tombstones(a["tomb_key"], a["tomb_seq"], a["tomb_time"])
            member = good & (self.tombs.times(rows.key, rows.seq) == NEVER) & self._in_window(rows, self.until)
        else:
            member = _among(rows.key, rows.seq, a["member_key"], a["member_seq"])
        members, shown = rows.take(np.flatnonzero(member)), self._shown_rows(a)
        shown = shown.take(np.flatnonzero(~_among(shown.key, shown.seq, members.key, members.seq)))
        shown = shown.take(np.unique(np.stack([shown.key, shown.seq]), axis=1, return_index=True)[1])
        both, _ = _joined(members, shown)
        self.held = both.take(np.lexsort((both.seq, both.key)))
        self.member = _among(self.held.key, self.held.seq, members.key, members.seq)

    def _shown_rows(self, a: Mapping[str, AnyArray]) -> Rows:
        """Return the rows of ``shown``, as a checkpoint has them: those outside the window are not among the rows that the host keeps."""
        lengths, texts, first = a["shown_lengths"], [], 0
        for length in lengths.T:
            size = int(np.maximum(length, 0).sum())
            texts.append(Texts(np.ascontiguousarray(length), a["text_words"][first : first + size]))
            first += size
        return Rows(a["shown_key"], a["shown_seq"], a["shown_time"], a["shown_words"], tuple(texts))

    def _saved_rows(self) -> dict[str, AnyArray]:
        """Return the arrays that ``_shown_rows`` reads, besides those of ``shown``."""
        some = self.held.take(_places(self.held, self.shown[:, 1], self.shown[:, 2]))
        lengths = np.empty((len(some), len(some.texts)), np.int64)
        for i, text in enumerate(some.texts):
            lengths[:, i] = text.length
        return {
            "shown_time": some.time, "shown_words": some.words, "shown_lengths": lengths,
            "text_key": np.concatenate([_NONE, *(np.repeat(some.key, np.maximum(t.length, 0)) for t in some.texts)]),
            "text_words": np.concatenate([_NONE, *(t.words for t in some.texts)]),
        }  # fmt: skip

    def _in_window(self, rows: Rows, until: int) -> AnyArray:
        """Return whether rows are alive in the state's window, for keys that have had their rows before ``until``."""
        alive: AnyArray = rows.seq >= self.next_seq[rows.key] - count_of(self.op.window)
        if self.op.window.micros is not None and len(rows):
            alive = alive & (rows.time >= until - self.op.window.micros)
        return alive

    def _grow(self, keys: int) -> None:
        self.next_seq = widened(self.next_seq, keys, 0, 0)
        step, wake, due = self.clocks
        self.clocks = Clocks(widened(step, keys, 0, 1), widened(wake, keys, NEVER, 1), widened(due, keys, NEVER, 1))

    def advance(self, arrivals: Arrivals, until: Instant) -> Changes:
        """Process every event < ``until``. O(r log r) for the r rows that arrive or are held of keys with something to do."""
        self._grow(last_key(arrivals) + 1)
        also = np.flatnonzero(self.clocks.wake.min(axis=0) < until) if self.clocked and len(self.next_seq) else _NONE
        block, objects = cut(arrivals, self.next_seq, also, self.op.deletes)
        self.rows_in += len(block.time)
        if not len(block.keys):
            self.until = until
            return self._changes(np.empty((0, 8), np.int64), self.terms.no_rows())
        fresh, good, selected, unusable = self.terms.rows(arrivals, objects)
        self.selected, self.unusable = self.selected + selected, self.unusable + unusable
        place_of = np.full(len(self.next_seq), -1)
        place_of[block.keys] = np.arange(len(block.keys))
        mine = place_of[self.held.key] >= 0
        old = self.held.take(np.flatnonzero(mine))
        rows, order = _joined(old, fresh)
        member = np.concatenate([self.member[mine], np.zeros(len(fresh), bool)])[order]
        candidate = np.concatenate([np.ones(len(old), bool), good])[order]
        ranking, part = self._ranked(rows, candidate, block, np.bincount(place_of[old.key], minlength=len(block.keys)))
        deletions, gone = self._deletions(rows, block, part)
        largest = int((part.position_end - part.position_begin).max(initial=0))
        numbers, size, shows, showing = replay(
            self.asked, self.mode, ranking, part, deletions, member.astype(np.uint8), self._was_shown(rows, place_of), self.clocks,
            self.until, until, largest,
        )  # fmt: skip
        self.next_seq[block.keys] = block.first_seq + (block.end - block.begin)
        alive = (member | (np.arange(len(rows)) >= part.row_fresh[place_of[rows.key]])) & candidate & self._in_window(rows, until)
        alive[gone] = False
        self._keep(rows, alive, mine, shows[:showing], ranking, part, largest, until)
        self.until = until
        return self._changes(numbers[:size], rows)

    def _ranked(self, rows: Rows, candidate: AnyArray, block: Block, held: I64) -> tuple[Ranking, Part]:
        """Return the ranks of a block's ``rows``, and where each key's part is; ``held``: rows of each key that do not arrive now."""
        good = np.flatnonzero(candidate)
        some = rows.take(good)
        order, begins = self.terms.order(some)
        key = some.key[order]
        position_begin, position_end = np.searchsorted(key, block.keys), np.searchsorted(key, block.keys, "right")
        base = np.repeat(position_begin, position_end - position_begin)
        places = np.arange(len(order))
        begin = np.maximum.accumulate(np.where(begins, places, 0))
        ends = np.append(begins[1:], True)[: len(order)]
        end = np.minimum.accumulate(np.where(ends, places, len(order))[::-1])[::-1]
        position = np.full(len(rows), -1)
        position[good[order]] = places - base
        row_begin = np.searchsorted(rows.key, block.keys)
        ranking = Ranking(
            rows.seq,
            rows.time,
            position,
            np.ascontiguousarray(rows.words[:, 0]),
            good[order],
            begin - base,
            np.ascontiguousarray(end - base),
        )
        part = Part(
            block.keys, row_begin, row_begin + held, np.searchsorted(rows.key, block.keys, "right"), position_begin, position_end,
            block.deletion_begin, block.deletion_end, block.first_seq,
        )  # fmt: skip
        return ranking, part

    def _deletions(self, rows: Rows, block: Block, part: Part) -> tuple[Deletions, I64]:
        """Return the block's deletions, and the rows that they delete."""
        sizes = block.deletion_end - block.deletion_begin
        key = np.repeat(block.keys, sizes)
        before = block.deletion_row + np.repeat(part.row_fresh - block.begin, sizes)
        target = _places(rows, key, block.deletion_seq)
        if len(key):
            self.tombs = self.tombs.with_(Tombstones(key, block.deletion_seq, block.deletion_time))
        return Deletions(before, np.ascontiguousarray(block.deletion_time), target), target[target >= 0]

    def _was_shown(self, rows: Rows, place_of: I64) -> I64:
        """Return what is shown of the block's keys, by query and place: query, place, row, deleted."""
        mine = self.shown[place_of[self.shown[:, 1]] >= 0]
        found = np.stack([mine[:, 0], place_of[mine[:, 1]], _places(rows, mine[:, 1], mine[:, 2]), mine[:, 3]], axis=1)
        return np.ascontiguousarray(found[np.lexsort((found[:, 1], found[:, 0]))])

    def _keep(
        self, rows: Rows, alive: AnyArray, mine: AnyArray, shows: I64, ranking: Ranking, part: Part, largest: int, until: int
    ) -> None:
        """Keep the rows that can still enter a result, and those that are shown. ``mine``: which of those held so far are in the block."""
        flags = alive.astype(np.uint8)
        if not self.op.deletes:
            most = self.op.keep_k - 1 if self.op.ties == "break" else self.op.keep_k
            keep_rows(ranking, part, self.mode, most, flags, largest)
        shown = np.stack([shows[:, 0], part.keys[shows[:, 1]], rows.seq[shows[:, 2]], shows[:, 3]], axis=1)
        touched = np.zeros(len(self.next_seq), bool)
        touched[part.keys] = True
        self.shown = np.concatenate([self.shown[~touched[self.shown[:, 1]]], shown])
        seen = flags.astype(bool)
        seen[shows[:, 2]] = True
        kept, rest = np.flatnonzero(seen), ~mine
        if self.op.window.micros is not None:
            rest &= (self.held.time >= until - self.op.window.micros) | _among(
                self.held.key, self.held.seq, self.shown[:, 1], self.shown[:, 2]
            )
        others = np.flatnonzero(rest)
        member = np.concatenate([self.member[others], flags[kept].astype(bool)])
        self.held, order = _joined(self.held.take(others), rows.take(kept))
        self.member = member[order]

    def _changes(self, numbers: I64, rows: Rows) -> Changes:
        score, values = self.terms.values(rows.take(numbers[:, 7]))
        return Changes(
            query=numbers[:, 0].astype(np.int16), key=numbers[:, 1].copy(), at=numbers[:, 2].copy(), step=numbers[:, 3].copy(),
            pos=numbers[:, 4].astype(np.int32), sign=numbers[:, 5].astype(np.int8), cause=numbers[:, 6].astype(np.int8), score=score,
            items=rows.seq[numbers[:, 7]].reshape(-1, 1), values=values,
        )  # fmt: skip

    def wake(self) -> Instant | None:
        """Return the next expiry that may change a result, or the next boundary at which a query has changes."""
        return earliest(self.clocks.wake) if self.clocked else None

    def checkpoint(self) -> dict[str, AnyArray]:
        """Return which rows are members, steps and what is shown; with deletions the deleted seqs instead of the members."""
        step, wake, due = (a.copy() for a in self.clocks)
        saved: dict[str, AnyArray] = {
            "until": np.array([self.until], np.int64), "next_seq": self.next_seq.copy(), "step": step, "wake_at": wake, "due": due,
            "shown_query": self.shown[:, 0].copy(), "shown_key": self.shown[:, 1].copy(), "shown_seq": self.shown[:, 2].copy(),
            "shown_deleted": self.shown[:, 3].copy(), **self._saved_rows(),
        }  # fmt: skip
        if self.op.deletes:
            self.tombs = self.tombs.alive(self.next_seq, self.until, self.op.window)
            return saved | {"tomb_key": self.tombs.key, "tomb_seq": self.tombs.seq, "tomb_time": self.tombs.time}
        members = self._members()
        return saved | {"member_key": members.key, "member_seq": members.seq}

    def _members(self) -> Rows:
        """Return the members that are alive now."""
        return self.held.take(np.flatnonzero(self.member & self._in_window(self.held, self.until)))

    def retained(self) -> tuple[I64, I64]:
        """Return the members, and the rows that a query with boundaries has shown and may still have to report as gone."""
        members = self._members()
        found = np.stack([np.append(members.key, self.shown[:, 1]), np.append(members.seq, self.shown[:, 2])])
        if len(self.shown):
            found = np.unique(found, axis=1)
        return found[0], found[1]

    def snapshot(self, key: int, k: int, window: Window, query: int = 0) -> Items:
        """Return the result for any k <= K and window n <= N within the query's score bounds, in rank order."""
        if not 1 <= k <= self.op.keep_k:
            raise ValueError(f"k = {k}: this state answers 1 to {self.op.keep_k}")
        check_window(window, self.op.window, "snapshot")
        members, w = self._members(), window.within(self.op.window)
        good = (members.key == key) & (members.words[:, 0] <= self.asked.floor[query])
        if good.any():
            good &= members.seq >= self.next_seq[key] - count_of(w)
            if w.micros is not None:
                good &= members.time >= self.until - w.micros
        some = members.take(np.flatnonzero(good))
        order, begins = self.terms.order(some)
        number = np.cumsum(begins)
        starts = np.flatnonzero(begins)
        if self.mode == DENSE:
            size = int(np.searchsorted(number, k, "right"))
        else:
            ends = np.append(starts[1:], len(order))[: len(starts)]
            fits = ends[starts < k] if self.mode == INCLUDE else ends[ends <= k]
            size = int(fits.max(initial=0))
        return self._items(some.take(order[:size]))

    def skyband(self) -> Items:
        """Return the members of every key (with deletions: all alive candidates), grouped by key, in seq order."""
        return self._items(self._members())

    def _items(self, rows: Rows) -> Items:
        score, values = self.terms.values(rows)
        return Items(rows.key, rows.seq.reshape(-1, 1), score, values)

    def counters(self) -> dict[str, int]:
        """Return rows, and objects that queries select and cannot use, since the last call."""
        found = {"rows": self.rows_in}
        for i in range(len(self.op.queries)):
            found |= {f"unusable:{i}": self.unusable, f"asked:{i}": self.selected}
        self.rows_in = self.unusable = self.selected = 0
        return found


def _places(rows: Rows, key: I64, seq: I64) -> I64:
    """Return the place of every (key, seq) in ``rows``, or -1. O((rows + keys) log)."""
    if not len(rows) or not len(key):
        return np.full(len(key), -1)
    least = min(int(rows.seq.min()), int(seq.min()))
    width = max(int(rows.seq.max()), int(seq.max())) - least + 1
    names, wanted = rows.key * width + (rows.seq - least), key * width + (seq - least)
    at = np.minimum(np.searchsorted(names, wanted), len(names) - 1)
    return np.where(names[at] == wanted, at, -1)


def _among(key: I64, seq: I64, keys: I64, seqs: I64) -> AnyArray:
    """Return whether each (key, seq) is one of (keys, seqs)."""
    if not len(key) or not len(keys):
        return np.zeros(len(key), bool)
    least = min(int(seq.min()), int(seqs.min()))
    width = max(int(seq.max()), int(seqs.max())) - least + 1
    return np.isin(key * width + (seq - least), keys * width + (seqs - least))
