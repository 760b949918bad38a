"""The driver: one call takes a whole ``advance`` of every key that has arrivals or is due, sub-batch by sub-batch.

It is compiled once; the scoring expression comes in as first-class functions. Tables: ``km`` as in ``pairs_arena``; ``qi`` (int64, one row
per query: k, count, micros, every, where its list starts, where its shown list starts), ``qf`` (largest internal score it accepts).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from skyband.operators.base import AnyArray
from skyband.operators.jit import jit
from skyband.operators.topk_pairs.kernels.arena import BASE, LO, NEXT, OFF, SCAP, SLEN, SOFF, alive_from
from skyband.operators.topk_pairs.kernels.replay import oldest, replay, select
from skyband.operators.topk_pairs.kernels.scan import LARGEST, scan
from skyband.operators.topk_pairs.kernels.skyband import merge
from skyband.operators.windows import UNBOUNDED


@jit
def store(
    km: AnyArray, key: int, os: AnyArray, oo: AnyArray, on: AnyArray, ou: AnyArray, m: int,
    ks: AnyArray, ko: AnyArray, kn: AnyArray, ku: AnyArray, end: int,
) -> tuple[AnyArray, AnyArray, AnyArray, AnyArray, int]:  # fmt: skip
    """Make (os, oo, on, ou)[:m] the key's skyband; returns the (perhaps new) arena and its end. Amortised O(m)."""
    if m > km[key, SCAP]:
        cap = 2 * m + 8
        km[key, SLEN] = 0
        if end + cap > len(ks):
            total = cap
            for j in range(len(km)):
                total += km[j, SLEN] + km[j, SLEN] // 2
            size = 2 * total + 64
            ws, wu = np.empty(size, np.float64), np.empty(size, np.float64)
            wo, wn = np.empty(size, np.int64), np.empty(size, np.int64)
            end = 0
            for j in range(len(km)):
                a, n = km[j, SOFF], km[j, SLEN]
                ws[end : end + n], wo[end : end + n], wn[end : end + n] = ks[a : a + n], ko[a : a + n], kn[a : a + n]
                wu[end : end + n] = ku[a : a + n]
                km[j, SOFF], km[j, SCAP] = end, n + n // 2
                end += n + n // 2
            ks, ko, kn, ku = ws, wo, wn, wu
        km[key, SOFF], km[key, SCAP] = end, cap
        end += cap
    a = km[key, SOFF]
    ks[a : a + m], ko[a : a + m], kn[a : a + m], ku[a : a + m] = os[:m], oo[:m], on[:m], ou[:m]
    km[key, SLEN] = m
    return ks, ko, kn, ku, end


@jit
def wake_times(
    key: int, qi: AnyArray, km: AnyArray, times: AnyArray, ls: AnyArray, lo: AnyArray, lm: AnyArray, due: AnyArray, wake: AnyArray
) -> None:
    """wake[q, key]: the next expiry by time of a list's member, or the next boundary at which the query has something to tell."""
    shift = km[key, OFF] - km[key, BASE]
    for q in range(len(qi)):
        w = due[q, key]
        if qi[q, 2] < UNBOUNDED and lm[q] > 0:
            w = min(w, times[oldest(lo[qi[q, 4] : qi[q, 4] + lm[q]], lm[q]) + shift] + qi[q, 2])
        wake[q, key] = w


@jit
def fill_lists(
    key: int, qi: AnyArray, qf: AnyArray, km: AnyArray, times: AnyArray, upto: int, instant: int, intra: AnyArray, flags: AnyArray,
    c_s: AnyArray, c_o: AnyArray, c_i: AnyArray, ks: AnyArray, ko: AnyArray, kn: AnyArray,
    ls: AnyArray, lo: AnyArray, ln: AnyArray, lm: AnyArray,
) -> None:  # fmt: skip
    """Every query's list as of ``instant``, objects before seq ``upto`` having arrived, from the skyband (docs/algorithms.md Theorem A)."""
    a = km[key, SOFF]
    z = a + km[key, SLEN]
    for q in range(len(qi)):
        c = qi[q, 4]
        k = qi[q, 0]
        first = alive_from(km, key, times, upto, instant, qi[q, 1], qi[q, 2])
        lm[q] = select(
            k, qf[q], first, upto, 0, intra, flags, c_s, c_o, c_i, 0, ks, ko, kn, a, z, ls[c : c + k], lo[c : c + k], ln[c : c + k]
        )


