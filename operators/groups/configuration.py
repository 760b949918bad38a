"""What groups are asked for: what makes a group, its score, the window, and the queries that share it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Final, Literal

import numpy as np

from skyband.operators.base import I64, NULL, AnyArray, Column, Window, object_column, units_column
from skyband.operators.expressions import RowKernel, compile_row, read_columns
from skyband.operators.expressions.aggregates import Aggregate, AggregateExpression
from skyband.operators.expressions.ast import Attr, Node
from skyband.operators.expressions.canonical import walk
from skyband.operators.groups.comparisons import exact, limb_names
from skyband.operators.single_rows.blocks import DELETION_COLUMN
from skyband.operators.state_keys import Group, Named, StateKeys
from skyband.operators.windows import check_window

OF_ROWS: Final = frozenset({"first", "last", "min", "max"})
"""Aggregates whose value is that of a row."""
COUNTS: Final = frozenset({"count", "distinct"})
"""Aggregates that count: their float64 is exact."""
_OF_COLUMN: Final = frozenset({"sum", "quantile", *OF_ROWS})
"""Aggregates whose values are numbers like those of their column."""


@dataclass(frozen=True, slots=True)
class GroupsQuery:
    """The first ``k`` groups, or all whose score is above ``above``: exactly one of the two. ``ties``: also all that equal the k-th.

    A group that is in the result because of ``above`` stays while its score is at least ``below``; without ``below``, while it is above
    ``above``. ``every``: boundaries in
    microseconds, if not as of every event. ``traces``: names of the carried aggregates of this query, which the points of trajectories
    have besides the score: a member has a point wherever any of these values is another one.
    """

    k: int | None = None
    above: float | None = None
    below: float | None = None
    every: int | None = None
    ties: bool = False
    traces: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class GroupsConfiguration:
    """Aggregates of the rows that have equal values in the columns ``group``, for all ``queries``.

    Rows for which ``where`` is true and no column of ``group`` is null belong to a group. A group takes part while it has a row in the
    ``window``, ``having`` is true and ``score`` is not null or NaN. ``texts`` are the plan's text constants.
    ``deletes``: rows may be deletions. ``carry``: names and aggregates that changes and points have with the score, as of the same event.

    Raises ValueError for no ``group``, a window without bounds, no queries, a query with neither or both of ``k`` and ``above``, k < 1,
    ``below`` without or greater than ``above``, ``ties`` without ``k``, ``every`` < 1, ``above`` with direction min, decimals in ``carry``,
    or ``traces`` of what is not carried.
    """

    group: tuple[str, ...]
    score: AggregateExpression
    having: AggregateExpression | None = None
    direction: Literal["min", "max"] = "max"
    where: Node | None = None
    window: Window
    queries: tuple[GroupsQuery, ...]
    texts: tuple[str, ...] = ()
    deletes: bool = False
    carry: tuple[tuple[str, Aggregate], ...] = ()

    state_format: ClassVar[str] = "Groups"
    query_types: ClassVar[frozenset[str]] = frozenset()  # two types share it
    keeps: ClassVar[Literal["window", "retained", "none"]] = "window"
    state_keys: ClassVar[StateKeys] = StateKeys(
        each={"step": 1, "next": 1, "next_seq": 0},
        groups=(
            Group(Named("key"), {"number": 0, "name_length": 0, "name_words": 0, "shown": 1, "shown_value": 1, "shown_carried": 1,
                                   "member": 1, "deleted": 0}),
            Group(Named("tomb_key"), {"tomb_seq": 0, "tomb_time": 0}),
        ),
    )  # fmt: skip

    def __post_init__(self) -> None:
        if not self.group:
            raise ValueError("groups need the columns that make them")
        check_window(self.window, self.window, "groups")
        if self.window.session is not None and (self.window.micros is None or self.window.session < 1):
            raise ValueError("a session needs a silence of at least 1 microsecond, and a window with a duration")
        if not self.queries:
            raise ValueError("a state of groups needs at least one query")
        for i, q in enumerate(self.queries):
            if (q.k is None) == (q.above is None):
                raise ValueError(f"query {i}: either k or above")
            if q.k is not None and q.k < 1:
                raise ValueError(f"query {i}: k must be at least 1, not {q.k}")
            if q.ties and q.k is None:
                raise ValueError(f"query {i}: ties without k")
            if q.above is not None and self.direction == "min":
                raise ValueError(f"query {i}: above with direction min")
            if q.below is not None and (q.above is None or not q.below <= q.above):
                raise ValueError(f"query {i}: below needs an above that is at least as large")
            if q.every is not None and q.every < 1:
                raise ValueError(f"query {i}: every must be at least 1 microsecond")
            if not set(q.traces) <= {name for name, _ in self.carry}:
                raise ValueError(f"query {i}: traces of what is not carried")
        for name, aggregate in self.carry:
            if is_decimal(aggregate):
                raise ValueError(f"{name}: decimals are not carried")
        _ = self.kernels  # raises ValueError for expressions of wrong types, and for text constants without a code

    @property
    def aggregates(self) -> tuple[Aggregate, ...]:
        """Return the aggregates of ``score``, ``having`` and ``carry``, each once."""
        having = self.having.aggregates if self.having is not None else ()
        return tuple(dict.fromkeys([*self.score.aggregates, *having, *(a for _, a in self.carry)]))

    @property
    def arguments(self) -> tuple[Node, ...]:
        """Return the arguments of the aggregates, each once."""
        return tuple(dict.fromkeys(a.argument for a in self.aggregates if a.argument is not None))

    @cached_property
    def kernels(self) -> Kernels:
        """Return the compiled expressions."""
        codes = {text: code for code, text in enumerate(self.texts)}
        score, having = self._exact
        return Kernels(
            None if self.where is None else compile_row(None, self.where, False, codes),
            tuple(None if is_column(x) else compile_row(x, None, False, codes) for x in self.arguments),
            None if isinstance(score, Attr) else compile_row(score, None, False, codes),
            None if having is None else compile_row(None, having, False, codes),
        )

    @property
    def _exact(self) -> tuple[Node, Node | None]:
        """Return the expressions of ``score`` and ``having`` with exact comparisons."""
        wholes = {a.spelling: a.function not in COUNTS for a in self.aggregates if is_whole_number(a)}
        having = None if self.having is None else exact(self.having.node, self.scales, wholes)
        return exact(self.score.node, self.scales, wholes), having

    @cached_property
    def compared(self) -> tuple[Aggregate, ...]:
        """Return the aggregates of whole numbers that ``score`` and ``having`` compare: each has limbs, too (``comparisons``)."""
        read = {n.name for node in self._exact if node is not None for n in walk(node) if isinstance(n, Attr)}
        return tuple(a for a in self.aggregates if is_whole_number(a) and not read.isdisjoint(limb_names(a.spelling)))

    @property
    def scales(self) -> dict[str, int]:
        """Digits after the point of the aggregates that are decimals, by their attributes."""
        return {a.spelling: a.scale for a in self.aggregates if a.scale is not None and is_decimal(a)}

    @property
    def object_column(self) -> Column:
        """Return the column with the groups' numbers."""
        return object_column(self.group)

    @property
    def roles(self) -> tuple[str, ...]:
        """Single groups."""
        return ("",)

    @property
    def columns(self) -> tuple[Column, ...]:
        """Return the groups' numbers, what the expressions read, and the deletions' targets."""
        read = [c for node in (self.where, *self.arguments) if node is not None for c in read_columns(node)]
        given = dict.fromkeys(units_column(c.name) if c.kind == "units" else c for c in read)
        return (self.object_column, *given, *((DELETION_COLUMN,) if self.deletes else ()))

    @property
    def regular(self) -> list[int]:
        """Return the queries that show their results at boundaries only."""
        return [q for q, query in enumerate(self.queries) if query.every is not None]

    @property
    def carries_former(self) -> bool:
        """Return True if groups may be shown with carried values that are not those of the window's rows any more."""
        return bool(self.carry and self.regular)

    @property
    def _texts(self) -> list[int]:
        return [i for i, (_, a) in enumerate(self.carry) if a.function in OF_ROWS and is_text(a)]

    @property
    def holds_codes(self) -> bool:
        """See ``HoldsCodes.holds_codes``."""
        return self.carries_former and bool(self._texts)

    def codes_in(self, arrays: Mapping[str, AnyArray]) -> I64:
        """See ``HoldsCodes.codes_in``: the texts that groups carry as they are shown."""
        if not self.holds_codes:
            return np.empty(0, np.int64)
        saved = arrays["shown_carried"]
        codes = saved.reshape(len(self.regular), len(self.carry), saved.shape[1])[:, self._texts]
        # What stands there for groups that are not shown is of no meaning: their texts may be gone.
        shown = arrays["shown"][self.regular].astype(bool)[:, None]
        found: I64 = np.unique(codes[shown & (codes != NULL)])
        return found

    @property
    def units(self) -> int | None:
        """Digits after the point of a score that is a decimal, see ``units_of``."""
        return units_of(self.score)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name not in ("kernels", "compared")}


