"""Operations of the inverted index: look up tokens, insert sets, and rebuild without dead sets."""

from __future__ import annotations

import numpy as np

from skyband.operators.base import I64
from skyband.operators.jit import inner, inner_inlined, maker
from skyband.operators.set_index.kernels.prefetch import prefetch
from skyband.operators.set_index.kernels.tables import (
    CAPACITY,
    CLOCK,
    CODE,
    GROUP,
    HEADER,
    HIGH,
    KEY,
    LAST,
    LENGTH,
    LOG_END,
    LOW,
    NO_SLOT,
    OF_GROUP,
    POSTINGS_END,
    PREVIOUS,
    SEQ,
    SEQ_BITS,
    SEQ_MASK,
    SIZE,
    SLOT_BITS,
    SLOTS,
    STAMP,
    START,
    WORD_BITS,
    Index,
    TokenLookup,
    new_index,
)


@inner
def hash_token(group: int, code: int) -> int:
    """Return a hash in [0, 2^42). No intermediate value overflows, so NumPy gives the same."""
    x = (code ^ (code >> 31) ^ (code >> 62)) & 0x7FFFFFFF
    y = (group ^ (group >> 31)) & 0x7FFFFFFF
    return ((x * 1540483477) ^ (y * 1367130551)) >> 20


@inner_inlined
def find_slot(index: Index, group: int, code: int) -> int:
    """Return the slot of a token, or ``NO_SLOT``. O(1) expected."""
    slots, table = index.slots, index.table
    mask = len(table) - 1
    at = hash_token(group, code) & mask
    slot = int(table[at])
    while slot != NO_SLOT and not (slots[slot, CODE] == code and slots[slot, OF_GROUP] == group):
        at = (at + 1) & mask
        slot = int(table[at])
    return slot


@inner_inlined
def add_slot(index: Index, group: int, code: int, capacity: int) -> int:
    """Add a slot with room for ``capacity`` postings for a token that has none; return it. The arrays must have room."""
    slots, table, scalars = index.slots, index.table, index.scalars
    slot = int(scalars[SLOTS])
    scalars[SLOTS] += 1
    mask = len(table) - 1
    at = hash_token(group, code) & mask
    while table[at] != NO_SLOT:
        at = (at + 1) & mask
    table[at] = slot
    slots[slot, OF_GROUP], slots[slot, CODE] = group, code
    slots[slot, START], slots[slot, CAPACITY], slots[slot, LENGTH] = scalars[POSTINGS_END], capacity, 0
    scalars[POSTINGS_END] += capacity
    return slot


@inner
def shell_sort(keys: I64, length: int) -> None:
    """Sort the first ``length`` keys in place."""
    gap = 1
    while gap < length // 3:
        gap = 3 * gap + 1
    while gap > 0:
        for i in range(gap, length):
            key, j = keys[i], i
            while j >= gap and keys[j - gap] > key:
                keys[j] = keys[j - gap]
                j -= gap
            keys[j] = key
        gap //= 3


@inner
def look_up(index: Index, own: int, other: int, tokens: I64, lookup: TokenLookup) -> int:
    """Look an arriving set's tokens up in its ``own`` group and in the ``other`` it is compared with, and advance the clock.

    Fills ``lookup``, marks the slots of the other group with the clock, and returns the postings that ``insert`` may need.
    """
    slots, scalars = index.slots, index.scalars
    scalars[CLOCK] += 1
    needed, low, high = 0, 0, 0
    for i in range(len(tokens)):
        bit = (hash_token(0, tokens[i]) >> 14) % (2 * WORD_BITS)
        if bit < WORD_BITS:
            low |= 1 << bit
        else:
            high |= 1 << (bit - WORD_BITS)
        slot = find_slot(index, own, tokens[i])
        lookup.own_slots[i] = slot
        if slot == NO_SLOT:
            needed += 2
        elif slots[slot, LENGTH] == slots[slot, CAPACITY]:
            needed += 2 * slots[slot, CAPACITY]
        if other != own:
            slot = find_slot(index, other, tokens[i])
        if slot == NO_SLOT:
            lookup.lists[i] = NO_SLOT
        else:
            lookup.lists[i] = (slots[slot, LENGTH] << SLOT_BITS) | slot
            index.marks[slot] = scalars[CLOCK]
            prefetch(index.postings, slots[slot, START] + slots[slot, LENGTH] - 1)
            prefetch(index.log, slots[slot, LAST] >> SEQ_BITS)
    lookup.signature[0], lookup.signature[1] = low, high
    shell_sort(lookup.lists, len(tokens))
    return needed


@inner
def posting_of(log: I64, record: int) -> int:
    """Return the posting of a record."""
    return (record << SEQ_BITS) | int(log[record + SEQ] & SEQ_MASK)


