"""How a search for partners passes over objects of the window: the hash indexes and the zone maps of a bucket's keys.

None of it is part of a state: it is built from the windows' objects. Which is used depends on counts of objects, not on times.
"""

from __future__ import annotations

from typing import Final

from skyband.operators.base import I64, AnyArray
from skyband.operators.pair_rows.hash_index.index import grown, new_index
from skyband.operators.pair_rows.hash_index.kernels import PAUSE, RESUME, SIZE
from skyband.operators.pair_rows.kernels.tables import FIRST_ALIVE, Advance, Bucket, Settings
from skyband.operators.pair_rows.scored import ScoredPairs
from skyband.operators.pair_rows.zone_maps.kernels import GROUP, Zones
from skyband.operators.pair_rows.zone_maps.maps import ZoneMaps

INDEXED: Final = 8 * GROUP
"""Arrivals of a slice whose partners an index finds."""
SUB_BATCH: Final = 256
"""Arrivals of a sub-batch whose candidates an index finds."""


class Shortcuts:
    """Those for one scoring expression and condition."""

    def __init__(self, configuration: ScoredPairs, maps: ZoneMaps | None = None) -> None:
        self.configuration = configuration
        self.maps = maps or ZoneMaps(configuration)
        self.index = new_index(configuration.equalities, configuration.kernel)
        """Calls of drivers return another one."""
        self.sub_batch = SUB_BATCH
        """Arrivals of a sub-batch whose candidates the index finds, or 0 for as many as with a scan."""

    def new(self) -> Shortcuts:
        """Return shortcuts without objects, for the same expression and keys."""
        found = Shortcuts(self.configuration, self.maps.new())
        found.index = grown(found.index, len(self.index.regions))
        return found

    def grow(self, keys: int) -> None:
        """Make room for ``keys`` keys."""
        self.index = grown(self.index, keys)

    def drop_if_moved(self, moves: int) -> None:
        """Drop everything if texts and sets have moved, whose offsets it holds; ``moves``: how often they have."""
        if self.maps.moves != moves:
            self.index = grown(new_index(self.configuration.equalities, self.configuration.kernel), len(self.index.regions))
        self.maps.drop_if_moved(moves)

    def settings_for(self, settings: Settings, keys: I64) -> Settings:
        """Return the settings with which a K-skyband takes the next arrivals of ``keys``: in long sub-batches if the index finds them.

        Few candidates come from an index, so a pass over the skyband costs more than what they have in common.
        """
        if not len(self.index.columns.a) or not self.sub_batch:
            return settings
        region = self.index.regions[keys]
        if (region[:, SIZE] == 0).any() or (region[:, PAUSE] > 0).any():
            return settings
        return settings._replace(sub_batch=max(self.sub_batch, settings.sub_batch), apart=0)

    def worth(self, settings: Settings, keys: I64, advance: Advance) -> AnyArray:
        """Return a mask of the keys of ``advance`` whose arrivals are taken in slices, as ``ZoneMaps.worth``."""
        return self.maps.worth(settings, keys, advance)

    def next_slice(self, settings: Settings, bucket: Bucket, key: int, at: int, stop: int) -> tuple[Zones | None, int]:
        """Return the zones for a key's next arrivals and where they end, as ``ZoneMaps.next_slice``; no zones if the index is used."""
        if not len(self.index.columns.a) or at - bucket.keys[key, FIRST_ALIVE] < self.index.use.least:
            return self.maps.next_slice(settings, bucket, key, at, stop)
        self.grow(len(bucket.keys))
        region = self.index.regions[key]
        if at < region[RESUME]:
            return self.maps.next_slice(settings, bucket, key, at, min(stop, int(region[RESUME])))
        untried = region[SIZE] == 0 or region[PAUSE] > 0
        return None, min(stop, at + (self.maps.trial if untried else INDEXED))

    def judge(self, zones: Zones | None, key: int, at: int, work: I64) -> None:
        """Keep or drop a key's map after the slice with ``zones`` before seq ``at``, as ``ZoneMaps.judge``."""
        if zones is not None:
            self.maps.judge(key, at, work)
