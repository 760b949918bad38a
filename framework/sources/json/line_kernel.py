"""The check of JSON lines (``json.plain``), compiled."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from skyband.operators.jit import jit

Bytes = npt.NDArray[np.uint8]


@jit
def _hex(c: int) -> int:
    if 48 <= c <= 57:
        return c - 48
    if 65 <= c <= 70:
        return c - 55
    return c - 87 if 97 <= c <= 102 else -1


@jit
def _unit(data: Bytes, at: int, end: int) -> int:
    r"""The 16 bits that ``\uNNNN`` at ``at`` spells; -1 if there is none."""
    if at + 6 > end or data[at] != 92 or data[at + 1] != 117:
        return -1
    value = 0
    for i in range(at + 2, at + 6):
        digit = _hex(int(data[i]))
        if digit < 0:
            return -1
        value = value * 16 + digit
    return value


@jit
def text_end(data: Bytes, at: int, end: int) -> int:
    """Where the string that begins behind the quote before ``at`` has its last quote; -1 if it has none, or halves of characters."""
    while at < end and data[at] != 10:
        c = data[at]
        if c == 34:
            return at
        if c == 13 or (c == 92 and at + 1 < end and data[at + 1] == 10):
            # A line ends here for Spark.
            return -1
        if c == 92:
            unit = _unit(data, at, end)
            if 0xD800 <= unit < 0xDC00:
                low = _unit(data, at + 6, end)
                if low < 0xDC00 or low > 0xDFFF:
                    return -1
                at += 12
                continue
            if 0xDC00 <= unit < 0xE000:
                return -1
            at += 2
            continue
        at += 1
    return -1


@jit
def _kind(data: Bytes, begin: int, end: int, names: Bytes, ends: npt.NDArray[np.int64], kinds: npt.NDArray[np.int64]) -> int:
    for n in range(len(kinds)):
        if ends[n + 1] - ends[n] == end - begin:
            same = True
            for i in range(end - begin):
                if names[ends[n] + i] != data[begin + i]:
                    same = False
                    break
            if same:
                return int(kinds[n])
    return 0


@jit
def _day(data: Bytes, at: int, end: int) -> bool:
    if end - at < 10 or data[at + 4] != 45 or data[at + 7] != 45:
        return False
    digits = 0
    for i in range(10):
        digits += 48 <= data[at + i] <= 57
    return digits == 8


@jit
def _small(data: Bytes, at: int, end: int, kind: int) -> bool:
    """Whether the number at ``at`` cannot be too large: of a double, or of the seconds of an instant."""
    digits, exponent, before = 0, False, 0
    if kind == 2 and data[at] < 97:
        return False
    while at < end and data[at] != 44 and data[at] != 125 and data[at] != 93 and data[at] > 32:
        c = data[at]
        if c in (101, 69):
            exponent = True
            before, digits = digits, 0
            if at + 1 < end and data[at + 1] == 45:
                return kind == 3
        elif 48 <= c <= 57:
            digits += 1
        elif c not in (43, 45, 46):
            # A word: null, true. A word for what is not finite begins with a capital.
            return bool(c >= 97)
        at += 1
    return digits <= 1 and before <= 28 if exponent else digits <= (12 if kind == 1 else 37)


@jit
def plain_lines(data: Bytes, names: Bytes, ends: npt.NDArray[np.int64], kinds: npt.NDArray[np.int64]) -> bool:
    """Whether every line is blank or one object, with double quotes, and the values of the named columns have one reading."""
    at, end = 0, len(data)
    depth, done, begun, kind = 0, False, False, 0
    text_begin, text_stop = -1, -1
    while at < end:
        c = data[at]
        if c == 10:
            if depth != 0:
                return False
            done, begun, kind, text_begin = False, False, 0, -1
            at += 1
            continue
        if c == 13 and (at + 1 == end or data[at + 1] != 10):
            return False
        if c in (32, 9, 13):
            at += 1
            continue
        if done or (not begun and c != 123):
            return False
        begun = True
        if c == 34:
            stop = text_end(data, at + 1, end)
            if stop < 0 or kind == 3 or (kind > 0 and not _day(data, at + 1, stop)) or (kind == 2 and stop - at != 11):
                return False
            text_begin, text_stop = at + 1, stop
            kind = 0
            at = stop + 1
            continue
        if c == 58 and text_begin >= 0:
            for i in range(text_begin, text_stop):
                if data[i] == 92:
                    return False
            kind = _kind(data, text_begin, text_stop, names, ends, kinds)
            text_begin = -1
            at += 1
            continue
        if kind > 0 and not _small(data, at, end, kind):
            return False
        kind = 0
        if c in (123, 91):
            depth += 1
        elif c in (125, 93):
            depth -= 1
            if depth < 0:
                return False
            done = depth == 0
        elif c in (39, 47, 35) or c < 32:
            return False
        at += 1
    return depth == 0
