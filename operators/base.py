"""The interface between an operator and its host: columnar blocks in, columnar changes out.

An *operator* is frozen, picklable configuration that the compiler builds. Its *logic* holds the state of one bucket of keys. Host and logic
exchange flat NumPy arrays, so a bucket of 100,000 small keys costs no Python per key and none per row.

Conventions
-----------
* Instants and durations are int64 microseconds; instants count from 1970-01-01 UTC.
* ``key`` is the dense number of a key within its bucket (0, 1, 2, ... in order of first arrival, never reused).
* ``seq`` is the position of an object in the order of its key: 0, 1, 2, ... without gaps, assigned by the host.
* Scores leave an operator as the user wrote them (a ``max`` score is not negated) with -0.0 folded into 0.0.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, NamedTuple, Protocol, TypeAlias, runtime_checkable

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from skyband.operators.expressions.ast import Node
    from skyband.operators.found_pairs import FoundPairs

I64: TypeAlias = npt.NDArray[np.int64]
F64: TypeAlias = npt.NDArray[np.float64]
AnyArray: TypeAlias = npt.NDArray[Any]
Instant: TypeAlias = int

Kind: TypeAlias = Literal["float", "int", "text", "bool", "time", "list", "tokens"]
"""Kinds of the stream's columns. No operator reads a ``list``; the host turns it into sets of ``tokens`` (``Ragged``) or vectors."""

NULL: int = -(2**63)
"""A null in an int64 column (kinds int, text, bool, time); a null in a float64 column is NaN."""

NEVER: int = 2**63 - 1
"""An instant later than every event."""

DELETION_TARGET: str = "$target"
"""Name of the column of ``Arrivals`` (int64) that holds deletions, for operators that support them.

A deletion is a row with ``seq`` = -1 and the seq of the deleted object in this column; rows of objects have ``NULL``. Within a key, a
deletion follows the objects that arrived before it. The host resolves ids to live objects and drops deletions without one. Operators do
not read the other columns of a deletion.
"""

# Causes of a change: integers in blocks, words in tables.
EXPIRY, DELETE, DISPLACED, ARRIVAL, PROMOTED, CROSSING, BOUNDARY = range(7)
CAUSES: tuple[str, ...] = ("expiry", "delete", "displaced", "arrival", "promoted", "crossing", "boundary")


class Misfit(NamedTuple):
    """A bound of a window that another window cannot contain: its kind, its size, and the largest size (None: no such bound)."""

    kind: Literal["count", "time"]
    requested: int
    most: int | None


@dataclass(frozen=True, slots=True)
class Calendar:
    """Tumbling windows of ``micros`` in the local time of ``zone``, moved by ``offset`` microseconds (``calendar``).

    ``months``: the length in months instead, if it is not 0; ``micros`` is that of the longest such window then.
    """

    micros: int
    zone: str = "UTC"
    offset: int = 0
    months: int = 0


@dataclass(frozen=True, slots=True)
class Window:
    """A sliding window: the ``count`` most recent objects, ``micros`` of time (half open), or both (whichever ends first).

    ``tumbling``: of these the objects of the calendar window that contains the instant. ``session``: of these the objects of groups that
    have not been silent for so many microseconds. ``hopping``: at a boundary b of a query with ``every``, the objects of [b - micros, b)
    instead of (b - micros, b]. A query's window must fit into its state's window (``misfits``) and inherits the bounds
    that it lacks (``within``).
    """

    count: int | None = None
    micros: int | None = None
    tumbling: Calendar | None = None
    session: int | None = None
    hopping: bool = False

    def within(self, largest: Window) -> Window:
        """Return the window with the bounds of ``largest`` where it has none."""
        return Window(
            largest.count if self.count is None else self.count,
            largest.micros if self.micros is None else self.micros,
            self.tumbling,
            self.session,
            self.hopping,
        )

    def misfits(self, largest: Window) -> list[Misfit]:
        """Return the bounds that ``largest`` lacks, that are larger than its, or less than 1; none if the window fits."""
        found = []
        if self.count is not None and (largest.count is None or not 1 <= self.count <= largest.count):
            found.append(Misfit("count", self.count, largest.count))
        if self.micros is not None and (largest.micros is None or not 1 <= self.micros <= largest.micros):
            found.append(Misfit("time", self.micros, largest.micros))
        return found

    @staticmethod
    def union(windows: Iterable[Window]) -> Window:
        """Return the smallest window that contains all of ``windows`` (at least one)."""
        every = list(windows)
        counts = [w.count for w in every if w.count is not None]
        times = [w.micros for w in every if w.micros is not None]
        return Window(max(counts) if len(counts) == len(every) else None, max(times) if len(times) == len(every) else None)


