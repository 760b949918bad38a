"""What operators have in common that answer the queries of another one, the operator inside, over other windows than it knows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal, cast

import numpy as np

from skyband.operators.base import I64, Arrivals, Column, Operator, Ragged, Window
from skyband.operators.state_keys import Divisible, HoldsCodes, state_keys


@dataclass(frozen=True)
class Around:
    """Passes on what the operator ``inner`` says of itself; a subclass builds the logic.

    Raises ValueError for an operator whose state cannot be divided by keys.
    """

    inner: Operator

    query_types: ClassVar[frozenset[str]] = frozenset()
    keeps: ClassVar[Literal["window", "retained", "none"]] = "retained"

    def __post_init__(self) -> None:
        if state_keys(self.inner) is None:
            raise ValueError("the state of the operator cannot be divided by keys")
        # Class attributes in the protocol; here they depend on the operator inside.
        object.__setattr__(self, "query_types", self.inner.query_types)
        object.__setattr__(self, "keeps", self.inner.keeps)

    @property
    def queries(self) -> tuple[Any, ...]:
        """Return the queries of the operator inside."""
        return tuple(getattr(self.inner, "queries", ()))

    @property
    def parts(self) -> tuple[Operator, ...]:
        """Return the operator inside, whose text constants are those of this one."""
        return (self.inner,)

    @property
    def roles(self) -> tuple[str, ...]:
        """Return the roles of the operator inside."""
        return self.inner.roles

    @property
    def columns(self) -> tuple[Column, ...]:
        """Return the columns that the operator inside reads."""
        return self.inner.columns

    @property
    def window(self) -> Window:
        """Return the window of the operator inside, which bounds those of this one."""
        return self.inner.window

    @property
    def divisible(self) -> Divisible:
        """Return how the state of the operator inside is divided by keys."""
        return cast(Divisible, state_keys(self.inner))

    @property
    def holds_codes(self) -> bool:
        """Return True if checkpoints may have codes of texts, as ``state_keys.HoldsCodes``."""
        return isinstance(self.inner, HoldsCodes) and self.inner.holds_codes


def chosen_rows(arrivals: Arrivals, rows: I64) -> Arrivals:
    """Return the arrivals at the positions ``rows``. O(rows)."""
    columns = {name: a[rows] for name, a in arrivals.columns.items()}
    ragged = {name: _taken(a, rows) for name, a in arrivals.ragged.items()}
    return Arrivals(arrivals.key[rows], arrivals.seq[rows], arrivals.time[rows], columns, ragged)


def _taken(ragged: Ragged, rows: I64) -> Ragged:
    """Return the chosen rows."""
    length = np.diff(ragged.start)[rows]
    start = np.concatenate([[0], np.cumsum(length)]).astype(np.int64)
    return Ragged(start, ragged.values[np.arange(start[-1]) + np.repeat(ragged.start[rows] - start[:-1], length)])
