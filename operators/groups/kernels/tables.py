"""What the kernels of groups work on: rows of the window, groups, keys, and the events of one call."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from skyband.operators.base import F64, I64, AnyArray

COUNT_ROWS, COUNT, SUM, MEAN, DISTINCT, END, QUANTILE, NEWEST = range(8)
VAR_POP, VAR_SAMP, STDDEV_POP, STDDEV_SAMP, TOTAL, TOTAL_MEAN, TOTAL_HIGH, TOTAL_LOW = range(8, 16)
"""Codes of aggregates. ``END``: the value at the head of a list of rows (min, max, first, last); ``NEWEST``: at its tail; ``TOTAL``: of
decimals; ``TOTAL_HIGH``, ``TOTAL_LOW``: limbs of a sum of whole numbers (``comparisons``)."""

LEAST, GREATEST, FIRST, LAST = range(4)
"""Rules of lists: what an arriving row removes from the end of its group's list. Of a list by ``LAST`` only the newest row stays."""

DELETED: Final = -1
"""In place of the number of rows of a group whose last row was deleted."""
EXPIRED: Final = -2
"""What stands for the group of an arriving row in an event without one."""

NARROW: Final = np.dtype([("low", np.int64), ("high", np.int64), ("scale", np.float64), ("base", np.int32), ("place", np.int32)])
"""A sum of values of like magnitudes: (high * 2^``LOW_BITS`` + low) * 2^base, 0 <= low < 2^``LOW_BITS``. ``scale``: 2^base, or 0 before the
first value. ``place``: 1 + the row of the pool that has the sum instead, or 0."""
LOW_BITS: Final = 48
WIDE: Final = 72
"""Chunks of a sum of any float64 values."""
LOWEST, HIGHEST = -2, -1
"""Places, in a row of the pool, of the lowest and the highest chunk that values were added to: they follow the chunks."""
BOUNDS: Final = 2
LARGE: Final = 1 << 62
"""Totals of decimals from this on are coded by their nearest float64 (``totals``)."""
LARGE_BITS: Final = (62 + 1023) << 52
"""The bits of 2^62 as a float64."""
EXTRA_DIGITS: Final = 4
"""Digits of a quotient below those of the dividend: 97 bits and more of any quotient by a number below 2^31."""


class Layout(NamedTuple):
    """What is computed. ``code`` and ``slot`` (aggregates,): code, and place among the arguments (counts), sums, lists, sets, orders or
    moments; ``share`` (aggregates, 2): numerator and denominator of the share of a quantile.

    ``whole`` (arguments,): 1 if the argument is int64, 0 for float64. ``sum_of``, ``list_of``, ``set_of``, ``order_of``, ``moments_of``:
    the argument of each sum, list, set, order and pair of moments; ``rule``: the rule of each list. ``cells``: the aggregates whose cells
    changes carry. ``scale`` (aggregates,): digits after the point of decimals, else 0; ``coded`` (aggregates,): 1 if the value is written
    as int64, a code of decimals or a whole number; ``total_of``: the argument of each total.
    """

    code: I64
    slot: I64
    share: I64
    whole: I64
    sum_of: I64
    list_of: I64
    rule: I64
    set_of: I64
    order_of: I64
    cells: I64
    moments_of: I64
    total_of: I64
    scale: I64
    coded: I64


class Window(NamedTuple):
    """``size`` rows, or ``UNBOUNDED``; ``until``: events before it are processed."""

    size: int
    until: int


class Rows(NamedTuple):
    """Rows of the window that belong to a group: ``expiry``, the instant at which it leaves, ``seq``, ``group``; ``after``: the next row
    of the key, or -1.

    ``cells`` (arguments, room): values as int64, or the bits of float64; ``floats`` the same memory as float64. ``before_in``, ``after_in``
    (lists, room): the neighbours in the list of the group. ``free``: rows without content, as many as ``spare[0]`` says. ``before``: the
    previous row of the key, or -1; empty unless rows can be deleted.
    """

    expiry: I64
    seq: I64
    group: I64
    after: I64
    cells: I64
    floats: F64
    before_in: I64
    after_in: I64
    free: I64
    spare: I64
    before: I64


class Keys(NamedTuple):
    """Per key: its first and last row (``head``, ``tail``), or -1; ``next_seq``: the seq of its next row."""

    head: I64
    tail: I64
    next_seq: I64


