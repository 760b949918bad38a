"""Which statistics are computed, of which arguments, over which window."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from skyband.operators.base import Window
from skyband.operators.windows import check_window

Function = Literal["mean", "stddev", "min", "max", "sum", "count"]

ArgumentKind = Literal["float", "int", "units", "present"]
"""``float``: float64, NaN for null. ``int``: int64, ``NULL`` for null. ``units``: a decimal as the whole number of its smallest units,
whose least and greatest are not computed. ``present``: int64, anything but ``NULL`` if there is a value, which is only counted."""


@dataclass(frozen=True, slots=True)
class Statistic:
    """A function of argument number ``argument``."""

    function: Function
    argument: int


@dataclass(frozen=True, slots=True)
class WindowStatisticsConfiguration:
    """``statistics`` of arguments of the kinds ``arguments`` over ``window``, null before ``at_least`` values (counts are never null).

    ``scales``: digits after the point of each argument, 0 unless its kind is ``units``. ``deletes``: rows may be deletions.

    Raises ValueError for a window without bounds, ``at_least`` < 1, or a function of an argument of a kind that it does not take.
    """

    statistics: tuple[Statistic, ...]
    arguments: tuple[ArgumentKind, ...]
    scales: tuple[int, ...]
    window: Window
    at_least: int = 1
    deletes: bool = False

    def __post_init__(self) -> None:
        check_window(self.window, self.window, "statistics")
        if self.at_least < 1:
            raise ValueError(f"at_least must be at least 1, not {self.at_least}")
        for s in self.statistics:
            kind = self.arguments[s.argument]
            if (kind == "present" and s.function != "count") or (kind == "units" and s.function in ("min", "max")):
                raise ValueError(f"{s.function} of an argument of kind {kind}")