@inner_inlined
def append_posting(index: Index, slot: int, posting: int, oldest: int) -> None:
    """Append a posting to a slot's list, moving a full list to the end of the arena, which must have room.

    Postings of sets more than ``oldest`` objects older may be dropped.
    """
    slots, postings = index.slots, index.postings
    length, start = slots[slot, LENGTH], slots[slot, START]
    if length == slots[slot, CAPACITY]:
        low, high = 0, length  # binary search for the first alive
        while low < high:
            middle = (low + high) >> 1
            if (posting - postings[start + middle]) & SEQ_MASK > oldest:
                low = middle + 1
            else:
                high = middle
        to = start
        if 2 * low < length:
            to = index.scalars[POSTINGS_END]
            slots[slot, START], slots[slot, CAPACITY] = to, 2 * length
            index.scalars[POSTINGS_END] += 2 * length
        for i in range(length - low):
            postings[to + i] = postings[start + low + i]
        length -= low
        start = to
    postings[start + length] = posting
    slots[slot, LENGTH], slots[slot, LAST] = length + 1, posting


@inner
def insert(index: Index, key: int, group: int, seq: int, first_alive: int, tokens: I64, lookup: TokenLookup) -> None:
    """Insert a set whose tokens are looked up. The index must have room (``lacks_room``, ``rebuild``)."""
    log, scalars = index.log, index.scalars
    record, size = scalars[LOG_END], len(tokens)
    log[record + SEQ], log[record + SIZE], log[record + STAMP] = seq, size, 0
    log[record + LOW], log[record + HIGH] = lookup.signature[0], lookup.signature[1]
    log[record + KEY], log[record + GROUP], log[record + PREVIOUS] = key, group, index.newest[group]
    index.newest[group] = record
    posting = posting_of(log, record)
    for i in range(size):
        slot = lookup.own_slots[i]
        if slot == NO_SLOT:
            slot = add_slot(index, group, tokens[i], 2)
        log[record + HEADER + i] = slot
        append_posting(index, slot, posting, seq - first_alive)
    scalars[LOG_END] += HEADER + size


@inner
def lacks_room(index: Index, size: int, postings: int) -> bool:
    """Return True if the index has no room for a set of ``size`` tokens and ``postings`` postings."""
    scalars = index.scalars
    if scalars[LOG_END] + HEADER + size > len(index.log) or scalars[SLOTS] + size > len(index.slots):
        return True
    return bool(scalars[POSTINGS_END] + postings > len(index.postings))


@inner
def count_alive(index: Index, first_alive: I64, counts: I64) -> int:
    """Count the alive sets of each slot into ``counts`` (zeros); return the total length of their records. ``first_alive`` is by key."""
    log = index.log
    record, words = 0, 0
    while record < index.scalars[LOG_END]:
        size = log[record + SIZE]
        if log[record + SEQ] >= first_alive[log[record + KEY]]:
            words += HEADER + size
            for i in range(record + HEADER, record + HEADER + size):
                counts[log[i]] += 1
        record += HEADER + size
    return words


@inner
def region_size(count: int) -> int:
    """Return the capacity for a list of ``count`` alive sets.

    In a steady stream the list is full only when more than half of it is dead, so ``append_posting`` compacts it in place.
    """
    return 2 * count + count // 2


@inner
def copy_alive(index: Index, first_alive: I64, counts: I64, new: Index) -> None:
    """Copy the alive sets to an empty index with room for them; ``counts`` is overwritten by each slot's new number."""
    log, target, slots = index.log, new.log, index.slots
    for slot in range(index.scalars[SLOTS]):
        if counts[slot] > 0:
            counts[slot] = add_slot(new, slots[slot, OF_GROUP], slots[slot, CODE], region_size(counts[slot]))
    record, to = 0, 0
    while record < index.scalars[LOG_END]:
        size = log[record + SIZE]
        if log[record + SEQ] >= first_alive[log[record + KEY]]:
            for i in range(HEADER):
                target[to + i] = log[record + i]
            group = log[record + GROUP]
            target[to + PREVIOUS], target[to + STAMP] = new.newest[group], 0
            new.newest[group] = to
            for i in range(HEADER, HEADER + size):
                slot = counts[log[record + i]]
                target[to + i] = slot
                new.slots[slot, LAST] = posting_of(target, to)
                new.postings[new.slots[slot, START] + new.slots[slot, LENGTH]] = new.slots[slot, LAST]
                new.slots[slot, LENGTH] += 1
            to += HEADER + size
        record += HEADER + size
    new.scalars[LOG_END] = to


@maker
def rebuild(index: Index, first_alive: I64, size: int, groups: int) -> Index:
    """Return the index without dead sets (older than ``first_alive`` of their key). O(index).

    It has room for one more set of ``size`` tokens, and for about twice as much again as is alive.
    """
    counts = np.zeros(index.scalars[SLOTS], np.int64)
    words = count_alive(index, first_alive, counts)
    alive, regions = 0, 0
    for slot in range(len(counts)):
        if counts[slot] > 0:
            alive += 1
            regions += region_size(counts[slot])
    room = regions + regions // 2 + 3 * alive + 4 * size + 256
    new = new_index(3 * (words + HEADER + size) + 256, 3 * (alive + size) + 64, room, groups)
    copy_alive(index, first_alive, counts, new)
    new.scalars[CLOCK] = index.scalars[CLOCK]
    return new
