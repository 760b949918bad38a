"""The tables of the pair kernels: NamedTuples of typed arrays (Numba takes, builds and returns them) and columns of integer tables.

Shapes use: keys = keys of the bucket, queries = queries of the state, K = pairs kept, S = largest sub-batch, size = capacity of a buffer.

A pair is (score, older, newer): its internal score (smaller is better), the seq of its older object, and twice the seq of its newer object,
plus 1 if that one is the pair's ``a`` (with ``between``). Rank order is smaller score, then larger older, then larger newer.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from skyband.operators.base import F64, I64
from skyband.operators.jit import inner, maker
from skyband.operators.shards import BLOCK

REGION_START, REGION_CAPACITY, FIRST_STORED, NEXT_SEQ, FIRST_ALIVE, SKYBAND_START, SKYBAND_CAPACITY, SKYBAND_LENGTH, KEY_COLUMNS = range(9)
"""Columns of the key table, int64 (keys, 8): the region of the key's objects in the arena; the first seq in it; the next seq to come; the
first seq alive in the largest window; the region of its skyband in the skybands' arena. Object seq is at position
REGION_START + seq - FIRST_STORED."""

QUERY, KEY, AT, STEP, POSITION, SIGN, CAUSE, OLDER, NEWER, CHANGE_COLUMNS = range(10)
"""Columns of the change rows' integers, in the order of ``Changes``; OLDER and NEWER as of a pair."""

SCORED, FOUND, REFILLS, SHORT, INDEXED, INDEXED_SCORED, BOUNDS, COUNTERS = range(8)
"""Entries of the work counters, int64 (COUNTERS,): scored pairs, candidates, refills of a list, events that left too few pairs
in one that is ``Queries.partial``; pairs with objects of a zone map, those of them that were scored, and bounds of boxes (a call
counts as some more)."""

IS_B, IS_A, IS_NEITHER = range(3)
"""The side of an arrival: which of the pair's objects it is."""


class Settings(NamedTuple):
    """What is fixed over a state's life. All int64."""

    keep_k: int
    """K, the pairs the skyband keeps for any window."""
    window_count: int
    """The largest window's objects, or ``UNBOUNDED``."""
    window_micros: int
    """The largest window's microseconds, or ``UNBOUNDED``."""
    sub_batch: int
    """S, the arrivals of a key that are taken together."""
    side_row: int
    """The row of ``Objects.integers`` that holds an object's side, or -1 without ``between``."""
    code_a: int
    """What that row holds for side a."""
    code_b: int
    """What that row holds for side b."""
    own_floats: int = 0
    """The last rows of ``Objects.floats`` that kernels of the score do not read (``windows.Marks``)."""
    own_integers: int = 0
    """The last rows of ``Objects.integers`` that they do not read: the last one is then ``deletions.UNTIL``."""
    costly: int = 0
    """1 if a score costs much more than to write and read it: blocks of partners are not counted before they are scored. Else 0."""
    shard: int = 0
    """The number of this shard (``shards.Share``)."""
    shards: int = 1
    """How many shards search for the partners of arrivals."""
    apart: int = 1
    """1 if the pairs of two arrivals of a sub-batch go to ``SubBatch.scores``; 0 if they are among its candidates."""


class Queries(NamedTuple):
    """The queries of a state, fixed over its life. All of shape (queries,)."""

    k: I64
    """int64: pairs in the list."""
    window_count: I64
    """int64: objects of the window, or ``UNBOUNDED``."""
    window_micros: I64
    """int64: microseconds of the window, or ``UNBOUNDED``."""
    every: I64
    """int64: microseconds between boundaries, or 0: report changes at every event."""
    list_start: I64
    """int64: where the query's list starts in ``Lists.best``."""
    list_room: I64
    """int64: how many pairs it holds at most: more than k, so that one that leaves is seldom looked for."""
    shown_start: I64
    """int64: where the list last shown starts in a row of ``Progress.shown_score`` (with ``every``)."""
    worst: F64
    """float64: the largest internal score accepted."""
    partial: I64
    """int64: 1 if there may be pairs above ``worst``, not looked for at the moment, that the query would accept; else 0."""


