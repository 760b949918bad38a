"""One pass that turns a skyband and a sub-batch's candidates into the next skyband and its staircase (docs/algorithms.md D2, Theorem C).

A pair is (score, older, newer): smaller internal score first, then larger older seq, then larger newer; ``newer`` carries a flag in its
lowest bit. The skyband is kept by older seq descending, within it by rank. ``stair[i]`` is the largest score that a pair older than
element i may have to be dominated by fewer than K of the elements 0..i: an inclusive threshold, so that one compare (``<=``) serves all;
+inf while there are fewer than K, NaN if nothing qualifies.
"""

from __future__ import annotations

import numpy as np

from skyband.operators.base import AnyArray
from skyband.operators.jit import jit
from skyband.operators.topk_pairs.kernels.arena import SLEN, SOFF


@jit
def below(t: float) -> float:
    """The inclusive threshold of "score < t"."""
    return np.nan if t == -np.inf else np.nextafter(t, -np.inf)


@jit
def push(heap: AnyArray, m: int, k: int, s: float) -> int:
    """Put ``s`` into the max-heap of the ``k`` smallest (the caller knows it belongs there); returns its size. O(log k)."""
    if m < k:
        i = m
        while i > 0:
            up = (i - 1) >> 1
            if heap[up] >= s:
                break
            heap[i] = heap[up]
            i = up
        heap[i] = s
        return m + 1
    i = 0
    while True:
        child = 2 * i + 1
        if child >= k:
            break
        if child + 1 < k and heap[child + 1] > heap[child]:
            child += 1
        if heap[child] <= s:
            break
        heap[i] = heap[child]
        i = child
    heap[i] = s
    return m


@jit
def sift(bs: AnyArray, bn: AnyArray, m: int, s: float, n: int) -> None:
    """Insert (s, n) into the first ``m`` of a buffer kept by (score ascending, newer descending)."""
    i = m
    while i > 0 and (bs[i - 1] > s or (bs[i - 1] == s and bn[i - 1] < n)):
        bs[i], bn[i] = bs[i - 1], bn[i - 1]
        i -= 1
    bs[i], bn[i] = s, n


@jit
def merge(
    k: int, lo: int, t0: int, b: int, intra: AnyArray, flags: AnyArray,
    c_s: AnyArray, c_o: AnyArray, c_i: AnyArray, packed: AnyArray, c_m: int,
    ks: AnyArray, ko: AnyArray, kn: AnyArray, k_lo: int, k_hi: int,
    os: AnyArray, oo: AnyArray, on: AnyArray, ou: AnyArray, heap: AnyArray, bs: AnyArray, bn: AnyArray,
) -> int:  # fmt: skip
    """Write the new skyband of pairs with older seq >= ``lo`` and its staircase to (os, oo, on, ou); returns its length.

    Candidates: ``intra[i, j]`` = score of arrivals t0 + j < t0 + i (NaN: none), and (c_s, c_o, c_i) with ``packed`` their order by older
    seq descending (index in the low 28 bits). Old skyband: (ks, ko, kn)[k_lo:k_hi]. O((candidates + skyband) log k).
    """
    out, m = 0, 0
    top = np.inf
    for j in range(b - 1, -1, -1):
        if t0 + j < lo:
            break
        w = 0
        for i in range(j + 1, b):
            s = intra[i, j]
            if s < top or (m < k and s == s):
                sift(bs, bn, w, s, 2 * (t0 + i) + flags[i])
                w += 1
        for i in range(w):
            s = bs[i]
            if m < k or s < top:
                m = push(heap, m, k, s)
                if m == k:
                    top = heap[0]
                os[out], oo[out], on[out] = s, t0 + j, bn[i]
                ou[out] = below(top) if m == k else np.inf
                out += 1
            else:
                break
    p, c = k_lo, 0
    while True:
        older = np.int64(-1)
        if p < k_hi:
            older = ko[p]
        if c < c_m:
            older = max(older, c_o[packed[c] & 268435455])
        if older < lo or older < 0:
            break
        w = 0
        while p < k_hi and ko[p] == older:
            if m < k or ks[p] < top:
                sift(bs, bn, w, ks[p], kn[p])
                w += 1
            p += 1
        while c < c_m:
            x = packed[c] & 268435455
            if c_o[x] != older:
                break
            if m < k or c_s[x] < top:
                i = c_i[x]
                sift(bs, bn, w, c_s[x], 2 * (t0 + i) + flags[i])
                w += 1
            c += 1
        for i in range(w):
            s = bs[i]
            if m < k or s < top:
                m = push(heap, m, k, s)
                if m == k:
                    top = heap[0]
                os[out], oo[out], on[out] = s, older, bn[i]
                ou[out] = below(top) if m == k else np.inf
                out += 1
            else:
                break
    return out


@jit
def stairs(k: int, km: AnyArray, ks: AnyArray, out: AnyArray, heap: AnyArray) -> AnyArray:
    """The staircase of every key's skyband (a state read back): ``out`` beside ``ks``. O(skyband log k)."""
    for key in range(len(km)):
        m = 0
        a = km[key, SOFF]
        for i in range(a, a + km[key, SLEN]):
            if m < k or ks[i] < heap[0]:
                m = push(heap, m, k, ks[i])
            out[i] = below(heap[0]) if m == k else np.inf
    return out
