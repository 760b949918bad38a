"""The statistics of one name, in one bucket: rows of tables in, columns of statistics out. Imports the kernels."""

from __future__ import annotations

from typing import cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from skyband.framework.base.decimals import decimal_digits
from skyband.framework.plan.model import Field
from skyband.framework.plan.nodes import StatisticsNode
from skyband.framework.streaming.bucket.objects import ObjectNumbers
from skyband.framework.streaming.bucket.sequencer import Sequenced, Sequencer
from skyband.framework.streaming.bucket.store import WindowStore, split_address
from skyband.framework.streaming.rows.columns import floats, ints, units
from skyband.framework.streaming.rows.config import HostConfig
from skyband.operators.base import NULL
from skyband.operators.window_statistics import Statistic, StatisticsRows, WindowStatistics, WindowStatisticsConfiguration
from skyband.operators.window_statistics.configuration import ArgumentKind, Function

I64 = npt.NDArray[np.int64]

_NONE: I64 = np.empty(0, np.int64)


class StatisticsPart:
    """Takes the accepted rows of a bucket in their order."""

    def __init__(self, node: StatisticsNode, config: HostConfig) -> None:
        self.node = node
        self._deletes = config.intake.has_deletions
        self._schema = config.row_schema()
        self._arguments: dict[tuple[str, ArgumentKind], int] = {}
        """Columns and the kinds as which they are read -> numbers of arguments."""
        statistics, scales = [], []
        for function, column in node.functions:
            field = config.intake.field(column)
            kind = argument_kind(function, field)
            if (column, kind) not in self._arguments:
                self._arguments[column, kind] = len(self._arguments)
                digits = decimal_digits(field.type)
                scales.append(digits[1] if kind == "units" and digits is not None else 0)
            statistics.append(Statistic(cast(Function, function), self._arguments[column, kind]))
        kinds = tuple(kind for _, kind in self._arguments)
        self._configuration = WindowStatisticsConfiguration(
            tuple(statistics), kinds, tuple(scales), node.window, node.at_least, self._deletes
        )
        self._clear()

    def _clear(self) -> None:
        self._logic = WindowStatistics(self._configuration)
        self._numbers = ObjectNumbers(self.node.by, self._schema)

    @property
    def size(self) -> int:
        """Return the rows in memory, or the groups so far if they are more."""
        return max(self._logic.rows, self._numbers.next)

    def take(self, taken: Sequenced) -> npt.NDArray[np.float64]:
        """Return the statistics of accepted rows, shape (statistics, rows), NaN for null."""
        assert self._deletes or (taken.seq >= 0).all(), "the configuration knows of no deletions"
        target = np.ascontiguousarray(taken.target) if self._deletes else _NONE
        return self._logic.take(self._rows(taken.key, taken.seq, taken.time, taken.rows, target))

    def load(self, store: WindowStore, sequencer: Sequencer) -> None:
        """Begin with the window's rows that have not been deleted."""
        self._clear()
        held = store.alive(self.node.window, sequencer.keys.next_seq, sequencer.until)
        live = np.flatnonzero(~np.isin(held.at, sequencer.deletions.at))
        key, seq = split_address(held.at[live])
        self._logic.load(self._rows(key, seq, held.time[live], held.rows.take(pa.array(live)), _NONE))

    def _rows(self, key: I64, seq: I64, time: I64, rows: pa.Table, target: I64) -> StatisticsRows:
        group = key
        if self.node.by:
            number = self._numbers.number(key, rows)
            group = np.where(number == NULL, -1, number)
        cells = np.empty((len(self._arguments), len(seq)), np.int64)
        for (column, kind), argument in self._arguments.items():
            values = rows[column]
            if kind == "float":
                cells.view(np.float64)[argument] = floats(values) + 0.0
            elif kind == "present":
                cells[argument] = np.where(values.is_null().to_numpy(), NULL, 0)
            else:
                cells[argument] = units(values) if kind == "units" else ints(values)
        key, seq, time, group = (np.ascontiguousarray(a) for a in (key, seq, time, group))
        return StatisticsRows(key, seq, time, group, cells, target)


def argument_kind(function: str, field: Field) -> ArgumentKind:
    """Return as what a function reads a column. Least and greatest decimals are doubles, as the column is in expressions."""
    if function == "count":
        return "float" if field.kind == "float" else "present"
    if field.kind == "int":
        return "int"
    return "units" if decimal_digits(field.type) is not None and function not in ("min", "max") else "float"
