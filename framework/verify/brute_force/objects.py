"""The input of brute force: one key's accepted objects in columns, and which of them are in a window at an instant."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from skyband.framework.plan.model import Plan, QueryNode
from skyband.framework.plan.nodes import TokenNode
from skyband.framework.streaming.rows.columns import TextCodes, operator_column
from skyband.framework.streaming.rows.tokens import tokens
from skyband.framework.verify.brute_force.calendars import window_around
from skyband.framework.verify.brute_force.expressions import Values, text_number
from skyband.operators.base import NEVER, TOKENS, AnyArray, Column, Window

I64 = npt.NDArray[np.int64]
T = TypeVar("T")
Found = list[tuple[tuple[Any, ...], float]]
"""A result in rank order: (values of the identity columns of an item, score or 0.0)."""

MAX_PAIRS = 200_000_000
"""The most pairs compared for one result. A larger window is not recomputed, which ``verify`` reports."""

MAX_RANKED = 12_000_000
"""The most pairs in memory in rank order at a time, over all keys and queries: about 400 MB."""

SLOW: Final = 50
"""The cost of a step of plain Python, in pairs compared as arrays."""


@dataclass(slots=True)
class Accepted:
    """One key's objects in order: row i has seq i. ``deleted``: seq -> instant of its deletion.

    ``deletions``: (instant, number of objects before it, deleted seq), in order. ``rejected``: the rows that are no objects, by reason.
    ``counts``: how many rows have deleted an object, replaced one, or been left out for the first of their id.
    """

    key: tuple[Any, ...]
    rows: pa.Table
    time: list[int]
    deleted: dict[int, int]
    deletions: list[tuple[int, int, int]] = field(default_factory=list)
    rejected: Mapping[str, pa.Table] = field(default_factory=dict)
    counts: Mapping[str, int] = field(default_factory=dict)


@dataclass(slots=True)
class Room:
    """The number of pairs that may still be kept in rank order."""

    left: int = MAX_RANKED

    def take(self, pairs: int) -> bool:
        """Return True and reserve room for ``pairs`` more, if there is any."""
        if pairs > self.left:
            return False
        self.left -= pairs
        return True


@dataclass(slots=True)
class Objects:
    """One key's accepted objects: row i has seq i. ``deleted``: the instant at which each was deleted, or NEVER.

    ``deletions``: all of them, also later ones, as in ``Accepted``.

    ``columns``: those the plan's operators read, encoded as they read them; ``values`` gives them with a mask of nulls. ``tokens``: each
    object's tokens as texts, by the name of the sets. ``named``: the objects that rows report on, by the columns that name them: the
    distinct names in order of appearance, and each row's index in them. The objects that ``as_of`` returns share ``rows``, ``named``,
    ``tokens`` and everything computed once with all objects.
    """

    time: I64
    columns: dict[str, AnyArray]
    deleted: I64
    tokens: dict[str, list[frozenset[str]]] = field(default_factory=dict)
    rows: pa.Table = field(default_factory=lambda: pa.table({}))
    kinds: Mapping[str, str] = field(default_factory=dict)
    named: dict[tuple[str, ...], tuple[list[tuple[Any, ...]], I64]] = field(default_factory=dict)
    room: Room = field(default_factory=Room)
    all_objects: Objects | None = None
    deletions: list[tuple[int, int, int]] = field(default_factory=list)
    _made: dict[Hashable, Any] = field(default_factory=dict)

    @property
    def every(self) -> Objects:
        """All objects of the key, including those that arrive later."""
        return self if self.all_objects is None else self.all_objects

    def once(self, name: Hashable, make: Callable[[], T]) -> T:
        """Return ``make()``, computed at the first call with ``name``. It must be a function of ``every``."""
        made = self.every._made
        if name not in made:
            made[name] = make()
        found: T = made[name]
        return found

    def values(self, first: int, end: int) -> dict[str, Values]:
        """Return the columns of the objects with ``first`` <= seq < ``end``, for the interpreter of expressions."""
        columns = self.once("values", self._values)
        return {name: Values(v.value[first:end], v.valid[first:end]) for name, v in columns.items()}

    def _values(self) -> dict[str, Values]:
        columns = {name: values_of(self.rows[name], kind) for name, kind in self.kinds.items()}
        for name, sets in self.tokens.items():
            columns[TOKENS + name] = Values(np.array([text_number(s) for s in sets], np.int64), np.ones(len(sets), bool))
        return columns

    def as_of(self, count: int, deleted: set[int]) -> Objects:
        """Return the state after the first ``count`` objects had arrived and those in ``deleted`` had been deleted. O(objects)."""
        gone = np.zeros(count, bool)
        gone[list(deleted)] = True
        return replace(
            self, time=self.time[:count], columns={n: c[:count] for n, c in self.columns.items()},
            deleted=np.where(gone, self.deleted[:count], NEVER), all_objects=self.every,
        )  # fmt: skip


@dataclass(slots=True)
class Work:
    """The number of pairs that may still be compared. A window that needs more is skipped, and so is any result once it is ``late``."""

    left: int = 5 * MAX_PAIRS
    late: Callable[[], bool] = lambda: False

    def take(self, pairs: int) -> bool:
        """Return True and count ``pairs``, if that many more may be compared for one result."""
        if pairs > min(self.left, MAX_PAIRS) or self.late():
            return False
        self.left -= pairs
        return True


def objects(plan: Plan, mine: Accepted, room: Room | None = None) -> Objects:
    """Return the objects of one key with the columns that the plan's operators read. All keys share ``room``."""
    codes = TextCodes(plan.texts)
    of_operators = [c for node in plan.operators for c in (*node.attributes, *node.ragged)]
    read = {n: Column(n, plan.intake.field(n).kind) for c in of_operators if c.expression is not None for n in c.reads}
    read |= {c.name: c for c in of_operators if c.kind not in ("units", "tokens", "characters") and c.expression is None}
    kinds = {name: c.kind for name, c in read.items()}
    deleted = np.full(len(mine.time), NEVER)
    deleted[list(mine.deleted)] = list(mine.deleted.values())
    columns = {name: operator_column(mine.rows, c, codes) for name, c in read.items()}
    sets = {t.name: _sets(t, mine.rows) for t in plan.intake.tokens}
    named = {of: _named(mine.rows, of) for node in plan.operators for of in node.objects}
    return Objects(np.array(mine.time, np.int64), columns, deleted, sets, mine.rows, kinds, named, room or Room(), deletions=mine.deletions)


