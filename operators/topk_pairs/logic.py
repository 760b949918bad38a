"""The state and logic of ``TopKPairs`` and ``CappedTopKPairs``, whole or of a shard: every partner in the window is scored, but for those
that a hash index or a zone map excludes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from typing import Any, Generic, Protocol, TypeVar, cast

import numpy as np

from skyband.operators import jit
from skyband.operators.base import F64, AnyArray, Arrivals, State
from skyband.operators.expressions.compile import bound_type, count_type, score_type
from skyband.operators.pair_rows.capped.kernels import walk
from skyband.operators.pair_rows.capped.limits import Limits, limits_of
from skyband.operators.pair_rows.hash_index.index import no_index
from skyband.operators.pair_rows.kernels.found import drive_capped_found
from skyband.operators.pair_rows.kernels.share import OwnBlocks, ShardRows
from skyband.operators.pair_rows.kernels.tables import NEXT_SEQ, Advance, Bucket, ChangeRows, Pairs, Skyband, Task
from skyband.operators.pair_rows.logic import PairConfiguration, PairRowsLogic, no_task, sub_batch
from skyband.operators.pair_rows.segments import DriverResult, instant_after, run_segments, segments
from skyband.operators.pair_rows.shard import FoundPairsLogic, SkybandShard, compiled_merge, found_rows
from skyband.operators.pair_rows.shortcuts import Shortcuts
from skyband.operators.pair_rows.zone_maps.kernels import Zones, no_zones
from skyband.operators.shards import Share
from skyband.operators.topk_pairs import long_runs
from skyband.operators.topk_pairs.configuration import CappedTopKPairsConfiguration, TopKPairsConfiguration
from skyband.operators.topk_pairs.kernels import CappedShare, drive, drive_capped, drive_capped_shard, drive_shard

R = TypeVar("R", bound=tuple[Any, ...])
"""A NamedTuple of arrays with room for more rows: ``ChangeRows``, or what a shard finds."""
ZonedResult = tuple[R, int, Skyband, int, int]
"""What a driver returns: rows and their number, the skybands' arena and its end, the seq before which all is taken."""


# The compiled drivers: one for each that is needed, for all scoring expressions.


def compiled_driver(function: Callable[..., Any], more: Any) -> Callable[..., Any]:
    """Compile a driver with the arguments of ``drive``, one of the type of ``more`` before the task, for just these types."""
    from numba import typeof

    signature = (count_type(), score_type(), count_type(), score_type(), bound_type(), bound_type())
    compiled: Callable[..., Any] = jit.jit((*signature, *map(typeof, (no_zones(0, 0), no_index(), more, no_task()))))(function)
    return compiled


@cache
def driver() -> Callable[..., Any]:
    """Return ``drive``, compiled: its signature is the types of its tables."""
    return compiled_driver(drive, 0.0) if jit.HAVE_NUMBA else drive


@cache
def capped_driver() -> Callable[..., Any]:
    """Return ``drive_capped``, compiled."""
    return compiled_driver(drive_capped, Limits(0, 0, 0, 0)) if jit.HAVE_NUMBA else drive_capped


@cache
def shard_driver() -> Callable[..., Any]:
    """Return ``drive_shard``, compiled."""
    return compiled_driver(drive_shard, OwnBlocks(0, 1, 1)) if jit.HAVE_NUMBA else drive_shard


@cache
def capped_shard_driver() -> Callable[..., Any]:
    """Return ``drive_capped_shard``, compiled."""
    share = CappedShare(Limits(0, 0, 0, 0), OwnBlocks(0, 1, 1))
    return compiled_driver(drive_capped_shard, share) if jit.HAVE_NUMBA else drive_capped_shard


@cache
def capped_merge_driver() -> Callable[..., Any]:
    """Return ``drive_capped_found``, compiled."""
    return compiled_merge(drive_capped_found, Limits(0, 0, 0, 0)) if jit.HAVE_NUMBA else drive_capped_found


