"""A heap of scored places whose worst (smallest score, then smallest place) is on top."""

from __future__ import annotations

from typing import NamedTuple

from skyband.operators.base import F64, I64
from skyband.operators.jit import inner


class Heap(NamedTuple):
    """Room for a heap; how many places are in use is counted by its user.

    ``score`` float64 (room,); ``place`` int64 (room,): where the score comes from, in a numbering in which larger is newer.
    """

    score: F64
    place: I64


@inner
def sift_down(heap: Heap, size: int, score: float, place: int) -> None:
    """Put (score, place) where the top is, in a heap of ``size``. O(log size)."""
    scores, places = heap.score, heap.place
    i = 0
    while True:
        j = 2 * i + 1
        if j >= size:
            break
        if j + 1 < size and (scores[j + 1] < scores[j] or (scores[j + 1] == scores[j] and places[j + 1] < places[j])):
            j += 1
        if score < scores[j] or (score == scores[j] and place < places[j]):
            break
        scores[i], places[i] = scores[j], places[j]
        i = j
    scores[i], places[i] = score, place


@inner
def heap_push(heap: Heap, size: int, score: float, place: int) -> int:
    """Add (score, place) to a heap of ``size`` and return size + 1. O(log size)."""
    scores, places = heap.score, heap.place
    i = size
    while i > 0:
        j = (i - 1) >> 1
        if scores[j] < score or (scores[j] == score and places[j] < place):
            break
        scores[i], places[i] = scores[j], places[j]
        i = j
    scores[i], places[i] = score, place
    return size + 1


@inner
def heap_to_order(heap: Heap, size: int) -> None:
    """Turn a heap into rank order, best first. O(size log size)."""
    scores, places = heap.score, heap.place
    for end in range(size - 1, 0, -1):
        score, place = scores[0], places[0]
        sift_down(heap, end, scores[end], places[end])
        scores[end], places[end] = score, place
