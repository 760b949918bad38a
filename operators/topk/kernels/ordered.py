"""Kernels of top-k by several sort keys: the replay of one block of rows, and the rows that can still enter a result.

A block ranks all its rows beforehand: every candidate has a *position*, its place in the rank order among the candidates of its key.
Rows of one *group* are equal by all sort keys. A result is always a prefix of the alive positions that ends with a group. So the state of
a replay is a tree that counts the alive positions, and where the result ends.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from skyband.operators.base import ARRIVAL, BOUNDARY, DELETE, DISPLACED, EXPIRY, I64, NEVER, PROMOTED, AnyArray
from skyband.operators.jit import inner, jit
from skyband.operators.single_rows.kernels.arrays import grown_rows
from skyband.operators.single_rows.kernels.emit import Event
from skyband.operators.windows import UNBOUNDED

INCLUDE, DENSE, EXCLUDE = range(3)
"""Which groups a result has: those with fewer than k better rows; the first k; those that end by the k-th row."""

SIZE, GROUPS, LAST, END, MINUS, PLUS = range(6)
"""Places of ``Result.places``: the result's rows, its groups, the rows of its last group, its last position or -1, and how many rows have
left and entered in this event."""

ROW, OLDEST, DELETION, TOTAL = range(4)
"""Places of a replay's cursor: the next row, the oldest that may be alive, the next deletion, how many rows are alive."""

NOTHING, EXPIRES, DELETED, ARRIVES = range(4)
"""Kinds of events."""

CAUSE_BITS = 3
"""A change is noted as its position and its cause in one number."""

NEVER_YET = -NEVER
"""An instant before every event."""


class Ranking(NamedTuple):
    """The rows of a block by key and seq, and their ranks. int64 all.

    (rows,): ``seq``; ``time``; ``position`` in the rank order of the key, or -1 for no candidate; ``first``, the word of the first key.
    (positions of all keys,): ``row`` at a position; ``begin`` and ``end``, the first and last position of its group, within the key.
    """

    seq: I64
    time: I64
    position: I64
    first: I64
    row: I64
    begin: I64
    end: I64


class Part(NamedTuple):
    """One key's part of a block. ``rows`` from, ``fresh`` (the first that arrives) and to; its positions; its deletions; its seqs.

    int64 (keys of the block,) each: ``keys``; ``row_begin``, ``row_fresh``, ``row_end``; ``position_begin``, ``position_end``;
    ``deletion_begin``, ``deletion_end``; ``first_seq``, the seq of the first arrival.
    """

    keys: I64
    row_begin: I64
    row_fresh: I64
    row_end: I64
    position_begin: I64
    position_end: I64
    deletion_begin: I64
    deletion_end: I64
    first_seq: I64


class Deletions(NamedTuple):
    """The deletions of a block, by key and instant. int64 each: the row that it comes before, its instant, the deleted row or -1."""

    before: I64
    time: I64
    target: I64


class Asked(NamedTuple):
    """The queries, int64 (queries,) each: ``k``; window ``most`` (rows) and ``micros``; ``every``; ``floor``, the last word in bounds."""

    k: I64
    most: I64
    micros: I64
    every: I64
    floor: I64


class Query(NamedTuple):
    """One query of ``Asked``."""

    k: int
    most: int
    micros: int
    every: int
    floor: int


class Clocks(NamedTuple):
    """Of every query and key, int64 (queries, keys) each: the ``step``; the next instant at which its result may change without a row
    (``wake``); its next boundary with something to report (``due``). ``NEVER`` for none."""

    step: I64
    wake: I64
    due: I64


class Shown(NamedTuple):
    """What the last boundary of a query showed of a key: ``positions`` int64, and ``flags`` uint8 by position: 1, or 2 if deleted since."""

    flags: AnyArray
    positions: I64


class Moment(NamedTuple):
    """The next event: its instant and its kind."""

    at: int
    kind: int


class Result(NamedTuple):
    """A query's result of one key. ``tree`` int64 counts alive positions, ``alive`` uint8 (positions,); ``minus`` and ``plus`` int64
    (positions,): what this event changed, as positions with their cause."""

    places: I64
    tree: I64
    alive: AnyArray
    minus: I64
    plus: I64


@inner
def add(tree: I64, n: int, at: int, by: int) -> None:
    """Add ``by`` to the count of position ``at`` of ``n``. O(log n)."""
    i = at + 1
    while i <= n:
        tree[i] += by
        i += i & -i


