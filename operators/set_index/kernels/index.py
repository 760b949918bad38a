"""Operations of the inverted index: look up tokens, insert sets, and rebuild without dead sets."""

from __future__ import annotations

import numpy as np

from skyband.operators.base import I64
from skyband.operators.jit import inner, inner_inlined, maker
from skyband.operators.prefetch import prefetch
from skyband.operators.set_index.kernels.tables import (
    CLOCK,
    CODE,
    FIRST,
    GROUP,
    HIGH,
    LANES,
    LAST_CLOCK,
    LENGTH_BITS,
    LENGTH_MASK,
    LOW,
    MET,
    NO_SLOT,
    OF_GROUP,
    POSITION_MASK,
    POSTINGS_END,
    PREVIOUS,
    ROOM,
    SEQ,
    SEQ_BITS,
    SEQ_MASK,
    SET_COLUMNS,
    SETS_END,
    SIZE_MASK,
    SLOT_BITS,
    SLOT_COLUMNS,
    SLOT_MASK,
    SLOTS,
    START,
    TOKENS_END,
    WORD_BITS,
    Index,
    TokenLookup,
    new_index,
)

FEW = 32
"""Keys up to which ``sort_few`` is fastest."""


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
    slot = np.int64(table[at])
    while slot != NO_SLOT and not (slots[slot * SLOT_COLUMNS + CODE] == code and slots[slot * SLOT_COLUMNS + OF_GROUP] == group):
        at = (at + 1) & mask
        slot = np.int64(table[at])
    return int(slot)


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
    row = slot * SLOT_COLUMNS
    slots[row + CODE], slots[row + OF_GROUP] = code, group
    slots[row + START], slots[row + ROOM] = scalars[POSTINGS_END], capacity << LENGTH_BITS
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
def sort_few(keys: I64, length: int, into: I64) -> None:
    """Sort the first ``length`` keys, all different, into other memory. O(length^2), but without a branch on a comparison."""
    for i in range(length):
        key, smaller = keys[i], 0
        for j in range(length):
            smaller += int(keys[j] < key)
        into[smaller & SLOT_MASK] = key


@inner
def sort_lists(lookup: TokenLookup, length: int) -> None:
    """Sort the first ``length`` of ``lookup.unsorted`` into ``lookup.lists``."""
    if length <= FEW:
        sort_few(lookup.unsorted, length, lookup.lists)
        return
    for i in range(length):
        lookup.lists[i] = lookup.unsorted[i]
    shell_sort(lookup.lists, length)


@inner
def ask_ahead(index: Index, group: int, codes: I64) -> None:
    """Prefetch the entries of the hash table that a look-up of ``codes`` in ``group`` reads."""
    mask = len(index.table) - 1
    for i in range(len(codes)):
        prefetch(index.table, hash_token(group, codes[i]) & mask)


@inner
def fill_signature(index: Index, own: int, codes: I64, lookup: TokenLookup) -> None:
    """Fill ``lookup.signature``, and prefetch the rows of the slots of the arrival's own group."""
    low, high = 0, 0
    mask = len(index.table) - 1
    for i in range(len(codes)):
        prefetch(index.slots, np.int64(index.table[hash_token(own, codes[i]) & mask]) * SLOT_COLUMNS)
        bit = (hash_token(0, codes[i]) >> 14) % (2 * WORD_BITS)
        in_low = int(bit < WORD_BITS)
        low |= in_low << (bit % WORD_BITS)
        high |= (1 - in_low) << (bit % WORD_BITS)
    lookup.signature[0], lookup.signature[1] = low, high


@inner_inlined
def room_needed(slot: int, room: int) -> int:
    """Return the postings that another set with the token of a slot may need; ``room``: that column of the slot."""
    if slot == NO_SLOT:
        return 2
    return 2 * (room >> LENGTH_BITS) if room & LENGTH_MASK == room >> LENGTH_BITS else 0