class Scoring(NamedTuple):
    """The scoring expression as first-class functions (``PairKernel.count_block``, ``score_block``, ``bound_block``); x is an arrival,
    columns are older."""

    count_as_a: Callable[..., int]
    """How many partners score at most a limit, x being the pair's ``a``."""
    score_as_a: Callable[..., None]
    """Scores with partners, x being the pair's ``a``."""
    count_as_b: Callable[..., int]
    """As ``count_as_a``, x being ``b``."""
    score_as_b: Callable[..., None]
    """As ``score_as_a``, x being ``b``."""
    bound_as_a: Callable[..., None]
    """Bounds of scores with the partners of a zone map's boxes, x being ``a``; any function of this type where there are no zones."""
    bound_as_b: Callable[..., None]
    """As ``bound_as_a``, x being ``b``."""
    pool: I64
    """int64: ``Objects.pool``, which all of them read."""


class Objects(NamedTuple):
    """Attributes and times of all keys' objects: an arena with a contiguous region per key, or rows that arrive."""

    floats: F64
    """float64 (float attributes, size)."""
    integers: I64
    """int64 (other attributes, size)."""
    times: I64
    """int64 (size,): microseconds; non-decreasing within a region."""
    pool: I64
    """int64: the texts and sets of the objects in the arena, at the offsets that ``integers`` holds for them (``expressions.compile``)."""


class History(NamedTuple):
    """The times of one key's objects."""

    first_stored: int
    """int64: seq of the first."""
    times: I64
    """int64 (objects held,): microseconds, non-decreasing."""


class Skyband(NamedTuple):
    """A K-skyband of pairs, by older seq descending and within it by rank; or the arena of all keys' skybands."""

    score: F64
    """float64 (size,)."""
    older: I64
    """int64 (size,)."""
    newer: I64
    """int64 (size,)."""
    stair: F64
    """float64 (size,), the staircase: the largest score that a pair older than pair i may have to be dominated by fewer than K of the
    pairs 0..i. An inclusive bound, so that one compare (``<=``) serves all; +inf while there are fewer than K, NaN if no score is."""


class Bucket(NamedTuple):
    """Windows and skybands of a bucket's keys."""

    keys: I64
    """int64 (keys, KEY_COLUMNS): the key table."""
    objects: Objects
    """The windows' arena."""
    skyband: Skyband
    """The skybands' arena."""
    skyband_end: int
    """int64: first place of the skybands' arena that no key's region holds."""


class Progress(NamedTuple):
    """What each query has reported of each key."""

    step: I64
    """int64 (queries, keys): steps reported so far."""
    wake: I64
    """int64 (queries, keys): the next instant at which the result may change without an arrival, or ``NEVER``."""
    due: I64
    """int64 (queries, keys): the boundary at which the list has to be looked at (with ``every``), or ``NEVER``."""
    shown_score: F64
    """float64 (keys, shown pairs): the lists last shown at a boundary, side by side (``Queries.shown_start``)."""
    shown_older: I64
    """int64, likewise."""
    shown_newer: I64
    """int64, likewise."""
    shown: I64
    """int64 (queries, keys): how many pairs the list last shown has."""


class Advance(NamedTuple):
    """What one ``advance`` has to take: every event of ``keys`` in [since, until)."""

    keys: I64
    """int64 (m,): keys with arrivals or with something due, ascending."""
    first_new: I64
    """int64 (m,): the seq of each one's first arrival; they go up to its NEXT_SEQ."""
    since: int
    """int64: microseconds."""
    until: int
    """int64: microseconds."""


class Task(NamedTuple):
    """What every driver takes: what is fixed, the tables that it changes, and the events to process."""

    settings: Settings
    queries: Queries
    bucket: Bucket
    """The arrivals are in the windows' arena already. Drivers change the key table and return the (perhaps new) skybands' arena."""
    progress: Progress
    advance: Advance
    work: I64
    """int64 (COUNTERS,)."""


class Place(NamedTuple):
    """The key that a driver is at. All int64."""

    group: int
    """Its index in ``Advance.keys``."""
    key: int
    offset: int
    """The object of seq s is at position s + ``offset`` of the windows' arena."""


