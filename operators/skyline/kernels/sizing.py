"""Keep the members of a skyline that are preferred by weights closest to given ones: ORD (Mouratidis, Li, Tang, SIGMOD 2021).

A member r scores at least as high as s for all weights within a distance of the seed weights. The largest such distance is that from
the seed to the weights for which both score alike (``crossing``). The inflection radius of s is the band-th largest of these distances.

Distances are rounded to multiples of ``GRAIN``. Two that are equal in exact arithmetic may differ in the last bits of their doubles, by
less than 1e-14, and then rounding would decide instead of the age of the members.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from skyband.operators.base import BOUNDARY, DISPLACED, PROMOTED, AnyArray
from skyband.operators.jit import inner, jit
from skyband.operators.skyline.kernels.ranking import AT, CAUSE, KEY, POS, QUERY, SEQ, SIGN, STEP, find_change, find_row, same_step

GRAIN: Final = 2.0**-32
"""Distances are multiples of this."""


class Points(NamedTuple):
    """The values of rows, grouped by key, in seq order; larger is better."""

    start: AnyArray
    """(keys + 1,) int64: rows start[k] .. start[k + 1] are key k's."""
    seq: AnyArray
    """(n,) int64."""
    values: AnyArray
    """(n, d) float64."""


class Members(NamedTuple):
    """The members of the skylines of Q queries, in ascending order of seq."""

    start: AnyArray
    """(keys * Q + 1,) int64: query w of key k has the members start[k * Q + w] .. of the next."""
    seq: AnyArray
    """(n,) int64."""
    shown: AnyArray
    """(n,) uint8: 1 if in the result of the chosen size."""
    values: AnyArray
    """(n, d) float64."""


class Preference(NamedTuple):
    """What decides between members."""

    weights: AnyArray
    """(d,) float64: the seed weights, at least 0 with the sum 1."""
    band: int
    distinct: bool


@inner
def crossing(better: AnyArray, worse: AnyArray, weights: AnyArray, delta: AnyArray) -> float:
    """Return the largest distance from ``weights`` up to which ``better`` scores at least as high as ``worse``; all arrays (d,) float64.

    It is rounded to a multiple of ``GRAIN``, halves up. It is inf if that holds for all weights, and 0.0 if ``better`` scores no higher for
    ``weights`` or both are equal. Else it is the distance to the nearest weights w >= 0 with the sum 1 and w . (better - worse) <= 0. These
    lie on a face of the simplex, in the plane of equal scores; the nearest of every face is in closed form.
    ``delta``: space to work in. O(d 2^d).
    """
    d = len(weights)
    largest, higher, lower = 0.0, False, False
    for i in range(d):
        delta[i] = 0.0 if better[i] == worse[i] else better[i] - worse[i]
        largest = max(largest, abs(delta[i]))
        higher = higher or delta[i] > 0.0
        lower = lower or delta[i] < 0.0
    if not higher:
        return 0.0
    if not lower:
        return np.inf
    score = 0.0
    for i in range(d):
        if largest < np.inf:
            delta[i] = delta[i] / largest
        else:
            delta[i] = 1.0 if delta[i] == np.inf else (-1.0 if delta[i] == -np.inf else 0.0)
        score += weights[i] * delta[i]
    if score <= 0.0:
        return 0.0
    least = np.inf
    for face in range(1, 1 << d):
        least = min(least, squared_distance(face, delta, weights))
    return float(np.floor(np.sqrt(least) / GRAIN + 0.5) * GRAIN)


@inner
def squared_distance(face: int, delta: AnyArray, weights: AnyArray) -> float:
    """Return the squared distance from ``weights`` to the nearest w with w . delta = 0 in a face of the simplex, inf if it is outside.

    ``face`` has bit i set if w[i] may be other than 0. The nearest point of a face whose ``delta`` have one sign has more zeros.
    """
    d = len(weights)
    count, total, mean, higher, lower = 0, 0.0, 0.0, -1, -1
    for i in range(d):
        if (face >> i) & 1:
            count += 1
            total += weights[i]
            mean += delta[i]
            if delta[i] > 0.0:
                higher = i
            elif delta[i] < 0.0:
                lower = i
    if (higher >= 0) != (lower >= 0):
        return np.inf
    shift, slope, square = (1.0 - total) / count, 0.0, 0.0
    mean = mean / count
    if higher >= 0:
        if count == 2:  # one point, without rounding that could put it outside
            at_higher = -delta[lower] / (delta[higher] - delta[lower]) - weights[higher]
            at_lower = delta[higher] / (delta[higher] - delta[lower]) - weights[lower]
            for i in range(d):
                step = at_higher if i == higher else (at_lower if i == lower else weights[i])
                square += step * step
            return square
        spread, score = 0.0, 0.0
        for i in range(d):
            if (face >> i) & 1:
                spread += (delta[i] - mean) * (delta[i] - mean)
                score += delta[i] * (weights[i] + shift)
        slope = -score / spread
    for i in range(d):
        step = weights[i]
        if (face >> i) & 1:
            step = shift + slope * (delta[i] - mean)
            if weights[i] + step < 0.0:
                return np.inf
        square += step * step
    return square