@inner
def look_up(index: Index, own: int, other: int, tokens: I64, lookup: TokenLookup) -> int:
    """Look an arriving set's tokens up in its ``own`` group and in the ``other`` it is compared with, and advance the clock.

    Fills ``lookup``, marks the slots of the other group with the clock, and returns the postings that ``insert`` may need.
    """
    slots, scalars, postings = index.slots, index.scalars, index.postings
    scalars[CLOCK] += 1
    clock, needed = scalars[CLOCK], 0
    fill_signature(index, own, tokens, lookup)
    for i in range(len(tokens)):
        slot = find_slot(index, own, tokens[i])
        lookup.own_slots[i] = slot
        room = slots[slot * SLOT_COLUMNS + ROOM]
        needed += room_needed(slot, room)
        if other != own:
            slot = find_slot(index, other, tokens[i])
            room = slots[slot * SLOT_COLUMNS + ROOM]
        if slot == NO_SLOT:
            lookup.unsorted[i] = -1 - i
        else:
            length = room & LENGTH_MASK
            lookup.unsorted[i] = (length << SLOT_BITS) | slot
            index.marks[slot] = clock
            prefetch(postings, slots[slot * SLOT_COLUMNS + START] + length - 1)
    sort_lists(lookup, len(tokens))
    for i in range(len(tokens)):
        if lookup.lists[i] >= 0:
            last = slots[(lookup.lists[i] & SLOT_MASK) * SLOT_COLUMNS + START] + (lookup.lists[i] >> SLOT_BITS) - 1
            prefetch(index.sets, (postings[last] >> SEQ_BITS) & POSITION_MASK)
    return needed


@inner
def look_up_own(index: Index, own: int, tokens: I64, lookup: TokenLookup) -> int:
    """Look an arriving set's tokens up in its own group, for ``insert`` without a search; return the postings that it may need."""
    slots, needed = index.slots, 0
    fill_signature(index, own, tokens, lookup)
    for i in range(len(tokens)):
        slot = find_slot(index, own, tokens[i])
        lookup.own_slots[i] = slot
        needed += room_needed(slot, slots[slot * SLOT_COLUMNS + ROOM])
        if slot != NO_SLOT:
            prefetch(index.postings, slots[slot * SLOT_COLUMNS + START] + (slots[slot * SLOT_COLUMNS + ROOM] & LENGTH_MASK))
    return needed


@inner
def posting_of(sets: I64, at: int) -> int:
    """Return the posting of the set at a position."""
    return (at << SEQ_BITS) | int(sets[at + SEQ] & SEQ_MASK)


@inner_inlined
def append_posting(index: Index, slot: int, posting: int, oldest: int) -> None:
    """Append a posting to a slot's list, moving a full list to the end of the arena, which must have room.

    Postings of sets more than ``oldest`` objects older may be dropped.
    """
    slots, postings, row = index.slots, index.postings, slot * SLOT_COLUMNS
    length, capacity, start = slots[row + ROOM] & LENGTH_MASK, slots[row + ROOM] >> LENGTH_BITS, slots[row + START]
    if length == capacity:
        low, high = 0, length  # binary search for the first alive
        while low < high:
            middle = (low + high) >> 1
            if (posting - postings[start + middle]) & SEQ_MASK > oldest:
                low = middle + 1
            else:
                high = middle
        to = start
        if 2 * low < length:
            to, capacity = index.scalars[POSTINGS_END], 2 * length
            slots[row + START] = to
            index.scalars[POSTINGS_END] += capacity
        for i in range(length - low):
            postings[to + i] = postings[start + low + i]
        length -= low
        start = to
    postings[start + length] = posting
    slots[row + ROOM] = (capacity << LENGTH_BITS) | (length + 1)


@inner
def padded(size: int) -> int:
    """Return the room that a set of ``size`` tokens takes."""
    return (size + LANES - 1) // LANES * LANES


@inner
def insert(index: Index, group: int, seq: int, first_alive: int, codes: I64, lookup: TokenLookup) -> None:
    """Insert a set whose tokens are looked up. The index must have room (``lacks_room``, ``rebuild``)."""
    sets, tokens, scalars = index.sets, index.tokens, index.scalars
    at, first, size = scalars[SETS_END], scalars[TOKENS_END], len(codes)
    sets[at + SEQ], sets[at + MET], sets[at + FIRST] = seq, size, first
    sets[at + LOW], sets[at + HIGH] = lookup.signature[0], lookup.signature[1]
    sets[at + GROUP], sets[at + PREVIOUS] = group, index.newest[group]
    index.newest[group] = at
    posting = posting_of(sets, at)
    for i in range(size):
        slot = lookup.own_slots[i]
        if slot == NO_SLOT:
            slot = add_slot(index, group, codes[i], 2)
        tokens[first + i] = slot
        append_posting(index, slot, posting, seq - first_alive)
    for i in range(size, padded(size)):
        tokens[first + i] = NO_SLOT
    scalars[SETS_END] += SET_COLUMNS
    scalars[TOKENS_END] += padded(size)


