"""The aggregates that groups carry into changes and points: from the records of events to columns."""

from __future__ import annotations

from typing import Final

import numpy as np

from skyband.operators.base import I64, NULL, AnyArray
from skyband.operators.expressions.aggregates import Aggregate
from skyband.operators.groups.configuration import OF_ROWS, GroupsConfiguration, GroupsQuery, is_whole
from skyband.operators.groups.kernels.tables import Events

_NAN: Final = int(np.array(np.nan).view(np.int64))
_EMPTY: Final = {"count": 0, "distinct": 0}


class Carry:
    """The carried aggregates of a configuration. Values are int64: whole numbers, or the bits of float64."""

    def __init__(self, configuration: GroupsConfiguration) -> None:
        self.names = tuple(name for name, _ in configuration.carry)
        self._aggregates = [a for _, a in configuration.carry]
        self._places = [configuration.aggregates.index(a) for a in self._aggregates]
        self._cells = cells_of(configuration)
        self.of_empty: I64 = np.array([_EMPTY.get(a.function, _NAN) if not _is_cell(a) else NULL for a in self._aggregates], np.int64)
        """The values of a group without rows."""

    def of(self, events: Events, records: int) -> I64:
        """Return the values (carried, records) of the records."""
        made = np.empty((len(self.names), records), np.int64)
        for i, (aggregate, place) in enumerate(zip(self._aggregates, self._places, strict=True)):
            if _is_cell(aggregate):
                made[i] = events.cells[self._cells.index(place), :records]
            else:
                made[i] = events.values[place, :records].view(np.int64)
        return made

    def traces(self, query: GroupsQuery) -> I64:
        """Return (n, 2): the places of the values that the query's points follow, and 1 for those that are whole numbers."""
        places = [self.names.index(name) for name in query.traces]
        return np.array([(i, _is_cell(self._aggregates[i])) for i in places], np.int64).reshape(-1, 2)

    def columns(self, values: I64) -> dict[str, AnyArray]:
        """Return values (carried, changes) as columns, int64 or float64."""
        return {
            name: values[i].copy() if _is_cell(aggregate) else values[i].view(np.float64).copy()
            for i, (name, aggregate) in enumerate(zip(self.names, self._aggregates, strict=True))
        }


def _is_cell(aggregate: Aggregate) -> bool:
    """Return True if the value is a whole one of a row, or its code, which a float64 might not hold."""
    return aggregate.function in OF_ROWS and aggregate.argument is not None and is_whole(aggregate.argument)


def cells_of(configuration: GroupsConfiguration) -> list[int]:
    """Return the places, among the aggregates, of those that are carried as cells."""
    return sorted({configuration.aggregates.index(a) for _, a in configuration.carry if _is_cell(a)})
