"""Find the objects of a key that can meet the border of a query within some time: only these are swept.

Loyalty moves by at most 1 a microsecond. Let w be the worst loyalty of the members, b the best of the others. For a span S from now on,
others below w - 2S stay below all members, and members above b + 2S above all others: neither changes sides, whatever happens.
"""

from __future__ import annotations

from skyband.operators.base import I64, NEVER
from skyband.operators.jit import inner
from skyband.operators.loyalty.kernels.tables import (
    EMITTED,
    EVENTS,
    FAR,
    HEAD,
    HORIZON,
    IN,
    LOW,
    MEMBERS,
    OBJECTS,
    PLACE,
    SEEN,
    SINCE,
    SPAN,
    WATCHED,
    Clock,
    Objects,
    Progress,
    Tables,
    loyalty,
)


@inner
def span_of_next_list(progress: Progress, query: int, key: int, window: int, at: int) -> int:
    """Return how long the next watch list should hold: long enough that its making costs little beside the events meanwhile."""
    state = progress.queries[query, key]
    events = progress.keys[key, SEEN] - state[EVENTS]
    span = window // 32
    if state[SPAN] > 0:
        wanted = progress.keys[key, OBJECTS] // 2 + 32
        span = (at - state[SINCE]) * wanted // events if events > 0 else 4 * state[SPAN]
        span = max(state[SPAN] // 4, min(4 * state[SPAN], span))
    return int(max(1, min(window, span)))


@inner
def extremes(objects: Objects, where: I64, head: int, alone: int, at: int) -> tuple[int, int]:
    """Return the worst loyalty of the members of a key, and the best of its other objects, or 0."""
    worst, best = FAR, 0
    for obj in range(alone):
        now = loyalty(objects.word[obj], at)
        inside = where[obj] & IN
        worst = min(worst, now if inside else FAR)
        best = max(best, 0 if inside else now)
    obj = head if alone == 0 else -1
    while obj >= 0:
        now = loyalty(objects.word[obj], at)
        if where[obj] & IN:
            worst = min(worst, now)
        else:
            best = max(best, now)
        obj = objects.next[obj]
    return worst, best


@inner
def rebuild_watch_list(tables: Tables, query: int, key: int, clock: Clock, at: int) -> None:
    """Make the list of watched objects of one query and key, as of the instant ``at``. O(objects of the key)."""
    objects, progress = tables.objects, tables.progress
    state = progress.queries[query, key]
    where, following = tables.marks.where[query], tables.marks.next[query]
    k, theta = tables.queries.k[query], tables.queries.at_least[query]
    low, high = -FAR, FAR
    span = 0
    if progress.keys[key, OBJECTS] > clock.few:
        span = span_of_next_list(progress, query, key, clock.window, at)
        low, high = theta - span, theta + span
        if k > 0:
            worst, best = extremes(objects, where, progress.keys[key, HEAD], clock.alone, at)
            low, high = worst - 2 * span if state[MEMBERS] >= k else -FAR, best + 2 * span
    state[HORIZON] = at + span + 1 if span > 0 else NEVER
    state[SPAN], state[LOW] = span, low
    state[SINCE], state[EVENTS] = at, progress.keys[key, SEEN]
    last = -1
    for obj in range(clock.alone):
        now = loyalty(objects.word[obj], at)
        mark = where[obj] & (IN | EMITTED)
        where[obj] = mark
        # One side is enough for a bound too: a line may have crossed it since the last rebuild.
        if (now <= high if mark & IN else now >= low) or mark in (IN, EMITTED):
            where[obj] = mark | (1 << PLACE)
            following[obj] = last
            last = obj
    obj = progress.keys[key, HEAD] if clock.alone == 0 else -1
    while obj >= 0:
        mark = where[obj] & (IN | EMITTED)
        now = loyalty(objects.word[obj], at)
        if (now <= high if mark & IN else now >= low) or mark in (IN, EMITTED):
            mark |= 1 << PLACE
            following[obj] = last
            last = obj
        where[obj] = mark
        obj = objects.next[obj]
    state[WATCHED] = last
