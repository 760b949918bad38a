"""The shape of a query's result items: their parts, identity columns, values and rank order.

A query states its shape once. The checks of a spec, the tables' columns, the host, the reader, the SQL and ``verify`` use it. Imports
neither Spark nor Arrow.

An item has *parts*. A part is a row of the window, identified by its ``seq``, or an *object* that many rows report on (a station, an
account), identified by the values of some columns. In operators and change streams a part is one int64: the seq of the row, or the
number that the host assigned to the object.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

SCORE: Final = "score"


@dataclass(frozen=True, slots=True)
class Part:
    """A part of an item. ``role``: prefix of its columns or ""; ``said``: a description; ``columns``: those that identify an object."""

    role: str
    said: str
    columns: tuple[str, ...] = ()

    @property
    def prefix(self) -> str:
        """Return the prefix of the names of its columns."""
        return f"{self.role}_" if self.role else ""

    @property
    def is_row(self) -> bool:
        """Return True if the part is a row of the window."""
        return not self.columns


ROW: Final = (Part("", "the object"),)
"""The parts of an item that is one row."""


@dataclass(frozen=True, slots=True)
class Value:
    """Describe a column of an item that the operator computes: name, type (Spark DDL), meaning.

    ``nullable``: a NaN of the operator is null.
    """

    name: str
    type: str
    comment: str
    nullable: bool = False


@dataclass(frozen=True, slots=True)
class TimeVarying:
    """A value that varies between changes: ``value``, in seconds, grows by ``slope`` seconds per second. Both are columns of the item.

    Without ``slope``, the value is any number, constant between the instants at which rows change it.
    ``all_items``: the table of trajectories covers all items. Otherwise it covers members of the result, with a point where one enters.
    Points have what changes carry (``ItemShape.carried``), too, and there is one wherever any of it is another value.
    """

    value: str
    slope: str | None
    all_items: bool = False

    @property
    def columns(self) -> tuple[str, ...]:
        """Return the columns of a point."""
        return (self.value,) if self.slope is None else (self.value, self.slope)


@dataclass(frozen=True, slots=True)
class RankTerm:
    """Rank by the value, the least or the greatest of ``columns``; order "query" is the query's direction.

    ``nullable``: the value may be null or NaN, which rank after all values. Only such a term may be something else than a number.
    """

    columns: tuple[str, ...]
    order: Literal["asc", "desc", "query"]
    of: Literal["value", "least", "greatest"] = "value"
    nullable: bool = False


@dataclass(frozen=True, slots=True)
class ItemColumn:
    """A column of an item's rows. ``source``: the user's column it comes from, "" if none; ``part``: number of its part.

    ``type`` (Spark DDL), if it is not that of the source; ``said``: a description, where it is a column of its own.
    """

    name: str
    source: str
    part: int
    what: Literal["id", "seq", "time", "carry", "object"]
    type: str | None = None
    said: str = ""


@dataclass(frozen=True, slots=True)
class ItemShape:
    """The shape of an item. ``rank``: a complete rank order; ``extra``: further columns of the state's table; ``carried``: columns with
    what the operator computes for each change (``Changes.values``), besides ``values``.

    ``hidden_by``: the extra column with the seq of a row that hides the item while that row is in the window (its time is in the column
    ``<hidden_by>_time``). ``time_varying``: its time-varying value, whose trajectories have a table. ``lasting``: items enter and leave a
    result. Otherwise an item is reported once, when the newest of its rows arrives, and not kept: the query has changes and no result.
    ``closes``: the query has tumbling windows, whose final results have a table.
    """

    parts: tuple[Part, ...]
    rank: tuple[RankTerm, ...]
    values: tuple[Value, ...] = ()
    extra: tuple[Value, ...] = ()
    hidden_by: str | None = None
    time_varying: TimeVarying | None = None
    lasting: bool = True
    carried: tuple[ItemColumn, ...] = ()
    closes: bool = False

    @property
    def varies(self) -> bool:
        """Return True if values vary with time, so that an item may leave with other values than it entered with."""
        return self.time_varying is not None

    @property
    def varying_columns(self) -> tuple[str, ...]:
        """Return the columns whose values vary between changes, as points of trajectories have them: the value, and what is carried."""
        return () if self.time_varying is None else (*self.time_varying.columns, *(c.name for c in self.carried))

    @property
    def moves(self) -> bool:
        """Return True if values change with time alone, so that a result changes without an event."""
        return self.time_varying is not None and self.time_varying.slope is not None

    @property
    def scored(self) -> bool:
        """Return True if items have a score."""
        return any(v.name == SCORE for v in self.values)

    @property
    def any_k(self) -> bool:
        """Return True if the state's table has every item that nothing hides, with its score, and so answers any k."""
        return self.hidden_by is not None and self.scored

    @property
    def rows(self) -> tuple[Part, ...]:
        """Return the parts that are rows."""
        return tuple(p for p in self.parts if p.is_row)

    @property
    def by_age(self) -> bool:
        """Return True if the rows are ordered by age."""
        return in_order_of_age(self.rows)

    def identity(self, keys: Iterable[str] = ()) -> tuple[str, ...]:
        """Return the columns that, with the key columns ``keys``, identify an item."""
        keys = set(keys)
        named: list[str] = []
        for part in self.parts:
            named += [part.prefix + "seq"] if part.is_row else [part.prefix + c for c in part.columns if part.prefix or c not in keys]
        return tuple(named)

    def columns(self, id_: Iterable[str], carry: Iterable[str], keys: Iterable[str]) -> list[ItemColumn]:
        """Return the item's columns in order.

        A row has its id (without key columns), seq, time and carried columns; an object has the columns that identify it. Then come those
        that the operator computes.
        """
        id_, carry, keys = tuple(id_), tuple(carry), set(keys)
        made: list[ItemColumn] = []
        for n, part in enumerate(self.parts):
            prefix = part.prefix
            if not part.is_row:
                made += [ItemColumn(prefix + c, c, n, "object") for c in part.columns if prefix or c not in keys]
                continue
            made += [ItemColumn(prefix + c, c, n, "id") for c in id_ if prefix or c not in keys]
            made += [ItemColumn(prefix + "seq", "", n, "seq"), ItemColumn(prefix + "time", "", n, "time")]
            made += [ItemColumn(prefix + c, c, n, "carry") for c in carry]
        return [*made, *self.carried]


