"""The window's rows of one bucket: the columns of results (ids, carried columns, times), and the state to keep.

Rows come in blocks sorted by (key, seq). In memory they are segments with a sorted 63-bit address (key, seq), so that
looking up any objects is a binary search; in state they are chunks of about 1 MB, written once and dropped whole.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from skyband.operators.base import NEVER, Window
from skyband.operators.jit import HAVE_NUMBA, jit

I64 = npt.NDArray[np.int64]

_SEQ_BITS = 40
CHUNK_ROWS = 16384
_MANY_CHUNKS = 64


def address(key: I64, seq: I64) -> I64:
    """One sortable number for (key, seq): keys below 2**23, seqs below 2**40."""
    return (key << _SEQ_BITS) | seq


def split_address(at: I64) -> tuple[I64, I64]:
    """(key, seq) of addresses."""
    return at >> _SEQ_BITS, at & ((1 << _SEQ_BITS) - 1)


def distinct(values: I64) -> I64:
    """The distinct values, sorted. O(n log n); np.unique would hash integers first, which takes longer."""
    # Mostly they come in runs, which a stable sort makes use of.
    values = np.sort(values, kind="stable")
    return values[np.append(True, values[1:] != values[:-1])] if len(values) else values


@jit
def _gallop(at: I64, want: I64, places: I64) -> None:
    """Set ``places`` to the first places of ``at`` (sorted) with at least ``want``, each searched from the one before."""
    place = 0
    for i in range(len(want)):
        x = want[i]
        low, high, step = place, place, 1
        if place < len(at) and at[place] < x:
            while high < len(at) and at[high] < x:
                low = high + 1
                high += step
                step *= 2
            high = min(high, len(at))
        else:
            while low > 0 and at[low - 1] >= x:
                high = low - 1
                low = max(0, high - step)
                step *= 2
        while low < high:
            middle = (low + high) >> 1
            if at[middle] < x:
                low = middle + 1
            else:
                high = middle
        place = low
        places[i] = place


def first_places(at: I64, want: I64) -> I64:
    """Return the first places of ``at`` (sorted) with at least ``want``, as ``np.searchsorted``.

    O(log of the distance between neighbours) each: what operators want is mostly in order of keys. In millions of rows that takes a quarter
    of the time of binary searches.
    """
    if not HAVE_NUMBA:
        return np.searchsorted(at, want)
    places = np.empty(len(want), np.int64)
    _gallop(at, want, places)
    return places


@dataclass(slots=True)
class Segment:
    """Rows sorted by address."""

    at: I64
    time: I64
    rows: pa.Table

    def places(self, want: I64) -> I64:
        """Where the addresses ``want`` are, each of those that are here; any place for the others. Empty: only if ``want`` is.

        O(len(want)) in a segment without gaps, ``first_places`` in others.
        """
        if len(self.at) and self.at[-1] - self.at[0] == len(self.at) - 1:
            places: I64 = np.clip(want - self.at[0], 0, len(self.at) - 1)
            return places
        places = first_places(self.at, want)
        places[places == len(self.at)] = 0
        return places

    def since(self, first: I64) -> Segment:
        """Return the rows from each key's seq ``first[key]`` on, all of a key that is not in it. O(rows), O(1) if it is empty."""
        if not len(first):
            return self
        key, seq = split_address(self.at)
        known = key < len(first)
        return _select(self, np.flatnonzero(~known | (seq >= first[np.where(known, key, 0)])))


@dataclass(slots=True)
class Chunk:
    """One state value: its number and what decides whether it is still needed."""

    number: int
    at: I64
    time: I64