@inner
def count(tree: I64, at: int) -> int:
    """Return how many of the positions up to ``at`` are alive. O(log n)."""
    found: Any = np.int64(0)
    i = at + 1
    while i > 0:
        found += tree[i]
        i -= i & -i
    return int(found)


@inner
def select(tree: I64, n: int, number: int) -> int:
    """Return the position of the ``number``-th alive one, from 1; -1 for number 0. O(log n)."""
    if number <= 0:
        return -1
    step = 1
    while 2 * step <= n:
        step *= 2
    at, left = 0, number
    while step > 0:
        if at + step <= n and tree[at + step] < left:
            at += step
            left -= tree[at]
        step //= 2
    return at


@inner
def close_end(result: Result, ranking: Ranking, base: int, n: int) -> None:
    """Find the last position of the result, and how many rows its last group has."""
    places = result.places
    places[END] = select(result.tree, n, places[SIZE])
    places[LAST] = 0
    if places[END] >= 0:
        places[LAST] = places[SIZE] - count(result.tree, ranking.begin[base + places[END]] - 1)


@inner
def remove(result: Result, ranking: Ranking, base: int, n: int, at: int, cause: int) -> None:
    """Take the alive position ``at`` away. O(log n)."""
    places, tree = result.places, result.tree
    add(tree, n, at, -1)
    result.alive[at] = 0
    if at > places[END]:
        return
    result.minus[places[MINUS]] = (at << CAUSE_BITS) | cause
    places[MINUS] += 1
    places[SIZE] -= 1
    begin, end = ranking.begin[base + at], ranking.end[base + at]
    if count(tree, end) == count(tree, begin - 1):
        places[GROUPS] -= 1
    close_end(result, ranking, base, n)


@inner
def insert(result: Result, ranking: Ranking, base: int, n: int, at: int) -> bool:
    """Make position ``at`` alive; return True if it is in the result as far as it reaches now. O(log n)."""
    places, tree = result.places, result.tree
    add(tree, n, at, 1)
    result.alive[at] = 1
    if places[END] < 0 or at > ranking.end[base + places[END]]:
        return False
    places[SIZE] += 1
    begin, end = ranking.begin[base + at], ranking.end[base + at]
    if count(tree, end) - count(tree, begin - 1) == 1:
        places[GROUPS] += 1
    close_end(result, ranking, base, n)
    return True


@inner
def too_large(places: I64, mode: int, k: int) -> bool:
    """Return True if the last group of the result does not belong to it."""
    if places[SIZE] == 0:
        return False
    if mode == INCLUDE:
        return bool(places[SIZE] - places[LAST] >= k)
    return bool(places[GROUPS] > k) if mode == DENSE else bool(places[SIZE] > k)


@inner
def settle(result: Result, ranking: Ranking, base: int, n: int, total: int, mode: int, k: int, arrived: int) -> bool:
    """Drop the groups that no longer belong to the result, then add those that do; return True if the position ``arrived`` was dropped.

    Of one event, no row is dropped and added again: a group is dropped because those before it leave no place for it. O(changes log n).
    """
    places, tree, dropped = result.places, result.tree, False
    while too_large(places, mode, k):
        first = places[SIZE] - places[LAST] + 1
        for number in range(first, places[SIZE] + 1):
            at = select(tree, n, number)
            if at == arrived:
                dropped = True
            else:
                result.minus[places[MINUS]] = (at << CAUSE_BITS) | DISPLACED
                places[MINUS] += 1
        places[SIZE] = first - 1
        places[GROUPS] -= 1
        close_end(result, ranking, base, n)
    while places[SIZE] < total:
        if (mode == INCLUDE and places[SIZE] >= k) or (mode == DENSE and places[GROUPS] >= k):
            break
        size = count(tree, ranking.end[base + select(tree, n, places[SIZE] + 1)])
        if mode == EXCLUDE and size > k:
            break
        for number in range(places[SIZE] + 1, size + 1):
            at = select(tree, n, number)
            result.plus[places[PLUS]] = (at << CAUSE_BITS) | (ARRIVAL if at == arrived else PROMOTED)
            places[PLUS] += 1
        places[LAST] = size - places[SIZE]
        places[SIZE] = size
        places[GROUPS] += 1
        places[END] = select(tree, n, size)
    return dropped


@inner
def sort_first(a: I64, size: int) -> None:
    """Sort the first ``size`` places of ``a`` (Shell's sort: short to compile, and most are sorted already)."""
    gap = size // 2
    while gap > 0:
        for i in range(gap, size):
            x, j = a[i], i
            while j >= gap and a[j - gap] > x:
                a[j] = a[j - gap]
                j -= gap
            a[j] = x
        gap //= 2


