"""The contract between an operator and whatever hosts it: columnar blocks in, columnar changes out.

An *operator* is frozen configuration, built by the compiler and picklable. Its *logic* is the moving part of one bucket
of keys. Everything that crosses the border is flat NumPy arrays, so a bucket of 100,000 small keys costs no Python per key
and no Python per row.

Conventions
-----------
* Instants and durations are int64 microseconds; instants count from 1970-01-01 UTC.
* ``key`` is the dense number the host gave the key within its bucket (0, 1, 2, ... in order of first sight, never reused).
* ``seq`` is the object's position in its key's order: 0, 1, 2, ... without gaps, given by the host.
* Scores leave an operator as the user wrote them (a ``max`` score is not negated) with -0.0 folded into 0.0.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, NamedTuple, Protocol, TypeAlias, runtime_checkable

import numpy as np
import numpy.typing as npt

I64: TypeAlias = npt.NDArray[np.int64]
F64: TypeAlias = npt.NDArray[np.float64]
AnyArray: TypeAlias = npt.NDArray[Any]
Instant: TypeAlias = int

Kind: TypeAlias = Literal["float", "int", "text", "bool", "time", "list"]
"""Kinds of the stream's columns. No operator reads a ``list``: sets of tokens are made of it (``Ragged``)."""

NULL: int = -(2**63)
"""A null in an int64 column (kinds int, text, bool, time); a null in a float64 column is NaN."""

NEVER: int = 2**63 - 1
"""An instant that does not come."""

DELETION_TARGET: str = "$target"
"""Name of the column of ``Arrivals`` (int64) that brings deletions to operators that take them.

A deletion is a row of its own with ``seq`` = -1 and the deleted object's seq in this column; the column holds ``NULL`` in the rows of
objects. Within a key deletions stand where they happen: after the objects that came before them. The host resolves ids to live targets;
a deletion without one never gets here. Other columns of a deletion's row are not read.
"""

# Causes of a change, as small integers in blocks and as words in tables.
EXPIRY, DELETE, DISPLACED, ARRIVAL, PROMOTED, CROSSING, BOUNDARY = range(7)
CAUSES: tuple[str, ...] = ("expiry", "delete", "displaced", "arrival", "promoted", "crossing", "boundary")


class Misfit(NamedTuple):
    """Why a window does not fit into another: an end of this ``kind``, what it asks for, and the most there is (None: no such end)."""

    kind: Literal["count", "time"]
    asked: int
    most: int | None


@dataclass(frozen=True, slots=True)
class Window:
    """A sliding window: ``count`` most recent objects, ``micros`` of time (half open), or both (whichever ends first).

    A query's window is no larger than the one it is asked of (``misfits``), which also bounds what the query leaves out (``within``).
    """

    count: int | None = None
    micros: int | None = None

    def within(self, largest: Window) -> Window:
        """The window as ``largest`` bounds it: its own ends, and those of ``largest`` where it has none."""
        return Window(
            largest.count if self.count is None else self.count,
            largest.micros if self.micros is None else self.micros,
        )

    def misfits(self, largest: Window) -> list[Misfit]:
        """The ends that are of a kind ``largest`` does not have, larger than its, or less than 1; none if the window fits into it."""
        found = []
        if self.count is not None and (largest.count is None or not 1 <= self.count <= largest.count):
            found.append(Misfit("count", self.count, largest.count))
        if self.micros is not None and (largest.micros is None or not 1 <= self.micros <= largest.micros):
            found.append(Misfit("time", self.micros, largest.micros))
        return found

    @staticmethod
    def union(windows: Iterable[Window]) -> Window:
        """The smallest window that contains all of ``windows`` (at least one): no end of a kind if one of them has none."""
        every = list(windows)
        counts = [w.count for w in every if w.count is not None]
        times = [w.micros for w in every if w.micros is not None]
        return Window(max(counts) if len(counts) == len(every) else None, max(times) if len(times) == len(every) else None)


