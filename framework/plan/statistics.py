"""Statistics in a plan: what each accepted row gets of the rows before it, as further columns of type double."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from skyband.operators.base import Kind, Window

STATISTIC_TYPE: Final = "double"


@dataclass(frozen=True, slots=True)
class StatisticsNode:
    """The statistics called ``name``: ``functions``, each of a column, over the rows before a row that are in ``window`` when it arrives.

    Only rows of the same key and with the same values in the columns ``by`` count. All but counts are null before ``at_least`` values that
    are not null.
    """

    name: str
    functions: tuple[tuple[str, str], ...]
    by: tuple[str, ...]
    window: Window
    at_least: int

    @property
    def columns(self) -> tuple[str, ...]:
        """Return the columns that hold the statistics, in the order of ``functions``."""
        return tuple(f"{self.name}_{function}" for function, _ in self.functions)

    @property
    def reads(self) -> tuple[str, ...]:
        """Return the columns of rows that they are made of, each once."""
        return tuple(dict.fromkeys([*self.by, *(column for _, column in self.functions)]))


def statistic_columns(nodes: Iterable[StatisticsNode]) -> tuple[str, ...]:
    """Return the columns of all statistics, in order."""
    return tuple(c for node in nodes for c in node.columns)


def statistic_kinds(nodes: Iterable[StatisticsNode]) -> dict[str, Kind]:
    """Return what expressions may read: each column, and each statistic as ``name.function``."""
    found: dict[str, Kind] = {}
    for node in nodes:
        for (function, _), column in zip(node.functions, node.columns, strict=True):
            found |= {column: "float", f"{node.name}.{function}": "float"}
    return found
