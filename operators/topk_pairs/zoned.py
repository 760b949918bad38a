"""Run a driver with a zone map for every key whose arrivals meet enough objects (docs/algorithms D2 "Zone maps").

A key's arrivals are taken in slices, between which its map is extended. The first slice with a map is a short one. Where too many of the
objects are scored all the same, the map is dropped, and tried again after a pause that doubles. All of this depends on counts of pairs,
not on times, and changes the cost only.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from skyband.operators.base import I64
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
    ChangeRows,
    Progress,
    Queries,
    Settings,
    Skyband,
)
from skyband.operators.pair_rows.segments import first_alive_at, instant_after
from skyband.operators.topk_pairs.configuration import TopKPairsConfiguration
from skyband.operators.zone_maps.kernels.tables import GROUP, no_zones
from skyband.operators.zone_maps.zone_map import ZoneMap

LEAST_OBJECTS = 4096
"""Alive objects of a key with a map, at the least: so many are scored as quickly as they are looked up."""
LEAST_PAIRS = 2**19
"""Pairs of a key's arrivals and their partners, at the least: a call of the driver alone costs as much as some ten thousand."""
TRIAL = 64
"""Arrivals of the first slice."""
SCORED_COST, BOUND_COST = 2, 4
"""What a scored object of a leaf and the bound of a box cost, as a multiple of a scored object of a block."""
FIRST_PAUSE, LONGEST_PAUSE = 8 * GROUP, 64 * GROUP
"""Arrivals without a map after a trial that did not pay: twice as many after each."""

DriverResult = tuple[ChangeRows, int, Skyband, int, int]
"""What a driver returns: change rows and their number, the skybands' arena and its end, the seq before which all is taken."""


@dataclass
class KeyZones:
    """The zone map of a key, if it has one."""

    map: ZoneMap | None = None
    """Its map."""
    kept: bool = False
    """Whether the map has paid."""
    resume: int = 0
    """The seq from which a map is tried."""
    pause: int = FIRST_PAUSE
    """Arrivals without a map when the next one does not pay."""

    def judge(self, at: int, indexed: int, scored: int, bounds: int) -> None:
        """Keep or drop the map after the arrivals before ``at``, which met ``indexed`` objects of it and scored ``scored``."""
        if SCORED_COST * scored + BOUND_COST * bounds > indexed:
            self.map, self.kept, self.resume = None, False, at + self.pause
            self.pause = min(2 * self.pause, LONGEST_PAUSE)
        elif indexed:
            self.kept, self.pause = True, FIRST_PAUSE