class ZonedDriver(Generic[R]):
    """Run a driver with the hash index and zone maps where they pay, and without where not."""

    def __init__(self, driver: Callable[..., Any], shortcuts: Shortcuts) -> None:
        """``driver`` takes the scoring, zones, the index, an argument of its own and a task, as ``drive``; ``shortcuts``: calls change
        them."""
        self.driver, self.shortcuts = driver, shortcuts

    def _drive(self, zones: Zones | None, more: Any, task: Task) -> ZonedResult[R]:
        """Call the driver with its scoring."""
        shortcuts = self.shortcuts
        shortcuts.grow(len(task.bucket.keys))
        functions = shortcuts.configuration.functions(zones is not None)
        task = task._replace(settings=shortcuts.settings_for(task.settings, task.advance.keys))
        *result, shortcuts.index = self.driver(*functions, zones or self._no_zones, shortcuts.index, more, task)
        return cast(ZonedResult[R], tuple(result))

    @property
    def _no_zones(self) -> Zones:
        kernel = self.shortcuts.configuration.kernel
        return no_zones(len(kernel.float_names), len(kernel.int_names))

    def __call__(self, more: Any, task: Task) -> ZonedResult[R]:
        """Process all events of a task; ``more``: the driver's argument before it."""
        keys, advance = task.bucket.keys, task.advance
        worth = self.shortcuts.worth(task.settings, keys, advance)
        if not worth.any():
            return self._drive(None, more, task)
        rows, seq = list[R](), 0
        if not worth.all():
            rest = Advance(advance.keys[~worth], advance.first_new[~worth], advance.since, advance.until)
            result = self._drive(None, more, task._replace(advance=rest))
            task = _after(task, result)
            rows.append(_written(result))
        for key, first_new in zip(advance.keys[worth], advance.first_new[worth], strict=True):
            mine = Advance(np.array([key]), np.array([first_new]), advance.since, advance.until)
            task, seq = self._in_slices(more, task._replace(advance=mine), rows)
        columns = [np.concatenate(column) for column in zip(*rows, strict=True)]
        return _rows_like(rows[0], columns), len(columns[0]), task.bucket.skyband, task.bucket.skyband_end, seq

    def _in_slices(self, more: Any, task: Task, rows: list[R]) -> tuple[Task, int]:
        """Process a key's arrivals; append its rows to ``rows``, and return the task with its bucket and the seq before which all is
        taken."""
        advance, keys = task.advance, task.bucket.keys
        key, seq, since = int(advance.keys[0]), int(advance.first_new[0]), advance.since
        stop = int(keys[key, NEXT_SEQ])
        while seq < stop:
            zones, upto = self.shortcuts.next_slice(task.settings, task.bucket, key, seq, stop)
            until = advance.until if upto == stop else instant_after(task.bucket, upto, key)
            keys[key, NEXT_SEQ] = upto
            before = task.work.copy()
            result = self._drive(zones, more, task._replace(advance=Advance(advance.keys, np.array([seq]), since, until)))
            self.shortcuts.judge(zones, key, upto, task.work - before)
            task = _after(task, result)
            rows.append(_written(result))
            seq, since = result[4], until
            if seq < upto:
                break
        keys[key, NEXT_SEQ] = stop
        return task, seq


def _after(task: Task, result: ZonedResult[R]) -> Task:
    """Return the task with the skybands that a driver returned."""
    return task._replace(bucket=task.bucket._replace(skyband=result[2], skyband_end=result[3]))


def _written(result: ZonedResult[R]) -> R:
    return _rows_like(result[0], [column[: result[1]] for column in result[0]])


def _rows_like(like: R, columns: Iterable[AnyArray]) -> R:
    """Return other rows of the same type."""
    return type(like)(*columns)


# All events, with and without a cap per object.


class PairsLogic(PairRowsLogic):
    """About N vectorised scores per arrival, O(k) per change."""

    def __init__(self, configuration: TopKPairsConfiguration, state: State | None) -> None:
        self.scored = configuration
        self.shortcuts = Shortcuts(configuration)
        super().__init__(configuration, state)
        self.settings = self.settings._replace(costly=int(configuration.costly))

    def _run(self, arrivals: Arrivals, bucket: Bucket, advance: Advance) -> tuple[ChangeRows, int, Skyband, int]:
        task = self._task(bucket, advance)
        self.shortcuts.drop_if_moved(self.windows.pool.moves)
        parts = segments(task)
        if not parts:
            return long_runs.run(ZonedDriver(driver(), self.shortcuts), task)
        shortcuts = self.shortcuts
        shortcuts.grow(len(bucket.keys))
        rows, written, skyband, end, self.shortcuts = run_segments(self._run_segment, task, shortcuts, parts, shortcuts.new)
        return rows, written, skyband, end

    def _run_segment(self, task: Task, shortcuts: Shortcuts) -> DriverResult[Shortcuts]:
        return (*long_runs.run(ZonedDriver(driver(), shortcuts), task), shortcuts)

    def _unusable(self, arrivals: Arrivals) -> AnyArray:
        return self.scored.unusable(arrivals)

    def _external(self, score: F64) -> F64:
        return self.scored.external(score)


class CappedConfiguration(PairConfiguration, Protocol):
    """The part of an operator's configuration that ``CappedLogic`` reads."""

    @property
    def max_per_object(self) -> int:
        """Return the pairs of a result that an object may be in, 1 to K."""
        ...