class WindowStore:
    """Rows that may still be shown or needed: ``append`` a batch, ``take`` rows, ``expire`` dead ones.

    ``rows`` have the columns of ``schema`` (no key and seq: those are the address). ``pins`` are addresses (sorted) kept although
    out of the window: a query with ``every`` may still have to take back an item that died since the last boundary.
    With ``only_pins`` nothing else is kept: rows that no operator can show again are forgotten when the state is saved.
    """

    def __init__(self, window: Window, schema: pa.Schema, only_pins: bool = False) -> None:
        self.window = window
        self.only_pins = only_pins
        self.schema = schema
        self.segments: list[Segment] = []
        self.chunks: list[Chunk] = []
        self.next_chunk = 0
        self.dropped: list[int] = []
        self.pins: I64 = np.empty(0, np.int64)
        self.noting = True
        """Whether rows that come are noted for ``unsaved``; if not, ``rewrite`` notes those that are here in the end."""
        self._unsaved: list[Segment] = []

    def append(self, key: I64, seq: I64, time: I64, rows: pa.Table) -> None:
        """Append one batch's accepted rows, sorted by (key, seq)."""
        if not len(seq):
            return
        segment = Segment(address(key, seq), time, rows.combine_chunks())
        _add(self.segments, segment)
        if self.noting:
            self._unsaved.append(segment)

    def take(self, key: I64, seq: I64) -> tuple[pa.Table, I64]:
        """(rows, times) of the objects (key[i], seq[i]), in that order. KeyError if one is not here. See ``Segment.places``."""
        want = address(key, seq)
        missing = np.ones(len(want), bool)
        parts, places, times = [self.schema.empty_table()], [], np.empty(len(want), np.int64)
        for s in self.segments:
            pos = s.places(want)
            hit = np.nonzero(s.at[pos] == want)[0]
            if len(hit):
                parts.append(s.rows.take(pa.array(pos if len(hit) == len(pos) else pos[hit])))
                places.append(hit)
                times[hit] = s.time[pos[hit]]
                missing[hit] = False
        if missing.any():
            raise KeyError("an operator named an object that is no longer in the window")
        rows = pa.concat_tables(parts)
        if len(places) > 1:
            back = np.empty(len(want), np.int64)
            back[np.concatenate(places)] = np.arange(len(want))
            rows = rows.take(pa.array(back))
        return rows, times

    def has(self, key: I64, seq: I64) -> npt.NDArray[np.bool_]:
        """Return which of the objects are stored."""
        want = address(key, seq)
        found = np.zeros(len(want), bool)
        for s in self.segments:
            found |= s.at[s.places(want)] == want
        return found

    def expire(self, next_seq: I64, until: int) -> None:
        """Remove rows of objects that have left the window at ``until``, and note the chunks to delete. O(rows), vectorised."""
        segments = []
        for s in self.segments:
            alive = self._alive(s.at, s.time, next_seq, until)
            live = int(alive.sum())
            if 2 * live >= len(alive) > 0:
                segments.append(s)
            elif live:
                segments.append(_select(s, np.nonzero(alive)[0]))
        self.segments = segments
        keep = []
        for c in self.chunks:
            if self._alive(c.at, c.time, next_seq, until).any():
                keep.append(c)
            else:
                self.dropped.append(c.number)
        self.chunks = keep

    def unsaved(self, next_seq: I64, until: int) -> list[tuple[int, pa.Table]]:
        """New chunks for state: live rows since the last call, with ``__at`` and ``__time``. Expires first. O(rows held)."""
        self.expire(next_seq, until)
        out: list[tuple[int, pa.Table]] = []
        if self._unsaved:
            s = self._unsaved[0] if len(self._unsaved) == 1 else _merge(self._unsaved)
            self._unsaved = []
            self._save(s, self._alive(s.at, s.time, next_seq, until), out)
        held = sum(len(c.at) for c in self.chunks)
        if len(self.chunks) > _MANY_CHUNKS or (len(self.chunks) > 8 and held > 4 * CHUNK_ROWS):
            live = sum(int(self._alive(c.at, c.time, next_seq, until).sum()) for c in self.chunks)
            if held > 2 * live + CHUNK_ROWS or len(self.chunks) > _MANY_CHUNKS + live // 1024:
                # Quiet keys pin old chunks, small batches make many of them: rewrite what is alive.
                self._consolidate(next_seq, until)
                self.dropped += [c.number for c in self.chunks if all(c.number != n for n, _ in out)]
                self.chunks, out = [], []
                for s in self.segments:
                    self._save(s, self._alive(s.at, s.time, next_seq, until), out)
        return out

    def rewrite(self) -> None:
        """Write all rows as new chunks, as if they had just been appended: for a state that is rewritten."""
        self._consolidate()
        self.chunks, self._unsaved = [], self.segments[:1]

    def _save(self, s: Segment, alive: npt.NDArray[np.bool_], out: list[tuple[int, pa.Table]]) -> None:
        index = np.nonzero(alive)[0]
        for lo in range(0, len(index), CHUNK_ROWS):
            part = index[lo : lo + CHUNK_ROWS]
            at, time = s.at[part], s.time[part]
            rows = s.rows.take(pa.array(part)).append_column("__at", pa.array(at)).append_column("__time", pa.array(time))
            self.chunks.append(Chunk(self.next_chunk, at, time))
            out.append((self.next_chunk, rows))
            self.next_chunk += 1

    def load(self, number: int, rows: pa.Table) -> None:
        """A chunk read back from state."""
        at, time = rows["__at"].to_numpy(), rows["__time"].to_numpy()
        self.chunks.append(Chunk(number, at, time))
        self.segments.append(Segment(at, time, rows.select(self.schema.names)))

    def alive(self, window: Window, next_seq: I64, until: int) -> Segment:
        """All rows of objects alive in ``window``, sorted by (key, seq)."""
        self._consolidate()
        if not self.segments:
            return Segment(np.empty(0, np.int64), np.empty(0, np.int64), self.schema.empty_table())
        s = self.segments[0]
        return _select(s, np.nonzero(_alive(window, s.at, s.time, next_seq, until))[0])

    def named(self, at: I64) -> Segment:
        """The rows with the addresses ``at`` (unique, any order), sorted by (key, seq). KeyError if one is not here."""
        at = np.sort(at)
        rows, time = self.take(*split_address(at))
        return Segment(at, time, rows)

    def _alive(self, at: I64, time: I64, next_seq: I64, until: int) -> npt.NDArray[np.bool_]:
        if self.only_pins:
            return _among(at, self.pins)
        alive = _alive(self.window, at, time, next_seq, until)
        if len(self.pins):
            dead = np.nonzero(~alive)[0]
            alive[dead] = _among(at[dead], self.pins)
        return alive

    def _consolidate(self, next_seq: I64 | None = None, until: int = -NEVER) -> None:
        if len(self.segments) > 1:
            self.segments = [_merge(self.segments)]
        if next_seq is not None and self.segments:
            s = self.segments[0]
            self.segments = [_select(s, np.nonzero(self._alive(s.at, s.time, next_seq, until))[0])]