class Groups(NamedTuple):
    """Per group: ``alive`` rows, the ``mark`` of the last event that touched it; (slots, groups) ``known`` values that are not null,
    ``head`` and ``tail`` of lists, ``different`` values of sets. ``clock[0]``: the mark of the present event."""

    alive: I64
    mark: I64
    known: I64
    head: I64
    tail: I64
    different: I64
    clock: I64


class Sums(NamedTuple):
    """Exact sums by slot and group (docs/algorithms D7).

    ``narrow`` (slots, groups): a ``NARROW`` for each. ``pool``: a row for each sum of other values, with signed chunks of 32 bits and their
    ``BOUNDS``. ``endless`` (slots, groups, 2): infinities of each sign. ``free``: unused rows of ``pool``, as many as ``spare[0]`` says;
    ``spare[1]``: infinities of all groups. ``digits``: for a sum that is being rounded.
    """

    narrow: AnyArray
    endless: AnyArray
    pool: I64
    free: I64
    spare: I64
    digits: I64


class Sets(NamedTuple):
    """How many rows have each (group, value) of each set: a hash table with linear probing. ``owner``: slot and group, or -1 for free
    places; ``used[0]``: occupied places."""

    owner: I64
    value: I64
    rows: I64
    used: I64


class Order(NamedTuple):
    """Rows in order of a value: (slots, rows) ``left``, ``right``, ``size`` of the nodes, (slots, groups) ``root``."""

    left: I64
    right: I64
    size: I64
    root: I64


class Moments(NamedTuple):
    """Exact sums of values and of their squares, in turn: ``sums`` has two slots for each argument. The rest is for computing a variance:
    16-bit limbs of a sum of values, digits of a sum of squares, limbs and digits of the result."""

    sums: Sums
    limbs: I64
    squares: I64
    difference: I64
    digits: I64


class Sessions(NamedTuple):
    """``silence[0]``: the microseconds after which a group loses all of its rows; 0: no sessions, and no other array is used.

    Per row: ``before``, the row of the key before it, and ``following``, the next row of its group, or -1. Per group: its ``first`` and
    ``last`` row, the ``deadline`` at which its session ends if no row comes, and in the queue of the key its neighbours ``earlier`` and
    ``later``. Per key: the ``soonest`` and ``latest`` group of the queue, or -1.
    """

    silence: I64
    before: I64
    following: I64
    first: I64
    last: I64
    deadline: I64
    earlier: I64
    later: I64
    soonest: I64
    latest: I64


class State(NamedTuple):
    """All that rows change. ``totals``: see ``totals``. ``by_seq``: the row of each (key, seq), as ``rows`` of a table; unused unless rows
    can be deleted."""

    layout: Layout
    rows: Rows
    keys: Keys
    groups: Groups
    sums: Sums
    sets: Sets
    order: Order
    moments: Moments
    totals: I64
    by_seq: Sets
    sessions: Sessions


class Feed(NamedTuple):
    """The arriving rows of one call, by key and seq. ``expiry``: as in ``Rows``. ``group`` is -1 for rows of no group; ``cells``
    (arguments, rows).

    ``target``: the seq that a row deletes, or ``NULL``; empty unless rows can be deleted.

    ``job``: the keys with rows or expiries; the rows of each are [``first``, ``end``).
    """

    time: I64
    expiry: I64
    seq: I64
    group: I64
    cells: I64
    target: I64
    job: I64
    first: I64
    end: I64


class Events(NamedTuple):
    """Events that touched groups, by key. ``arrived``: the group that a row arrived in, -1, or ``EXPIRED`` if no row arrived.

    Their records are those from ``record`` on. ``touched``: groups of an event. A record has the ``group``, its ``alive`` rows (``DELETED``
    if a deletion took the last one) and ``values`` (aggregates, records) after the event; ``codes`` is the same memory as int64, for
    decimals.
    ``cells`` (cells, records): see ``Layout``. ``first_of_key`` (jobs + 1,): the first event of each key. ``counts``: key, row, events and
    records so far.
    """

    at: I64
    arrived: I64
    record: I64
    first_of_key: I64
    group: I64
    alive: I64
    values: AnyArray
    codes: AnyArray
    touched: I64
    counts: I64
    cells: AnyArray
