"""The hash index of the windows' objects by the columns of equalities ``a.x = b.y``, for searches of older partners (docs/algorithms D2).

Each key of a bucket has a table of chains. A chain has the objects whose hashes share a slot, the newest first: its objects that have
left the window are at its end, where a search stops, so nothing is ever removed. The links of the objects are a ring, at the place of their
seqs. A table that the window outgrows is built again, twice as large. So is one whose arrivals come again (``segments``, ``long_runs``).

A hash only excludes objects: the score of the others decides, and it is NaN if the condition does not hold.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from skyband.operators.base import F64, I64, NULL
from skyband.operators.jit import inner, inner_inlined, maker
from skyband.operators.pair_rows.kernels.arena import side_of
from skyband.operators.pair_rows.kernels.tables import IS_A, IS_B, IS_NEITHER, Objects, Scoring, Settings, SubBatch

START, SIZE, FIRST, UPTO, RESUME, PAUSE, REGION_COLUMNS = range(7)
"""Columns of ``HashIndex.regions``: where the key's table starts, and how many places it has, a power of two, or 0; the index has the
objects from seq FIRST to UPTO - 1 and perhaps some before; the seq from which the index is used (again), and after how many arrivals it
will be the next time that it does not pay."""

PREVIOUS, HASH, VALUES = range(3)
"""Columns of ``HashIndex.links``: the next older object of the chain, or -1; the object's hash, or -1 if it can have no partner; and then
its attributes, those of ``Objects.integers`` first: a partner is read from one place of the memory."""

BLOCK = 64
"""Partners that are scored together."""

_HALF: int = 2**32 - 1
_MULTIPLIER: int = 1640531527
"""Odd and below 2**31, so that no product of it and half a word overflows."""


class JoinColumns(NamedTuple):
    """The columns of the equalities, int64 (equalities,): row r of ``Objects.integers`` is r, row r of ``Objects.floats`` is -1 - r."""

    a: I64
    """Those of a pair's a."""
    b: I64
    """Those of its b."""
    real: I64
    """1 if values are compared as floats."""
    alike: int
    """int64: 1 if those of a and b are the same, else 0."""
    floats: int
    """int64: float attributes that a score reads."""
    integers: int
    """int64: the other attributes that it reads."""


class Use(NamedTuple):
    """When the index is used. All int64."""

    least: int
    """Objects in the window, at the least."""
    share: int
    """The index does not pay if it looks at more than 1 / ``share`` of the objects that a scan would look at."""
    pause: int
    """Arrivals without the index after it did not pay. Twice as many each time in a row, ..."""
    longest_pause: int
    """... up to so many."""
    mask: int
    """The bits of hashes that count."""


class HashIndex(NamedTuple):
    """The tables of all keys, side by side."""

    use: Use
    columns: JoinColumns
    """Those of no equalities: the index is never used."""
    regions: I64
    """int64 (keys, REGION_COLUMNS)."""
    heads: I64
    """int64 (size,): the newest object of the chain of each slot, or -1."""
    links: I64
    """int64 (size, VALUES + attributes): those of object seq at place seq modulo SIZE of the key's region."""
    reals: F64
    """float64: the same memory."""
    end: int
    """int64: the first place that no key's table holds."""


class Gathered(NamedTuple):
    """Up to ``BLOCK`` objects side by side, as a score reads them; and what is known of the arrivals of a sub-batch of up to S."""

    floats: F64
    """float64 (float attributes, BLOCK)."""
    integers: I64
    """int64 (other attributes, BLOCK)."""
    seqs: I64
    """int64 (BLOCK,)."""
    scores: F64
    """float64 (BLOCK,): those of an arrival with them."""
    codes: I64
    """int64 (S,): the hashes of the arrivals' partners, -1 for none."""
    reached: I64
    """int64 (S,): the objects that the walks along their chains have come to."""
    walking: I64
    """int64 (S,): the arrivals whose walks are not at their ends."""


@maker
def new_gathered(columns: JoinColumns, sub_batch: int) -> Gathered:
    """Return room for objects, and for arrivals up to ``sub_batch``."""
    return Gathered(
        np.empty((columns.floats, BLOCK)), np.empty((columns.integers, BLOCK), np.int64), np.empty(BLOCK, np.int64), np.empty(BLOCK),
        np.empty(sub_batch, np.int64), np.empty(sub_batch, np.int64), np.empty(sub_batch, np.int64),
    )  # fmt: skip


# Hashes, of 32 bits.