def values_of(column: pa.ChunkedArray, kind: str) -> Values:
    """Return a column of the stream, of a kind, for the interpreter of expressions. O(rows)."""
    valid = column.is_valid().to_numpy()
    if kind == "float":
        floats = column.cast(pa.float64()).to_numpy()
        return Values(floats, valid & ~np.isnan(floats))
    if kind == "vector":
        lists = column.combine_chunks().to_pylist()
        size = max((len(x) for x in lists if x is not None), default=0)
        return Values(np.array([x or [math.nan] * size for x in lists], np.float64).reshape(len(lists), size), valid)
    if kind == "text":
        known = column.cast(pa.string()).combine_chunks().dictionary_encode()
        numbers = np.array([text_number(t) for t in known.dictionary.to_pylist()], np.int64)
        place = pc.fill_null(known.indices, 0).to_numpy()
        return Values(numbers[place] if len(numbers) else np.zeros(len(place), np.int64), valid)
    if kind == "bool":
        return Values(pc.fill_null(column, False).to_numpy(), valid)
    if kind == "time":
        column = column.cast(pa.timestamp("us", "UTC"))
    return Values(pc.fill_null(column.cast(pa.int64()), 0).to_numpy(), valid)


def _named(rows: pa.Table, columns: tuple[str, ...]) -> tuple[list[tuple[Any, ...]], I64]:
    known: dict[tuple[Any, ...], int] = {}
    numbers = [known.setdefault(name, len(known)) for name in zip(*[rows[c].to_pylist() for c in columns], strict=True)]
    return list(known), np.array(numbers, np.int64)


def _sets(node: TokenNode, rows: pa.Table) -> list[frozenset[str]]:
    found: list[set[str]] = [set() for _ in range(rows.num_rows)]
    row, token = tokens(node, rows[node.column])
    for i, t in zip(row.tolist(), token.to_pylist(), strict=True):
        found[i].add(t)
    # A row with too few tokens that is not rejected has an empty set.
    return [frozenset(s) if len(s) >= node.least else frozenset() for s in found]


def window_of(query: QueryNode, window: Window, data: Objects, at: int) -> tuple[int, int, int]:
    """Return (first, end, instant): the seqs in ``window`` after all events with time <= ``at``, or the last boundary by then."""
    if query.every_micros:
        at = at // query.every_micros * query.every_micros
    # At a boundary, hopping windows have neither its own rows nor have lost those one length before it.
    side: Literal["left", "right"] = "left" if window.hopping else "right"
    end = int(np.searchsorted(data.time, at, side=side))
    first = 0
    if window.micros:
        first = int(np.searchsorted(data.time, at - window.micros, side=side))
    if window.tumbling is not None:
        first = max(first, int(np.searchsorted(data.time, window_around(window.tumbling, at)[0])))
    if window.session is not None and query.item.rows:
        first = max(first, session_start(data.time[:end], window.session, at))
    if window.count:
        first = max(first, end - window.count)
    return min(first, end), end, at


def session_start(time: I64, session: int, at: int) -> int:
    """Return the first row of the session of a key at an instant, given the instants of its rows by then; their number if there is none."""
    if not len(time) or at - time[-1] >= session:
        return len(time)
    silences = np.flatnonzero(np.diff(time) >= session)
    return int(silences[-1]) + 1 if len(silences) else 0


def ends_at(query: QueryNode, data: Objects, at: int) -> bool:
    """Return True if a tumbling window, or a session of the key, ends at an instant."""
    if query.window.session is not None and query.item.rows:
        before = int(np.searchsorted(data.time, at))
        return before > 0 and int(data.time[before - 1]) + query.window.session == at
    return query.window.tumbling is not None and window_around(query.window.tumbling, at)[0] == at
