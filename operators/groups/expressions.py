"""Evaluate the expressions of a state of groups over blocks: rows that count, arguments of aggregates, scores, groups that take part."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

import numpy as np
import numpy.typing as npt

from skyband.operators.base import F64, I64, NULL, AnyArray, units_column
from skyband.operators.expressions.aggregates import Aggregate
from skyband.operators.expressions.ast import Attr
from skyband.operators.groups import decimals
from skyband.operators.groups.comparisons import LIMB, code_name, limb_names
from skyband.operators.groups.configuration import COUNTS, GroupsConfiguration, GroupsQuery, is_whole
from skyband.operators.groups.layout import limbs_of


class Expressions:
    """Evaluates the expressions of a configuration."""

    def __init__(self, configuration: GroupsConfiguration) -> None:
        self.configuration, self.kernels = configuration, configuration.kernels
        self.sign = -1.0 if configuration.direction == "min" else 1.0

    def selected(self, columns: Mapping[str, AnyArray], n: int) -> npt.NDArray[np.bool_]:
        """Return the rows that satisfy ``where``."""
        return np.ones(n, bool) if self.kernels.where is None or n == 0 else self.kernels.where.passes(columns, n)

    def cells(self, columns: Mapping[str, AnyArray], n: int) -> I64:
        """Return the arguments of aggregates as int64 (arguments, rows): values, or the bits of float64."""
        arguments = self.configuration.arguments
        cells = np.empty((len(arguments), n), np.int64)
        floats = cells.view(np.float64)
        for i, (x, kernel) in enumerate(zip(arguments, self.kernels.arguments, strict=True)):
            if n == 0:
                break
            if kernel is not None:
                floats[i] = kernel.evaluate(columns, n)
            elif isinstance(x, Attr):
                column = columns[units_column(x.name).name if x.type == "units" else x.name]
                (cells if is_whole(x) else floats)[i] = column if is_whole(x) else column + 0.0
        return cells

    def scores(self, aggregates: F64) -> F64:
        """Return the scores of groups with these ``aggregates`` (aggregates, groups), as the user wrote them."""
        columns = self._columns(aggregates)
        if self.kernels.score is not None:
            return self.kernels.score.evaluate(columns, aggregates.shape[1])
        plain: F64 = columns[self.configuration.score.aggregates[0].spelling]
        return plain

    def internal(self, score: F64, aggregates: F64) -> F64:
        """Return internal values: larger ranks first, NaN for groups that take no part although they have rows."""
        if self.configuration.units is not None:
            place = self.configuration.aggregates.index(self.configuration.score.aggregates[0])
            score = decimals.ranked(aggregates[place].view(np.int64))
        found = score if self.sign > 0 and self.kernels.score is None else self.sign * score + 0.0
        if self.kernels.having is not None:
            found = np.where(self.kernels.having.passes(self._columns(aggregates), len(score)), found, math.nan)
        return found

    def shown(self, internal: F64) -> F64:
        """Return the scores, as the user wrote them, of groups that take part with these internal values."""
        value = self.sign * internal + 0.0
        return value if self.configuration.units is None else decimals.doubles(decimals.codes(value), self.configuration.units)

    def bounds(self, q: GroupsQuery) -> tuple[float, float]:
        """Return the internal values above which a group enters, and at which one that is in still stays."""
        above = math.inf if q.above is None else q.above
        scale = self.configuration.units
        if scale is None:
            return above, math.nextafter(above, math.inf) if q.below is None else q.below
        entry = decimals.bound(above, scale, False)
        return entry, math.nextafter(entry, math.inf) if q.below is None else decimals.bound(q.below, scale, True)

    def _columns(self, aggregates: F64) -> dict[str, AnyArray]:
        """Return the aggregates by their attributes: decimals as doubles and as codes, whole numbers that are compared also as limbs."""
        found: dict[str, AnyArray] = {}
        configuration, scales = self.configuration, self.configuration.scales
        for a, values in zip(configuration.aggregates, aggregates[: len(configuration.aggregates)], strict=True):
            name, scale = a.spelling, scales.get(a.spelling)
            found[name] = values if scale is None else decimals.doubles(values.view(np.int64), scale)
            if scale is not None:
                found[code_name(name)] = values.view(np.int64)
            if a.function in COUNTS and a in configuration.compared:
                found |= self._limbs(a, values.astype(np.int64))
        place = len(configuration.aggregates)
        for a in limbs_of(configuration):
            whole = aggregates[place].view(np.int64)
            if a.function == "sum":
                found |= zip(limb_names(a.spelling), (whole, aggregates[place + 1].view(np.int64)), strict=True)
                place += 2
            else:
                found |= self._limbs(a, whole)
                place += 1
        return found

    @staticmethod
    def _limbs(a: Aggregate, whole: I64) -> Iterable[tuple[str, I64]]:
        """Return the limbs of whole numbers, or ``NULL``, by their attributes."""
        null = whole == NULL
        limbs = whole >> LIMB, whole & ((1 << LIMB) - 1)
        return zip(limb_names(a.spelling), (np.where(null, NULL, limb) for limb in limbs), strict=True)
