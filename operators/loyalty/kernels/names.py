"""New names among those there are."""

from __future__ import annotations

from skyband.operators.base import I64
from skyband.operators.jit import inner, jit


@inner
def name_before(length: I64, words: I64, a: int, b: int) -> bool:
    """Whether the name at place a comes before that at b: word by word, the shorter first where one begins the other."""
    for c in range(min(length[a], length[b])):
        if words[a, c] != words[b, c]:
            return bool(words[a, c] < words[b, c])
    return bool(length[a] < length[b])


@jit
def insert_places(length: I64, words: I64, order: I64, rank: I64, new: I64, place: I64, last: int) -> bool:
    """Write where in ``order`` the places ``new``, sorted by name, belong, and their ranks between those of their neighbours.

    Whether there is room between them. O(new log order).
    """
    n = len(order)
    for i in range(len(new)):
        lo, hi = place[i - 1] if i > 0 else 0, n
        while lo < hi:
            mid = (lo + hi) >> 1
            if name_before(length, words, order[mid], new[i]):
                lo = mid + 1
            else:
                hi = mid
        place[i] = lo
    i = 0
    while i < len(new):
        j = i
        while j < len(new) and place[j] == place[i]:
            j += 1
        low = rank[order[place[i] - 1]] if place[i] > 0 else 0
        high = rank[order[place[i]]] if place[i] < n else last
        gap = (high - low) // (j - i + 1)
        if gap < 1:
            return False
        for m in range(i, j):
            rank[new[m]] = low + gap * (m - i + 1)
        i = j
    return True