@jit
def radii(seq: AnyArray, values: AnyArray, preference: Preference) -> AnyArray:
    """Return the inflection radius (n,) float64 of every member, from their seqs (n,) and values (n, d). O(n^2 (d 2^d + band)).

    It is the band-th largest of the distances up to which the other members score at least as high, 0 if that few do.
    """
    n, band = len(seq), preference.band
    found = np.zeros(n, np.float64)
    delta, most = np.empty(len(preference.weights), np.float64), np.empty(band, np.float64)
    for j in range(n):
        for i in range(band):
            most[i] = 0.0
        for r in range(n):
            if r == j:
                continue
            distance = crossing(values[r], values[j], preference.weights, delta)
            if distance == 0.0 and preference.distinct and seq[r] > seq[j]:
                equal = True
                for i in range(len(delta)):
                    equal = equal and values[r, i] == values[j, i]
                if equal:
                    distance = np.inf
            place = band
            while place > 0 and most[place - 1] < distance:
                if place < band:
                    most[place] = most[place - 1]
                place -= 1
            if place < band:
                most[place] = distance
        found[j] = most[band - 1]
    return found


@jit
def chosen(seq: AnyArray, values: AnyArray, size: int, preference: Preference) -> AnyArray:
    """Return which members (n,) uint8 have the ``size`` smallest radii, of equal ones the newest; ``seq`` ascends. See ``radii``."""
    n = len(seq)
    found = np.zeros(n, np.uint8)
    if n <= size:
        for j in range(n):
            found[j] = 1
    else:
        radius = radii(seq, values, preference)
        order = np.argsort(radius[::-1].copy(), kind="mergesort")  # stable: of equal radii the newest first
        for j in range(size):
            found[n - 1 - order[j]] = 1
    return found


@jit
def values_of(key: AnyArray, seq: AnyArray, known: Points, fresh: Points) -> AnyArray:
    """Return the values (n, d) float64 of rows, which are ``known`` or of the ``fresh`` arrivals, else NaN. O(n (d + log rows))."""
    d = known.values.shape[1]
    found = np.full((len(seq), d), np.nan)
    for i in range(len(seq)):
        place = find_row(known, key[i], seq[i])
        if place >= 0:
            for j in range(d):
                found[i, j] = known.values[place, j]
        else:
            place = find_row(fresh, key[i], seq[i])
            if place >= 0:
                for j in range(d):
                    found[i, j] = fresh.values[place, j]
    return found


@inner
def put(found: AnyArray, written: int, rows: AnyArray, first: int, step: int, pos: int, sign: int, cause: int, seq: int) -> None:
    """Write one change in place ``written``, of the query, key and instant of the change row ``first``."""
    row = found[written]
    row[QUERY], row[KEY] = rows[first, QUERY], rows[first, KEY]
    row[AT], row[STEP] = rows[first, AT], step
    row[POS], row[SIGN] = pos, sign
    row[CAUSE], row[SEQ] = cause, seq


@jit
def after_step(
    rows: AnyArray, values: AnyArray, first: int, middle: int, end: int, seq: AnyArray, shown: AnyArray, own: AnyArray
) -> tuple[AnyArray, AnyArray, AnyArray]:
    """Return the members after a step: rows [first, middle) leave, [middle, end) enter. O((members + step) log step)."""
    size = len(seq)
    kept, count = np.empty(size, np.int64), 0
    for j in range(size):
        if find_change(rows, first, middle, seq[j]) < 0:
            kept[count] = j
            count += 1
    total = count + end - middle
    new_seq, new_shown, new_values = np.empty(total, np.int64), np.zeros(total, np.uint8), np.empty((total, own.shape[1]), np.float64)
    old, row = 0, end - 1  # the rows that enter are the newest first
    for j in range(total):
        if row < middle or (old < count and seq[kept[old]] < rows[row, SEQ]):
            new_seq[j], new_shown[j] = seq[kept[old]], shown[kept[old]]
            for i in range(own.shape[1]):
                new_values[j, i] = own[kept[old], i]
            old += 1
        else:
            new_seq[j] = rows[row, SEQ]
            for i in range(own.shape[1]):
                new_values[j, i] = values[row, i]
            row -= 1
    return new_seq, new_shown, new_values


