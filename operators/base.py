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

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, Protocol, TypeAlias, runtime_checkable

import numpy as np
import numpy.typing as npt

I64: TypeAlias = npt.NDArray[np.int64]
F64: TypeAlias = npt.NDArray[np.float64]
AnyArray: TypeAlias = npt.NDArray[Any]
Instant: TypeAlias = int

Kind: TypeAlias = Literal["float", "int", "text", "bool", "time"]

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


@dataclass(frozen=True, slots=True)
class Window:
    """A sliding window: ``count`` most recent objects, ``micros`` of time (half open), or both (whichever ends first)."""

    count: int | None = None
    micros: int | None = None


@dataclass(frozen=True, slots=True)
class Column:
    """An attribute an operator needs. ``float`` arrives as float64, every other kind as int64 (text as codes)."""

    name: str
    kind: Kind


@dataclass(frozen=True, slots=True)
class Arrivals:
    """Accepted objects of one bucket, sorted by (key, seq); within a key, time never goes back and seq has no gaps.

    ``columns[name]`` is float64 (null is NaN) for kind ``float`` and int64 (null is ``NULL``) otherwise. Text comes as codes:
    equal text has equal codes, a text constant of the spec has the code the plan gave it; codes have no order.
    Codes an operator with ``keeps = "retained"`` may hold in its own arrays (those of rows it names) stay valid across a restore.
    """

    key: I64
    seq: I64
    time: I64
    columns: Mapping[str, AnyArray]

    def __len__(self) -> int:
        return len(self.seq)


@dataclass(frozen=True, slots=True)
class Changes:
    """Result changes of one ``advance``: grouped by (query, key), then by step, then pos.

    ``query`` is the index into the operator's ``queries``; ``at`` the event time; ``step`` counts 1, 2, 3, ... per query
    and key over the whole life of the stream; ``sign`` is +1 or -1; ``cause`` one of the codes above; ``items`` has shape
    (m, w): the seqs of the item's objects in the order of ``Operator.roles``.
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

    ``extra`` holds further columns a kind of state needs in its table (a skyline's ``pred`` for instance).
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
    """Frozen, picklable configuration of one shared state and the queries it answers."""

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
        """Work counters since the last call; ``unusable:<query index>`` counts objects that query could not use."""
        ...
