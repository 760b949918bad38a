"""Insert new names into the order of the known ones."""

from __future__ import annotations

from skyband.operators.base import I64
from skyband.operators.jit import inner, jit


@inner
def name_before(length: I64, words: I64, first: int, second: int) -> bool:
    """Return True if one name comes before another: word by word, the shorter first where one begins the other."""
    for index in range(min(length[first], length[second])):
        if words[first, index] != words[second, index]:
            return bool(words[first, index] < words[second, index])
    return bool(length[first] < length[second])


@jit
def insert_places(length: I64, words: I64, order: I64, rank: I64, new: I64, place: I64, last: int) -> bool:
    """Write the positions in ``order`` of the places ``new``, sorted by name, and their ranks between those of their neighbours.

    Return False if there is no gap for a rank between neighbours. O(new log order).
    """
    count = len(order)
    for index in range(len(new)):
        low_place, high_place = place[index - 1] if index > 0 else 0, count
        while low_place < high_place:
            middle = (low_place + high_place) >> 1
            if name_before(length, words, order[middle], new[index]):
                low_place = middle + 1
            else:
                high_place = middle
        place[index] = low_place
    index = 0
    while index < len(new):
        end = index
        while end < len(new) and place[end] == place[index]:
            end += 1
        low = rank[order[place[index] - 1]] if place[index] > 0 else 0
        high = rank[order[place[index]]] if place[index] < count else last
        gap = (high - low) // (end - index + 1)
        if gap < 1:
            return False
        for other in range(index, end):
            rank[new[other]] = low + gap * (other - index + 1)
        index = end
    return True
