"""Evaluate the expressions of a state of groups over blocks: rows that count, arguments of aggregates, scores, groups that take part."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from skyband.operators.base import F64, I64, AnyArray
from skyband.operators.expressions.ast import Attr
from skyband.operators.groups.configuration import GroupsConfiguration, is_whole


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
                (cells if is_whole(x) else floats)[i] = columns[x.name] if is_whole(x) else columns[x.name] + 0.0
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
        found = score if self.sign > 0 and self.kernels.score is None else self.sign * score + 0.0
        if self.kernels.having is not None:
            found = np.where(self.kernels.having.passes(self._columns(aggregates), len(score)), found, math.nan)
        return found

    def _columns(self, aggregates: F64) -> dict[str, F64]:
        return {a.spelling: aggregates[i] for i, a in enumerate(self.configuration.aggregates)}
