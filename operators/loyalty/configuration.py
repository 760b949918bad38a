"""The configuration of loyalty: how a row becomes a report, how long a report counts, the window T, and the queries that share it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Literal

from skyband.operators.base import CHARACTERS, Column, Window, object_column
from skyband.operators.expressions import RowKernel, compile_row, read_columns
from skyband.operators.expressions.ast import Node, Unary
from skyband.operators.single_rows.blocks import DELETION_COLUMN
from skyband.operators.state_keys import Group, Named, StateKeys


@dataclass(frozen=True, slots=True)
class LoyaltyQuery:
    """The ``k`` most loyal objects, or all whose loyalty is ``at_least`` so many microseconds: exactly one of the two.

    ``every``: boundaries in microseconds, if not as of every instant. ``trace_all``: trajectories of all objects, not of members alone.
    """

    k: int | None = None
    at_least: int | None = None
    every: int | None = None
    trace_all: bool = False


@dataclass(frozen=True, kw_only=True)
class LoyaltyConfiguration:
    """Loyalty of the objects that the columns ``object`` name, for all ``queries``.

    A row for which ``where`` is true is a report on its object. The report is on or off by the predicate ``criteria``, unusable if that is
    null; or by the column ``updates``, of kind bool or int, on with 1 and off with 0, unusable with anything else. A report on no object
    (``NULL``) is unusable too. ``stale_after``: a report counts for so many microseconds at most. ``window``: T, time alone. ``texts`` are
    the plan's text constants. ``deletes``: rows may be deletions; that of the valid report on an object switches it off. ``held``: the
    text column with the switches of the object since its last report (see ``held``).

    Raises ValueError for no ``object``, neither or both of ``criteria`` and ``updates``, an ``updates`` of another kind, durations below 1,
    a count window, no queries, a query with neither or both of ``k`` and ``at_least``, k < 1, ``at_least`` not within 1..T, ``every`` < 1,
    and ``held`` with ``deletes``, ``stale_after`` or trajectories of all objects.
    """

    object: tuple[str, ...]
    criteria: Node | None = None
    updates: Column | None = None
    where: Node | None = None
    stale_after: int | None = None
    window: Window
    queries: tuple[LoyaltyQuery, ...]
    texts: tuple[str, ...] = ()
    deletes: bool = False
    held: str | None = None

    state_format: ClassVar[str] = "Loyalty"
    query_types: ClassVar[frozenset[str]] = frozenset()  # two types share it: their own rooms name them
    keeps: ClassVar[Literal["window", "retained", "none"]] = "none"
    state_keys: ClassVar[StateKeys] = StateKeys(
        each={"moving": 0, "step": 1, "next": 1, "members": 1},
        groups=(
            Group(
                Named("key"),
                {"number": 0, "word": 0, "report": 0, "told": 1, "name_length": 0, "name_words": 0, "last": 0},
                places={"echo_object": ("echo_time",), "stale_object": ("stale_time",)},
            ),
        ),
    )

    def __post_init__(self) -> None:
        if not self.object:
            raise ValueError("loyalty needs the columns that name its objects")
        if (self.criteria is None) == (self.updates is None):
            raise ValueError("loyalty needs either criteria or updates")
        if self.updates is not None and self.updates.kind not in ("bool", "int"):
            raise ValueError(f"updates: {self.updates.name} is of kind {self.updates.kind}, not bool or int")
        if self.window.count is not None or self.window.micros is None or self.window.micros < 1:
            raise ValueError("loyalty needs a window of time alone, of at least 1 microsecond")
        if self.stale_after is not None and self.stale_after < 1:
            raise ValueError(f"stale_after: at least 1 microsecond, not {self.stale_after}")
        if self.held is not None and (self.deletes or self.stale_after is not None or any(q.trace_all for q in self.queries)):
            raise ValueError("held: not with deletes, stale_after or trajectories of all objects")
        if not self.queries:
            raise ValueError("a loyalty state needs at least one query")
        for index, query in enumerate(self.queries):
            if (query.k is None) == (query.at_least is None):
                raise ValueError(f"query {index}: either k or at_least")
            if query.k is not None and query.k < 1:
                raise ValueError(f"query {index}: k must be at least 1, not {query.k}")
            if query.at_least is not None and not 1 <= query.at_least <= self.window.micros:
                raise ValueError(f"query {index}: at_least must be within 1 and {self.window.micros} microseconds, not {query.at_least}")
            if query.every is not None and query.every < 1:
                raise ValueError(f"query {index}: every must be at least 1 microsecond")
        _ = self.kernels  # raises ValueError for conditions that are none, and for text constants without a code

    @cached_property
    def kernels(self) -> tuple[RowKernel, ...]:
        """Return the kernels of ``where`` (if there is one), of ``criteria`` and of its negation (if there is one)."""
        codes = {text: code for code, text in enumerate(self.texts)}
        nodes = [] if self.where is None else [self.where]
        if self.criteria is not None:
            nodes += [self.criteria, Unary(type="bool", op="not", x=self.criteria)]
        return tuple(compile_row(None, node, False, codes) for node in nodes)

    @property
    def object_column(self) -> Column:
        """Return the column with the objects' numbers."""
        return object_column(self.object)

    @property
    def roles(self) -> tuple[str, ...]:
        """Return the role of single objects."""
        return ("",)

    @property
    def columns(self) -> tuple[Column, ...]:
        """Return the column of the objects' numbers, and those that the conditions and ``updates`` read."""
        read = [] if self.updates is None else [self.updates]
        read += [c for node in (self.where, self.criteria) if node is not None for c in read_columns(node)]
        held = () if self.held is None else (Column(CHARACTERS + self.held, "characters", None, (self.held,)),)
        return (self.object_column, *dict.fromkeys(read), *held, *((DELETION_COLUMN,) if self.deletes else ()))

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "kernels"}
