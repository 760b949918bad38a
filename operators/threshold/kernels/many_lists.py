"""The lists of ``ManyThreshold``: one first-in-first-out list per query and key that ever had a member, found by hashing.

A *slot* is a row of ``ListTable.slots``: its query, key, step and clocks, and the position of its members in the pool. Its members
are [AT + LO, AT + HI) in seq order; those before HEAD have left and wait to be reported at a boundary.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from skyband.operators.base import F64, I64, NEVER, AnyArray
from skyband.operators.jit import inner, jit, maker
from skyband.operators.single_rows.blocks import Block
from skyband.operators.single_rows.kernels.arrays import grown
from skyband.operators.windows import UNBOUNDED

KEY, QUERY, STEP, DUE, SHOWN, NEWEST, DEAD, NEXT, AT, ROOM, LO, HI, HEAD = range(13)
COLUMNS = 13
SAVED = 7
"""The first columns are what a checkpoint holds."""


LISTS, LIVE, END = range(3)
"""Places of ``ListTable.totals``: lists, members of all lists, and how much of the pool is in use."""


class Members(NamedTuple):
    """The pool of all lists' members; it moves when it grows.

    ``score`` float64 (room,): internal scores. int64 (room,): ``seq``; ``time`` (empty for count windows); ``deleted``, the instant of
    deletion, ``NEVER`` for none (empty without deletions).
    """

    score: F64
    seq: I64
    time: I64
    deleted: I64


class ListTable(NamedTuple):
    """The slots of all lists, and how they are found.

    ``slots`` int64 (room, ``COLUMNS``), the first ``totals[LISTS]`` in use; ``hashed`` int64 (a power of two,): hash table of the slots'
    (key, query); ``totals`` int64 (3,). int64 (keys,): ``first``, the first slot of a key's chain, -1 for none; ``wake`` and ``leave``,
    the instant and the seq at which a list of the key changes by itself, not too late.
    """

    slots: I64
    hashed: I64
    totals: I64
    first: I64
    wake: I64
    leave: I64


@jit
def spot(table: AnyArray, ids: AnyArray, a: int, b: int) -> int:
    """Return the place of the pair (a, b) in a hash table of rows of ``ids``, or its free place. Pairs are not negative."""
    mask = len(table) - 1
    h = a * 1000003 + b  # no product here leaves int64: keys are below 2**32, seqs below 2**62
    h ^= h >> 15
    h = (h & 0xFFFFFFFF) * 0x5BD1E995
    p = (h ^ (h >> 29)) & mask
    while table[p] >= 0 and not (ids[table[p], 0] == a and ids[table[p], 1] == b):
        p = (p + 1) & mask
    return p


@jit
def hashed(ids: AnyArray, count: int, size: int) -> AnyArray:
    """Return a table of ``size`` places (a power of two, more than ``count``) with the first ``count`` rows of ``ids``."""
    table = np.full(size, -1, np.int64)
    for i in range(count):
        table[spot(table, ids, ids[i, 0], ids[i, 1])] = i
    return table


@jit
def chained(slots: AnyArray, count: int, first: AnyArray) -> None:
    """Link the slots of every key: ``first`` per key, then NEXT."""
    for s in range(count - 1, -1, -1):
        slots[s, NEXT] = first[slots[s, KEY]]
        first[slots[s, KEY]] = s


@jit
def grouped(groups: int, of: AnyArray, m: int) -> tuple[AnyArray, AnyArray]:
    """Sort of[:m] by counting, stably: return where each group starts (groups + 1), and the order."""
    start = np.zeros(groups + 2, np.int64)
    for i in range(m):
        start[of[i] + 2] += 1
    for g in range(groups):
        start[g + 2] += start[g + 1]
    order = np.empty(m, np.int64)
    for i in range(m):
        g = of[i] + 1
        order[start[g]] = i
        start[g] += 1
    return start[: groups + 1].copy(), order


@inner
def move_members(slot: I64, to: int, old: Members, new: Members) -> None:
    """Copy a slot's members from one pool to place ``to`` of another, or to the front of its room in the same one. O(members)."""
    begin, size = slot[AT] + slot[LO], slot[HI] - slot[LO]
    for i in range(size):
        new.score[to + i], new.seq[to + i] = old.score[begin + i], old.seq[begin + i]
        if len(old.time) > 0:
            new.time[to + i] = old.time[begin + i]
        if len(old.deleted) > 0:
            new.deleted[to + i] = old.deleted[begin + i]
    slot[HEAD] -= slot[LO]
    slot[AT], slot[LO], slot[HI] = to, 0, size


@maker
def make_room(slot: I64, more: int, members: Members, totals: I64) -> Members:
    """Let a slot take ``more`` members: to the front of its room if half of that is free, else to the pool's end. Amortised O(more)."""
    size, to = slot[HI] - slot[LO] + more, slot[AT]
    if slot[ROOM] < 2 * size:
        room, to = 2 * size + 2, totals[END]
        if to + room > len(members.score):
            longer = 2 * (to + room)
            members = Members(
                grown(members.score, longer), grown(members.seq, longer), grown(members.time, longer if len(members.time) > 0 else 0),
                grown(members.deleted, longer if len(members.deleted) > 0 else 0),
            )  # fmt: skip
        totals[END] = to + room
        slot[ROOM] = room
    move_members(slot, to, members, members)
    return members


