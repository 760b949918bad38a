"""The zone maps of a bucket: which keys have one, and in which slices their arrivals are taken (docs/algorithms D2 "Zone maps").

Between the slices of a key's arrivals its map is extended. The first slice with a map is a short one. Where too many of the objects are
scored all the same, the map is dropped, and tried again after a pause that doubles. All of this depends on counts of pairs, not on times,
and changes the cost only.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from skyband.operators.base import I64, AnyArray
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
    Settings,
)
from skyband.operators.pair_rows.scored import ScoredPairs
from skyband.operators.pair_rows.segments import first_alive_at
from skyband.operators.pair_rows.zone_maps.kernels.tables import GROUP, Zones
from skyband.operators.pair_rows.zone_maps.zone_map import ZoneMap

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
        self._moves = moves

    def new(self) -> ZoneMaps:
        """Return no maps, for the same expression."""
        return ZoneMaps(self.configuration, self._moves)

    def drop_if_moved(self, moves: int) -> None:
        """Drop the maps if texts and sets have moved, whose offsets they hold; ``moves``: how often they have, once in many arrivals."""
        if moves != self._moves:
            self._moves, self.keys = moves, {}

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