class ZonedDriver:
    """A driver that has been given its scoring: ``driver(settings, more, queries, bucket, progress, advance, work)``, see ``drive``."""

    def __init__(self, driver: Callable[..., DriverResult], configuration: TopKPairsConfiguration, keys: dict[int, KeyZones]) -> None:
        """``keys``: the zone maps, which calls change."""
        self.driver, self.configuration, self.keys = driver, configuration, keys
        self.kernel = configuration.kernel
        self.kernel_of_a = self.kernel if configuration.between is None else self.kernel.swapped
        """Of an arrival that is a pair's ``a``: only with sides."""

    @property
    def _scoring(self) -> tuple[Any, ...]:
        as_a, as_b = self.kernel_of_a, self.kernel
        return as_a.count_block, as_a.score_block, as_b.count_block, as_b.score_block

    @property
    def _plain(self) -> Callable[..., DriverResult]:
        """The driver without zones; functions of the same type stand for the bounds."""
        scoring = self._scoring
        zones = no_zones(len(self.kernel.float_names), len(self.kernel.int_names))
        return partial(self.driver, *scoring, scoring[1], scoring[3], zones)

    def __call__(
        self, settings: Settings, more: Any, queries: Queries, bucket: Bucket, progress: Progress, advance: Advance, work: I64
    ) -> DriverResult:
        """Process all events of ``advance``."""
        large = self._large(settings, bucket, advance)
        if not large.any():
            return self._plain(settings, more, queries, bucket, progress, advance, work)
        rows, seq = [], 0
        if not large.all():
            rest = Advance(advance.keys[~large], advance.first_new[~large], advance.since, advance.until)
            found = self._plain(settings, more, queries, bucket, progress, rest, work)
            bucket = bucket._replace(skyband=found[2], skyband_end=found[3])
            rows.append(_written(found))
        for key, first_new in zip(advance.keys[large], advance.first_new[large], strict=True):
            mine = Advance(np.array([key]), np.array([first_new]), advance.since, advance.until)
            bucket, seq = self._in_slices(settings, more, queries, bucket, progress, mine, work, rows)
        fields, scores = np.concatenate([r.fields for r in rows]), np.concatenate([r.score for r in rows])
        return ChangeRows(fields, scores), len(scores), bucket.skyband, bucket.skyband_end, seq

    def _large(self, settings: Settings, bucket: Bucket, advance: Advance) -> Any:
        """Return which of the keys (m,) are worth a map."""
        if not self.configuration.has_bounds:
            return np.zeros(len(advance.keys), bool)
        table = bucket.keys[advance.keys]
        objects = np.minimum(table[:, NEXT_SEQ] - table[:, FIRST_ALIVE], settings.window_count)
        return (objects >= LEAST_OBJECTS) & (objects * (table[:, NEXT_SEQ] - advance.first_new) >= LEAST_PAIRS)

    def _in_slices(
        self, settings: Settings, more: Any, queries: Queries, bucket: Bucket, progress: Progress, advance: Advance, work: I64,
        rows: list[ChangeRows],
    ) -> tuple[Bucket, int]:  # fmt: skip
        """Process a key's arrivals; append its change rows to ``rows``, and return the bucket and the seq before which all is taken."""
        key, at = int(advance.keys[0]), int(advance.first_new[0])
        stop, since, state = int(bucket.keys[key, NEXT_SEQ]), advance.since, self.keys.setdefault(key, KeyZones())
        while at < stop:
            driver, upto = self._next_slice(settings, bucket, key, at, stop, state)
            until = advance.until if upto == stop else instant_after(bucket, upto, key)
            bucket.keys[key, NEXT_SEQ] = upto
            before = work.copy()
            found = driver(settings, more, queries, bucket, progress, Advance(advance.keys, np.array([at]), since, until), work)
            state.judge(upto, *(work - before)[[INDEXED, INDEXED_SCORED, BOUNDS]].tolist())
            bucket = bucket._replace(skyband=found[2], skyband_end=found[3])
            rows.append(_written(found))
            at, since = found[4], until
            if at < upto:
                break
        bucket.keys[key, NEXT_SEQ] = stop
        return bucket, at

    def _next_slice(
        self, settings: Settings, bucket: Bucket, key: int, at: int, stop: int, state: KeyZones
    ) -> tuple[Callable[..., DriverResult], int]:
        """Return the driver for the arrivals from ``at`` on, and the seq behind the last of them."""
        if at < state.resume:
            return self._plain, min(stop, state.resume)
        first_alive = first_alive_at(settings.window_count, settings.window_micros, bucket, at, key)
        if at - first_alive < LEAST_OBJECTS:
            return self._plain, min(stop, at + LEAST_OBJECTS)
        scoring, floats, integers = self._scoring, len(self.kernel.float_names), len(self.kernel.int_names)
        state.map = state.map or ZoneMap(floats, integers)
        offset = int(bucket.keys[key, REGION_START] - bucket.keys[key, FIRST_STORED])
        state.map.cover(bucket.objects, offset, first_alive, at)
        driver = partial(self.driver, *scoring, self.kernel_of_a.bound_block, self.kernel.bound_block, state.map.zones)
        return driver, min(stop, at + (GROUP if state.kept else TRIAL))


def _written(found: DriverResult) -> ChangeRows:
    return ChangeRows(found[0].fields[: found[1]], found[0].score[: found[1]])