def _among(at: I64, pins: I64) -> npt.NDArray[np.bool_]:
    """Which of ``at`` are in ``pins`` (sorted). ``np.isin`` would sort the pins for every chunk."""
    if not len(pins):
        return np.zeros(len(at), bool)
    pos = first_places(pins, at)
    pos[pos == len(pins)] = 0
    among: npt.NDArray[np.bool_] = pins[pos] == at
    return among


def _alive(window: Window, at: I64, time: I64, next_seq: I64, until: int) -> npt.NDArray[np.bool_]:
    alive = np.ones(len(at), bool)
    if window.micros:
        alive &= time >= until - window.micros
    if window.count:
        key, seq = split_address(at)
        alive &= seq >= next_seq[key] - window.count
    return alive


def _add(segments: list[Segment], segment: Segment) -> None:
    """Append a segment. Sizes fall by half from segment to segment: few to search, each row merged about log2(batches) times."""
    segments.append(segment)
    while len(segments) > 1 and 2 * len(segments[-1].at) >= len(segments[-2].at):
        segments[-2:] = [_merge(segments[-2:])]


def _select(s: Segment, index: I64) -> Segment:
    return Segment(s.at[index], s.time[index], s.rows.take(pa.array(index)))


def _merge(segments: list[Segment]) -> Segment:
    at = np.concatenate([s.at for s in segments])
    order = np.argsort(at, kind="stable")
    time = np.concatenate([s.time for s in segments])
    rows = pa.concat_tables([s.rows for s in segments])
    if np.array_equal(order, np.arange(len(order))):
        return Segment(at, time, rows.combine_chunks())
    return Segment(at[order], time[order], rows.take(pa.array(order)).combine_chunks())
