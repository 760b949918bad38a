"""An operator that does nothing: it measures the cost of the pipeline alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from skyband.operators.base import AnyArray, Arrivals, Changes, Column, Instant, Items, State, Window


@dataclass(frozen=True)
class Idle:
    """Takes the same columns and keeps the same window as the operator it stands for."""

    columns: tuple[Column, ...]
    window: Window
    roles: tuple[str, ...] = ("older", "newer")
    state_format: ClassVar[str] = "Idle"
    query_types: ClassVar[frozenset[str]] = frozenset()
    keeps: ClassVar[Literal["window"]] = "window"

    def build(self, state: State | None) -> IdleLogic:
        return IdleLogic(len(self.roles))


class IdleLogic:
    def __init__(self, width: int) -> None:
        self.width = width

    def advance(self, arrivals: Arrivals, until: Instant) -> Changes:
        return Changes.empty(self.width)

    def wake(self) -> None:
        return None

    def checkpoint(self) -> dict[str, AnyArray]:
        return {}

    def retained(self) -> tuple[AnyArray, AnyArray]:
        return np.empty(0, np.int64), np.empty(0, np.int64)

    def snapshot(self, key: int, k: int, window: Window, query: int = 0) -> Items:
        return self.skyband()

    def skyband(self) -> Items:
        return Items(np.empty(0, np.int64), np.empty((0, self.width), np.int64), np.empty(0))

    def counters(self) -> dict[str, int]:
        return {}