@inner
def lacks_room(index: Index, size: int, postings: int) -> bool:
    """Return True if the index has no room for a set of ``size`` tokens and ``postings`` postings."""
    scalars = index.scalars
    if scalars[SETS_END] + SET_COLUMNS > len(index.sets) or scalars[TOKENS_END] + padded(size) > len(index.tokens):
        return True
    if scalars[SLOTS] + size > len(index.marks) or scalars[CLOCK] >= LAST_CLOCK:
        return True
    return bool(scalars[POSTINGS_END] + postings > len(index.postings))


@inner
def count_alive(index: Index, first_alive: I64, counts: I64) -> tuple[int, int]:
    """Count the alive sets of each slot into ``counts`` (zeros). ``first_alive`` is by key.

    Returns the number of sets and the room that their tokens take.
    """
    sets, tokens = index.sets, index.tokens
    number, room = 0, 0
    for at in range(0, index.scalars[SETS_END], SET_COLUMNS):
        if sets[at + SEQ] >= first_alive[sets[at + GROUP] >> 1]:
            size = sets[at + MET] & SIZE_MASK
            number += 1
            room += padded(size)
            for i in range(sets[at + FIRST], sets[at + FIRST] + size):
                counts[tokens[i]] += 1
    return number, room


@inner
def region_size(count: int) -> int:
    """Return the capacity for a list of ``count`` alive sets.

    In a steady stream the list is full only when more than half of it is dead, so ``append_posting`` compacts it in place.
    """
    return 2 * count + count // 2


@inner
def copy_alive(index: Index, first_alive: I64, counts: I64, new: Index) -> None:
    """Copy the alive sets to an empty index with room for them; ``counts`` is overwritten by each slot's new number."""
    sets, target, slots = index.sets, new.sets, index.slots
    for slot in range(NO_SLOT + 1, index.scalars[SLOTS]):
        if counts[slot] > 0:
            row = slot * SLOT_COLUMNS
            counts[slot] = add_slot(new, slots[row + OF_GROUP], slots[row + CODE], region_size(counts[slot]))
    to, first = 0, 0
    for at in range(0, index.scalars[SETS_END], SET_COLUMNS):
        group = sets[at + GROUP]
        if sets[at + SEQ] >= first_alive[group >> 1]:
            size = sets[at + MET] & SIZE_MASK
            target[to + SEQ], target[to + LOW], target[to + HIGH] = sets[at + SEQ], sets[at + LOW], sets[at + HIGH]
            target[to + MET], target[to + GROUP], target[to + PREVIOUS] = size, group, new.newest[group]
            target[to + FIRST] = first
            new.newest[group] = to
            posting = posting_of(target, to)
            for i in range(size):
                slot = counts[index.tokens[sets[at + FIRST] + i]]
                new.tokens[first + i] = slot
                row = slot * SLOT_COLUMNS
                new.postings[new.slots[row + START] + (new.slots[row + ROOM] & LENGTH_MASK)] = posting
                new.slots[row + ROOM] += 1
            for i in range(size, padded(size)):
                new.tokens[first + i] = NO_SLOT
            to += SET_COLUMNS
            first += padded(size)
    new.scalars[SETS_END], new.scalars[TOKENS_END] = to, first


@maker
def rebuild(index: Index, first_alive: I64, size: int, groups: int) -> Index:
    """Return the index without dead sets (older than ``first_alive`` of their key), its clock at 0. O(index).

    It has room for one more set of ``size`` tokens, and for about twice as much again as is alive.
    """
    counts = np.zeros(len(index.marks), np.int64)
    number, words = count_alive(index, first_alive, counts)
    alive, regions = 0, 0
    for slot in range(len(counts)):
        if counts[slot] > 0:
            alive += 1
            regions += region_size(counts[slot])
    room = regions + regions // 2 + 3 * alive + 4 * size + 256
    new = new_index(3 * number + 32, 3 * (words + padded(size)) + 256, 3 * (alive + size) + 64, room, groups)
    copy_alive(index, first_alive, counts, new)
    return new
