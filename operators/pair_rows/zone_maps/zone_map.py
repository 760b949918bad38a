"""The zone map of one key: segments of its window's objects, larger ones for older objects.

The bar that a pair has to reach falls with the age of its older object, and a leaf is tested against the bar of its segment's newest one.
So a segment is never larger than the number of objects that are newer than it. Segments do not change; four of one size become one.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from skyband.operators.base import F64, I64
from skyband.operators.pair_rows.kernels.tables import Objects
from skyband.operators.pair_rows.zone_maps.kernels.build import build
from skyband.operators.pair_rows.zone_maps.kernels.tables import GROUP, SEGMENT_COLUMNS, no_zones

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