class CappedLogic(PairRowsLogic):
    """A ``PairRowsLogic`` with another staircase, which the checkpoint keeps, and with results by a greedy walk.

    The state may hold more than results need, depending on how the stream is cut, so it makes no table.
    """

    def __init__(self, configuration: CappedConfiguration, state: State | None) -> None:
        self.limits = limits_of(configuration.max_per_object, configuration.keep_k)
        super().__init__(configuration, state)
        # The state is larger than a plain one, and a pass over it costs more: longer sub-batches pay.
        self.settings = self.settings._replace(sub_batch=3 * sub_batch(self.limits.chosen))

    def checkpoint(self) -> dict[str, AnyArray]:
        """Return the checkpoint of ``PairRowsLogic`` with the staircase."""
        _, at = self._alive()
        return {**super().checkpoint(), "sky_stair": self.skybands.stair[at]}

    def _stair(self, state: State, scores: F64) -> F64:
        stair: F64 = np.array(state.arrays["sky_stair"], np.float64)
        return stair

    def _best(self, pairs: Pairs, k: int) -> Pairs:
        best = Pairs(np.empty(k), np.empty(k, np.int64), np.empty(k, np.int64))
        first = int(pairs.older.min(initial=0 if not len(pairs.older) else pairs.older[0]))
        marks = np.zeros(int((pairs.newer >> 1).max(initial=first)) - first + 1, np.int64)
        taken = walk(pairs, len(pairs.score), k, self.limits.cap, first, marks, best)
        return Pairs(best.score[:taken], best.older[:taken], best.newer[:taken])


class CappedPairsLogic(PairsLogic, CappedLogic):
    """About N vectorised scores per arrival, O(state) per change."""

    def __init__(self, configuration: CappedTopKPairsConfiguration, state: State | None) -> None:
        super().__init__(configuration, state)
        # Its sub-batches are long anyway, and a walk needs the pairs of their arrivals apart from others.
        self.shortcuts.sub_batch = 0

    def _run(self, arrivals: Arrivals, bucket: Bucket, advance: Advance) -> tuple[ChangeRows, int, Skyband, int]:
        self.shortcuts.drop_if_moved(self.windows.pool.moves)
        run: ZonedDriver[ChangeRows] = ZonedDriver(capped_driver(), self.shortcuts)
        return run(self.limits, self._task(bucket, advance))[:4]


# Shards and merges (docs/algorithms D6).


class PairsShard(SkybandShard, PairsLogic):
    """One shard of ``TopKPairs``."""

    def __init__(self, configuration: TopKPairsConfiguration, share: Share, state: State | None) -> None:
        self.share = share
        super().__init__(configuration, state)
        # A trial needs arrivals of the share.
        self.shortcuts.maps.trial *= share.of
        # Of pairs of arrivals of one sub-batch more are sent on in vain.
        self.shortcuts.sub_batch = 0

    def _find(self, _arrivals: Arrivals, bucket: Bucket, advance: Advance) -> tuple[ShardRows, int, Skyband, int]:
        return self._zoned(shard_driver(), self._own, bucket, advance)

    def _zoned(self, driver: Callable[..., Any], more: Any, bucket: Bucket, advance: Advance) -> tuple[ShardRows, int, Skyband, int]:
        self.shortcuts.drop_if_moved(self.windows.pool.moves)
        run: ZonedDriver[ShardRows] = ZonedDriver(driver, self.shortcuts)
        return run(more, self._task(bucket, advance))[:4]


class CappedPairsShard(PairsShard, CappedPairsLogic):
    """One shard of ``CappedTopKPairs``. Its limits hold for the pairs of its share alone, too (docs/algorithms Theorem D).

    It sends what the staircase of a sub-batch's start lets pass, and all pairs among the arrivals of the sub-batch.
    """

    def _find(self, _arrivals: Arrivals, bucket: Bucket, advance: Advance) -> tuple[ShardRows, int, Skyband, int]:
        return self._zoned(capped_shard_driver(), CappedShare(self.limits, self._own), bucket, advance)


class PairsMerge(FoundPairsLogic, PairsLogic):
    """The state of ``PairsLogic``, of pairs that shards found."""


class CappedPairsMerge(CappedPairsLogic):
    """The state of ``CappedPairsLogic``, of pairs that shards found."""

    def _run(self, arrivals: Arrivals, bucket: Bucket, advance: Advance) -> tuple[ChangeRows, int, Skyband, int]:
        found = found_rows(arrivals, advance, len(bucket.keys))
        rows, written, skyband, end = capped_merge_driver()(self.limits, found, self._task(bucket, advance))
        return rows, written, skyband, end