class DeletionRows(NamedTuple):
    """The deletions of an ``Advance``, in order within each key. (n,), except ``start``."""

    start: I64
    """int64 (m + 1,): where those of each of ``Advance.keys`` start."""
    seq: I64
    """int64: the deleted object."""
    before: I64
    """int64: the seq of the key's next object."""
    time: I64
    """int64: microseconds."""


class SubBatch(NamedTuple):
    """Arrivals of one key taken together; rows from ``size`` on are unused."""

    first_seq: int
    """int64: seq of arrival 0."""
    size: int
    """int64: number of arrivals; 0 for a key that is only due."""
    limit: int
    """int64: the instant up to which events are taken: before it if ``last``; else expiries up to it, as it is the last arrival's."""
    last: bool
    """Whether these are the key's last arrivals."""
    first_partner: I64
    """int64 (S,): seq of the first object alive in the largest window when arrival i comes."""
    side: I64
    """int64 (S,): IS_B, IS_A or IS_NEITHER; without ``between`` IS_B, the newer object."""
    newer: I64
    """int64 (S,): arrival i as a pair's ``newer``."""
    floats: F64
    """float64 (S, float attributes)."""
    integers: I64
    """int64 (S, other attributes)."""
    scores: F64
    """float64 (S, S): [i, j] = score of arrivals j < i, NaN if they are no candidate; empty where those pairs are among ``Candidates``."""
    best: F64
    """float64 (S,): the best score of arrival i with anything older, NaN if it has no candidate."""
    start: I64
    """int64 (S + 1,): where the candidates of arrival i start in ``Candidates.grouped``."""


class Candidates(NamedTuple):
    """Pairs of an arrival and an object older than its sub-batch that may enter the skyband, in the order they were found; pairs of two
    arrivals, too, where ``SubBatch.scores`` is empty."""

    score: F64
    """float64 (size,)."""
    older: I64
    """int64 (size,)."""
    arrival: I64
    """int64 (size,): index of the newer object in its sub-batch."""
    order: I64
    """int64 (size,): indices by older seq descending, each in the low bits (``ORDER_MASK``), perhaps below a sort key."""
    grouped: I64
    """int64 (size,): indices by arrival."""
    found: int
    """int64: how many there are, or -1 for more than there may be."""


ORDER_BITS = 28
ORDER_MASK = (1 << ORDER_BITS) - 1


class Sources(NamedTuple):
    """Where one key's lists come from during a sub-batch."""

    batch: SubBatch
    """The arrivals, and the pairs among them."""
    candidates: Candidates
    """Pairs of an arrival and an older object."""
    skyband: Skyband
    """The key's skyband at the sub-batch's start (its own part of the arena)."""


class Pairs(NamedTuple):
    """A list of pairs in rank order; its length is kept elsewhere."""

    score: F64
    """float64 (size,)."""
    older: I64
    """int64 (size,)."""
    newer: I64
    """int64 (size,)."""


class Lists(NamedTuple):
    """The best pairs of each query for the key at hand: its result, and some that rank behind it (which may have left the window)."""

    best: Pairs
    """All queries' lists, side by side (``Queries.list_start``)."""
    before: Pairs
    """Scratch of the same size: a list before an event."""
    length: I64
    """int64 (queries,): pairs in each list."""
    whole: I64
    """int64 (queries,): 1 if the list has all pairs there are, 0 if there may be others behind its last."""


class Replay(NamedTuple):
    """What the replay of a sub-batch of one key reads and changes."""

    key: int
    """int64."""
    queries: Queries
    history: History
    sources: Sources
    lists: Lists
    progress: Progress
    work: I64
    """int64 (COUNTERS,)."""


class ChangeRows(NamedTuple):
    """Change rows, by key, its queries interleaved; how many are written is kept elsewhere."""

    fields: I64
    """int64 (size, CHANGE_COLUMNS)."""
    score: F64
    """float64 (size,): internal score."""


class Scratch(NamedTuple):
    """Buffers of a sub-batch's work."""

    heap: F64
    """float64 (K,): a max-heap of the K smallest scores."""
    ranked_score: F64
    """float64 (K + S + 1,): pairs of one older object, by rank."""
    ranked_newer: I64
    """int64 (K + S + 1,), likewise."""