SCORE_VALUE: Final = Value(SCORE, "double", "score of the item; {best} ranks first")
"""The value of a ranked item; ``{best}`` becomes smaller or larger."""


def in_order_of_age(parts: tuple[Part, ...]) -> bool:
    """Return True if the first part is always the oldest row; sides (left, right) are not ordered by age."""
    return len(parts) < 2 or parts[0].role == "older"


def newest_first(parts: tuple[Part, ...]) -> tuple[RankTerm, ...]:
    """Return the terms that break ties: larger seq first, of the oldest row, then of the newest (docs/semantics 6)."""
    seqs = tuple(p.prefix + "seq" for p in parts)
    if not in_order_of_age(parts):
        return RankTerm(seqs, "desc", "least"), RankTerm(seqs, "desc", "greatest")
    return tuple(RankTerm((s,), "desc") for s in seqs)


def by_score(parts: tuple[Part, ...]) -> tuple[RankTerm, ...]:
    """Return the terms that rank by score in the query's direction, then newest first."""
    return RankTerm((SCORE,), "query"), *newest_first(parts)


@dataclass(frozen=True, slots=True)
class Descending:
    """Sort values that are no numbers, such as texts, in descending order."""

    value: Any

    def __lt__(self, other: Descending) -> bool:
        return bool(other.value < self.value)

    def __le__(self, other: Descending) -> bool:
        return bool(other.value <= self.value)


def rank_key(shape: ItemShape, smallest_first: bool) -> Callable[[Mapping[str, Any]], tuple[Any, ...]]:
    """Return a sort key for items as mappings of the shape's columns; ``smallest_first`` is the query's direction.

    Columns ranked in descending order must be numbers, unless their term is nullable.
    """

    def key(item: Mapping[str, Any]) -> tuple[Any, ...]:
        found = []
        for term in shape.rank:
            values = [item[c] for c in term.columns]
            ascending = term.order == "asc" or (term.order == "query" and smallest_first)
            if term.nullable:
                found.append(_nulls_last(values[0], ascending))
                continue
            value = min(values) if term.of == "least" else max(values) if term.of == "greatest" else values[0]
            found.append(value if ascending else -value)
        return tuple(found)

    return key


def _nulls_last(value: Any, ascending: bool) -> tuple[Any, ...]:
    """Return a sort key of a value, after those of all values for null and NaN; text is compared by its characters, as by its UTF-8."""
    if value is None or value != value:
        return (1,)
    return (0, value) if ascending else (0, Descending(value))
