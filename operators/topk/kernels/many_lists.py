"""The lists of all queries and keys, in one pool."""

from __future__ import annotations

from typing import NamedTuple

from skyband.operators.base import F64, I64, NEVER
from skyband.operators.jit import maker
from skyband.operators.single_rows.kernels.arrays import grown

NO_SEQ = NEVER // 4
"""In place of the oldest seq of an empty list."""


class QueryLists(NamedTuple):
    """A list per query and key, in rank order, and what a replay of it goes on from.

    int64 (Q, keys): ``begin`` and ``room``, its place in the pool; ``size``, its members; ``limit``, how many it is filled with; ``cut``,
    the seq of its cutoff; ``full``, 1 if it holds all there is; ``oldest``, the least seq of the first k, ``NO_SEQ`` for none.
    float64 (Q, keys): ``cutoff``, the score from which on rows are on the list.

    The pool: ``score`` float64, ``seq`` and ``time`` int64 (room of all lists,). It moves when it grows; ``end``: how much is in use.
    """

    begin: I64
    room: I64
    size: I64
    limit: I64
    cutoff: F64
    cut: I64
    full: I64
    oldest: I64
    score: F64
    seq: I64
    time: I64
    end: int


@maker
def moved_list(lists: QueryLists, query: int, key: int, size: int, room: int) -> QueryLists:
    """Move a list of ``size`` to the pool's end, with ``room``; the pool may move, too. O(size), amortised."""
    score, seq, time, to = lists.score, lists.seq, lists.time, lists.end
    if to + room > len(score):
        more = 2 * (to + room)
        score, seq, time = grown(score, more), grown(seq, more), grown(time, more)
    begin = lists.begin[query, key]
    for i in range(size):
        score[to + i], seq[to + i], time[to + i] = score[begin + i], seq[begin + i], time[begin + i]
    lists.begin[query, key], lists.room[query, key] = to, room
    return QueryLists(
        lists.begin, lists.room, lists.size, lists.limit, lists.cutoff, lists.cut, lists.full, lists.oldest, score, seq, time, to + room
    )  # fmt: skip
