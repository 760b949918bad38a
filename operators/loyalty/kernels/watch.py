"""Which objects of a key can meet the border of a query within some time: only these are swept.

Loyalty moves by at most 1 a microsecond. Let w be the worst loyalty of the members, b the best of the others. For a span S from now on,
others below w - 2S stay below all members, and members above b + 2S above all others: neither changes sides, whatever happens.
"""

from __future__ import annotations

from skyband.operators.base import I64, NEVER
from skyband.operators.jit import inner
from skyband.operators.loyalty.kernels.tables import (
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
    TOLD,
    WATCHED,
    Clock,
    Marks,
    Objects,
    Progress,
    Queries,
    loyalty,
)


@inner
def span_of(progress: Progress, q: int, key: int, window: int, at: int) -> int:
    """How long the next list should hold: so long that making it is little work beside the events meanwhile."""
    p = progress.queries[q, key]
    events = progress.keys[key, SEEN] - p[EVENTS]
    span = window // 32
    if p[SPAN] > 0:
        wanted = progress.keys[key, OBJECTS] // 2 + 32
        span = (at - p[SINCE]) * wanted // events if events > 0 else 4 * p[SPAN]
        span = max(p[SPAN] // 4, min(4 * p[SPAN], span))
    return int(max(1, min(window, span)))


@inner
def extremes(objects: Objects, where: I64, head: int, alone: int, at: int) -> tuple[int, int]:
    """The worst loyalty of the members of a key, and the best of its other objects, or 0."""
    worst, best = FAR, 0
    for o in range(alone):
        now = loyalty(objects.word[o], at)
        inside = where[o] & IN
        worst = min(worst, now if inside else FAR)
        best = max(best, 0 if inside else now)
    o = head if alone == 0 else -1
    while o >= 0:
        now = loyalty(objects.word[o], at)
        if where[o] & IN:
            worst = min(worst, now)
        else:
            best = max(best, now)
        o = objects.next[o]
    return worst, best


@inner
def watch_anew(queries: Queries, objects: Objects, marks: Marks, progress: Progress, q: int, key: int, clock: Clock, at: int) -> None:
    """Make the list of watched objects of one query and key, as of the instant ``at``. O(objects of the key)."""
    p, where, following = progress.queries[q, key], marks.where[q], marks.next[q]
    k, theta = queries.k[q], queries.at_least[q]
    low, high = -FAR, FAR
    span = 0
    if progress.keys[key, OBJECTS] > clock.few:
        span = span_of(progress, q, key, clock.window, at)
        low, high = theta - span, theta + span
        if k > 0:
            worst, best = extremes(objects, where, progress.keys[key, HEAD], clock.alone, at)
            low, high = worst - 2 * span if p[MEMBERS] >= k else -FAR, best + 2 * span
    p[HORIZON], p[SPAN], p[SINCE], p[EVENTS] = at + span + 1 if span > 0 else NEVER, span, at, progress.keys[key, SEEN]
    p[LOW] = low
    last = -1
    for o in range(clock.alone):
        now = loyalty(objects.word[o], at)
        mark = where[o] & (IN | TOLD)
        where[o] = mark
        # of a bound too one side is enough: its line may have been crossed since the last look
        if (now <= high if mark & IN else now >= low) or mark in (IN, TOLD):
            where[o] = mark | (1 << PLACE)
            following[o] = last
            last = o
    o = progress.keys[key, HEAD] if clock.alone == 0 else -1
    while o >= 0:
        mark = where[o] & (IN | TOLD)
        now = loyalty(objects.word[o], at)
        if (now <= high if mark & IN else now >= low) or mark in (IN, TOLD):
            mark |= 1 << PLACE
            following[o] = last
            last = o
        where[o] = mark
        o = objects.next[o]
    p[WATCHED] = last
