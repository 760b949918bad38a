"""From statistics to the sums, lists and orders that the kernels of groups keep for them."""

from __future__ import annotations

from typing import Final

import numpy as np

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
    Layout,
)
from skyband.operators.window_statistics.configuration import WindowStatisticsConfiguration

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
