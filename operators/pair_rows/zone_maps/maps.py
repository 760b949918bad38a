"""The zone maps of a bucket: which keys have one, and in which slices their arrivals are taken (docs/algorithms D2 "Zone maps").

Between the slices of a key's arrivals its map is extended. The first slice with a map is a short one. Where too many of the objects are
scored all the same, the map is dropped, and tried again after a pause that doubles. All of this depends on counts of pairs, not on times,
and changes the cost only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from skyband.operators.base import F64, I64, AnyArray
from skyband.operators.pair_rows.kernels.tables import (
    BOUNDS,
    FIRST_ALIVE,
    FIRST_STORED,
    INDEXED,
    INDEXED_SCORED,
    NEXT_SEQ,
    REGION_START,
    Advance,
    Bucket,
    Objects,
    Settings,
)
from skyband.operators.pair_rows.scored import ScoredPairs
from skyband.operators.pair_rows.segments import first_alive_at
from skyband.operators.pair_rows.zone_maps.kernels import GROUP, SEGMENT_COLUMNS, Zones, build, no_zones

# The zone map of one key: segments of its window's objects, larger ones for older objects.
#
# The bar that a pair has to reach falls with the age of its older object, and a leaf is tested against the bar of its segment's newest one.
# So a segment is never larger than the number of objects that are newer than it. Segments do not change; four of one size become one.

_TOGETHER = 4
"""Segments of one size that become one, when there are twice as many."""
_LARGEST_SHARE = 4
"""A segment holds at most this part of the objects: all its objects stay until the newest has left the window."""


class _Segment(NamedTuple):
    first: int
    stop: int
    start: int

    @property
    def size(self) -> int:
        return self.stop - self.first


class ZoneMap:
    """Covers the objects from the first alive one up to less than ``GROUP`` before the newest."""

    def __init__(self, floats: int, integers: int) -> None:
        self.zones = no_zones(floats, integers)
        self._segments: list[_Segment] = []
        """The oldest first; each begins where the one before it ends."""
        self._used = np.zeros(0, bool)
        """Which stretches of ``GROUP`` positions are a segment's."""

    def cover(self, objects: Objects, offset: int, first_alive: int, upto: int) -> None:
        """Make the map cover the objects ``first_alive``, ..., but for fewer than ``GROUP``, up to seq ``upto``.

        Object seq is at position seq + ``offset`` of ``objects``. Amortised about half a microsecond an object.
        """
        kept = [s for s in self._segments if first_alive < s.stop <= upto]
        if kept and kept[0].first > first_alive:
            kept = []
        for gone in set(self._segments) - set(kept):
            self._release(gone)
        self._segments = kept
        begin = kept[-1].stop if kept else first_alive
        most = max(GROUP, (upto - first_alive) // _LARGEST_SHARE)
        while upto - begin >= GROUP:
            size = GROUP
            while size * _TOGETHER <= min(most, (upto - begin) // 2):
                size *= _TOGETHER
            columns = slice(begin + offset, begin + offset + size)
            self._add(len(self._segments), objects.floats[:, columns], objects.integers[:, columns], np.arange(begin, begin + size))
            begin += size
        self._merge(most)
        newest_first = [(s.first, s.stop, s.start) for s in reversed(self._segments)]
        self.zones = self.zones._replace(segments=np.array(newest_first, np.int64).reshape(-1, SEGMENT_COLUMNS))

    def _merge(self, most: int) -> None:
        size = GROUP
        while size * _TOGETHER <= most:
            places = [i for i, s in enumerate(self._segments) if s.size == size]
            if len(places) < 2 * _TOGETHER:
                size *= _TOGETHER
                continue
            place = places[0]
            old = self._segments[place : place + _TOGETHER]
            columns = np.concatenate([np.arange(s.start, s.start + s.size) for s in old])
            floats, integers, seqs = self.zones.floats[:, columns], self.zones.integers[:, columns], self.zones.seqs[columns]
            for s in old:
                self._release(s)
            del self._segments[place : place + _TOGETHER]
            self._add(place, floats, integers, seqs)

    def _add(self, place: int, floats: F64, integers: I64, seqs: I64) -> None:
        """Build a segment as number ``place``."""
        start = self._room(len(seqs))
        build(np.ascontiguousarray(floats), np.ascontiguousarray(integers), seqs, start, self.zones)
        first = int(seqs.min())
        self._segments.insert(place, _Segment(first, first + len(seqs), start))

    def _release(self, segment: _Segment) -> None:
        self._used[segment.start // GROUP : (segment.start + segment.size) // GROUP] = False

    def _room(self, size: int) -> int:
        """Return the first position of free ones for ``size`` objects, which are free no more."""
        groups, free = size // GROUP, 0
        for at in range(len(self._used)):
            free = 0 if self._used[at] else free + 1
            if free == groups:
                break
        else:
            at = len(self._used) - free + groups - 1
            self._grow(max(at + 1, 2 * len(self._used)))
        self._used[at + 1 - groups : at + 1] = True
        return (at + 1 - groups) * GROUP

    def _grow(self, groups: int) -> None:
        old, self.zones = self.zones, no_zones(len(self.zones.floats), len(self.zones.integers), groups * GROUP)
        for x, y in zip(old[1:], self.zones[1:], strict=True):
            y[..., : x.shape[-1]] = x
        used = np.zeros(groups, bool)
        used[: len(self._used)] = self._used
        self._used = used


LEAST_OBJECTS = 4096
"""Alive objects of a key with a map, at the least: so many are scored as quickly as they are looked up."""
LEAST_PAIRS = 2**19
"""Pairs of a key's arrivals and their partners, at the least: a call of a driver alone costs as much as some ten thousand."""
TRIAL = 64
"""Arrivals of the first slice, of which a shard searches for its share only: for it, so many times the number of shards."""
SCORED_COST, BOUND_COST = 2, 4
"""What a scored object of a leaf and the bound of a box cost, as a multiple of a scored object of a block."""
FIRST_PAUSE, LONGEST_PAUSE = 8 * GROUP, 64 * GROUP
"""Arrivals without a map after a trial that did not pay: twice as many after each."""


@dataclass
class _OfKey:
    """What is known of a key."""

    map: ZoneMap | None = None
    """Its map, if it has one."""
    kept: bool = False
    """Whether the map has paid."""
    resume: int = 0
    """The seq from which a map is tried."""
    pause: int = FIRST_PAUSE
    """Arrivals without a map after the next one that does not pay."""


class ZoneMaps:
    """The zone maps of a bucket's keys for one scoring expression. Not part of any state: they are built from the windows' objects."""

    def __init__(self, configuration: ScoredPairs, moves: int = 0) -> None:
        """``moves``: how often texts and sets have moved (``drop_if_moved``)."""
        self.configuration = configuration
        self.trial = TRIAL
        self.keys: dict[int, _OfKey] = {}
        self.moves = moves
        """How often texts and sets had moved when maps were built."""

    def new(self) -> ZoneMaps:
        """Return no maps, for the same expression."""
        return ZoneMaps(self.configuration, self.moves)

    def drop_if_moved(self, moves: int) -> None:
        """Drop the maps if texts and sets have moved, whose offsets they hold; ``moves``: how often they have, once in many arrivals."""
        if moves != self.moves:
            self.moves, self.keys = moves, {}

    def worth(self, settings: Settings, keys: I64, advance: Advance) -> AnyArray:
        """Return a mask (m,) of the keys of ``advance`` whose arrivals meet enough objects; ``keys``: the key table."""
        table = keys[advance.keys]
        objects = np.minimum(table[:, NEXT_SEQ] - table[:, FIRST_ALIVE], settings.window_count)
        worth: AnyArray = (objects >= LEAST_OBJECTS) & (objects * (table[:, NEXT_SEQ] - advance.first_new) >= LEAST_PAIRS)
        # Last, as it takes milliseconds the first time, and most windows are small.
        return worth if not worth.any() or self.configuration.has_bounds else np.zeros_like(worth)

    def next_slice(self, settings: Settings, bucket: Bucket, key: int, at: int, stop: int) -> tuple[Zones | None, int]:
        """Return the zones for a key's next arrivals, from seq ``at`` on, and the seq behind the last of them, up to ``stop``."""
        state = self.keys.setdefault(key, _OfKey())
        if at < state.resume:
            return None, min(stop, state.resume)
        first_alive = first_alive_at(settings.window_count, settings.window_micros, bucket, at, key)
        if at - first_alive < LEAST_OBJECTS:
            return None, min(stop, at + LEAST_OBJECTS)
        state.map = state.map or ZoneMap(len(bucket.objects.floats), len(bucket.objects.integers))
        state.map.cover(bucket.objects, int(bucket.keys[key, REGION_START] - bucket.keys[key, FIRST_STORED]), first_alive, at)
        return state.map.zones, min(stop, at + (GROUP if state.kept else self.trial))

    def judge(self, key: int, at: int, work: I64) -> None:
        """Keep or drop a key's map after the slice before seq ``at``; ``work``: the work counters of the slice."""
        state, indexed = self.keys[key], int(work[INDEXED])
        if SCORED_COST * work[INDEXED_SCORED] + BOUND_COST * work[BOUNDS] > indexed:
            state.map, state.kept, state.resume = None, False, at + state.pause
            state.pause = min(2 * state.pause, LONGEST_PAUSE)
        elif indexed:
            state.kept, state.pause = True, FIRST_PAUSE
