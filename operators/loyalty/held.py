"""Held switches: a report may carry earlier switches of its object, which an edge held back (docs/semantics 12).

A report of the instant t with the switches h_1 < ... < h_n < t moves the line of its object, just before t, to what it would be if the
object had been switched then. The result does not change in the past.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from skyband.operators.base import CHARACTERS, I64, NULL, AnyArray, Arrivals
from skyband.operators.loyalty.kernels.tables import HORIZON, MOVING, Objects, Progress
from skyband.operators.loyalty.pending import Pending

LARGEST = 2**62
"""Held instants lie within this distance of 1970."""
LONGEST = 20
"""The longest text of an instant that is read."""


class Held(NamedTuple):
    """The reports of one call that carry switches: (``time``, ``place`` of the object, its ``switches``), by time, then as they came."""

    time: int
    place: int
    switches: tuple[int, ...]


def instants_of(text: str, before: int) -> tuple[int, ...] | None:
    """Return the instants that ``text`` lists, separated by spaces; None unless they ascend and lie before the instant ``before``."""
    words = text.split()
    if any(len(word) > LONGEST or not word.removeprefix("-").isdecimal() or not word.isascii() for word in words):
        return None
    found = tuple(int(word) for word in words)
    ascending = all(a < b for a, b in zip(found, (*found[1:], before), strict=True)) if found else True
    return found if ascending and all(h > -LARGEST for h in found) else None


def held_switches(arrivals: Arrivals, column: str) -> tuple[dict[int, tuple[int, ...]], AnyArray]:
    """Return the switches by row, of rows that carry any, and which rows (rows,) bool have a text that lists none.

    O(rows + characters).
    """
    text = arrivals.ragged[CHARACTERS + column]
    length = np.diff(text.start)
    malformed = np.zeros(len(arrivals), bool)
    found: dict[int, tuple[int, ...]] = {}
    first = text.values[np.minimum(text.start[:-1], max(len(text.values) - 1, 0))] if len(text.values) else length
    for row in np.flatnonzero((length > 1) | ((length == 1) & (first != NULL))).tolist():
        letters = "".join(map(chr, text.values[text.start[row] : text.start[row + 1]].tolist()))
        switches = instants_of(letters, int(arrivals.time[row]))
        if switches is None:
            malformed[row] = True
        elif switches:
            found[row] = switches
    return found, malformed


def move_line(objects: Objects, progress: Progress, window: int, held: Held) -> I64:
    """Move the line of one object by its held switches; return those that come back as echoes.

    A switch at or before the object's last report does not count, nor how long ago one before the window was.
    """
    time, place = held.time, held.place
    word, report, key = int(objects.word[place]), int(objects.report[place]), int(objects.key[place])
    on, old, gained = word & 1, (word >> 1) & 1, 0
    begin = time - window
    echoes = []
    for switch in held.switches:
        if begin < report and switch <= report:
            continue
        if switch > begin:
            echoes.append(switch)
        else:
            old = 1 - old
        gained += (1 - 2 * on) * (time - max(switch, begin))
        on = 1 - on
    slope = (word & 1) - ((word >> 1) & 1)  # not by the kernels' functions, which Python must not call
    now = (word >> 2) + slope * time + gained
    progress.keys[key, MOVING] += abs(on - old) - abs(slope)
    objects.word[place] = ((now - (on - old) * time) << 2) | (old << 1) | on
    progress.queries[:, key, HORIZON] = np.minimum(progress.queries[:, key, HORIZON], time)  # lists of watched objects do not hold any more
    return np.array(echoes, np.int64)


def move_lines(objects: Objects, progress: Progress, window: int, echoes: Pending, held: list[Held]) -> None:
    """Move the lines of all objects of ``held``, which are of one instant, and add their switches to ``echoes``."""
    times = [move_line(objects, progress, window, one) for one in held]
    places = np.repeat(np.array([one.place for one in held], np.int64), [len(t) for t in times])
    echoes.insert(np.concatenate(times), places)
