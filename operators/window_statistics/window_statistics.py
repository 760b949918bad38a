"""The state of the statistics of one window: the rows that are in it, with exact sums of their groups.

Rows are taken in order: each gets the statistics of the rows before it, and then counts itself."""

from __future__ import annotations

import math
from typing import Final, NamedTuple

import numpy as np

from skyband.operators.base import F64, I64, NULL
from skyband.operators.groups import arrays, growth
from skyband.operators.groups.kernels import tables
from skyband.operators.groups.kernels.advance import DONE, add_row, add_rows, aggregate, drop_head, lacking, leave_group
from skyband.operators.groups.kernels.deletions import find_row, unlink
from skyband.operators.groups.kernels.tables import (
    COUNT,
    END,
    GREATEST,
    LEAST,
    MEAN,
    QUANTILE,
    STDDEV_SAMP,
    SUM,
    TOTAL,
    TOTAL_MEAN,
    Feed,
    Layout,
    State,
)
from skyband.operators.groups.kernels.totals import mean_of_total
from skyband.operators.jit import inner_inlined, jit
from skyband.operators.window_statistics.configuration import WindowStatisticsConfiguration
from skyband.operators.windows import count_of, expiries


@jit
def take_rows(state: State, feed: Feed, key_of: I64, argument_of: I64, size: int, at_least: int, found: F64) -> int:
    """Process the rows of the feed from ``state.groups.clock[1]`` on; return why it stops, ``DONE`` after the last.

    ``key_of`` (rows,): the key of each row. ``argument_of`` (statistics,): the argument of each. ``size``: rows of the window, or
    ``UNBOUNDED``. ``found`` (statistics, rows) gets the values of rows that belong to a group and delete nothing.
    """
    clock = state.groups.clock
    while clock[1] < len(feed.seq):
        why = lacking(state)
        if why != DONE:
            return why
        i = clock[1]
        key = key_of[i]
        deletes = len(feed.target) > 0 and feed.target[i] != NULL
        drop_gone(state, key, feed.time[i], -1 if deletes else feed.seq[i] - size)
        if deletes:
            row = find_row(state, key, feed.target[i])
            if row >= 0:
                unlink(state, key, row)
                leave_group(state, row)
        elif feed.group[i] >= 0:
            note(state, argument_of, feed.group[i], at_least, found, i)
            add_row(state, feed, i, key)
        clock[1] += 1
    return DONE


@inner_inlined
def drop_gone(state: State, key: int, at: int, oldest: int) -> None:
    """Remove the rows of a key that have left the window at an instant, and those with a seq before ``oldest``."""
    head = state.keys.head[key]
    while head >= 0 and (state.rows.expiry[head] <= at or state.rows.seq[head] < oldest):
        drop_head(state, key)
        head = state.keys.head[key]


@inner_inlined
def note(state: State, argument_of: I64, group: int, at_least: int, found: F64, i: int) -> None:
    """Write the statistics of a group as those of row ``i``."""
    for s in range(len(state.layout.code)):
        known = state.groups.known[argument_of[s], group]
        if state.layout.code[s] == COUNT:
            found[s, i] = known
        elif known < at_least:
            found[s, i] = math.nan
        elif state.layout.code[s] == TOTAL:
            scale, digits = state.layout.scale[s], state.moments.digits
            found[s, i] = mean_of_total(state.totals, state.layout.slot[s], group, 1, scale, digits)
        else:
            found[s, i] = aggregate(state, s, group)


# From statistics to the sums, lists and orders that the kernels of groups keep for them.

_RULES: Final = {"min": LEAST, "max": GREATEST}
_SHARES: Final = {"min": (1, 2**62), "max": (1, 1)}
"""Shares of the quantiles that are the least and the greatest of any number of values."""