@inner
def mixed(code: int, value: int) -> int:
    """Return the hash ``code`` of some values, and one more."""
    product = (code ^ (value & _HALF)) * _MULTIPLIER
    code = (product ^ (product >> 31)) & _HALF
    product = (code ^ ((value >> 32) & _HALF)) * _MULTIPLIER
    return (product ^ (product >> 31)) & _HALF


@inner
def bits_of(value: float) -> int:
    """Return the bits of a float, the same for -0.0 as for 0.0."""
    return int(np.float64(value + 0.0).view(np.int64))


@inner
def hash_of(index: HashIndex, rows: I64, seed: int, objects: Objects, position: int) -> int:
    """Return the hash of the columns ``rows`` of the object at a position of the arena, or -1 if one of them is null."""
    code = seed
    for column in range(len(rows)):
        row = rows[column]
        if row < 0:
            real = objects.floats[-1 - row, position]
            if real != real:
                return -1
            code = mixed(code, bits_of(real))
        else:
            whole = objects.integers[row, position]
            if whole == NULL:
                return -1
            code = mixed(code, bits_of(float(whole)) if index.columns.real[column] == 1 else whole)
    return code & index.use.mask


@inner
def hash_of_older(index: HashIndex, settings: Settings, objects: Objects, position: int) -> int:
    """Return the hash by which an object is found, -1 if it cannot be. Objects of two sides have different ones."""
    side = side_of(settings, objects, position)
    if side == IS_NEITHER:
        return -1
    if settings.side_row < 0 or side == IS_A:
        return hash_of(index, index.columns.a, IS_A, objects, position)
    return hash_of(index, index.columns.b, IS_B, objects, position)


@inner
def hash_of_newer(index: HashIndex, side: int, objects: Objects, position: int) -> int:
    """Return the hash of the partners of an arrival, -1 if it has none; ``side``: that of ``SubBatch``."""
    if side == IS_NEITHER:
        return -1
    if side == IS_A:
        return hash_of(index, index.columns.a, IS_B, objects, position)
    return hash_of(index, index.columns.b, IS_A, objects, position)


# Tables.


@inner
def clear(index: HashIndex, key: int, first: int) -> None:
    """Take all objects out of a key's table; the next one is that of seq ``first``."""
    region = index.regions[key]
    for slot in range(region[START], region[START] + region[SIZE]):
        index.heads[slot] = -1
    region[FIRST], region[UPTO] = first, first


@maker
def with_table(index: HashIndex, key: int, objects: int) -> HashIndex:
    """Return the index with a larger, empty table for the key, of ``objects`` and more. Amortised O(objects)."""
    regions, heads, links, end = index.regions, index.heads, index.links, index.end
    size = 16
    while size < objects:
        size *= 2
    regions[key, SIZE] = 0
    if end + size > len(heads):
        total = size
        for other in range(len(regions)):
            total += regions[other, SIZE]
        heads, links, end = np.empty(2 * total, np.int64), np.empty((2 * total, links.shape[1]), np.int64), 0
        for other in range(len(regions)):
            start, length = regions[other, START], regions[other, SIZE]
            heads[end : end + length], links[end : end + length] = index.heads[start : start + length], index.links[start : start + length]
            regions[other, START] = end
            end += length
    regions[key, START], regions[key, SIZE] = end, size
    return HashIndex(index.use, index.columns, regions, heads, links, links.view(np.float64), end + size)


@inner_inlined
def insert(index: HashIndex, start: int, mask: int, seq: int, code: int, objects: Objects, position: int) -> None:
    """Insert the object of seq ``seq``, the next one. The key's table starts at ``start`` and has ``mask`` + 1 places."""
    link, integers = start + (seq & mask), index.columns.integers
    at = index.links[link]
    at[HASH] = code
    if code < 0:
        at[PREVIOUS] = -1
        return
    slot = start + (code & mask)
    at[PREVIOUS] = index.heads[slot]
    index.heads[slot] = seq
    for row in range(integers):
        at[VALUES + row] = objects.integers[row, position]
    for row in range(index.columns.floats):
        index.reals[link, VALUES + integers + row] = objects.floats[row, position]


@inner
def insert_until(index: HashIndex, key: int, settings: Settings, objects: Objects, offset: int, first: int, upto: int) -> None:
    """Insert a key's objects before seq ``upto`` that are not in, from ``first`` on. Object seq is at seq + ``offset`` of the arena."""
    region = index.regions[key]
    start, mask = region[START], region[SIZE] - 1
    if region[UPTO] < first:
        region[FIRST], region[UPTO] = first, first
    for seq in range(region[UPTO], upto):
        insert(index, start, mask, seq, hash_of_older(index, settings, objects, seq + offset), objects, seq + offset)
    region[UPTO] = upto