@inner
def put_changes(numbers: I64, out: int, found: I64, size: int, event: Event, sign: int, pos: int, rows: AnyArray) -> int:
    """Write ``size`` changes in rank order from row ``out`` on, and return the row after them. ``rows``: of the block, by position."""
    sort_first(found, size)
    for i in range(size):
        numbers[out, 0], numbers[out, 1], numbers[out, 2], numbers[out, 3] = event.query, event.key, event.at, event.step
        numbers[out, 4], numbers[out, 5] = pos + i, sign
        numbers[out, 6], numbers[out, 7] = found[i] & ((1 << CAUSE_BITS) - 1), rows[found[i] >> CAUSE_BITS]
        out += 1
    return out


@inner
def next_wake(result: Result, ranking: Ranking, base: int, n: int, oldest: int, last: int, mode: int, micros: int) -> int:
    """Return the next instant at which an expiry may change the result, or NEVER. O(result log n).

    With EXCLUDE, the expiry of a row behind the result may let its group in: then it is that of the oldest alive row, from ``oldest`` on.
    """
    found: Any = np.int64(NEVER)
    if micros >= UNBOUNDED:
        return NEVER
    if mode == EXCLUDE and result.places[SIZE] < count(result.tree, n - 1):
        while oldest < last and (ranking.position[oldest] < 0 or result.alive[ranking.position[oldest]] == 0):
            oldest += 1
        return int(ranking.time[oldest] + micros) if oldest < last else NEVER
    for number in range(1, result.places[SIZE] + 1):
        time = ranking.time[ranking.row[base + select(result.tree, n, number)]] + micros
        found = min(found, time)
    return int(found)


@inner
def begin_key(
    query: Query, mode: int, ranking: Ranking, part: Part, place: int, member: AnyArray, since: int, result: Result, shown: Shown
) -> int:
    """Begin the replay of a key with the rows that were alive at ``since``; return how many these are. O(rows + positions)."""
    base, places = part.position_begin[place], result.places
    n = part.position_end[place] - base
    for i in range(n + 1):
        result.tree[i] = 0
    for i in range(n):
        result.alive[i] = shown.flags[i] = 0
    for i in range(len(places)):
        places[i] = 0
    places[END], total = -1, 0
    for row in range(part.row_begin[place], part.row_fresh[place]):
        at = ranking.position[row]
        in_time = query.micros >= UNBOUNDED or ranking.time[row] + query.micros >= since
        in_bounds = ranking.first[row] <= query.floor and ranking.seq[row] >= part.first_seq[place] - query.most
        if member[row] == 1 and in_time and in_bounds:
            add(result.tree, n, at, 1)
            result.alive[at] = 1
            total += 1
    settle(result, ranking, base, n, total, mode, query.k, -1)
    return total


@inner
def expire(result: Result, ranking: Ranking, base: int, n: int, cursor: I64, before: int, least: int, since: int) -> None:
    """Take away the alive rows before ``before`` with a seq below ``least`` or an instant before ``since``. They are the oldest."""
    row = cursor[OLDEST]
    while row < before and (ranking.seq[row] < least or ranking.time[row] < since):
        at = ranking.position[row]
        if at >= 0 and result.alive[at] == 1:
            remove(result, ranking, base, n, at, EXPIRY)
            cursor[TOTAL] -= 1
        row += 1
    cursor[OLDEST] = row


@inner
def show(query: Query, ranking: Ranking, base: int, n: int, next_seq: int, at: int, result: Result, shown: Shown, was: int) -> int:
    """Find the net change of a boundary at ``at``, and show the result; return how many rows it has. O(result log n)."""
    places = result.places
    places[MINUS] = places[PLUS] = 0
    for i in range(was):
        position = shown.positions[i]
        if result.alive[position] == 1 and position <= places[END]:
            continue
        row = ranking.row[base + position]
        expired = ranking.seq[row] < next_seq - query.most or (query.micros < UNBOUNDED and ranking.time[row] + query.micros <= at)
        cause = DELETE if shown.flags[position] == 2 else (EXPIRY if expired else DISPLACED)
        result.minus[places[MINUS]] = (position << CAUSE_BITS) | cause
        places[MINUS] += 1
        shown.flags[position] = 0
    for i in range(places[SIZE]):
        position = select(result.tree, n, i + 1)
        shown.positions[i] = position
        if shown.flags[position] == 0:
            result.plus[places[PLUS]] = (position << CAUSE_BITS) | BOUNDARY
            places[PLUS] += 1
        shown.flags[position] = 1
    return int(places[SIZE])