def drive(
    count_a: Callable[..., int], score_a: Callable[..., None], count_b: Callable[..., int], score_b: Callable[..., None],
    qi: AnyArray, qf: AnyArray, top: int, count: int, micros: int, size: int, side_row: int, code_a: int, code_b: int,
    fcols: AnyArray, icols: AnyArray, times: AnyArray, km: AnyArray, ks: AnyArray, ko: AnyArray, kn: AnyArray, ku: AnyArray, end: int,
    keys: AnyArray, first_new: AnyArray, step: AnyArray, wake: AnyArray, due: AnyArray,
    es: AnyArray, eo: AnyArray, en: AnyArray, em: AnyArray, since: int, until: int, work: AnyArray,
) -> tuple[AnyArray, AnyArray, int, AnyArray, AnyArray, AnyArray, AnyArray, int]:  # fmt: skip
    """Take all events of ``keys`` in [since, until). Returns change rows (by key, queries interleaved), their number, skyband, its end.

    ``top`` = K, ``count``/``micros`` = N, ``size`` = sub-batch size; ``side_row`` is the integer row that holds an object's side or -1.
    Arrivals of keys[g] have seqs first_new[g] up to its NEXT, and are in the window's arena already. ``work`` counts scored pairs,
    candidates, refills.
    """
    oi, os, r = np.empty((256, 9), np.int64), np.empty(256, np.float64), 0
    width = 0
    for q in range(len(qi)):
        width += qi[q, 0]
    ls, lo, ln, lm = np.empty(width, np.float64), np.empty(width, np.int64), np.empty(width, np.int64), np.zeros(len(qi), np.int64)
    xs, xo, xn = np.empty(width, np.float64), np.empty(width, np.int64), np.empty(width, np.int64)
    xf, xi = np.empty((size, fcols.shape[0]), np.float64), np.empty((size, icols.shape[0]), np.int64)
    los, sides, flags = np.empty(size, np.int64), np.zeros(size, np.int64), np.zeros(size, np.int64)
    intra, least, buf = np.empty((size, size), np.float64), np.empty(size, np.float64), np.empty(LARGEST, np.float64)
    c_s, c_o, c_i = np.empty(1024, np.float64), np.empty(1024, np.int64), np.empty(1024, np.int64)
    packed = np.empty(1024, np.int64)
    ns, no, nn, nu = np.empty(1024, np.float64), np.empty(1024, np.int64), np.empty(1024, np.int64), np.empty(1024, np.float64)
    heap = np.empty(top, np.float64)
    bs, bn = np.empty(top + size + 1, np.float64), np.empty(top + size + 1, np.int64)
    for g in range(len(keys)):
        key, t = keys[g], first_new[g]
        stop = km[key, NEXT]
        shift = km[key, OFF] - km[key, BASE]
        fill_lists(key, qi, qf, km, times, t, since - 1, intra, flags, c_s, c_o, c_i, ks, ko, kn, ls, lo, ln, lm)
        while True:
            b = min(size, stop - t)
            last = t + b == stop
            c_m = 0
            first = km[key, LO]
            for i in range(b):
                p = t + i + shift
                first = max(first, t + i + 1 - count)
                while first < t + i and times[first + shift] <= times[p] - micros:
                    first += 1
                los[i] = first
                for j in range(fcols.shape[0]):
                    xf[i, j] = fcols[j, p]
                for j in range(icols.shape[0]):
                    xi[i, j] = icols[j, p]
                if side_row >= 0:
                    side = icols[side_row, p]
                    sides[i] = 0 if side == code_b else (1 if side == code_a else 2)
                    flags[i] = 1 if side == code_a else 0
            a = km[key, SOFF]
            z = a + km[key, SLEN]
            if b > 0:
                c_s, c_o, c_i, packed, c_m = scan(  # type: ignore[no-untyped-call]
                    count_a, score_a, count_b, score_b, fcols, icols, shift, t, b, los, sides, xf, xi, ko, ku, a, z, intra, least, buf,
                    c_s, c_o, c_i, packed, work,
                )  # fmt: skip
            limit = until if last else times[t + b - 1 + shift]
            for q in range(len(qi)):
                c, k, e = qi[q, 4], qi[q, 0], qi[q, 5]
                oi, os, r, lm[q] = replay(
                    q, key, k, qi[q, 1], qi[q, 2], qi[q, 3], qf[q], qi[q, 2] < UNBOUNDED, limit, last, km, times, t, b, intra, flags, least,
                    c_s, c_o, c_i, c_m, ks, ko, kn, a, z, ls[c : c + k], lo[c : c + k], ln[c : c + k], lm[q], xs, xo, xn,
                    es[key, e : e + k], eo[key, e : e + k], en[key, e : e + k], em, step, due, oi, os, r, work,
                )  # fmt: skip
            if b > 0:
                km[key, LO] = first
                most = km[key, SLEN] + c_m + b * (b - 1) // 2
                if most > len(ns):
                    ns, no, nn, nu = (
                        np.empty(2 * most, np.float64), np.empty(2 * most, np.int64), np.empty(2 * most, np.int64),
                        np.empty(2 * most, np.float64),
                    )  # fmt: skip
                n = merge(top, first, t, b, intra, flags, c_s, c_o, c_i, packed, c_m, ks, ko, kn, a, z, ns, no, nn, nu, heap, bs, bn)
                ks, ko, kn, ku, end = store(km, key, ns, no, nn, nu, n, ks, ko, kn, ku, end)
            t += b
            if last:
                break
        wake_times(key, qi, km, times, ls, lo, lm, due, wake)
    return oi, os, r, ks, ko, kn, ku, end
