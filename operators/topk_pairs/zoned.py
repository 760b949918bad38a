"""Run a driver with zone maps where they pay, and without where not."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Generic, TypeVar

import numpy as np

from skyband.operators.base import I64, AnyArray
from skyband.operators.pair_rows.kernels.tables import NEXT_SEQ, Advance, Bucket, Progress, Queries, Settings, Skyband
from skyband.operators.pair_rows.segments import instant_after
from skyband.operators.pair_rows.zone_maps.kernels import Zones, no_zones
from skyband.operators.pair_rows.zone_maps.maps import ZoneMaps

R = TypeVar("R", bound=tuple[Any, ...])
"""A NamedTuple of arrays with room for more rows: ``ChangeRows``, or what a shard finds."""
DriverResult = tuple[R, int, Skyband, int, int]
"""What a driver returns: rows and their number, the skybands' arena and its end, the seq before which all is taken."""


class ZonedDriver(Generic[R]):
    """A driver that has been given its scoring: ``driver(settings, more, queries, bucket, progress, advance, work)``, see ``drive``."""

    def __init__(self, driver: Callable[..., DriverResult[R]], maps: ZoneMaps) -> None:
        """``maps``: of the scoring expression; calls change them."""
        self.driver, self.maps = driver, maps

    def _driver_with(self, zones: Zones | None) -> Callable[..., DriverResult[R]]:
        """Return the driver with its scoring."""
        return partial(self.driver, *self.maps.configuration.functions(zones is not None), zones or self._no_zones)

    @property
    def _no_zones(self) -> Zones:
        kernel = self.maps.configuration.kernel
        return no_zones(len(kernel.float_names), len(kernel.int_names))

    def __call__(
        self, settings: Settings, more: Any, queries: Queries, bucket: Bucket, progress: Progress, advance: Advance, work: I64
    ) -> DriverResult[R]:
        """Process all events of ``advance``."""
        worth = self.maps.worth(settings, bucket.keys, advance)
        if not worth.any():
            return self._driver_with(None)(settings, more, queries, bucket, progress, advance, work)
        rows, seq = list[R](), 0
        if not worth.all():
            rest = Advance(advance.keys[~worth], advance.first_new[~worth], advance.since, advance.until)
            found = self._driver_with(None)(settings, more, queries, bucket, progress, rest, work)
            bucket = bucket._replace(skyband=found[2], skyband_end=found[3])
            rows.append(_written(found))
        for key, first_new in zip(advance.keys[worth], advance.first_new[worth], strict=True):
            mine = Advance(np.array([key]), np.array([first_new]), advance.since, advance.until)
            bucket, seq = self._in_slices(settings, more, queries, bucket, progress, mine, work, rows)
        columns = [np.concatenate(column) for column in zip(*rows, strict=True)]
        return _made(rows[0], columns), len(columns[0]), bucket.skyband, bucket.skyband_end, seq

    def _in_slices(
        self, settings: Settings, more: Any, queries: Queries, bucket: Bucket, progress: Progress, advance: Advance, work: I64,
        rows: list[R],
    ) -> tuple[Bucket, int]:  # fmt: skip
        """Process a key's arrivals; append its rows to ``rows``, and return the bucket and the seq before which all is taken."""
        key, at, since = int(advance.keys[0]), int(advance.first_new[0]), advance.since
        stop = int(bucket.keys[key, NEXT_SEQ])
        while at < stop:
            zones, upto = self.maps.next_slice(settings, bucket, key, at, stop)
            until = advance.until if upto == stop else instant_after(bucket, upto, key)
            bucket.keys[key, NEXT_SEQ] = upto
            before, mine = work.copy(), Advance(advance.keys, np.array([at]), since, until)
            found = self._driver_with(zones)(settings, more, queries, bucket, progress, mine, work)
            self.maps.judge(key, upto, work - before)
            bucket = bucket._replace(skyband=found[2], skyband_end=found[3])
            rows.append(_written(found))
            at, since = found[4], until
            if at < upto:
                break
        bucket.keys[key, NEXT_SEQ] = stop
        return bucket, at


def _written(found: DriverResult[R]) -> R:
    return _made(found[0], [column[: found[1]] for column in found[0]])


def _made(like: R, columns: Iterable[AnyArray]) -> R:
    """Return other rows of the same type."""
    return type(like)(*columns)
