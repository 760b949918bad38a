"""Finds the values of columns in JSON lines (``json.arrow_reader``), compiled. Anything that parsers read differently is refused."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from skyband.framework.sources.json.line_kernel import text_end
from skyband.operators.jit import jit

Bytes = npt.NDArray[np.uint8]
Numbers = npt.NDArray[np.int64]

TEXT: Final = 0
"""Kind of a column that takes texts."""
PLAIN: Final = 1
"""Kind of a column that takes texts that are not empty and have no backslash: instants and days."""
WHOLE: Final = 2
"""Kind of a column that takes whole numbers."""
FRACTION: Final = 3
"""Kind of a column that takes numbers."""
SWITCH: Final = 4
"""Kind of a column that takes true and false."""
OBJECT: Final = 5
"""Kind of an object of which members are columns."""
NOTHING: Final = 6
"""Kind of a name that a row must not have."""

ODD_LINE: Final = -1
"""Instead of a number of rows: a line is not one plain object. -2 - n: of the n-th name, a value is no plain one of its kind."""

_ABSENT: Final = -1
_NULL: Final = -2
_ROOT: Final = -1
_OTHER: Final = -2
"""The parent of names that are no columns."""

# Beyond these Spark's parser gives up, at some multiple.
_DEEPEST: Final = 200
_LONGEST_NUMBER: Final = 300
_LONGEST_NAME: Final = 10_000
_LONGEST_TEXT: Final = 5_000_000


@jit
def _same(data: Bytes, begin: int, end: int, names: Bytes, first: int, last: int) -> bool:
    same = last - first == end - begin
    for i in range(end - begin if same else 0):
        same = same and names[first + i] == data[begin + i]
    return same


@jit
def _member(data: Bytes, begin: int, end: int, names: Bytes, ends: Numbers, parents: Numbers, parent: int) -> int:
    """The number of a name in the object ``parent``; ``_OTHER`` if it is none of those that are read."""
    for n in range(len(parents)):
        if parents[n] == parent and _same(data, begin, end, names, ends[n], ends[n + 1]):
            return n
    return _OTHER


@jit
def _escape(data: Bytes, at: int, end: int) -> bool:
    """Whether a backslash at ``at`` begins an escape of JSON."""
    c = data[at + 1]
    if c == 117:
        if at + 6 > end:
            return False
        for i in range(at + 2, at + 6):
            d = data[i]
            if not (48 <= d <= 57 or 65 <= d <= 70 or 97 <= d <= 102):
                return False
        return True
    return c in (34, 92, 47, 98, 102, 110, 114, 116)


@jit
def _text(data: Bytes, begin: int, end: int) -> tuple[int, bool]:
    """Where the text that begins at ``begin`` has its last quote, -1 if it is no plain one; whether it has a backslash."""
    stop = text_end(data, begin, end)
    escaped, at = False, begin
    while at < stop:
        c = data[at]
        if c < 32:
            return -1, False
        if c == 92:
            if not _escape(data, at, stop):
                return -1, False
            escaped = True
            at += 1
        at += 1
    return stop, escaped


@jit
def _number(data: Bytes, at: int, end: int) -> tuple[int, bool]:
    """Where the number at ``at`` ends, -1 if it is none of JSON; whether it is a whole one."""
    begin, whole = at, True
    if data[at] == 45:
        at += 1
    first = at
    while at < end and 48 <= data[at] <= 57:
        at += 1
    if at == first or (data[first] == 48 and at > first + 1):
        return -1, False
    if at < end and data[at] == 46:
        whole, at = False, at + 1
        first = at
        while at < end and 48 <= data[at] <= 57:
            at += 1
        if at == first:
            return -1, False
    if at < end and (data[at] == 101 or data[at] == 69):
        whole, at = False, at + 1
        if at < end and (data[at] == 43 or data[at] == 45):
            at += 1
        first = at
        while at < end and 48 <= data[at] <= 57:
            at += 1
        if at == first:
            return -1, False
    return (at if at - begin <= _LONGEST_NUMBER else -1), whole


@jit
def _word(data: Bytes, at: int, end: int) -> int:
    """The length of ``true``, ``false`` or ``null`` at ``at``; 0 if there is none."""
    if at + 4 <= end:
        if data[at] == 116 and data[at + 1] == 114 and data[at + 2] == 117 and data[at + 3] == 101:
            return 4
        if data[at] == 110 and data[at + 1] == 117 and data[at + 2] == 108 and data[at + 3] == 108:
            return 4
    if at + 5 <= end and data[at] == 102 and data[at + 1] == 97 and data[at + 2] == 108 and data[at + 3] == 115 and data[at + 4] == 101:
        return 5
    return 0


@jit
def find_rows(
    data: Bytes, at: int, names: Bytes, ends: Numbers, parents: Numbers, kinds: Numbers, begins: Numbers, stops: Numbers
) -> tuple[int, int]:
    """Return (the number of rows found from ``at`` on, the position behind them); instead of a number ``ODD_LINE``, or less.

    ``names``: those that are read, the n-th up to ``ends[n + 1]``; ``parents``: the object that each is a member of, -1: the row itself.
    ``begins``, ``stops``: (names, most rows): where the value of a name is, without quotes; ``begins`` is negative if there is none.
    O(bytes).
    """
    end, row, most = len(data), 0, begins.shape[1]
    brackets = np.zeros(_DEEPEST, np.uint8)
    objects = np.zeros(_DEEPEST, np.int64)
    elsewhere = np.zeros(len(kinds), np.uint8)
    while at < end and row < most:
        c = data[at]
        if c == 13 and (at + 1 == end or data[at + 1] != 10):
            return ODD_LINE, at
        if c in (32, 9, 10, 13):
            at += 1
            continue
        if c != 123:
            return ODD_LINE, at
        for n in range(len(kinds)):
            begins[n, row] = _ABSENT
            elsewhere[n] = 0
        brackets[0], objects[0] = 123, _ROOT
        depth, at = 1, at + 1
        # What may come next: 0 a name or the end of an object, 1 a name, 2 a value, 3 a value or the end of an array, 4 a comma or an end.
        expected, name, name_begin, name_end = 0, _OTHER, 0, 0
        while depth > 0:
            while at < end and (data[at] == 32 or data[at] == 9):
                at += 1
            if at >= end:
                return ODD_LINE, at
            c = data[at]
            if expected == 4:
                if c == 44:
                    expected = 1 if brackets[depth - 1] == 123 else 2
                elif (c == 125 and brackets[depth - 1] == 123) or (c == 93 and brackets[depth - 1] == 91):
                    depth -= 1
                else:
                    return ODD_LINE, at
                at += 1
                continue
            if (expected == 0 and c == 125) or (expected == 3 and c == 93):
                depth, expected, at = depth - 1, 4, at + 1
                continue
            if expected <= 1:
                if c != 34:
                    return ODD_LINE, at
                stop, escaped = _text(data, at + 1, end)
                if stop < 0 or escaped or stop - at > _LONGEST_NAME:
                    return ODD_LINE, at
                name_begin, name_end, name = at + 1, stop, _OTHER
                if objects[depth - 1] != _OTHER:
                    name = _member(data, name_begin, name_end, names, ends, parents, objects[depth - 1])
                    if name >= 0 and (begins[name, row] != _ABSENT or kinds[name] == NOTHING):
                        return -2 - name, at
                at = stop + 1
                while at < end and (data[at] == 32 or data[at] == 9):
                    at += 1
                if at >= end or data[at] != 58:
                    return ODD_LINE, at
                at += 1
                expected = 2
                continue
            kind = kinds[name] if name >= 0 else -1
            expected = 4
            if c == 34:
                stop, escaped = _text(data, at + 1, end)
                if stop < 0 or stop - at > _LONGEST_TEXT:
                    return ODD_LINE, at
                if name >= 0:
                    if kind > PLAIN or (kind == PLAIN and (escaped or stop == at + 1)):
                        return -2 - name, at
                    begins[name, row], stops[name, row] = at + 1, stop
                at = stop + 1
            elif c in (123, 91):
                if name >= 0:
                    if kind != OBJECT or c == 91:
                        return -2 - name, at
                    begins[name, row] = at
                if depth == _DEEPEST:
                    return ODD_LINE, at
                brackets[depth], objects[depth] = c, (name if name >= 0 else _OTHER)
                depth, at = depth + 1, at + 1
                expected = 0 if c == 123 else 3
            elif c == 45 or 48 <= c <= 57:
                stop, whole = _number(data, at, end)
                if stop < 0:
                    return ODD_LINE, at
                if name >= 0:
                    # Spark makes 0.0 of the whole number -0.
                    if (kind != WHOLE or not whole) and (kind != FRACTION or (whole and c == 45 and data[at + 1] == 48)):
                        return -2 - name, at
                    begins[name, row], stops[name, row] = at, stop
                if name_end > name_begin:
                    for n in range(len(kinds)):
                        if kinds[n] == TEXT and _same(data, name_begin, name_end, names, ends[n], ends[n + 1]):
                            elsewhere[n] = 1
                at = stop
            else:
                length = _word(data, at, end)
                if length == 0:
                    return ODD_LINE, at
                if name >= 0:
                    if c == 110:
                        begins[name, row] = _NULL
                    elif kind == SWITCH:
                        begins[name, row], stops[name, row] = at, at + length
                    else:
                        return -2 - name, at
                at += length
            # Elements of an array have no name.
            name, name_end = _OTHER, name_begin
        while at < end and (data[at] == 32 or data[at] == 9):
            at += 1
        if at < end and data[at] == 13:
            at += 1
            if at == end:
                return ODD_LINE, at
        if at < end and data[at] != 10:
            return ODD_LINE, at
        for n in range(len(kinds)):
            # A text such as 1.10 is read as a number of that name spelled elsewhere in the line.
            if elsewhere[n] and begins[n, row] >= 0 and stops[n, row] > begins[n, row]:
                first = data[begins[n, row]]
                if first < 65 or first == 92:
                    return -2 - n, at
        row += 1
    return row, at


@jit
def _hex(data: Bytes, at: int) -> int:
    value = 0
    for i in range(at, at + 4):
        c = int(data[i])
        value = value * 16 + (c - 48 if c <= 57 else c - 55 if c <= 70 else c - 87)
    return value


@jit
def copy_texts(data: Bytes, begins: Numbers, stops: Numbers, offsets: npt.NDArray[np.int32], out: Bytes) -> int:
    """Copy the texts at ``begins`` to ``out``, escapes as the characters that they stand for. Return the number of bytes. O(bytes)."""
    to = 0
    for row in range(len(begins)):
        at, end = begins[row], stops[row] if begins[row] >= 0 else begins[row]
        while at < end:
            c = data[at]
            if c != 92:
                out[to] = c
                to, at = to + 1, at + 1
                continue
            c = data[at + 1]
            at += 2
            if c != 117:
                out[to] = 8 if c == 98 else 12 if c == 102 else 10 if c == 110 else 13 if c == 114 else 9 if c == 116 else c
                to += 1
                continue
            code = _hex(data, at)
            at += 4
            if 0xD800 <= code < 0xDC00:
                code = 0x10000 + ((code - 0xD800) << 10) + (_hex(data, at + 2) - 0xDC00)
                at += 6
            if code < 0x80:
                out[to] = code
                to += 1
            elif code < 0x800:
                out[to], out[to + 1] = 0xC0 | (code >> 6), 0x80 | (code & 63)
                to += 2
            elif code < 0x10000:
                out[to], out[to + 1], out[to + 2] = 0xE0 | (code >> 12), 0x80 | ((code >> 6) & 63), 0x80 | (code & 63)
                to += 3
            else:
                out[to], out[to + 1] = 0xF0 | (code >> 18), 0x80 | ((code >> 12) & 63)
                out[to + 2], out[to + 3] = 0x80 | ((code >> 6) & 63), 0x80 | (code & 63)
                to += 4
        offsets[row + 1] = to
    return to