@jit
def packed(slots: I64, members: Members, totals: I64) -> Members:
    """Return a pool without gaps. O(members + slots)."""
    size = totals[LIVE] + totals[LIVE] // 2 + totals[LISTS] + 1
    new = Members(
        np.empty(size, np.float64), np.empty(size, np.int64), np.empty(size if len(members.time) > 0 else 0, np.int64),
        np.empty(size if len(members.deleted) > 0 else 0, np.int64),
    )  # fmt: skip
    end: Any = np.int64(0)
    for s in range(totals[LISTS]):
        slot = slots[s]
        move_members(slot, end, members, new)
        slot[ROOM] = slot[HI]
        end += slot[HI]
    totals[END] = end
    return new


@inner
def next_change(slot: I64, count: int, micros: int, members: Members) -> tuple[int, int]:
    """Return when a list changes by itself: the instant (expiry or boundary), and the seq whose arrival makes its oldest leave."""
    wake: Any = slot[DUE]
    leave: Any = np.int64(NEVER)
    if slot[HEAD] < slot[HI]:
        i = slot[AT] + slot[HEAD]
        if micros < UNBOUNDED:
            wake = min(wake, members.time[i] + micros)
        if count < UNBOUNDED:
            leave = members.seq[i] + count
    return wake, leave


@jit
def due_lists(block: Block, lists: ListTable, members: Members, counts: I64, micros: I64, until: int) -> tuple[I64, I64, int]:
    """Return (query, group) of the lists that change by themselves in this block, and their number; group by group.

    ``counts`` and ``micros`` int64 (Q,) are the queries' windows. A key's ``wake`` and ``leave`` become exact for all lists not
    returned.
    """
    of, at = np.empty(256, np.int64), np.empty(256, np.int64)
    slots, m = lists.slots, 0
    for g in range(len(block.keys)):
        key, last = block.keys[g], block.first_seq[g] + block.end[g] - block.begin[g]
        if lists.wake[key] >= until and lists.leave[key] >= last:
            continue
        lists.wake[key], lists.leave[key] = NEVER, NEVER
        s = lists.first[key]
        while s >= 0:
            q = slots[s, QUERY]
            wake, leave = next_change(slots[s], counts[q], micros[q], members)
            if wake < until or leave < last:
                if m == len(of):
                    of, at = grown(of, 2 * m), grown(at, 2 * m)
                of[m], at[m] = q, g
                m += 1
            else:
                lists.wake[key], lists.leave[key] = min(lists.wake[key], wake), min(lists.leave[key], leave)
            s = slots[s, NEXT]
    return of, at, m


class RowLog(NamedTuple):
    """The queries that each row passed, for deletions.

    ``rows`` int64 (room, 3): key, seq, and where its queries begin in ``queries``: those of row i are queries[rows[i, 2] : rows[i + 1, 2]].
    ``hashed`` int64 (a power of two,): hash table of the rows' (key, seq). ``queries`` int64 (room,). ``totals`` int64 (2,): rows and
    queries.
    """

    rows: I64
    hashed: I64
    queries: I64
    totals: I64


@jit
def note_rows(of: I64, key: I64, seq: I64, log: RowLog) -> None:
    """Log that the object (key[i], seq[i]) passed query of[i]; equal objects are adjacent. The arrays have room."""
    count, end = log.totals[0], log.totals[1]
    for i in range(len(of)):
        if i == 0 or key[i] != key[i - 1] or seq[i] != seq[i - 1]:
            log.rows[count, 0], log.rows[count, 1], log.rows[count, 2] = key[i], seq[i], end
            log.hashed[spot(log.hashed, log.rows, key[i], seq[i])] = count
            count += 1
        log.queries[end] = of[i]
        end += 1
    log.rows[count, 2] = end
    log.totals[0], log.totals[1] = count, end


@jit
def deleted_from(block: Block, log: RowLog) -> tuple[I64, I64, int]:
    """Return (query, deletion) for every deletion of a logged row, in the order of deletions, and their number."""
    of, at = np.empty(256, np.int64), np.empty(256, np.int64)
    rows, m = log.rows, 0
    for g in range(len(block.keys)):
        for j in range(block.deletion_begin[g], block.deletion_end[g]):
            i = log.hashed[spot(log.hashed, rows, block.keys[g], block.deletion_seq[j])]
            if i < 0:
                continue
            for e in range(rows[i, 2], rows[i + 1, 2]):
                if m == len(of):
                    of, at = grown(of, 2 * m), grown(at, 2 * m)
                of[m], at[m] = log.queries[e], j
                m += 1
    return of, at, m


@inner
def _held(log: RowLog, row: int, lists: ListTable, members: Members) -> bool:
    """Return True if some list may still contain a logged row."""
    key, seq, slots = log.rows[row, 0], log.rows[row, 1], lists.slots
    for e in range(log.rows[row, 2], log.rows[row + 1, 2]):
        s = lists.hashed[spot(lists.hashed, slots, key, log.queries[e])]
        if s >= 0 and slots[s, LO] < slots[s, HI] and members.seq[slots[s, AT] + slots[s, LO]] <= seq:
            return True
    return False


@jit
def forget_rows(log: RowLog, lists: ListTable, members: Members) -> None:
    """Keep the logged rows that some list may still contain, in place; this invalidates the hash table. O(rows + queries)."""
    rows, queries, kept, end = log.rows, log.queries, 0, 0
    for i in range(log.totals[0]):
        key, seq, a, b = rows[i, 0], rows[i, 1], rows[i, 2], rows[i + 1, 2]
        if _held(log, i, lists, members):
            rows[kept, 0], rows[kept, 1], rows[kept, 2] = key, seq, end
            for e in range(a, b):
                queries[end + e - a] = queries[e]
            kept += 1
            end += b - a
    rows[kept, 2] = end
    log.totals[0], log.totals[1] = kept, end
