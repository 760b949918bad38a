"""The whole advance of a bucket in one call: arrivals and time events of every key, for every query.

Per key the retained objects (those with fewer than K newer dominators) are scanned newest first. The scan ends at the K-th dominator of
the arrival: whatever is older and dominated by the arrival is dominated by those K as well, hence gone already. So one short scan gives
both the K newest older dominators and every object the arrival dominates (strictness and ``distinct`` keep it so, docs/algorithms.md D4).
Words (``skyline_words``) test many objects per instruction, keys decide the hits.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from skyband.operators.base import NEVER, AnyArray
from skyband.operators.jit import jit
from skyband.operators.skyline.kernels import keys as ends
from skyband.operators.skyline.kernels.events import (
    COUNT,
    DUE,
    EVERY,
    FRONT,
    GONE,
    HEAD,
    MICROS,
    NEWER,
    POS,
    PRED,
    SEQ,
    TIME,
    elapse,
    link,
    move,
    refront,
    room,
    unlink,
)
from skyband.operators.skyline.kernels.scan import (
    CHUNK,
    LANES,
    NEAR,
    any_coarse,
    any_hit,
    close_gap,
    coarsen,
    compare,
    far_masks,
    highest,
    near_masks,
    squeeze,
)
from skyband.operators.skyline.kernels.skip import AHEAD, KNOWN, STRETCH, passed_over

CLOSE: int = 64
"""Removals this close to the newest object close the gap; others leave a hole until a quarter are holes."""

FAR: int = 2**61

LIFT: int = 64
"""Up to this many promotions of an event are found without a scan."""

LONG: int = 512
"""Scans this long use coarse words."""


@jit
def run(
    band: int, dims: int, distinct: bool, state_count: int, state_micros: int, until: int, guard: int, dead: int,
    fields: AnyArray, shifts: AnyArray, top_field: int,
    active: AnyArray, lo_row: AnyArray, hi_row: AnyArray, a_seq: AnyArray, a_time: AnyArray, a_keys: AnyArray, a_word: AnyArray,
    usable: AnyArray,
    start: AnyArray, rows: AnyArray, words: AnyArray, last: AnyArray, per_query: AnyArray, due_at: AnyArray, shown_start: AnyArray,
    shown_rows: AnyArray, work: AnyArray,
) -> tuple[AnyArray, int, AnyArray, AnyArray, AnyArray, AnyArray, AnyArray]:  # fmt: skip
    """Advance the keys with ``active``; the others are copied.

    Arrivals of key k are rows lo_row[k] .. hi_row[k]; its retained objects rows start[k] .. start[k+1] of ``rows`` (r, 3 + K + D) and
    ``words`` (r,). ``per_query`` (keys, Q, 8), ``last`` (keys,) and ``due_at`` (keys,) are changed in place. Returns change rows, their
    number, and new start, rows, words, shown_start, shown_rows. O(scanned objects per arrival); see the module.
    """
    nk = len(active)
    nq = per_query.shape[1]
    width = rows.shape[1]
    first = PRED + band
    boundaries = shown_start.shape[0] > 1
    biggest, total, shown_most = ends.sizes(nk, nq, active, lo_row, hi_row, start, shown_start)
    cap = biggest + 1
    obj = np.empty((cap, width), np.int64)
    word = np.full(cap + 2 * LANES, dead, np.int64)
    slot = np.full(cap + 2 * LANES, -1, np.int64)
    coarse = np.empty(cap + 2 * LANES, np.int32)
    free = np.empty(cap, np.int64)
    old, new = np.empty(cap, np.int64), np.empty(cap, np.int64)
    child = np.empty(cap, np.int64)
    after = np.empty(cap, np.int64)
    before_of = np.empty(cap, np.int64)
    lift = np.empty(LIFT, np.int64)
    pred = np.empty((cap, band), np.int64)
    hit, hit_at = np.empty(cap, np.int64), np.empty(cap, np.int64)
    shown = np.zeros((nq if boundaries else 1, shown_most + 2, 2), np.int64)
    scratch = np.empty((shown_most + 2, 2), np.int64)
    out = np.empty((1024, 8), np.int64)
    n = 0
    new_rows = np.empty((total, width), np.int64)
    new_words = np.empty(total, np.int64)
    new_start = np.zeros(nk + 1, np.int64)
    shown_total = shown_rows.shape[0] + (nq * total if boundaries else 0)
    new_shown = np.empty((shown_total, 2), np.int64)
    new_shown_start = np.zeros(shown_start.shape[0], np.int64)
    r = 0
    b_rows = 0
    tests = 0
    scans = 0
    coarse_bits, drop, coarse_guard, coarse_dead = ends.coarse_layout(fields.shape[0], top_field)  # for long scans only
    ones = ends.one_in_each(shifts)
    ahead = np.empty(AHEAD, np.int64)
    known = np.empty(KNOWN, np.int64)
    known_seq = np.empty(KNOWN, np.int64)
    jump = np.empty(STRETCH, np.int64)
    least_count, least_micros = ends.smallest_window(nk, nq, state_count, per_query)
    k = 0
    while k < nk:
        if not active[k]:
            k, r, b_rows = ends.carry_over(
                k, nk, nq, active, start, rows, words, shown_start, shown_rows, new_start, new_rows, new_words, new_shown_start, new_shown,
                r, b_rows,
            )  # fmt: skip
            continue
        # load
        m = start[k + 1] - start[k]
        lo = LANES
        coarse_end = lo
        hi = LANES + m
        top = m
        frees = 0
        holes = 0
        queries = per_query[k]
        obj[:m] = rows[start[k] : start[k + 1]]
        word[lo:hi] = words[start[k] : start[k + 1]]
        ends.tie_up(m, band, lo, obj, slot, pred, old, new, child, after, before_of)
        timed = state_micros > 0
        for w in range(nq):
            q = queries[w]
            timed = timed or q[EVERY] > 0
            p = lo
            while p < hi and obj[p - lo, SEQ] < q[HEAD]:
                p += 1
            q[POS] = p
            refront(q, obj, slot, hi)
            if boundaries:
                ends.take_shown(w, shown_start[k * nq + w], shown_start[k * nq + w + 1], shown_rows, shown)
        next_at = due_at[k]
        state_front = obj[0, SEQ] if m > 0 else NEVER
        tail = last[k]
        i = lo_row[k]
        stretch = i
        stretch_end = i
        skips = shifts.shape[0] > 0 and hi_row[k] - i > 1
        tries = 0
        turn = LANES
        known_seq[:] = -1
        while True:
            more = i < hi_row[k]
            if skips and more and i >= stretch_end:
                stretch = i
                stretch_end = min(i + STRETCH, hi_row[k])
                if tries > 0:
                    tries -= 1
                    for x in range(stretch_end - stretch):
                        jump[x] = x
                else:
                    # what is alive in every query's window to the end of the stretch
                    p = lo
                    oldest = max(0, a_seq[stretch_end - 1] - least_count + 1)
                    while p < hi and (slot[p] < 0 or obj[slot[p], SEQ] < oldest):
                        p += 1
                    if least_micros > 0:
                        while p < hi and (slot[p] < 0 or obj[slot[p], TIME] + least_micros <= a_time[stretch_end - 1]):
                            p += 1
                        oldest = max(oldest, obj[slot[p], SEQ] if p < hi else NEVER)
                    x, turn = passed_over(
                        a_word[stretch:stretch_end], usable[stretch:stretch_end], guard, ones, dead, oldest, word, slot, obj, p, hi,
                        ahead, known, known_seq, turn, jump,
                    )  # fmt: skip
                    if x * 4 < stretch_end - stretch:
                        tries = 16
            over = skips and more and jump[i - stretch] > i - stretch
            if over and not timed:
                # nothing happens until the next arrival that counts, or the next that pushes a retained object out
                x = min(state_front, FAR) + state_count
                for w in range(nq):
                    x = min(x, min(queries[w, FRONT], FAR) + queries[w, COUNT])
                x = min(stretch + jump[i - stretch], i + max(0, x - a_seq[i]))
                if x > i:
                    tail = a_seq[x - 1]
                    i = x
                    continue
            if timed:
                before = a_time[i] + 1 if more else until
                if next_at < before:
                    next_at = NEVER
                    for w in range(nq):
                        out, n, e = elapse(
                            queries[w], w, k, before, before - 1 if more else before, tail, hit, obj, slot, hi, old, child, after, lift,
                            shown[w if boundaries else 0], scratch, out, n,
                        )  # fmt: skip
                        next_at = min(next_at, e)
                    if state_micros > 0:
                        while lo < hi and (slot[lo] < 0 or obj[slot[lo], TIME] + state_micros < before):
                            if slot[lo] >= 0:
                                unlink(slot[lo], -1, child, after, before_of)  # its parent is older and left before
                                free[frees] = slot[lo]
                                frees += 1
                            else:
                                holes -= 1
                            lo += 1
                        if lo < hi:
                            next_at = min(next_at, obj[slot[lo], TIME] + state_micros)
                        state_front = obj[slot[lo], SEQ] if lo < hi else NEVER
            if not more:
                break
            s = a_seq[i]
            tail = s
            # the oldest retained objects that leave the state's count window with this arrival
            keep = s - state_count + 1
            alive = lo
            if state_front < keep:
                while alive < hi and (slot[alive] < 0 or obj[slot[alive], SEQ] < keep):
                    alive += 1
            hits = 0
            fresh = -1
            least = GONE  # of the crit of what the arrival dominates: below a query's head if a member is among them
            enters = GONE
            if usable[i] and not over:
                if frees > 0:
                    frees -= 1
                    fresh = free[frees]
                else:
                    fresh = top
                    top += 1
                obj[fresh, SEQ] = s
                obj[fresh, TIME] = a_time[i]
                obj[fresh, NEWER] = 0
                for j in range(first, width):
                    obj[fresh, j] = a_keys[j - first, i]
                above = a_word[i] + guard + guard + 1
                below = a_word[i] - 1
                found = 0
                ready = False
                coarse_above: Any = np.int64(0)
                coarse_below: Any = np.int64(0)
                p = hi
                while p > alive:
                    if p == hi:
                        p -= NEAR
                        up, down = near_masks(word, p, above, below, guard)
                    else:
                        if p - alive >= LONG and coarse_bits >= 4 and not ready:
                            ready = True
                            if hi - coarse_end >= LONG:
                                for x in range(coarse_end, hi - LONG // 2):
                                    coarse[x] = coarse_guard + coarsen(word[x] - guard, fields, top_field, drop, coarse_bits)
                                coarse_end = hi - LONG // 2
                            x = coarsen(a_word[i], fields, top_field, drop, coarse_bits)
                            coarse_above = x + coarse_guard + coarse_guard + 1
                            coarse_below = x - 1
                        while p - CHUNK >= alive:
                            if ready and p <= coarse_end and not any_coarse(coarse, p - CHUNK, coarse_above, coarse_below, coarse_guard):
                                p -= CHUNK
                            elif any_hit(word, p - CHUNK, above, below, guard):
                                break
                            else:
                                p -= CHUNK
                        p -= LANES
                        up, down = far_masks(word, p, above, below, guard)
                    if p < alive:  # what is below has left
                        up = (up >> (alive - p)) << (alive - p)
                        down = (down >> (alive - p)) << (alive - p)
                    while up != 0:
                        x = highest(up)
                        o = slot[p + x]
                        tests += 1
                        if compare(obj, o, fresh, first, dims) == 1:
                            obj[fresh, PRED + found] = obj[o, SEQ]
                            pred[fresh, found] = o
                            found += 1
                            if found == band:
                                down = (down >> x) << x
                                break
                        up ^= np.int64(1) << x
                    while down != 0:
                        x = highest(down)
                        o = slot[p + x]
                        tests += 1
                        c = compare(obj, o, fresh, first, dims)
                        if c == 2 or (c == 3 and distinct):
                            hit[hits] = o
                            hit_at[hits] = p + x
                            hits += 1
                        down ^= np.int64(1) << x
                    if found == band:
                        break
                scans += hi - p
                for j in range(found, band):
                    obj[fresh, PRED + j] = -1
                    pred[fresh, j] = -1
                old[fresh] = GONE
                enters = obj[fresh, PRED + band - 1]
                new[fresh] = enters
                child[fresh] = -1
                for j in range(hits):
                    o = hit[j]
                    c = band - 1 - (obj[o, NEWER] + 1)
                    new[o] = obj[o, PRED + c] if c >= 0 else GONE
                    least = min(least, old[o])
            for w in range(nq):
                head = max(queries[w, HEAD], s - queries[w, COUNT] + 1)
                if queries[w, FRONT] < head or enters < head or least < head:
                    out = room(out, n, hi - lo + hits + 2)
                    n = move(queries[w], w, k, a_time[i], head, fresh, hit, hits, obj, slot, hi, old, new, child, after, lift, out, n)
                    next_at = min(next_at, queries[w, DUE])
                else:
                    queries[w, HEAD] = head
            for j in range(hits):
                o = hit[j]
                p = hit_at[j]
                c = band - 1 - obj[o, NEWER]
                x = pred[o, c]
                gone = x < 0 or obj[x, SEQ] != obj[o, PRED + c]  # it left and its slot is another's
                unlink(o, -1 if gone else x, child, after, before_of)
                obj[o, NEWER] += 1
                old[o] = new[o]
                if c > 0:
                    x = pred[o, c - 1]
                    gone = x < 0 or obj[x, SEQ] != obj[o, PRED + c - 1]
                    link(o, -1 if gone else x, child, after, before_of)
                    continue
                free[frees] = o
                frees += 1
                if hi - p <= CLOSE:
                    close_gap(word, slot, p, hi)
                    coarse_end = min(coarse_end, p)
                    hi -= 1
                    for w in range(nq):
                        if queries[w, POS] > p:
                            queries[w, POS] -= 1
                else:
                    word[p] = dead
                    coarse[p] = coarse_dead
                    slot[p] = -1
                    holes += 1
            while lo < alive:
                if slot[lo] >= 0:
                    unlink(slot[lo], -1, child, after, before_of)  # its parent is older and left before
                    free[frees] = slot[lo]
                    frees += 1
                else:
                    holes -= 1
                lo += 1
            if state_front < keep:
                while lo < hi and slot[lo] < 0:
                    lo += 1
                    holes -= 1
                state_front = obj[slot[lo], SEQ] if lo < hi else NEVER
            if fresh >= 0:
                if holes > 32 and holes * 4 > hi - lo:
                    c = lo
                    for p in range(lo, coarse_end):
                        if slot[p] >= 0:
                            c += 1
                    coarse_end = c
                    hi = squeeze(word, coarse, slot, lo, hi, queries, POS)
                    holes = 0
                old[fresh] = new[fresh]
                link(fresh, pred[fresh, band - 1], child, after, before_of)
                word[hi] = a_word[i] + guard
                slot[hi] = fresh
                if lo == hi:
                    state_front = s
                hi += 1
                for w in range(nq):
                    queries[w, FRONT] = min(queries[w, FRONT], s)
                    if queries[w, MICROS] > 0:
                        next_at = min(next_at, a_time[i] + queries[w, MICROS])
                if state_micros > 0:
                    next_at = min(next_at, a_time[i] + state_micros)
            i += 1
        # store
        last[k] = tail
        for w in range(nq):
            queries[w, HEAD] = max(queries[w, HEAD], tail - queries[w, COUNT] + 1)
        due_at[k] = next_at
        r, b_rows = ends.put_back(
            k, nq, lo, hi, slot, obj, word, shown, new_start, new_rows, new_words, new_shown_start, new_shown, r, b_rows
        )  # fmt: skip
        k += 1
    work[0] += tests
    work[1] += scans
    return out, n, new_start, new_rows[:r], new_words[:r], new_shown_start, new_shown[:b_rows]