@dataclass(frozen=True, slots=True)
class Column:
    """An attribute an operator needs. ``float`` arrives as float64, every other kind as int64 (text as codes), ``tokens`` as ``Ragged``.

    ``object`` (made by ``object_column``) arrives as the number of what a row reports on.
    """

    name: str
    kind: Kind | Literal["object", "tokens"]


def object_column(columns: Sequence[str]) -> Column:
    """The column with the number of the object that ``columns`` name together.

    Within a bucket equal values of ``columns`` in one key have one number, as long as ``ObjectLogic.objects`` names it. Numbers have no
    order and are never reused.
    """
    return Column("$" + ",".join(columns), "object")


def object_columns(column: Column) -> tuple[str, ...]:
    """The columns that name the objects of a column that ``object_column`` made."""
    return tuple(column.name[1:].split(","))


@dataclass(frozen=True, slots=True)
class Ragged:
    """Rows of different length: row i is ``values[start[i] : start[i + 1]]``. ``start`` int64 (rows + 1,), ``values`` int64 codes."""

    start: I64
    values: I64


@dataclass(frozen=True, slots=True)
class Named:
    """Objects that are new to a logic, or come back to it (``Arrivals.named``). ``number`` int64 (n,); row i of ``words`` names the i-th.

    A name is some int64 words whose order, word by word, the shorter first where one begins the other, is that of the naming columns'
    values in turn: numbers and instants by value, texts by their UTF-8 bytes, false before true. Different names have different words.
    """

    number: I64
    words: Ragged


@dataclass(frozen=True, slots=True)
class Arrivals:
    """Accepted objects of one bucket, sorted by (key, seq); within a key, time never goes back and seq has no gaps.

    ``columns[name]`` is float64 (null is NaN) for kind ``float`` and int64 (null is ``NULL``) otherwise. Text comes as codes:
    equal text has equal codes, a text constant of the spec has the code the plan gave it; codes have no order.
    ``ragged[name]`` are the columns of kind ``tokens``: a row's codes, each once, in no order.
    ``named[name]``, for a column of kind ``object``: those of its objects that the logic's last ``objects()`` did not have, each once;
    whoever needs names keeps them.
    Codes an operator with ``keeps = "retained"`` may hold in its own arrays (those of rows it names) stay valid across a restore.
    """

    key: I64
    seq: I64
    time: I64
    columns: Mapping[str, AnyArray]
    ragged: Mapping[str, Ragged] = field(default_factory=dict)
    named: Mapping[str, Named] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.seq)


@dataclass(frozen=True, slots=True)
class Traces:
    """Points of trajectories: from ``at`` (n,) to its next point item ``items`` (n, w) of ``query`` and ``key`` starts from ``values``.

    Grouped by (query, key), then by ``at``; the rows of a query go to its table ``<query>_trajectory``.
    """

    query: npt.NDArray[np.int16]
    key: I64
    at: I64
    items: I64
    values: Mapping[str, AnyArray]

    def __len__(self) -> int:
        return len(self.at)


@dataclass(frozen=True, slots=True)
class Changes:
    """Result changes of one ``advance``: grouped by (query, key), then by step, then pos.

    ``query`` is the index into the operator's ``queries``; ``at`` the event time; ``step`` counts 1, 2, 3, ... per query
    and key over the whole life of the stream; ``sign`` is +1 or -1; ``cause`` one of the codes above; ``items`` has shape
    (m, w): the seqs of the item's objects in the order of ``Operator.roles``, or for a part that is no row the number of ``object_column``.
    ``values``: further columns of the items (m,), for types whose results have other values than a score. ``traces``: for types whose
    values move between changes.
    """

    query: npt.NDArray[np.int16]
    key: I64
    at: I64
    step: I64
    pos: npt.NDArray[np.int32]
    sign: npt.NDArray[np.int8]
    cause: npt.NDArray[np.int8]
    score: F64
    items: I64
    values: Mapping[str, AnyArray] = field(default_factory=dict, kw_only=True)
    traces: Traces | None = field(default=None, kw_only=True)

    def __len__(self) -> int:
        return len(self.at)

    @classmethod
    def empty(cls, width: int) -> Changes:
        """No changes of items of ``width`` objects."""
        i64 = np.empty(0, np.int64)
        return cls(
            query=np.empty(0, np.int16), key=i64, at=i64, step=i64, pos=np.empty(0, np.int32), sign=np.empty(0, np.int8),
            cause=np.empty(0, np.int8), score=np.empty(0, np.float64), items=np.empty((0, width), np.int64),
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Items:
    """A set of result items in rank order (a snapshot) or grouped by key (a skyband): ``items`` as in ``Changes``.

    ``extra`` holds further columns a kind of state needs in its table (the row that hides an item, for instance).
    """

    key: I64
    items: I64
    score: F64
    extra: Mapping[str, AnyArray] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.score)


