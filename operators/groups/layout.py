"""From aggregates to the sums, lists and sets that kernels keep for each group."""

from __future__ import annotations

from fractions import Fraction
from typing import Final, TypeVar

import numpy as np

from skyband.operators.expressions.aggregates import Aggregate
from skyband.operators.groups.carry import cells_of
from skyband.operators.groups.configuration import COUNTS, GroupsConfiguration, is_decimal, is_whole
from skyband.operators.groups.kernels.tables import (
    COUNT,
    COUNT_ROWS,
    DISTINCT,
    END,
    FIRST,
    GREATEST,
    LAST,
    LEAST,
    MEAN,
    NEWEST,
    QUANTILE,
    STDDEV_POP,
    STDDEV_SAMP,
    SUM,
    TOTAL,
    TOTAL_HIGH,
    TOTAL_LOW,
    TOTAL_MEAN,
    VAR_POP,
    VAR_SAMP,
    Layout,
)

_T = TypeVar("_T")
_RULES: Final = {"min": LEAST, "max": GREATEST, "first": FIRST, "last": LAST}
_LEAST_SHARE: Final = Fraction(1, 2**62)
"""The share of the quantile that is the least value, of any number of values."""
_SPREADS: Final = {"var_pop": VAR_POP, "var_samp": VAR_SAMP, "stddev_pop": STDDEV_POP, "stddev_samp": STDDEV_SAMP}


def layout_of(configuration: GroupsConfiguration) -> Layout:
    """Return what has to be kept for the aggregates; aggregates of one argument share a sum, list or set.

    A list drops rows that newer ones outdo. Where these can be deleted, min and max are the ends of an order, and the list for first and
    last has all rows.
    """
    arguments = configuration.arguments
    sums: list[int] = []
    lists: list[tuple[int, int]] = []
    sets: list[int] = []
    orders: list[int] = []
    moments: list[int] = []
    totals: list[int] = []
    codes: list[tuple[int, int]] = []
    for aggregate in configuration.aggregates:
        if aggregate.argument is None:
            codes.append((COUNT_ROWS, 0))
            continue
        argument, function = arguments.index(aggregate.argument), aggregate.function
        if function == "count":
            codes.append((COUNT, argument))
        elif function in ("sum", "mean") and aggregate.scale is not None:
            codes.append((TOTAL if function == "sum" else TOTAL_MEAN, _slot(totals, argument)))
        elif function in ("sum", "mean"):
            codes.append((SUM if function == "sum" else MEAN, _slot(sums, argument)))
        elif function == "distinct":
            codes.append((DISTINCT, _slot(sets, argument)))
        elif function == "quantile" or (configuration.deletes and function in ("min", "max")):
            codes.append((QUANTILE, _slot(orders, argument)))
        elif function in _SPREADS:
            codes.append((_SPREADS[function], _slot(moments, argument)))
        elif configuration.deletes:
            codes.append((END if function == "first" else NEWEST, _slot(lists, (argument, FIRST))))
        else:
            codes.append((END, _slot(lists, (argument, _RULES[function]))))
    shares, scale = [_share(a) for a in configuration.aggregates], [a.scale or 0 for a in configuration.aggregates]
    coded = [int(is_decimal(a)) for a in configuration.aggregates]
    for aggregate in limbs_of(configuration):
        if aggregate.function == "sum" and aggregate.argument is not None:
            slot = _slot(totals, arguments.index(aggregate.argument))
            made = [(TOTAL_HIGH, slot), (TOTAL_LOW, slot)]
        else:
            made = [codes[configuration.aggregates.index(aggregate)]]
        codes += made
        shares += [_share(aggregate)] * len(made)
        scale += [0] * len(made)
        coded += [1] * len(made)
    columns = np.array(codes, np.int64).reshape(-1, 2)
    share = np.array([(s.numerator, s.denominator) for s in shares], np.int64).reshape(-1, 2)
    whole = [int(is_whole(x)) for x in arguments]
    kept = (sums, [a for a, _ in lists], [r for _, r in lists], sets, orders, cells_of(configuration), moments, totals)
    return Layout(columns[:, 0].copy(), columns[:, 1].copy(), share, *(np.array(a, np.int64) for a in (whole, *kept, scale, coded)))


def limbs_of(configuration: GroupsConfiguration) -> list[Aggregate]:
    """Return the aggregates that have further values after those of all aggregates: of a sum two limbs, of others the whole number."""
    return [a for a in configuration.compared if a.function not in COUNTS]


def _share(aggregate: Aggregate) -> Fraction:
    """Return the share of a quantile, which may stand for a least or greatest value."""
    if aggregate.share is not None:
        return Fraction(repr(aggregate.share))
    return {"min": _LEAST_SHARE, "max": Fraction(1)}.get(aggregate.function, Fraction(0))


def _slot(slots: list[_T], wanted: _T) -> int:
    if wanted not in slots:
        slots.append(wanted)
    return slots.index(wanted)