@dataclass(frozen=True, slots=True)
class Column:
    """A column that an operator reads: ``float`` as float64, ``tokens`` and ``characters`` as ``Ragged``, every other kind as int64.

    Text is coded. A column of kind ``object`` (``object_column``) holds the number of the object that a row reports on, one of kind
    ``units`` (``units_column``) a decimal as the whole number of its smallest units, one of kind ``characters`` the code points of texts,
    one of kind ``vector`` float64 (rows, ``dimension``), a null row all NaN.
    The host computes ``expression``, over one object, from the columns ``reads`` of the stream.
    """

    name: str
    kind: Kind | Literal["object", "units", "characters", "vector"]
    expression: Node | None = None
    reads: tuple[str, ...] = ()
    dimension: int = 0

    @property
    def sources(self) -> tuple[str, ...]:
        """Return the columns of the stream that it is made of, except for kind ``object``."""
        return self.reads or (self.name.removeprefix(UNITS) if self.kind == "units" else self.name,)


UNITS: str = "%"
"""Prefix of the names of columns of kind ``units``."""

TOKENS: Final = "#"
"""Prefix of the names of columns of kind ``tokens``."""

CHARACTERS: Final = "~"
"""Prefix of the names of columns of kind ``characters``."""

DERIVED: Final = "="
"""Prefix of the names of columns that the host computes from others."""


def units_column(name: str) -> Column:
    """Return the column with the decimals of ``name`` (up to 18 digits) as whole numbers: 1.25 of a decimal(9,2) is 125."""
    return Column(UNITS + name, "units")


def object_column(columns: Sequence[str]) -> Column:
    """Return the column with the number of the object that ``columns`` name together.

    Equal values of ``columns`` in one key have the same number as long as ``ObjectLogic.objects`` returns it. Numbers have no order and are
    never reused.
    """
    return Column("$" + ",".join(columns), "object")


def object_columns(column: Column) -> tuple[str, ...]:
    """Return the naming columns of a column made by ``object_column``."""
    return tuple(column.name[1:].split(","))


@dataclass(frozen=True, slots=True)
class Ragged:
    """Rows of varying length: row i is ``values[start[i] : start[i + 1]]``. ``start`` int64 (rows + 1,), ``values`` int64.

    A text that is null has the one value ``NULL``.
    """

    start: I64
    values: I64


@dataclass(frozen=True, slots=True)
class Named:
    """Names of objects that are new to a logic (``Arrivals.named``). ``number`` int64 (n,); row i of ``words`` is the name of the i-th.

    A name is a sequence of int64 words. Different names have different words, and the lexicographic order of words is the order of the
    naming columns' values: numbers and instants by value, texts by their UTF-8 bytes, false before true.
    """

    number: I64
    words: Ragged


@dataclass(frozen=True, slots=True)
class Arrivals:
    """Accepted objects of one bucket, sorted by (key, seq); within a key, time never goes back and seq has no gaps.

    ``columns[name]`` is float64 (null is NaN) for kind ``float`` and int64 (null is ``NULL``) otherwise. Text is coded: equal texts have
    equal codes, a text constant of the spec has the code that the plan assigned; codes have no order. A column of kind ``vector`` is
    float64 (n, dimension): each row finite, or all NaN for null.
    ``ragged[name]`` holds the columns of kind ``tokens``, the distinct codes of each row in no order, and those of kind ``characters``.
    ``named[name]``, for a column of kind ``object``, names the objects that the logic's last ``objects()`` did not return, each once.
    Codes of retained rows that an operator with ``keeps = "retained"`` stores in its own arrays stay valid across a restore.
    ``found``: what shards have found of these arrivals, for a logic made by ``shards.Shardable.build_merge``.
    """

    key: I64
    seq: I64
    time: I64
    columns: Mapping[str, AnyArray]
    ragged: Mapping[str, Ragged] = field(default_factory=dict)
    named: Mapping[str, Named] = field(default_factory=dict)
    found: FoundPairs | None = None

    def __len__(self) -> int:
        return len(self.seq)


@dataclass(frozen=True, slots=True)
class Traces:
    """Points of trajectories: from ``at`` (n,) until its next point, the item ``items`` (n, w) of ``query`` and ``key`` has ``values``.

    Sorted by (query, key, at). The rows of a query go to its table ``<query>_trajectory``.
    """

    query: npt.NDArray[np.int16]
    key: I64
    at: I64
    items: I64
    values: Mapping[str, AnyArray]

    def __len__(self) -> int:
        return len(self.at)


@dataclass(frozen=True, slots=True)
class Finals:
    """Results of tumbling windows as they close: ``items`` (n, w) with ``rank``, 1, 2, 3, ..., and ``values``, of [``start``, ``end``).

    Sorted by (query, key, end, rank). The rows of a query go to its table ``<query>_final``.
    """

    query: npt.NDArray[np.int16]
    key: I64
    start: I64
    end: I64
    rank: I64
    items: I64
    values: Mapping[str, AnyArray]

    def __len__(self) -> int:
        return len(self.end)


