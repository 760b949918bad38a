"""Describe where keys stand in the arrays of a checkpoint, so that a bucket's state can be split without interpreting it.

A kind of state declares this as data (``StateKeys``, an operator's ``state_keys``). The state of an operator without it cannot be split.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

import numpy as np

from skyband.operators.base import I64, AnyArray


class Owners(Protocol):
    """Determines the keys of a group's rows from the array ``name``."""

    @property
    def name(self) -> str:
        """Return the name of the array."""
        ...

    def of(self, arrays: Mapping[str, AnyArray]) -> I64:
        """Return the key of every row, in row order."""
        ...

    def picked(self, arrays: Mapping[str, AnyArray], keys: I64, kept: I64) -> dict[str, AnyArray]:
        """Return that array for the rows ``kept``, which are all rows of ``keys`` (ascending), with keys renumbered 0, 1, 2, ..."""
        ...


@dataclass(frozen=True, slots=True)
class Named:
    """Array ``name``, or a ``column`` of it, holds the key of each row."""

    name: str
    column: int | None = None

    def of(self, arrays: Mapping[str, AnyArray]) -> I64:
        """Return the key of every row, in row order."""
        found: I64 = arrays[self.name] if self.column is None else arrays[self.name][:, self.column]
        return found

    def picked(self, arrays: Mapping[str, AnyArray], keys: I64, kept: I64) -> dict[str, AnyArray]:
        """Return the array for the rows ``kept``, as ``Owners.picked``."""
        selected = arrays[self.name][kept].copy()
        (selected if self.column is None else selected[:, self.column])[:] = np.searchsorted(keys, self.of(arrays)[kept])
        return {self.name: selected}


@dataclass(frozen=True, slots=True)
class Counted:
    """Rows are stored list after list; array ``name`` holds the lists' lengths, and its last axis runs over keys."""

    name: str

    def of(self, arrays: Mapping[str, AnyArray]) -> I64:
        """Return the key of every row, in row order."""
        lengths = arrays[self.name]
        return np.repeat(np.arange(lengths.size) % max(1, lengths.shape[-1]), lengths.ravel())

    def picked(self, arrays: Mapping[str, AnyArray], keys: I64, kept: I64) -> dict[str, AnyArray]:
        """Return the array for the rows ``kept``, as ``Owners.picked``."""
        return {self.name: _take_keys(arrays[self.name], keys, -1)}


@dataclass(frozen=True, slots=True)
class Started:
    """Rows are stored key after key, the same number of lists for each; array ``name`` holds the lists' starts, and the end.

    It may be [0] if there are no lists. ``each``: an array with one row per key.
    """

    name: str
    each: str

    def _lengths(self, arrays: Mapping[str, AnyArray]) -> I64:
        count = len(arrays[self.each])
        return np.diff(arrays[self.name]).reshape(count, -1) if len(arrays[self.name]) > 1 else np.empty((count, 0), np.int64)

    def of(self, arrays: Mapping[str, AnyArray]) -> I64:
        """Return the key of every row, in row order."""
        lengths = self._lengths(arrays)
        return np.repeat(np.arange(len(lengths)), lengths.sum(axis=1))

    def picked(self, arrays: Mapping[str, AnyArray], keys: I64, kept: I64) -> dict[str, AnyArray]:
        """Return the array for the rows ``kept``, as ``Owners.picked``."""
        lengths = _take_keys(self._lengths(arrays), keys, 0).ravel()
        return {self.name: np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)}


@dataclass(frozen=True, slots=True)
class Group:
    """``rows``: for each array (absent ones are ignored), the axis that runs over the rows of ``owners``."""

    owners: Owners
    rows: Mapping[str, int] = field(default_factory=dict)
    places: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Arrays of indices into the rows, each with the arrays parallel to it."""

    def picked(self, arrays: Mapping[str, AnyArray], keys: I64) -> dict[str, AnyArray]:
        """Return the arrays of the rows of ``keys``."""
        kept = _indices_of(self.owners.of(arrays), keys)
        selected = {name: arrays[name].take(kept, axis=axis) for name, axis in self.rows.items() if name in arrays}
        for name, others in self.places.items():
            mine = _indices_of(arrays[name], kept)
            selected[name] = np.searchsorted(kept, arrays[name][mine])
            selected |= {other: arrays[other][mine] for other in others}
        return selected | self.owners.picked(arrays, keys, kept)


@runtime_checkable
class Divisible(Protocol):
    """A state that can be divided by keys."""

    def picked(self, arrays: Mapping[str, AnyArray], keys: I64) -> dict[str, AnyArray]:
        """Return the checkpoint of only ``keys`` (int64, ascending), renumbered 0, 1, 2, ... in order. O(arrays).

        Raises ValueError for an array that is not declared.
        """
        ...


@dataclass(frozen=True, slots=True)
class StateKeys:
    """The arrays of a checkpoint: ``whole`` ones are copied, those of ``each`` have an axis over keys, the others are in ``groups``.

    A group whose owners' array is absent is ignored.
    """

    each: Mapping[str, int]
    groups: tuple[Group, ...] = ()
    whole: tuple[str, ...] = ("until",)

    def picked(self, arrays: Mapping[str, AnyArray], keys: I64) -> dict[str, AnyArray]:
        """Return the arrays of some keys, as ``Divisible.picked``."""
        selected = {name: arrays[name].copy() for name in self.whole}
        selected |= {name: _take_keys(arrays[name], keys, axis) for name, axis in self.each.items() if name in arrays}
        for group in self.groups:
            if group.owners.name in arrays:
                selected |= group.picked(arrays, keys)
        if unknown := sorted(set(arrays) - set(selected)):
            raise ValueError(f"state_keys does not declare {', '.join(unknown)}")
        return selected


@runtime_checkable
class HoldsCodes(Protocol):
    """An operator whose checkpoints may have codes of texts that no kept row has: the host keeps these texts."""

    @property
    def holds_codes(self) -> bool:
        """Return True if a checkpoint may have such codes."""
        ...

    def codes_in(self, arrays: Mapping[str, AnyArray]) -> I64:
        """Return the codes of texts in the arrays of a checkpoint, each once."""
        ...


def state_keys(operator: object) -> Divisible | None:
    """Return how to divide the state of ``operator``, or None if it cannot be divided."""
    found = getattr(operator, "state_keys", None)
    return found if isinstance(found, Divisible) else None


def _indices_of(values: AnyArray, sorted_values: I64) -> I64:
    """Return the indices at which ``values`` has one of ``sorted_values`` (ascending)."""
    if not len(sorted_values):
        return np.empty(0, np.int64)
    at = np.minimum(np.searchsorted(sorted_values, values), len(sorted_values) - 1)
    return np.flatnonzero(sorted_values[at] == values)


def _take_keys(a: AnyArray, keys: I64, axis: int) -> AnyArray:
    """Take ``keys`` along ``axis``, without keys that arrived after the operator's last row."""
    found: AnyArray = a.take(keys[: np.searchsorted(keys, a.shape[axis])], axis=axis)
    return found