@dataclass(frozen=True, slots=True)
class Kernels:
    """Compiled expressions: of ``where``, of each argument (None for a column), of the score (None for a single aggregate), of having."""

    where: RowKernel | None
    arguments: tuple[RowKernel | None, ...]
    score: RowKernel | None
    having: RowKernel | None


def is_column(x: Node) -> bool:
    """Return True for an argument that is a column: its values are used as they are."""
    return isinstance(x, Attr)


def is_whole(x: Node) -> bool:
    """Return True for an argument with int64 values: numbers, texts, instants, truth values."""
    return isinstance(x, Attr) and x.type != "float"


def is_text(aggregate: Aggregate) -> bool:
    """Return True if the argument of an aggregate is a text column."""
    return isinstance(aggregate.argument, Attr) and aggregate.argument.type == "text"


def units_of(score: AggregateExpression) -> int | None:
    """Return the digits after the point of a score that is a decimal, and ranks as a whole number of smallest units; None for others."""
    first = score.aggregates[0] if isinstance(score.node, Attr) else None
    return first.scale if first is not None and is_decimal(first) else None


def is_decimal(aggregate: Aggregate) -> bool:
    """Return True if the values of an aggregate are decimals with as many digits after the point as its column."""
    return aggregate.scale is not None and aggregate.function in _OF_COLUMN


def is_whole_number(aggregate: Aggregate) -> bool:
    """Return True if the values of an aggregate are whole numbers: counts, and those of an integer column."""
    x = aggregate.argument
    return aggregate.function in COUNTS or (aggregate.function in _OF_COLUMN and isinstance(x, Attr) and x.type == "int")
