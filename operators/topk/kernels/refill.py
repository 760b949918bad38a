"""Filling a list of one scoring function's top-k: from the members of the last block and the rows of this one."""

from __future__ import annotations

from typing import NamedTuple

from skyband.operators.jit import inner
from skyband.operators.single_rows.kernels.arrays import lower_bound
from skyband.operators.single_rows.kernels.list_moves import Alive
from skyband.operators.single_rows.kernels.select import Below, into_rank_order, select
from skyband.operators.topk.kernels.state import Lists, Members, Source


class FillRequest(NamedTuple):
    """Which candidates to append to a list: at most ``need`` that rank after (``score``, ``seq``), have a score of at least ``floor`` and
    are ``alive`` after the rows before ``arrived`` and the deletions before ``now``."""

    need: int
    score: float
    seq: int
    floor: float
    alive: Alive
    arrived: int
    now: int


@inner
def first_alive(source: Source, request: FillRequest) -> int:
    """Return the first row of the span that is alive, at most ``request.arrived``. O(log rows)."""
    span = source.span
    row = max(span.begin, min(request.arrived, span.begin + (request.alive.seq - span.first_seq)))
    return int(lower_bound(source.block.time, row, request.arrived, request.alive.time))


@inner
def append_from_window(source: Source, request: FillRequest, lists: Lists, size: int) -> int:
    """Append to the list of ``size`` from members in seq order and the rows so far; return how many there were.

    O(rows + members + need log need).
    """
    members, ends, begin, end, span, block = source.members, source.ends, source.begin, source.end, source.span, source.block
    ranked, best, need, floor = lists.ranked, lists.best, request.need, request.floor
    below = Below(request.score, span.begin + (request.seq - span.first_seq), floor)
    row = first_alive(source, request)
    count = select(source.scores, ends.row, request.now, row, request.arrived, end - span.begin, below, best, 0, need)
    member = max(lower_bound(members.seq, begin, end, request.alive.seq), lower_bound(members.time, begin, end, request.alive.time))
    if member < end:
        below = Below(request.score, lower_bound(members.seq, begin, end, request.seq), floor)
        count = select(members.score, ends.member, request.now, member, end, 0, below, best, count, need)
    into_rank_order(best, count)
    for i in range(count):
        place = best.place[i]
        ranked.score[size + i] = best.score[i]
        if place < end:
            ranked.seq[size + i], ranked.time[size + i] = members.seq[place], members.time[place]
        else:
            row = place - end + span.begin
            ranked.seq[size + i], ranked.time[size + i] = span.first_seq + row - span.begin, block.time[row]
    return int(count)


@inner
def first_after(members: Members, begin: int, end: int, score: float, seq: int) -> int:
    """Return the first of members [begin, end), in rank order, that ranks after (score, seq). O(log members)."""
    while begin < end:
        middle = (begin + end) >> 1
        if members.score[middle] > score or (members.score[middle] == score and members.seq[middle] >= seq):
            begin = middle + 1
        else:
            end = middle
    return begin


@inner
def append_from_band(source: Source, request: FillRequest, lists: Lists, size: int) -> int:
    """Do as ``append_from_window``, from members in rank order: a merge. O(rows + need log need + log members)."""
    members, begin, end, span, block = source.members, source.begin, source.end, source.span, source.block
    ranked, best, alive = lists.ranked, lists.best, request.alive
    score, seq, time = members.score, members.seq, members.time
    count, taken, filled = 0, 0, size
    if request.arrived > span.begin:
        below = Below(request.score, span.begin + (request.seq - span.first_seq), request.floor)
        count = select(source.scores, source.ends.row, 0, first_alive(source, request), request.arrived, 0, below, best, 0, request.need)
        into_rank_order(best, count)
    old = first_after(members, begin, end, request.score, request.seq) if size > 0 else begin
    while filled < size + request.need:
        while old < end and (seq[old] < alive.seq or time[old] < alive.time):
            old += 1
        some = old < end and score[old] >= request.floor
        if taken < count and (not some or best.score[taken] >= score[old]):  # equal: the newer one first
            row = best.place[taken]
            ranked.score[filled] = best.score[taken]
            ranked.seq[filled], ranked.time[filled] = span.first_seq + row - span.begin, block.time[row]
            taken += 1
        elif some:
            ranked.score[filled], ranked.seq[filled], ranked.time[filled] = score[old], seq[old], time[old]
            old += 1
        else:
            break
        filled += 1
    return filled - size


@inner
def append(source: Source, request: FillRequest, lists: Lists, size: int) -> int:
    """Append the candidates that ``request`` allows to the list of ``size``; return their number."""
    if source.ends.deletes:
        return int(append_from_window(source, request, lists, size))
    return int(append_from_band(source, request, lists, size))