@inner
def next_event(
    query: Query, ranking: Ranking, part: Part, place: int, deletions: Deletions, result: Result, cursor: I64, until: int
) -> Moment:
    """Return the next event: of one instant an expiry first, then deletions and arrivals in their order."""
    row, deletion = cursor[ROW], cursor[DELETION]
    at, kind = until, NOTHING
    if deletion < part.deletion_end[place] and deletions.before[deletion] <= row:
        at, kind = deletions.time[deletion], DELETED
    elif row < part.row_end[place]:
        at, kind = ranking.time[row], ARRIVES
    if query.micros < UNBOUNDED:
        oldest = cursor[OLDEST]
        while oldest < row and (ranking.position[oldest] < 0 or result.alive[ranking.position[oldest]] == 0):
            oldest += 1
        cursor[OLDEST] = oldest
        if oldest < row:
            expiry = ranking.time[oldest] + query.micros
            if expiry < at or (expiry == at and kind != NOTHING):
                at, kind = expiry, EXPIRES
    return Moment(at, kind)


@inner
def apply_event(
    query: Query, mode: int, ranking: Ranking, part: Part, place: int, deletions: Deletions, moment: Moment, result: Result, shown: Shown,
    cursor: I64,
) -> None:  # fmt: skip
    """Apply an event; its net change is in ``minus`` and ``plus``."""
    base, places, row = part.position_begin[place], result.places, cursor[ROW]
    n = part.position_end[place] - base
    places[MINUS] = places[PLUS] = 0
    arrived, entered = -1, False
    if moment.kind == EXPIRES:
        expire(result, ranking, base, n, cursor, row, -1, moment.at - query.micros + 1)
    elif moment.kind == DELETED:
        target = deletions.target[cursor[DELETION]]
        cursor[DELETION] += 1
        at = ranking.position[target] if target >= 0 else -1
        if at >= 0:
            if shown.flags[at] == 1:
                shown.flags[at] = 2
            if result.alive[at] == 1:
                remove(result, ranking, base, n, at, DELETE)
                cursor[TOTAL] -= 1
    else:
        if query.most < UNBOUNDED:
            expire(result, ranking, base, n, cursor, row, part.first_seq[place] + (row - part.row_fresh[place]) - query.most + 1, NEVER_YET)
        at = ranking.position[row]
        if at >= 0 and ranking.first[row] <= query.floor:
            arrived, entered = at, insert(result, ranking, base, n, at)
            cursor[TOTAL] += 1
        cursor[ROW] += 1
    dropped = settle(result, ranking, base, n, cursor[TOTAL], mode, query.k, arrived)
    if entered and not dropped:
        result.plus[places[PLUS]] = (arrived << CAUSE_BITS) | ARRIVAL
        places[PLUS] += 1