@inner
def is_used(index: HashIndex, key: int, batch: SubBatch) -> bool:
    """Return True if the partners of a key's arrivals are to be found by the index."""
    return bool(
        len(index.columns.a) > 0
        and batch.size > 0
        and batch.first_seq - batch.first_partner[0] >= index.use.least
        and batch.first_seq >= index.regions[key, RESUME]
    )


@maker
def before_arrivals(index: HashIndex, key: int, settings: Settings, objects: Objects, offset: int, batch: SubBatch) -> HashIndex:
    """Return the index with the key's objects that the arrivals may have as partners and that are older than all of them."""
    first, upto = batch.first_partner[0], batch.first_seq
    if upto + batch.size - first > index.regions[key, SIZE]:
        index = with_table(index, key, upto + batch.size - first)
        clear(index, key, first)
    elif index.regions[key, UPTO] > upto or index.regions[key, FIRST] > first:
        clear(index, key, first)
    insert_until(index, key, settings, objects, offset, first, upto)
    return index


# The search for the partners of an arrival.


@inner
def walk(index: HashIndex, key: int, settings: Settings, objects: Objects, offset: int, batch: SubBatch, gathered: Gathered) -> bool:
    """Fill ``gathered.codes``, and walk along the chains of all arrivals at once; return False, and give up, if these are too long.

    What the arrivals have in their chains comes into the cache: a processor waits for many places of the memory together.
    """
    region, links, first = index.regions[key], index.links, batch.first_partner
    codes, reached, walking = gathered.codes, gathered.reached, gathered.walking
    start, mask, going, steps = region[START], region[SIZE] - 1, 0, 0
    most = batch.size * (batch.first_seq + batch.size - first[0]) // index.use.share
    for i in range(batch.size):
        codes[i] = hash_of_newer(index, batch.side[i], objects, batch.first_seq + i + offset)
    for i in range(batch.size):
        reached[i] = index.heads[start + (codes[i] & mask)] if codes[i] >= 0 else -1
        walking[going] = i
        going += reached[i] >= first[i]
    while going > 0 and steps <= most:
        steps += going
        still = 0
        for at in range(going):
            i = walking[at]
            reached[i] = links[start + (reached[i] & mask), PREVIOUS]
            walking[still] = i
            still += reached[i] >= first[i]
        going = still
    region[PAUSE] = 0 if going == 0 else min(max(index.use.pause, 2 * region[PAUSE]), index.use.longest_pause)
    if going > 0:
        region[RESUME] = batch.first_seq + batch.size + region[PAUSE]
    return going == 0


@inner
def hash_of_arrival(index: HashIndex, settings: Settings, side: int, code: int, objects: Objects, position: int) -> int:
    """Return the hash by which an arrival is found, whose partners have the hash ``code``."""
    if index.columns.alike == 1 and settings.side_row < 0 and side != IS_NEITHER:
        return code
    return hash_of_older(index, settings, objects, position)


@inner_inlined
def gather(index: HashIndex, start: int, mask: int, code: int, seq: int, first: int, gathered: Gathered) -> tuple[int, int]:
    """Copy objects of hash ``code`` and of seqs from ``first`` on, up to ``BLOCK``, in the chain of which ``seq`` is the next.

    Return the next object of the chain, and how many are copied.
    """
    floats, integers, count = gathered.floats, gathered.integers, 0
    reals = VALUES + integers.shape[0]
    while seq >= first and count < BLOCK:
        link = start + (seq & mask)
        at = index.links[link]
        if at[HASH] == code:
            gathered.seqs[count] = seq
            for row in range(integers.shape[0]):
                integers[row, count] = at[VALUES + row]
            for row in range(floats.shape[0]):
                floats[row, count] = index.reals[link, reals + row]
            count += 1
        seq = at[PREVIOUS]
    return seq, count


@inner_inlined
def score_gathered(scoring: Scoring, batch: SubBatch, arrival: int, gathered: Gathered, count: int) -> None:
    """Write the scores of an arrival with the first ``count`` objects gathered."""
    score_as_a, score_as_b = scoring.score_as_a, scoring.score_as_b
    floats, integers = batch.floats[arrival], batch.integers[arrival]
    if batch.side[arrival] == IS_B:
        score_as_b(gathered.floats, gathered.integers, 0, count, floats, integers, scoring.pool, gathered.scores)
    else:
        score_as_a(gathered.floats, gathered.integers, 0, count, floats, integers, scoring.pool, gathered.scores)