@dataclass(frozen=True, slots=True)
class Changes:
    """Changes of the results in one ``advance``, sorted by (query, key, step, pos).

    ``query`` is the index into the operator's ``queries``; ``at`` the event time; ``step`` counts 1, 2, 3, ... per query and key over the
    life of the stream; ``sign`` is +1 or -1; ``cause`` is one of the codes above; ``items`` (m, w) holds the seqs of the item's objects in
    the order of ``Operator.roles``, or the number from ``object_column`` for a part that is not a row.
    ``values``: further columns of the items (m,), for types with other values than a score. ``traces``: for types with time-varying values.
    ``finals``: for tumbling windows.
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
    finals: Finals | None = field(default=None, kw_only=True)

    def __len__(self) -> int:
        return len(self.at)

    @classmethod
    def empty(cls, width: int) -> Changes:
        """Return no changes, of items of ``width`` objects."""
        i64 = np.empty(0, np.int64)
        return cls(
            query=np.empty(0, np.int16), key=i64, at=i64, step=i64, pos=np.empty(0, np.int32), sign=np.empty(0, np.int8),
            cause=np.empty(0, np.int8), score=np.empty(0, np.float64), items=np.empty((0, width), np.int64),
        )  # fmt: skip


CHANGE_COLUMNS: Final = ("query", "key", "at", "step", "pos", "sign", "cause", "score", "items")
"""The columns that all ``Changes`` have, in the order of the fields."""


@dataclass(frozen=True, slots=True)
class Items:
    """Result items, in rank order (a snapshot) or grouped by key (a skyband); ``items`` as in ``Changes``.

    ``extra`` holds further columns of the state's table (for instance the row that hides an item).
    """

    key: I64
    items: I64
    score: F64
    extra: Mapping[str, AnyArray] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.score)


@dataclass(frozen=True, slots=True)
class State:
    """The state that a logic is restored from: the arrays of its last ``checkpoint`` and the rows that the host kept.

    ``rows`` holds, for ``keeps = "window"``, every object alive in the operator's window at the checkpoint and perhaps older ones; for
    ``"retained"``, the rows that ``retained`` returned; for ``"none"``, no rows.
    """

    arrays: Mapping[str, AnyArray]
    rows: Arrivals


@runtime_checkable
class Operator(Protocol):
    """The frozen, picklable configuration of one shared state and the queries it answers.

    An operator with an attribute ``state_keys`` (``state_keys.Divisible``) has a state that can be divided by keys.
    """

    state_format: ClassVar[str]
    """The name of the state's layout. It stays the same when the class is renamed."""
    query_types: ClassVar[frozenset[str]]
    keeps: ClassVar[Literal["window", "retained", "none"]]

    @property
    def roles(self) -> tuple[str, ...]:
        """Return the prefixes of an item's objects: ``("older", "newer")``, ``("a", "b")`` or ``("",)`` for single objects."""
        ...

    @property
    def columns(self) -> tuple[Column, ...]:
        """Return the columns that ``Arrivals`` must contain."""
        ...

    @property
    def window(self) -> Window:
        """Return the largest window that this state answers (at most the job's)."""
        ...

    def build(self, state: State | None) -> Logic:
        """Return a logic that continues ``state`` bit for bit, or an empty one."""
        ...


class Logic(Protocol):
    """The state of one bucket of keys and its transitions. Not thread-safe."""

    def advance(self, arrivals: Arrivals, until: Instant) -> Changes:
        """Process every event with instant < ``until``: the arrivals (previous until <= time < until), expiries and boundaries.

        An expiry or boundary at instant e is processed iff e < ``until``, for keys without arrivals too. The changes depend only on the
        concatenated arrivals, not on how they are cut into calls.
        """
        ...

    def wake(self) -> Instant | None:
        """Return the next instant at which a result may change without an arrival, or None. It may be too early, never too late.

        ``advance(..., until)`` with until > that instant processes it.
        """
        ...

    def checkpoint(self) -> dict[str, AnyArray]:
        """Return the arrays (1-d or 2-d, fixed-width dtypes) that restore this logic together with the kept rows."""
        ...

    def retained(self) -> tuple[I64, I64]:
        """Return (key, seq) of the rows still needed: all with ``keeps = "retained"``, those outside the window with ``"window"``.

        The latter are objects that a query with ``every`` still shows and removes at its next boundary.
        """
        ...

    def snapshot(self, key: int, k: int, window: Window, query: int = 0) -> Items:
        """Return the result for any k <= K and window n <= N as of now, in rank order. Raise ValueError beyond K or N."""
        ...

    def skyband(self) -> Items:
        """Return all items that can still enter a result for any k <= K and n <= N, of every key, grouped by key."""
        ...

    def counters(self) -> dict[str, int]:
        """Return the counters since the last call and reset them.

        ``unusable:<query index>`` counts objects that the query admits but cannot use (a null score, for instance), and
        ``asked:<query index>`` all objects that it admits; without it, these are all objects.
        """
        ...


class ObjectLogic(Logic, Protocol):
    """The logic of an operator with columns of kind ``object``."""

    def objects(self) -> I64:
        """Return the numbers of the objects still needed, in any order. The host forgets the others; they get new numbers later."""
        ...
