"""Where keys stand in the arrays of a checkpoint, so that a bucket's state can be divided among buckets without knowing what it means.

A kind of state says it once, as data (``StateKeys``, an operator's ``state_keys``); nothing is computed anew. An operator that does not say
it has a state that stays in one piece.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

import numpy as np

from skyband.operators.base import I64, AnyArray


class Owners(Protocol):
    """What tells the keys of a group's rows, by array ``name``."""

    @property
    def name(self) -> str:
        """That array."""
        ...

    def of(self, arrays: Mapping[str, AnyArray]) -> I64:
        """The key of every row, in the rows' order."""
        ...

    def picked(self, arrays: Mapping[str, AnyArray], keys: I64, kept: I64) -> dict[str, AnyArray]:
        """The arrays that tell it of the rows ``kept``, all those of ``keys`` (ascending), which are numbered 0, 1, 2, ... now."""
        ...


@dataclass(frozen=True, slots=True)
class Named:
    """The keys themselves stand in array ``name``, or in a ``column`` of it, together with other values of the rows."""

    name: str
    column: int | None = None

    def of(self, arrays: Mapping[str, AnyArray]) -> I64:
        """See ``Owners.of``."""
        found: I64 = arrays[self.name] if self.column is None else arrays[self.name][:, self.column]
        return found

    def picked(self, arrays: Mapping[str, AnyArray], keys: I64, kept: I64) -> dict[str, AnyArray]:
        """See ``Owners.picked``."""
        made = arrays[self.name][kept].copy()
        (made if self.column is None else made[:, self.column])[:] = np.searchsorted(keys, self.of(arrays)[kept])
        return {self.name: made}


@dataclass(frozen=True, slots=True)
class Counted:
    """Rows lie one list after the other; array ``name`` has the lists' lengths, its last axis runs over keys."""

    name: str

    def of(self, arrays: Mapping[str, AnyArray]) -> I64:
        """See ``Owners.of``."""
        lengths = arrays[self.name]
        return np.repeat(np.arange(lengths.size) % max(1, lengths.shape[-1]), lengths.ravel())

    def picked(self, arrays: Mapping[str, AnyArray], keys: I64, kept: I64) -> dict[str, AnyArray]:
        """See ``Owners.picked``."""
        return {self.name: _taken(arrays[self.name], keys, -1)}


@dataclass(frozen=True, slots=True)
class Started:
    """Rows lie key after key, as many lists each; array ``name`` has where the lists start, and the end.

    It may be just [0] if there are none. ``each``: an array with as many rows as there are keys.
    """

    name: str
    each: str

    def _lengths(self, arrays: Mapping[str, AnyArray]) -> I64:
        count = len(arrays[self.each])
        return np.diff(arrays[self.name]).reshape(count, -1) if len(arrays[self.name]) > 1 else np.empty((count, 0), np.int64)

    def of(self, arrays: Mapping[str, AnyArray]) -> I64:
        """See ``Owners.of``."""
        lengths = self._lengths(arrays)
        return np.repeat(np.arange(len(lengths)), lengths.sum(axis=1))

    def picked(self, arrays: Mapping[str, AnyArray], keys: I64, kept: I64) -> dict[str, AnyArray]:
        """See ``Owners.picked``."""
        lengths = _taken(self._lengths(arrays), keys, 0).ravel()
        return {self.name: np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)}


@dataclass(frozen=True, slots=True)
class Group:
    """``rows``: arrays (those that there are) by the axis that runs over the rows of ``owners``."""

    owners: Owners
    rows: Mapping[str, int] = field(default_factory=dict)
    places: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Arrays of places among the rows, each with others that run along with it."""

    def picked(self, arrays: Mapping[str, AnyArray], keys: I64) -> dict[str, AnyArray]:
        """The rows of ``keys``."""
        kept = _among(self.owners.of(arrays), keys)
        made = {name: arrays[name].take(kept, axis=axis) for name, axis in self.rows.items() if name in arrays}
        for name, others in self.places.items():
            mine = _among(arrays[name], kept)
            made[name] = np.searchsorted(kept, arrays[name][mine])
            made |= {other: arrays[other][mine] for other in others}
        return made | self.owners.picked(arrays, keys, kept)


@runtime_checkable
class Divisible(Protocol):
    """A kind of state that can be divided by keys."""

    def picked(self, arrays: Mapping[str, AnyArray], keys: I64) -> dict[str, AnyArray]:
        """The checkpoint of ``keys`` (int64, ascending) alone, numbered 0, 1, 2, ... in their order. O(arrays).

        Raises ValueError if there are arrays of which nothing is known.
        """
        ...


@dataclass(frozen=True, slots=True)
class StateKeys:
    """The arrays of a checkpoint: ``whole`` ones stay, those of ``each`` have an axis that runs over keys, the rest is in ``groups``.

    A group without the array that tells its keys counts for nothing: there are none in this checkpoint.
    """

    each: Mapping[str, int]
    groups: tuple[Group, ...] = ()
    whole: tuple[str, ...] = ("until",)

    def picked(self, arrays: Mapping[str, AnyArray], keys: I64) -> dict[str, AnyArray]:
        """See ``Divisible.picked``."""
        made = {name: arrays[name].copy() for name in self.whole}
        made |= {name: _taken(arrays[name], keys, axis) for name, axis in self.each.items() if name in arrays}
        for group in self.groups:
            if group.owners.name in arrays:
                made |= group.picked(arrays, keys)
        if unknown := sorted(set(arrays) - set(made)):
            raise ValueError(f"nothing is said of the keys of {', '.join(unknown)}")
        return made


def state_keys(operator: object) -> Divisible | None:
    """How the state of ``operator`` is divided; None if it does not say."""
    found = getattr(operator, "state_keys", None)
    return found if isinstance(found, Divisible) else None


def _among(values: AnyArray, wanted: I64) -> I64:
    """Where ``values`` has one of ``wanted`` (ascending)."""
    if not len(wanted):
        return np.empty(0, np.int64)
    at = np.minimum(np.searchsorted(wanted, values), len(wanted) - 1)
    return np.flatnonzero(wanted[at] == values)


def _taken(a: AnyArray, keys: I64, axis: int) -> AnyArray:
    """Of keys that came after the operator's last row there is nothing."""
    found: AnyArray = a.take(keys[: np.searchsorted(keys, a.shape[axis])], axis=axis)
    return found
