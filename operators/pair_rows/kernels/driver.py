"""The driver of the operators that keep pairs: a finder, a keeper and a scope, compiled for each combination that an operator uses.

* A *finder* finds the candidates of a sub-batch: a search by score (a hash index of equal columns, or a scan with zone maps), an index of
  sets, or the pairs that shards found (``found``). The first two are in the packages of the operators that use them.
* A *keeper* has what is kept of every key's pairs, and answers the queries from it: a K-skyband (``SKYBAND``), or a state with a cap on the
  pairs of an object (``CAPPED``).
* The *scope* is all events of an ``advance`` (``events_driver``), or the share of a shard, without queries (``shard_driver``).

Finders and keepers are NamedTuples of tables. Their kernels take one as the first argument, and return it, perhaps with new arrays.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from skyband.operators.jit import maker
from skyband.operators.pair_rows.capped import kernels as capped
from skyband.operators.pair_rows.kernels import sub_batch
from skyband.operators.pair_rows.kernels.lists import enough
from skyband.operators.pair_rows.kernels.share import Outbox, OwnBlocks, ShardRows, end_of_block, next_own, pass_over, send_pairs
from skyband.operators.pair_rows.kernels.sub_batch import ChangeBuffer, next_sub_batch, no_changes, no_lists, wake_times
from skyband.operators.pair_rows.kernels.tables import (
    FIRST_ALIVE,
    FIRST_STORED,
    NEXT_SEQ,
    REGION_START,
    SHORT,
    ChangeRows,
    Place,
    Replay,
    Sources,
    Task,
    history_of,
    new_sub_batch,
    skyband_of,
)


class Finder(NamedTuple):
    """The kernels of a finder, which has the field ``candidates``."""

    find: Callable[..., Any]
    """``find(finder, task, place, batch, skyband)``: the finder with the candidates of a sub-batch, and whether the skyband may change.

    A negative number of candidates stands for more than there may be. ``skyband``: the key's before the sub-batch.
    """
    pass_over: Callable[..., Any]
    """``pass_over(finder, task, place, first, stop)``: the finder after arrivals that other shards search for, of seqs [first, stop)."""


class Keeper(NamedTuple):
    """The kernels of a keeper, which has the fields ``skyband`` and ``end`` of ``Bucket``."""

    fill_lists: Callable[..., Any]
    """``fill_lists(keeper, queries, history, upto, instant, skyband, lists)``: fill the lists of a key's queries as of an instant."""
    replay: Callable[..., Any]
    """``replay(keeper, replay, changes)``: the keeper, and the changes with those of a sub-batch."""
    merge: Callable[..., Any]
    """``merge(keeper, keys, key, history, first_alive, sources)``: the keeper with the pairs of a sub-batch."""


SKYBAND = Keeper(sub_batch.fill_from_skyband, sub_batch.replay_queries, sub_batch.merge_sub_batch)
CAPPED = Keeper(capped.fill_from_state, capped.replay_queries, capped.merge_sub_batch)


def events_driver(finder_kernels: Finder, keeper_kernels: Keeper) -> Callable[..., tuple[ChangeRows, int, Any, Any, int]]:
    """Return the kernel ``run(task, finder, keeper, scored)`` that processes all events of a task, sub-batch by sub-batch.

    ``scored``: the arrivals of a sub-batch whose pairs with each other go to ``SubBatch.scores``, 0 or all.

    ``run`` returns change rows and their number, keeper and finder, and the seq before which all is taken of the last key. It ends before a
    sub-batch with too many candidates, or one that leaves too few pairs in a list that is ``partial``.
    """
    find, fill_lists, replay, merge = finder_kernels.find, *keeper_kernels

    @maker
    def run(task: Task, finder: Any, keeper: Any, scored: int) -> tuple[ChangeRows, int, Any, Any, int]:
        settings, queries, progress, advance, work = task.settings, task.queries, task.progress, task.advance, task.work
        keys, objects = task.bucket.keys, task.bucket.objects
        changes, lists = no_changes(), no_lists(queries)
        batch = new_sub_batch(settings.sub_batch, scored, objects.floats.shape[0], objects.integers.shape[0])
        steps, seq = np.zeros(len(queries.k), np.int64), 0
        for g in range(len(advance.keys)):
            key, seq = advance.keys[g], advance.first_new[g]
            history, place = history_of(keys, key, objects.times), Place(g, key, keys[key, REGION_START] - keys[key, FIRST_STORED])
            keeper = fill_lists(keeper, queries, history, seq, advance.since - 1, skyband_of(keys, key, keeper.skyband), lists)
            while enough(queries, lists):
                batch, first_alive = next_sub_batch(settings, keys, key, seq, advance.until, objects, batch)
                skyband = skyband_of(keys, key, keeper.skyband)
                finder, may_change = find(finder, task, place, batch, skyband)
                if finder.candidates.found < 0:
                    break
                sources = Sources(batch, finder.candidates, skyband)
                steps[:], written, short = progress.step[:, key], changes.written, work[SHORT]
                keeper, changes = replay(keeper, Replay(key, queries, history, sources, lists, progress, work), changes)
                if work[SHORT] > short:
                    progress.step[:, key], changes = steps, ChangeBuffer(changes.rows, written)
                    break
                if may_change:
                    keeper = merge(keeper, keys, key, history, first_alive, sources)
                else:
                    keys[key, FIRST_ALIVE] = first_alive
                seq += batch.size
                if batch.last:
                    break
            wake_times(key, queries, history, lists, progress)
        return changes.rows, changes.written, keeper, finder, seq

    return run


def shard_driver(finder_kernels: Finder, keeper_kernels: Keeper) -> Callable[..., tuple[ShardRows, int, Any, Any, int]]:
    """Return the kernel ``run(task, own, finder, keeper, outbox)`` that finds the pairs of the arrivals of a task that are the shard's.

    It returns the pairs to send and their number, keeper and finder, and the seq before which all is taken of the last key.
    """
    find, pass_others, merge = finder_kernels.find, finder_kernels.pass_over, keeper_kernels.merge

    @maker
    def run(task: Task, own: OwnBlocks, finder: Any, keeper: Any, outbox: Outbox) -> tuple[ShardRows, int, Any, Any, int]:
        settings, advance = task.settings, task.advance
        keys, objects = task.bucket.keys, task.bucket.objects
        batch = new_sub_batch(settings.sub_batch, settings.sub_batch, objects.floats.shape[0], objects.integers.shape[0])
        seq = 0
        for g in range(len(advance.keys)):
            key, seq = advance.keys[g], advance.first_new[g]
            history, place = history_of(keys, key, objects.times), Place(g, key, keys[key, REGION_START] - keys[key, FIRST_STORED])
            stop = keys[key, NEXT_SEQ]
            while seq < stop:
                mine = min(stop, next_own(own, key, seq))
                finder = pass_others(finder, task, place, seq, mine)
                seq = mine
                if seq == stop:
                    break
                keys[key, NEXT_SEQ] = min(stop, end_of_block(own, seq))
                batch, first_alive = next_sub_batch(settings, keys, key, seq, advance.until, objects, batch)
                keys[key, NEXT_SEQ] = stop
                skyband = skyband_of(keys, key, keeper.skyband)
                finder, _ = find(finder, task, place, batch, skyband)
                sources = Sources(batch, finder.candidates, skyband)
                outbox = send_pairs(outbox, own, key, sources)
                keeper = merge(keeper, keys, key, history, first_alive, sources)
                seq += batch.size
            pass_over(settings, keys, key, history)
        return outbox.rows, outbox.written, keeper, finder, seq

    return run