@maker
def new_pairs(size: int) -> Pairs:
    """Return room for ``size`` pairs."""
    return Pairs(np.empty(size, np.float64), np.empty(size, np.int64), np.empty(size, np.int64))


@maker
def new_skyband(size: int) -> Skyband:
    """Return room for ``size`` pairs."""
    return Skyband(np.empty(size, np.float64), np.empty(size, np.int64), np.empty(size, np.int64), np.empty(size, np.float64))


@maker
def new_candidates(size: int) -> Candidates:
    """Return no candidates, with room for ``size``."""
    score, integers = np.empty(size, np.float64), np.empty((4, size), np.int64)
    return Candidates(score, integers[0], integers[1], integers[2], integers[3], 0)


@maker
def grow_candidates(candidates: Candidates, count: int, size: int) -> Candidates:
    """Copy the first ``count`` candidates to new arrays of ``size``."""
    new = new_candidates(size)
    for i in range(count):
        new.score[i], new.older[i] = candidates.score[i], candidates.older[i]
        new.arrival[i], new.order[i] = candidates.arrival[i], candidates.order[i]
    return new


@maker
def with_found(candidates: Candidates, found: int) -> Candidates:
    """Return the same arrays with ``found`` candidates in them."""
    return Candidates(candidates.score, candidates.older, candidates.arrival, candidates.order, candidates.grouped, found)


@maker
def new_sub_batch(size: int, scored: int, floats: int, integers: int) -> SubBatch:
    """Return no arrivals, with room for ``size``, and for scores between ``scored`` of them (all or none)."""
    return SubBatch(
        0, 0, 0, False, np.empty(size, np.int64), np.full(size, IS_B, np.int64), np.empty(size, np.int64),
        np.empty((size, floats), np.float64), np.empty((size, integers), np.int64), np.empty((scored, scored), np.float64),
        np.empty(size, np.float64), np.zeros(size + 1, np.int64),
    )  # fmt: skip


@maker
def next_batch(batch: SubBatch, first_seq: int, size: int, limit: int, last: bool) -> SubBatch:
    """Return other arrivals in the arrays of ``batch``."""
    return SubBatch(
        first_seq, size, limit, last, batch.first_partner, batch.side, batch.newer, batch.floats, batch.integers, batch.scores, batch.best,
        batch.start,
    )  # fmt: skip


@inner
def is_searched(settings: Settings, key: int, seq: int) -> bool:
    """Return True if this shard searches for the partners of an arrival, as ``Share.mine``."""
    return bool((key + seq // BLOCK) % settings.shards == settings.shard)


@inner
def own_scores(batch: SubBatch) -> int:
    """Return how many of the arrivals have their pairs with each other in ``batch.scores``: all or none."""
    return min(batch.size, len(batch.scores))


@inner
def part(pairs: Pairs, start: int, size: int) -> Pairs:
    """Return a view of ``size`` pairs from ``start`` on, for leaves."""
    return Pairs(pairs.score[start : start + size], pairs.older[start : start + size], pairs.newer[start : start + size])


@maker
def skyband_of(keys: I64, key: int, skyband: Skyband) -> Skyband:
    """Return a view of one key's skyband in the arena."""
    start = keys[key, SKYBAND_START]
    stop = start + keys[key, SKYBAND_LENGTH]
    return Skyband(skyband.score[start:stop], skyband.older[start:stop], skyband.newer[start:stop], skyband.stair[start:stop])


@maker
def history_of(keys: I64, key: int, times: I64) -> History:
    """Return a view of one key's times in the arena."""
    start = keys[key, REGION_START]
    first_stored = keys[key, FIRST_STORED]
    return History(first_stored, times[start : start + keys[key, NEXT_SEQ] - first_stored])


def pairs_counted(work: I64) -> dict[str, int]:
    """Return the counters of scored pairs and of those that zone maps made unnecessary."""
    return {"scored": int(work[SCORED]), "skipped": int(work[INDEXED] - work[INDEXED_SCORED])}