@jit
def replay(
    asked: Asked, mode: int, ranking: Ranking, part: Part, deletions: Deletions, member: AnyArray, was_shown: I64, clocks: Clocks,
    since: int, until: int, largest: int,
) -> tuple[I64, int, I64, int]:  # fmt: skip
    """Replay the events of [``since``, ``until``) for every query and key of the block.

    ``member`` uint8 (rows,): 1 for rows that were alive in the state's window at ``since``. ``was_shown`` int64 (n, 4), by query and place
    of the key in ``part``: query, place, row, 1 if it has been deleted. ``clocks`` are brought up to date. ``largest``: most positions of
    a key. Return the changes with their number, as int64 (room, 8): query, key, at, step, pos, sign, cause and row of the block; and what
    queries with boundaries show now, as ``was_shown``, with its number. O(rows log rows), and O(log rows) per change.
    """
    numbers, out, shows, showing, before = np.empty((256, 8), np.int64), 0, np.empty((64, 4), np.int64), 0, 0
    result = Result(
        np.zeros(6, np.int64), np.zeros(largest + 1, np.int64), np.zeros(largest, np.uint8), np.empty(largest, np.int64),
        np.empty(largest, np.int64),
    )  # fmt: skip
    shown, cursor = Shown(np.zeros(largest, np.uint8), np.empty(largest, np.int64)), np.zeros(4, np.int64)
    for number in range(len(asked.k)):
        query = Query(asked.k[number], asked.most[number], asked.micros[number], asked.every[number], asked.floor[number])
        for place in range(len(part.keys)):
            key, base = part.keys[place], part.position_begin[place]
            n = part.position_end[place] - base
            rows = ranking.row[base : base + n]
            cursor[TOTAL] = begin_key(query, mode, ranking, part, place, member, since, result, shown)
            cursor[ROW], cursor[OLDEST], cursor[DELETION] = part.row_fresh[place], part.row_begin[place], part.deletion_begin[place]
            was = 0
            while before < len(was_shown) and was_shown[before, 0] == number and was_shown[before, 1] == place:
                shown.positions[was] = ranking.position[was_shown[before, 2]]
                shown.flags[shown.positions[was]] = 1 + was_shown[before, 3]
                was += 1
                before += 1
            while True:
                moment = next_event(query, ranking, part, place, deletions, result, cursor, until)
                at = moment.at
                if query.every > 0 and clocks.due[number, key] < at:
                    at = clocks.due[number, key]
                    next_seq = part.first_seq[place] + (cursor[ROW] - part.row_fresh[place])
                    was = show(query, ranking, base, n, next_seq, at, result, shown, was)
                    clocks.due[number, key] = NEVER
                elif moment.kind == NOTHING:
                    break
                else:
                    apply_event(query, mode, ranking, part, place, deletions, moment, result, shown, cursor)
                    if query.every > 0:
                        if result.places[MINUS] + result.places[PLUS] > 0 and clocks.due[number, key] == NEVER:
                            clocks.due[number, key] = -((-at) // query.every) * query.every
                        continue
                left, entered = result.places[MINUS], result.places[PLUS]
                if left + entered == 0:
                    continue
                if out + left + entered > len(numbers):
                    numbers = grown_rows(numbers, 2 * (out + left + entered))
                clocks.step[number, key] += 1
                event = Event(number, key, at, clocks.step[number, key])
                out = put_changes(numbers, out, result.minus, left, event, -1, 0, rows)
                out = put_changes(numbers, out, result.plus, entered, event, 1, left, rows)
            expiry = next_wake(result, ranking, base, n, cursor[OLDEST], part.row_end[place], mode, query.micros)
            clocks.wake[number, key] = min(expiry, clocks.due[number, key])
            if showing + was > len(shows):
                shows = grown_rows(shows, 2 * (showing + was))
            for i in range(was):
                position = shown.positions[i]
                shows[showing, 0], shows[showing, 1], shows[showing, 2] = number, place, rows[position]
                shows[showing, 3] = 1 if shown.flags[position] == 2 else 0
                showing += 1
    return numbers, out, shows, showing


@jit
def keep_rows(ranking: Ranking, part: Part, mode: int, most: int, alive: AnyArray, largest: int) -> None:
    """Set ``alive`` uint8 (rows,) to 0 for the rows that no query with k <= ``most`` can have again. O(rows log rows).

    Rows are visited from the newest on, so that those visited before a row outlive it. A row is kept if, of the kept ones among them,

    * INCLUDE: fewer than K are strictly better;
    * DENSE: fewer than K different groups are strictly better;
    * EXCLUDE: at most K are at least as good.

    Why that is enough. *A row that is dropped never returns*: what counts against it outlives it, and is at least K rows (groups) that
    keep it out of each result, or with EXCLUDE K + 1 with which its group does not end by the K-th place. *A row that is kept is judged
    as if all rows were there*: let B be what counts for a row among the alive rows: the strictly better ones, one row for each better
    group (its newest), or those at least as good. If B has fewer than K (EXCLUDE: at most K + 1, the row itself included) rows, each row
    of B is kept, as what counts against it is among the others of B. Otherwise the newest K (EXCLUDE: K + 1) of B have fewer than that
    many newer ones in B before them, so they are kept, and they suffice to keep the row out. Counting kept rows only is the same, by the
    same argument: of those that count against a row, the newest K are kept.
    """
    tree = np.zeros(largest + 1, np.int64)
    for place in range(len(part.keys)):
        base = part.position_begin[place]
        n = part.position_end[place] - base
        for i in range(n + 1):
            tree[i] = 0
        for row in range(part.row_end[place] - 1, part.row_begin[place] - 1, -1):
            at = ranking.position[row]
            if alive[row] == 0 or at < 0:
                continue
            begin, end = ranking.begin[base + at], ranking.end[base + at]
            better = count(tree, begin - 1)
            with_equal = count(tree, end)
            if (with_equal > most) if mode == EXCLUDE else (better >= most):
                alive[row] = 0
            elif mode != DENSE or with_equal == better:
                add(tree, n, at, 1)
