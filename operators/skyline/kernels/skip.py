"""Arrivals that never show: found for a whole stretch of arrivals at once, before any of them is looked at one by one (K = 1).

An arrival r is passed over if (1) an older object p alive in every query's window to the end of the stretch dominates it, and (2) a newer
arrival j of the same stretch dominates it. Exact, by transitivity: r is no member, since p, or what removes p and hence dominates r too, is
alive until j removes r; whatever r would have removed is dominated by p too, hence no member, and goes with j; whatever r would have kept
out is kept out by p until j removes it. The last j of a chain is not passed over, so at the end of the stretch the state is the same.

Words decide alone here: a smaller field means a smaller value, so "smaller in every field" is sufficient for dominance.
"""

from __future__ import annotations

from skyband.operators.base import AnyArray
from skyband.operators.jit import jit
from skyband.operators.skyline.kernels.events import SEQ
from skyband.operators.skyline.kernels.scan import LANES, far_masks, highest

STRETCH: int = 1024

AHEAD: int = 128
"""How many arrivals of a stretch that nothing newer dominates are tried as j."""

KNOWN: int = 64
"""How many objects that dominated an arrival are remembered and tried as p before the retained ones."""

MANY: int = 2048
"""How many of the retained objects, newest first, are tried as p."""


@jit
def _find(words: AnyArray, n: int, above: int, guard: int) -> int:
    """Where one of the first n words (then dead ones up to a multiple of ``LANES``) that is smaller in every field is, or -1. O(n)."""
    for p in range(0, n, LANES):
        smaller, _ = far_masks(words, p, above, 0, guard)
        if smaller != 0:
            at: int = p + highest(smaller)
            return at
    return -1


@jit
def passed_over(
    words: AnyArray, usable: AnyArray, guard: int, ones: int, dead: int, oldest: int, word: AnyArray, slot: AnyArray, obj: AnyArray,
    lo: int, hi: int, ahead: AnyArray, known: AnyArray, known_seq: AnyArray, turn: int, jump: AnyArray,
) -> tuple[int, int]:  # fmt: skip
    """Sets ``jump[i]`` to the first arrival >= i of the stretch (``words``, without guard bits) that is not passed over, or its length.

    An object is tried as p if its seq is at least ``oldest``; the retained ones are [lo, hi) of ``word`` and ``slot``. ``ones`` is 1 in
    every field. Returns how many arrivals are passed over and the next ``turn``, the place in ``known`` that is replaced next.
    O(AHEAD + KNOWN) per arrival, and O(MANY) for those that no known object dominates.
    """
    m = len(words)
    n = 0
    ahead[:] = dead
    for i in range(KNOWN):
        if known_seq[i] < oldest:
            known[i] = dead
    following = m
    c = 0
    for i in range(m - 1, -1, -1):
        over = False
        if usable[i]:
            above = words[i] - ones + guard + guard + 1
            p = _find(ahead, n, above, guard)
            if p < 0:
                if n < AHEAD:
                    ahead[n] = words[i] + guard
                    n += 1
            else:
                if p >= LANES:  # what dominates often comes first
                    q = i & (LANES - 1)
                    x = ahead[p]
                    ahead[p] = ahead[q]
                    ahead[q] = x
                p = _find(known, KNOWN, above, guard)
                over = p >= 0
                if p >= LANES:
                    q = i & (LANES - 1)
                    x = known[p]
                    y = known_seq[p]
                    known[p] = known[q]
                    known_seq[p] = known_seq[q]
                    known[q] = x
                    known_seq[q] = y
                elif p < 0:
                    p = hi
                    end = max(lo, hi - MANY)
                    while p > end:
                        p -= LANES
                        found, _ = far_masks(word, p, above, 0, guard)
                        if found != 0:
                            q = p + highest(found)
                            if q >= lo and slot[q] >= 0:
                                over = True
                                known[turn] = word[q]
                                known_seq[turn] = obj[slot[q], SEQ]
                                turn = LANES + (turn + 1) % (KNOWN - LANES)
                            break
        if over:
            c += 1
        else:
            following = i
        jump[i] = following
    return c, turn