def layout_of(configuration: WindowStatisticsConfiguration) -> Layout:
    """Return what is kept; statistics of one argument share a sum.

    Lists drop rows that newer ones outdo. Where rows can be deleted, these may count again: then extremes are the ends of an order of all.
    """
    kept: dict[str, list[int]] = {name: [] for name in ("sum", "list", "order", "moments", "total")}
    rules: list[int] = []

    def slot(what: str, argument: int) -> int:
        if argument not in kept[what]:
            kept[what].append(argument)
        return kept[what].index(argument)

    codes: list[tuple[int, int]] = []
    for s in configuration.statistics:
        decimal = configuration.arguments[s.argument] == "units"
        if s.function == "count":
            codes.append((COUNT, s.argument))
        elif s.function == "stddev":
            codes.append((STDDEV_SAMP, slot("moments", s.argument)))
        elif s.function in ("sum", "mean") and decimal:
            codes.append((TOTAL if s.function == "sum" else TOTAL_MEAN, slot("total", s.argument)))
        elif s.function in ("sum", "mean"):
            codes.append((SUM if s.function == "sum" else MEAN, slot("sum", s.argument)))
        elif configuration.deletes:
            codes.append((QUANTILE, slot("order", s.argument)))
        else:
            codes.append((END, len(rules)))
            kept["list"].append(s.argument)
            rules.append(_RULES[s.function])
    statistics, none = configuration.statistics, np.empty(0, np.int64)
    columns = np.array(codes, np.int64).reshape(-1, 2)
    of = {name: np.array(arguments, np.int64) for name, arguments in kept.items()}
    return Layout(
        code=columns[:, 0].copy(),
        slot=columns[:, 1].copy(),
        share=np.array([_SHARES.get(s.function, (0, 1)) for s in statistics], np.int64).reshape(-1, 2),
        whole=np.array([int(kind != "float") for kind in configuration.arguments], np.int64),
        sum_of=of["sum"],
        list_of=of["list"],
        rule=np.array(rules, np.int64),
        set_of=none,
        order_of=of["order"],
        cells=none,
        moments_of=of["moments"],
        total_of=of["total"],
        scale=np.array([configuration.scales[s.argument] for s in statistics], np.int64),
        coded=np.zeros(len(statistics), np.int64),
    )


_NONE: I64 = np.empty(0, np.int64)


class StatisticsRows(NamedTuple):
    """Rows by key and order, arrays (rows,): dense key, seq, time, the number of the group within all keys, or -1 for none.

    ``cells`` (arguments, rows): the values as int64, or the bits of float64. ``target``: the seq that a row deletes, else ``NULL``; empty
    unless rows can be deleted. A deletion has seq -1.
    """

    key: I64
    seq: I64
    time: I64
    group: I64
    cells: I64
    target: I64 = _NONE


class WindowStatistics:
    """Gives each row the statistics of the rows before it that are in the window and belong to its group.

    Sums do not depend on the order of additions, so the rows in the window determine the state: it can be made again from them (``load``).
    Rows of keys that get no more rows stay until then (``rows``).
    """

    def __init__(self, configuration: WindowStatisticsConfiguration) -> None:
        self.configuration = configuration
        self.layout = layout_of(configuration)
        self._argument_of = np.array([s.argument for s in configuration.statistics], np.int64)
        self._size = count_of(configuration.window)
        self._state = arrays.empty_state(self.layout, None)

    @property
    def rows(self) -> int:
        """Return the number of rows in memory."""
        rows = self._state.rows
        return len(rows.expiry) - int(rows.spare[0])

    def take(self, rows: StatisticsRows) -> F64:
        """Return float64 (statistics, rows): the statistics of each row, NaN for null, for rows of no group and for deletions.

        The rows of a key continue its order. O(1) amortized a row, O(log rows) for extremes where rows can be deleted.
        """
        found = np.full((len(self.layout.code), len(rows.seq)), np.nan)
        feed = self._feed(rows)
        least = self.configuration.at_least
        while (why := take_rows(self._state, feed, rows.key, self._argument_of, self._size, least, found)) != DONE:
            self._state = growth.for_another(self._state, why)
        return found

    def load(self, rows: StatisticsRows) -> None:
        """Begin with rows that are in the window: none of them a deletion, each key's by seq. O(rows)."""
        self._state = arrays.empty_state(self.layout, None)
        mine = np.flatnonzero(rows.group >= 0)
        kept = StatisticsRows(rows.key[mine], rows.seq[mine], rows.time[mine], rows.group[mine], np.ascontiguousarray(rows.cells[:, mine]))
        feed = self._feed(kept)
        while (why := add_rows(self._state, feed, kept.key)) != DONE:
            self._state = growth.for_another(self._state, why)

    def _feed(self, rows: StatisticsRows) -> tables.Feed:
        """Make room for the rows; return them as the kernels take them."""
        state, keys, groups = self._state, int(rows.key.max(initial=-1)) + 1, int(rows.group.max(initial=-1)) + 1
        if keys > len(state.keys.head):
            state = growth.for_keys(state, 2 * keys)
        if groups > len(state.groups.alive):
            state = growth.for_groups(state, 2 * groups + 16)
        state = growth.for_rows(state, int(np.count_nonzero(rows.group >= 0)), self.configuration.deletes)
        state.groups.clock[1] = 0
        self._state = state
        return tables.Feed(
            rows.time, expiries(self.configuration.window, rows.time), rows.seq, rows.group, rows.cells, rows.target, _NONE, _NONE, _NONE
        )