@jit
def put_step(
    rows: AnyArray, first: int, middle: int, end: int, step: int, entered: int, before: tuple[AnyArray, AnyArray],
    after: tuple[AnyArray, AnyArray], found: AnyArray, written: int,
) -> int:  # fmt: skip
    """Write how the result ``after`` a step differs from that ``before``, the newest first; return the number of changes then.

    Both are (seq, shown) of the members; the change rows are those of ``after_step``. ``entered``: the cause of members that the skyline
    had before.
    """
    begin = written
    seq, shown = before
    new_seq, new_shown = after
    other = len(new_seq) - 1
    for j in range(len(seq) - 1, -1, -1):
        while other >= 0 and new_seq[other] > seq[j]:
            other -= 1
        stays = other >= 0 and new_seq[other] == seq[j] and new_shown[other] == 1
        if shown[j] == 1 and not stays:
            row = find_change(rows, first, middle, seq[j])
            put(found, written, rows, first, step, written - begin, -1, rows[row, CAUSE] if row >= 0 else DISPLACED, seq[j])
            written += 1
    other = len(seq) - 1
    for j in range(len(new_seq) - 1, -1, -1):
        while other >= 0 and seq[other] > new_seq[j]:
            other -= 1
        was = other >= 0 and seq[other] == new_seq[j] and shown[other] == 1
        if new_shown[j] == 1 and not was:
            row = find_change(rows, middle, end, new_seq[j])
            put(found, written, rows, first, step, written - begin, 1, rows[row, CAUSE] if row >= 0 else entered, new_seq[j])
            written += 1
    return written


@jit
def key_changes(
    rows: AnyArray, values: AnyArray, size: int, entered: int, step: int, preference: Preference, seq: AnyArray, shown: AnyArray,
    own: AnyArray,
) -> tuple[AnyArray, AnyArray, AnyArray, AnyArray]:  # fmt: skip
    """Return the changes (m, 8) of one query and key from the change rows (n, 8) of its skyline, and the members (seq, shown, values) then.

    ``values`` (n, d) are those of the rows, ``step`` is the last one before; each step takes the time of ``radii``.
    """
    count, first, written = len(rows), 0, 0
    found = np.empty((0, 8), np.int64)
    while first < count:
        middle = first
        while middle < count and rows[middle, SIGN] < 0 and same_step(rows, first, middle):
            middle += 1
        end = middle
        while end < count and rows[end, SIGN] > 0 and same_step(rows, first, end):
            end += 1
        new_seq, new_shown, new_values = after_step(rows, values, first, middle, end, seq, shown, own)
        new_shown = chosen(new_seq, new_values, size, preference)
        room = written + len(seq) + len(new_seq)
        if room > len(found):
            more = np.empty((2 * room, 8), np.int64)
            for i in range(written):
                for field in range(8):
                    more[i, field] = found[i, field]
            found = more
        after = put_step(rows, first, middle, end, step + 1, entered, (seq, shown), (new_seq, new_shown), found, written)
        if after > written:
            step += 1
        written, first = after, end
        seq, shown, own = new_seq, new_shown, new_values
    return found[:written].copy(), seq, shown, own


def sized_changes(
    rows: AnyArray, values: AnyArray, sizes: AnyArray, bounded: AnyArray, steps: AnyArray, members: Members, preference: Preference
) -> tuple[AnyArray, Members]:
    """Return the changes (m, 8) of results of a chosen size from change rows (n, 8) of skylines, and the members after them.

    ``rows`` are sorted by (query, key, step, pos), with ``values`` (n, d) each. Query w shows ``sizes[w]`` (Q,) members; ``bounded`` (Q,):
    it changes at boundaries only. ``steps`` (keys, Q) counts steps, in place. O(all members), and the time of ``radii`` per step.
    """
    queries, own = len(sizes), members
    runs = np.flatnonzero(np.diff(rows[:, QUERY], prepend=-1) | np.diff(rows[:, KEY], prepend=-1))
    written, changed = [np.empty((0, 8), np.int64)], {}
    for first, end in zip(runs.tolist(), [*runs[1:].tolist(), len(rows)], strict=True):
        query, key = int(rows[first, QUERY]), int(rows[first, KEY])
        place = key * queries + query
        old = slice(own.start[place], own.start[place + 1])
        found, *after = key_changes(
            rows[first:end], values[first:end], int(sizes[query]), BOUNDARY if bounded[query] else PROMOTED, int(steps[key, query]),
            preference, own.seq[old], own.shown[old], own.values[old],
        )  # fmt: skip
        changed[place] = after
        if len(found):
            steps[key, query] = found[-1, STEP]
            written.append(found)
    lengths, parts, done = np.diff(own.start), [], 0
    for place in sorted(changed):
        same = slice(done, own.start[place])
        parts += [(own.seq[same], own.shown[same], own.values[same]), changed[place]]
        lengths[place], done = len(changed[place][0]), own.start[place + 1]
    parts.append((own.seq[done:], own.shown[done:], own.values[done:]))
    seq, shown, points = (np.concatenate([part[i] for part in parts]) for i in range(3))
    return np.concatenate(written), Members(np.append(0, np.cumsum(lengths)), seq, shown, points)