@dataclass(frozen=True, slots=True)
class State:
    """What a logic is rebuilt from: the arrays of its last ``checkpoint`` and the rows it asked the host to keep.

    ``rows`` holds, for an operator with ``keeps = "window"``, every object that was alive in the operator's window at the checkpoint
    (it may hold some that were not); for ``"retained"``, the rows ``retained`` named; for ``"none"``, no rows.
    """

    arrays: Mapping[str, AnyArray]
    rows: Arrivals


@runtime_checkable
class Operator(Protocol):
    """Frozen, picklable configuration of one shared state and the queries it answers.

    One whose ``state_keys`` say where keys stand in its checkpoints (``state_keys.Divisible``) has a state that can be divided by keys.
    """

    state_format: ClassVar[str]
    """Names the layout of the state that ``build`` continues: it outlives the class's own name."""
    query_types: ClassVar[frozenset[str]]
    keeps: ClassVar[Literal["window", "retained", "none"]]

    @property
    def roles(self) -> tuple[str, ...]:
        """Prefixes of an item's objects: ``("older", "newer")``, ``("a", "b")`` or ``("",)`` for single objects."""
        ...

    @property
    def columns(self) -> tuple[Column, ...]:
        """The attributes ``Arrivals.columns`` must bring."""
        ...

    @property
    def window(self) -> Window:
        """The largest window this state has to answer (at most the job's)."""
        ...

    def build(self, state: State | None) -> Logic:
        """A logic that continues ``state`` bit for bit, or starts empty."""
        ...


class Logic(Protocol):
    """The moving part of one bucket of keys. Not thread-safe."""

    def advance(self, arrivals: Arrivals, until: Instant) -> Changes:
        """Take every event with instant < ``until``: these arrivals (all with previous until <= time < until) and what expires.

        An expiry or boundary event at instant e happens iff e < ``until``; keys without arrivals expire too. The result is a function of
        the concatenated arrivals alone, however they are cut.
        """
        ...

    def wake(self) -> Instant | None:
        """The next instant at which something may change without an arrival (never too late; may be too early), or None.

        ``advance(..., until)`` with until > that instant takes it.
        """
        ...

    def checkpoint(self) -> dict[str, AnyArray]:
        """Flat arrays (1-d or 2-d, any fixed-width dtype) that with the kept rows rebuild this logic. Small: no window columns."""
        ...

    def retained(self) -> tuple[I64, I64]:
        """(key, seq) of rows still needed. With ``keeps = "retained"``: all of them; with ``"window"``: those needed out of the window.

        The latter are objects a query with ``every`` has shown and has still to take back.
        """
        ...

    def snapshot(self, key: int, k: int, window: Window, query: int = 0) -> Items:
        """The result for any k <= K and window n <= N at this moment, in rank order. Raises ValueError beyond K or N."""
        ...

    def skyband(self) -> Items:
        """All items that can still be in a result for any k <= K and n <= N: every key of the bucket, grouped by key."""
        ...

    def counters(self) -> dict[str, int]:
        """Work counters since the last call; ``unusable:<query index>`` counts objects that query could not use.

        ``asked:<query index>`` counts those that it asks for, the unusable ones among them; by default these are all objects.
        """
        ...


class ObjectLogic(Logic, Protocol):
    """The logic of an operator with columns of kind ``object``."""

    def objects(self) -> I64:
        """Numbers of the objects still needed, in any order: the host forgets the others, and gives them new numbers if they come back."""
        ...
